"""Conditionals and loops: instructions with regions.

The outcome of a check inside a region becomes one more result of the instruction: true for a
branch that was not taken, and the conjunction over all iterations of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.engines.xla.callbacks import TICKET, CallbackOrder, Callbacks
from pullback.engines.xla.hlo_instructions import HloBlock, HloValue
from pullback.graph.dtypes import DType, bool_
from pullback.graph.types import Type

FLAG = Type((), bool_)


class Region:
    """A nested block; within `with region:`, the Builder adds its instructions there.

    It has its own constants, because what it defines is not visible outside. The code that makes
    a region must pass on the outcome of its checks.
    """

    def __init__(self, b: Any, types: Sequence[Type], calls: CallbackOrder | None = None) -> None:
        self.b = b
        self.arguments = [b.value(t) for t in types]
        self.results: list[HloValue] = []
        self.checks: list[tuple[HloValue, Any]] = []
        self.calls = calls or CallbackOrder(looped=True)
        self._inside: tuple = ([], {}, self.checks, self.calls)

    def __enter__(self) -> Region:
        self._swap()
        return self

    def __exit__(self, *exception: object) -> None:
        self._swap()

    def _swap(self) -> None:
        b, inside = self.b, self._inside
        self._inside = b.instructions, b._constants, b.checks, b.calls
        b.instructions, b._constants, b.checks, b.calls = inside

    @property
    def block(self) -> HloBlock:
        return HloBlock(tuple(self.arguments), self._inside[0], tuple(self.results))


class RegionInstructions(Callbacks):
    """The part of `Builder` that writes instructions with regions."""

    checks: list[tuple[HloValue, Any]]
    value: Callable[[Type], HloValue]

    def region(self, types: Sequence[Type], body: Callable[..., Sequence[HloValue]]) -> HloBlock:
        """A region with arguments of the given types, for `op(regions=...)`."""
        region = Region(self, types)
        with region:
            region.results = list(body(*region.arguments))
        assert not region.checks, "the outcome of a check cannot leave this region"
        return region.block

    def combination(self, dtype: DType, name: str) -> HloBlock:
        """The region that combines two elements with a binary instruction such as `add`."""
        one = Type((), dtype)
        return self.region([one, one], lambda x, y: [self.op(f"stablehlo.{name}", x, y, out=one)])

    def case(
        self, index: HloValue, branches: Sequence[Callable[[], Sequence[HloValue]]]
    ) -> tuple[HloValue, ...]:
        """The results of the branch selected by `index` (i32[], in range)."""
        before = self.calls.last
        regions = [Region(self, (), CallbackOrder(before)) for _ in branches]
        for region, branch in zip(regions, branches, strict=True):
            with region:
                region.results = list(branch())
        held = self.constant(True, bool_)
        count = len(regions[0].results)
        for region in regions:
            for other in regions:
                own = other is region
                region.results += [holds if own else held for holds, _ in other.checks]
        checks = [check for region in regions for check in region.checks]
        called = any(region.calls.last is not before for region in regions)
        for region in regions if called else ():
            with region:
                region.results.append(self.ticket())
        out = tuple([r.type for r in regions[0].results])
        made = self.op("stablehlo.case", index, out=out, regions=[r.block for r in regions])
        flags = made[count : count + len(checks)]
        self.checks += [(flag, who) for flag, (_, who) in zip(flags, checks, strict=True)]
        if called:
            self.calls.last = made[-1]
        return made[:count]

    def loop(
        self, init: Sequence[HloValue], condition: Callable[..., HloValue],
        body: Callable[..., Sequence[HloValue]], stops: bool = True, axes: Sequence[str] = (),
    ) -> tuple[HloValue, ...]:  # fmt: skip
        """The state after the last iteration: `body` runs while `condition` holds.

        With `stops`, the loop ends when a check has failed, because it might not end otherwise.
        Devices that communicate in it, along the mesh's `axes`, then stop together: a device that
        stopped alone would leave the others waiting.
        """
        types = [x.type for x in init]
        test = Region(self, types)
        with test:
            test.results = [condition(*test.arguments)]
        # Neither checks nor calls can leave this region: make the condition part of the state
        if test.checks or test.calls.last is not None:

            def step_and_test(*xs: HloValue) -> list[HloValue]:
                state = body(*xs[:-1])
                return [*state, condition(*state)]

            first = condition(*init)
            return self.loop([*init, first], lambda *xs: xs[-1], step_and_test, stops, axes)[:-1]
        step = Region(self, types)
        with step:
            step.results = list(body(*step.arguments))
            held = [holds for holds, _ in step.checks]
            if held and axes and stops:
                assert self.mesh is not None
                held = self.all_reduce(held, self.mesh.groups(axes), "and")
        for holds in held:
            with step:
                so_far = self.value(FLAG)
                step.results.append(self.op("stablehlo.and", so_far, holds, out=FLAG))
            step.arguments.append(so_far)
            with test:
                goes_on = self.value(FLAG)
                if stops:
                    test.results = [self.op("stablehlo.and", goes_on, test.results[0], out=FLAG)]
            test.arguments.append(goes_on)
        start = [*init, *[self.constant(True, bool_)] * len(step.checks)]
        if step.calls.first is not None:
            assert step.calls.last is not None
            start.append(self.ticket())
            step.arguments.append(step.calls.first)
            step.results.append(step.calls.last)
            with test:
                test.arguments.append(self.value(TICKET))
        out = tuple([x.type for x in start])
        made = self.op("stablehlo.while", *start, out=out, regions=(test.block, step.block))
        if step.calls.first is not None:
            self.calls.last = made[-1]
        flags = made[len(init) : len(init) + len(step.checks)]
        self.checks += [(flag, who) for flag, (_, who) in zip(flags, step.checks, strict=True)]
        return made[: len(init)]
