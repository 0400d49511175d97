"""Sines and cosines of multiples of pi, exact at integers."""

from __future__ import annotations

import numpy as np

from pullback.ops.elementwise.functions import equal, where
from pullback.ops.prelude import Node, op_functions

sin, cos, rounded, floor = op_functions("Sin", "Cos", "Round", "Floor")


def pi_from_integer(x: Node) -> Node:
    """Return x minus the nearest integer: circular functions of pi x change at most their sign."""
    return where(equal(x, 0), x, x - rounded(x))  # at -0.0 the pole has the other sign


def is_odd_of_pi(n: Node) -> Node:
    """Return where an integer is odd."""
    return equal(n - floor(n * 0.5) * 2, 1)


def sine_of_pi(x: Node) -> Node:
    """Return sin(pi x), exact at integers."""
    size = sin(pi_from_integer(x) * np.pi)
    return where(is_odd_of_pi(rounded(x)), 0 - size, size)  # 0.0 at odd integers


def cosine_of_pi(x: Node) -> Node:
    """Return cos(pi x)."""
    size = cos(pi_from_integer(x) * np.pi)
    return where(is_odd_of_pi(rounded(x)), -size, size)
