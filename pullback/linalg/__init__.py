# ruff: noqa: F403
"""Linear algebra: factorizations, solvers, norms and functions of matrices."""

from pullback.linalg.eigenvalues import *
from pullback.linalg.factorizations import *
from pullback.linalg.solvers import *
