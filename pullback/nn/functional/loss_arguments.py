"""Arguments and reductions of losses."""

from __future__ import annotations

from pullback import functions as pf
from pullback.errors import DTypeError, IndexOutOfRange, ShapeError
from pullback.functions.arguments import float_arguments, literal_argument
from pullback.graph.dtypes import int64
from pullback.lazy.index_plan import index_plan_integers
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.arguments import functional_choice_argument, functional_float_argument
from pullback.ops.index.checked_index import CheckedIndex
from pullback.typing import ArrayLike


def reduced_loss(x: Tensor, reduction: str) -> Tensor:
    """The mean or sum of a loss, or all of its elements."""
    functional_choice_argument(reduction, ("none", "mean", "sum"), "reduction")
    if reduction == "none":
        return x
    return pf.mean(x) if reduction == "mean" else pf.sum(x)


def loss_class_indices(
    given: ArrayLike, count: int, what: str = "a class index", ignored: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Indices (i64) from 0 to `count` - 1, and a mask of those that equal `ignored`, which are
    replaced by 0. Known indices are checked at once, others when the program runs."""
    x = as_tensor(given)
    if not x.dtype.is_integer:
        if x.size:
            raise DTypeError(f"{what} must be an integer, got {x._node.type}")
        x = x.astype(int64)
    values = index_plan_integers(given)
    if values is not None:
        wrong = (values < 0) | (values >= count)
        wrong = values[wrong if ignored is None else wrong & (values != ignored)]
        if wrong.size:
            message = f"{what} must be at least 0 and less than {count}, got {wrong.flat[0]}"
            raise IndexOutOfRange(message, index=int(wrong.flat[0]), extent=count)
    x = x if x.dtype is int64 else x.astype(int64)
    skipped = None
    if ignored is not None:
        skipped = x == ignored
        x = pf.where(skipped, literal_argument(0, int64), x)
    return record(CheckedIndex(count), (node_of(x),)), skipped


def loss_operands(x: ArrayLike, *others: ArrayLike) -> list[Tensor]:
    """Floats of one shape and dtype. Shapes are not broadcast: a loss of [N, 1] with [N] would
    silently be one of [N, N]."""
    made = [wrap(n) for n in float_arguments(x, *others)]
    if any(t.shape != made[0].shape for t in made):
        given = ", ".join(str(t._node.type) for t in made)
        hint = "Give them the same shape with reshape or pb.broadcast_to."
        raise ShapeError(f"the arguments must have the same shape, got {given}", hint=hint)
    return made


def real_loss_argument(v: ArrayLike, x: Tensor, what: str) -> Tensor:
    """Real numbers in the dtype of x."""
    found = functional_float_argument(v)
    if found.dtype.is_complex and not x.dtype.is_complex:
        raise DTypeError(f"{what} must be real, got {found._node.type}")
    return found.astype(x.dtype)


def weighted_loss(loss: Tensor, weight: ArrayLike | None) -> Tensor:
    """A loss times a weight that broadcasts with it."""
    if weight is None:
        return loss
    made = loss * real_loss_argument(weight, loss, "weight")
    if made.shape != loss.shape:
        raise ShapeError(f"weight must broadcast to {list(loss.shape)}, got {list(made.shape)}")
    return made
