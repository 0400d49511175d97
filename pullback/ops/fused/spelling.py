"""Ways to write with other ops what a fused op computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pullback.graph.node import Node
from pullback.graph.types import Type

Operands = tuple[Type, ...]

# CPUs have kernels for ops on rows. For GPUs, the engine makes kernels out of their plain forms.
WITH_ROW_KERNELS = ("cpu", "cuda")


def spelling_operand_type(node: Node) -> Type:
    """Return the shape and dtype of a node, without its layout on devices."""
    return Type(node.type.shape, node.type.dtype)


@dataclass(frozen=True)
class Spelling:
    """A formula, and the fused op to use in its place.

    Numbers that a user may choose, such as an epsilon, should be operands of the formula: in code
    that is not compiled they are inputs of the program.
    """

    name: str
    last: type  # the class of the op that gives the formula's result
    formula: Callable[..., Node]  # the plain form, of nodes
    # The types that the operands of the formula may have, if a node is its result; or another
    # spelling with such types, for formulas that are read from the program
    operands: Callable[[Node], Iterable[Operands | tuple[Spelling, Operands]]]
    # The same value by the fused op; None if the nodes found as operands do not allow it
    fused: Callable[..., Node | None]
    # The cotangents of the operands from the result's, the fused op's result, and the operands;
    # None for operands that have none. Without it, a formula that is differentiated is left alone.
    pull: Callable[..., Sequence[Node | None]] | None = None
    stage: int = 0  # formulas of a later stage may contain fused ops of earlier ones
    platforms: tuple[str, ...] = ("cpu",)  # that have a kernel for the fused op


SPELLINGS: list[Spelling] = []


def spelling(made: Spelling) -> Spelling:
    """Let programs be searched for a formula."""
    SPELLINGS.append(made)
    return made
