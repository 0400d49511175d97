"""Common parts of loops and conditionals: the state of a loop, programs with common operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.placeholders import StagedPlaceholders
from pullback.api.recording import is_recorded_value
from pullback.api.signatures import Tree
from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, promote_dtypes
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import NUMBERS, node_of, scalar_operator_dtype, weak_operator_operand
from pullback.lazy.record import record_several
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber, is_traced_number
from pullback.ops.control.dependence import dependence_positions
from pullback.ops.control.varying import varying_axes_of, varying_union
from pullback.ops.prelude import Op
from pullback.ops.sources import SCALAR, placeholder
from pullback.tree_nodes import register_node_hint

_KINDS = {"i": "integer", "u": "integer", "f": "float", "c": "complex"}


class Carry:
    """The initial state of a loop: a tree of tensors and numbers.

    A Python number has no dtype of its own: it takes that of the tensors that the body combines it
    with. `types` are the types that the body is traced on.
    """

    def __init__(self, name: str, init: Any, counted: bool = False) -> None:
        self.name = name
        self.counted = counted  # the tree begins with a counter that the user did not write
        self.leaves, self.tree = tree.flatten(init)
        self.leaves = [
            x if is_carried_number(x) else carry_leaf(name, "the state", x) for x in self.leaves
        ]
        self.types = [asarray(x)._node.type for x in self.leaves]

    def nodes(self) -> list[Node]:
        """The state's leaves as operands."""
        pairs = zip(self.leaves, self.types, strict=True)
        return [
            node_of(x) if isinstance(x, Tensor) else weak_operator_operand(x, t.dtype)
            for x, t in pairs
        ]

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The state with these leaves."""
        return tree.unflatten(self.tree, leaves)

    def returned(self, new: Any) -> list[Any]:
        """The leaves of the state that the body returned; numbers take the types of the state."""
        leaves, structure = tree.flatten(returned_carry(self.name, new))
        if structure != self.tree:
            raise self._changed(new)
        return [_as_carry_like(x, t) for x, t in zip(leaves, self.types, strict=True)]

    def settle(self, trace: Callable[[Sequence[Type]], StagedPlaceholders]) -> StagedPlaceholders:
        """The body's program; it is traced again when a number of the state takes another dtype."""
        free = set(dependence_positions(is_carried_number(x) for x in self.leaves))
        staged = trace(self.types)
        while True:
            found = {i: self._combined_dtype(i, staged, free) for i in sorted(free)}
            new = {i: d for i, d in found.items() if d is not None}
            if not new:
                break
            free -= new.keys()
            if self._retype(new):
                staged = trace(self.types)
        while self._retype(self._wider(staged)):
            staged = trace(self.types)
        while self._spread(staged):
            staged = trace(self.types)
        outs = [y.type for y in staged.graph.outputs[: len(self.leaves)]]
        if [t.plain for t in self.types] != [y.plain for y in outs]:
            raise self._changed(tree.unflatten(self.tree, outs))
        return staged

    def _combined_dtype(self, i: int, staged: StagedPlaceholders, free: set[int]) -> DType | None:
        """The dtype of the tensors that the body combines number `i` with; `None` if of none."""
        graph, kind = staged.graph, _KINDS.get(self.types[i].dtype.kind)
        arguments = len(graph.inputs) - len(staged.captured)
        typed = {x for k, x in enumerate(graph.inputs[:arguments]) if k not in free}
        pairs = zip(graph.inputs[arguments:], staged.captured, strict=True)
        typed |= {x for x, outer in pairs if outer.op is not SCALAR and not is_traced_number(outer)}
        stack = [graph.outputs[i]]
        seen = set(stack)
        found: DType | None = None
        for node in stack:  # grows while it is walked
            if not isinstance(node.type, tuple):
                if _KINDS.get(node.type.dtype.kind) != kind:
                    continue
                if node in typed:
                    found = promote_dtypes(found or node.type.dtype, node.type.dtype)
            new = [x for x in dict.fromkeys(node.inputs) if x not in seen]
            seen.update(new)
            stack += new
        return found

    def _wider(self, staged: StagedPlaceholders) -> dict[int, DType]:
        """The dtypes of numbers that the body returned in a wider dtype."""
        found = {}
        for i in dependence_positions(is_carried_number(x) for x in self.leaves):
            y = staged.graph.outputs[i].type
            if not y.shape and promote_dtypes(self.types[i].dtype, y.dtype) is y.dtype:
                found[i] = y.dtype
        return found

    def _retype(self, dtypes: dict[int, DType]) -> bool:
        """Give numbers these dtypes where they can have them; return whether any changed."""
        before = list(self.types)
        for i, d in dtypes.items():
            if scalar_operator_dtype(self.leaves[i], d) is d:
                self.types[i] = self.types[i].with_dtype(d)
        return self.types != before

    def _spread(self, staged: StagedPlaceholders) -> bool:
        """Let the state vary along the axes that the result varies along; whether any is new."""
        before = list(self.types)
        for i, y in enumerate(staged.graph.outputs[: len(self.types)]):
            axes = varying_union(self.types[i].varying, y.type.varying)
            self.types[i] = self.types[i].over(axes)
        return self.types != before

    def _changed(self, new: Any) -> ArgumentError:
        before = tree.unflatten(self.tree, self.types)
        if self.counted:
            before, new = before[1], new[1]
        return ArgumentError(
            f"{self.name}: the body must return the state with the same tree and types, got\n  "
            f"{before!r}\nand returned\n  {carry_types(new)!r}\n",
            hint="Give the initial state the type of later ones, or cast what the body returns.",
        )


def _as_carry_like(x: Any, type: Type) -> Any:
    """A value that the body returned; a number takes the type, if it can."""
    if (
        is_carried_number(x)
        and not type.shape
        and scalar_operator_dtype(x, type.dtype) is type.dtype
    ):
        return wrap(weak_operator_operand(x, type.dtype))
    return x


def is_carried_number(x: object) -> bool:
    """Whether it is a Python number, or one whose value is not known yet."""
    return type(x) in NUMBERS or isinstance(x, TracedNumber)


def carry_leaf(name: str, what: str, x: Any) -> Tensor:
    """A leaf of an argument, which must be a tensor or an array."""
    if not is_recorded_value(x):
        message = f"{name}: {what} must contain tensors, arrays or numbers, got {type(x).__name__}"
        raise ArgumentError(message, hint=register_node_hint(x))
    return asarray(x)


def returned_carry(name: str, result: Any) -> Any:
    """The result of a function, which must be a tree of values."""
    for x in tree.leaves(result):
        carry_leaf(name, "the result of the function", x)
    return result


def carry_types(values: Tree) -> Tree:
    """The tree of the types of a tree of values."""
    return tree.map(lambda x: x if isinstance(x, Type) else asarray(x)._node.type, values)


class JoinedCarry:
    """Programs with common operands: the arguments, then everything that any of them captured."""

    def __init__(self, staged: Sequence[StagedPlaceholders], arguments: int) -> None:
        self.captured = list(dict.fromkeys(c for s in staged for c in s.captured))
        self.graphs = [self._graph(s, arguments) for s in staged]
        self.axes = varying_axes_of(self.graphs[0].inputs)

    def _graph(self, staged: StagedPlaceholders, arguments: int) -> Graph:
        own = dict(zip(staged.captured, staged.graph.inputs[arguments:], strict=True))
        rest = [own.get(c) or placeholder("captured", c.type) for c in self.captured]
        return Graph([*staged.graph.inputs[:arguments], *rest], staged.graph.outputs)

    def apply(self, op: Op, nodes: Sequence[Node]) -> tuple[Tensor, ...]:
        """Record the op on the arguments and what was captured; return its results."""
        return record_several(op, (*nodes, *self.captured))
