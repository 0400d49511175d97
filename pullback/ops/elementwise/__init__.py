"""Ops that work on each element by itself."""

# Importing them fills the table.
from pullback.ops.elementwise import (  # noqa: F401  # isort: skip
    arithmetic, bitwise, cast, complex_parts, division, error_functions, exponential, float_bits,
    gamma_functions, guarded, logic, maximum, plane, power, roots, rounding, select,
    trigonometric,
)  # fmt: skip
