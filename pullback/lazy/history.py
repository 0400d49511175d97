"""History: what a computed node still remembers, and who needs it to."""

from __future__ import annotations

from functools import cache
from typing import Any

from pullback.graph.node import Node
from pullback.graph.tape import Token, lasting
from pullback.ops.sources import Leaf


def realise(node: Node, value: Any) -> None:
    """Give a node its value; its op and inputs go unless a living derivative may need them."""
    node.value = value
    if node.tokens:
        living = [t for t in node.tokens if t.alive]
        if living:
            for token in living:
                if not token.leaf:
                    token.remember(node)
            return
    forget(node)


def forget(node: Node) -> None:
    """Leave a tombstone: which op it was, its line, and whether backward() used it up."""
    if node.tokens:
        node.tokens = lasting(node.tokens)
    if node.inputs:
        node.op, node.inputs = _tombstone(node.op.name), ()
    elif type(node.op) is not Leaf:
        node.op = _tombstone(node.op.name)


@cache  # there are as many as op classes
def _tombstone(name: str) -> Leaf:
    return Leaf(name)


class Derivative:
    """Holds a token: while this object lives, what is recorded under the token is kept."""

    def __init__(self, traces: bool = False) -> None:
        self.token = Token(traces)

    def close(self) -> None:
        """The derivative is over: what was computed under it alone forgets its history."""
        token = self.token
        if not token.alive:
            return
        token.alive = False
        for ref in token.computed:
            node = ref()
            if node is None or node.value is None or any(t.alive for t in node.tokens):
                continue
            forget(node)
        token.computed = []

    def __enter__(self) -> Derivative:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
