"""Custom derivatives: results of a function, connected to its arguments by a user's rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pullback.errors import UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.op_kinds import ForwardsOperandsKind, RunsAs
from pullback.ops.collective.all_reduce import all_reduce_total, without_all_reduced_axes
from pullback.ops.prelude import Axis, Node, Op, Type, spread


class CustomDerivativeRule(ABC):
    """A derivative given by the user.

    Values are lists of nodes: arguments `xs`, results `outs`, cotangents `gs`, tangents `ts`. Rules
    with the same meaning must compare equal, so that programs that contain them do too.
    """

    name = "custom"

    @abstractmethod
    def pull(self, xs: Sequence[Node], outs: Sequence[Node], gs: Sequence[Node]) -> Sequence:
        """Return the cotangents of the arguments, `None` for zero."""

    @abstractmethod
    def push(self, xs: Sequence[Node], outs: Sequence[Node], ts: Sequence[Node | None]) -> Sequence:
        """Return the tangents of the results, `None` for zero."""

    @abstractmethod
    def batched(self, axis: Axis, mapped: Sequence[bool]) -> CustomDerivativeRule:
        """Return the rule for a batch: all results have the axis, and `mapped` arguments."""


class Custom(Op, RunsAs, ForwardsOperandsKind, abstract=True):
    """Returns its first `count` operands, the results of a function, whose derivative with respect
    to the other operands, the function's arguments, is given by the rule. The results are
    constants: no derivative passes through their computation."""

    rule: CustomDerivativeRule | None
    count: int
    pure: ClassVar[bool] = False  # the user's functions may depend on anything

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

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:
        return tuple(xs[: self.count])

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        rule = self._checked_rule(need)
        args = xs[self.count :]
        # An argument shared by all examples along an axis gets the sum of their contributions,
        # except along axes on which only the results' cotangents vary.
        own = {a for c in g for a in c.type.varying} - {a for y in out for a in y.type.varying}
        pulled = [
            None
            if c is None
            else all_reduce_total(
                c, without_all_reduced_axes(c.type.varying, *own, *x.type.varying)
            )
            for x, c in zip(args, rule.pull(args, out, g), strict=True)
        ]
        return [*[None] * self.count, *pulled]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        rule = self._checked_rule([t is not None for t in ts])
        return tuple(rule.push(xs[self.count :], out, ts[self.count :]))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        # A result that is the same for all examples still has a cotangent for each of them.
        pairs = list(zip(xs, mapped, strict=True))
        outs = [y if has else spread(y, axis) for y, has in pairs[: self.count]]
        args, flags = xs[self.count :], tuple(mapped[self.count :])
        rule = None if self.rule is None else self.rule.batched(axis, flags)
        return Custom(rule, self.count)(*outs, *args)

    def _checked_rule(self, need: Sequence[bool]) -> CustomDerivativeRule:
        """Return the rule; raise if a tensor that the function closes over is differentiated."""
        assert self.rule is not None, "only the executed op has no rule"
        if any(need[: self.count]):
            raise custom_op_closure_error(self.title, thread.where)
        return self.rule


def custom_op_closure_error(name: str, where: Any) -> UnsupportedOp:
    return UnsupportedOp(
        "the function closes over a tensor that is being differentiated, which its rule cannot "
        "account for",
        op=name, where=where,
        hint="Pass it as an argument, or write pb.stop_gradient(x) if it is a constant here.",
    )  # fmt: skip
