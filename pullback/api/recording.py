"""Running a function on aliases of its arguments, which every derivative begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from pullback import tree
from pullback.api.signatures import Argnums, Tree
from pullback.errors import ArgumentError, NonDifferentiableInput
from pullback.graph.ambient import thread
from pullback.graph.derivative_tokens import lasting_tokens
from pullback.graph.node import Node
from pullback.lazy import settings
from pullback.lazy.history import DerivativeHistory
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.record import record_as_constant, register
from pullback.lazy.roots import OutsideRoots
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.prelude import zeros_like
from pullback.ops.wrap.identity import Alias
from pullback.transforms.call_rules import start_called_rule_log
from pullback.tree_constants import constant_leaves
from pullback.tree_nodes import register_node_hint
from pullback.tree_writes import LostWrites, refuse_shared_tree_writes

_ALIAS = Alias()
_WITH_AUX = ("grad", "value_and_grad", "vjp")


class RecordingTransform:
    """A derivative in progress; before the outermost one, its arguments are computed."""

    def __init__(self, *arguments: Tree) -> None:
        self.arguments = arguments
        self.outside: OutsideRoots | None = None

    def __enter__(self) -> None:
        if not thread.transform_depth:
            if not thread.tracing_from:
                self.outside = OutsideRoots(self._roots)
            start_called_rule_log()
        thread.transform_depth += 1

    def _roots(self) -> list[Node]:
        return [x._node for x in tree.leaves(self.arguments) if isinstance(x, Tensor)]

    def __exit__(self, *exception: object) -> None:
        thread.transform_depth -= 1
        if self.outside is not None:
            self.outside.rejoin()


class Recording:
    """A function that was run on aliases of the selected arguments, under a token of its own.

    `leaves` are those of the arguments as tensors, or `None` for a leaf inside a tree that carries
    no derivative. `tensors` are the ones that do, and `inputs` their aliases.
    """

    def __init__(
        self, name: str, f: Callable, args: Sequence[Tree], kwargs: dict[str, Any],
        argnums: Sequence[int],
    ) -> None:  # fmt: skip
        self.name = name
        self.derivative = DerivativeHistory(traces=name == "trace")
        self.constant = constant = not settings.current().grad_enabled
        selected = [args[i] for i in argnums]
        leaves, self.in_tree = tree.flatten(selected)
        refuse_shared_tree_writes(name, leaves, selected)
        self.leaves = found = _recorded_leaves(name, leaves, selected)
        self.tensors = [t for t in found if t is not None]
        tokens = (self.derivative.token,)
        self.inputs = [recorded_argument_alias(node_of(t), tokens) for t in self.tensors]
        others = [x if t is not None else _recording_handle_copy(x) for x, t in zip(leaves, found)]
        handles = self.arguments([wrap(n) for n in self.inputs], others)
        new = list(args)
        for i, handle in zip(argnums, handles, strict=True):
            new[i] = handle
        writes = LostWrites(handles)
        try:
            with settings.SettingsScope(grad_enabled=True) if constant else nullcontext():
                self.result = f(*new, **kwargs)
            writes.refuse(name, self.result)
        except BaseException:
            self.derivative.close()  # a traceback may keep this object alive
            raise
        self.derivative.token.running = False

    def hand_out(self, values: Tree) -> Tree:
        """Results for the caller; inside `no_grad` they are constants there."""
        if not self.constant:
            return values
        return tree.map(
            lambda x: wrap(record_as_constant(x._node)) if isinstance(x, Tensor) else x, values
        )

    def arguments(self, values: Sequence[Any], others: Sequence[Any] | None = None) -> Any:
        """The arguments' tree with a value for each input, and `None` or `others` elsewhere."""
        if len(values) < len(self.leaves):
            given, rest = iter(values), others or self.leaves
            values = [x if t is None else next(given) for t, x in zip(self.leaves, rest)]
        return tree.unflatten(self.in_tree, values)

    def gradients(self, found: Sequence[Node | None]) -> Any:
        """The gradients of the inputs, zeros for `None`, in the arguments' tree."""
        pairs = zip(self.inputs, found, strict=True)
        return self.arguments(
            [deliver_from_recording(zeros_like(x.type) if g is None else g) for x, g in pairs]
        )


def _recorded_leaves(name: str, leaves: Sequence[Any], selected: Sequence[Any]) -> list[Any]:
    """The leaves of the selected arguments as tensors, `None` where there is no derivative."""
    if name == "trace":
        return [as_recording_value(name, x, i, selected) for i, x in enumerate(leaves)]
    return differentiable_recorded_leaves(name, leaves, selected)


def _recording_handle_copy(x: Any) -> Any:
    """A handle of its own for a constant among the arguments, so that a write is noticed."""
    return deliver_from_recording(node_of(x)) if type(x) is Tensor else x


def recorded_argument_alias(node: Node, tokens: tuple) -> Node:
    """An alias of an argument that carries the token of a new derivative."""
    if node.tokens:
        tokens = (*lasting_tokens(node.tokens), *tokens)
    return Node(_ALIAS, (node,), node.type, node.where, tokens)


def deliver_from_recording(node: Node) -> Tensor:
    """A node that a transform made, as a tensor for the user."""
    if not settings.current().grad_enabled:
        node = record_as_constant(node)
    made = wrap(node)
    if node.value is None:
        register(made)
    return made


def recorded_outputs(name: str, result: Tree) -> tuple[list[Tensor], Any]:
    """The tensors that a function returned, and the structure of their tree."""
    leaves, structure = tree.flatten(result)
    for leaf in leaves:
        if not is_recorded_value(leaf):
            what = f"the function must return tensors or numbers, got {type(leaf).__name__}"
            hint = "With has_aux=True it may return other data beside the value."
            raise ArgumentError(f"{name}: {what}", hint=hint if name in _WITH_AUX else "")
    return [asarray(leaf) for leaf in leaves], structure


def is_recorded_value(x: object) -> bool:
    return isinstance(x, (Tensor, TracedNumber, bool, int, float, complex)) or hasattr(
        x, "__array__"
    )


def differentiable_recorded_leaves(
    name: str, leaves: Sequence[Any], selected: Sequence[Any]
) -> list[Tensor | None]:
    """The leaves of the selected arguments as tensors; `None` for those without a derivative."""
    constant = constant_leaves(selected)
    return [
        None if constant[i] else differentiable_recorded_leaf(name, x, i, selected)
        for i, x in enumerate(leaves)
    ]


def differentiable_recorded_leaf(
    name: str, x: Any, i: int, selected: Sequence[Any]
) -> Tensor | None:
    """Leaf `i` of the selected arguments, as a tensor that can carry a derivative.

    A leaf that cannot is `None` inside a tree; an argument that cannot is refused.
    """
    if type(x) is Tensor and x._node.type.inexact:
        return x
    place = next((j for j, a in enumerate(selected) if x is a), None)
    if place is None and (not is_recorded_value(x) or _is_excluded_from_recording(x)):
        return None
    made = as_recording_value(name, x, i, selected)
    if made.dtype.is_inexact:
        return made
    if place is None:
        return None
    what = "can only differentiate with respect to float or complex values"
    got = f"{made._node.type} at argument[{place}]"
    hint = "Select other arguments with argnums, or write the number as a float: 1.0 for 1."
    raise NonDifferentiableInput(f"{name}: {what}, got {got}", hint=hint)


def _is_excluded_from_recording(x: Any) -> bool:
    """Whether an array holds objects, strings or times, which tensors cannot."""
    return getattr(getattr(x, "dtype", None), "kind", None) in tuple("OSUMm")


def as_recording_value(name: str, x: Any, i: int, selected: Tree) -> Tensor:
    """Leaf `i` of the selected arguments, as a tensor."""
    if not is_recorded_value(x):
        got = f"{type(x).__name__} at argument{tree.paths(selected)[i]}"
        what = f"{name}: arguments must be tensors, arrays or numbers, got {got}"
        raise ArgumentError(what, hint=register_node_hint(x))
    return asarray(x)


def recording_prefix_entries(
    transform: str, name: str, kind: str, prefix: Tree, like: Tree
) -> list[Any]:
    """The entry for each leaf of `like` in an argument of a transform, a prefix of its tree.

    `like` are the positional arguments (a tuple) if `name` begins with "in", else the results.
    """
    inward = name.startswith("in")
    if inward and isinstance(prefix, (list, tuple)):
        if len(prefix) != len(like):
            message = f"{transform}: {name} has {len(prefix)} entries for {len(like)} arguments"
            hint = "An entry that is not a tuple applies to all arguments."
            raise ArgumentError(message, hint=hint)
        prefix = tuple(prefix)
    found = tree.broadcast_prefix(prefix, like)
    if found is None:
        whole = f"a tree of them that is a prefix of the {'arguments' if inward else 'results'}"
        raise ArgumentError(f"{transform}: {name} must be {kind}, or {whole}, got {prefix!r}")
    return found


def recorded_argnums(name: str, argnums: Argnums, count: int) -> tuple[int, ...]:
    """Argument numbers as a tuple of non-negative ints."""
    if type(argnums) is int and 0 <= argnums < count:
        return (argnums,)
    if not isinstance(argnums, (int, tuple, list)):
        raise ArgumentError(f"{name}: argnums must be an int or a tuple of ints, got {argnums!r}")
    selected = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(i, int) and -count <= i < count for i in selected):
        called = f"the function was called with {count} positional arguments"
        raise ArgumentError(f"{name}: argnums {argnums} but {called}")
    made = tuple(i % count for i in selected)
    if len(set(made)) != len(made):
        raise ArgumentError(f"{name}: argnums {argnums} names an argument twice")
    return made
