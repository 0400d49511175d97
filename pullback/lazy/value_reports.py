"""Parts of reports about values: the range of an operand, the loops around an op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import Location
from pullback.graph.node import Node
from pullback.graph.types import Type


@dataclass(frozen=True)
class ReportedLoop:
    """An op that holds the graph in which something happened; `iteration` counts from 0."""

    op: str
    where: Location
    iteration: int | None

    def __str__(self) -> str:
        place = "" if self.where is None else f" ({self.where})"
        part = "" if self.iteration is None else f"iteration {self.iteration} of "
        return f"{part}{self.op}{place}"


@dataclass(frozen=True)
class ValueRangeReport:
    """The least and largest finite element of an operand, its elements that are not finite, and
    the element that the first bad element of the result was computed from."""

    type: Type
    low: Any
    high: Any
    nans: int
    infinities: int
    at: Any

    def __str__(self) -> str:
        if self.low is None:
            parts = ["no finite element"] if self.type.size else ["no element"]
        elif self.type.size == 1:
            parts = [str(self.low)]
        elif self.low == self.high:
            parts = [f"all {self.low}"]
        else:
            parts = [f"from {self.low} to {self.high}"]
        parts += [f"{self.nans} NaN"] * (self.nans > 0)
        parts += [f"{self.infinities} infinite"] * (self.infinities > 0)
        if self.at is not None and self.type.size > 1:
            parts.append(f"{self.at} there")
        return f"{self.type}: {', '.join(parts)}"


def value_range_report(array: np.ndarray, type: Type, at: Any = None) -> ValueRangeReport:
    """The range of the finite elements of an operand."""
    if not is_reported_inexact(array):
        low, high = (array.min().item(), array.max().item()) if array.size else (None, None)
        return ValueRangeReport(type.plain, low, high, 0, 0, at)
    nans, infinities = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    finite = array[np.isfinite(array)]
    if array.dtype.kind == "c":
        finite = abs(finite)
    low, high = (
        (short_value_report(finite.min()), short_value_report(finite.max()))
        if finite.size
        else (None, None)
    )
    return ValueRangeReport(type.plain, low, high, nans, infinities, at)


def short_value_report(value: Any) -> Any:
    """A number with few digits, for people."""
    if isinstance(value, (bool, np.bool_)) or np.asarray(value).dtype.kind in "biu":
        return value.item()
    if np.asarray(value).dtype.kind == "c":
        return complex(f"{complex(value):.4g}")
    return float(f"{float(value):.4g}")


def is_reported_inexact(array: np.ndarray) -> bool:
    """Whether an array holds floats or complex numbers, also those NumPy does not know."""
    return array.dtype.kind in "fcV"


def value_report_title(node: Node) -> str:
    """The name that the user wrote for an op."""
    return getattr(node.where, "called", "") or node.op.title
