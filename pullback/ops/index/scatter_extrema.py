"""Scatters that keep the smallest or largest of all that is written to a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import UnsupportedOp
from pullback.ops.index.scatter import Scatter, select
from pullback.ops.parts import Parts
from pullback.ops.prelude import (
    TABLE,
    Node,
    ones,
    zeros,
)


class _ScatterExtremum(Scatter, abstract=True):
    """Minimum or maximum; all that reach it, the element of `x` too, share the derivative."""

    kinds = "biuf"

    def loses(self, x: Node, out: Node) -> Node:
        raise UnsupportedOp("does not say how", op=self.title)

    def reached(self, out: Node, x: Node, updates: Node, indices: Sequence[Node]) -> Any:
        """Ones where `x` and where the updates are not beaten, and for each place their number."""
        beaten = self.loses(x, out), self.loses(updates, self.take(out, indices))
        of_x = select(beaten[0], 0, ones(x.type))
        of_updates = select(beaten[1], 0, ones(updates.type))
        return *beaten, self.add(of_x, of_updates, indices)

    def pull_x(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        beaten, _, count = self.reached(out, x, updates, indices)
        return select(beaten, 0, g / count)

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        _, beaten, count = self.reached(out, x, updates, indices)
        return select(beaten, 0, self.take(g / count, indices))

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, updates, *indices = xs
        x_beaten, updates_beaten, count = self.reached(out, x, updates, indices)
        of_x = select(x_beaten, 0, ts[0] or zeros(x.type))
        of_updates = select(updates_beaten, 0, ts[1] or zeros(updates.type))
        return self.add(of_x, of_updates, indices) / count


class ScatterMin(_ScatterExtremum):
    """`x` with the smaller of each element and the updates for it."""

    ufunc = np.minimum
    stablehlo = "minimum"
    parts = Parts(combine="min", positions=2)

    def loses(self, x: Node, out: Node) -> Node:
        return TABLE["Less"]()(out, x)


class ScatterMax(_ScatterExtremum):
    """`x` with the larger of each element and the updates for it."""

    ufunc = np.maximum
    stablehlo = "maximum"
    parts = Parts(combine="max", positions=2)

    def loses(self, x: Node, out: Node) -> Node:
        return TABLE["Less"]()(x, out)
