"""Line search for a step that satisfies the strong Wolfe conditions, on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DECREASE = 1e-4  # of the value, relative to what the first slope promises
FLATNESS = 0.9  # of the slope at the end, relative to the first one


class LineSearchTrial(NamedTuple):
    """The function along a line, at a distance `t` from its start."""

    t: float
    value: float
    slope: float
    point: Any  # the parameters there
    gradient: Any
    largest: float  # magnitude of an element of the gradient
    loss: Any  # the value as the function returned it

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.slope)


def strong_wolfe_line_search(
    trial: Callable[[float], LineSearchTrial],
    start: LineSearchTrial,
    t: float,
    limit: int,
    closest: float,
) -> LineSearchTrial:
    """Return a trial whose value is low enough and whose slope is small enough.

    Steps grow until they enclose such a point, and the enclosing interval then shrinks around it,
    as in chapter 3.5 of Nocedal and Wright, Numerical Optimization. After `limit` trials, or in an
    interval shorter than `closest`, the result is the lowest point found.
    """
    before = start
    for left in range(limit - 1, -1, -1):
        now = trial(t)
        if _line_search_too_high(now, start) or (before is not start and now.value >= before.value):
            return _shrunk_line_search(trial, start, before, now, left, closest)
        if abs(now.slope) <= -FLATNESS * start.slope:
            return now
        if now.slope >= 0:
            return _shrunk_line_search(trial, start, now, before, left, closest)
        grown = _line_search_cubic(before, now, now.t + 0.01 * (now.t - before.t), 10 * now.t)
        before, t = now, grown
    return before


def _line_search_too_high(now: LineSearchTrial, start: LineSearchTrial) -> bool:
    """Whether the value has not decreased enough for the distance; also if it is not finite."""
    return not (now.finite and now.value <= start.value + DECREASE * now.t * start.slope)


def _shrunk_line_search(
    trial: Callable[[float], LineSearchTrial], start: LineSearchTrial, low: LineSearchTrial,
    high: LineSearchTrial, left: int, closest: float,
) -> LineSearchTrial:  # fmt: skip
    """Shrink an interval that encloses a point that is sought; `low` is the lower of its ends."""
    for _ in range(left):
        first, last = sorted((low.t, high.t))
        if last - first <= closest:
            break
        margin = 0.1 * (last - first)
        if high.finite:
            t = _line_search_cubic(low, high, first + margin, last - margin)
        else:
            t = (first + last) / 2
        now = trial(t)
        if _line_search_too_high(now, start) or now.value >= low.value:
            high = now
            continue
        if abs(now.slope) <= -FLATNESS * start.slope:
            return now
        if now.slope * (high.t - low.t) >= 0:
            high = low
        low = now
    return low


def _line_search_cubic(a: LineSearchTrial, b: LineSearchTrial, least: float, most: float) -> float:
    """Return the minimum between two limits of the cubic with the values and slopes of trials."""
    a, b = (a, b) if a.t <= b.t else (b, a)
    middle = (least + most) / 2
    if a.t == b.t:
        return middle
    bend = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    inside = bend * bend - a.slope * b.slope
    if not inside >= 0:
        return middle
    root = math.sqrt(inside)
    below = b.slope - a.slope + 2 * root
    if below == 0:
        return middle
    t = b.t - (b.t - a.t) * (b.slope + root - bend) / below
    return min(max(t, least), most) if math.isfinite(t) else middle
