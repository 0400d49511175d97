"""Ops that work on each element by itself."""

from pullback.ops.elementwise import (  # noqa: F401  (importing them fills the table)
    arithmetic,
    bitwise,
    cast,
    complex_parts,
    division,
    error_functions,
    float_bits,
    gamma_functions,
    guarded,
    logic,
    maximum,
    plane,
    power,
    rounding,
    select,
    transcendental,
    trigonometric,
)
