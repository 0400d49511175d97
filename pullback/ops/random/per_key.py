"""Ops that compute something for each key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import DType
from pullback.graph.node import nodes_varying_alike
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.parts import Begin
from pullback.ops.prelude import TABLE, Node, Op, Type, batch_along
from pullback.ops.random import threefry
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.random.threefry import hlo_threefry_blocks, numpy_threefry_blocks

NO_PART: tuple[int, ...] = ()


class PerKey(Op, abstract=True):
    """An op that returns results of shape `shape` for each key u32[..., 2]. Each is computed from
    the cipher of its position. To draw only a part of a larger shape `whole`, as a device of a mesh
    does, a second operand i64[..., rank] gives the start of the part for each key."""

    shape: tuple[int, ...]
    differentiable: ClassVar[bool] = False
    stream = 0
    whole = NO_PART
    batch = batch_along

    def __post_init__(self) -> None:
        self.set("shape", tuple(map(int, self.shape)))
        self.set("whole", tuple(map(int, self.whole)))

    @abstractmethod
    def result(self) -> DType:
        """Return the dtype of the results."""

    @abstractmethod
    def draw(self, m: Any, first: Any, second: Any) -> Any:
        """Return the results from both words of the cipher, as a formula of `stepwise`."""

    def infer(self, key: Type, *begin: Type) -> Type:
        threefry.check_threefry_key(key)
        threefry.check_threefry_part(key, begin, self.whole)
        threefry.check_threefry_size(self.whole or self.shape)
        return Type((*key.shape[:-1], *self.shape), self.result())

    def numpy(self, key: np.ndarray, *begin: np.ndarray) -> np.ndarray:
        return self.draw(
            NUMPY, *numpy_threefry_blocks(key, self.shape, self.stream, self.whole, *begin)
        )

    def hlo(self, b: Any, out: Type, key: Any, *begin: Any) -> Any:
        words = hlo_threefry_blocks(b, key, self.shape, self.stream, self.whole, *begin)
        return lifted_stepwise(b, self.draw, *words)

    def factors(self, key: Type, *begin: Type) -> str:
        return per_key_rule(key, begin, len(self.shape))

    def part(self, xs: Sequence[Node], out: Type, whole: Type, begin: Begin) -> Node:
        op: Any = self  # every subclass has a field `whole`
        shape = out.shape[xs[0].type.rank - 1 :]
        if shape == self.shape:
            return self(*xs)
        return replace(op, shape=shape, whole=self.shape)(*xs, beginning_per_key(xs[0], out, begin))


def per_key_rule(key: Type, begin: Sequence[Type], rank: int, like: int = 0) -> str:
    """Return the factor rule of an op that makes `rank` dimensions for each key. `like` operands
    have these dimensions too. Where `begin` is given, the result is a part already, which cannot be
    split again."""
    keys = factor_rule_names(key.rank - 1)
    result = [*keys, *factor_rule_names(rank, range(rank) if begin else (), "n")]
    per_word = [*keys, "_"]
    return factor_rule([per_word, *[result] * like, *[per_word] * len(begin)], [result])


def beginning_per_key(key: Node, out: Type, begin: Begin) -> Node:
    """Return the start of the dimensions that are made for each key: i64[..., rank]."""
    outer = key.type.rank - 1
    starts = [TABLE["Reshape"]((1,))(begin(i)) for i in range(outer, out.rank)]
    start = (
        starts[0] if len(starts) == 1 else TABLE["Concat"](0)(*nodes_varying_alike(tuple(starts)))
    )
    return TABLE["Broadcast"]((*key.type.shape[:-1], len(starts)))(start)
