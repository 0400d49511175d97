"""Ops that work on each element by itself."""

from pullback.ops.elementwise import (
    arithmetic,
    bits,
    cast,
    complexes,
    extrema,
    floats,
    geometry,
    logic,
    power,
    rounding,
    select,
    transcendental,
    trigonometric,
)

__all__ = [
    "arithmetic", "bits", "cast", "complexes", "extrema", "floats", "geometry",
    "logic", "power", "rounding", "select", "transcendental", "trigonometric",
]  # fmt: skip
