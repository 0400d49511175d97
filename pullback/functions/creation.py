"""Tensors made from numbers.

Inside a function that runs on placeholders they are nodes without inputs, which XLA fuses with
their users. Elsewhere they are leaves: the first step of a loop then has the same structure as
every later one, whose state was computed. NumPy makes the value of such a leaf when a program or
the user needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from pullback.engines.limits import ADDRESS_SPACE, MOST
from pullback.errors import ArgumentError, DTypeError, OutOfMemory
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    checked_integer_argument,
    dtype_argument,
    literal_argument,
    operator_number,
    shape_argument,
)
from pullback.functions.data_types import result_type
from pullback.functions.shape import reshaped_to, spread_to_shape
from pullback.functions.sharding import reshard, to_device
from pullback.functions.where_take import where
from pullback.graph.ambient import thread
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_number_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.dtypes import DType, complex128, float64, int64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import constant_node
from pullback.graph.source_lines import user_line
from pullback.graph.types import Type
from pullback.lazy.devices import layout_on_named_device
from pullback.lazy.host_reads import refuse_host_read_cut
from pullback.lazy.operators import NUMBERS
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.settings import SettingsScope, current
from pullback.lazy.tensor import wrap
from pullback.lazy.values import DeferredValue
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Broadcast
from pullback.ops.sources import Const, leaf_source
from pullback.typing import ArrayLike, DTypeLike, Number, Shape


def created_from_array(array: np.ndarray) -> Tensor:
    """Return an array that a function computed as a tensor."""
    kind = dtype_of(array.dtype)
    return _created("tensor", array.shape, kind, lambda: array, None, None)


def created_from_formula(
    op: str, shape: tuple[int, ...], dtype: DType, make: Callable[[], np.ndarray]
) -> Tensor:
    """Return a tensor whose value NumPy makes when it is needed."""
    return _created(op, shape, dtype, lambda: make().astype(dtype.numpy), None, None)


def _created(
    op: str, shape: tuple[int, ...], dtype: DType, make: Callable[[], np.ndarray],
    recorded: Callable[[], Tensor] | None, device: str | None, fill: np.ndarray | None = None,
) -> Tensor:  # fmt: skip
    """Return a tensor whose value NumPy makes; in a program it is `recorded`, else a constant."""
    if math.prod([n or 1 for n in shape]) >= MOST:
        raise _too_large_to_create(op, shape)
    if thread.tracing_from:
        with record_at_one_line():
            made = recorded() if recorded else _created_constant(_creation_array(op, shape, make))
            return _created_placed(made, device)
    if math.prod(shape) * dtype.bits // 8 >= ADDRESS_SPACE:
        raise _too_large_to_create(op, shape)
    place = current().place if device is None else layout_on_named_device(op, device)
    type = Type(shape, dtype) if place is None else Type(shape, dtype).sharded(place)
    line = user_line()
    formula = DeferredValue(lambda: _creation_array(op, shape, make, line), fill)
    return wrap(leaf_source(type, formula))


def _created_constant(array: np.ndarray) -> Tensor:
    return record(Const(dtype_of(array.dtype), array.shape, array.tobytes()), ())


def _created_placed(x: Tensor, device: str | None) -> Tensor:
    """Return a tensor inside of a program on the device that new tensors are on."""
    if device is not None:
        return to_device(x, device)
    place = current().place
    return x if place is None else reshard(x, place)


def _creation_array(
    op: str, shape: tuple[int, ...], make: Callable[[], np.ndarray], line: Any = None
) -> np.ndarray:
    """Call `make` for an array of this shape, if there is memory for it."""
    try:
        return make()
    except MemoryError:
        raise _too_large_to_create(op, shape).at(op, line or user_line()) from None


def _too_large_to_create(op: str, shape: tuple[int, ...]) -> OutOfMemory:
    return OutOfMemory(f"there is not enough memory for shape {list(shape)}", op=op)


def _create_filled(
    op: str, shape: Shape, value: Any, dtype: DTypeLike | None, device: str | None
) -> Tensor:
    if type(dtype) is int or type(device) is int:
        given = ", ".join(str(n) for n in (shape, dtype, device) if type(n) is int)
        what = f"the shape must be one argument, got {given}"
        raise ArgumentError(what, op=op, hint=f"Write pb.{op}(({given}), ...)")
    sizes = shape_argument(op, shape)
    wanted = dtype_argument(op, dtype, current().default_dtype)
    try:
        number = np.asarray(value, wanted.numpy)
    except (OverflowError, TypeError, ValueError):
        raise DTypeError(f"{shown_argument(value)} does not fit into {wanted}", op=op) from None
    return _created(
        op, sizes, wanted, lambda: np.full(sizes, number),
        lambda: record(Broadcast(sizes), (constant_node(value, wanted),)), device, number,
    )  # fmt: skip


def zeros(shape: Shape, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a tensor of zeros.

    >>> pb.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _create_filled("zeros", shape, 0, dtype, device)


def ones(shape: Shape, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a tensor of ones.

    >>> pb.ones(3, dtype=pb.int32).tolist()
    [1, 1, 1]
    """
    return _create_filled("ones", shape, 1, dtype, device)


def empty(shape: Shape, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a tensor whose values do not matter; they are zeros.

    >>> pb.empty((2, 3)).shape
    (2, 3)
    """
    return _create_filled("empty", shape, 0, dtype, device)


def full(
    shape: Shape, fill_value: ArrayLike, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a tensor filled with one value.

    >>> pb.full(2, 1.5).tolist()
    [1.5, 1.5]
    """
    value = operator_number(fill_value)
    if type(value) in NUMBERS:
        kind = as_tensor(value).dtype if dtype is None else dtype
        return _create_filled("full", shape, value, kind, device)
    x = as_tensor(value)
    result = spread_to_shape(x, shape_argument("full", shape)).astype(
        dtype_argument("full", dtype, x.dtype)
    )
    return result if device is None else to_device(result, device)


def zeros_like(
    x: ArrayLike, dtype: DTypeLike | None = None, device: str | None = None, *,
    shape: Shape | None = None,
) -> Tensor:  # fmt: skip
    """Return zeros of the dtype of another tensor, and of its shape unless one is given.

    >>> pb.zeros_like([1, 2]).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype, device, shape=shape)


def ones_like(
    x: ArrayLike, dtype: DTypeLike | None = None, device: str | None = None, *,
    shape: Shape | None = None,
) -> Tensor:  # fmt: skip
    """Return ones of the dtype of another tensor, and of its shape unless one is given.

    >>> pb.ones_like([1.5, 2.5]).tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1, dtype, device, shape=shape)


def empty_like(
    x: ArrayLike, dtype: DTypeLike | None = None, device: str | None = None, *,
    shape: Shape | None = None,
) -> Tensor:  # fmt: skip
    """Return a tensor like another one whose values do not matter; they are zeros.

    >>> pb.empty_like([1, 2]).shape
    (2,)
    """
    return full_like(x, 0, dtype, device, shape=shape)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None,
    device: str | None = None, *, shape: Shape | None = None,
) -> Tensor:  # fmt: skip
    """Return a tensor filled with one value, of the shape, dtype and layout of another tensor.

    With a shape of its own, it has only the dtype of the other one.

    >>> pb.full_like([1, 2], 7).tolist(), pb.full_like([1, 2], 7, shape=3).tolist()
    ([7, 7], [7, 7, 7])
    """
    x = as_tensor(x)
    kind = dtype_argument("full_like", dtype, x.dtype)
    if shape is not None:
        return full(shape, fill_value, kind, device)
    if device is not None or (x.sharding is None and current().place is None):
        return full(x.shape, fill_value, kind, device)
    with SettingsScope(place=None):
        result = full(x.shape, fill_value, kind)
    return result if x.sharding is None else reshard(result, x.sharding)


@with_argument_checks
def arange(
    start: Number | Tensor, stop: Number | Tensor | None = None, step: Number | Tensor = 1,
    dtype: DTypeLike | None = None, device: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the numbers from `start` (0 if only one number is given) up to, but without, `stop`.

    >>> pb.arange(3).tolist(), pb.arange(1, 2, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """
    first, last = (0, start) if stop is None else (start, stop)
    first, last, step = map(_creation_number, (first, last, step))
    if step == 0:
        raise ArgumentError("step must not be 0", op="arange")
    if not all(map(math.isfinite, (first, last))) or step != step:
        got = f"{first}, {last} and {step}"
        raise ArgumentError(f"start, stop and step must be finite, got {got}", op="arange")
    whole = all(isinstance(v, int) for v in (first, last, step))
    wanted = dtype_argument("arange", dtype, int64 if whole else current().default_dtype)
    # the floor division of integers is exact, however large they are
    count = max(0, -((first - last) // step) if whole else math.ceil((last - first) / step))
    exact = whole and _created_fits(int64, first, step, first + count * step)

    def recorded() -> Tensor:
        positions = record(Iota((count,), 0, int64), ())
        return (positions * literal_argument(step, int64) + literal_argument(first, int64)).astype(
            wanted
        )

    if whole and not exact and 0 < count < MOST:  # NumPy would compute in i64
        if wanted.is_integer and not _created_fits(wanted, first, first + (count - 1) * step):
            raise DTypeError(f"{first} to {last} do not fit into {wanted}", op="arange")
        return _created(
            "arange", (count,), wanted, recorded=None, device=device,
            make=lambda: _created_beyond_i64(first, last, step).astype(wanted.numpy),
        )  # fmt: skip
    return _created(
        "arange", (count,), wanted, lambda: (first + np.arange(count) * step).astype(wanted.numpy),
        recorded if exact else None, device,
    )  # fmt: skip


def _created_beyond_i64(first: Any, last: Any, step: Any) -> np.ndarray:
    return np.array(list(range(first, last, step)), dtype="O")


def _created_fits(dtype: DType, *values: Any) -> bool:
    limits = np.iinfo(dtype.numpy)
    return all(limits.min <= v <= limits.max for v in values)


def _creation_number(value: Any) -> Any:
    value = operator_number(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Tensor):
        refuse_host_read_cut(value, "arange")  # the number of elements depends on the values
        return value.item()
    return value


def linspace(
    start: Number | Tensor, stop: Number | Tensor, num: int, dtype: DTypeLike | None = None,
    endpoint: bool = True, device: str | None = None,
) -> Tensor:  # fmt: skip
    """Return `num` evenly spaced numbers from `start` to `stop`.

    >>> pb.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = checked_integer_argument("linspace", num, "num", bounded=False)  # memory is the bound
    endpoint = checked_flag_argument("linspace", endpoint, "endpoint")
    if count < 0:
        raise ArgumentError(f"num must not be negative, got {num}", op="linspace")
    ends = {"start": start, "stop": stop}
    first, last = [
        operator_number(checked_number_argument("linspace", v, name)) for name, v in ends.items()
    ]
    if isinstance(first, Tensor) or isinstance(last, Tensor):
        result = _linspace_interpolated(first, last, count, dtype, endpoint)
        return result if device is None else to_device(result, device)
    wanted = dtype_argument("linspace", dtype, current().default_dtype)
    wide = np.complex128 if wanted.is_complex else np.float64

    def numbers() -> np.ndarray:  # XLA would round sums of products once, not twice
        return np.linspace(first, last, count, endpoint, dtype=wide).astype(wanted.numpy)

    return _created("linspace", (count,), wanted, numbers, None, device)


def _linspace_interpolated(
    start: Any, stop: Any, count: int, dtype: DTypeLike | None, endpoint: bool
) -> Tensor:
    """`linspace` between tensors, of which the result is a function; computed in f64, as between
    numbers, by NumPy's formula."""
    kind = result_type(start, stop)
    kind = dtype_argument("linspace", dtype, kind if kind.is_inexact else current().default_dtype)
    wide = complex128 if kind.is_complex or result_type(start, stop).is_complex else float64
    first, last = as_tensor(start).astype(wide), as_tensor(stop).astype(wide)
    ones = (1,) * max(first.ndim, last.ndim)
    index = arange(count, dtype=float64).reshape(count, *ones)
    steps = max(count - 1 if endpoint else count, 1)
    result = first + index * ((last - first) / steps)
    if endpoint and count > 1:
        result = where(index == count - 1, last, result)
    return result.astype(kind)


def eye(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Return a matrix with ones on the `k`-th diagonal and zeros elsewhere.

    >>> pb.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    (rows,) = shape_argument("eye", n_rows)
    (columns,) = (rows,) if n_cols is None else shape_argument("eye", n_cols)
    wanted = dtype_argument("eye", dtype, current().default_dtype)
    shape, offset = (
        (rows, columns),
        min(max(checked_integer_argument("eye", k, "k", False), -rows), columns),
    )

    def recorded() -> Tensor:
        row, column = (record(Iota(shape, axis, int64), ()) for axis in (0, 1))
        return (row + literal_argument(offset, int64) == column).astype(wanted)

    make = lambda: np.eye(rows, columns, offset, dtype=wanted.numpy)  # noqa: E731
    return _created("eye", shape, wanted, make, recorded, device)


def meshgrid(
    *arrays: ArrayLike, indexing: Literal["xy", "ij"] = "xy", sparse: bool = False
) -> tuple[Tensor, ...]:
    """Return the coordinates of a grid from the coordinates along each axis; with `sparse`, as
    tensors that broadcast to the grid.

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
    own = [tuple(a.size if at == i else 1 for at in order) for i, a in enumerate(axes)]
    rows = [reshaped_to(a, sizes) for a, sizes in zip(axes, own)]
    sparse = checked_flag_argument("meshgrid", sparse, "sparse")
    return tuple(rows if sparse else [spread_to_shape(r, shape) for r in rows])


def identity(n: int, dtype: DTypeLike | None = None) -> Tensor:
    """Return the identity matrix of `n` rows.

    >>> pb.identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype)


__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "identity", "linspace",
    "meshgrid", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip
