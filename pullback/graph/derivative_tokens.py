"""Tokens: derivatives in progress, and the nodes that they may still need.

A node carries the tokens of its inputs. While one of them is alive, a computed node keeps its op
and inputs, so that it can be differentiated; afterwards they are dropped.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.graph.node import Node
    from pullback.graph.source_lines import SourceLine
    from pullback.lazy.tensor import Tensor


class DerivativeToken:
    """A derivative in progress, held by a running call, a pullback or a trace."""

    __slots__ = ("_limit", "alive", "computed", "cuts", "reads", "running", "traces")
    leaf = False

    def __init__(self, traces: bool = False) -> None:
        self.alive = True
        self.running = True  # whether the function is running: host reads are noted while it is
        self.traces = traces  # whether constants are kept too
        self.computed: list[weakref.ref[Node]] = []  # nodes that keep their history for this token
        self._limit = 1000
        self.reads: list[SourceLine | None] = []  # lines that read a value depending on this token
        self.cuts: list[tuple[SourceLine | None, Node]] = []  # of a trace: reads that may cut it

    def remember(self, node: Node) -> None:
        """Note that a computed node keeps its history for this token."""
        self.computed.append(weakref.ref(node))
        if len(self.computed) > self._limit:  # a pullback may outlive its nodes
            self.computed = [r for r in self.computed if r() is not None]
            self._limit = 2 * len(self.computed) + 1000


class LeafDerivativeToken:
    """The graph that was computed from a tensor that requires a gradient."""

    __slots__ = ("__weakref__", "released", "tensor")
    leaf = True
    traces = False

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.released = False  # whether the tensor no longer requires a gradient

    @property
    def alive(self) -> bool:
        tensor = self.tensor()
        return tensor is not None and tensor._token is not None

    @property
    def gone(self) -> bool:
        """Whether the tensor died while it required a gradient."""
        return self.tensor() is None and not self.released


class ConsumedDerivativeToken:
    """Marks the nodes that a `backward()` consumed, numbered below `before`, and later ones."""

    __slots__ = ("before",)
    alive = False
    leaf = False
    traces = False

    def __init__(self, before: int) -> None:
        self.before = before


class GoneLeafDerivativeToken:
    """Marks what was computed from leaves that no longer exist."""

    __slots__ = ()
    alive = False
    leaf = False
    traces = False


LEAF_GONE = GoneLeafDerivativeToken()


def tokens_require_gradient(tokens: tuple) -> bool:
    """Whether a computed value with these tokens has or had leaves that require a gradient."""
    return any(
        _is_live_leaf_token(t) or _is_gone_derivative_token(t) or type(t) is ConsumedDerivativeToken
        for t in tokens
    )


def _is_live_leaf_token(token: Any) -> bool:
    return token.leaf and token.alive


def leaf_tokens_gone(tokens: tuple) -> bool:
    """Whether a value was computed from leaves that no longer exist."""
    return any(map(_is_gone_derivative_token, tokens))


def _is_gone_derivative_token(token: Any) -> bool:
    return token.gone if token.leaf else token is LEAF_GONE


def consumed_token_of(node: Node) -> ConsumedDerivativeToken | None:
    """Return the mark of the `backward()` that consumed the node or one it was computed from."""
    return next((t for t in node.tokens if type(t) is ConsumedDerivativeToken), None)


def merge_tokens(inputs: tuple[Node, ...]) -> tuple:
    """Return the tokens of all inputs; where several are joined, those that still matter."""
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
    return lasting_tokens(merged) if mixed else merged


def derivative_tokens_of_constant(tokens: tuple) -> tuple:
    """Return the tokens that a value keeps when it becomes a constant: those of live traces."""
    return tuple([t for t in tokens if t.traces and t.alive])


def lasting_tokens(tokens: tuple) -> tuple:
    """Return the tokens that still matter: live ones, and a mark for leaves that are consumed or
    gone."""
    if len(tokens) == 1 and type(tokens[0]) is DerivativeToken:  # the most frequent case
        return tokens if tokens[0].alive else ()
    kept = [t for t in tokens if t.alive]
    marks: list[Any] = [t for t in tokens if type(t) is ConsumedDerivativeToken][-1:]
    if not marks and any(map(_is_gone_derivative_token, tokens)):
        marks = [LEAF_GONE]
    return (*kept, *marks)
