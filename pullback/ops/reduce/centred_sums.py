"""Sums of deviations from a mean, such as those of batch norm, with fewer reads of the array.

The variance of x is the sum of d * d, where d = x - mean(x). Its terms cannot be computed before
the mean, so x is read twice. With any number s near the mean, a single pass gives both: the sums of
e = x - s and of e * e. Reverse mode sums g, d, g * d and products of these with numbers of each
channel, some of which depend on other sums. Without these numbers, all sums are of g and of g * d.

XLA's GPU compiler makes one kernel of sums that read the same arrays. On CPUs, pullback has kernels
of its own for norms of rows, and XLA computes tall sums one by one.

The shift s is the mean of a part of x: one in `PART` of its elements, evenly spaced along an axis.
If one in n is in the part, (mean(x) - s)**2 <= (n - 1) * variance, whatever x is. So at most n
times the variance is summed, and its relative error is at most 2 n times that of a sum of positive
terms. That is the worst case, in which the part is all that differs; if it is like the rest, the
error is that of the sums. Derivatives are formed before this, so they do not know of s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.elementwise.arithmetic import Square, Sub
from pullback.ops.elementwise.functions import both, less, where
from pullback.ops.elementwise.rounding_predicates import IsFinite, IsInf
from pullback.ops.prelude import TABLE
from pullback.ops.reduce.reductions import Mean, Sum
from pullback.ops.reduce.sum_factors import SumFactors, sum_factors

SMALLEST = 1 << 18  # elements of an array for which fewer reads are worth more kernels
PART, FEWEST = 32, 16  # one in how many is in the part, and the fewest elements along its axis

Centred = dict[tuple[Node, tuple[int, ...]], Node]  # means, by deviations and axes
Sums = dict[Node, SumFactors]


def centred_sums(graph: Graph) -> dict[Node, Node]:
    """Return what to put in the place of such sums, and of means of the same arrays."""
    centred = dict(_centred_values(graph))
    if not centred:
        return {}
    sums = {n: found for n in graph.nodes if (found := sum_factors(n)) is not None}
    return {**_centred_products(sums, centred), **_centred_variances(sums, centred)}


def _centred_values(graph: Graph) -> Iterator[tuple[tuple[Node, tuple[int, ...]], Node]]:
    """Yield large arrays of which their mean is subtracted, unless the mean is of rows: those have
    kernels."""
    for node in graph.nodes:
        if not isinstance(node.op, Sub):
            continue
        x, mean = node.inputs
        if isinstance(mean.op, Mean) and mean.inputs == (x,) and mean.op.keepdims:
            axes, type = mean.op.axes, x.type
            if axes != (type.rank - 1,) and type.size >= SMALLEST and type.dtype.bits >= 32:
                yield (node, axes), mean


def _centred_products(sums: Sums, centred: Centred) -> dict[Node, Node]:
    """Return the sums of d, of g * d, and of g, by what is the same for all terms."""
    places, partners = {}, set()
    for node, found in sums.items():
        deviations = [v for v in found.varying if (v, found.axes) in centred]
        if not deviations:
            continue
        if len(found.varying) == 1:
            mean = centred[deviations[0], found.axes]
            places[node] = found.value(mean * 0)  # NaN where x is not finite, as the sum is
        elif len(set(found.varying)) == 2:
            partners |= {((v,), found.axes) for v in found.varying}
            places[node] = found.value()
    alone = {n: s for n, s in sums.items() if (s.varying, s.axes) in partners}
    return {node: found.value() for node, found in alone.items()} | places


def _centred_variances(sums: Sums, centred: Centred) -> dict[Node, Node]:
    """Return the sums of d * d, and means of the same arrays, from a single pass."""
    places = {}
    for node, found in sums.items():
        mean = centred.get((found.varying[0], found.axes))
        if mean is None or found.varying != (found.varying[0],) * 2:
            continue
        shift = _shift_of_centred_sum(mean.inputs[0], found.axes)
        if shift is not None:
            places[mean], squares = _mean_and_squares(mean, shift)
            places[node] = found.value(squares)
    return places


def _shift_of_centred_sum(x: Node, axes: Sequence[int]) -> Node | None:
    """Return the mean of evenly spaced elements of the longest axis; 0 where it is not finite."""
    shape = x.type.shape
    axis = max(axes, key=lambda i: shape[i])
    if shape[axis] < FEWEST:
        return None
    steps = tuple([PART if i == axis else 1 for i in range(len(shape))])
    part = TABLE["Slice"]((0,) * len(shape), shape, steps)(x)
    found = Mean(tuple(axes), True)(part)
    return where(IsFinite()(found), found, 0)


def _mean_and_squares(mean: Node, shift: Node) -> tuple[Node, Node]:
    """Return the mean of x, and the sum of squared distances from it."""
    assert isinstance(mean.op, Mean)
    (x,), total = mean.inputs, Sum(mean.op.axes, True)
    e = x - shift
    first, squares = total(e), total(Square()(e))
    distance = first / float(mean.op.count(x.type.shape))
    rest = squares - first * distance
    rest = where(less(rest, 0), 0, rest)  # by rounding
    # Squares that are too large for the dtype: without an infinity in x, the sum of them is one.
    rest = where(both(IsInf()(squares), IsFinite()(distance)), squares, rest)
    return shift + distance, rest
