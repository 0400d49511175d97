"""All checks of one op, and operands for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import DType
from pullback.ops.prelude import Op
from pullback.testing.batching import check_batch
from pullback.testing.derivatives import check_cotangent_shapes, check_derivatives
from pullback.testing.programs import assert_close, graph_of, run
from pullback.testing.sharding import check_sharded


def check_type(op: Op, arrays: Sequence[np.ndarray]) -> None:
    """The inferred type is the type of NumPy's result (the reference engine compares them)."""
    run(graph_of(op, arrays), arrays)


def check_engine(op: Op, arrays: Sequence[np.ndarray], engine: Any, scale: float = 1.0) -> None:
    """An engine gives what the reference gives, within rounding."""
    graph = graph_of(op, arrays)
    for want, got in zip(run(graph, arrays), run(graph, arrays, engine), strict=True):
        assert_close(got, want, scale)


def check_op(op: Op, *arrays: Any, order: int = 2) -> None:
    """Run the op table's checks on an op of your own, applied to `arrays`; the first that fails
    raises.

    The inferred type is NumPy's, XLA agrees with NumPy, derivatives in both modes agree with
    central differences up to `order`, the batching rule with a loop over examples, and parts of
    the operands on simulated devices give what whole ones give.

    >>> import pullback as pb
    >>> from pullback import testing
    >>> testing.check_op(pb.op("Sin"), [0.5, 1.5])
    """
    from pullback.engines.registry import engine
    from pullback.ops.elementwise.base import Elementwise

    given = [np.asarray(a) for a in arrays]
    check_type(op, given)
    check_engine(op, given, engine("xla"))
    if op.differentiable:
        wide = [a.astype(_WIDE.get(a.dtype.kind, a.dtype)) for a in given]
        check_derivatives(op, wide, order)
        if isinstance(op, Elementwise):
            check_cotangent_shapes(op, wide)
    check_batch(op, given)
    for seed in range(4):
        check_sharded(op, given, seed)


_WIDE = {"f": np.float64, "c": np.complex128}


def cast_operands(arrays: Sequence[np.ndarray], dtype: DType) -> list[np.ndarray]:
    """The sample with its float64 operands in another element type."""
    with np.errstate(all="ignore"):  # infinities and NaN are among the samples
        return [_cast(np.asarray(a), dtype) for a in arrays]


def _cast(a: np.ndarray, dtype: DType) -> np.ndarray:
    if a.dtype != np.float64:
        return a
    if dtype.kind in "iub":
        return np.abs(np.round(a * 3)).astype(dtype.numpy)
    if dtype.is_complex:
        return (a + 0.5j * a[..., ::-1] if a.ndim else a + 0.25j).astype(dtype.numpy)
    return a.astype(dtype.numpy)
