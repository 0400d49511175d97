"""Functions that hand a value on, and tell derivatives or the compiler something."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, apply, node


def stop_gradient(x: Any) -> Tensor:
    """The same value, as a constant of every derivative.

    >>> import pullback as pb
    >>> pb.stop_gradient([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    return apply("StopGradient", node(x))


def contiguous(x: Any) -> Tensor:
    """The same value; layouts are the engine's, so this only marks the place in a graph.

    >>> import pullback as pb
    >>> pb.contiguous([1, 2]).tolist()
    [1, 2]
    """
    return apply("Contiguous", node(x))


def optimization_barrier(x: Any) -> Tensor:
    """The same value; the compiler moves no work across it.

    >>> import pullback as pb
    >>> pb.optimization_barrier([1, 2]).tolist()
    [1, 2]
    """
    return apply("OptimizationBarrier", node(x))
