"""Check one op in every way, and convert operands for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.engines.engine_registry import registered_engine as engine_named
from pullback.engines.protocols import Engine
from pullback.graph.dtypes import DType
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.prelude import Op
from pullback.testing.batching import check_batch
from pullback.testing.derivatives import check_cotangent_shapes, check_derivatives
from pullback.testing.programs import Arrays, assert_close, graph_of, run
from pullback.testing.sharding import check_sharded

if TYPE_CHECKING:
    from pullback.typing import ArrayLike

_WIDE = {"f": np.float64, "c": np.complex128}


def check_type(op: Op, arrays: Arrays) -> None:
    """Check the inferred type against NumPy's result: the reference engine compares them."""
    run(graph_of(op, arrays), arrays)


def check_engine(op: Op, arrays: Arrays, engine: Engine[Any], scale: float = 1.0) -> None:
    """Check that an engine agrees with the reference engine, within rounding."""
    graph = graph_of(op, arrays)
    for want, got in zip(run(graph, arrays), run(graph, arrays, engine), strict=True):
        assert_close(got, want, scale)


def check_op(op: Op, *arrays: ArrayLike, order: int = 2) -> None:
    """Check an op of your own on `arrays`, as the tests of the op table do; the first check that
    fails raises.

    The inferred type must be NumPy's, XLA must agree with NumPy, derivatives in both modes with
    central differences up to `order`, the batching rule with a loop over examples, and shards on
    simulated devices with the whole operands.

    >>> import pullback as pb
    >>> from pullback import testing
    >>> testing.check_op(pb.op("Sin"), [0.5, 1.5])
    """
    given = [np.asarray(a) for a in arrays]
    check_type(op, given)
    check_engine(op, given, engine_named("xla"))
    if op.differentiable:
        wide = [a.astype(_WIDE.get(a.dtype.kind, a.dtype)) for a in given]
        check_derivatives(op, wide, order)
        if isinstance(op, Elementwise):
            check_cotangent_shapes(op, wide)
    check_batch(op, given)
    for seed in range(4):
        check_sharded(op, given, seed)


def cast_operands(arrays: Arrays, dtype: DType) -> list[np.ndarray]:
    """Convert the float64 operands of a sample to another dtype."""
    with np.errstate(all="ignore"):  # samples contain infinities and NaN
        return [_cast_testing_operand(np.asarray(a), dtype) for a in arrays]


def _cast_testing_operand(a: np.ndarray, dtype: DType) -> np.ndarray:
    if a.dtype != np.float64:
        return a
    if dtype.kind in "iub":
        return np.abs(np.round(a * 3)).astype(dtype.numpy)
    if dtype.is_complex:
        return (a + 0.5j * a[..., ::-1] if a.ndim else a + 0.25j).astype(dtype.numpy)
    return a.astype(dtype.numpy)
