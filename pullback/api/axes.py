"""Named axes: which are bound where, and the collectives that users call over them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pullback.ir.dtypes import DType
from pullback.ir.errors import ArgumentError, AxisError
from pullback.ir.node import Node, vary_over
from pullback.ir.where import user_line
from pullback.ops.base import Axis, Op
from pullback.ops.collective import AxisIndex, PMax, PMin, PSum
from pullback.ops.exchange import AllGather, PPermute
from pullback.ops.reduce import accumulator
from pullback.tensor import tree
from pullback.tensor.creation import asarray
from pullback.tensor.functions.arguments import counting_dtype
from pullback.tensor.operators import node_of
from pullback.tensor.record import record
from pullback.tensor.tensor import Tensor

Names = str | tuple[str, ...]


class _Bound(threading.local):
    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}


_bound = _Bound()


def bound_axes() -> tuple[tuple[str, int], ...]:
    """The named axes that are known here, with their sizes."""
    return tuple(_bound.sizes.items())


class bind:
    """While a function runs for one example along the axis, its name is known."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        if axis.name is not None and axis.name in _bound.sizes:
            raise ArgumentError(
                f"vmap: the axis name {axis.name!r} is in use further out", where=user_line(),
                hint="A collective could not tell the two axes apart: choose another name.",
            )  # fmt: skip

    def __enter__(self) -> None:
        if self.axis.name is not None:
            _bound.sizes[self.axis.name] = self.axis.size

    def __exit__(self, *exception: object) -> None:
        if self.axis.name is not None:
            del _bound.sizes[self.axis.name]


def psum(x: Any, axis_name: Names) -> Any:
    """The sum of `x` (a tensor or a tree) over all examples along named axes.

    As in `pb.sum`, small integers are summed in 64 bits.

    >>> import pullback as pb
    >>> pb.vmap(lambda x: x / pb.psum(x, "i"), axis_name="i")(pb.tensor([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    return _shared("psum", PSum, x, axis_name, counting_dtype)


def pmean(x: Any, axis_name: Names) -> Any:
    """The mean of `x` over all examples along named axes.

    >>> import pullback as pb
    >>> pb.vmap(lambda x: x - pb.pmean(x, "i"), axis_name="i")(pb.tensor([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    """
    names = _names("pmean", axis_name)
    count = math.prod(_bound.sizes[name] for name in names)
    # a sum in half precision could overflow where the mean does not
    totals = _shared("pmean", PSum, x, names, lambda d: accumulator(counting_dtype(d)))

    def mean(y: Any, total: Any) -> Any:
        dtype = asarray(y).dtype
        made = total / count
        return made.astype(dtype) if dtype.is_inexact else made

    return tree.map(mean, x, totals)


def pmax(x: Any, axis_name: Names) -> Any:
    """The largest `x` over all examples along named axes; equal ones share the gradient.

    >>> import pullback as pb
    >>> pb.vmap(lambda x: x / pb.pmax(x, "i"), axis_name="i")(pb.tensor([1.0, 4.0])).tolist()
    [0.25, 1.0]
    """
    return _shared("pmax", PMax, x, axis_name)


def pmin(x: Any, axis_name: Names) -> Any:
    """The smallest `x` over all examples along named axes; equal ones share the gradient.

    >>> import pullback as pb
    >>> pb.vmap(lambda x: x - pb.pmin(x, "i"), axis_name="i")(pb.tensor([1.0, 4.0])).tolist()
    [0.0, 3.0]
    """
    return _shared("pmin", PMin, x, axis_name)


def axis_index(axis_name: str) -> Tensor:
    """The number of the present example along a named axis.

    >>> import pullback as pb
    >>> pb.vmap(lambda x: x * pb.axis_index("i"), axis_name="i")(pb.tensor([5, 5, 5])).tolist()
    [0, 5, 10]
    """
    name = _name("axis_index", axis_name)
    return record(AxisIndex(name), ())


def all_gather(x: Any, axis_name: str, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all examples along a named axis, stacked along a new axis of the result.

    With `tiled` they are concatenated along `axis` instead.

    >>> import pullback as pb
    >>> f = lambda x: pb.all_gather(x, "i").sum() * x
    >>> pb.vmap(f, axis_name="i")(pb.tensor([1.0, 2.0])).tolist()
    [3.0, 6.0]
    """
    from pullback.tensor.functions import reshape

    name = _name("all_gather", axis_name)
    size = _bound.sizes[name]

    def gather(y: Tensor) -> Tensor:
        rank = len(y.shape) + (not tiled)
        if not -rank <= axis < rank:
            raise AxisError(
                f"all_gather: axis {axis} is out of range for {y._node.type}", where=user_line()
            )
        dim = axis % rank
        made = record(AllGather(name, size, dim), (_varying(y, (name,)),))
        if not tiled:
            return made
        shape = list(y.shape)
        shape[dim] *= size
        return reshape(made, tuple(shape))

    return tree.map(lambda y: gather(asarray(y)), x)


def ppermute(x: Any, axis_name: str, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along a named axis: for each pair `(source, target)` of `perm` the target gets
    the source's value; an example that is no target gets zeros.

    >>> import pullback as pb
    >>> shift = lambda x: pb.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
    >>> pb.vmap(shift, axis_name="i")(pb.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 1.0, 2.0]
    """
    name = _name("ppermute", axis_name)
    pairs = tuple([(int(s), int(t)) for s, t in perm])
    size = _bound.sizes[name]
    for side in zip(*pairs, strict=True):
        if len(set(side)) != len(side) or not all(0 <= i < size for i in side):
            raise ArgumentError(
                f"ppermute: sources and targets must be different numbers below {size}, got "
                f"{list(pairs)}",
                where=user_line(),
            )
    op = PPermute(name, pairs)
    return tree.map(lambda y: record(op, (_varying(asarray(y), (name,)),)), x)


def _shared(
    what: str,
    op: Callable[[tuple[str, ...]], Op],
    x: Any,
    axis_name: Names,
    computed_in: Callable[[DType], DType] = lambda dtype: dtype,
) -> Any:
    """A reduction of all leaves of `x`, in the element type that `computed_in` gives."""
    names = _names(what, axis_name)

    def share(y: Any) -> Tensor:
        y = asarray(y)
        y = y.astype(computed_in(y.dtype))
        return record(op(names), (_varying(y, names),)) if names else y

    return tree.map(share, x)


def _varying(x: Tensor, names: tuple[str, ...]) -> Node:
    """The node of `x`, as one that varies over the named axes."""
    return vary_over(node_of(x), names)


def _name(what: str, axis_name: str) -> str:
    if not isinstance(axis_name, str):
        raise ArgumentError(
            f"{what}: axis_name must be one name, got {axis_name!r}", where=user_line()
        )
    return _names(what, axis_name)[0]


def _names(what: str, axis_name: Names) -> tuple[str, ...]:
    names = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
    if len(set(names)) != len(names):
        raise ArgumentError(f"{what}: {axis_name!r} names an axis twice", where=user_line())
    for name in names:
        if name not in _bound.sizes:
            known = ", ".join(map(repr, _bound.sizes)) or "none"
            raise ArgumentError(
                f"{what}: no axis is named {name!r} here; bound are: {known}", where=user_line(),
                hint='Name it where it is mapped: pb.vmap(f, axis_name="...").',
            )  # fmt: skip
    return names
