"""Learning rates that depend on the number of steps taken: `pb.optim.schedules`.

A schedule is a pure function of the step count, which is 0 at the first step. Given a number it
returns a number; given a tensor, a tensor, so that a step with another learning rate is the same
program. Any other function of the count that is written with tensor operations may take its place.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.functions.where_take import where
from pullback.graph.argument_checks import (
    checked_function_argument,
    checked_integer_argument,
    real,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.boundary import publish
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor

__all__ = [
    "Schedule", "constant", "cosine", "exponential", "join", "linear", "one_cycle", "piecewise",
    "polynomial", "warmup",
]  # fmt: skip

LearningRate = float | Tensor | Callable[[Any], Any]
_NUMBERS = (int, float, np.integer, np.floating)


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Schedule:
    """A learning rate as a function of the number of steps taken.

    >>> rate = pb.optim.schedules.linear(1.0, 0.0, 4)
    >>> [rate(step) for step in (0, 1, 4, 5)]
    [1.0, 0.75, 0.0, 0.0]
    """

    name: str
    formula: Callable[..., Any]
    parameters: tuple[Any, ...]

    def __call__(self, step: Any) -> Any:
        """Return the learning rate after `step` steps, a number or a tensor like `step`."""
        if isinstance(step, _NUMBERS):
            return float(self.formula(float(step), *self.parameters))
        return self.formula(asarray(step), *self.parameters)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.parameters))})"


def _schedule_fraction(step: Any, steps: float) -> Any:
    """Return how much of `steps` has passed, from 0 to 1."""
    if isinstance(step, Tensor):
        return (step / steps).clip(0.0, 1.0)
    return min(max(step / steps, 0.0), 1.0)


def _schedule_cosine(angle: Any) -> Any:
    return angle.cos() if isinstance(angle, Tensor) else math.cos(angle)


def _schedule_before(step: Any, boundary: float, first: Any, second: Any) -> Any:
    """Return `first` before a boundary, and `second` from there on."""
    if isinstance(step, Tensor):
        return where(step < boundary, first, second)
    return first if step < boundary else second


def _schedule_steps(op: str, value: int, what: str = "steps") -> int:
    if checked_integer_argument(op, value, what) < 1:
        raise ArgumentError(f"{what} must be at least 1, got {shown_argument(value)}", op=op)
    return int(value)


def _constant_rate(step: Any, value: float) -> Any:
    return step * 0.0 + value


@with_argument_checks
def constant(value: float) -> Schedule:
    """Return the schedule that is always `value`.

    >>> pb.optim.schedules.constant(0.1)(1000)
    0.1
    """
    return Schedule("constant", _constant_rate, (value,))


def _polynomial_rate(step: Any, start: float, end: float, steps: int, power: float) -> Any:
    return end + (start - end) * (1.0 - _schedule_fraction(step, steps)) ** power


@with_argument_checks
def linear(start: float, end: float, steps: int) -> Schedule:
    """Return the line from `start` to `end` in `steps` steps, and `end` afterwards.

    start + (end - start) * min(step / steps, 1)

    >>> pb.optim.schedules.linear(0.0, 1.0, 10)(4)
    0.4
    """
    return Schedule("linear", _linear_rate, (start, end, _schedule_steps("linear", steps)))


def _linear_rate(step: Any, start: float, end: float, steps: int) -> Any:
    return start + (end - start) * _schedule_fraction(step, steps)


@with_argument_checks
def polynomial(start: float, end: float, steps: int, power: float = 2.0) -> Schedule:
    """Return the schedule that falls from `start` to `end` like a power of the time left.

    end + (start - end) * (1 - min(step / steps, 1)) ** power

    >>> pb.optim.schedules.polynomial(1.0, 0.0, 10, power=2.0)(5)
    0.25
    """
    parameters = (start, end, _schedule_steps("polynomial", steps), power)
    return Schedule("polynomial", _polynomial_rate, parameters)


def _cosine_rate(step: Any, peak: float, steps: float, floor: float) -> Any:
    return (
        floor
        + (peak - floor) * (1.0 + _schedule_cosine(_schedule_fraction(step, steps) * math.pi)) / 2.0
    )


@with_argument_checks
def cosine(peak: float, steps: int, floor: float = 0.0) -> Schedule:
    """Return half a wave of the cosine, from `peak` to `floor`, and `floor` afterwards.

    floor + (peak - floor) * (1 + cos(pi * min(step / steps, 1))) / 2

    >>> rate = pb.optim.schedules.cosine(1.0, 100, floor=0.1)
    >>> round(rate(50), 6), rate(100)
    (0.55, 0.1)
    """
    return Schedule("cosine", _cosine_rate, (peak, _schedule_steps("cosine", steps), floor))


def _exponential_rate(
    step: Any, start: float, decay: float, every: int, staircase: bool, floor: float
) -> Any:
    times = step / every
    if staircase:
        times = times.floor() if isinstance(times, Tensor) else math.floor(times)
    rate = start * decay**times
    return rate.clip(floor, None) if isinstance(rate, Tensor) else max(rate, floor)


@with_argument_checks
def exponential(
    start: float, decay: float, every: int = 1, staircase: bool = False, floor: float = 0.0
) -> Schedule:
    """Return the schedule that is multiplied by `decay` in `every` steps, down to `floor`.

    max(start * decay ** (step / every), floor); with `staircase`, the exponent is rounded down.

    >>> pb.optim.schedules.exponential(1.0, 0.5, every=10)(20)
    0.25
    >>> pb.optim.schedules.exponential(1.0, 0.5, every=10, staircase=True)(19)
    0.5
    """
    parameters = (start, decay, _schedule_steps("exponential", every, "every"), staircase, floor)
    return Schedule("exponential", _exponential_rate, parameters)


def _piecewise_rate(step: Any, boundaries: tuple[int, ...], values: tuple[float, ...]) -> Any:
    if not isinstance(step, Tensor):
        return values[bisect.bisect_right(boundaries, step)]
    rate: Any = _constant_rate(step, values[0])
    for boundary, value in zip(boundaries, values[1:], strict=True):
        rate = where(step < boundary, rate, value)
    return rate


def _schedule_boundaries(op: str, boundaries: Sequence[int], pieces: int) -> tuple[int, ...]:
    found = tuple([checked_integer_argument(op, b, "each of boundaries") for b in boundaries])
    if list(found) != sorted(set(found)) or len(found) + 1 != pieces:
        raise ArgumentError(
            f"boundaries must increase, and be one fewer than the {pieces} pieces, got {found}",
            op=op,
        )
    return found


@with_argument_checks
def piecewise(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """Return the schedule that changes at the boundaries from one value to the next.

    The first value holds for steps before the first boundary; there is one value more.

    >>> rate = pb.optim.schedules.piecewise([10, 20], [1.0, 0.1, 0.01])
    >>> rate(9), rate(10), rate(20)
    (1.0, 0.1, 0.01)
    """
    found = tuple([real("piecewise", v, "each of values") for v in values])
    places = _schedule_boundaries("piecewise", boundaries, len(found))
    return Schedule("piecewise", _piecewise_rate, (places, found))


def _joined_rate(step: Any, schedules: tuple[Any, ...], boundaries: tuple[int, ...]) -> Any:
    rate = schedules[0](step)
    for boundary, schedule in zip(boundaries, schedules[1:], strict=True):
        rate = _schedule_before(step, boundary, rate, schedule(step - boundary))
    return rate


@with_argument_checks
def join(schedules: Sequence[Callable], boundaries: Sequence[int]) -> Schedule:
    """Return one schedule after another: each begins at a boundary, and counts from there.

    >>> s = pb.optim.schedules
    >>> rate = s.join([s.linear(0.0, 1.0, 10), s.cosine(1.0, 90)], [10])
    >>> rate(5), rate(10), rate(55)
    (0.5, 1.0, 0.5)
    """
    parts = tuple([checked_function_argument("join", s, "each of schedules") for s in schedules])
    return Schedule(
        "join", _joined_rate, (parts, _schedule_boundaries("join", boundaries, len(parts)))
    )


@with_argument_checks
def warmup(peak: float, steps: int, then: Callable | None = None, start: float = 0.0) -> Schedule:
    """Return the line from `start` to `peak` in `steps` steps, and then another schedule.

    The other one begins to count where the line ends; without it, the rate stays at `peak`.

    >>> s = pb.optim.schedules
    >>> rate = s.warmup(1.0, 10, then=s.cosine(1.0, 90))
    >>> rate(0), rate(5), rate(10), rate(100)
    (0.0, 0.5, 1.0, 0.0)
    """
    line = linear(start, peak, _schedule_steps("warmup", steps))
    return line if then is None else join([line, then], [steps])


@with_argument_checks
def one_cycle(
    peak: float, steps: int, rise: float = 0.3, start_divisor: float = 25.0,
    end_divisor: float = 1e4,
) -> Schedule:  # fmt: skip
    """Return the one-cycle policy: up to `peak` and down to almost 0, along cosines.

    It starts at `low = peak / start_divisor`, is at its peak in step `rise * steps - 1`, and ends
    in step `steps - 1` at `low / end_divisor`.

    >>> rate = pb.optim.schedules.one_cycle(1.0, 101, rise=51 / 101)
    >>> round(rate(0), 6), rate(50), rate(100)
    (0.04, 1.0, 4e-06)
    """
    if not 0.0 < rise * _schedule_steps("one_cycle", steps) - 1 < steps - 1:
        raise ArgumentError(
            f"the peak must lie between the first and the last of {steps} steps, got rise={rise!r}",
            op="one_cycle",
        )
    low = peak / start_divisor
    return Schedule("one_cycle", _one_cycle_rate, (peak, steps, rise, low, low / end_divisor))


def _one_cycle_rate(step: Any, peak: float, steps: int, rise: float, low: float, end: float) -> Any:
    top, last = rise * steps - 1, steps - 1
    up = _cosine_rate(step, low, top, peak)
    return _schedule_before(step, top, up, _cosine_rate(step - top, peak, last - top, end))


publish(__name__)
