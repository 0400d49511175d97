"""A batching rule against a loop over examples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.ops.prelude import Axis, Op
from pullback.testing.programs import assert_close, graph_of, run
from pullback.transforms.batch import batched_graph


def check_batch(op: Op, arrays: Sequence[np.ndarray], engine: Any = None) -> None:
    """The batching rule gives what the op gives one example after the other, for every choice
    of mapped operands (of many operands: one, all but one, all); the examples differ."""
    many = len(arrays) > 4
    for mapped in itertools.product((False, True), repeat=len(arrays)):
        if any(mapped) and not (many and 1 < sum(mapped) < len(arrays) - 1):
            _check_batch(op, arrays, mapped, engine)
    if len(arrays):
        _check_batch(op, arrays, [True] * len(arrays), engine, size=0)


def _check_batch(
    op: Op, arrays: Sequence[np.ndarray], mapped: Sequence[bool], engine: Any, size: int = 3
) -> None:
    graph = graph_of(op, arrays)
    stacked = [_examples(a, size) if has else a for a, has in zip(arrays, mapped, strict=True)]
    wide, flags = batched_graph(graph, Axis(size), mapped)
    got = run(wide, stacked, engine)
    for y, value, has in zip(graph.outputs, got, flags, strict=True):
        assert value.shape == ((size, *y.type.shape) if has else y.type.shape)
    rows = []
    for i in range(size):
        rows.append(run(graph, [a[i] if has else a for a, has in zip(stacked, mapped)], engine))
    for k, (value, has) in enumerate(zip(got, flags, strict=True)):
        for i in range(size):
            assert_close(value[i] if has else value, rows[i][k], scale=10)


def _examples(a: np.ndarray, size: int) -> np.ndarray:
    """Different examples of an operand, out of its own elements: what was valid stays so.

    Whole rows change places; a single element becomes smaller.
    """
    a = np.asarray(a)
    long = [i for i, n in enumerate(a.shape) if n > 1]
    if long:
        made = [np.roll(a, i, long[0]) for i in range(size)]
    elif a.dtype.kind == "b":
        made = [a ^ bool(i % 2) for i in range(size)]
    elif a.dtype.kind in "iu":
        made = [a // (i + 1) for i in range(size)]
    else:
        made = [a * (1 - i / (size + 1)) for i in range(size)]
    return np.stack([np.asarray(x, a.dtype) for x in made]) if made else a[None][:0]
