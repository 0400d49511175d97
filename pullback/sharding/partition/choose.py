"""Choosing how an op is split: as its operands ask, unless another way is clearly cheaper."""

from __future__ import annotations

from pullback.ops.prelude import Op, Type
from pullback.sharding.cost import Machine, work
from pullback.sharding.partition.local_value import Placed
from pullback.sharding.partition.moves import Placer
from pullback.sharding.partition.prices import Prices
from pullback.sharding.propagate import PropagationPlan, plan

MACHINE = Machine()


class Chooser(Placer):
    """Compares the plans for an op by what they cost."""

    def cheapest(self, op: Op, xs: list[Placed], ys: list[Type]) -> PropagationPlan:
        """The plan that the operands ask for, or one with a factor left whole, if that is clearly
        cheaper: a small operand may be gathered where a large result would have to be summed.
        A factor that all operands with it are split along stays so: it is the user's choice."""
        types = [x.type(self.mesh) for x in xs]
        usual = plan(op, types, ys, self.mesh)
        seconds = self._seconds(op, usual, usual, xs, ys)
        best, least = usual, seconds - 2 * MACHINE.latency
        if least > 0:
            for factor in [f for f in usual.axes if not _unanimous(usual, xs, f)]:
                other = plan(op, types, ys, self.mesh, whole=factor)
                found = self._seconds(op, other, usual, xs, ys)
                if found < least:
                    best, least = other, found
        return best

    def _seconds(
        self,
        op: Op,
        split: PropagationPlan,
        usual: PropagationPlan,
        xs: list[Placed],
        ys: list[Type],
    ) -> float:
        """To bring the operands into place, compute, and lay the results out as usual."""
        prices = Prices(self.mesh, MACHINE)
        total = 0.0
        for x, dims in zip(xs, split.operands, strict=True):
            if (x, dims) not in self._known:
                total += prices.price(x, dims)
        for y, made, wanted in zip(ys, split.results, usual.results, strict=True):
            result = Placed(xs[0].node, y, made.dims, made.partial)
            total += prices.price(result, wanted.dims)
        if total == 0.0:
            return total
        parts = self.mesh.extent([a for axes in split.axes.values() for a in axes])
        types = [*[x.whole for x in xs], *ys]
        done = work(op, split.form.extents(types), types)
        return total + MACHINE.computing(done / parts)


def _unanimous(split: PropagationPlan, xs: list[Placed], factor: str) -> bool:
    """Whether every operand that has a factor is split along it already."""
    return all(
        have == split.axes[factor]
        for x, dims in zip(xs, split.form.operands, strict=True)
        for factors, have in zip(dims, x.dims, strict=True)
        if factor in factors
    )
