"""Functions whose derivative the user gives: their results, tied to their arguments by a rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pullback.errors import UnsupportedOp
from pullback.graph.ambient import thread
from pullback.ops.collective.reduce import total
from pullback.ops.prelude import Axis, Node, Op, Type, spread


class DerivativeRule(ABC):
    """A derivative that does not follow from what was computed.

    Values are lists of nodes: arguments `xs`, results `outs`, cotangents `gs`, tangents `ts`.
    Rules that mean the same compare equal, so that programs that hold them do too.
    """

    name = "custom"

    @abstractmethod
    def pull(self, xs: Sequence[Node], outs: Sequence[Node], gs: Sequence[Node]) -> Sequence:
        """Cotangents of the arguments, `None` for zero."""

    @abstractmethod
    def push(self, xs: Sequence[Node], outs: Sequence[Node], ts: Sequence[Node | None]) -> Sequence:
        """Tangents of the results, `None` for zero."""

    @abstractmethod
    def batched(self, axis: Axis, mapped: Sequence[bool]) -> DerivativeRule:
        """The rule for all examples along an axis: the results have it, arguments if `mapped`."""


class Custom(Op, abstract=True):
    """Hands on its first `count` operands, the results of a function, for derivatives to treat
    as functions of the other operands, its arguments, by the rule.

    The results come in as constants: no derivative passes through how they were computed.
    """

    rule: DerivativeRule | None
    count: int
    hands_on: ClassVar[bool] = True
    pure: ClassVar[bool] = False  # the user's functions may look at anything

    @property
    def title(self) -> str:  # type: ignore[override]
        return "custom" if self.rule is None else self.rule.name

    @cached_property
    def executed(self) -> Op | None:  # type: ignore[override]
        return None if self.rule is None else Custom(None, self.count)

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        return xs[: self.count]

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        return types[: self.count]

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        return xs[: self.count]

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        return xs[: self.count]

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:  # type: ignore[override]
        return tuple(xs[: self.count])

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        rule = self._open(need)
        args = xs[self.count :]
        # An argument that is one for all examples along an axis gets what all of them contribute;
        # but where the results' cotangents are each example's own, so are the arguments'.
        own = {a for c in g for a in c.type.varying} - {a for y in out for a in y.type.varying}
        pulled = zip(args, rule.pull(args, out, g), strict=True)
        return [*[None] * self.count, *[_contributions(x, c, own) for x, c in pulled]]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        rule = self._open([t is not None for t in ts])
        return tuple(rule.push(xs[self.count :], out, ts[self.count :]))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        # A result that is one for all examples still has a cotangent for each of them.
        pairs = list(zip(xs, mapped, strict=True))
        outs = [y if has else spread(y, axis) for y, has in pairs[: self.count]]
        args, flags = xs[self.count :], tuple(mapped[self.count :])
        rule = None if self.rule is None else self.rule.batched(axis, flags)
        return Custom(rule, self.count)(*outs, *args)

    def _open(self, need: Sequence[bool]) -> DerivativeRule:
        """The rule, unless something that the function closed over is differentiated."""
        assert self.rule is not None, "only what is executed has no rule"
        if any(need[: self.count]):
            raise closes_over(self.title, thread.where)
        return self.rule


def _contributions(x: Node, c: Node | None, own: set[str]) -> Node | None:
    if c is None:
        return None
    return total(c, tuple([a for a in c.type.varying if a not in own and a not in x.type.varying]))


def closes_over(name: str, where: Any) -> UnsupportedOp:
    return UnsupportedOp(
        "the function closes over a tensor that is under a derivative, which its rule does not "
        "see",
        op=name, where=where,
        hint="Pass it as an argument; or write pb.stop_gradient(x) if it is a constant here.",
    )  # fmt: skip
