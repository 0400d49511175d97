"""What is known of values of a program: bounds, and which are NaN where others are.

Bounds hold for all elements that are not NaN. They are rough: only a few instructions have rules.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from pullback.engines.xla.hlo_instructions import HloInstruction, HloValue

Range = tuple[float, float]

ANY: Range = (-math.inf, math.inf)
FINITE = 1e4  # what is smaller is far from overflow in every float, also after roundings
_FARTHEST = 64  # instructions between a value and one that it depends on
_SAME = ("broadcast_in_dim", "reshape", "convert")
_FIXED: dict[str, Range] = {
    "tanh": (-1, 1), "sine": (-1, 1), "cosine": (-1, 1), "logistic": (0, 1),
    "abs": (0, math.inf), "sqrt": (0, math.inf), "rsqrt": (0, math.inf),
}  # fmt: skip
# Instructions with a float that is NaN where any of their operands is
_SPREAD_NAN = frozenset([
    "add", "subtract", "multiply", "divide", "negate", "abs", "maximum", "minimum", "tanh", "sine",
    "cosine", "logistic", "exponential", "log", "sqrt", "rsqrt", "reshape", "convert",
])  # fmt: skip


def is_bounded_value(x: HloValue, known: dict[HloValue, Range]) -> bool:
    """Whether no element is infinite; `known` keeps the ranges that were found."""
    return all(map(math.isfinite, value_range(x, known)))


def value_range(x: HloValue, known: dict[HloValue, Range]) -> Range:
    """The least and the largest element that a value may have."""
    stack = [x]
    while stack:
        y = stack[-1]
        made = y.made_by
        waits = [] if made is None or y in known else _bounding_operands(made, known)
        if waits:
            stack += waits
            continue
        stack.pop()
        if y not in known:
            known[y] = ANY if made is None else _without_overflow(_range_of_result(made, known))
    return known[x]


def _bounding_operands(made: HloInstruction, known: dict[HloValue, Range]) -> list[HloValue]:
    """The operands whose ranges are needed first."""
    bounding = made.name in _SAME or made.name in _RULES
    return [x for x in made.operands if x not in known] if bounding else []


def _range_of_result(made: HloInstruction, known: dict[HloValue, Range]) -> Range:
    if made.array is not None:
        return _range_of_constant(made.array)
    if not made.results[0].dtype.is_float:
        return ANY
    if made.name in _SAME:
        return known[made.operands[0]] if made.operands[0].dtype.is_float else ANY
    if made.name in _RULES:
        return _RULES[made.name](made, *[known[x] for x in made.operands])
    return _FIXED.get(made.name, ANY)


def _without_overflow(x: Range) -> Range:
    low, high = x
    return (
        low if -FINITE < low < FINITE else -math.inf,
        high if -FINITE < high < FINITE else math.inf,
    )


def _range_of_constant(array: np.ndarray) -> Range:
    if array.size != 1 or array.dtype.kind in "bc":
        return ANY
    number = float(array.reshape(-1)[0])
    return ANY if math.isnan(number) else (number, number)


def _negated_range(made: HloInstruction, x: Range) -> Range:
    return -x[1], -x[0]


def _added_range(made: HloInstruction, x: Range, y: Range) -> Range:
    return x[0] + y[0], x[1] + y[1]


def _subtracted_range(made: HloInstruction, x: Range, y: Range) -> Range:
    return x[0] - y[1], x[1] - y[0]


def _multiplied_range(made: HloInstruction, x: Range, y: Range) -> Range:
    first, second = made.operands
    ends = [a * b if a and b else 0.0 for a, b in itertools.product(x, y)]
    low, high = min(ends), max(ends)
    if first is second:
        return max(low, 0), high
    if _negated_operand(first) is second or _negated_operand(second) is first:
        return low, min(high, 0)
    return low, high


def _negated_operand(x: HloValue) -> HloValue | None:
    made = x.made_by
    return made.operands[0] if made is not None and made.name == "negate" else None


def _exponential_range(made: HloInstruction, x: Range) -> Range:
    return 0, math.exp(x[1]) if x[1] < 100 else math.inf


_RULES: dict[str, Callable[..., Range]] = {
    "negate": _negated_range, "add": _added_range, "subtract": _subtracted_range,
    "multiply": _multiplied_range, "exponential": _exponential_range,
}  # fmt: skip


def is_nan_wherever(x: HloValue, y: HloValue) -> bool:
    """Whether an element of x is surely NaN where that of y is: it is computed from that."""
    return any(z is y for z in itertools.islice(_nan_sources(x), _FARTHEST))


def _nan_sources(x: HloValue) -> Iterator[HloValue]:
    """Values of the same shape, with whose NaN x is NaN."""
    seen, queue = {x}, [x]
    for z in queue:  # grows while iterated
        yield z
        made = z.made_by
        if made is None or made.name not in _SPREAD_NAN:
            continue
        for operand in made.operands:
            if operand not in seen and operand.dtype.is_float and operand.shape == x.shape:
                seen.add(operand)
                queue.append(operand)
