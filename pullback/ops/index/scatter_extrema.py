"""Scatters that keep the extremum of everything that is written to a position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback.ops.elementwise.functions import less, where
from pullback.ops.index.scatter import Scatter
from pullback.ops.prelude import Node, Parts, ones, zeros


class ScatterExtremum(Scatter, abstract=True):
    """A minimum or maximum; all elements that reach it, also those of `x`, share the derivative."""

    kinds = "biuf"

    def reached(
        self, out: Node, x: Node, updates: Node, indices: Sequence[Node]
    ) -> tuple[Node, Node, Node]:
        """Where `x` and the updates are beaten, and how many are not, for each position."""
        beaten = self.beaten(x, out), self.beaten(updates, self.take(out, indices))
        of_x = where(beaten[0], 0, ones(x.type))
        of_updates = where(beaten[1], 0, ones(updates.type))
        return *beaten, self.add(of_x, of_updates, indices)

    def beaten(self, x: Node, out: Node) -> Node:
        return less(x, out) if self.ufunc is np.maximum else less(out, x)

    def pull_x(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        beaten, _, count = self.reached(out, x, updates, indices)
        return where(beaten, 0, g / count)

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        _, beaten, count = self.reached(out, x, updates, indices)
        return where(beaten, 0, self.take(g / count, indices))

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, updates, *indices = xs
        x_beaten, updates_beaten, count = self.reached(out, x, updates, indices)
        of_x = where(x_beaten, 0, ts[0] or zeros(x.type))
        of_updates = where(updates_beaten, 0, ts[1] or zeros(updates.type))
        return self.add(of_x, of_updates, indices) / count


class ScatterMin(ScatterExtremum):
    """`x` with the smaller of each element and the updates for it."""

    ufunc, stablehlo = np.minimum, "minimum"
    parts = Parts(combine="min", positions=2)


class ScatterMax(ScatterExtremum):
    """`x` with the larger of each element and the updates for it."""

    ufunc, stablehlo = np.maximum, "maximum"
    parts = Parts(combine="max", positions=2)
