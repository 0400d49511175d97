"""The state of an optimizer object as a dict from names to tensors and numbers, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.optim.optimizer_states import OptimizerState, TrackedState
from pullback.optim.partition import PartitionState
from pullback.optim.wrappers import AverageState


def track_optimizer_state(state: Any) -> Any:
    """Count for each parameter the steps in which it had no gradient: they are none of its own.

    Whether a step is taken at all may depend on values in other wrappers, which do without it.
    """
    return _map_states(
        state, lambda s, _: s if s.step is None else TrackedState(s.step, s.slots, {})
    )


def _map_states(state: Any, change: Callable[[Any, str], Any], prefix: str = "") -> Any:
    """Replace the states of update rules in a state; `change` gets their names too."""
    if isinstance(state, (OptimizerState, TrackedState)):
        return change(state, prefix)
    if isinstance(state, PartitionState):
        return PartitionState({
            k: _map_states(s, change, f"{prefix}states.{k}.") for k, s in state.states.items()
        })  # fmt: skip
    if isinstance(state, AverageState):
        return state._replace(inner=_map_states(state.inner, change, f"{prefix}inner."))
    return state


def _state_names(structure: Any) -> list[str]:
    """Return the name of each leaf of a state, with dots between its parts."""
    return [
        ".".join(map(_optimizer_dict_entry_name, accessor)) for accessor in structure.accessors()
    ]


def _optimizer_dict_entry_name(part: optree.PyTreeEntry) -> str:
    return str(getattr(part, "field", part.entry))


def plain_state(state: Any) -> dict[str, Any]:
    """Return the tensors and numbers of a state by name."""
    leaves, structure = tree.flatten(state)
    return dict(zip(_state_names(structure), leaves, strict=True))


def optimizer_state_from_dict(state: Any, given: dict[str, Any]) -> Any:
    """Return a state like `state` with the values that `plain_state` returned."""
    if not isinstance(given, dict):
        raise ArgumentError(
            f"load_state_dict: the state must be a dict, got {shown_argument(given)}"
        )
    leaves, structure = tree.flatten(
        _map_states(state, lambda s, at: _optimizer_dict_missed_steps(s, at, given))
    )
    names = _state_names(structure)
    if set(names) != set(given):
        odd = sorted(set(names) ^ set(given))
        what = "is missing" if odd[0] in names else "belongs to another optimizer"
        raise ArgumentError(f"load_state_dict: {odd[0]!r} {what}; there are {len(odd)} such names")
    found = [_loaded_state_leaf(n, old, given[n]) for n, old in zip(names, leaves, strict=True)]
    return tree.unflatten(structure, found)


def _optimizer_dict_missed_steps(state: Any, prefix: str, given: dict[str, Any]) -> Any:
    """Return the state with the counts of missed steps that a dict has."""
    if not isinstance(state, TrackedState):
        return state
    start = f"{prefix}missed."
    positions = [int(name.removeprefix(start)) for name in given if name.startswith(start)]
    return state._replace(missed=dict.fromkeys(positions, 0))


def _loaded_state_leaf(name: str, old: Any, value: Any) -> Any:
    if not isinstance(old, Tensor):
        return value.item() if hasattr(value, "item") else value
    new = asarray(value)
    if (new.shape, new.dtype) != (old.shape, old.dtype):
        raise ArgumentError(
            f"load_state_dict: {name!r} must be {old._node.type}, got {new._node.type}"
        )
    if old.sharding is not None and new.sharding is not old.sharding:
        from pullback.functions.sharding import reshard

        return reshard(new, old.sharding)
    return new
