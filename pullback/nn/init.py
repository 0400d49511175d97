"""Initialisers of weights: functions of a key and a shape.

The *fans* of a weight are the numbers of elements that enter and leave each of its units. For a
shape with axes `in_axis` and `out_axis`, fan_in is the size of `in_axis` and fan_out that of
`out_axis`, both times the sizes of all other axes (the window of a filter). By default a matrix is
[out, in], as in `nn.functional.linear`, and a filter [spatial..., in, out], as in
`nn.functional.conv2d`; filters [out, in, spatial...] need `in_axis=1, out_axis=0`.

>>> import pullback as pb
>>> w = pb.nn.init.kaiming_uniform(pb.random.key(0), (64, 32))
>>> w.shape, bool(abs(w).max() <= (6 / 32) ** 0.5)
((64, 32), True)
"""

from __future__ import annotations

import math
from typing import Literal

from pullback import functions as pf
from pullback import random
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import axis_argument, checked_integer_argument, shape_argument
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import publish
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, DTypeLike, Shape

Nonlinearity = Literal[
    "linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "gelu", "silu", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip
Mode = Literal["fan_in", "fan_out", "fan_avg"]

_GAINS = {
    "linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75,
    "gelu": math.sqrt(2), "silu": math.sqrt(2),
    **{f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)},
}  # fmt: skip
# The standard deviation of the normal distribution between -2 and 2
_TRUNCATED = 0.8796256610342398


@composed
def calculate_gain(nonlinearity: Nonlinearity, param: float | None = None) -> float:
    """Return the factor that keeps the variance of activations before a nonlinearity.

    `param` is the negative slope of "leaky_relu", 0.01 by default.

    >>> pb.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if isinstance(nonlinearity, str) and nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope**2))
    if not isinstance(nonlinearity, str) or nonlinearity not in _GAINS:
        names = ", ".join([*_GAINS, "leaky_relu"])
        raise ArgumentError(
            f"nonlinearity must be one of {names}, got {shown_argument(nonlinearity)}"
        )
    return _GAINS[nonlinearity]


@composed
def fans(shape: Shape, in_axis: int | None = None, out_axis: int | None = None) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a weight: the numbers of elements that enter and leave a unit.

    Axes are those of [out, in] for a matrix and of [spatial..., in, out] for a filter.

    >>> pb.nn.init.fans((64, 32)), pb.nn.init.fans((3, 3, 16, 32))
    ((32, 64), (144, 288))
    """
    sizes = shape_argument("nn.init", shape)
    rank = len(sizes)
    if rank < 2:
        hint = "Biases and scales usually begin as zeros and ones."
        raise ShapeError(f"needs a shape of rank 2 or more, got {list(sizes)}", hint=hint)
    default = (1, 0) if rank == 2 else (rank - 2, rank - 1)
    inner = default[0] if in_axis is None else axis_argument("nn.init", in_axis, rank)
    outer = default[1] if out_axis is None else axis_argument("nn.init", out_axis, rank)
    if inner == outer:
        raise ArgumentError(f"in_axis and out_axis must differ, got {inner} for both")
    window = math.prod(n for i, n in enumerate(sizes) if i not in (inner, outer))
    return sizes[inner] * window, sizes[outer] * window


def _fan(shape: Shape, mode: str, in_axis: int | None, out_axis: int | None) -> float:
    inner, outer = fans(shape, in_axis, out_axis)
    found = {"fan_in": inner, "fan_out": outer, "fan_avg": (inner + outer) / 2}
    if not isinstance(mode, str) or mode not in found:
        raise ArgumentError(
            f'mode must be "fan_in", "fan_out" or "fan_avg", got {shown_argument(mode)}'
        )
    return max(found[mode], 1)


@composed
def uniform(
    key: ArrayLike, shape: Shape, low: float = 0.0, high: float = 1.0,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return uniform numbers from `low` to `high`.

    >>> pb.nn.init.uniform(pb.random.key(0), 3, -1.0, 1.0).shape
    (3,)
    """
    return random.uniform(key, shape, dtype, minval=low, maxval=high)


@composed
def normal(
    key: ArrayLike, shape: Shape, mean: float = 0.0, std: float = 1.0,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return normal numbers with a mean and a standard deviation.

    >>> pb.nn.init.normal(pb.random.key(0), (2, 3), std=0.02).shape
    (2, 3)
    """
    return random.normal(key, shape, dtype, loc=mean, scale=std)


@composed
def truncated_normal(
    key: ArrayLike, shape: Shape, mean: float = 0.0, std: float = 1.0, low: float = -2.0,
    high: float = 2.0, dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return numbers of a normal distribution with `mean` and `std`, limited to [low, high].

    >>> w = pb.nn.init.truncated_normal(pb.random.key(0), 100, std=0.02, low=-0.04, high=0.04)
    >>> bool(abs(w).max() <= 0.04)
    True
    """
    if not low < high or std <= 0:
        message = "low must be less than high, and std positive"
        raise ArgumentError(f"{message}, got {low}, {high} and {std}")
    ends = (low - mean) / std, (high - mean) / std
    unit = random.truncated_normal(key, *ends, shape, dtype)
    return pf.clip(unit * std + mean, low, high)


@composed
def xavier_uniform(
    key: ArrayLike, shape: Shape, gain: float = 1.0, dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return uniform numbers of variance `gain**2 * 2 / (fan_in + fan_out)` (Glorot and Bengio).

    >>> w = pb.nn.init.xavier_uniform(pb.random.key(0), (8, 4))
    >>> bool(abs(w).max() <= (6 / 12) ** 0.5)
    True
    """
    std = gain / math.sqrt(_fan(shape, "fan_avg", in_axis, out_axis))
    return _init_uniform(key, shape, std, dtype)


@composed
def xavier_normal(
    key: ArrayLike, shape: Shape, gain: float = 1.0, dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return normal numbers of variance `gain**2 * 2 / (fan_in + fan_out)` (Glorot and Bengio).

    >>> pb.nn.init.xavier_normal(pb.random.key(0), (8, 4)).shape
    (8, 4)
    """
    std = gain / math.sqrt(_fan(shape, "fan_avg", in_axis, out_axis))
    return random.normal(key, shape, dtype, scale=std)


@composed
def kaiming_uniform(
    key: ArrayLike, shape: Shape, a: float = 0.0, mode: Mode = "fan_in",
    nonlinearity: Nonlinearity = "leaky_relu", dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return uniform numbers of variance `gain**2 / fan` (He et al.).

    The gain is `calculate_gain(nonlinearity, a)`, where `a` is the slope of "leaky_relu", and the
    fan is selected by `mode`.

    >>> w = pb.nn.init.kaiming_uniform(pb.random.key(0), (3, 3, 4, 8), nonlinearity="relu")
    >>> bool(abs(w).max() <= (6 / 36) ** 0.5)
    True
    """
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(shape, mode, in_axis, out_axis))
    return _init_uniform(key, shape, std, dtype)


@composed
def kaiming_normal(
    key: ArrayLike, shape: Shape, a: float = 0.0, mode: Mode = "fan_in",
    nonlinearity: Nonlinearity = "leaky_relu", dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return normal numbers of variance `gain**2 / fan` (He et al.); see `kaiming_uniform`.

    >>> pb.nn.init.kaiming_normal(pb.random.key(0), (8, 4), mode="fan_out").shape
    (8, 4)
    """
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(shape, mode, in_axis, out_axis))
    return random.normal(key, shape, dtype, scale=std)


@composed
def lecun_uniform(
    key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return uniform numbers of variance `1 / fan_in`.

    >>> w = pb.nn.init.lecun_uniform(pb.random.key(0), (8, 3))
    >>> bool(abs(w).max() <= 1)
    True
    """
    std = 1 / math.sqrt(_fan(shape, "fan_in", in_axis, out_axis))
    return _init_uniform(key, shape, std, dtype)


@composed
def lecun_normal(
    key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return numbers of variance `1 / fan_in`, normal within two standard deviations.

    >>> pb.nn.init.lecun_normal(pb.random.key(0), (8, 3)).shape
    (8, 3)
    """
    std = 1 / math.sqrt(_fan(shape, "fan_in", in_axis, out_axis))
    return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (std / _TRUNCATED)


def _init_uniform(key: ArrayLike, shape: Shape, std: float, dtype: DTypeLike | None) -> Tensor:
    limit = math.sqrt(3) * std
    return random.uniform(key, shape, dtype, minval=-limit, maxval=limit)


@composed
def orthogonal(
    key: ArrayLike, shape: Shape, gain: float = 1.0, dtype: DTypeLike | None = None
) -> Tensor:
    """Return a matrix with orthonormal rows or columns, whichever are fewer, times `gain`.

    Of more than two axes, all but the last are the rows: filters [spatial..., in, out] are a matrix
    with `out` columns.

    >>> w = pb.nn.init.orthogonal(pb.random.key(0), (2, 5))
    >>> bool(pb.allclose(w @ w.T, pb.eye(2), atol=1e-5))
    True
    """
    sizes = shape_argument("orthogonal", shape)
    if len(sizes) < 2:
        raise ShapeError(f"needs a shape of rank 2 or more, got {list(sizes)}")
    rows = math.prod(sizes[:-1])
    return pf.reshape(random.orthogonal(key, rows, (), dtype, sizes[-1]) * gain, sizes)


@composed
def sparse(
    key: ArrayLike, shape: Shape, sparsity: float, std: float = 0.01,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return a normal matrix in which a part `sparsity` of each column, rounded up, is 0.

    >>> (pb.nn.init.sparse(pb.random.key(0), (4, 3), 0.5) == 0).sum(axis=0).tolist()
    [2, 2, 2]
    """
    sizes = shape_argument("sparse", shape)
    if len(sizes) != 2:
        raise ShapeError(f"needs the shape of a matrix, got {list(sizes)}")
    if not 0 <= sparsity <= 1:
        raise ArgumentError(f"sparsity must be from 0 to 1, got {sparsity}")
    first, second = pf.unstack(random.split(key))
    order = pf.argsort(pf.argsort(random.uniform(first, sizes), axis=0), axis=0)
    kept = order >= math.ceil(sparsity * sizes[0])
    return pf.where(kept, random.normal(second, sizes, dtype, scale=std), 0)


@composed
def zeros(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    """Return zeros.

    >>> pb.nn.init.zeros(2).tolist()
    [0.0, 0.0]
    """
    return pf.zeros(shape, dtype)


@composed
def ones(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    """Return ones.

    >>> pb.nn.init.ones(2).tolist()
    [1.0, 1.0]
    """
    return pf.ones(shape, dtype)


@composed
def constant(shape: Shape, value: float, dtype: DTypeLike | None = None) -> Tensor:
    """Return one number everywhere.

    >>> pb.nn.init.constant(2, 0.5).tolist()
    [0.5, 0.5]
    """
    return pf.full(shape, float(value), dtype)


@composed
def eye(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    """Return a matrix with ones on its diagonal, the identity of a linear map.

    >>> pb.nn.init.eye((2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    sizes = shape_argument("eye", shape)
    if len(sizes) != 2:
        raise ShapeError(f"needs the shape of a matrix, got {list(sizes)}")
    return pf.eye(*sizes, dtype=dtype)


@composed
def dirac(
    shape: Shape, groups: int = 1, dtype: DTypeLike | None = None, *,
    in_axis: int | None = None, out_axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return filters [spatial..., in, out] that copy as many input channels as possible.

    Each of `groups` groups of filters copies the channels from the first on.

    >>> x = pb.arange(6.0).reshape(1, 3, 2)
    >>> w = pb.nn.init.dirac((3, 2, 2))
    >>> bool((pb.nn.functional.conv1d(x, w, padding=1) == x).all())
    True
    """
    sizes = shape_argument("dirac", shape)
    rank = len(sizes)
    if rank < 3:
        raise ShapeError(f"needs the shape of filters, of rank 3 or more, got {list(sizes)}")
    inner = rank - 2 if in_axis is None else axis_argument("dirac", in_axis, rank)
    outer = rank - 1 if out_axis is None else axis_argument("dirac", out_axis, rank)
    count = checked_integer_argument("dirac", groups, "groups")
    if count < 1 or sizes[outer] % count:
        raise ArgumentError(f"groups must divide the {sizes[outer]} filters, got {count}")
    each = sizes[outer] // count
    makes = min(each, sizes[inner])
    filters = [g * each + i for g in range(count) for i in range(makes)]
    channels = list(range(makes)) * count
    place = tuple(
        filters if i == outer else channels if i == inner else n // 2 for i, n in enumerate(sizes)
    )
    return pf.zeros(sizes, dtype).at[place].set(1)


__all__ = [
    "calculate_gain", "constant", "dirac", "eye", "fans", "kaiming_normal", "kaiming_uniform",
    "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "sparse", "truncated_normal",
    "uniform", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
