"""Collectives: what examples along the named axis of a vmap, or devices of a mesh, share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.named_axes import Names, bound_names, one_name, size_of
from pullback.api.recording import deliver
from pullback.errors import ArgumentError, AxisError, ShapeError
from pullback.functions import reshape
from pullback.functions.arguments import counting_dtype
from pullback.graph.dtypes import DType
from pullback.graph.node import Node, vary_over
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.collective.move import AllGather, AllToAll, PPermute, ReduceScatter
from pullback.ops.collective.reduce import AxisIndex, PMax, PMin, PSum
from pullback.ops.prelude import Op
from pullback.ops.reduce.reductions import accumulator


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
    names = bound_names("pmean", axis_name)
    count = size_of(*names)
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
    name = one_name("axis_index", axis_name)
    return record(AxisIndex(name), ())


def axis_size(axis_name: Names) -> int:
    """How many examples, or devices, there are along named axes.

    >>> import pullback as pb
    >>> pb.vmap(lambda x: x * pb.axis_size("i"), axis_name="i")(pb.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    return size_of(*bound_names("axis_size", axis_name))


def pvary(x: Any, axis_name: Names) -> Any:
    """The same `x`, as a value that may differ along named axes: its gradient is then each one's
    own, and not the sum of all. Operations on values of both kinds do this by themselves.

    >>> import pullback as pb
    >>> own = lambda w, x: pb.grad(lambda w: w * x)(pb.pvary(w, "i"))
    >>> w, x = pb.tensor(1.0), pb.tensor([3.0, 4.0])
    >>> pb.vmap(own, in_axes=(None, 0), axis_name="i")(w, x).tolist()
    [3.0, 4.0]
    """
    names = bound_names("pvary", axis_name)
    return tree.map(lambda y: deliver(_varying(asarray(y), names)), x)


def all_gather(x: Any, axis_name: str, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all examples along a named axis, stacked along a new axis of the result.

    With `tiled` they are concatenated along `axis` instead.

    >>> import pullback as pb
    >>> f = lambda x: pb.all_gather(x, "i").sum() * x
    >>> pb.vmap(f, axis_name="i")(pb.tensor([1.0, 2.0])).tolist()
    [3.0, 6.0]
    """
    name = one_name("all_gather", axis_name)
    size = size_of(name)

    def gather(y: Tensor) -> Tensor:
        dim = _dim("all_gather", axis, y, new=not tiled)
        made = record(AllGather(name, size, dim), (_varying(y, (name,)),))
        return _folded(made, dim) if tiled else made

    return tree.map(lambda y: gather(asarray(y)), x)


def reduce_scatter(x: Any, axis_name: str, axis: int = 0) -> Any:
    """The sum of `x` over all examples along a named axis, of which each gets its part of `axis`.

    The dimension is cut into as many equal parts as there are examples. As in `pb.sum`, small
    integers are summed in 64 bits.

    >>> import pullback as pb
    >>> x = pb.tensor([[1.0, 2.0], [10.0, 20.0]])
    >>> pb.vmap(lambda x: pb.reduce_scatter(x, "i"), axis_name="i")(x).tolist()
    [[11.0], [22.0]]
    """
    name = one_name("reduce_scatter", axis_name)
    size = size_of(name)

    def scatter(y: Tensor) -> Tensor:
        y = y.astype(counting_dtype(y.dtype))
        dim = _dim("reduce_scatter", axis, y)
        rows = _varying(_unfolded("reduce_scatter", y, dim, name), (name,))
        return record(ReduceScatter(name, size, dim), (rows,))

    return tree.map(lambda y: scatter(asarray(y)), x)


psum_scatter = reduce_scatter


def all_to_all(x: Any, axis_name: str, split_axis: int, concat_axis: int) -> Any:
    """Cut `x` into equal parts along `split_axis`, one for each example along a named axis; each
    joins the parts that it gets along `concat_axis`.

    >>> import pullback as pb
    >>> x = pb.tensor([[1, 2], [3, 4]])
    >>> pb.vmap(lambda x: pb.all_to_all(x, "i", 0, 0), axis_name="i")(x).tolist()
    [[1, 3], [2, 4]]
    """
    name = one_name("all_to_all", axis_name)
    size = size_of(name)

    def exchange(y: Tensor) -> Tensor:
        split = _dim("all_to_all", split_axis, y)
        concat = _dim("all_to_all", concat_axis, y)
        rows = _varying(_unfolded("all_to_all", y, split, name), (name,))
        return _folded(record(AllToAll(name, size, split, concat), (rows,)), concat)

    return tree.map(lambda y: exchange(asarray(y)), x)


def ppermute(x: Any, axis_name: str, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along a named axis: for each pair `(source, target)` of `perm` the target gets
    the source's value; an example that is no target gets zeros.

    >>> import pullback as pb
    >>> shift = lambda x: pb.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
    >>> pb.vmap(shift, axis_name="i")(pb.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 1.0, 2.0]
    """
    name = one_name("ppermute", axis_name)
    pairs = tuple([(int(s), int(t)) for s, t in perm])
    size = size_of(name)
    for side in zip(*pairs, strict=True):
        if len(set(side)) != len(side) or not all(0 <= i < size for i in side):
            raise ArgumentError(
                f"ppermute: sources and targets must be different numbers below {size}, got "
                f"{list(pairs)}",
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
    names = bound_names(what, axis_name)

    def share(y: Any) -> Tensor:
        y = asarray(y)
        y = y.astype(computed_in(y.dtype))
        return record(op(names), (_varying(y, names),)) if names else y

    return tree.map(share, x)


def _varying(x: Tensor, names: tuple[str, ...]) -> Node:
    """The node of `x`, as one that varies over the named axes."""
    return vary_over(node_of(x), names)


def _dim(what: str, axis: int, x: Tensor, new: bool = False) -> int:
    """The number of a dimension, also of one that is `new`, counted from the first."""
    rank = len(x.shape) + new
    if type(axis) is not int or not -rank <= axis < rank:
        raise AxisError(f"{what}: axis {axis!r} is out of range for {x._node.type}")
    return axis % rank


def _unfolded(what: str, x: Tensor, dim: int, name: str) -> Tensor:
    """A dimension as two, of which the first has an entry for each example along the axis."""
    n, size = x.shape[dim], size_of(name)
    if n % size:
        raise ShapeError(
            f"{what}: dimension {dim} must divide into {size} parts along {name!r}, got "
            f"{x._node.type}",
        )
    return reshape(x, (*x.shape[:dim], size, n // size, *x.shape[dim + 1 :]))


def _folded(x: Tensor, dim: int) -> Tensor:
    """A dimension and the next as one."""
    shape = x.shape
    return reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
