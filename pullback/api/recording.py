"""What every function transform shares: running a function on aliases of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError, NonDifferentiableInput
from pullback.graph.ambient import thread
from pullback.graph.node import Node
from pullback.lazy import settings
from pullback.lazy.history import Derivative
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.pending import submit_pending
from pullback.lazy.record import cut, register
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import Unknown
from pullback.ops.prelude import zeros_like
from pullback.ops.wrap.identity import Alias
from pullback.transforms.call_rules import start_log

_ALIAS = Alias()
_WITH_AUX = ("grad", "value_and_grad", "vjp")


class Transform:
    """Entering the outermost transform submits what is pending: a root is never pending."""

    def __enter__(self) -> Transform:
        if not thread.transform_depth:
            submit_pending()
            start_log()
        thread.transform_depth += 1
        return self

    def __exit__(self, *exception: object) -> None:
        thread.transform_depth -= 1


class Recording:
    """A function that was run on aliases of its arguments, under a token of its own."""

    def __init__(
        self, name: str, f: Callable, args: Sequence[Any], kwargs: dict, argnums: Sequence[int]
    ) -> None:
        self.name = name
        self.derivative = Derivative(traces=name == "trace")
        self.constant = constant = not settings.current().grad_enabled
        chosen = [args[i] for i in argnums]
        leaves, self.in_tree = tree.flatten(chosen)
        read = value if name == "trace" else differentiable
        self.tensors = [read(name, x, i, chosen) for i, x in enumerate(leaves)]
        tokens = (self.derivative.token,)
        self.inputs = [_alias(node_of(t), tokens) for t in self.tensors]
        handles = tree.unflatten(self.in_tree, [wrap(n) for n in self.inputs])
        new = list(args)
        for i, handle in zip(argnums, handles, strict=True):
            new[i] = handle
        with settings.Scope(grad_enabled=True) if constant else nullcontext():
            self.result = f(*new, **kwargs)
        self.derivative.token.running = False

    def hand_out(self, values: Any) -> Any:
        """What the function made, for the caller: inside `no_grad` it is constant there."""
        if not self.constant:
            return values
        return tree.map(lambda x: wrap(cut(x._node)) if isinstance(x, Tensor) else x, values)

    def gradients(self, found: Sequence[Node | None]) -> Any:
        """Nodes for the inputs, zeros where there is none, in the arguments' tree."""
        made = [
            deliver(zeros_like(x.type) if g is None else g)
            for x, g in zip(self.inputs, found, strict=True)
        ]
        return tree.unflatten(self.in_tree, made)


def _alias(node: Node, tokens: tuple) -> Node:
    """The node under the token of a new derivative, which most arguments share as it is."""
    if node.tokens:
        tokens = (*(t for t in node.tokens if t.lasting), *tokens)
    return Node(_ALIAS, (node,), node.type, node.where, tokens)


def deliver(node: Node) -> Tensor:
    """A node that a transform made, as a tensor of the user's."""
    if not settings.current().grad_enabled:
        node = cut(node)
    made = wrap(node)
    if node.value is None:
        register(made)
    return made


def outputs(name: str, result: Any) -> tuple[list[Tensor], Any]:
    """The tensors a function returned, and the tree they came in."""
    leaves, structure = tree.flatten(result)
    for leaf in leaves:
        if not is_value(leaf):
            raise ArgumentError(
                f"{name}: the function must return tensors or numbers, got {type(leaf).__name__}",
                hint="Return other things beside the value with has_aux=True."
                if name in _WITH_AUX else "",
            )  # fmt: skip
    return [asarray(leaf) for leaf in leaves], structure


def is_value(x: Any) -> bool:
    return isinstance(x, (Tensor, Unknown, bool, int, float, complex)) or hasattr(x, "__array__")


def differentiable(name: str, x: Any, i: int, chosen: Any) -> Tensor:
    """A leaf of the arguments as a tensor that can carry a derivative."""
    if type(x) is Tensor and x._node.type.inexact:
        return x
    made = value(name, x, i, chosen)
    if not made.dtype.is_inexact:
        raise NonDifferentiableInput(
            f"{name}: can only differentiate by float or complex values, got {made._node.type}"
            f"{_place(chosen, i)}",
            hint="Choose other arguments with argnums, or write the number as a float: 1.0 for 1.",
        )
    return made


def value(name: str, x: Any, i: int, chosen: Any) -> Tensor:
    """A leaf of the arguments as a tensor."""
    if not is_value(x):
        raise ArgumentError(
            f"{name}: arguments must be tensors, arrays or numbers, got {type(x).__name__}"
            f"{_place(chosen, i)}",
        )
    return asarray(x)


def _place(chosen: Any, i: int) -> str:
    path = tree.paths(chosen)[i]
    return f" at argument{path}"


def normal_argnums(name: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Argument numbers as a tuple of non-negative ints."""
    if type(argnums) is int and 0 <= argnums < count:
        return (argnums,)
    if not isinstance(argnums, (int, tuple, list)):
        raise ArgumentError(
            f"{name}: argnums must be an int or a tuple of ints, got {argnums!r}",
        )
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in chosen:
        if not isinstance(i, int) or not -count <= i < count:
            raise ArgumentError(
                f"{name}: argnums {argnums} but the function was called with {count} positional "
                "arguments",
            )
    made = tuple(i % count for i in chosen)
    if len(set(made)) != len(made):
        raise ArgumentError(f"{name}: argnums {argnums} names an argument twice")
    return made
