"""Samplers that draw in rounds until every element has its number.

Each round draws from its own streams, so an element's number does not depend on the other elements.
Stream 0 is for what all elements need once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import float64, int32, int64, uint32
from pullback.graph.types import show_types
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.parts import Begin
from pullback.ops.prelude import Node, Op, Type, batch_along
from pullback.ops.random.bits import join_random_bits
from pullback.ops.random.per_key import beginning_per_key, per_key_rule
from pullback.ops.random.sampler_formulas import sampler_ends_formula, sampler_minus_log_formula
from pullback.ops.random.stepwise import lifted_stepwise
from pullback.ops.random.threefry import (
    check_threefry_key,
    check_threefry_part,
    check_threefry_size,
    hlo_threefry_blocks,
    numpy_threefry_blocks,
)

State = tuple[Any, ...]  # the last element tells which numbers are final
Blocks = Callable[[Any], tuple[Any, Any]]  # two random words for each element, from a stream


class RejectionSampler(Op, abstract=True):
    """Samples for each key u32[..., 2] and each element of parameters [..., *shape]."""

    whole: tuple[int, ...] = ()  # the shape of which a part is drawn, as in PerKey
    distribution_parameters: ClassVar[int] = 1
    kinds = "f"
    batch = batch_along

    def result(self, parameter: Type) -> Type:
        """Return the type of the samples."""
        return parameter

    @abstractmethod
    def numpy_draw(self, blocks: Blocks, *parameters: np.ndarray) -> np.ndarray:
        """Return the samples in NumPy."""

    @abstractmethod
    def hlo_draw(self, b: Any, out: Type, blocks: Blocks, *parameters: Any) -> Any:
        """Return the samples as StableHLO."""

    def _split(self, operands: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the parameters, and the start of a part."""
        count = self.distribution_parameters
        return operands[:count], operands[count:]

    def infer(self, key: Type, *operands: Type) -> Type:
        given, begin = self._split(operands)
        check_threefry_key(key)
        check_threefry_part(key, begin, self.whole)
        if self.kinds:
            check_elementwise_kind(given[0].dtype, self.kinds)
        outer = key.rank - 1
        check_threefry_size(self.whole or given[0].shape[outer:])
        if given[0].shape[:outer] != key.shape[:-1] or len(set(given)) > 1:
            what = (
                "parameters must be alike, with shapes for each key, "
                f"got {key}, {show_types(given)}"
            )
            raise ShapeError(what)
        return self.result(given[0])

    def numpy(self, key: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        given, begin = self._split(operands)
        shape = given[0].shape[key.ndim - 1 :]

        def blocks(stream: int) -> tuple[Any, Any]:
            return numpy_threefry_blocks(key, shape, stream, self.whole, *begin)

        return self.numpy_draw(blocks, *given)

    def hlo(self, b: Any, out: Type, key: Any, *operands: Any) -> Any:
        given, begin = self._split(operands)
        shape = out.shape[len(key.shape) - 1 :]

        def blocks(stream: Any) -> tuple[Any, Any]:
            return hlo_threefry_blocks(b, key, shape, stream, self.whole, *begin)

        return self.hlo_draw(b, out, blocks, *given)

    def factors(self, key: Type, *operands: Type) -> str:
        given, begin = self._split(operands)
        rank = given[0].rank - key.rank + 1
        return per_key_rule(key, begin, rank, like=len(given))

    def part(self, xs: Sequence[Node], out: Type, whole: Type, begin: Begin) -> Node:
        shapes = [t.shape[xs[0].type.rank - 1 :] for t in (out, whole)]
        if shapes[0] == shapes[1]:
            return self(*xs)
        return type(self)(shapes[1])(*xs, beginning_per_key(xs[0], out, begin))


def rejection_parameter(parameter: Type) -> Type:
    """Return the type of a parameter; raise unless it is f64."""
    if parameter.dtype is not float64:
        raise DTypeError(f"parameters must be f64, got {parameter}", code="E2005")
    return parameter


def numpy_rejection_rounds(step: Callable[..., State], state: State, most: int) -> State:
    """Return the state after rounds `step(i, *state)`, until all elements are final."""
    for i in range(most):
        if state[-1].all():
            break
        state = step(i, *state)
    return state


def hlo_rejection_rounds(b: Any, step: Callable[..., State], state: State, most: int) -> State:
    """Return `numpy_rejection_rounds` as StableHLO."""

    def condition(i: Any, *state: Any) -> Any:
        done = state[-1]
        rest = b.op("stablehlo.not", done, out=done.type)
        rest = b.reduce("or", rest, False, range(done.type.rank)) if done.type.rank else rest
        left = b.compare("LT", i, b.constant(most, int32))
        return b.op("stablehlo.and", rest, left, out=left.type)

    def body(i: Any, *state: Any) -> list:
        return [lifted_stepwise(b, lambda m, i: i + 1, i), *step(i, *state)]

    return b.loop((b.constant(0, int32), *state), condition, body, stops=False)[1:]


def rejection_streams(b: Any, i: Any) -> list[Any]:
    """Return the two streams of round i as values u32[], in StableHLO: 2 i + 1 and 2 i + 2."""
    return [lifted_stepwise(b, lambda m, i, k=k: m.convert(i + i + k, uint32), i) for k in (1, 2)]


def rejection_energy_formula(m: Any, first: Any, second: Any) -> Any:
    """Return an exponential number, -log of a uniform one."""
    k = m.bitcast(join_random_bits(m, first, second), int64) & ((1 << 63) - 1)
    return sampler_minus_log_formula(m, *sampler_ends_formula(m, k, float64))
