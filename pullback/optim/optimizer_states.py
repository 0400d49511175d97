"""What all optimizers share: types, and the states between steps."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from pullback.graph.html import html_table
from pullback.graph.node import Node
from pullback.lazy.tensor import Tensor
from pullback.optim.parameter_trees import parameter_leaf_types

Slots = dict[str, Any]  # the state of one parameter, by name: tensors, or None
Nodes = tuple[Node, ...]
Params = TypeVar("Params")  # a tensor, or a tree of tensors


class OptimizerState(NamedTuple):
    """The state of the functional form between steps: a tree of tensors."""

    step: Tensor | None  # number of steps taken, if the rule depends on it
    slots: dict[str, Any]  # each a tree with the structure of the parameters, or None in places

    def __repr__(self) -> str:
        """Show types, not values: there may be as many as parameters."""
        return f"OptimizerState({', '.join(f'{name}={value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        return html_table("OptimizerState", self._rows())

    def _rows(self) -> list[tuple[str, Any]]:
        step = "none" if self.step is None else str(self.step)
        return [
            ("step", step),
            *[(name, parameter_leaf_types(x)) for name, x in self.slots.items()],
        ]


class TrackedState(NamedTuple):
    """The state of an object, whose parameters need not have a gradient in every step."""

    step: Tensor | None
    slots: dict[str, Any]
    missed: dict[int, int]  # how many steps a parameter had no gradient in, by its position
