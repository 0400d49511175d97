"""The choice of how to split an op: as its operands are split, unless another way is cheaper."""

from __future__ import annotations

from pullback.ops.prelude import Op, Type
from pullback.sharding.cost import Machine, arithmetic_cost
from pullback.sharding.partition.local_value import LocalValue
from pullback.sharding.partition.moves import LayoutMover
from pullback.sharding.partition.prices import Prices
from pullback.sharding.propagate import PropagationPlan, plan_propagation

MACHINE = Machine()


class Chooser(LayoutMover):
    """A mover that compares plans for an op by their cost."""

    def cheapest(self, op: Op, xs: list[LocalValue], ys: list[Type]) -> PropagationPlan:
        """Return the propagated plan, or one with a factor left whole if that is clearly cheaper.

        Gathering a small operand may be cheaper than reducing a large result. A factor along which
        all its operands are split stays split: the user asked for it.
        """
        types = [x.type(self.mesh) for x in xs]
        usual = plan_propagation(op, types, ys, self.mesh)
        best, least = usual, self._seconds(op, usual, usual, xs, ys) - 2 * MACHINE.latency
        if least > 0:
            for factor in [f for f in usual.axes if not _choice_unanimous(usual, xs, f)]:
                other = plan_propagation(op, types, ys, self.mesh, whole=factor)
                seconds = self._seconds(op, other, usual, xs, ys)
                if seconds < least:
                    best, least = other, seconds
        return best

    def _seconds(
        self,
        op: Op,
        split: PropagationPlan,
        usual: PropagationPlan,
        xs: list[LocalValue],
        ys: list[Type],
    ) -> float:
        """Return the time to move the operands, compute, and move the results to `usual`."""
        prices = Prices(self.mesh, MACHINE)
        total = 0.0
        for x, dims in zip(xs, split.operands, strict=True):
            if (x, dims) not in self._moved:
                total += prices.price(x, dims)
        for y, result, wanted in zip(ys, split.results, usual.results, strict=True):
            value = LocalValue(xs[0].node, y, result.dims, result.partial)
            total += prices.price(value, wanted.dims)
        if total == 0.0:
            return total
        shards = self.mesh.extent([a for axes in split.axes.values() for a in axes])
        types = [*[x.whole for x in xs], *ys]
        return total + MACHINE.computing(
            arithmetic_cost(op, split.form.extents(types), types) / shards
        )


def _choice_unanimous(split: PropagationPlan, xs: list[LocalValue], factor: str) -> bool:
    """Return whether every operand that has a factor is already split along it."""
    return all(
        have == split.axes[factor]
        for x, dims in zip(xs, split.form.operands, strict=True)
        for factors, have in zip(dims, x.dims, strict=True)
        if factor in factors
    )
