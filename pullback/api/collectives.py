"""Collectives: communication along a named axis, between examples of a vmap or devices of a mesh.

Each function is written for one tensor; `@per_leaf` applies it to the leaves of a tree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Protocol, TypeVar, overload

from pullback import tree
from pullback.api.named_axes import Names, bound_axis_names, named_axis_size, one_axis_name
from pullback.api.recording import deliver_from_recording
from pullback.api.signatures import Array, Params, Tree
from pullback.errors import ArgumentError, AxisError, ShapeError
from pullback.functions import reshape
from pullback.functions.arguments import sum_dtype_argument
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_integer_argument,
    checked_sequence_argument,
    shown_argument,
)
from pullback.graph.boundary import boundary
from pullback.graph.node import Node, node_varying_over
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.collective.all_reduce import PMax, PMin, PSum
from pullback.ops.collective.axis_index import AxisIndex
from pullback.ops.collective.gather_scatter_permute import (
    AllGather,
    AllToAll,
    PPermute,
    ReduceScatter,
)
from pullback.ops.prelude import Op
from pullback.ops.reduce.reductions import reduction_accumulator

X = TypeVar("X")


class CollectiveFunction(Protocol[Params]):
    """A function of a tensor that maps over the leaves of a tree."""

    @overload
    def __call__(self, x: Array, *args: Params.args, **kwargs: Params.kwargs) -> Tensor: ...
    @overload
    def __call__(self, x: X, *args: Params.args, **kwargs: Params.kwargs) -> X: ...


def collective_per_leaf(
    f: Callable[Concatenate[Tensor, Params], Tensor],
) -> CollectiveFunction[Params]:
    """Apply a function of one tensor to every leaf of a tree."""

    @boundary
    @functools.wraps(f)
    def mapped(x: Tree, *args: Params.args, **kwargs: Params.kwargs) -> Any:
        return tree.map(lambda leaf: f(asarray(leaf), *args, **kwargs), x)

    return mapped


@collective_per_leaf
def psum(x: Tensor, axis_name: Names) -> Tensor:
    """Return the sum of `x` (a tensor or a tree) over all examples along named axes.

    As in `pb.sum`, small integers are summed in 64 bits.

    >>> pb.vmap(lambda x: x / pb.psum(x, "i"), axis_name="i")(pb.tensor([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    names = bound_axis_names("psum", axis_name)
    return _reduce_collective(PSum, x.astype(sum_dtype_argument(x.dtype)), names)


@collective_per_leaf
def pmean(x: Tensor, axis_name: Names) -> Tensor:
    """Return the mean of `x` over all examples along named axes.

    >>> pb.vmap(lambda x: x - pb.pmean(x, "i"), axis_name="i")(pb.tensor([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    """
    names = bound_axis_names("pmean", axis_name)
    # a sum in half precision could overflow where the mean does not
    total = _reduce_collective(
        PSum, x.astype(reduction_accumulator(sum_dtype_argument(x.dtype))), names
    )
    mean = total / named_axis_size(*names)
    return mean.astype(x.dtype) if x.dtype.is_inexact else mean


@collective_per_leaf
def pmax(x: Tensor, axis_name: Names) -> Tensor:
    """Return the largest `x` over all examples along named axes; ties share the gradient.

    >>> pb.vmap(lambda x: x / pb.pmax(x, "i"), axis_name="i")(pb.tensor([1.0, 4.0])).tolist()
    [0.25, 1.0]
    """
    return _reduce_collective(PMax, x, bound_axis_names("pmax", axis_name))


@collective_per_leaf
def pmin(x: Tensor, axis_name: Names) -> Tensor:
    """Return the smallest `x` over all examples along named axes; ties share the gradient.

    >>> pb.vmap(lambda x: x - pb.pmin(x, "i"), axis_name="i")(pb.tensor([1.0, 4.0])).tolist()
    [0.0, 3.0]
    """
    return _reduce_collective(PMin, x, bound_axis_names("pmin", axis_name))


def axis_index(axis_name: str) -> Tensor:
    """Return the index of the current example along a named axis.

    >>> pb.vmap(lambda x: x * pb.axis_index("i"), axis_name="i")(pb.tensor([5, 5, 5])).tolist()
    [0, 5, 10]
    """
    return record(AxisIndex(one_axis_name("axis_index", axis_name)), ())


def axis_size(axis_name: Names) -> int:
    """Return the number of examples, or devices, along named axes.

    >>> pb.vmap(lambda x: x * pb.axis_size("i"), axis_name="i")(pb.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    return named_axis_size(*bound_axis_names("axis_size", axis_name))


@collective_per_leaf
def pvary(x: Tensor, axis_name: Names) -> Tensor:
    """Return `x` as a value that may differ along named axes.

    A gradient with respect to it is then computed for each example, not summed over all of them.
    Operations that combine both kinds of values do this themselves.

    >>> own = lambda w, x: pb.grad(lambda w: w * x)(pb.pvary(w, "i"))
    >>> w, x = pb.tensor(1.0), pb.tensor([3.0, 4.0])
    >>> pb.vmap(own, in_axes=(None, 0), axis_name="i")(w, x).tolist()
    [3.0, 4.0]
    """
    return deliver_from_recording(
        _varying_collective_operand(x, bound_axis_names("pvary", axis_name))
    )


@collective_per_leaf
def all_gather(x: Tensor, axis_name: str, axis: int = 0, tiled: bool = False) -> Tensor:
    """Return the values of all examples along a named axis, stacked along a new axis.

    With `tiled` they are concatenated along `axis` instead.

    >>> f = lambda x: pb.all_gather(x, "i").sum() * x
    >>> pb.vmap(f, axis_name="i")(pb.tensor([1.0, 2.0])).tolist()
    [3.0, 6.0]
    """
    name = one_axis_name("all_gather", axis_name)
    tiled = checked_flag_argument("all_gather", tiled, "tiled")
    dim = _collective_dim("all_gather", axis, x, new=not tiled)
    made = record(
        AllGather(name, named_axis_size(name), dim), (_varying_collective_operand(x, (name,)),)
    )
    return _folded_for_collectives(made, dim) if tiled else made


@collective_per_leaf
def reduce_scatter(x: Tensor, axis_name: str, axis: int = 0) -> Tensor:
    """Return this example's part of the sum of `x` over all examples along a named axis.

    The dimension `axis` is split into as many equal parts as there are examples. As in `pb.sum`,
    small integers are summed in 64 bits.

    >>> x = pb.tensor([[1.0, 2.0], [10.0, 20.0]])
    >>> pb.vmap(lambda x: pb.reduce_scatter(x, "i"), axis_name="i")(x).tolist()
    [[11.0], [22.0]]
    """
    name = one_axis_name("reduce_scatter", axis_name)
    x = x.astype(sum_dtype_argument(x.dtype))
    dim = _collective_dim("reduce_scatter", axis, x)
    rows = _varying_collective_operand(
        _unfolded_for_collectives("reduce_scatter", x, dim, name), (name,)
    )
    return record(ReduceScatter(name, named_axis_size(name), dim), (rows,))


psum_scatter = reduce_scatter


@collective_per_leaf
def all_to_all(x: Tensor, axis_name: str, split_axis: int, concat_axis: int) -> Tensor:
    """Exchange equal parts of `x` between all examples along a named axis.

    Each example splits `x` along `split_axis`, sends one part to each example, and concatenates
    the parts it receives along `concat_axis`.

    >>> x = pb.tensor([[1, 2], [3, 4]])
    >>> pb.vmap(lambda x: pb.all_to_all(x, "i", 0, 0), axis_name="i")(x).tolist()
    [[1, 3], [2, 4]]
    """
    name = one_axis_name("all_to_all", axis_name)
    split = _collective_dim("all_to_all", split_axis, x)
    concat = _collective_dim("all_to_all", concat_axis, x)
    rows = _varying_collective_operand(
        _unfolded_for_collectives("all_to_all", x, split, name), (name,)
    )
    return _folded_for_collectives(
        record(AllToAll(name, named_axis_size(name), split, concat), (rows,)), concat
    )


@collective_per_leaf
def ppermute(x: Tensor, axis_name: str, perm: Sequence[tuple[int, int]]) -> Tensor:
    """Send `x` along a named axis, from source to target for each pair in `perm`.

    An example that is not a target receives zeros.

    >>> shift = lambda x: pb.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
    >>> pb.vmap(shift, axis_name="i")(pb.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 1.0, 2.0]
    """
    name = one_axis_name("ppermute", axis_name)
    pairs = tuple(
        [
            _pair_for_collectives(pair)
            for pair in checked_sequence_argument("ppermute", perm, "perm")
        ]
    )
    size = named_axis_size(name)
    for side in zip(*pairs, strict=True):
        if len(set(side)) != len(side) or not all(0 <= i < size for i in side):
            must = f"sources and targets must be different numbers below {size}"
            raise ArgumentError(f"ppermute: {must}, got {list(pairs)}")
    return record(PPermute(name, pairs), (_varying_collective_operand(x, (name,)),))


def _pair_for_collectives(value: Any) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentError(
            f"perm must consist of pairs, got {shown_argument(value)}", op="ppermute"
        )
    source, target = [checked_integer_argument("ppermute", v, "a number in perm") for v in value]
    return source, target


def _reduce_collective(
    op: Callable[[tuple[str, ...]], Op], x: Tensor, names: tuple[str, ...]
) -> Tensor:
    return record(op(names), (_varying_collective_operand(x, names),)) if names else x


def _varying_collective_operand(x: Tensor, names: tuple[str, ...]) -> Node:
    """The node of `x`, as one that varies over the named axes."""
    return node_varying_over(node_of(x), names)


def _collective_dim(what: str, axis: int, x: Tensor, new: bool = False) -> int:
    """Return `axis` as a non-negative dimension of `x`, or (`new`) of a result with one more."""
    rank = len(x.shape) + new
    if type(axis) is not int or not -rank <= axis < rank:
        raise AxisError(f"{what}: axis {axis!r} is out of range for {x._node.type}")
    return axis % rank


def _unfolded_for_collectives(what: str, x: Tensor, dim: int, name: str) -> Tensor:
    """Split a dimension into two; the first has one entry for each example along the axis."""
    n, size = x.shape[dim], named_axis_size(name)
    if n % size:
        must = f"dimension {dim} must divide into {size} parts along {name!r}"
        raise ShapeError(f"{what}: {must}, got {x._node.type}")
    return reshape(x, (*x.shape[:dim], size, n // size, *x.shape[dim + 1 :]))


def _folded_for_collectives(x: Tensor, dim: int) -> Tensor:
    """Merge a dimension with the next one."""
    shape = x.shape
    return reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
