"""Integrals as weighted sums."""

from __future__ import annotations

import numpy as np

from pullback.ops.prelude import TABLE, Node


def quadrature_column(x: Node) -> Node:
    """Add a last dimension, along which the nodes of a quadrature broadcast."""
    return TABLE["Reshape"]((*x.type.shape, 1))(x)


def half_line_quadrature(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the doubly exponential quadrature on [0, inf), for functions that
    decay on a scale of 1."""
    t = np.arange(-3.5, 4.5, step)
    nodes = np.exp(t - np.exp(-t))
    return nodes, step * nodes * (1 + np.exp(-t))
