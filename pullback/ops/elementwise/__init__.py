"""Ops that work on each element by itself."""

# Importing them fills the table.
from pullback.ops.elementwise import (  # noqa: F401  # isort: skip
    activations, arithmetic, bessel, bessel_k, beta_functions, bitwise, cast, complex_parts,
    division, elliptic, entropy, error_functions, exponential, exponential_integral, float_bits,
    lgamma_digamma, gamma_values, guarded, hypot_atan2, incomplete_beta, incomplete_gamma,
    lambert, logic, maximum, normal_functions, oscillating_integrals, power, relu, roots,
    rounding_predicates, select, sinc, spherical, trigonometric, zeta,
)  # fmt: skip
