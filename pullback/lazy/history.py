"""History: computed nodes keep their op and inputs while a derivative may need them."""

from __future__ import annotations

from functools import cache
from typing import Any

from pullback.graph.derivative_tokens import DerivativeToken, lasting_tokens
from pullback.graph.native import bind_native, native
from pullback.graph.node import Node
from pullback.ops.sources import Leaf


def set_value_and_history(node: Node, value: Any) -> None:
    """Set the value of a node; drop its op and inputs unless a live derivative may need them."""
    node.value = value
    if node.tokens:
        alive = [t for t in node.tokens if t.alive]
        if alive:
            for token in alive:
                if not token.leaf:
                    token.remember(node)
            return
    forget_history(node)


def forget_history(node: Node) -> None:
    """Drop the inputs of a node; keep the name of its op, its line, and marks of consumption."""
    if node.tokens:
        node.tokens = lasting_tokens(node.tokens)
    if node.inputs:
        node.op, node.inputs = _leaf(node.op.name), ()
    elif type(node.op) is not Leaf:
        node.op = _leaf(node.op.name)


_leaf = cache(Leaf)  # one for each op class
bind_native(
    set_value_and_history=set_value_and_history, lasting_tokens=lasting_tokens,
    computed_leaf=_leaf, Leaf=Leaf,
)  # fmt: skip


def set_values_and_history(nodes: list[Node], values: list[Any]) -> None:
    """Set the values of nodes, and drop their ops and inputs where nothing needs them."""
    if native is not None:
        native.set_values(nodes, values)
        return
    for node, value in zip(nodes, values, strict=False):
        set_value_and_history(node, value)


class DerivativeHistory:
    """Owns a token: while this object lives, nodes recorded under the token keep their history."""

    def __init__(self, traces: bool = False) -> None:
        self.token = DerivativeToken(traces)

    def close(self) -> None:
        """End the derivative: nodes that only it needed drop their history."""
        token = self.token
        if not token.alive:
            return
        token.alive = False
        for ref in token.computed:
            node = ref()
            if node and node.value is not None and not any(t.alive for t in node.tokens):
                forget_history(node)
        token.computed = []
        token.cuts = []  # they may refer to nodes that refer to the token

    def __enter__(self) -> DerivativeHistory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
