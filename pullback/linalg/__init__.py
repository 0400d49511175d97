# ruff: noqa: F403
"""Linear algebra: factorizations, solvers, norms and functions of matrices."""

from typing import TYPE_CHECKING

from pullback.graph import boundary
from pullback.linalg.construction import *
from pullback.linalg.eigenvalues import *
from pullback.linalg.factorizations import *
from pullback.linalg.least_squares import *
from pullback.linalg.matrix_functions import *
from pullback.linalg.norms import *
from pullback.linalg.products import *
from pullback.linalg.solvers import *
from pullback.linalg.structured_solvers import *
from pullback.linalg.subspaces import *
from pullback.linalg.tensor_equations import *

if not TYPE_CHECKING:  # checkers export what `*` imports, unless there is an `__all__`
    __all__ = sorted(name for name, value in globals().items() if callable(value))

    def __dir__() -> list[str]:
        return __all__

    boundary.publish(__name__)
