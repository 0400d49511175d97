"""Iota: the positions along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import DType, dtype, int32, int64
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import cast
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.parts import Begin
from pullback.ops.prelude import Imported, Node, Op, Type
from pullback.ops.shape.squeeze_flip_axes import check_axes


class Iota(Op):
    """Each element's position along `axis`."""

    shape: tuple[int, ...]
    axis: int
    dtype: DType
    differentiable: ClassVar[bool] = False  # no operands
    imported = Imported(("iota",))

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        (out,) = i.types
        return cls(out.shape, i["iota_dimension"], out.dtype)

    def infer(self) -> Type:
        check_elementwise_kind(self.dtype, "iufc")
        check_axes((self.axis,), len(self.shape))
        return Type(self.shape, self.dtype)

    def numpy(self) -> np.ndarray:
        positions = np.arange(self.shape[self.axis]).astype(self.dtype.numpy)
        after = (1,) * (len(self.shape) - self.axis - 1)
        return np.broadcast_to(positions.reshape(-1, *after), self.shape)

    def hlo(self, b: Any, out: Type) -> Any:
        if self.dtype.is_integer and self.dtype.bits >= 32:
            return b.iota(self.shape, self.dtype, self.axis)
        # Count in wide integers: small types would stop growing, and complex has no iota.
        return b.convert(b.iota(self.shape, int64, self.axis), self.dtype)

    def factors(self) -> str:
        return factor_rule([], [factor_rule_names(len(self.shape))])

    def part(self, xs: Sequence[Node], out: Type, whole: Type, begin: Begin) -> Node:
        if out.shape[self.axis] == self.shape[self.axis]:
            return Iota(out.shape, self.axis, self.dtype)()
        return cast(Iota(out.shape, self.axis, int64)() + begin(self.axis), self.dtype)

    @classmethod
    def samples(cls) -> Any:
        for name in ("i8", "u16", "i32", "i64", "f16", "bf16", "f64", "complex64"):
            yield cls((3, 300), 1, dtype(name)), ()
        yield cls((4, 2), 0, int32), ()
        yield cls((0,), 0, int32), ()
