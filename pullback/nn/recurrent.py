"""Recurrent layers over sequences: RNN, GRU and LSTM.

Parameters have the names and the order of gates that PyTorch gives them: `weight_ih_l0`,
`weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0` for the first layer, with `_reverse` for the other
direction. Each direction of each layer is one scan, so a program holds a step once for any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pullback import functions as pf
from pullback.api.loops import scan
from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.functional.arguments import functional_choice_argument, functional_float_argument
from pullback.nn.initial import initial_parameter
from pullback.nn.keys import layer_keys
from pullback.nn.layer_arguments import check_layer_rank, positive_layer_argument
from pullback.nn.module import Module
from pullback.nn.recurrent_steps import KINDS, StepWeights
from pullback.random.continuous import uniform
from pullback.random.keys import split
from pullback.typing import ArrayLike, DTypeLike

RecurrentState = tuple[Tensor, ...]


class RecurrentLayer(Module):
    """The base class of `RNN`, `GRU` and `LSTM`."""

    kind: ClassVar[str]

    def _set_sizes(
        self, input_size: int, hidden_size: int, num_layers: int, dropout: float,
        flags: tuple[bool, bool, bool], proj_size: int = 0,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.input_size = positive_layer_argument(name, input_size, "input_size")
        self.hidden_size = positive_layer_argument(name, hidden_size, "hidden_size")
        self.num_layers = positive_layer_argument(name, num_layers, "num_layers")
        self.has_bias, self.batch_first, self.bidirectional = map(bool, flags)
        if not 0 <= dropout <= 1:
            message = f"dropout must be a probability, from 0 to 1, got {dropout}"
            raise ArgumentError(message, op=name)
        self.dropout, self.proj_size = float(dropout), proj_size

    def _set_parameters(self, key: ArrayLike | None, dtype: DTypeLike | None) -> None:
        bound, rows = self.hidden_size**-0.5, KINDS[self._kind()].gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {}
        width = self._width()
        for layer in range(self.num_layers):
            columns = self.input_size if layer == 0 else width * (1 + self.bidirectional)
            for suffix in self._suffixes(layer):
                shapes[f"weight_ih{suffix}"] = (rows, columns)
                shapes[f"weight_hh{suffix}"] = (rows, width)
                if self.has_bias:
                    shapes[f"bias_ih{suffix}"] = shapes[f"bias_hh{suffix}"] = (rows,)
                if self.proj_size:
                    shapes[f"weight_hr{suffix}"] = (width, self.hidden_size)
        keys = layer_keys(key, len(shapes))
        for one, (name, shape) in zip(keys, shapes.items(), strict=True):
            setattr(self, name, initial_parameter(uniform, one, shape, dtype, -bound, bound))

    def _kind(self) -> str:
        return self.kind

    def _width(self) -> int:
        """The size of the output of a direction."""
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 1 + self.bidirectional]

    def _run(
        self, x: ArrayLike, state: Sequence[ArrayLike] | None, key: ArrayLike | None
    ) -> tuple[Tensor, RecurrentState]:
        """Return the outputs and the last states of all layers and directions."""
        name = type(self).__name__
        a = functional_float_argument(x)
        check_layer_rank(
            name, a, (2, 3), "[N, T, C] or [T, C]" if self.batch_first else "[T, N, C] or [T, C]"
        )
        if a.shape[-1] != self.input_size:
            got = f"got {a._node.type}"
            raise ShapeError(
                f"the last dimension must be input_size={self.input_size}, {got}", op=name
            )
        single = a.ndim == 2
        rows = pf.expand_dims(a, 1) if single else pf.swapaxes(a, 0, 1) if self.batch_first else a
        starts = self._first_states(state, rows, single)
        outputs, ends = self._run_layers(rows, starts, key)
        if single:
            return pf.squeeze(outputs, 1), tuple([pf.squeeze(s, 1) for s in ends])
        return (pf.swapaxes(outputs, 0, 1) if self.batch_first else outputs), ends

    def _first_states(
        self, given: Sequence[ArrayLike] | None, rows: Tensor, single: bool
    ) -> RecurrentState:
        """Return the states to begin with, [layers * directions, N, size] each."""
        count, examples = self.num_layers * (1 + self.bidirectional), rows.shape[1]
        sizes = [self._width(), self.hidden_size][: KINDS[self._kind()].states]
        dtype = pf.result_type(rows.dtype, self.weight_hh_l0.dtype)
        if given is None:
            return tuple([pf.zeros((count, examples, n), dtype) for n in sizes])
        made = []
        for value, n in zip(given, sizes, strict=True):
            start = as_tensor(value)
            start = pf.expand_dims(start, 1) if single and start.ndim == 2 else start
            if start.shape != (count, examples, n):
                must = [count, n] if single else [count, examples, n]
                message = f"a state must be {must}, got {as_tensor(value)._node.type}"
                raise ShapeError(message, op=type(self).__name__)
            made.append(start.astype(dtype))
        return tuple(made)

    weight_hh_l0: Tensor

    def _run_layers(
        self, x: Tensor, starts: RecurrentState, key: ArrayLike | None
    ) -> tuple[Tensor, RecurrentState]:
        ends: list[RecurrentState] = []
        drops = self.training and self.dropout > 0 and self.num_layers > 1
        keys = list(split(key, self.num_layers - 1)) if drops and key is not None else None
        for layer in range(self.num_layers):
            if layer and drops:
                x = F.dropout(x, self.dropout, key=None if keys is None else keys[layer - 1])
            outputs = []
            for suffix in self._suffixes(layer):
                start = tuple([s[len(ends)] for s in starts])
                y, end = self._run_direction(x, start, suffix)
                outputs.append(y)
                ends.append(end)
            x = pf.concat(outputs, axis=-1) if self.bidirectional else outputs[0]
        return x, tuple([pf.stack(list(parts)) for parts in zip(*ends)])

    def _run_direction(
        self, x: Tensor, start: RecurrentState, suffix: str
    ) -> tuple[Tensor, RecurrentState]:
        own = self.__dict__
        weights = StepWeights(
            own[f"weight_hh{suffix}"], own.get(f"bias_hh{suffix}"), own.get(f"weight_hr{suffix}")
        )
        step = KINDS[self._kind()].step
        inputs = F.linear(x, own[f"weight_ih{suffix}"], own.get(f"bias_ih{suffix}"))

        def advance(state: Any, row: Any) -> tuple[Any, Any]:
            new = step(row, state, weights)
            return new, new[0]

        end, outputs = scan(advance, start, inputs, reverse=suffix.endswith("_reverse"))
        return outputs, end


@boundary_methods
class RNN(RecurrentLayer):
    """`h = tanh(W_ih @ x + b_ih + W_hh @ h + b_hh)` along sequences, in one or more layers.

    A call `layer(x, h)` takes sequences [T, N, input_size], [N, T, input_size] with `batch_first`,
    or a single one [T, input_size], and the states to begin with [layers * directions, N,
    hidden_size], zeros by default. It returns the outputs [T, N, directions * hidden_size] of the
    last layer, and the last states. `dropout` applies to the outputs of all layers but the last,
    with keys as in `Dropout`. Parameters are drawn uniformly from -1/sqrt(hidden_size) to
    1/sqrt(hidden_size).

    >>> y, h = pb.nn.RNN(3, 4, num_layers=2)(pb.ones((5, 2, 3)))
    >>> y.shape, h.shape
    ((5, 2, 4), (2, 2, 4))
    """

    kind: ClassVar[str] = ""

    @with_argument_checks
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, *,
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.nonlinearity = functional_choice_argument(
            nonlinearity, ("tanh", "relu"), "nonlinearity"
        )
        flags = bias, batch_first, bidirectional
        self._set_sizes(input_size, hidden_size, num_layers, dropout, flags)
        self._set_parameters(key, dtype)

    def _kind(self) -> str:
        return self.nonlinearity

    def forward(
        self, x: ArrayLike, h: ArrayLike | None = None, *, key: ArrayLike | None = None
    ) -> tuple[Tensor, Tensor]:
        y, (end,) = self._run(x, None if h is None else (h,), key)
        return y, end


@boundary_methods
class GRU(RecurrentLayer):
    """A gated recurrent unit along sequences, in one or more layers; calls as those of `RNN`.

    >>> y, h = pb.nn.GRU(3, 4, bidirectional=True, batch_first=True)(pb.ones((2, 5, 3)))
    >>> y.shape, h.shape
    ((2, 5, 8), (2, 2, 4))
    """

    kind: ClassVar[str] = "gru"

    @with_argument_checks
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, *,
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        flags = bias, batch_first, bidirectional
        self._set_sizes(input_size, hidden_size, num_layers, dropout, flags)
        self._set_parameters(key, dtype)

    def forward(
        self, x: ArrayLike, h: ArrayLike | None = None, *, key: ArrayLike | None = None
    ) -> tuple[Tensor, Tensor]:
        y, (end,) = self._run(x, None if h is None else (h,), key)
        return y, end


@boundary_methods
class LSTM(RecurrentLayer):
    """A long short-term memory along sequences, in one or more layers; calls as those of `RNN`.

    The state is a pair (h, c). With `proj_size`, h and the outputs are projected to that size.

    >>> y, (h, c) = pb.nn.LSTM(3, 4, proj_size=2)(pb.ones((5, 2, 3)))
    >>> y.shape, h.shape, c.shape
    ((5, 2, 2), (1, 2, 2), (1, 2, 4))
    """

    kind: ClassVar[str] = "lstm"

    @with_argument_checks
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, *, key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        flags = bias, batch_first, bidirectional
        if not 0 <= proj_size < hidden_size:
            message = f"proj_size must be less than hidden_size={hidden_size}, got {proj_size}"
            raise ArgumentError(message, op="LSTM")
        self._set_sizes(input_size, hidden_size, num_layers, dropout, flags, proj_size)
        self._set_parameters(key, dtype)

    def forward(
        self, x: ArrayLike, state: tuple[ArrayLike, ArrayLike] | None = None, *,
        key: ArrayLike | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:  # fmt: skip
        if state is not None and (not isinstance(state, (tuple, list)) or len(state) != 2):
            message = f"the state must be a pair (h, c), got {type(state).__name__}"
            raise ArgumentError(message, op="LSTM")
        y, (h, c) = self._run(x, state, key)
        return y, (h, c)


__all__ = ["GRU", "LSTM", "RNN"]
