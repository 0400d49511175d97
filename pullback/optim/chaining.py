"""Rules whose gradients go through functions first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pullback.graph.argument_checks import checked_function_argument
from pullback.optim.rules import OptimizerRule, require_optimizer_rule
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class ChainRule(OptimizerRule):
    """A rule whose gradients go through functions first. Its state is that of the rule."""

    functions: tuple[Callable[[Any], Any], ...]
    rule: OptimizerRule

    @property
    def learning_rate(self) -> LearningRate:  # type: ignore[override]
        return self.rule.learning_rate

    def rebuilt(self, change: Any) -> OptimizerRule:
        return replace(self, rule=self.rule.rebuilt(change))

    def start(self, params: object) -> Any:
        return self.rule.start(params)

    def advance(self, grads: object, state: Any, params: Any) -> tuple[Any, Any]:
        for f in self.functions:
            grads = f(grads)
        return self.rule.advance(grads, state, params)


def chain(*steps: Any) -> ChainRule:
    """Return a rule whose gradients go through functions first: `chain(f, g, rule)`.

    Each function takes a tree of gradients and returns one; the last argument is the rule.

    >>> halved = lambda grads: pb.tree.map(lambda g: g / 2, grads)
    >>> opt = pb.optim.chain(halved, pb.optim.sgd(1.0))
    >>> w = pb.tensor([4.0])
    >>> opt.update(w, opt.init(w), w)[0].tolist()
    [2.0]
    """
    require_optimizer_rule("chain", steps[-1] if steps else None)
    functions = tuple(
        [checked_function_argument("chain", f, "each argument but the last") for f in steps[:-1]]
    )
    return ChainRule(functions, steps[-1])
