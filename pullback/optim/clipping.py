"""Clipping of gradients: functions over trees, and wrappers of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, overload

from pullback import tree
from pullback.errors import ArgumentError, DTypeError
from pullback.functions.where_take import where
from pullback.graph.argument_checks import shown_argument, with_argument_checks
from pullback.lazy.host_data import asarray
from pullback.lazy.record import record_at_one_line
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_squared
from pullback.optim.chaining import ChainRule
from pullback.optim.parameter_trees import cast_tree_parameter, parameter_tree_dtype
from pullback.optim.rules import OptimizerRule

Grads = TypeVar("Grads")


@dataclass(frozen=True)
class NormLimit:
    """The function that `clip_by_global_norm` applies to the gradients of a rule."""

    max_norm: float | Tensor

    def __call__(self, grads: Any) -> Any:
        return clip_by_global_norm(grads, self.max_norm)


@dataclass(frozen=True)
class ValueLimit:
    """The function that `clip_by_value` applies to the gradients of a rule."""

    limit: float | Tensor

    def __call__(self, grads: Any) -> Any:
        return clip_by_value(grads, self.limit)


@with_argument_checks
def global_norm(grads: object) -> Tensor:
    """Return the norm of all elements of a tree, as if they were one vector.

    sqrt(sum |g|^2). Half precision is summed in f32. Leaves that are no float or complex tensors
    count for nothing.

    >>> pb.optim.global_norm({"w": pb.tensor([3.0]), "b": pb.tensor([4.0]), "n": None}).item()
    5.0
    """
    parts = [x for x in tree.leaves(grads) if isinstance(x, Tensor) and x.dtype.is_inexact]
    if not parts:
        return asarray(0.0)
    total: Any = 0.0
    for g in parts:
        total = adam_squared(cast_tree_parameter(g, parameter_tree_dtype(g.dtype))).sum() + total
    return total.sqrt()


@overload
def clip_by_global_norm(grads: OptimizerRule, max_norm: float | Tensor) -> ChainRule: ...
@overload
def clip_by_global_norm(grads: Grads, max_norm: float | Tensor) -> Grads: ...
@with_argument_checks
def clip_by_global_norm(grads: Any, max_norm: float | Tensor) -> Any:
    """Scale a tree of gradients so that its global norm is at most `max_norm`.

    g * min(1, max_norm / global_norm(grads)), for every gradient g. Given a rule, return the rule
    that does this to its gradients.

    >>> pb.optim.clip_by_global_norm([pb.tensor([3.0, 4.0])], 2.5)[0].tolist()
    [1.5, 2.0]
    >>> opt = pb.optim.clip_by_global_norm(pb.optim.sgd(1.0), 2.5)
    >>> w = pb.tensor([3.0, 4.0])
    >>> opt.update(w, opt.init(w), w)[0].tolist()
    [1.5, 2.0]
    """
    _check_clip_limit("clip_by_global_norm", max_norm, "max_norm")
    if isinstance(grads, OptimizerRule):
        return ChainRule((NormLimit(max_norm),), grads)
    with record_at_one_line():
        norm = global_norm(grads)
        scale = where(norm > max_norm, max_norm / norm, 1.0)
        return tree.map(
            lambda g: (
                g * cast_tree_parameter(scale, g.dtype.real) if _is_clipped_gradient(g) else g
            ),
            grads,
        )


@overload
def clip_by_value(grads: OptimizerRule, limit: float | Tensor) -> ChainRule: ...
@overload
def clip_by_value(grads: Grads, limit: float | Tensor) -> Grads: ...
@with_argument_checks
def clip_by_value(grads: Any, limit: float | Tensor) -> Any:
    """Limit each element of a tree of gradients to the range from `-limit` to `limit`.

    Given a rule, return the rule that does this to its gradients.

    >>> pb.optim.clip_by_value({"w": pb.tensor([-3.0, 0.5])}, 1.0)["w"].tolist()
    [-1.0, 0.5]
    """
    _check_clip_limit("clip_by_value", limit, "limit")
    if isinstance(grads, OptimizerRule):
        return ChainRule((ValueLimit(limit),), grads)
    with record_at_one_line():
        return tree.map(lambda g: _clipped(g, limit) if _is_clipped_gradient(g) else g, grads)


def _clipped(g: Tensor, limit: Any) -> Tensor:
    if g.dtype.is_complex:
        hint = "Write pb.optim.clip_by_global_norm(grads, max_norm)."
        message = f"clip_by_value: gradients must be real, got {g._node.type}"
        raise DTypeError(message, hint=hint)
    return cast_tree_parameter(g.clip(-limit, limit), g.dtype)


def _is_clipped_gradient(g: Any) -> bool:
    return isinstance(g, Tensor) and g.dtype.is_inexact


def _check_clip_limit(op: str, value: Any, what: str) -> None:
    if isinstance(value, (int, float)) and not value > 0:
        raise ArgumentError(f"{what} must be above 0, got {shown_argument(value)}", op=op)
