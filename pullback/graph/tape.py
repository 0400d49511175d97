"""Tokens: derivatives in progress, and which nodes they may still need.

A node carries the tokens of its inputs. While one of them is alive, computing the node keeps its
op and inputs, so that the derivative can still be taken through it; afterwards they are dropped.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.graph.node import Node


class Token:
    """A derivative in progress: a running call, a pullback or a trace holds it."""

    __slots__ = ("_limit", "alive", "computed", "reads", "running", "traces")
    leaf = False

    def __init__(self, traces: bool = False) -> None:
        self.alive = True
        self.running = True  # whether the function is still being run: only its reads count
        self.traces = traces  # whether constants, too, are part of what is kept
        self.computed: list[weakref.ref[Node]] = []  # nodes with a value, kept for this token
        self._limit = 1000
        self.reads: list[Any] = []  # lines that read a value which depends on this token

    def remember(self, node: Node) -> None:
        """The node was computed, and kept its history for this token."""
        self.computed.append(weakref.ref(node))
        if len(self.computed) > self._limit:  # a pullback may live long, what it saw need not
            self.computed = [r for r in self.computed if r() is not None]
            self._limit = 2 * len(self.computed) + 1000

    @property
    def lasting(self) -> bool:
        """Whether nodes derived from this one should carry the token on."""
        return self.alive


class LeafToken:
    """The unconsumed graph above one tensor that requires a gradient."""

    __slots__ = ("__weakref__", "tensor")
    leaf = True
    traces = False

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)

    @property
    def alive(self) -> bool:
        tensor = self.tensor()
        return tensor is not None and tensor._token is not None

    lasting = alive


class Consumed:
    """Marks the nodes that one `backward()` has used up, and everything computed from them.

    Nodes numbered under `before` are those it walked; later ones were computed from them.
    """

    __slots__ = ("before",)
    alive = False
    lasting = True
    leaf = False
    traces = False

    def __init__(self, before: int) -> None:
        self.before = before


def consumption(node: Node) -> Consumed | None:
    """The mark of the `backward()` that used up the node or something it was computed from."""
    for token in node.tokens:
        if type(token) is Consumed:
            return token
    return None


def merge_tokens(inputs: tuple[Node, ...]) -> tuple:
    """The tokens of all inputs; those whose derivative is over are left out of a mixture."""
    merged: tuple = ()
    mixed = False
    for x in inputs:
        tokens = x.tokens
        if tokens and tokens is not merged:
            if merged:
                merged += tuple([t for t in tokens if t not in merged])
                mixed = True
            else:
                merged = tokens
    return lasting(merged) if mixed else merged


def of_constant(tokens: tuple) -> tuple:
    """The tokens that a value keeps when it becomes a constant: those of living traces."""
    return tuple([t for t in tokens if t.traces and t.alive])


def lasting(tokens: tuple) -> tuple:
    """The tokens that still matter: living ones, and one mark of consumption."""
    kept = [t for t in tokens if t.alive]
    marks = [t for t in tokens if type(t) is Consumed]
    return tuple(kept + marks[-1:])
