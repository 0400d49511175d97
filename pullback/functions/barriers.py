"""Identities that restrict derivatives or the compiler."""

from pullback.functions.function_factory import UnaryFunction, unary_function
from pullback.ops.wrap.barriers import OptimizationBarrier
from pullback.ops.wrap.identity import Contiguous, StopGradient

stop_gradient = unary_function(
    "stop_gradient", StopGradient, "The same value, as a constant of every derivative.",
    "[1.0, 2.0] -> [1.0, 2.0]",
)  # fmt: skip
contiguous: UnaryFunction = unary_function(
    "contiguous", Contiguous,
    "The same value; the engine chooses memory layouts, so this only marks a place in the graph.",
    "[1, 2] -> [1, 2]",
)  # fmt: skip
optimization_barrier = unary_function(
    "optimization_barrier", OptimizationBarrier,
    "The same value; the compiler moves no work across it.", "[1, 2] -> [1, 2]",
)  # fmt: skip

__all__ = ["contiguous", "optimization_barrier", "stop_gradient"]
