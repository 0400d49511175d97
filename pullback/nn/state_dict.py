"""State dicts: the tensors of a module by their dotted names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pullback.errors import ArgumentError
from pullback.lazy.host_data import asarray
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.module_walk import walk_named_tensors, walk_second_names
from pullback.typing import ArrayLike

if TYPE_CHECKING:
    from pullback.nn.module import Module


def module_state_dict(x: Module) -> dict[str, Tensor]:
    """Return handles of their own on the tensors of a module: later steps do not change them."""
    return {t.name: wrap(t.tensor.detach()._node) for t in walk_named_tensors(x) if t.is_saved}


def load_state_dict_into(x: Module, values: Mapping[str, ArrayLike], strict: bool) -> None:
    """Set the tensors of a module to values by name, after checking all of them."""
    if not isinstance(values, Mapping):
        got = type(values).__name__
        raise ArgumentError(f"load_state_dict: values must be a dict of names, got {got}")
    mine = {t.name: t.tensor for t in walk_named_tensors(x) if t.is_saved}
    if any(name not in mine for name in values):
        values = _state_dict_by_first_names(values, walk_second_names(x))
    if strict:
        _require_same_state_dict_names(mine, values)
    elif values and mine and not any(name in mine for name in values):
        theirs = f"{next(iter(mine))!r} here, {next(iter(values))!r} there"
        raise ArgumentError(f"load_state_dict: no name agrees, such as {theirs}")
    pairs = [(name, mine[name], asarray(values[name])) for name in mine if name in values]
    for name, tensor, value in pairs:
        _require_loadable_state_dict(name, tensor, value)
    with no_grad():
        for _, tensor, value in pairs:
            tensor.assign(value.astype(tensor.dtype))


def _state_dict_by_first_names(
    values: Mapping[str, ArrayLike], first_names: Mapping[str, str]
) -> Mapping[str, ArrayLike]:
    """Return the values of tensors that the module holds twice by their first names."""
    found: dict[str, ArrayLike] = {}
    for name, value in values.items():
        first = first_names.get(name, name)
        other = found.setdefault(first, value)
        if other is not value and asarray(other).tolist() != asarray(value).tolist():
            what = f"{first} and {name} are the same tensor in the module, but their values differ"
            raise ArgumentError(f"load_state_dict: {what}")
    return found


def _require_same_state_dict_names(
    mine: Mapping[str, object], values: Mapping[str, object]
) -> None:
    missing = [name for name in mine if name not in values]
    unknown = [name for name in values if name not in mine]
    if missing or unknown:
        parts = [f"missing {_state_dict_names(missing)}"] if missing else []
        parts += [f"unknown {_state_dict_names(unknown)}"] if unknown else []
        raise ArgumentError(
            f"load_state_dict: names must agree, {'; '.join(parts)}",
            hint="With strict=False the names that agree are loaded.",
        )


def _state_dict_names(names: list[str]) -> str:
    shown = ", ".join(map(str, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _require_loadable_state_dict(name: str, tensor: Tensor, value: Tensor) -> None:
    if value.shape != tensor.shape:
        what = f"{name} must be {tensor._node.type}, got {value._node.type}"
        raise ArgumentError(f"load_state_dict: {what}")
    if value.dtype.is_complex and not tensor.dtype.is_complex:
        what = f"{name} is real, {tensor._node.type}, got {value._node.type}"
        raise ArgumentError(f"load_state_dict: {what}")
