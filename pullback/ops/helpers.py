"""Helpers for writing op rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import DType
from pullback.graph.node import Node, constant_node, node_of_operand, node_varying_over
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type, show_types

if TYPE_CHECKING:
    from pullback.ops.op import Op


@dataclasses.dataclass(frozen=True)
class Axis:
    """The axis that vmap maps over."""

    size: int
    name: str | None = None  # for collectives
    spmd: tuple[str, ...] = ()  # the mesh axes that the examples are split along


def zeros(type: Type) -> Node:
    """Return zeros of a type: a constant, broadcast to its shape."""
    return full(type, 0)


def zeros_like(type: Type) -> Node:
    """Return zeros with the layout of the type."""
    return laid_out(zeros(type), type)


def ones(type: Type) -> Node:
    """Return ones of a type."""
    return full(type, 1)


def full(type: Type, value: Any) -> Node:
    """Return a constant, broadcast to the type's shape."""
    scalar = constant_node(value, type.dtype)
    return scalar if not type.shape else TABLE["Broadcast"](type.shape)(scalar)


def spread(x: Node, axis: Axis) -> Node:
    """Repeat a value that all examples share, once for each; the axis comes first."""
    return TABLE["Broadcast"]((axis.size, *x.type.shape))(x)


def spread_all(axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]) -> list[Node]:
    """Return operands that all have the axis: those that examples share are repeated."""
    return [x if has else spread(x, axis) for x, has in zip(xs, mapped, strict=True)]


def batch_along(op: Op, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
    """Batch an op that treats leading dimensions alike, after adding one to `axis` or `axes`."""
    moved = []
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        if field.name in ("axis", "examples"):
            value += 1
        elif field.name == "axes":
            value = tuple([i + 1 for i in value])
        moved.append(value)
    return type(op)(*moved)(*spread_all(axis, xs, mapped))


def jvp_in_first(op: Op, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
    """Push the tangent of the first operand, in which the op is linear; others have none."""
    return None if ts[0] is None else op(ts[0], *xs[1:])


def conjugate(x: Node) -> Node:
    """Return the complex conjugate; a real value is returned as it is."""
    return TABLE["Conj"]()(x) if x.type.dtype.is_complex else x


def sum_to(g: Node, type: Type) -> Node:
    """Undo broadcasting: sum `g` over every dimension that `type` lacks or has as 1."""
    g = node_varying_over(g, type.varying)  # a constant of a rule does not vary
    if g.type.shape == type.shape:
        return g
    extra = g.type.rank - type.rank
    if extra:
        g = TABLE["Sum"](tuple(range(extra)), False)(g)
    wide = tuple(i for i, n in enumerate(type.shape) if n == 1 and g.type.shape[i] != 1)
    return TABLE["Sum"](wide, True)(g) if wide else g


def laid_out(x: Node, like: Type) -> Node:
    """Give a value the layout of a type."""
    wanted = like.sharding
    return x if wanted is None or x.type.sharding is wanted else TABLE["Reshard"].to(wanted)(x)


def broadcast_types(*types: Type) -> tuple[int, ...]:
    """Return the shape that operands of these types broadcast to."""
    try:
        return broadcast_shapes(*[t.shape for t in types])
    except ShapeError as error:
        error.message += f", got {show_types(types)}"
        raise


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of NumPy broadcasting; an error names the dimension that fails."""
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if n != 1 and n != out[i]:
                if out[i] != 1:
                    what = f"shapes must broadcast, dimension {i} is {out[i]} and {n}"
                    raise ShapeError(what, code="E3001", dimension=i, extents=(out[i], n))
                out[i] = n
    return tuple(out)


def counted(axes: Any, rank: int) -> Any:
    """Return axes, or one axis, counted from 0 where they count from the end."""
    if isinstance(axes, tuple):
        return tuple([counted(a, rank) for a in axes])
    return axes + rank if type(axes) is int and -rank <= axes < 0 else axes


def same_dtype(op: str, *xs: Type) -> DType:
    """Return the dtype of all operands, which must agree: the IR never promotes."""
    first = xs[0].dtype
    for x in xs:
        if x.dtype is not first:
            what = f"operands must have the same dtype, got {show_types(xs)}"
            raise DTypeError(what, code="E2004", dtypes=tuple([x.dtype.name for x in xs]))
    return first


def op_functions(*names: str) -> list[Callable[..., Node]]:
    """Return ops as functions of nodes and numbers; they may be defined later."""

    def function(name: str) -> Callable[..., Node]:
        def apply(*xs: Any) -> Node:
            nodes = [x for x in xs if isinstance(x, Node)]
            return TABLE[name]()(*[node_of_operand(x, nodes[-1]) for x in xs])

        return apply

    return [function(name) for name in names]
