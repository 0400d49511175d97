"""The family of special functions: one formula for both engines, computed in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import DType, dtype, float32, float64
from pullback.graph.graph import Graph
from pullback.ops.elementwise.elementwise import Elementwise, check_elementwise_kind
from pullback.ops.elementwise.functions import cast
from pullback.ops.prelude import (
    TABLE,
    Composite,
    Node,
    Type,
    broadcast_types,
    interpret,
    same_dtype,
)


class SharedFormula(Elementwise, abstract=True):
    """`expand` is the meaning in both engines. `points` are the samples: a tuple of numbers for
    each operand."""

    kinds = "f"
    cheap = False
    singular = True
    half_as = float32
    points: ClassVar[tuple[tuple[float, ...], ...]]

    def numpy(self, *xs: np.ndarray) -> np.ndarray:
        kind = self.computed_in(dtype(xs[0].dtype))
        wide = [x.astype(kind.numpy) for x in xs]
        inputs = [TABLE["Input"](f"x{i}", x.shape, kind)() for i, x in enumerate(wide)]
        with np.errstate(all="ignore"):
            return interpret(Graph(inputs, (self.expand(*inputs),)), wide)[0].astype(xs[0].dtype)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), tuple([np.array(p) for p in cls.points])


class SpecialFunction(SharedFormula, abstract=True):
    """A shared formula whose sums need more digits than f32 has: it is computed in f64."""

    def computed_in(self, dtype: DType) -> DType:
        return float64


class SpecialComposite(Composite, abstract=True):
    """A formula of broadcasting floats that is computed in f64 and differentiated as it is."""

    points: ClassVar[tuple[tuple[float, ...], ...]]

    def infer(self, *xs: Type) -> Type:
        kind = same_dtype(self.title, *xs)
        check_elementwise_kind(kind, "f")
        return Type(broadcast_types(*xs), kind)

    def expand(self, *xs: Node) -> Node:
        shape = broadcast_types(*[x.type for x in xs])
        wide = [cast(x, float64) for x in xs]
        wide = [x if x.type.shape == shape else TABLE["Broadcast"](shape)(x) for x in wide]
        return cast(self.formula(*wide), xs[0].type.dtype)

    def formula(self, *xs: Node) -> Node:
        """Return the value for f64 operands of the same shape."""
        raise AssertionError(f"{self.name} states no formula")

    @classmethod
    def samples(cls) -> Any:
        yield cls(), tuple([np.array(p) for p in cls.points])


def special_together(f: Callable[[Node], Node], *xs: Node) -> list[Node]:
    """Apply a long formula to several operands by applying it once to all: it compiles faster."""
    shape = broadcast_types(*[x.type for x in xs])
    rows = [x if x.type.shape == shape else TABLE["Broadcast"](shape)(x) for x in xs]
    made = f(TABLE["Concat"](0)(*[TABLE["Reshape"]((1, *shape))(x) for x in rows]))
    rest = (0,) * len(shape)
    return [
        TABLE["Reshape"](shape)(
            TABLE["Slice"]((i, *rest), (i + 1, *shape), (1,) * (1 + len(shape)))(made)
        )
        for i in range(len(xs))
    ]


def special_base_array(values: np.ndarray) -> Node:
    """Return an array as a constant."""
    return TABLE["Const"](dtype(values.dtype), values.shape, values.tobytes())()
