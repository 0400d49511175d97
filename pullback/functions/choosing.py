"""Choosing between several tensors or functions, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    literal_argument,
    operator_operands,
    tensor_sequence_argument,
)
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.reductions import any as any_of
from pullback.functions.shape import broadcast_arrays, spread_to_shape
from pullback.functions.stacking import stack
from pullback.functions.take_modes import index_in_mode
from pullback.functions.where_take import where
from pullback.graph.argument_checks import checked_sequence_argument
from pullback.graph.dtypes import bool_
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike


@composed
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Tensor:
    """Return the elements of the first choice whose condition is true, or `default`.

    >>> x = pb.arange(5)
    >>> pb.select([x < 2, x > 3], [x, x * 10], 7).tolist()
    [0, 1, 7, 7, 40]
    """
    conditions = tensor_sequence_argument("select", condlist, "condlist")
    if isinstance(choicelist, (list, tuple)):  # numbers take the dtype of the others
        tensor_sequence_argument("select", choicelist, "choicelist")
        choices = list(choicelist)
    else:
        choices = tensor_sequence_argument("select", choicelist, "choicelist")
    if len(conditions) != len(choices) or not choices:
        got = f"{len(conditions)} and {len(choices)}"
        message = f"needs as many conditions as choices, at least one, got {got}"
        raise ArgumentError(message, op="select")
    *options, result = map(wrap, operator_operands(*choices, default))
    for i, condition in reversed(list(enumerate(conditions))):
        if condition.dtype is not bool_:
            message = f"condlist must have bools, condition {i} is {condition._node.type}"
            raise ArgumentError(message, op="select")
        result = where(condition, options[i], result)
    return result


@composed
def choose(
    x: ArrayLike, choices: Sequence[ArrayLike] | Tensor,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> Tensor:  # fmt: skip
    """Return, for each index in `x`, the element at its position of the choice with that number.

    A number out of range is an error, or is counted modulo their number ("wrap") or clipped.

    >>> pb.choose([2, 0, 1], [[1, 2, 3], [10, 20, 30], [100, 200, 300]]).tolist()
    [100, 2, 30]
    """
    options = tensor_sequence_argument("choose", choices, "choices")
    if not options:
        raise ArgumentError("choices must contain at least one tensor", op="choose")
    number = index_in_mode("choose", x, len(options), mode)
    number, *options = broadcast_arrays(number, *map(wrap, operator_operands(*options)))
    return take_along_axis(stack(options), number[None], axis=0)[0]


def piecewise(
    x: ArrayLike, condlist: Sequence[ArrayLike] | ArrayLike,
    funclist: Sequence[Callable[..., Any] | ArrayLike], *args: Any, **kw: Any,
) -> Tensor:  # fmt: skip
    """Return the values of the function whose condition is true, 0 where there is none.

    A function may be a number. One more function than conditions is used where no condition holds;
    where several hold, the last counts. Each function is applied to all of `x`, so it must work
    element by element; what is not chosen gets no gradient.

    >>> x = pb.tensor([-2.0, 1.0, 3.0])
    >>> pb.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * v]).tolist()
    [2.0, 1.0, 9.0]
    """
    x = as_tensor(x)
    masks = _choosing_conditions(x, condlist)
    functions = list(checked_sequence_argument("piecewise", funclist, "funclist"))
    if len(functions) == len(masks) + 1:
        masks.append(~any_of(stack(masks), axis=0))
    if len(functions) != len(masks):
        got = f"{len(masks)} conditions and {len(functions)} functions"
        message = f"needs one function for each condition, and perhaps one more, got {got}"
        raise ArgumentError(message, op="piecewise")
    result = spread_to_shape(literal_argument(0, x.dtype), x.shape)
    for mask, f in zip(masks, functions):
        value = f(x, *args, **kw) if callable(f) else f
        result = where(mask, astype(value, x.dtype), result)
    return result


def _choosing_conditions(x: Tensor, condlist: Any) -> list[Tensor]:
    """The conditions as bools; a single one need not be in a list."""
    items = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    single = items and not isinstance(items[0], (list, tuple)) and not as_tensor(items[0]).ndim
    if not isinstance(condlist, (list, tuple)) and as_tensor(condlist).ndim > x.ndim:
        items = list(as_tensor(condlist))
    elif single and x.ndim:
        items = [items]
    masks = [astype(mask, bool_) for mask in items]
    if any(mask.shape != x.shape for mask in masks):
        shapes = [list(mask.shape) for mask in masks]
        message = f"condlist must have masks of the shape {list(x.shape)}, got {shapes}"
        raise ShapeError(message, op="piecewise")
    return masks


__all__ = ["choose", "piecewise", "select"]
