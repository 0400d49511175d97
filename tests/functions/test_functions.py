"""The public functions agree with NumPy in both engines, and report mistakes at the user's line."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import told
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback import functions
from pullback.errors import ArgumentError, AxisError, DTypeError, IndexOutOfRange, ShapeError
from pullback.graph import dtypes
from pullback.interop import numpy as numpy_calls

RNG = np.random.default_rng(0)
A = RNG.uniform(0.1, 0.9, (3, 4))
B = RNG.uniform(-2.0, 2.0, (2, 3, 4))
V, W = RNG.uniform(-1, 1, 4), RNG.uniform(-1, 1, 4)
I = RNG.integers(-5, 6, (3, 4))  # noqa: E741
J = RNG.integers(1, 6, (3, 4))
P = np.array([[True, False, True], [False, False, True]])
Z = A - 0.5 + 1j * A[::-1]

# name, arguments, and what NumPy says: a function of the same arguments
UNARY: dict[str, Any] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "atanh": np.arctanh, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "square": np.square, "reciprocal": np.reciprocal, "negative": np.negative, "abs": np.abs,
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc,
    "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc), "positive": np.positive,
    "silu": lambda x: x / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x)),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "sinc": np.sinc,
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}  # fmt: skip

BINARY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "maximum": np.maximum,
    "minimum": np.minimum, "hypot": np.hypot, "copysign": np.copysign, "atan2": np.arctan2,
    "logaddexp": np.logaddexp, "nextafter": np.nextafter, "equal": np.equal,
    "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "isclose": np.isclose,
}  # fmt: skip


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def case(name: str, *args: Any, like: Callable | None = None, **kwargs: Any) -> Any:
    """One call, pb.name(*args, **kwargs), and the NumPy function that it must agree with."""
    reference = like or getattr(np, name)
    label = "-".join([name, *map(_shown, args), *[f"{k}={v}" for k, v in kwargs.items()]])
    return pytest.param(name, args, kwargs, reference, id=label)


def _shown(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)


CASES = [
    *[case(n, A, like=f) for n, f in UNARY.items()],
    case("acosh", A + 1, like=np.arccosh),
    *[case(n, A, B, like=f) for n, f in BINARY.items()],
    *[case(n, I, J) for n in ("add", "multiply", "floor_divide", "remainder", "less")],
    *[case(n, I, J, like=np.bitwise_and if n.endswith("and") else None)
      for n in ("bitwise_and", "bitwise_or", "bitwise_xor")],
    case("bitwise_left_shift", J, 2), case("bitwise_right_shift", I, 1),
    case("bitwise_invert", I),
    case("bitwise_count", J, like=lambda x: np.bitwise_count(x).astype(x.dtype)),
    *[case(n, P, P[:1]) for n in ("logical_and", "logical_or", "logical_xor")],
    case("logical_not", P), case("logical_not", I),
    case("pow", A, 3), case("pow", A, -2), case("pow", A, 0.5), case("pow", A, B),
    case("pow", J, 2), case("pow", 2.0, A),
    case("real", Z), case("imag", Z), case("conj", Z), case("angle", Z), case("abs", Z),
    case("exp", Z), case("multiply", Z, Z[::-1]), case("sum", Z, axis=0),
    case("complex", A, V, like=lambda x, y: x + 1j * y),
    *[case(n, B, **k) for n in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all")
      for k in ({}, {"axis": -1}, {"axis": (0, 2), "keepdims": True}, {"axis": ()})],
    *[case(n, I, axis=1) for n in ("sum", "prod", "max", "min")],
    case("mean", Z, axis=1), case("var", Z, axis=1), case("count_nonzero", I, axis=0),
    case("var", B, axis=1, correction=1), case("std", B, axis=(0, 1), correction=1.5),
    *[case(n, B, **k) for n in ("argmax", "argmin")
      for k in ({}, {"axis": 1}, {"axis": -1, "keepdims": True}, {"keepdims": True})],
    case("norm", V, like=np.linalg.norm), case("norm", A, axis=1, like=np.linalg.norm),
    case("norm", A, axis=0, ord=1, like=np.linalg.norm),
    case("norm", A, axis=0, ord=math.inf, like=np.linalg.norm),
    case("norm", A, axis=0, ord=3, like=np.linalg.norm),
    case("norm", Z, axis=0, like=np.linalg.norm),
    case("diff", B), case("diff", B, axis=0), case("diff", I, axis=1, n=2),
    case("diff", V, prepend=[1.0], append=[2.0]),
    case("cumulative_sum", B, axis=1), case("cumulative_sum", V, include_initial=True),
    case("cumulative_prod", B, axis=-1), case("cumulative_prod", A, axis=0, include_initial=True),
    case("cummax", B, axis=1, like=np.maximum.accumulate),
    case("cummin", B, axis=1, like=np.minimum.accumulate),
    case("cumlogsumexp", B, axis=2, like=np.logaddexp.accumulate),
    case("reshape", B, (4, -1)), case("reshape", B, 24), case("flatten", B, like=np.ravel),
    case("permute_dims", B, (2, 0, 1)), case("transpose", B), case("transpose", B, (1, 0, 2)),
    case("matrix_transpose", B), case("moveaxis", B, 0, -1), case("moveaxis", B, (0, 1), (1, 2)),
    case("swapaxes", B, 0, -1), case("expand_dims", B, axis=(0, -1)),
    case("expand_dims", B, axis=2),
    case("squeeze", B[:1]), case("squeeze", B[:, :1], axis=1), case("broadcast_to", V, (2, 3, 4)),
    case("flip", B), case("flip", B, axis=(0, -1)), case("rot90", A), case("rot90", A, k=2),
    case("rot90", A, k=-1), case("rot90", B, axes=(1, 2)),
    case("concat", [A, A[:1]]), case("concat", [A, I], axis=1), case("concat", [A, V], axis=None),
    case("stack", [A, A + 1]), case("stack", [A, I], axis=-1), case("unstack", B, axis=1),
    case("split", V, 2), case("split", B, [1, 3], axis=2),
    case("roll", V, 1), case("roll", B, -7), case("roll", B, (1, 2), axis=(0, -1)),
    case("tile", V, 2), case("tile", A, (2, 1, 3)), case("tile", B, 2),
    case("repeat", A, 2), case("repeat", A, 3, axis=1), case("repeat", A, [0, 2, 1], axis=0),
    case("pad", A, 1), case("pad", V, (2, 1)), case("pad", A, ((0, 1), (2, 0))),
    case("where", A > 0.5, A, 0.0), case("where", A > 0.5, I, V), case("where", P, 1, 2),
    case("clip", B, -0.5, 0.5), case("clip", B, 0.0, None), case("clip", I, -2, 3),
    case("clip", A, V, None), case("clip", I, None, 2),
    case("take", V, [3, 0, -1]), case("take", A, np.array([[2, 0]]), axis=0),
    case("take_along_axis", A, np.argsort(A, axis=1), axis=1),
    case("take_along_axis", A, np.array([[-1]]), axis=0),
    case("sort", B), case("sort", I, axis=0), case("argsort", B, axis=1),
    case("sort", I, descending=True, like=lambda x, descending: np.sort(x)[:, ::-1]),
    case("argsort", I, descending=True, like=lambda x, descending: np.argsort(-x, kind="stable")),
    case("searchsorted", np.sort(V), B), case("searchsorted", np.array([1, 2, 2, 3]), I),
    case("searchsorted", np.array([1, 2, 2, 3]), I, side="right"),
    case("searchsorted", V, A, sorter=np.argsort(V)), case("nonzero", I),
    case("unique_values", I, like=np.unique), case("unique_all", I), case("unique_counts", I),
    case("unique_inverse", I),
    *[case("matmul", x, y) for x, y in
      ((A, A.T), (V, W), (A, V), (V, A.T), (B, B.mT), (B, V), (V, B.mT), (B, A.T), (I, J.T))],
    case("tensordot", A, A), case("tensordot", B, A, axes=([1, 2], [0, 1])),
    case("tensordot", V, W, axes=0), case("vecdot", B, V), case("vecdot", Z, Z[:1]),
    case("vecdot", A, A, axis=0), case("outer", V, W), case("einsum", "bij,kj->bik", B, A),
    case("einsum", "ij->j", A),
    case("diagonal", A), case("diagonal", A, offset=1), case("diagonal", A, offset=-2),
    case("matrix_trace", A, like=np.trace), case("tril", B), case("tril", A, k=-1),
    case("triu", I, k=1), case("triu", B),
    case("softmax", B, like=softmax), case("softmax", B, axis=1, like=softmax),
    case("log_softmax", B, like=lambda x: np.log(softmax(x))),
    case("logsumexp", B, axis=(0, 1), like=lambda x, axis: np.log(np.exp(x).sum(axis))),
    case("leaky_relu", B, 0.1, like=lambda x, s: np.where(x > 0, x, s * x)),
    case("elu", B, like=lambda x: np.where(x > 0, x, np.expm1(x))),
    case("one_hot", np.array([0, 3, 1]), 4, dtype="f64", like=lambda i, n, dtype: np.eye(n)[i]),
    case("one_hot", np.array([0, 3, 1]), 4, dtype="f64", axis=0,
         like=lambda i, n, dtype, axis: np.eye(n)[i].T),
    case("dynamic_slice", A, [1, np.int64(2)], [2, 1], like=lambda x, s, n: x[1:3, 2:3]),
    case("zeros", (2, 3), dtype="float64"), case("ones", 3, dtype="int8"),
    case("full", (2,), 2.5, dtype="float64"), case("arange", 5), case("arange", 5, 1, -2),
    case("arange", 0.0, 1.0, 0.25, dtype="float64"), case("linspace", 0, 1, 7, dtype="float64"),
    case("linspace", -1, 1, 4, dtype="float64", endpoint=False),
    case("eye", 3, 4, k=1, like=lambda n, m, k: np.eye(n, m, k, np.float32)),
    case("zeros_like", I), case("ones_like", A), case("full_like", I, 3),
    case("meshgrid", V, A[0]), case("meshgrid", V, A[0], W, indexing="ij"),
]  # fmt: skip


def call(name: str, args: tuple, kwargs: dict) -> list[Any]:
    """The tensors that a public function returns."""
    made = getattr(pb, name)(*args, **kwargs)
    return list(made) if isinstance(made, (tuple, list)) else [made]


def answers(reference: Callable, args: tuple, kwargs: dict) -> list[np.ndarray]:
    made = reference(*args, **kwargs)
    return [np.asarray(v) for v in (made if isinstance(made, (tuple, list)) else [made])]


def check(got: list[Any], want: list[np.ndarray]) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.shape == w.shape
        assert g.dtype.numpy == w.dtype
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "args", "kwargs", "reference"), CASES)
def test_functions_agree_with_numpy(
    name: str, args: tuple, kwargs: dict, reference: Callable
) -> None:
    with pb.config(engine="reference"), pb.default_dtype("float32"):
        check(call(name, args, kwargs), answers(reference, args, kwargs))


@pytest.mark.parametrize("part", range(4))
def test_compiled_functions_agree_with_numpy(part: int) -> None:
    made = [(c.values[0], call(*c.values[:3]), answers(c.values[3], *c.values[1:3]))
            for c in CASES[part::4]]  # fmt: skip
    pb.evaluate([got for _, got, _ in made])
    for name, got, want in made:
        try:
            check(got, want)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def test_every_function_is_public_and_tested_here() -> None:
    assert set(functions.__all__) <= set(dir(pb))
    tried = {c.values[0] for c in CASES} | set(functions.numpy_names.__all__)
    source = "".join(page.read_text() for page in Path(__file__).parent.glob("*.py"))
    # tests/sharding/test_sharding.py and tests/lazy/test_device_placement.py
    elsewhere = {"reshard", "shard", "to_device", "with_sharding_constraint"}
    said = tried | elsewhere
    words = set(re.findall(r'(?:pb\.|")(\w+)', source))  # pb.name, or "name" in a table
    missing = sorted(set(functions.__all__) - said - words)
    assert not missing


def test_other_libraries_arrays() -> None:
    source = np.arange(3.0)
    made = pb.from_dlpack(source)
    source[0] = 7.0
    assert made.tolist() == [0.0, 1.0, 2.0]
    with told(ArgumentError, TypeError, "from_dlpack", "int"):
        pb.from_dlpack(3)
    assert pb.tensor([pb.e, pb.pi, pb.inf]).dtype is pb.float32
    assert pb.tensor([1.0])[pb.newaxis].shape == (1, 1)
    assert 2.0 in pb.tensor([1.0, 2.0]) and 3.0 not in pb.tensor([1.0, 2.0])


def test_special_functions() -> None:
    x = np.array([0.3, 1.0, 2.5, 7.0])
    steps = np.array([0.1, -0.4, 0.77])
    np.testing.assert_allclose(pb.erf(pb.erfinv(steps)).numpy(), steps, rtol=1e-14)
    np.testing.assert_allclose(pb.lgamma(x).numpy(), [math.lgamma(v) for v in x], atol=1e-14)
    # digamma(x + 1) = digamma(x) + 1/x, and each further derivative of it
    np.testing.assert_allclose((pb.digamma(x + 1) - pb.digamma(x)).numpy(), 1 / x, rtol=1e-12)
    found = (pb.polygamma(1, x + 1) - pb.polygamma(1, x)).numpy()
    np.testing.assert_allclose(found, -1 / x**2, rtol=1e-11)


# -- element types --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_the_dtypes_of_results(dtype: Any) -> None:
    x = pb.ones(3, dtype=dtype)
    wide = {"b": pb.int64, "i": pb.int64, "u": pb.uint64}.get(dtype.kind, dtype)
    inexact = dtype if dtype.is_inexact else pb.float32
    if dtype.kind != "b":
        assert (x + 1).dtype is dtype
        assert pb.cumulative_sum(x).dtype is wide
    assert pb.sum(x).dtype is pb.prod(x).dtype is wide
    assert pb.sum(x, dtype="float64").dtype is pb.float64
    for f in (pb.mean, pb.exp, pb.sqrt, lambda v: v / 2, lambda v: pb.divide(v, v)):
        assert f(x).dtype is inexact
    assert pb.var(x).dtype is pb.abs(x + 0.0).dtype.real
    assert pb.zeros_like(x).dtype is dtype
    assert pb.where(True, x, x).dtype is dtype
    assert pb.any(x).dtype is pb.isfinite(x).dtype is pb.bool
    assert pb.astype(x, "complex64").dtype is pb.complex64


def test_small_sums_do_not_overflow() -> None:
    assert pb.sum(pb.full(300, 100, dtype="int8")).item() == 30_000
    assert pb.sum(pb.full(70_000, 1.0, dtype="float16")).item() == math.inf
    assert pb.mean(pb.full(70_000, 2.0, dtype="float16")).item() == 2.0
    assert pb.norm(pb.full(4, 300.0, dtype="float16")).item() == 600.0


def test_python_numbers_take_the_dtype_of_the_tensor() -> None:
    assert pb.add(pb.zeros(2, dtype="float16"), 1.5).dtype is pb.float16
    assert pb.maximum(pb.zeros(2, dtype="int8"), 3).dtype is pb.int8
    assert pb.add(pb.zeros(2, dtype="int8"), 1.5).dtype is pb.float32
    assert pb.divide(1, 2).item() == 0.5
    assert pb.result_type(pb.int8, pb.uint8, 1) is pb.int16
    assert pb.result_type(1, 2.0) is pb.float32


def test_dtype_queries() -> None:
    assert pb.can_cast(pb.int8, pb.int16) and not pb.can_cast(pb.float32, pb.int64)
    assert pb.isdtype(pb.int8, "integral") and not pb.isdtype(pb.float16, ("integral", "bool"))
    assert pb.finfo(pb.bfloat16).bits == 16 and pb.finfo(pb.complex128).eps == 2.0**-52
    assert pb.iinfo("uint8")[:3] == (8, 255, 0)
    assert pb.bitcast(pb.tensor(1.0), "uint32").item() == 0x3F800000
    assert pb.cast(1.7, pb.int32).item() == 1


def test_a_static_exponent_is_part_of_the_program_and_a_scalar_is_not() -> None:
    x = pb.tensor([1.0, 2.0])
    assert pb.pow(x, 3)._node.op is (x**3.0)._node.op
    assert (x**2.5)._node.inputs[1].op.name == "Scalar"
    assert pb.add(x, 2.5)._node.inputs[1].op.name == "Scalar"


# -- values ---------------------------------------------------------------------------------------


def test_arguments_may_be_lists_numbers_arrays_and_tensors() -> None:
    for x in ([1, 4], np.array([1, 4]), pb.tensor([1, 4])):
        assert pb.sqrt(x).tolist() == [1.0, 2.0]
    assert pb.add([pb.tensor(1.0), 2.0], [[1], [2]]).tolist() == [[2.0, 3.0], [3.0, 4.0]]


def test_a_result_is_a_handle_of_its_own() -> None:
    x = pb.tensor([1.0, 2.0])
    for f in (pb.positive, pb.flatten, lambda v: pb.astype(v, v.dtype), lambda v: pb.roll(v, 0),
              lambda v: pb.reshape(v, 2), lambda v: pb.broadcast_to(v, (2,)), pb.clip,
              lambda v: pb.permute_dims(v, (0,)), lambda v: v[...]):  # fmt: skip
        y = f(x)
        y += 1.0
        assert x.tolist() == [1.0, 2.0] and y.tolist() == [2.0, 3.0]


def test_under_no_grad_a_handle_on_the_same_value_is_a_constant() -> None:
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    assert w[...].requires_grad and pb.positive(w).requires_grad
    with pb.no_grad():
        assert not w[...].requires_grad and not pb.flatten(w).requires_grad


def test_created_tensors_are_leaves() -> None:
    for x in (pb.zeros(2), pb.arange(3), pb.eye(2), pb.full(2, 1.0), pb.linspace(0, 1, 3)):
        assert x._node.op.name == "Leaf"
    assert pb.empty((2, 0)).shape == pb.empty_like(pb.zeros((2, 0))).shape == (2, 0)


def test_created_tensors_are_constants_of_a_traced_function() -> None:
    def f(x: Any) -> Any:
        return x + pb.zeros(2) + pb.arange(2) * pb.full(2, 1.0)

    assert pb.eval_shape(f, pb.ones(2)).shape == (2,)


def test_sorted_values_and_their_indices() -> None:
    values, indices = pb.top_k([[1, 5, 3], [9, 7, 8]], 2)
    assert values.tolist() == [[5, 3], [9, 8]] and indices.tolist() == [[1, 2], [0, 2]]
    values, indices = pb.top_k([[2, 5, 1], [9, 7, 8]], 2, 0, mode="smallest")
    assert values.tolist() == [[2, 5, 1], [9, 7, 8]] and indices.tolist() == [[0] * 3, [1] * 3]
    with pytest.raises(ArgumentError, match="top_k: mode must be"):
        pb.top_k([1, 2], 1, mode="least")  # type: ignore[arg-type]


def test_stable_functions_do_not_overflow() -> None:
    big = [1e4, -1e4]
    assert pb.softmax(big).tolist() == [1.0, 0.0]
    assert pb.logsumexp([-math.inf, -math.inf]).item() == -math.inf
    assert pb.logsumexp([math.inf, 0.0]).item() == math.inf
    assert pb.log_softmax(big).tolist() == [0.0, -2e4]
    assert pb.softplus(1e4).item() == 1e4 and pb.silu(-1e4).item() == 0.0
    assert pb.glu([2.0, 0.0]).tolist() == [1.0]
    assert abs(pb.gelu(1.0, approximate=True).item() - 0.8412) < 1e-4


def test_windows() -> None:
    x = pb.reshape(pb.arange(16.0), (1, 4, 4, 1))
    assert pb.max_pool(x, 2)[0, :, :, 0].tolist() == [[5.0, 7.0], [13.0, 15.0]]
    assert pb.avg_pool(x, (2, 2))[0, :, :, 0].tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert pb.avg_pool(pb.ones((1, 3, 3, 2)), 3, 1, "SAME").numpy().min() == 1.0
    w = pb.ones((2, 2, 1, 1))
    same = pb.conv2d(x, w, 2), pb.conv(x, w, strides=2), pb.avg_pool(x, 2) * 4
    for y in same[1:]:
        assert y.tolist() == same[0].tolist()
    grouped = pb.conv(pb.ones((1, 7, 4)), pb.ones((3, 2, 6)), padding="SAME", groups=2)
    assert grouped.shape == (1, 7, 6)


def test_identity_functions() -> None:
    for f in (pb.stop_gradient, pb.contiguous, pb.optimization_barrier):
        assert f([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert pb.asarray([1]).tolist() == pb.tensor([1]).tolist()
    assert [x.shape for x in pb.broadcast_arrays([1, 2], [[1]])] == [(1, 2), (1, 2)]
    assert pb.broadcast_shapes((3, 1), (1, 2)) == (3, 2)
    assert pb.gather([1, 2, 3], [2]).tolist() == [3]
    assert pb.atleast_1d(1.0).shape == (1,)
    assert pb.scatter([1, 2, 3], 0, 5, "max").tolist() == [5, 2, 3]
    assert pb.dynamic_update_slice([1, 2, 3], [9], [pb.tensor(2)]).tolist() == [1, 2, 9]
    assert bool(pb.allclose([1.0, math.nan], [1.0, math.nan], equal_nan=True))


def test_a_value_is_read_on_both_sides_of_a_barrier() -> None:
    x, w = np.linspace(-0.4, 0.7, 12).reshape(4, 3), np.sin(np.arange(9.0)).reshape(3, 3)

    def f(x, w):
        h = pb.tanh(x @ w)
        return pb.flip(h, -1) + pb.sin(pb.optimization_barrier(h))

    h = np.tanh(x @ w)
    got = f(pb.tensor(x), pb.tensor(w)).numpy()
    np.testing.assert_allclose(got, h[:, ::-1] + np.sin(h), rtol=1e-12)


def test_methods_are_functions() -> None:
    x = pb.tensor([[4.0, 1.0], [9.0, 16.0]])
    assert x.sqrt().tolist() == [[2.0, 1.0], [3.0, 4.0]]
    assert x.T.tolist() == x.mT.tolist() == x.transpose().tolist() == x.permute(1, 0).tolist()
    assert x.reshape(4).tolist() == x.reshape((-1,)).tolist() == x.flatten().tolist()
    assert x.max().item() == 16.0 and x.argmax(axis=1).tolist() == [0, 1]
    assert x.cumsum(axis=0).tolist() == [[4.0, 1.0], [13.0, 17.0]]
    assert x.std(correction=1).shape == x.var().shape == x.mean().shape == ()
    assert x.clip(2.0, 9.0).sort(descending=True).tolist() == [[4.0, 2.0], [9.0, 9.0]]
    assert x.real.tolist() == x.copy().tolist() and x.imag.sum().item() == 0.0
    assert x.repeat(2, 1).shape == (2, 4) and x.take([0], axis=1).shape == (2, 1)
    assert x.__array_namespace__() is pb
    with told(ShapeError, ValueError, "T: needs rank 2, got f32[2]"):
        x[0].T  # noqa: B018


# -- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.var(x, axis=1), lambda x: pb.std(x, correction=1),
        lambda x: pb.norm(x, axis=0),
        lambda x: pb.softmax(x)[:, 0], lambda x: pb.log_softmax(x, axis=0), pb.logsumexp,
        lambda x: pb.gelu(x), lambda x: pb.take_along_axis(x, [[1, -1, 0, 1]], axis=0),
        lambda x: x[x > 0.3] * 2.0, lambda x: pb.unique_values(x) ** 2, lambda x: pb.roll(x, 2, 1),
        lambda x: pb.tile(x, 2) * pb.repeat(x, 2, 1), lambda x: pb.tril(x) @ x.T,
        lambda x: pb.diagonal(x, 1), lambda x: pb.pad(x, 1) ** 3, lambda x: x**-2 + x**2.5,
        lambda x: pb.elu(x - 0.5), lambda x: pb.einsum("ij,kj->ik", x, x),
        lambda x: pb.clip(x, 0.2, 0.6), lambda x: pb.top_k(x, 2).values, lambda x: pb.diff(x),
    ],
)  # fmt: skip
def test_gradients_agree_with_differences(f: Callable) -> None:
    with pb.config(engine="reference"):
        x = pb.tensor(A)
        weights = np.cos(np.arange(f(x).size)).reshape(f(x).shape)
        found = pb.grad(lambda v: (f(v) * weights).sum())(x).numpy()
        for place in ((0, 0), (1, 2), (2, 3)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = A.copy()
                moved[place] += step
                ends.append((f(pb.tensor(moved)).numpy() * weights).sum())
            assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_gradients_at_hard_points() -> None:
    zeros = pb.zeros(3)
    for f in (pb.norm, pb.std, lambda x: pb.sum(pb.abs(x)), lambda x: pb.sum(pb.relu(x))):
        assert pb.grad(f)(zeros).tolist() == [0.0, 0.0, 0.0]
    assert pb.grad(lambda x: pb.sum(pb.where(x > 0, pb.sqrt(x), 0.0)))(zeros).tolist() == [0.0] * 3
    assert pb.grad(lambda x: pb.sum(pb.clip(x, 0.0, 1.0)))(zeros).tolist() == [1.0] * 3
    assert pb.grad(pb.max)(zeros).tolist() == pytest.approx([1 / 3] * 3)


# -- errors ---------------------------------------------------------------------------------------

X = pb.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "builtin", "words"),
    [
        (lambda: pb.sum(X, axis=2), AxisError, IndexError, "sum: axis 2 is out of range"),
        (lambda: pb.mean(X, axis=-3), AxisError, ValueError, "mean: axis -3 is out of range"),
        (lambda: pb.max(X, axis=(0, -2)), AxisError, ValueError, "max: an axis is given twice"),
        (lambda: pb.sum(X, axis=1.0), ArgumentError, TypeError, "sum: an axis must be an integer"),
        (lambda: pb.argmax(pb.zeros(0)), ShapeError, ValueError, "argmax: needs at least one"),
        (lambda: pb.reshape(X, (4, -1)), ShapeError, ValueError, "reshape: the size -1"),
        (lambda: pb.reshape(X, (4, 2)), ShapeError, ValueError, "f32[2,3] to [4, 2]"),
        (lambda: pb.reshape(X, (-1, -1)), ShapeError, ValueError, "except for one -1"),
        (lambda: pb.squeeze(X, axis=0), ShapeError, ValueError, "axis 0 of f32[2,3] has 2"),
        (lambda: pb.broadcast_to(X, (2, 2)), ShapeError, ValueError, "f32[2,3] to [2, 2]"),
        (lambda: pb.concat([X, pb.zeros((1, 2))]), ShapeError, ValueError, "f32[2,3], f32[1,2]"),
        (lambda: pb.stack([X, X[0]]), ShapeError, ValueError, "stack: tensors must have the same"),
        (lambda: pb.split(X, 2, axis=1), ShapeError, ValueError, "into 2 equal parts"),
        (lambda: pb.matmul(X, X), ShapeError, ValueError, "matmul: inner dimensions "
         "must agree, got f32[2,3] @ f32[2,3]"),
        (lambda: X @ 2.0, ShapeError, ValueError, "matmul: operands must have rank 1 or more"),
        (lambda: pb.add(X, pb.zeros(2)), ShapeError, ValueError, "add: shapes must broadcast, "
         "dimension 1 is 3 and 2"),
        (lambda: pb.where(X, X, X), DTypeError, TypeError, "where: the condition must be bool"),
        (lambda: pb.sin("a"), DTypeError, TypeError, "cannot hold str"),
        (lambda: pb.astype(X, "quad"), DTypeError, TypeError, "astype: not a dtype"),
        (lambda: pb.bitwise_and(X, X), DTypeError, TypeError, "bitwise_and: needs"),
        (lambda: pb.take(X, [3], axis=1), IndexOutOfRange, IndexError, "index 3 is out of range"),
        (lambda: pb.take_along_axis(X, [[5]], axis=0), IndexOutOfRange, IndexError, "index 5"),
        (lambda: pb.dynamic_slice(X, [1, 0], [2, 3]), IndexOutOfRange, IndexError, "start 1 is"),
        (lambda: pb.top_k(X, 4), ShapeError, ValueError, "top_k: k must be at least 0"),
        (lambda: pb.cumulative_sum(X), ArgumentError, ValueError, "cumulative_sum: needs an axis"),
        (lambda: pb.einsum("ij,j", X, X), ShapeError, ValueError, "einsum: 'ij,j'"),
        (lambda: pb.zeros(-1), ShapeError, ValueError, "zeros: sizes must not be negative"),
        (lambda: pb.repeat(X, [1, 2, 3], axis=0), ArgumentError, ValueError, "repeat: repeats"),
        (lambda: pb.nonzero(1.0), ShapeError, ValueError, "nonzero: needs rank 1"),
        (lambda: pb.tril(X[0]), ShapeError, ValueError, "tril: needs rank 2 or more, got f32[3]"),
        (lambda: pb.conv2d(X, X), ShapeError, ValueError, "conv2d: needs [N, H, W, C]"),
        (lambda: pb.max_pool(X, 2), ShapeError, ValueError, "max_pool: needs [N, spatial..., C]"),
        (lambda: pb.norm(X, ord=-2), ArgumentError, ValueError, "norm: ord must be positive"),
        (lambda: pb.arange(0, 1, 0), ArgumentError, ValueError, "arange: step must not be 0"),
    ],
)  # fmt: skip
def test_mistakes_raise_at_the_line_of_the_user(
    call: Callable, error: type, builtin: type, words: str
) -> None:
    with told(error, builtin, words):
        call()


# -- random programs ------------------------------------------------------------------------------

extents = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@settings(max_examples=200, deadline=None)
@given(extents, extents, extents)
def test_broadcasting_follows_numpy(a: tuple, b: tuple, c: tuple) -> None:
    shapes = (a, b, c)
    try:
        want: Any = np.broadcast_shapes(*shapes)
    except ValueError:
        want = None
    if want is None:
        with pytest.raises(ShapeError, match="must broadcast"):
            pb.broadcast_shapes(*shapes)
        return
    assert pb.broadcast_shapes(*shapes) == want
    x, y, z = (np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes))
    with pb.config(engine="reference"):
        np.testing.assert_allclose((pb.tensor(x) * y + z).numpy(), x * y + z)
        found = pb.grad(lambda v: pb.sum(pb.tensor(x) * v + z))(pb.tensor(y))
    ones = np.broadcast_to(x, want)
    wanted = _sum_to(ones, y.shape)
    np.testing.assert_allclose(found.numpy(), wanted)


def _sum_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    x = x.sum(tuple(range(x.ndim - len(shape))))
    wide = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(wide, keepdims=True) if wide else x


def test_older_names_of_numpy_are_ours():
    assert all(hasattr(pb, here) for here in numpy_calls.NAMES.values())
    assert pb.arccos is pb.acos and pb.concatenate is pb.concat
    assert not hasattr(pb, "no_such_function")


def test_linspace_depends_on_tensors():
    v = pb.tensor([1.0, 2.0], dtype="f64")
    made = pb.linspace(v, 0.1, 4, endpoint=False)
    np.testing.assert_allclose(made.numpy(), np.linspace([1.0, 2.0], 0.1, 4, endpoint=False))
    assert made.dtype is pb.float64 and pb.linspace(pb.tensor(1), 3, 3).dtype is pb.float32
    assert pb.grad(lambda v: pb.linspace(v, 2 * v, 3).sum())(pb.tensor(2.0)).item() == 4.5


def test_arange_agrees_with_range():
    for start, stop, step in itertools.product((-5, 0, 3), (-4, 0, 7), (-3, -1, 1, 2)):
        assert pb.arange(start, stop, step).tolist() == list(range(start, stop, step))


# -- values at the edges --------------------------------------------------------------------------


@pytest.fixture(params=["xla", "reference"])
def engine(request):
    with pb.config(engine=request.param), np.errstate(all="ignore"):
        yield


@pytest.mark.usefixtures("engine")
def test_linspace_between_tensors_computes_in_f64():
    got = pb.linspace(pb.tensor(0), pb.tensor(2**40 + 1), 4, dtype="float64").numpy()
    np.testing.assert_allclose(got, np.linspace(0, 2**40 + 1, 4), rtol=1e-15)
    got = pb.linspace(pb.tensor([0.0, 1.0]), pb.tensor(1.0), 11)
    assert got.dtype is pb.float32
    want = np.linspace(np.array([0.0, 1.0]), 1.0, 11).astype(np.float32)
    np.testing.assert_array_equal(got.numpy(), want)
    assert pb.linspace(0, pb.tensor(2j), 3).tolist() == [0j, 1j, 2j]
    assert pb.linspace(pb.tensor(1.0), 3, 4, endpoint=False).tolist() == [1.0, 1.5, 2.0, 2.5]
    assert [pb.linspace(pb.tensor(1.0), 3, n).tolist() for n in (0, 1)] == [[], [1.0]]
    ends = pb.grad(lambda a, b: pb.linspace(a, b, 5)[1], (0, 1))(pb.tensor(0.0), pb.tensor(8.0))
    assert [g.item() for g in ends] == [0.75, 0.25]


def test_no_difference_leaves_out_what_would_be_joined():
    assert pb.diff([1, 4, 9], n=0, prepend=[0], append=[1]).tolist() == [1, 4, 9]
    assert pb.diff([1, 4, 9], n=1, prepend=[0]).tolist() == [1, 3, 5]


@pytest.mark.usefixtures("engine")
def test_a_product_of_one_term_keeps_its_zero():
    zeros = [-0.0, 0.0]
    made = [pb.outer(zeros, [1.0]), pb.tensor([zeros]).mT @ pb.tensor([[1.0]])]
    for product in made:
        assert np.signbit(product.numpy()).reshape(-1).tolist() == [True, False]


@pytest.mark.usefixtures("engine")
def test_the_far_tail_of_gelu():
    x = [-1.0, -5.0, -8.0, -12.0, 5.0]
    want = [v * math.erfc(-v * math.sqrt(0.5)) / 2 for v in x]
    for dtype, rtol in (("float32", 1e-5), ("float64", 1e-13)):
        np.testing.assert_allclose(pb.gelu(pb.tensor(x, dtype=dtype)).numpy(), want, rtol=rtol)
    assert pb.gelu(pb.tensor(-8.0), approximate=True).item() < 0
    slope = pb.grad(pb.gelu)(pb.tensor(-8.0, dtype="float64")).item()
    want = math.erfc(8 * math.sqrt(0.5)) / 2 - 8 * math.exp(-32) / math.sqrt(2 * math.pi)
    assert slope == pytest.approx(want, rel=1e-12)


# -- counts of repeat ------------------------------------------------------------------------------

COUNTS = [[1, 0, 2], (1, 0, 2), np.array([1, 0, 2])]


@pytest.mark.parametrize("counts", COUNTS, ids=["list", "tuple", "array"])
def test_repeat_with_listed_counts_inside_transforms(counts):
    x = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def f(row):
        return pb.repeat(row, counts)

    want = [[1.0, 3.0, 3.0], [4.0, 6.0, 6.0]]
    assert pb.vmap(f)(x).tolist() == want
    assert pb.compile(f)(x[0]).tolist() == want[0]
    assert pb.scan(lambda s, row: (s, f(row)), pb.tensor(0.0), x)[1].tolist() == want
    assert pb.checkpoint(f)(x[1]).tolist() == want[1]
    assert pb.grad(lambda row: pb.compile(f)(row).sum())(x[0]).tolist() == [1.0, 0.0, 2.0]


def test_repeat_with_counts_that_are_computed_says_what_to_pass():
    with told(pb.errors.HostReadError, TypeError, "repeat: ", "pass a list of integers"):
        pb.compile(lambda x, n: pb.repeat(x, n))(pb.tensor([1.0, 2.0]), pb.tensor([1, 2]))
    assert pb.repeat(pb.zeros((0,)), []).shape == (0,)
