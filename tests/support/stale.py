"""A compiled function after a change of something it reads: it must notice."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from counters import counting

import pullback as pb

X = np.array([1.0, 2.0, 3.0], np.float32)

USE = """
import dataclasses, functools, math, types
import pullback as pb

def use(x, v):
    if isinstance(v, pb.Tensor):
        return (x.astype(v.dtype) * v).sum()
    if isinstance(v, bool):
        return x + (70 if v else 80)
    if isinstance(v, float):
        return x * 0 + (math.copysign(1.0, v) if v == 0 or v != v else v)
    if isinstance(v, (int, str, type(None))):
        return x + {"a": 100, "b": 200, None: 300}.get(v, v if isinstance(v, int) else 0)
    if isinstance(v, tuple):
        return x * sum(v)
    return x.astype(v)
"""


def environment(source: str, name: str = "user") -> dict[str, Any]:
    """A module of the user's, made of text."""
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(USE + source, f"<{name}>", "exec"), vars(module))
    return vars(module)


def same(a: Any, b: Any) -> bool:
    a, b = a.numpy(), b.numpy()
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def honest(f: Any, change: Callable[[], Any], fresh: Callable[[], Any] | None = None) -> None:
    """What the compiled function gives after a change is what the function itself gives."""
    x = pb.tensor(X)
    compiled = pb.compile(f)
    before = compiled(x)
    assert same(before, f(x)), "before any change"
    assert same(compiled(x), before)
    change()
    plain = fresh() if fresh is not None else f
    after = plain(x)
    assert not same(before, after), "the change changes nothing: it tests nothing"
    with counting() as counts:
        assert same(compiled(x), after), "STALE"
        assert same(compiled(x), after)
        assert counts.misses <= 1
