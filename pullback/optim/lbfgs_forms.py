"""L-BFGS as users call it: the function `lbfgs`, and the object form with a closure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.arguments import validated
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.optim.base import base_learning_rate
from pullback.optim.lbfgs import LBFGSDescent, LBFGSRule
from pullback.optim.optimizer import Optimizer
from pullback.optim.parameter_trees import cast_parameter_leaf, parameter_step_dtype
from pullback.optim.schedules import LearningRate


@validated
def lbfgs(
    learning_rate: LearningRate = 1.0, history_size: int = 10, tolerance_grad: float = 1e-7,
    tolerance_change: float = 1e-9, line_search_fn: str | None = "strong_wolfe", *,
    lr: LearningRate | None = None,
) -> LBFGSRule:  # fmt: skip
    """Return L-BFGS in functional form, a minimiser of smooth functions.

    With the last changes s of the parameters and y of the gradient, at most `history_size` of
    them, the direction d = -H g comes from the gradient g by the two-loop recursion, where H begins
    as (s.y / y.y) I. The step is p = p + t d:

    - with the line search "strong_wolfe", t satisfies f(p + t d) <= f(p) + 1e-4 t g.d and
      |f'(p + t d)| <= 0.9 |g.d|; it tries t = `learning_rate` first;
    - without one, t = `learning_rate`.

    In the first step, t is multiplied by min(1, 1 / sum |g|). It ends when no element of the
    gradient is above `tolerance_grad`, or no parameter changes by more than `tolerance_change`.

    `minimize(f, params)` does it all. `init(params)` and `update(f, state, params)` take steps one
    by one. Steps depend on values, so neither can be part of a compiled function.

    >>> f = lambda p: (p["x"] - 1) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
    >>> start = {"x": pb.tensor(-1.2), "y": pb.tensor(1.0)}
    >>> found = pb.optim.lbfgs(tolerance_grad=1e-3).minimize(f, start)
    >>> round(found.params["x"].item(), 2), found.converged
    (1.0, True)
    """
    rate = base_learning_rate("lbfgs", learning_rate, lr, 1.0)
    return LBFGSRule(rate, history_size, tolerance_grad, tolerance_change, line_search_fn)


class LBFGS(Optimizer):
    """L-BFGS as an object: `step(closure)` takes up to `max_iter` steps of `lbfgs`.

    The closure clears the gradients, computes the loss and its gradients, and returns the loss.

    >>> w = pb.tensor([4.0, -8.0])
    >>> opt = pb.optim.LBFGS([w])
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = ((w - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> opt.step(closure).item()
    90.0
    >>> w.numpy().round(4).tolist()
    [1.0, 1.0]
    """

    _name = "LBFGS"

    @validated
    def __init__(
        self, params: object, learning_rate: LearningRate = 1.0, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9,
        history_size: int = 10, line_search_fn: str | None = "strong_wolfe", *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        options = history_size, tolerance_grad, tolerance_change, line_search_fn
        super().__init__(params, lbfgs(learning_rate, *options, lr=lr))
        if self._grouped:
            raise ArgumentError("LBFGS: params must be one tree, groups are not supported")
        self.max_iter = max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` steps; return the loss before the first."""
        if closure is None:
            hint = "Write opt.step(closure): it calls zero_grad() and backward(), returns the loss."
            raise ArgumentError("LBFGS.step: needs a closure, it evaluates the loss", hint=hint)

        self._wake()
        trained = [p for p in self.params if id(p) not in self._asleep]

        def evaluated(point: list[Tensor]) -> tuple[Any, list[Any]]:
            _assign_lbfgs(trained, point)
            loss = closure()
            return loss.detach(), [p.grad for p in trained]

        rule = self.rule
        assert isinstance(rule, LBFGSRule)
        search = LBFGSDescent(rule, evaluated, self.state)
        point = [cast_parameter_leaf(p.detach(), parameter_step_dtype(p.dtype)) for p in trained]
        search.run(point, self.max_iter, self.max_eval)
        _assign_lbfgs(trained, search.now.point)
        self.state = search.state
        return search.first_loss

    def _extended_state(self, first: Any) -> Any:
        return first  # the curvature was that of a function of fewer parameters


def _assign_lbfgs(params: list[Tensor], point: list[Tensor]) -> None:
    with no_grad():
        for p, x in zip(params, point, strict=True):
            p.assign(cast_parameter_leaf(x, p.dtype))
