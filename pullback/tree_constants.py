"""Constant leaves of trees: tensors that derivatives leave alone.

The state and the frozen parameters of a module are constants: they are inputs of programs, but
`grad` gives them the gradient `None`.
"""

from __future__ import annotations

from typing import Any

import optree

from pullback.tree_nodes import NAMESPACE, register_node


class Constant:
    """A subtree whose leaves carry no derivative."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


register_node(Constant, lambda x: ((x.value,), None), lambda _, children: Constant(*children))


def constant_leaves(tree: Any) -> list[bool]:
    """Return for each leaf of a tree whether it lies in a constant subtree."""
    found: list[bool] = []
    parts = optree.tree_leaves(tree, lambda x: type(x) is Constant, namespace=NAMESPACE)
    for part in parts:
        if type(part) is Constant:
            found += [True] * len(optree.tree_leaves(part, namespace=NAMESPACE))
        else:
            found.append(False)
    return found
