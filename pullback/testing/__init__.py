"""Checks for ops and gradients: those that the tests of the op table run, for your own ops."""

from pullback.graph.boundary import publish
from pullback.testing.batching import check_batch
from pullback.testing.derivatives import check_cotangent_shapes, check_derivatives, linear_map
from pullback.testing.ops import cast_operands, check_engine, check_op, check_type

from pullback.testing.programs import (  # isort: skip
    TOLERANCE, Function, assert_close, graph_of, is_differentiable, run, several,
)  # fmt: skip
from pullback.testing.sharding import check_sharded, random_sharding, run_sharded, sharded_graph

__all__ = [
    "TOLERANCE", "Function", "assert_close", "cast_operands", "check_batch",
    "check_cotangent_shapes", "check_derivatives", "check_engine", "check_op", "check_sharded",
    "check_type", "graph_of", "is_differentiable", "linear_map", "random_sharding", "run",
    "run_sharded", "several", "sharded_graph",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


publish(__name__)
