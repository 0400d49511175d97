"""Bases for abilities that few ops have; a class lists one beside its op family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.errors import UnsupportedOp
from pullback.graph.node import Node
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.ops.op import Op


class HasPosition:
    """An op that does the same at every position, so that one program can serve all of them."""

    @property
    def position(self) -> tuple[int, ...]:
        """Where the op reads or writes; empty if this application cannot be moved."""
        return ()

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        """Apply the op at a position that is known only at run time."""
        raise UnsupportedOp("has no position")


class HasNamedAxes:
    """An op that means something along named axes, of vmap or of a mesh."""

    def named_axes(self) -> tuple[str, ...]:
        """Return the named axes that the op means something along."""
        return ()

    def communicates(self) -> tuple[str, ...]:
        """Return the named axes along which it waits for others, which must reach it too."""
        return ()


class HasKernel:
    """An op that one of pullback's own kernels can compute on CPUs, and on GPUs cuDNN or a kernel
    that is generated."""

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        """Write a call with `b.kernel`; return None where the plain lowering is as fast. No operand
        is empty. The results must agree with the plain lowering within rounding, and their bits
        must not depend on the number of threads."""
        raise UnsupportedOp("has no kernel")

    def on_cuda(self, b: Any, out: Any, *xs: Any) -> Any:
        """Write a call for GPUs, with `b.cudnn` for example, under the same conditions."""
        return None


class HasSumOverRows:
    """An op whose results for many rows of operands can be added up in one go."""

    def sum_over_rows(self, *xs: Node) -> Node:
        """Return the sum of the results; each operand has its rows along a new first dimension."""
        raise UnsupportedOp("has no sum over rows")


class HasLateSums:
    """A loop that can leave sums which it does not read to the program around it."""

    def with_late_sums(self, xs: Sequence[Node]) -> Sequence[Node] | None:
        """Return the results by a shorter loop and what follows it; None where that is slower."""
        raise UnsupportedOp("has no late sums")


def trait_position(op: Op) -> tuple[int, ...]:
    """Return where an op reads or writes, if it can do so anywhere; else nothing."""
    return op.position if isinstance(op, HasPosition) else ()


def trait_named_axes(op: Op) -> tuple[str, ...]:
    """Return the named axes that an op means something along."""
    return op.named_axes() if isinstance(op, HasNamedAxes) else ()


def trait_communicates(op: Op) -> tuple[str, ...]:
    """Return the named axes along which an op waits for others."""
    return op.communicates() if isinstance(op, HasNamedAxes) else ()
