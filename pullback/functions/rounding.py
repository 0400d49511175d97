"""Rounding to integers and to decimals."""

from __future__ import annotations

from pullback.functions.arguments import (
    apply,
    argument_node,
    as_tensor,
    checked_integer_argument,
    fresh_argument,
    node_of,
)
from pullback.functions.composed import composed
from pullback.functions.function_factory import UnaryFunction, unary_function
from pullback.graph.dtypes import float32
from pullback.graph.node import Node, constant_node
from pullback.lazy.operators import cast_node
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.elementwise.arithmetic import Mul
from pullback.ops.elementwise.complex_parts import Complex, Imag, Real
from pullback.ops.elementwise.division import Div, FloorDiv, Mod
from pullback.ops.elementwise.rounding_predicates import Ceil, Floor, IsFinite, Round, Trunc
from pullback.ops.elementwise.select import Where
from pullback.ops.reduce.extrema import extrema_bounds
from pullback.typing import ArrayLike

floor: UnaryFunction = unary_function(
    "floor", Floor, "Largest integer not above each element.", "[1.7, -1.2] -> [1.0, -2.0]"
)
ceil: UnaryFunction = unary_function(
    "ceil", Ceil, "Smallest integer not below each element.", "[1.2, -1.7] -> [2.0, -1.0]"
)
trunc: UnaryFunction = unary_function(
    "trunc", Trunc, "Each element without its fraction.", "[1.7, -1.7] -> [1.0, -1.0]"
)

_ROUND = Round()


def round(x: ArrayLike, decimals: int = 0) -> Tensor:
    """Round to the given number of decimals; halves are rounded to the even neighbour.

    A negative number rounds to tens, hundreds and so on, also integers. Both parts of complex
    numbers are rounded.

    >>> pb.round([0.5, 1.5, 2.4]).tolist(), pb.round(pb.tensor([1.25, 1.375]), 2).tolist()
    ([0.0, 2.0, 2.0], [1.25, 1.3799999952316284])
    >>> pb.round([14, 15, 25], -1).tolist()
    [10, 20, 20]
    """
    a = argument_node(x)
    if type(decimals) is int and decimals == 0 and not a.type.dtype.is_complex:
        return record(_ROUND, (a,))
    places = checked_integer_argument("round", decimals, "decimals")
    if a.type.dtype.is_complex:
        made = (round(wrap(apply(part, a)._node), places) for part in (Real, Imag))
        return apply(Complex, *[node_of(part) for part in made])
    if places == 0:
        return record(_ROUND, (a,))
    if a.type.dtype.is_float:
        return _rounded_floats(a, places)
    return fresh_argument(wrap(a)) if places > 0 else _rounded_integers(a, 10**-places)


def _rounded_floats(x: Node, decimals: int) -> Tensor:
    dtype = x.type.dtype
    if dtype.bits == 16:  # a power of ten would not fit
        return _rounded_floats(cast_node(x, float32), decimals).astype(dtype)
    most = 37 if dtype is float32 else 307  # powers of ten that are floats, with their reciprocals
    scale = constant_node(10.0 ** min(abs(decimals), most), dtype)
    multiply, divide = (Mul, Div) if decimals > 0 else (Div, Mul)
    scaled = apply(multiply, x, scale)._node
    rounded = apply(divide, apply(Round, scaled)._node, scale)
    # Elements that cannot be scaled have no decimals, or are not finite.
    return apply(Where, apply(IsFinite, scaled)._node, rounded._node, apply(Round, x)._node)


def _rounded_integers(x: Node, unit: int) -> Tensor:
    """The nearest multiple of `unit`; of two equally near, the even multiple."""
    dtype = x.type.dtype
    if unit > extrema_bounds(dtype)[1]:
        return apply(Mul, x, constant_node(0, dtype))
    step, two = constant_node(unit, dtype), constant_node(2, dtype)
    multiple = apply(FloorDiv, x, step)
    rest = wrap(x) - multiple * unit
    odd = apply(Mod, multiple._node, two) == 1
    up = (rest > unit // 2) | ((rest == unit // 2) & odd)
    return (multiple + up.astype(dtype)) * unit


@composed
def frac(x: ArrayLike) -> Tensor:
    """Return x - trunc(x), the part of each element after the point, with its sign.

    >>> pb.frac([2.5, -1.25]).tolist()
    [0.5, -0.25]
    """
    a = as_tensor(x)
    return a - trunc(a)


__all__ = ["ceil", "floor", "frac", "round", "trunc"]
