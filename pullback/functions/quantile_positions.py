"""Where quantiles lie among sorted elements, by the methods of Hyndman and Fan (1996) and NumPy.

The rules take the functions they need from a namespace `xp`: NumPy if the number of elements and
`q` are known, else pullback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Rule: TypeAlias = Callable[[Any, Any, Any], Any]  # of the namespace, the number of elements and q


def _quantile_position_times(xp: Any, n: Any, q: Any) -> Any:
    """The product, rounded before anything is added: a position may be just an integer.

    It is never negative. The maximum keeps compilers from fusing the product and a sum.
    """
    return xp.maximum(n * q, -1.0)


def _quantile_position_between(alpha: float, beta: float) -> Rule:
    return lambda xp, n, q: (
        _quantile_position_times(xp, n, q) + (alpha + q * (1 - alpha - beta)) - 1
    )


def _inverted_cdf_position(xp: Any, n: Any, q: Any) -> Any:
    return xp.ceil(_quantile_position_times(xp, n, q) - 1)


def _closest_observation_position(xp: Any, n: Any, q: Any) -> Any:
    position = _quantile_position_times(xp, n, q) - 1.5
    whole = xp.floor(position)
    stays = (position == whole) & (whole % 2 == 1)
    return xp.where(stays, whole, whole + 1)


def _midpoint_position(xp: Any, n: Any, q: Any) -> Any:
    position = _quantile_position_times(xp, n - 1, q)
    return 0.5 * (xp.floor(position) + xp.ceil(position))


# the index of the element
INDEX: dict[str, Rule] = {
    "inverted_cdf": _inverted_cdf_position,
    "closest_observation": _closest_observation_position,
    "lower": lambda xp, n, q: xp.floor(_quantile_position_times(xp, n - 1, q)),
    "higher": lambda xp, n, q: xp.ceil(_quantile_position_times(xp, n - 1, q)),
    "nearest": lambda xp, n, q: xp.round(_quantile_position_times(xp, n - 1, q)),
}
# the position between two elements
POSITION: dict[str, Rule] = {
    "linear": lambda xp, n, q: _quantile_position_times(xp, n - 1, q),
    "averaged_inverted_cdf": lambda xp, n, q: _quantile_position_times(xp, n, q) - 1,
    "interpolated_inverted_cdf": _quantile_position_between(0, 1),
    "hazen": _quantile_position_between(0.5, 0.5),
    "weibull": _quantile_position_between(0, 0),
    "median_unbiased": _quantile_position_between(1 / 3, 1 / 3),
    "normal_unbiased": _quantile_position_between(3 / 8, 3 / 8),
    "midpoint": _midpoint_position,
}


def quantile_position_neighbours(xp: Any, method: str, n: Any, q: Any) -> tuple[Any, Any, Any]:
    """The indices of the elements on both sides of the quantile, and how far it is between them."""
    position = POSITION[method](xp, n, q)
    whole = xp.floor(position)
    if method == "averaged_inverted_cdf":
        part = xp.where(position == whole, 0.5, 1.0)
    elif method == "midpoint":
        part = xp.where(position == whole, 0.0, 0.5)
    else:
        part = position - whole
    return quantile_position_within(xp, whole, n), quantile_position_within(xp, whole + 1, n), part


def quantile_position_within(xp: Any, index: Any, n: Any) -> Any:
    """An index of one of `n` elements: the nearest."""
    return xp.maximum(xp.minimum(index, n - 1), 0.0)
