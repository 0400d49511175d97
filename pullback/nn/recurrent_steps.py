"""The steps of recurrent layers: from the products of an input and the old state to the new state.

Gates have PyTorch's order, so that its weights fit: input, forget, cell, output in an LSTM; reset,
update, new in a GRU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pullback import functions as pf
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F

# From the products with an input, the state and the weights to the new state
Step = Callable[[Tensor, tuple[Tensor, ...], "StepWeights"], tuple[Tensor, ...]]


class StepWeights(NamedTuple):
    """The weights that a step multiplies the state by."""

    hidden: Tensor  # weight_hh
    bias: Tensor | None  # bias_hh
    projection: Tensor | None  # weight_hr


class RecurrentStepKind(NamedTuple):
    """A kind of recurrent layer."""

    step: Step
    gates: int  # how many blocks of `hidden_size` rows the weights have
    states: int  # how many tensors the state consists of; the first is the output


def _plain_recurrent_step(activation: Callable[[Tensor], Tensor]) -> Step:
    def step(inputs: Tensor, state: tuple[Tensor, ...], w: StepWeights) -> tuple[Tensor, ...]:
        return (activation(inputs + F.linear(state[0], w.hidden, w.bias)),)

    return step


def _gru_step(inputs: Tensor, state: tuple[Tensor, ...], w: StepWeights) -> tuple[Tensor, ...]:
    (h,) = state
    reset_x, update_x, new_x = pf.split(inputs, 3, axis=-1)
    reset_h, update_h, new_h = pf.split(F.linear(h, w.hidden, w.bias), 3, axis=-1)
    reset, update = pf.sigmoid(reset_x + reset_h), pf.sigmoid(update_x + update_h)
    new = pf.tanh(new_x + reset * new_h)
    return ((1 - update) * new + update * h,)


def _lstm_step(inputs: Tensor, state: tuple[Tensor, ...], w: StepWeights) -> tuple[Tensor, ...]:
    h, c = state
    into, forget, cell, out = pf.split(inputs + F.linear(h, w.hidden, w.bias), 4, axis=-1)
    c = pf.sigmoid(forget) * c + pf.sigmoid(into) * pf.tanh(cell)
    h = pf.sigmoid(out) * pf.tanh(c)
    return h if w.projection is None else F.linear(h, w.projection), c


KINDS: Mapping[str, RecurrentStepKind] = {
    "tanh": RecurrentStepKind(_plain_recurrent_step(pf.tanh), 1, 1),
    "relu": RecurrentStepKind(_plain_recurrent_step(pf.relu), 1, 1),
    "gru": RecurrentStepKind(_gru_step, 3, 1),
    "lstm": RecurrentStepKind(_lstm_step, 4, 2),
}
