"""Kinds of ops that passes over graphs treat specially.

Ops are defined above this layer, in `pullback.ops`; those of a kind inherit from its class here,
so that a pass can ask `isinstance(node.op, Transparent)` without knowing any op.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np

    from pullback.graph.node import Node
    from pullback.graph.types import Type
    from pullback.sharding.mesh import DeviceMesh


class DistinctKind:
    """Two applications are two values, even to the same operands: inputs, leaves, barriers."""


class InputSourceKind(DistinctKind):
    """An input of a program."""


class LeafSourceKind(DistinctKind):
    """A tensor whose value is known; the node holds it."""


class ScalarSourceKind(DistinctKind):
    """A Python number that the user wrote; the node holds it."""


class ConstSourceKind:
    """A constant that is part of the program."""

    @property
    @abstractmethod
    def array(self) -> np.ndarray:
        """Its value."""


class UnpackedScalarKind:
    """One scalar out of the packed scalars of a program."""


class ResultSourceKind:
    """One of several results of an op."""

    index: int


class Transparent:
    """The value is that of the first operand; keys and canonical graphs look through the op."""


class Detached:
    """No derivative passes: the operand counts as a constant."""


class PerElementKind:
    """The op works element by element, so that on constant scalars it can be folded."""


class RearrangementKind:
    """The elements of the only operand in another order or shape, some of them or repeated: the
    op costs nothing where its result is read by another op of the same program."""


class SumOfProductsKind:
    """A matrix product or convolution: the expensive ops, whose results checkpoints may keep."""

    def products(self, xs: Sequence[Type]) -> int | None:
        """How many products it adds up; `None`: as many as the ops that it is written as."""
        return None


class SparseCotangentsKind:
    """Of several results, `vjp` gets `None` for one without a cotangent."""


class HigherOrderKind(SparseCotangentsKind):
    """The op holds graphs: its `vjp`, `jvp` and `batch` also get the transform to apply to them."""

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """Which results of `other` on `ys` are this op's results on `xs`; `None`: not all are."""
        return None


class PerDeviceKind:
    """The op runs the program of one device on every device of its mesh."""

    mesh: DeviceMesh


class RunsAs:
    """An op for derivatives only: programs run `executed` instead, unless it is `None`."""

    executed: ClassVar[Any]


class ForwardsOperandsKind:
    """Result `i` is operand `i`."""
