"""Check batching rules against a loop over examples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pullback.ops.prelude import Axis, Op
from pullback.testing.programs import AnyEngine, Arrays, assert_close, graph_of, run
from pullback.transforms.batch import batched_graph


def check_batch(op: Op, arrays: Arrays, engine: AnyEngine = None) -> None:
    """Check that the batching rule agrees with the op on one example at a time, for every choice
    of mapped operands (of more than four: one, all but one, all)."""
    many = len(arrays) > 4
    for mapped in itertools.product((False, True), repeat=len(arrays)):
        if any(mapped) and not (many and 1 < sum(mapped) < len(arrays) - 1):
            _check_batching(op, arrays, mapped, engine)
    if len(arrays):
        _check_batching(op, arrays, [True] * len(arrays), engine, size=0)


def _check_batching(
    op: Op, arrays: Arrays, mapped: Sequence[bool], engine: AnyEngine, size: int = 3
) -> None:
    graph = graph_of(op, arrays)
    stacked = [
        _batching_examples(a, size) if has else a for a, has in zip(arrays, mapped, strict=True)
    ]
    wide, flags = batched_graph(graph, Axis(size), mapped)
    got = run(wide, stacked, engine)
    for y, value, has in zip(graph.outputs, got, flags, strict=True):
        assert value.shape == ((size, *y.type.shape) if has else y.type.shape)
    rows = [
        run(graph, [a[i] if has else a for a, has in zip(stacked, mapped)], engine)
        for i in range(size)
    ]
    for k, (value, has) in enumerate(zip(got, flags, strict=True)):
        for i in range(size):
            assert_close(value[i] if has else value, rows[i][k], scale=10)


def _batching_examples(a: np.ndarray, size: int) -> np.ndarray:
    """Make different examples from the elements of an operand, so that they stay valid. Rows are
    rotated; a single element becomes smaller."""
    a = np.asarray(a)
    long = [i for i, n in enumerate(a.shape) if n > 1]
    if long:
        examples = [np.roll(a, i, long[0]) for i in range(size)]
    elif a.dtype.kind == "b":
        examples = [a ^ bool(i % 2) for i in range(size)]
    elif a.dtype.kind in "iu":
        examples = [a // (i + 1) for i in range(size)]
    else:
        examples = [a * (1 - i / (size + 1)) for i in range(size)]
    return np.stack([np.asarray(x, a.dtype) for x in examples]) if examples else a[None][:0]
