"""Ops that work on each element by itself."""

from pullback.ops.elementwise import (
    arithmetic,
    bits,
    cast,
    complexes,
    division,
    extrema,
    floats,
    gamma,
    geometry,
    guarded,
    logic,
    power,
    rounding,
    select,
    special,
    transcendental,
    trigonometric,
)

__all__ = [
    "arithmetic", "bits", "cast", "complexes", "division", "extrema", "floats", "gamma",
    "geometry", "guarded", "logic", "power", "rounding", "select", "special", "transcendental",
    "trigonometric",
]  # fmt: skip
