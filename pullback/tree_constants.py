"""Constant leaves of trees: tensors that derivatives leave alone.

The state and the frozen parameters of a module are constants: they are inputs of programs, but
`grad` gives them the gradient `None`.
"""

from __future__ import annotations

from typing import Any

import optree

from pullback.tree_nodes import NAMESPACE, register_node


class TreeConstant:
    """A subtree whose leaves carry no derivative: `state` that changes, or frozen parameters."""

    __slots__ = ("state", "value")

    def __init__(self, value: Any, state: bool = False) -> None:
        self.value, self.state = value, state


register_node(
    TreeConstant, lambda x: ((x.value,), x.state), lambda state, xs: TreeConstant(xs[0], state)
)


def constant_leaves(tree: Any, state_only: bool = False) -> list[bool]:
    """Return for each leaf of a tree whether it lies in a constant subtree, or in state."""
    found: list[bool] = []
    parts = optree.tree_leaves(tree, lambda x: type(x) is TreeConstant, namespace=NAMESPACE)
    for part in parts:
        if type(part) is TreeConstant:
            count = len(optree.tree_leaves(part, namespace=NAMESPACE))
            found += [part.state or not state_only] * count
        else:
            found.append(False)
    return found
