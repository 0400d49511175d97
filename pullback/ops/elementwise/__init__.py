"""Ops that work on each element by itself."""

# Importing them fills the table.
from pullback.ops.elementwise import (  # noqa: F401  # isort: skip
    activations, arithmetic, bessel, bessel_k, beta_functions, bitwise, cast, complex_parts,
    division, elliptic, entropy, error_functions, exponential, exponential_integral, float_bits,
    gamma_functions, gamma_values, guarded, incomplete_beta, incomplete_gamma, lambert, logic,
    maximum, normal_functions, oscillating_integrals, plane, power, roots, rounding, select,
    spherical, trigonometric, zeta,
)  # fmt: skip
