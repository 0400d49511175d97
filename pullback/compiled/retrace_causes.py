"""Why a compiled function was traced again: the first thing that has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback import tree
from pullback.compiled.arguments import STATIC
from pullback.graph.types import Type
from pullback.lazy.cache import CacheMissCause, cache_miss_by_type
from pullback.lazy.launch import lock, refuse_launch, state

if TYPE_CHECKING:
    from pullback.compiled.function import CompiledFunctionCall
    from pullback.compiled.specialization import Specialization


def cause_of_miss(
    before: Specialization | None, call: CompiledFunctionCall, evicted: bool
) -> CacheMissCause:
    """Count a miss and return how the call differs from `before`; raise in `no_recompile`."""
    cause = _cause_of_change(before, call, evicted)
    if not call.mode.may_compile:
        raise refuse_launch(call.name, cause)
    with lock:
        state.cache.note(cause)
    return cause


def _cause_of_change(
    before: Specialization | None, call: CompiledFunctionCall, evicted: bool
) -> CacheMissCause:
    if evicted:
        return CacheMissCause("evicted", call.where, call.name, "compiled", "evicted")
    if before is None or before.cache is not state.cache:
        return CacheMissCause("first", call.where)
    if before.key == call.key:
        return _changed_causes(before, call)
    return (
        _settings_cause(before, call)
        or _structure_cause(before, call)
        or _kinds_cause(before, call)
    )


def _settings_cause(before: Specialization, call: CompiledFunctionCall) -> CacheMissCause | None:
    (old, old_axes), (new, new_axes) = before.key[:2], call.key[:2]
    names = (
        "engine", "device", "place", "default_dtype", "grad_enabled", "kernels",
        "matmul_precision", "profiled",
    )  # fmt: skip
    for name, was, now in zip(names, old, new):
        if was != now:
            kind = "device" if name in ("engine", "device", "place") else "setting"
            return CacheMissCause(kind, call.where, name, str(was), str(now))
    if old_axes != new_axes:
        shown = [str({k: v for k, v in axes if k is not None}) for axes in (old_axes, new_axes)]
        return CacheMissCause("setting", call.where, "named axes", *shown)
    return None


def _structure_cause(before: Specialization, call: CompiledFunctionCall) -> CacheMissCause | None:
    """Compare the trees of arguments: the first leaf that only one of them has."""
    for name in dict.fromkeys((*call.key[4], *before.key[4])):
        if (name in before.key[4]) != (name in call.key[4]):
            shown = ("given", "absent") if name in before.key[4] else ("absent", "given")
            return CacheMissCause("static", call.where, name, *shown)
    if before.in_tree == call.in_tree:
        return None
    old = dict(zip(before.paths, before.kinds))
    new = dict(zip(call.paths, call.kinds))
    for path in [*new, *old]:
        if (path in old) != (path in new):
            kinds = [str(leaves.get(path, "absent")) for leaves in (old, new)]
            return CacheMissCause("structure", call.where, path, *kinds)
    shown = tree.show_tree_structure(before.in_tree), tree.show_tree_structure(call.in_tree)
    return CacheMissCause("structure", call.where, "arguments", *shown)


def _kinds_cause(before: Specialization, call: CompiledFunctionCall) -> CacheMissCause:
    for path, old, new in zip(call.paths, before.kinds, call.kinds):
        if old == new:
            continue
        if isinstance(old, Type) and isinstance(new, Type):
            return CacheMissCause(*cache_miss_by_type(old, new, call.where, path))
        kind = "static" if STATIC in (old, new) else "dtype"
        return CacheMissCause(kind, call.where, path, str(old), str(new))
    return CacheMissCause("static", call.where, "arguments", str(before.key[4]), str(call.key[4]))


def _changed_causes(before: Specialization, call: CompiledFunctionCall) -> CacheMissCause:
    """Compare what the function refers to, and static values."""
    old, new = before.snapshot, call.snapshot
    arguments = {path for path, _ in call.roots}
    for i, (was, now) in enumerate(zip(old.key, new.key)):
        if was != now:
            path, line, shown = new.notes[i]
            kind = "static" if path in arguments else "guard"
            return CacheMissCause(kind, line or call.where, path, old.notes[i][2], shown)
    longer = new if len(new.key) > len(old.key) else old
    path, line, shown = longer.notes[min(len(new.key), len(old.key))]
    there, gone = (shown, "absent") if longer is old else ("absent", shown)
    return CacheMissCause("guard", line or call.where, path, there, gone)
