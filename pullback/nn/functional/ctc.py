"""Connectionist temporal classification (Graves et al., 2006).

The labels of a sequence, with a blank before, between and after them, are the states of a chain.
The loss is the probability of all paths through the chain, which is summed forward in time, in
logarithms, one `scan` step for each frame.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import functions as pf
from pullback.api.loops import scan
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, literal_argument
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import int64
from pullback.lazy.index_plan import index_plan_integers
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    Reduction,
    functional_float_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.loss_arguments import loss_class_indices, reduced_loss
from pullback.typing import ArrayLike


@composed
def ctc_loss(
    log_probs: ArrayLike, targets: ArrayLike, input_lengths: ArrayLike, target_lengths: ArrayLike,
    blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Return -log of the probability that frames spell the targets, with repeats and blanks.

    `log_probs` are logarithms of probabilities [T, N, C], or [T, C] for one sequence. `targets`
    are class indices [N, S], of which the first `target_lengths` [N] count, or those of all
    sequences in one vector, if the lengths are no tensor. The first `input_lengths` [N] frames
    count. "mean" divides each loss by the number of its targets before the mean is taken.
    Targets that do not fit into their frames have an infinite loss, or 0 and no gradient with
    `zero_infinity`.

    >>> log_probs = pb.log(pb.full((3, 1, 2), 0.5))
    >>> pb.nn.functional.ctc_loss(log_probs, [[1]], [3], [1], reduction="sum").exp().item()
    1.3333...
    """
    a = functional_float_argument(log_probs)
    if a.ndim not in (2, 3):
        raise ShapeError(f"log_probs must be [T, N, C] or [T, C], got {a._node.type}")
    single = a.ndim == 2
    frames = widened_functional_argument(pf.expand_dims(a, 1) if single else a)
    steps, count, classes = frames.shape
    empty = checked_integer_argument("", blank, "blank")
    if not 0 <= empty < classes:
        raise ArgumentError(f"blank must be a class index below {classes}, got {empty}")
    labels, sizes = _ctc_labels(targets, target_lengths, count, classes, single)
    spans = _ctc_lengths(input_lengths, count, steps, "input_lengths")
    loss = _ctc_negative_log(frames, labels, spans, sizes, empty)
    if zero_infinity:
        loss = pf.where(loss == math.inf, literal_argument(0, loss.dtype), loss)
    if reduction == "mean":
        loss = loss / pf.clip(sizes, 1, None).astype(loss.dtype)
    loss = pf.squeeze(loss, 0) if single else loss
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


def _ctc_lengths(given: ArrayLike, count: int, most: int, what: str) -> Tensor:
    """Lengths [N] from 0 to `most`."""
    found, _ = loss_class_indices(given, most + 1, what)
    if found.size != count or found.ndim > 1:
        raise ShapeError(f"{what} must be [{count}], got {found._node.type}")
    return pf.reshape(found, (count,))


def _ctc_labels(
    targets: ArrayLike, lengths: ArrayLike, count: int, classes: int, single: bool
) -> tuple[Tensor, Tensor]:
    """Labels [N, S] and their numbers [N]."""
    labels: Any = targets
    given = as_tensor(targets)
    if given.ndim == 1 and not single:
        labels = _ctc_rows(targets, lengths, count)
        given = as_tensor(labels)
    elif single and given.ndim == 1:
        labels = given = pf.expand_dims(given, 0)
    if given.ndim != 2 or given.shape[0] != count:
        raise ShapeError(f"targets must be [{count}, S], got {given._node.type}")
    sizes = _ctc_lengths(lengths, count, given.shape[1], "target_lengths")
    within = pf.arange(given.shape[1]) < pf.expand_dims(sizes, -1)
    found, _ = loss_class_indices(pf.where(within, given, 0), classes, "a target")
    return found, sizes


def _ctc_rows(targets: ArrayLike, lengths: ArrayLike, count: int) -> Tensor:
    """Targets of all sequences, one after the other, as rows [N, S]."""
    sizes = index_plan_integers(lengths)
    if sizes is None:
        hint = "Pass the lengths as a list or NumPy array, or targets [N, S]."
        raise ArgumentError(
            f"target_lengths must be known to split targets, got {shown_argument(lengths)}",
            hint=hint,
        )
    flat = as_tensor(targets)
    sizes = sizes.reshape(-1)
    if sizes.shape != (count,) or sizes.sum() != flat.size or (sizes < 0).any():
        message = f"target_lengths must be {count} numbers with the sum {flat.size}"
        raise ShapeError(f"{message}, got {sizes.tolist()}")
    ends = np.cumsum(sizes)
    places = (ends - sizes)[:, None] + np.arange(max(int(sizes.max(initial=0)), 0))
    if not flat.size:
        return pf.zeros(places.shape, int64)
    return pf.take(flat, np.minimum(places, flat.size - 1))


def _ctc_negative_log(
    frames: Tensor, labels: Tensor, spans: Tensor, sizes: Tensor, blank: int
) -> Tensor:
    """The loss of each sequence."""
    count = labels.shape[0]
    never = literal_argument(-math.inf, frames.dtype)
    chain = _ctc_chain(labels, blank)
    states = chain.shape[1]
    before = pf.pad(chain, ((0, 0), (2, 0)), constant_values=blank)[:, :states]
    skips = (chain != blank) & (chain != before)
    emitted = pf.take_along_axis(frames, pf.expand_dims(chain, 0), -1)

    def shifted(x: Tensor, by: int) -> Tensor:
        lead = pf.full((count, by), -math.inf, x.dtype)
        return pf.concat([lead, x[:, : states - by]], axis=1) if states > by else lead[:, :states]

    def step(state: Tensor, row: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        time, scores = row
        jumped = pf.where(skips, shifted(state, 2), never)
        new = ctc_log_sum(state, shifted(state, 1), jumped) + scores
        return pf.where(pf.expand_dims(time < spans, -1), new, state), None

    # Before the first frame, a path is in a state from which the first blank is next
    start = pf.where(pf.arange(states) == 0, literal_argument(0, frames.dtype), never)
    start = pf.broadcast_to(start, (count, states))
    if frames.shape[0]:
        first = pf.where(pf.arange(states) < 2, emitted[0], never)
        start = pf.where(pf.expand_dims(spans > 0, -1), first, start)
        rest = (pf.arange(1, frames.shape[0]), emitted[1:])
        start, _ = scan(step, start, rest)
    ends = [pf.expand_dims(2 * sizes, -1), pf.expand_dims(pf.clip(2 * sizes - 1, 0, None), -1)]
    last, label = (pf.squeeze(pf.take_along_axis(start, e, 1), 1) for e in ends)
    return -ctc_log_sum(last, pf.where(sizes > 0, label, never))


def _ctc_chain(labels: Tensor, blank: int) -> Tensor:
    """Labels [N, S] with blanks between them: [N, 2 S + 1]."""
    count, most = labels.shape
    blanks = pf.full((count, most + 1, 1), blank, int64)
    pairs = pf.concat([blanks[:, :most], pf.expand_dims(labels, -1)], axis=-1)
    return pf.concat([pf.reshape(pairs, (count, 2 * most)), blanks[:, most]], axis=1)


def ctc_log_sum(*xs: Tensor) -> Tensor:
    """The logarithm of a sum of exponentials; -inf, without a gradient, where all are."""
    top = xs[0]
    for x in xs[1:]:
        top = pf.maximum(top, x)
    never = top == -math.inf
    top = pf.where(never, literal_argument(0, top.dtype), top).detach()
    total = pf.exp(xs[0] - top)
    for x in xs[1:]:
        total = total + pf.exp(x - top)
    return pf.where(
        never, literal_argument(-math.inf, top.dtype), pf.log(pf.where(never, 1, total)) + top
    )


__all__ = ["ctc_loss"]
