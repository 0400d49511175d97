"""Recurrent cells: one step of an RNN, a GRU or an LSTM, for loops that users write."""

from __future__ import annotations

from typing import Literal

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.functional.arguments import functional_choice_argument, functional_float_argument
from pullback.nn.initial import initial_parameter
from pullback.nn.keys import layer_keys
from pullback.nn.layer_arguments import positive_layer_argument
from pullback.nn.module import Module
from pullback.nn.recurrent_steps import KINDS, StepWeights
from pullback.random.continuous import uniform
from pullback.typing import ArrayLike, DTypeLike


class RecurrentCell(Module):
    """The base class of `RNNCell`, `GRUCell` and `LSTMCell`."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def _set_parameters(
        self, kind: str, sizes: tuple[int, int], bias: bool, key: ArrayLike | None,
        dtype: DTypeLike | None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.input_size = positive_layer_argument(name, sizes[0], "input_size")
        self.hidden_size = n = positive_layer_argument(name, sizes[1], "hidden_size")
        rows, bound = KINDS[kind].gates * n, n**-0.5
        names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        shapes = [(rows, self.input_size), (rows, n), *([(rows,), (rows,)] if bias else [])]
        self.bias_ih = self.bias_hh = None
        for own, shape, one in zip(names, shapes, layer_keys(key, 4)):
            setattr(self, own, initial_parameter(uniform, one, shape, dtype, -bound, bound))

    def _step(
        self, kind: str, x: ArrayLike, state: tuple[ArrayLike, ...] | None
    ) -> tuple[Tensor, ...]:
        """Return the state after an input [N, input_size] or [input_size]."""
        a, name = functional_float_argument(x), type(self).__name__
        if a.ndim not in (1, 2) or a.shape[-1] != self.input_size:
            wanted = f"[N, {self.input_size}] or [{self.input_size}]"
            raise ShapeError(f"needs {wanted}, got {a._node.type}", op=name)
        shape, dtype = (
            (*a.shape[:-1], self.hidden_size),
            pf.result_type(a.dtype, self.weight_hh.dtype),
        )
        old = (pf.zeros(shape, dtype),) * KINDS[kind].states if state is None else state
        made = tuple([as_tensor(s) for s in old])
        for s in made:
            if s.shape != shape:
                raise ShapeError(f"a state must be {list(shape)}, got {s._node.type}", op=name)
        inputs = F.linear(a, self.weight_ih, self.bias_ih)
        return KINDS[kind].step(inputs, made, StepWeights(self.weight_hh, self.bias_hh, None))


@boundary_methods
class RNNCell(RecurrentCell):
    """One step of an `RNN`: `cell(x, h)` returns the new h; h is zeros by default.

    >>> pb.nn.RNNCell(3, 4)(pb.ones((2, 3))).shape
    (2, 4)
    """

    @with_argument_checks
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh", *, key: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.nonlinearity = functional_choice_argument(
            nonlinearity, ("tanh", "relu"), "nonlinearity"
        )
        self._set_parameters(self.nonlinearity, (input_size, hidden_size), bias, key, dtype)

    def forward(self, x: ArrayLike, h: ArrayLike | None = None) -> Tensor:
        return self._step(self.nonlinearity, x, None if h is None else (h,))[0]


@boundary_methods
class GRUCell(RecurrentCell):
    """One step of a `GRU`: `cell(x, h)` returns the new h; h is zeros by default.

    >>> pb.nn.GRUCell(3, 4)(pb.ones((2, 3))).shape
    (2, 4)
    """

    @with_argument_checks
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *,
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self._set_parameters("gru", (input_size, hidden_size), bias, key, dtype)

    def forward(self, x: ArrayLike, h: ArrayLike | None = None) -> Tensor:
        return self._step("gru", x, None if h is None else (h,))[0]


@boundary_methods
class LSTMCell(RecurrentCell):
    """One step of an `LSTM`: `cell(x, (h, c))` returns the new pair; both are zeros by default.

    >>> h, c = pb.nn.LSTMCell(3, 4)(pb.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    @with_argument_checks
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *,
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self._set_parameters("lstm", (input_size, hidden_size), bias, key, dtype)

    def forward(
        self, x: ArrayLike, state: tuple[ArrayLike, ArrayLike] | None = None
    ) -> tuple[Tensor, Tensor]:
        if state is not None and (not isinstance(state, (tuple, list)) or len(state) != 2):
            message = f"the state must be a pair (h, c), got {type(state).__name__}"
            raise ArgumentError(message, op="LSTMCell")
        h, c = self._step("lstm", x, state)
        return h, c


__all__ = ["GRUCell", "LSTMCell", "RNNCell"]
