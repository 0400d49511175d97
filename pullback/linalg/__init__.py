# ruff: noqa: F403
"""Linear algebra: factorizations, solvers, norms and functions of matrices."""

from pullback.linalg.construction import *
from pullback.linalg.eigenvalues import *
from pullback.linalg.factorizations import *
from pullback.linalg.least_squares import *
from pullback.linalg.matrix_functions import *
from pullback.linalg.norms import *
from pullback.linalg.products import *
from pullback.linalg.solvers import *
from pullback.linalg.tensor_equations import *
