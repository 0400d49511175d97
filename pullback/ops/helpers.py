"""Words that rules are written with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.errors import ShapeError
from pullback.graph.node import Node, constant, vary_over
from pullback.graph.table import TABLE
from pullback.graph.types import Type, show

if TYPE_CHECKING:
    from pullback.ops.op import Op


@dataclasses.dataclass(frozen=True)
class Axis:
    """The axis that vmap maps over: its size, the name that collectives know it by, and the axes
    of a mesh that the examples are split along."""

    size: int
    name: str | None = None
    spmd: tuple[str, ...] = ()


def zeros(type: Type) -> Node:
    """Explicit zeros: a constant, spread over the type's shape."""
    return full(type, 0)


def zeros_like(type: Type) -> Node:
    """Zeros that lie on the mesh as values of the type do."""
    return laid_out(zeros(type), type)


def ones(type: Type) -> Node:
    return full(type, 1)


def full(type: Type, value: Any) -> Node:
    scalar = constant(value, type.dtype)
    return scalar if not type.shape else TABLE["Broadcast"](type.shape)(scalar)


def spread(x: Node, axis: Axis) -> Node:
    """A value that is one for all examples, repeated for each: the axis comes first."""
    return TABLE["Broadcast"]((axis.size, *x.type.shape))(x)


def spread_all(axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]) -> list[Node]:
    """Operands that all have the axis: those that are one for all examples are repeated."""
    return [x if has else spread(x, axis) for x, has in zip(xs, mapped, strict=True)]


def batch_along(op: Op, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
    """The batching rule of an op whose `axis` or `axes` are dimensions of all its operands:
    they are one further behind."""
    moved = []
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        if field.name in ("axis", "examples"):
            value += 1
        elif field.name == "axes":
            value = tuple([i + 1 for i in value])
        moved.append(value)
    return type(op)(*moved)(*spread_all(axis, xs, mapped))


def conjugate(x: Node) -> Node:
    """The complex conjugate; a real number is its own."""
    return TABLE["Conj"]()(x) if x.type.dtype.is_complex else x


def sum_to(g: Node, type: Type) -> Node:
    """Undo broadcasting: sum `g` over every dimension that `type` does not have, or has as 1."""
    g = vary_over(g, type.varying)  # a rule's constant is the same everywhere
    if g.type.shape == type.shape:
        return g
    extra = g.type.rank - type.rank
    if extra:
        g = TABLE["Sum"](tuple(range(extra)), False)(g)
    wide = tuple(i for i, n in enumerate(type.shape) if n == 1 and g.type.shape[i] != 1)
    return TABLE["Sum"](wide, True)(g) if wide else g


def laid_out(x: Node, like: Type) -> Node:
    """A value, laid out on the mesh as another one is."""
    wanted = like.sharding
    return x if wanted is None or x.type.sharding is wanted else TABLE["Reshard"].to(wanted)(x)


def broadcast_types(*types: Type) -> tuple[int, ...]:
    """The shape that operands of these types broadcast to."""
    try:
        return broadcast_shapes(*[t.shape for t in types])
    except ShapeError as error:
        error.message += f", got {show(types)}"
        raise


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that NumPy broadcasting gives; names the failing dimension."""
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if n != 1 and n != out[i]:
                if out[i] != 1:
                    raise ShapeError(
                        f"shapes must broadcast, dimension {i} is {out[i]} and {n}",
                        code="E3001", dimension=i, extents=(out[i], n),
                    )  # fmt: skip
                out[i] = n
    return tuple(out)


def counted(axes: Any, rank: int) -> Any:
    """Axes, or one, with those that count from the end as they count from 0."""
    if isinstance(axes, tuple):
        return tuple([counted(a, rank) for a in axes])
    return axes + rank if type(axes) is int and -rank <= axes < 0 else axes


def same_dtype(op: str, *xs: Type) -> Any:
    """The one element type of all operands: the IR never promotes."""
    from pullback.errors import DTypeError

    first = xs[0].dtype
    for x in xs:
        if x.dtype is not first:
            what = f"operands must have one element type, got {show(xs)}"
            raise DTypeError(what, code="E2004", dtypes=tuple([x.dtype.name for x in xs]))
    return first
