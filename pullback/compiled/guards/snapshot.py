"""Snapshots: everything that a compiled function names, as it is at one moment."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pullback.compiled.guards.namespaces import TensorMethods
from pullback.compiled.guards.walk import Place, TooMuch, Walk

# Code of functions that lead to whole packages of others: these are taken as they are.
_large: set[Any] = set()


class Snapshot:
    """What a function named at one moment.

    `key` can be compared and hashed. `tensors` are the handles that were found, in order: two
    snapshots with equal keys have corresponding ones.
    """

    def __init__(self, walk: Walk) -> None:
        self.key = tuple(walk.key)
        self.notes = walk.notes  # for each part of the key: path, line, and how it looks
        self.tensors, self.paths = walk.tensors, walk.tensor_paths
        # Whether nothing has changed: sure if true, and if false it has to be looked at.
        self.same = walk.all_probes().same


def snapshot(f: Any, arguments: list[tuple[str, Any]], own: Mapping[Place, Any]) -> Snapshot:
    """Everything that `f`, and static values among its arguments, lead to, but for `own`."""
    return Snapshot(walk(f, arguments, own))


def walk(f: Any, arguments: list[tuple[str, Any]], own: Mapping[Place, Any]) -> Walk:
    code = _code_of(f)
    try:
        return _walk(f, arguments, Walk(own, brief=code in _large))
    except TooMuch:
        _large.add(code)
        return _walk(f, arguments, Walk(own, brief=True))


def _code_of(f: Any) -> Any:
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__code__", type(f))


def _walk(f: Any, arguments: list[tuple[str, Any]], made: Walk) -> Walk:
    made.visit(getattr(f, "__name__", None) or type(f).__name__, None, f)
    for path, value in arguments:
        made.visit(path, None, value)
    made.holders.append(TensorMethods())
    made.finish()
    return made
