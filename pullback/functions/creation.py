"""Tensors from nothing but numbers.

Outside of a transform the value is made at once, on the host: the result is a leaf, so the first
step of a loop has the same structure as every later one. Inside a function that runs on
placeholders it is a constant of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.engines.limits import MOST
from pullback.errors import ArgumentError, OutOfMemory
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    integer,
    number,
    placed,
    shape_of,
)
from pullback.functions.data_types import result_type
from pullback.functions.shape import shaped, spread
from pullback.graph.ambient import thread
from pullback.graph.dtypes import DType, int64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import constant
from pullback.graph.table import TABLE
from pullback.lazy.host_data import from_host
from pullback.lazy.operators import NUMBERS
from pullback.lazy.record import record
from pullback.lazy.settings import current


def made(array: np.ndarray) -> Tensor:
    """An array that a function computed, as a tensor."""
    if not thread.tracing_from:
        return from_host(np.array(array, order="C"))
    return record(TABLE["Const"](dtype_of(array.dtype), array.shape, array.tobytes()), ())


def _filled(op: str, shape: Any, value: Any, dtype: DType) -> Tensor:
    shape = shape_of(op, shape)
    if thread.tracing_from:
        return record(TABLE["Broadcast"](shape), (constant(value, dtype),))
    return from_host(_array(op, shape, lambda: np.full(shape, value, dtype.numpy)))


def _array(op: str, shape: tuple[int, ...], make: Callable[[], np.ndarray]) -> np.ndarray:
    """What `make` makes of numbers in this shape, if there is memory for it."""
    try:
        if math.prod([n or 1 for n in shape]) < MOST:
            return make()
    except MemoryError:
        pass
    what = f"there is not enough memory for shape {list(shape)}"
    raise OutOfMemory(what, op=op)


def _chosen(op: str, dtype: Any, default: DType | None = None) -> DType:
    if dtype is None:
        return default or current().default_dtype
    return placed(op, dtype_of, dtype)


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor of zeros.

    >>> import pullback as pb
    >>> pb.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _filled("zeros", shape, 0, _chosen("zeros", dtype))


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor of ones.

    >>> import pullback as pb
    >>> pb.ones(3, dtype=pb.int32).tolist()
    [1, 1, 1]
    """
    return _filled("ones", shape, 1, _chosen("ones", dtype))


def empty(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor whose values do not matter; they are zeros.

    >>> import pullback as pb
    >>> pb.empty((2, 3)).shape
    (2, 3)
    """
    return _filled("empty", shape, 0, _chosen("empty", dtype))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A tensor that holds one value everywhere.

    >>> import pullback as pb
    >>> pb.full(2, 1.5).tolist()
    [1.5, 1.5]
    """
    value = number(fill_value)
    if type(value) not in NUMBERS:
        return spread(as_tensor(value), shape_of("full", shape)).astype(
            _chosen("full", dtype, as_tensor(value).dtype)
        )
    return _filled("full", shape, value, _chosen("full", dtype, as_tensor(value).dtype))


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros in the shape and element type of another tensor.

    >>> import pullback as pb
    >>> pb.zeros_like([1, 2]).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones in the shape and element type of another tensor.

    >>> import pullback as pb
    >>> pb.ones_like([1.5, 2.5]).tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1, dtype)


def empty_like(x: Any, dtype: Any = None) -> Tensor:
    """A tensor like another one whose values do not matter; they are zeros.

    >>> import pullback as pb
    >>> pb.empty_like([1, 2]).shape
    (2,)
    """
    return full_like(x, 0, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """One value everywhere, in the shape and element type of another tensor.

    >>> import pullback as pb
    >>> pb.full_like([1, 2], 7).tolist()
    [7, 7]
    """
    x = as_tensor(x)
    made = full(x.shape, fill_value, _chosen("full_like", dtype, x.dtype))
    if x.sharding is None:
        return made
    from pullback.functions.sharding import reshard

    return reshard(made, x.sharding)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Numbers from `start` (0 if one number is given) up to, but without, `stop`.

    >>> import pullback as pb
    >>> pb.arange(3).tolist(), pb.arange(1, 2, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = map(_as_number, (start, stop, step))
    if step == 0:
        raise ArgumentError("step must not be 0", op="arange")
    whole = all(isinstance(v, int) for v in (start, stop, step))
    wanted = _chosen("arange", dtype, int64 if whole else None)
    # of integers it is exact, however large
    count = max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
    numbers = _array("arange", (count,), lambda: start + np.arange(count) * step)
    return made(numbers.astype(wanted.numpy))


def _as_number(value: Any) -> Any:
    value = number(value)
    if isinstance(value, bool):
        return int(value)
    return value.item() if isinstance(value, Tensor) else value


def linspace(start: Any, stop: Any, num: int, dtype: Any = None, endpoint: bool = True) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`.

    >>> import pullback as pb
    >>> pb.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = integer("linspace", num, "num")
    if count < 0:
        raise ArgumentError(f"num must not be negative, got {num}", op="linspace")
    start, stop = number(start), number(stop)
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        return _between(start, stop, count, dtype, endpoint)
    wanted = _chosen("linspace", dtype)
    wide = np.complex128 if wanted.is_complex else np.float64
    numbers = _array(
        "linspace", (count,), lambda: np.linspace(start, stop, count, endpoint, dtype=wide)
    )
    return made(numbers.astype(wanted.numpy))


def _between(start: Any, stop: Any, count: int, dtype: Any, endpoint: bool) -> Tensor:
    """Tensors at equal distances, stacked, which depend on `start` and `stop`."""
    kind = result_type(start, stop)
    kind = kind if kind.is_inexact else current().default_dtype
    ones = (1,) * max([x.ndim for x in (start, stop) if isinstance(x, Tensor)])
    share = linspace(0, 1, count, kind, endpoint).reshape(count, *ones)
    made = start * (1 - share) + stop * share
    return made if dtype is None else made.astype(_chosen("linspace", dtype))


def eye(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on the `k`-th diagonal, zeros elsewhere.

    >>> import pullback as pb
    >>> pb.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    (rows,) = shape_of("eye", n_rows)
    (columns,) = (rows,) if n_cols is None else shape_of("eye", n_cols)
    wanted = _chosen("eye", dtype).numpy
    return made(_array("eye", (rows, columns), lambda: np.eye(rows, columns, k, dtype=wanted)))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid from the coordinates along each axis.

    >>> import pullback as pb
    >>> [g.tolist() for g in pb.meshgrid([1, 2], [3, 4], indexing="ij")]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f'indexing must be "xy" or "ij", got {indexing!r}', op="meshgrid")
    axes = [as_tensor(a) for a in arrays]
    if any(a.ndim != 1 for a in axes):
        shown = ", ".join(str(a._node.type) for a in axes)
        raise ArgumentError(f"needs vectors, got {shown}", op="meshgrid")
    order = list(range(len(axes)))
    if indexing == "xy" and len(axes) > 1:
        order[:2] = [1, 0]
    shape = tuple(axes[i].shape[0] for i in order)
    grids = []
    for i, a in enumerate(axes):
        own = tuple(a.shape[0] if at == i else 1 for at in order)
        grids.append(spread(shaped(a, own), shape))
    return grids


def from_dlpack(x: Any) -> Tensor:
    """A tensor with a copy of the data of any object that speaks DLPack.

    >>> import pullback as pb
    >>> import numpy as np
    >>> pb.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(
            f"from_dlpack: needs an object with __dlpack__, got {type(x).__name__}",
        )
    return as_tensor(x)
