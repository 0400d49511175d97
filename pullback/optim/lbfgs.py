"""L-BFGS: Newton steps with curvature from the last changes of parameters and gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pullback import tree
from pullback.api.grad import value_and_grad
from pullback.errors import ArgumentError
from pullback.functions.sharding import reshard
from pullback.graph.argument_checks import (
    checked_function_argument,
    checked_integer_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.boundary import boundary_methods
from pullback.lazy.evaluate import evaluate
from pullback.lazy.host_data import asarray
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.optim.curvature import curvature_direction, curvature_slope, pushed_curvature_pair
from pullback.optim.line_search import LineSearchTrial, strong_wolfe_line_search
from pullback.optim.optimizer import Optimizer
from pullback.optim.parameter_trees import (
    cast_tree_parameter,
    parameter_tree_dtype,
    which_tree_parameters,
)
from pullback.optim.rules import OptimizerRule, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate
from pullback.sharding.spec import P, Sharding

_MOST_TRIALS = 25  # in one line search
Evaluate = Callable[[list[Tensor]], tuple[Any, list[Tensor]]]  # from a point to value and gradient


class CurvatureState(NamedTuple):
    """The state of L-BFGS: the last changes of parameters and gradients, the newest at the end."""

    steps: list[Tensor]  # for each parameter, with an axis of changes in front
    turns: list[Tensor]
    weights: Tensor  # one over the products of both; 0 for changes that were not made yet
    scale: Tensor  # the curvature that directions without changes are given
    iterations: Tensor


class LBFGSResult(NamedTuple):
    """What a minimisation found."""

    params: Any
    value: Any  # of the function there
    gradient: Any
    iterations: int
    evaluations: int
    converged: bool  # whether the gradient is as small as was asked for


@boundary_methods
@dataclass(frozen=True)
class LBFGSRule(OptimizerRule):
    """L-BFGS in functional form: `minimize`, or `init` and `update` with a function."""

    learning_rate: LearningRate
    history_size: int = 10
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9
    line_search_fn: str | None = "strong_wolfe"

    def __post_init__(self) -> None:
        UpdateRule(self.learning_rate)  # checks it
        if checked_integer_argument("lbfgs", self.history_size, "history_size") < 1:
            message = f"history_size must be at least 1, got {shown_argument(self.history_size)}"
            raise ArgumentError(message, op="lbfgs")
        if self.line_search_fn not in (None, "strong_wolfe"):
            message = f"must be 'strong_wolfe' or None, got {shown_argument(self.line_search_fn)}"
            raise ArgumentError(f"line_search_fn {message}", op="lbfgs")

    def rebuilt(self, change: Any) -> OptimizerRule:
        return change(self)

    def start(self, params: object) -> CurvatureState:
        point = _lbfgs_point(params)
        real = _lbfgs_scalar_dtype(point)
        steps, turns = ([_lbfgs_rows(p, self.history_size) for p in point] for _ in range(2))
        scale = asarray(np.ones((), real.numpy))
        weights = asarray(np.zeros(self.history_size, real.numpy))
        return CurvatureState(steps, turns, weights, scale, asarray(np.int32(0)))

    def update(self, f: object, state: CurvatureState, params: Any) -> tuple[Any, Any]:
        """Take one step for a function of the parameters; return them and the new state."""
        found, state = self._minimized(
            checked_function_argument("update", f, "f"), state, params, 1, None
        )
        return found.params, state

    def minimize(
        self, f: Callable[..., Any], params: Any, max_iter: int = 500, max_eval: int | None = None
    ) -> LBFGSResult:
        """Return the minimum of a function that is found from `params` on.

        >>> f = lambda x: ((x - 2) ** 4 / 2).sum() + (x ** 2).sum()
        >>> found = pb.optim.lbfgs().minimize(f, pb.tensor([5.0, -5.0], dtype="float64"))
        >>> found.converged, found.params.numpy().round(6).tolist()
        (True, [1.0, 1.0])
        """
        checked_function_argument("minimize", f, "f")
        return self._minimized(f, self.init(params), params, max_iter, max_eval)[0]

    def _minimized(
        self, f: Callable, state: CurvatureState, params: Any, max_iter: int, max_eval: int | None
    ) -> tuple[LBFGSResult, CurvatureState]:
        leaves, structure = tree.flatten(params)
        mine = which_tree_parameters(params)
        dtypes = [p.dtype for p, own in zip(leaves, mine, strict=True) if own]

        def tree_at(point: list[Tensor]) -> Any:
            values = iter(
                [cast_tree_parameter(x, dtype) for x, dtype in zip(point, dtypes, strict=True)]
            )
            return tree.unflatten(
                structure, [next(values) if m else p for p, m in zip(leaves, mine)]
            )

        def evaluated(point: list[Tensor]) -> tuple[Any, list[Tensor]]:
            value, gradient = value_and_grad(f)(tree_at(point))
            parts = structure.flatten_up_to(gradient)
            return value, [g for g, own in zip(parts, mine, strict=True) if own]

        search = LBFGSDescent(self, evaluated, state)
        search.run([x.detach() for x in _lbfgs_point(params)], max_iter, max_eval)
        now = search.now
        found = LBFGSResult(
            tree_at(now.point), now.loss, tree_at(now.gradient), search.iterations,
            search.evaluations, search.converged,
        )  # fmt: skip
        return found, search.state


class LBFGSDescent:
    """Iterations of L-BFGS, with the decisions on the host and the vectors on the device."""

    now: LineSearchTrial
    first_loss: Any

    def __init__(self, rule: LBFGSRule, evaluated: Evaluate, state: CurvatureState) -> None:
        self.rule, self.evaluated, self.state = rule, evaluated, state
        self.iterations = self.evaluations = 0

    @property
    def converged(self) -> bool:
        return self.now.largest <= self.rule.tolerance_grad

    def run(self, point: list[Tensor], max_iter: int, max_eval: int | None) -> None:
        """Take at most `max_iter` steps; `now` is then the last point."""
        taken = int(self.state.iterations.item())
        self.now = self.trial(point, None, 0.0)
        self.first_loss = self.now.loss
        while not self.converged and self.iterations < max_iter:
            if max_eval is not None and self.evaluations >= max_eval:
                break
            self.iterations += 1
            if not self.step(taken + self.iterations):
                break
        count = asarray(np.int32(taken + self.iterations))
        self.state = self.state._replace(iterations=count)

    def trial(
        self, point: list[Tensor], direction: list[Tensor] | None, t: float
    ) -> LineSearchTrial:
        """Evaluate the function at a point; the slope is that along the direction."""
        self.evaluations += 1
        loss, gradient = self.evaluated(point)
        gradient = [
            _lbfgs_zeros(p) if g is None else cast_tree_parameter(g, p.dtype)
            for p, g in zip(point, gradient)
        ]
        slope, largest = curvature_slope(gradient, gradient if direction is None else direction)
        evaluate(loss, slope, largest, gradient)
        numbers = float(loss.item()), slope.item()
        return LineSearchTrial(t, *numbers, point, gradient, largest.item(), loss)

    def step(self, number: int) -> bool:
        """Take step `number`; return whether more may follow."""
        before, rule, state = self.now, self.rule, self.state
        direction, slope, total, reach = curvature_direction(before.gradient, *state[:4])
        start = before._replace(t=0.0, slope=slope.item())
        if not start.slope < 0:
            return False
        t = _lbfgs_rate(rule.learning_rate, number - 1)
        if number == 1:
            t *= min(1.0, 1.0 / total.item())

        def along(t: float) -> LineSearchTrial:
            return self.trial([x + d * t for x, d in zip(start.point, direction)], direction, t)

        if rule.line_search_fn is None:
            self.now = along(t)
        else:
            closest = rule.tolerance_change / reach.item()
            self.now = strong_wolfe_line_search(along, start, t, _MOST_TRIALS, closest)
            if self.now.t == 0.0:  # nothing lower was found
                return False
        moved = [d * self.now.t for d in direction]
        turned = [a - b for a, b in zip(self.now.gradient, before.gradient)]
        self.state = CurvatureState(
            *pushed_curvature_pair(moved, turned, *state[:4]), state.iterations
        )
        return self.now.t * reach.item() > rule.tolerance_change


def _lbfgs_rate(rate: Any, steps: int) -> float:
    return float(rate(steps) if callable(rate) and not isinstance(rate, Tensor) else rate)


def _lbfgs_point(params: Any) -> list[Tensor]:
    """Return the parameters of a tree in the dtypes that they are computed in."""
    pairs = zip(tree.leaves(params), which_tree_parameters(params), strict=True)
    return [cast_tree_parameter(p, parameter_tree_dtype(p.dtype)) for p, own in pairs if own]


def _lbfgs_scalar_dtype(point: list[Tensor]) -> Any:
    return max((p.dtype.real for p in point), key=lambda dtype: dtype.bits)


def _lbfgs_zeros(p: Tensor) -> Tensor:
    return asarray(np.zeros(p.shape, p.dtype.numpy))


def _lbfgs_rows(p: Tensor, rows: int) -> Tensor:
    """Return zeros with an axis in front, sharded like the parameter."""
    made = asarray(np.zeros((rows, *p.shape), p.dtype.numpy))
    if p.sharding is None:
        return made
    return reshard(made, Sharding(p.sharding.mesh, P(None, *p.sharding.spec)))


@with_argument_checks
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
    rate = rule_learning_rate("lbfgs", learning_rate, lr, 1.0)
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

    @with_argument_checks
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
        point = [cast_tree_parameter(p.detach(), parameter_tree_dtype(p.dtype)) for p in trained]
        search.run(point, self.max_iter, self.max_eval)
        _assign_lbfgs(trained, search.now.point)
        self.state = search.state
        return search.first_loss

    def _extended_state(self, first: Any) -> Any:
        return first  # the curvature was that of a function of fewer parameters


def _assign_lbfgs(params: list[Tensor], point: list[Tensor]) -> None:
    with no_grad():
        for p, x in zip(params, point, strict=True):
            p.assign(cast_tree_parameter(x, p.dtype))
