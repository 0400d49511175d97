"""How an op runs on parts of its operands, one on each device of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pullback.graph.node import Node
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.ops.op import Op

Begin = Callable[[int], Node]  # where a dimension of a part begins in the whole value


@dataclass(frozen=True, slots=True)
class Parts:
    """What an op's `factors` do not say about its parts; set as `Op.parts`.

    An op class may also define these methods:

    - `local(xs, out)` returns the op for one device's part, whose operands and result have these
      local types; needed if parameters are sizes.
    - `part(xs, out, whole, begin)` returns the node of one device's part, a result of local type
      `out` whose dimension i begins at `begin(i)` of the whole one; needed if that matters.
    - `partition(to, xs, type)` applies the op in a partition pass, for ops that hold graphs or
      move data between devices.
    """

    # How devices that split a contracted factor combine their results: sum, max, min, or again:
    # apply the op to the stacked results.
    combine: str = "sum"
    neutral: Any = 0  # the operand value that does not change the result (of max and min: derived)
    linear_in: tuple[int, ...] = ()  # operands in each of which alone the op is linear
    counted_once: tuple[int, ...] = ()  # operands that only one of these devices may add
    positions: int | None = None  # operands from this one on are positions, where 0 is valid


def op_for_parts(op: Op, xs: Sequence[Type], out: Any) -> Op:
    """Return the op for one device's part, by its `local` if it defines one."""
    return op.local(xs, out) if hasattr(op, "local") else op


def apply_op_to_parts(op: Op, xs: Sequence[Node], out: Any, whole: Any, begin: Begin) -> Node:
    """Apply the op to one device's parts, by its `part` if it defines one."""
    if hasattr(op, "part"):
        return op.part(xs, out, whole, begin)
    return op_for_parts(op, [x.type.plain for x in xs], out)(*xs)
