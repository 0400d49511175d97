"""Linear maps, convolutions and pooling agree with their definitions in NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from nn_cases import check_derivatives, check_dtypes, check_values, positive, real

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError

F = pb.nn.functional


def convolved(x, w, stride=1, padding=0, dilation=1, groups=1):
    """[N, spatial..., C] with [spatial..., C / groups, F], one output element at a time."""
    rank = x.ndim - 2
    full = np.pad(x, [(0, 0)] + [(padding, padding)] * rank + [(0, 0)])
    window = w.shape[:-2]
    reach = [(k - 1) * dilation + 1 for k in window]
    counts = [(n - k) // stride + 1 for n, k in zip(full.shape[1:-1], reach)]
    out = np.zeros((x.shape[0], *counts, w.shape[-1]))
    inner, outer = w.shape[-2], w.shape[-1] // groups
    for place in itertools.product(*map(range, counts)):
        for tap in itertools.product(*map(range, window)):
            at = tuple(p * stride + t * dilation for p, t in zip(place, tap))
            for g in range(groups):
                part = full[(slice(None), *at, slice(g * inner, (g + 1) * inner))]
                chosen = slice(g * outer, (g + 1) * outer)
                out[(slice(None), *place, chosen)] += part @ w[tap][:, chosen]
    return out


def transposed(y, w, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of `convolved`, by spreading each element over the result."""
    rank = y.ndim - 2
    window = w.shape[:-2]
    sizes = [
        (n - 1) * stride + (k - 1) * dilation + 1 + output_padding
        for n, k in zip(y.shape[1:-1], window)
    ]
    inner, outer = w.shape[-2], w.shape[-1] // groups
    full = np.zeros((y.shape[0], *sizes, inner * groups))
    for place in itertools.product(*map(range, y.shape[1:-1])):
        for tap in itertools.product(*map(range, window)):
            at = tuple(p * stride + t * dilation for p, t in zip(place, tap))
            for g in range(groups):
                chosen = slice(g * outer, (g + 1) * outer)
                part = y[(slice(None), *place, chosen)] @ w[tap][:, chosen].T
                full[(slice(None), *at, slice(g * inner, (g + 1) * inner))] += part
    crop = tuple(slice(padding, n - padding) for n in sizes)
    return full[(slice(None), *crop)] if rank else full


def windows(n, size, stride, padding, ceil):
    """The ranges of windows, from -padding on."""
    length = n + 2 * padding - size
    count = (math.ceil if ceil else math.floor)(length / stride) + 1
    if ceil and (count - 1) * stride >= n + padding:
        count -= 1
    return [(i * stride - padding, i * stride - padding + size) for i in range(count)]


def pooled(x, size, stride, padding, ceil, reduce, count_pad=True):
    """Reduce the elements of each window, which `reduce` gets with the number that counts."""
    rank = x.ndim - 2
    sides = [windows(n, size, stride, padding, ceil) for n in x.shape[1:-1]]
    out = np.zeros((x.shape[0], *map(len, sides), x.shape[-1]))
    for place in itertools.product(*[range(len(s)) for s in sides]):
        ranges = [sides[i][p] for i, p in enumerate(place)]
        inside = tuple(slice(max(a, 0), min(b, n)) for (a, b), n in zip(ranges, x.shape[1:-1]))
        part = x[(slice(None), *inside)].reshape(x.shape[0], -1, x.shape[-1])
        ends = [(a, min(b, n + padding)) for (a, b), n in zip(ranges, x.shape[1:-1])]
        count = math.prod(b - a for a, b in ends) if count_pad else part.shape[1]
        out[(slice(None), *place)] = reduce(part, count)
    assert rank
    return out


def adaptive(x, sizes, reduce):
    for i, k in enumerate(sizes):
        n = x.shape[i + 1]
        bounds = [(j * n // k, -(-(j + 1) * n // k)) for j in range(k)]
        parts = [reduce(x.take(range(a, b), i + 1), i + 1) for a, b in bounds]
        x = np.stack(parts, i + 1)
    return x


def largest(part, count):
    return part.max(1)


def average(part, count):
    return part.sum(1) / count


def first(x):
    """Channels first."""
    return np.moveaxis(x, -1, 1)


def last(x):
    return np.moveaxis(x, 1, -1)


X1, X2, X3 = real(2, 9, 4), real(2, 6, 5, 4), real(1, 3, 4, 3, 2)
LINEAR = {
    "linear": (F.linear, lambda x, w, b: x @ w.T + b, real(2, 3, 4), real(5, 4), real(5)),
    "linear of vectors": (F.linear, lambda x, w: x @ w, real(4), real(4)),
    "bilinear": (
        F.bilinear, lambda x, y, w, b: np.einsum("ni,oij,nj->no", x, w, y) + b,
        real(3, 2), real(3, 4), real(5, 2, 4), real(5),
    ),
    "embedding": (F.embedding, lambda i, w: w[i], np.array([[0, 2], [2, 1]]), real(3, 4)),
}  # fmt: skip
CONVOLUTIONS = {
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1),
        lambda x, w, b: convolved(x, w, 2, 1) + b, X1, real(3, 4, 3), real(3),
    ),
    "conv2d": (
        lambda x, w: F.conv2d(x, w, groups=2, dilation=2, padding=1),
        lambda x, w: convolved(x, w, 1, 1, 2, 2), X2, real(3, 2, 2, 6),
    ),
    "conv2d first": (
        lambda x, w: F.conv2d(x, w, layout="NCHW", filter_layout="OIHW"),
        lambda x, w: first(convolved(last(x), w.transpose(2, 3, 1, 0))), real(2, 3, 5, 4),
        real(4, 3, 2, 3),
    ),
    "conv2d same": (
        lambda x, w: F.conv2d(x, w, padding="same"),
        lambda x, w: convolved(x, w, 1, 1), X2, real(3, 3, 4, 2),
    ),
    "conv2d pairs": (
        lambda x, w: F.conv2d(x, w, padding=[(0, 1), (2, 0)]),
        lambda x, w: convolved(np.pad(x, ((0, 0), (0, 1), (2, 0), (0, 0))), w), X2,
        real(2, 2, 4, 1),
    ),
    "conv3d": (
        lambda x, w: F.conv3d(x, w, padding=1), lambda x, w: convolved(x, w, 1, 1), X3,
        real(2, 3, 2, 2, 2),
    ),
    "conv_transpose1d": (
        lambda y, w, b: F.conv_transpose1d(y, w, b, 2, 1, 1),
        lambda y, w, b: transposed(y, w, 2, 1, 1) + b, X1, real(3, 2, 4), real(2),
    ),
    "conv_transpose2d": (
        lambda y, w: F.conv_transpose2d(y, w, stride=2, padding=1, groups=2, dilation=2),
        lambda y, w: transposed(y, w, 2, 1, 0, 2, 2), X2, real(2, 3, 3, 4),
    ),
    "conv_transpose3d": (F.conv_transpose3d, transposed, X3, real(2, 2, 1, 3, 2)),
}  # fmt: skip
POOLS = {
    "max_pool1d": (
        lambda x: F.max_pool1d(x, 3, 2, 1), lambda x: pooled(x, 3, 2, 1, False, largest), X1,
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, layout="NCHW"),
        lambda x: first(pooled(last(x), 3, 2, 1, True, largest)), first(X2),
    ),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), lambda x: pooled(x, 2, 2, 0, False, largest), X3),
    "avg_pool1d": (
        lambda x: F.avg_pool1d(x, 4, 3, 2, True), lambda x: pooled(x, 4, 3, 2, True, average), X1,
    ),
    "avg_pool2d": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: pooled(x, 3, 2, 1, False, average, False), X2,
    ),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), lambda x: pooled(x, 2, 2, 0, False, average), X3),
    "lp_pool2d": (
        lambda x: F.lp_pool2d(x, 3, 2),
        lambda x: pooled(x, 2, 2, 0, False, lambda part, _: (part**3).sum(1)) ** (1 / 3),
        positive(1, 4, 4, 2),
    ),
    "adaptive_avg_pool2d": (
        lambda x: F.adaptive_avg_pool2d(x, (4, 2)), lambda x: adaptive(x, (4, 2), np.mean), X2,
    ),
    "adaptive_max_pool2d": (
        lambda x: F.adaptive_max_pool2d(x, (3, None)), lambda x: adaptive(x, (3,), np.max), X2,
    ),
    "adaptive_avg_pool3d": (
        lambda x: F.adaptive_avg_pool3d(x, 1), lambda x: x.mean((1, 2, 3), keepdims=True), X3,
    ),
}  # fmt: skip
CASES = {**LINEAR, **CONVOLUTIONS, **POOLS}


def test_values(engine):
    check_values(CASES)


def test_derivatives():
    check_derivatives(CASES)


def test_dtypes():
    check_dtypes(CASES)


def test_positions_of_the_largest():
    with pb.config(engine="reference"):
        values, places = F.max_pool2d(X2, 3, 2, 1, ceil_mode=True, return_indices=True)
        flat = X2.reshape(2, -1, 4)
        assert np.array_equal(
            np.take_along_axis(flat, places.numpy().reshape(2, -1, 4), 1).reshape(values.shape),
            values.numpy(),
        )
        x = pb.ones((2, 3, 4))
        assert F.max_pool2d(x, 2).shape == (1, 1, 4)  # one image without N


def test_a_row_of_padding_gets_no_gradient():
    with pb.config(engine="reference"):

        def loss(w):
            return (F.embedding([0, 2, 2], w, padding_idx=-1) ** 2).sum()

        assert pb.grad(loss)(pb.ones((3, 1))).tolist() == [[2.0], [0.0], [0.0]]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: F.linear(pb.ones((2, 3)), pb.ones((3, 4))), ShapeError, "linear: needs x"),
    (lambda: F.embedding([0, 5], pb.ones((5, 2))), IndexOutOfRange, "embedding: an index must be"),
    (lambda: F.embedding([-1], pb.ones((5, 2))), IndexOutOfRange, "at least 0 and less than 5"),
    (lambda: F.embedding([0.5], pb.ones((5, 2))), DTypeError, "must be an integer"),
    (lambda: F.embedding(pb.tensor([7]) + 0, pb.ones((5, 2))).numpy(), IndexOutOfRange, "7"),
    (lambda: F.conv2d(pb.ones((1, 3, 8, 8)), pb.ones((3, 3, 3, 4))), ShapeError, "channels"),
    (lambda: F.conv2d(pb.ones((8, 8)), pb.ones((3, 3, 3, 4))), ShapeError, "needs images"),
    (lambda: F.conv2d(pb.ones((1, 8, 8, 3)), pb.ones((3, 3, 3, 4)), layout="HWCN"),
     ArgumentError, "conv2d: layout must be"),
    (lambda: F.conv2d(pb.ones((1, 8, 8, 3)), pb.ones((3, 3, 3, 4)), padding="full"),
     ArgumentError, "padding must be"),
    (lambda: F.conv2d(pb.ones((1, 8, 8, 3)), pb.ones((3, 3, 3, 4)), pb.ones(3)), ShapeError,
     "bias must be"),
    (lambda: F.conv_transpose1d(pb.ones((1, 4, 2)), pb.ones((2, 3, 2)), output_padding=1),
     ArgumentError, "output_padding must be less"),
    (lambda: F.max_pool2d(pb.ones((1, 4, 4, 1)), 2, padding=2), ArgumentError, "at most half"),
    (lambda: F.max_pool2d(pb.ones((1, 4, 4, 1)), 0), ArgumentError, "kernel_size must be"),
    (lambda: F.adaptive_avg_pool2d(pb.ones((1, 4, 4, 1)), (1, 2, 3)), ArgumentError,
     "output_size must be"),
])  # fmt: skip
def test_mistakes_are_reported(call, error, message):
    with pb.config(engine="reference"), pytest.raises(error, match=message):
        call()
