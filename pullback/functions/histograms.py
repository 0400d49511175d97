"""Counting: histograms, bins and their edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import reductions
from pullback.functions.arguments import (
    Tensor,
    argument_node,
    as_tensor,
    checked_integer_argument,
    float_node,
    literal_argument,
    operator_operands,
    tensor_arguments,
)
from pullback.functions.composed import composed
from pullback.functions.creation import linspace, ones
from pullback.functions.data_types import astype
from pullback.functions.differences import diff
from pullback.functions.flip_roll_resize import flip
from pullback.functions.known_values import known_values
from pullback.functions.shape import flatten, reshaped_to
from pullback.functions.sorted_search import sorted_insertion_points
from pullback.functions.splitting import unstack
from pullback.functions.take_modes import index_in_mode
from pullback.functions.where_take import where
from pullback.graph.argument_checks import checked_sequence_argument, shown_argument
from pullback.graph.dtypes import float64, int64
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.record import record
from pullback.lazy.settings import current
from pullback.lazy.tensor import wrap
from pullback.ops.index.along_axis import PutAlongAxisAdd
from pullback.typing import ArrayLike, Number

Bins: TypeAlias = int | str | ArrayLike
Limits: TypeAlias = tuple[Number, Number] | None


@composed
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0,
    *, length: int | None = None,
) -> Tensor:  # fmt: skip
    """Return how often each of the numbers 0, 1, 2 ... occurs in a vector of integers, or the sums
    of their weights.

    The result has an element for each number up to the largest one, which is read, and at least
    `minlength`. A given `length` is used instead, so that nothing is read; numbers beyond it are
    an error.

    >>> pb.bincount([0, 1, 1, 3]).tolist()
    [1, 2, 0, 1]
    """
    x = as_tensor(x)
    if x.ndim != 1 or (x.size and not x.dtype.is_integer):
        raise ArgumentError(f"needs a vector of integers, got {x._node.type}", op="bincount")
    w = _histogram_weights("bincount", x, weights)
    least = 0
    if length is None:
        values = read_on_host(x)
        least = int(values.min()) if x.size else 0
        length = max(int(values.max()) + 1 if x.size else 0, minlength)
    if least < 0 or length < 0 or minlength < 0:
        what = f"{least}, {length} and {minlength}"
        message = f"numbers, length and minlength must not be negative, got {what}"
        raise ArgumentError(message, op="bincount")
    x = x.astype(int64)
    return _histogram_sums(
        index_in_mode("bincount", x, length, "raise") if x.size else x, w, length
    )


def _histogram_weights(op: str, x: Tensor, weights: ArrayLike | None) -> Tensor:
    """The weights of counted elements, which are 1 by default."""
    if weights is None:
        return ones(x.shape, dtype=int64)
    w = as_tensor(weights)
    if w.shape != x.shape:
        message = f"x and weights must have the same shape, got {x._node.type} and {w._node.type}"
        raise ShapeError(message, op=op)
    return wrap(float_node(w))


def _histogram_sums(index: Tensor, weights: Tensor, length: int) -> Tensor:
    """The sum of the weights for each index, which must be less than `length`."""
    return record(PutAlongAxisAdd(0, length, True), (argument_node(weights), argument_node(index)))


@composed
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Tensor:
    """Return the number of the bin of each element: i where `bins[i - 1] <= x < bins[i]`.

    With `right`, the right edges belong to a bin instead of the left ones. The edges increase or
    decrease; the numbers count from the edge where they begin.

    >>> pb.digitize([0.5, 1.0, 7.0], [0.0, 1.0, 5.0]).tolist()
    [1, 2, 3]
    """
    x, edges = map(wrap, operator_operands(as_tensor(x), as_tensor(bins)))
    if edges.ndim != 1:
        message = f"bins must be a vector, got {edges._node.type}"
        raise ShapeError(message, op="digitize", code="E3002")
    if edges.size < 2:
        return sorted_insertion_points(edges, x, not right)
    _refuse_unordered_bins("digitize", bins, both=True)
    falling = edges[0] > edges[-1]
    rising = where(falling, flip(edges), edges)
    number = sorted_insertion_points(rising, x, not right)
    return where(falling, edges.size - number, number)


def _refuse_unordered_bins(op: str, bins: ArrayLike, both: bool = False) -> None:
    """Raise if known edges do not increase, or decrease where that is allowed too."""
    values = known_values(bins)
    if values is None or values.ndim != 1:
        return
    steps = np.diff(values)
    if (steps < 0).any() and not (both and (steps <= 0).all()):
        raise ArgumentError(f"the edges of bins must be sorted, got {shown_argument(bins)}", op=op)


@composed
def histogram_bin_edges(
    x: ArrayLike, bins: Bins = 10, range: Limits = None, weights: ArrayLike | None = None
) -> Tensor:
    """Return the edges of the bins of a histogram: see `histogram`.

    >>> pb.histogram_bin_edges([1.0, 3.0], bins=2).tolist()
    [1.0, 2.0, 3.0]
    """
    x = as_tensor(x)
    if weights is not None:
        _histogram_weights("histogram_bin_edges", x, weights)
    x = flatten(x)
    weights = None if weights is None else as_tensor(weights)
    return _shown_bin_edges(x, _bin_edges("histogram_bin_edges", x, bins, range, weights), bins)


@composed
def histogram(
    x: ArrayLike, bins: Bins = 10, range: Limits = None, density: bool = False,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the number of elements, or the sum of their weights, in each bin, and the edges.

    A bin contains its left edge, the last one also its right edge. `bins` is a number of equal bins
    between the limits `range`, by default those of the elements; the edges; or the name of one of
    NumPy's rules for the number of bins, such as "auto", which reads the elements. With `density`,
    the counts are divided by their sum and by the widths. Gradients go to the weights, and to the
    edges that are computed.

    >>> counts, edges = pb.histogram([1.0, 2.0, 1.0], bins=[0.0, 1.0, 2.0, 3.0])
    >>> counts.tolist()
    [0, 2, 1]
    """
    x = as_tensor(x)
    w = _histogram_weights("histogram", x, weights) if weights is None else as_tensor(weights)
    if w.shape != x.shape:
        message = f"x and weights must have the same shape, got {x._node.type} and {w._node.type}"
        raise ShapeError(message, op="histogram")
    flat = flatten(x)
    edges = _bin_edges("histogram", flat, bins, range, weights)
    count = edges.size - 1
    counts = _histogram_sums(_bin_numbers(flat, edges), flatten(w), count + 2)[1:-1]
    if density:
        counts = wrap(float_node(counts))
        counts = counts / astype(diff(edges), counts.dtype.real) / reductions.sum(counts)
    return counts, _shown_bin_edges(flat, edges, bins)


def _shown_bin_edges(x: Tensor, edges: Tensor, bins: Bins) -> Tensor:
    """Edges that were computed from integers in f64, in the default dtype; others as they are."""
    given = x.dtype.is_inexact or _are_bin_edges(bins)
    return edges if given else astype(edges, current().default_dtype)


def _are_bin_edges(bins: Bins) -> bool:
    """Whether bins are given by their edges and not by their number."""
    return isinstance(bins, (list, tuple)) or getattr(bins, "ndim", 0) > 0


def _bin_numbers(x: Tensor, edges: Tensor) -> Tensor:
    """The number of each element's bin, from 1; 0 and the last number are outside."""
    x, edges = map(wrap, operator_operands(x, edges))
    number = sorted_insertion_points(edges, x, True)
    return where(x == edges[-1], edges.size - 1, number)


def _bin_edges(op: str, x: Tensor, bins: Bins, range: Limits, weights: ArrayLike | None) -> Tensor:
    """The edges of bins; those of integers are computed in f64."""
    if isinstance(bins, str):
        if weights is not None:
            raise ArgumentError("the number of bins is not chosen for weighted data", op=op)
        bins = _chosen_bin_count(op, x, bins, range)
    if _are_bin_edges(bins):
        _, edges = tensor_arguments(x, bins)
        if edges.ndim != 1 or edges.size < 2:
            message = (
                "bins must be a number or a vector of at least two edges, "
                f"got {shown_argument(bins)}"
            )
            raise ArgumentError(message, op=op)
        _refuse_unordered_bins(op, bins)
        return edges
    count = checked_integer_argument(op, bins, "bins")
    if count < 1:
        raise ArgumentError(f"bins must be positive, got {count}", op=op)
    low, high = _outer_bin_edges(op, x, range)
    kind = x.dtype if x.dtype.is_float else float64
    return astype(linspace(low, high, count + 1, dtype=kind), kind)


def _outer_bin_edges(op: str, x: Tensor, range: Limits) -> tuple[Tensor, Tensor]:
    """The limits of a histogram in f64; equal ones are moved apart."""
    if range is not None:
        ends = tuple(checked_sequence_argument(op, range, "range"))
        values = known_values(ends)
        if len(ends) != 2 or (
            values is not None and not (np.isfinite(values).all() and values[0] <= values[1])
        ):
            message = (
                f"range must be two finite numbers in ascending order, got {shown_argument(range)}"
            )
            raise ArgumentError(message, op=op)
        low, high = (as_tensor(v) for v in ends)
    elif not x.size:
        low, high = as_tensor(0.0), as_tensor(1.0)
    else:
        low, high = reductions.min(x), reductions.max(x)
    low, high = astype(low, float64), astype(high, float64)
    apart = where(low == high, 0.5, 0.0).astype(float64)
    return low - apart, high + apart


def _chosen_bin_count(op: str, x: Tensor, rule: str, range: Limits) -> int:
    """The number of bins by one of NumPy's rules, from the values."""
    rules = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")
    if rule not in rules:
        raise ArgumentError(f"bins must be one of {', '.join(rules)}, got {rule!r}", op=op)
    values = read_on_host(x)
    if x.dtype.bits == 16 and x.dtype.is_float:
        values = values.astype(np.float32)
    if range is None and not np.isfinite(values).all():
        raise ArgumentError(f"the elements must be finite to choose bins by {rule!r}", op=op)
    limits = None if range is None else (float(range[0]), float(range[1]))  # type: ignore[arg-type]
    return np.histogram_bin_edges(values, rule, limits).size - 1


@composed
def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, density: bool = False,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the histogram of points in the plane, and the edges along both axes.

    `bins` is a number, a vector of edges, or one of these for each axis.

    >>> counts, xs, ys = pb.histogram2d([0.0, 1.0, 1.0], [0.0, 0.0, 1.0], bins=2)
    >>> counts.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    a, b = flatten(x), flatten(y)
    if a.shape != b.shape:
        got = f"{a._node.type} and {b._node.type}"
        raise ShapeError(f"x and y must have the same size, got {got}", op="histogram2d")
    if _are_bin_edges(bins) and len(bins) > 2:  # edges for both axes
        bins = [bins, bins]
    counts, (across, down) = histogramdd([a, b], bins, range, density, weights)
    return counts, across, down


@composed
def histogramdd(
    sample: ArrayLike, bins: Any = 10, range: Any = None, density: bool = False,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """Return the histogram of points in any number of dimensions, and the edges along each.

    The points are the rows of a matrix, or their coordinates are the items of a list. `bins` is a
    number for all dimensions, or a number or a vector of edges for each.

    >>> counts, edges = pb.histogramdd(([0.0, 1.0, 1.0], [0.0, 0.0, 1.0]), bins=(2, 1))
    >>> counts.tolist()
    [[1.0], [2.0]]
    """
    columns = _histogram_coordinates(sample)
    rank = len(columns)
    each = list(bins) if _are_bin_edges(bins) else [bins] * rank
    limits = [None] * rank if range is None else list(range)
    if len(each) != rank or len(limits) != rank:
        message = (
            f"needs bins and a range for each of {rank} dimensions, got {shown_argument(bins)}"
        )
        raise ArgumentError(message, op="histogramdd")
    edges = [_bin_edges("histogramdd", *given, None) for given in zip(columns, each, limits)]
    place, sizes = literal_argument(0, int64), [e.size + 1 for e in edges]
    for c, e, n in zip(columns, edges, sizes):
        place = place * n + _bin_numbers(c, e)
    flat = _histogram_sums(
        place, _histogram_weights("histogramdd", columns[0], weights), math.prod(sizes)
    )
    counts = wrap(float_node(reshaped_to(flat, tuple(sizes))[(slice(1, -1),) * rank]))
    if density:
        total = reductions.sum(counts)
        for i, e in enumerate(edges):
            widths = astype(diff(e), counts.dtype.real)
            counts = counts / reshaped_to(widths, (widths.size,) + (1,) * (rank - i - 1))
        counts = counts / total
    return counts, tuple(_shown_bin_edges(c, e, b) for c, e, b in zip(columns, edges, each))


def _histogram_coordinates(sample: ArrayLike | Sequence[ArrayLike]) -> list[Tensor]:
    """The coordinates of points along each dimension."""
    if isinstance(sample, (list, tuple)):
        made = [flatten(s) for s in sample]
    else:
        x = as_tensor(sample)
        x = x if x.ndim == 2 else reshaped_to(x, (x.size, 1))
        made = list(unstack(x, axis=1))
    if not made or len({c.shape for c in made}) > 1:
        message = "needs a matrix of points, or coordinates of the same size"
        raise ShapeError(message, op="histogramdd")
    return made


__all__ = [
    "bincount", "digitize", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
]  # fmt: skip
