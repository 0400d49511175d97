"""Methods of tensors that NumPy and PyTorch have too."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from helpers import told
from numpy_tables import check_rows, check_second_order

import pullback as pb
from pullback.errors import ArgumentError, AxisError, DTypeError, InPlaceError, ShapeError

RNG = np.random.default_rng(17)
X = RNG.normal(size=(2, 3, 4))
A = RNG.normal(size=(3, 4))
MASK = A > 0


def test_methods_that_change_shapes_agree_with_numpy():
    x, a = (lambda: pb.tensor(X)), (lambda: pb.tensor(A))
    rows = [
        ("view", lambda: x().view(6, -1), X.reshape(6, 4)),
        ("view tuple", lambda: x().view((24,)), X.reshape(24)),
        ("view dtype", lambda: a().view(pb.int64), A.view(np.int64)),
        ("view dtype name", lambda: a().view("uint64"), A.view(np.uint64)),
        ("view_as", lambda: a().view_as(pb.ones((2, 6))), A.reshape(2, 6)),
        ("reshape_as", lambda: a().reshape_as(pb.ones((6, 2))), A.reshape(6, 2)),
        ("unsqueeze", lambda: a().unsqueeze(1), A[:, None]),
        ("unsqueeze end", lambda: a().unsqueeze(-1), A[..., None]),
        ("flatten", lambda: x().flatten(1), X.reshape(2, 12)),
        ("flatten part", lambda: x().flatten(0, -2), X.reshape(6, 4)),
        ("flatten 0-d", lambda: x().sum().flatten(0, 0), X.sum().reshape(1)),
        ("unflatten", lambda: x().unflatten(-1, (2, -1)), X.reshape(2, 3, 2, 2)),
        ("expand", lambda: a().expand(2, -1, 4), np.broadcast_to(A, (2, 3, 4))),
        ("expand_as", lambda: a().expand_as(x()), np.broadcast_to(A, (2, 3, 4))),
        ("t", lambda: a().t(), A.T), ("t vector", lambda: a()[0].t(), A[0]),
        ("H", lambda: (a() * 1j).H, (A * 1j).T.conj()), ("mH", lambda: x().mH, X.mT),
        ("tile", lambda: a().tile(2, 1, 2), np.tile(A, (2, 1, 2))),
        ("movedim", lambda: x().movedim(0, 2), np.moveaxis(X, 0, 2)),
        ("chunk", lambda: a().chunk(3, 1), [A[:, :2], A[:, 2:]]),
        ("chunk many", lambda: pb.arange(5).chunk(9), np.split(np.arange(5), 5)),
        ("narrow", lambda: a().narrow(1, -3, 2), A[:, 1:3]),
        ("select", lambda: x().select(-1, 2), X[..., 2]),
        ("unbind", lambda: a().unbind(), list(A)),
        ("roll", lambda: a().roll(1, 0), np.roll(A, 1, 0)),
        ("repeat_interleave", lambda: a().repeat_interleave(2, 1), np.repeat(A, 2, 1)),
    ]  # fmt: skip
    check_rows(rows)


def test_methods_on_elements_agree_with_numpy():
    a, i = (lambda: pb.tensor(A)), np.array([[7, -7], [3, 5]])
    whole = lambda: pb.tensor(i)  # noqa: E731
    top = np.sort(A, 1)
    rows = [
        ("add", lambda: a().add(2.0, alpha=3), A + 6.0), ("sub", lambda: a().sub(A, alpha=2), -A),
        ("mul", lambda: a().mul(A), A * A), ("div", lambda: a().div(2.0), A / 2),
        ("floor", lambda: whole().div(2, rounding_mode="floor"), i // 2),
        ("trunc", lambda: whole().div(2, rounding_mode="trunc"), np.trunc(i / 2).astype(i.dtype)),
        ("pow", lambda: a().pow(2), A**2), ("remainder", lambda: whole().remainder(4), i % 4),
        ("neg", lambda: a().neg(), -A), ("eq", lambda: a().eq(A), A == A),
        ("lt", lambda: a().lt(0.5), A < 0.5), ("clamp", lambda: a().clamp(-0.5, 0.5),
                                               np.clip(A, -0.5, 0.5)),
        ("clamp_min", lambda: a().clamp_min(0.1), np.maximum(A, 0.1)),
        ("clamp_max", lambda: a().clamp_max(0.1), np.minimum(A, 0.1)),
        ("where", lambda: a().where(MASK, 0.0), np.where(MASK, A, 0.0)),
        ("masked_fill", lambda: a().masked_fill(MASK, 2), np.where(MASK, 2.0, A)),
        ("masked_select", lambda: a().masked_select(MASK), A[MASK]),
        ("masked rows", lambda: a().masked_select(MASK[:, :1]), A[MASK[:, 0]].ravel()),
        ("index_select", lambda: a().index_select(1, [3, 0]), A[:, [3, 0]]),
        ("index_add", lambda: a().index_add(0, [0, 0], A[:2], alpha=2),
         A + [[1], [0], [0]] * (2 * A[:2].sum(0))),
        ("topk", lambda: a().topk(2, 1), [top[:, :1:-1], np.argsort(-A, 1)[:, :2]]),
        ("topk least", lambda: a().topk(2, largest=False), [top[:, :2], np.argsort(A, 1)[:, :2]]),
        ("mm", lambda: a().mm(A.T), A @ A.T), ("mv", lambda: a().mv(A[0]), A @ A[0]),
        ("trace", lambda: pb.tensor(X).trace(1, 1, 2), np.trace(X, 1, 1, 2)),
        ("cumsum", lambda: a().cumsum(), A.cumsum()), ("amax", lambda: a().amax(1), A.max(1)),
        ("round", lambda: a().round(1), A.round(1)), ("take", lambda: a().take([5]), A.take([5])),
        ("put", lambda: a().put_along_axis([[0]], 9.0, 0), np.vstack([[9.0] * 4, A[1:]])),
        ("std", lambda: a().std(ddof=1), A.std(ddof=1)), ("ravel", lambda: a().ravel(), A.ravel()),
        ("new_zeros", lambda: a().new_zeros(2, 2), np.zeros((2, 2))),
        ("new_ones", lambda: whole().new_ones((2,)), np.ones(2, np.int64)),
        ("new_full", lambda: a().new_full((2,), 3), np.full(2, 3.0)),
        ("new_tensor", lambda: a().new_tensor([1, 2]), np.array([1.0, 2.0])),
    ]  # fmt: skip
    check_rows(rows)


def test_methods_that_convert():
    x = pb.tensor([0.0, 1.5])
    made = {
        "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
        "int": "int32", "long": "int64", "short": "int16", "char": "int8", "byte": "uint8",
        "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
    }  # fmt: skip
    for method, dtype in made.items():
        assert getattr(x, method)().dtype.name == pb.ones(1, dtype=dtype).dtype.name
    same = pb.tensor([1, 2])
    assert x.type_as(same).tolist() == [0, 1] and x.to(same).dtype is pb.int64
    assert x.to(pb.float64).dtype is x.to("float64").dtype is x.to(np.float64).dtype is pb.float64
    assert x.to("cpu:0").device == x.cpu().device == x.to("cpu", pb.float64).device == "cpu:0"
    assert x.to(device="cpu:0", dtype="int32", non_blocking=True).dtype is pb.int32
    copied = x.to("float32")
    copied += 1
    assert x.tolist() == [0.0, 1.5] and (x.dim(), x.numel()) == (1, 2)
    assert x.tobytes() == x.numpy().tobytes()
    assert (pb.tensor(A).item(5), pb.tensor(A).item(1, 1)) == (A[1, 1], A[1, 1])
    assert x.clone().requires_grad_().requires_grad and not x.requires_grad


def test_methods_that_write():
    x = pb.tensor([1.0, 4.0])
    other = x
    assert x.add_(1.0).mul_(2.0) is x and other.tolist() == [4.0, 10.0]
    assert x.sub_(2.0, alpha=2).div_(3).tolist() == [0.0, 2.0]
    assert x.fill_(9).sqrt_().tolist() == [3.0, 3.0]
    assert x.copy_(pb.tensor([2, 5])).clamp_(3).tolist() == [3.0, 5.0]
    assert x.zero_().masked_fill_([True, False], 7).index_add_(0, [0], [1.0]).tolist() == [8.0, 0.0]
    x.fill(2.5)
    assert x.tolist() == [2.5, 2.5]
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    with told(InPlaceError, Exception, "mul_: f32[2] is a leaf that requires a gradient"):
        w.mul_(2.0)
    with pb.no_grad():
        assert w.mul_(2.0) is w and w.requires_grad and w.tolist() == [2.0, 4.0]

    def f(v):
        y = v * 2.0
        return y.pow_(3).sum()

    assert pb.grad(f)(pb.tensor([1.0, 2.0])).tolist() == [24.0, 96.0]
    assert pb.compile(f)(pb.tensor([1.0, 2.0])).item() == 72.0


def test_derivatives_of_methods():
    check_second_order(
        [lambda x: x.view(4, 3).t().add(x, alpha=2) ** 2, lambda x: x.masked_fill(MASK, 0.0) ** 3,
         lambda x: x.chunk(2, 1)[1] * x.topk(2)[0], lambda x: x.index_add(1, [0, 0], x[:, :2] ** 2),
         lambda x: x.div(x * x + 1.0), lambda x: (x * 1j).H.real, lambda x: x.expand(2, 3, 4) ** 2],
        A,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.split(2), ArgumentError, "Write x.chunk(n) or pb.split(x, n) for n parts"),
        (lambda x: x.repeat(2, 3), AxisError, "PyTorch's x.repeat(2, 3) is x.tile(2, 3) here"),
        (lambda x: x.repeat(1, 2, 3), AxisError, "x.repeat(1, 2, 3) is x.tile(1, 2, 3) here"),
        (lambda x: x.expand(-1, 3, 4), ShapeError, "-1 stands for the size of an existing"),
        (lambda x: x.expand(5, 4), ShapeError, "f64[3,4] to [5, 4]"),
        (lambda x: x.narrow(0, 2, 2), ShapeError, "2 elements from 2 on are not in a dimension"),
        (lambda x: x.chunk(0), ArgumentError, "the number of parts must be at least 1"),
        (lambda x: x.select(2, 0), AxisError, "select: axis 2 is out of range"),
        (lambda x: x.topk(5, largest=False), ShapeError, "top_k: k must be at least 0 and at most"),
        (lambda x: x.to("flat"), ArgumentError, "a device is a platform and an index"),
        (lambda x: x.to(3.5), ArgumentError, "to: takes a device, a dtype or a tensor"),
        (lambda x: x.to("cpu", colour=1), ArgumentError, "to: takes a device, a dtype or a tensor"),
        (lambda x: x.div(2, rounding_mode="up"), ArgumentError, "rounding_mode must be None"),
        (lambda x: x.long().sqrt_(), ArgumentError, "sqrt_: the result is f32[3,4], but the tens"),
        (lambda x: x.long().fill_(0.5), DTypeError, "cannot write float into i64[3,4]"),
        (lambda x: x[None].t(), ShapeError, "t: needs rank 2 or less"),
        (lambda x: x[None].transpose(0, 1), AxisError, "Write x.swapaxes(a, b) to swap"),
        (lambda x: x.flatten(1, 0), ShapeError, "start_dim must not come after end_dim"),
        (lambda x: x.view("float32"), DTypeError, "dtypes must have the same width"),
    ],
)
def test_wrong_calls_of_methods(call, error, words):
    with told(error, Exception, words):
        call(pb.tensor(A))


def test_methods_keep_the_signatures_of_functions():
    for name in ("sum", "take", "cumsum", "round"):
        ours = list(inspect.signature(getattr(pb.Tensor, name)).parameters)
        assert ours == list(inspect.signature(getattr(pb, name)).parameters)
