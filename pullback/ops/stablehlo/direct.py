"""Instructions with the meaning of another op, which is lowered to more than the instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.dtypes import dtype
from pullback.graph.types import show
from pullback.ops.index.lowering import update_block
from pullback.ops.linalg.contraction import precision
from pullback.ops.prelude import TABLE, Composite, Imported, Node, Op, Text, Type, constant
from pullback.ops.samples import integers, real
from pullback.ops.shape.movement import Broadcast, Reshape, Transpose

# Elementwise instructions, and the ops that have their meaning and derivative.
MEANINGS = {
    "abs": "Abs", "cbrt": "Cbrt", "ceil": "Ceil", "cosine": "Cos", "divide": "Div",
    "exponential": "Exp", "exponential_minus_one": "Expm1", "floor": "Floor", "log": "Log",
    "log_plus_one": "Log1p", "logistic": "Logistic", "maximum": "Maximum", "minimum": "Minimum",
    "power": "Pow", "round_nearest_even": "Round", "rsqrt": "Rsqrt", "sign": "Sign",
    "sine": "Sin", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip


class Direct(Composite):
    """An elementwise instruction as the engine computes it: XLA's `maximum` loses NaN where it is
    fused, and its `log_plus_one` loses digits. Operands have the same type."""

    instruction: str
    text = Text(("instruction",))
    imported = Imported(tuple(MEANINGS), last=True)

    def __post_init__(self) -> None:
        if self.instruction not in MEANINGS:
            raise ArgumentError(f"{self.instruction!r} is not an elementwise instruction")

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.name)

    def infer(self, *xs: Type) -> Type:
        if any(x.shape != xs[0].shape for x in xs):
            raise ShapeError(f"operands must have the same shape, got {show(xs)}", code="E3001")
        return TABLE[MEANINGS[self.instruction]]().infer(*xs)

    def expand(self, *xs: Node) -> Node:
        return TABLE[MEANINGS[self.instruction]]()(*xs)

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        return b.op(f"stablehlo.{self.instruction}", *xs, out=out)

    @classmethod
    def samples(cls) -> Any:
        yield cls("maximum"), (real(2, 3), real(2, 3, salt=1))
        yield cls("minimum"), (real(4), real(4, salt=1))
        yield cls("minimum"), (integers(4), integers(4, salt=1))
        yield cls("power"), (real(3, low=0.5, high=2.0), real(3, salt=1))
        yield cls("sqrt"), (real(3, low=0.5, high=2.0),)
        yield cls("tanh"), (real(2, 2),)


class ShiftRightLogical(Composite):
    """The bits of x shifted right by y; zeros are shifted in, whatever the sign."""

    imported = Imported(("shift_right_logical",), last=True)
    differentiable = False

    def expand(self, x: Node, y: Node) -> Node:
        unsigned = dtype(f"u{x.type.dtype.bits}")
        bits = TABLE["ShiftRight"]()(*[TABLE["Bitcast"](unsigned)(z) for z in (x, y)])
        return TABLE["Bitcast"](x.type.dtype)(bits)

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return b.op("stablehlo.shift_right_logical", x, y, out=out)

    @classmethod
    def samples(cls) -> Any:
        places = np.array([0, 1, 7, 63, 64, -1])
        yield cls(), (integers(6, low=-90, high=90), places)
        yield cls(), (integers(6).astype(np.uint8), places.astype(np.uint8))


class BroadcastInDim(Composite):
    """Broadcasts to `shape`: dimension i of the operand becomes dimension `dims[i]`."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    text = Text(("shape", "dims"))
    kinds: ClassVar[str] = "biufc"
    imported = Imported(("broadcast_in_dim",), last=True)
    int_fields = ("shape", "dims")

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.types[0].shape, i["broadcast_dimensions"])

    def infer(self, x: Type) -> Type:
        rank = len(self.shape)
        fits = len(set(self.dims)) == len(self.dims) == x.rank
        fits = fits and all(0 <= d < rank for d in self.dims)
        if not fits or any(n not in (1, self.shape[d]) for n, d in zip(x.shape, self.dims)):
            raise ShapeError(
                f"dims must be {x.rank} different dimensions of {list(self.shape)} with the "
                f"operand's sizes, or size 1 in the operand, got {list(self.dims)} for {x}",
                code="E3001",
            )
        return x.with_shape(self.shape)

    def expand(self, x: Node) -> Node:
        order = tuple(sorted(range(len(self.dims)), key=self.dims.__getitem__))
        if order != tuple(range(len(order))):
            x = Transpose(order)(x)
        extents = iter(x.type.shape)
        aligned = [next(extents) if d in self.dims else 1 for d in range(len(self.shape))]
        return Broadcast(self.shape)(Reshape(tuple(aligned))(x))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.broadcast_in_dim(x, self.shape, self.dims)

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 3, 4), (0, 2)), (real(2, 4),)
        yield cls((3, 2, 2), (2, 0)), (real(2, 3),)
        yield cls((2, 3), (0, 1)), (real(2, 1),)
        yield cls((2, 0), ()), (real(),)


class ConvolutionBy(Composite):
    """A convolution with the dimensions of operands and result in any order.

    `roles` names them as StableHLO does: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
    """

    roles: str
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    imported = Imported(("convolution",), last=True)
    kinds = "f"

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        found = TABLE["Convolution"].from_hlo(i)
        roles = i["dimension_numbers"].removeprefix("#stablehlo.conv<").removesuffix(">")
        return cls(roles, *found.motion)

    def expand(self, x: Node, w: Node) -> Node:
        spatial = [str(n) for n in range(len(self.strides))]
        orders = ["b", *spatial, "f"], [*spatial, "i", "o"], ["b", *spatial, "f"]
        left, right, out = self._places()
        x, w = (Transpose(tuple([at.index(r) for r in order]))(y)
                for y, at, order in zip((x, w), (left, right), orders))  # fmt: skip
        _, *motion = self.parameters()
        general = TABLE["Convolution"](*motion)
        return Transpose(tuple([orders[2].index(r) for r in out]))(general(x, w))

    def _places(self) -> list[list[str]]:
        parts = self.roles.replace("]->[", "]x[").split("]x[")
        return [part.strip("[]").split(", ") for part in parts]

    def hlo(self, b: Any, out: Type, x: Any, w: Any) -> Any:
        rank = len(self.strides)
        border = ", ".join(f"[{low}, {high}]" for low, high in self.padding)
        return b.op(
            "stablehlo.convolution", x, w, out=out, window_strides=self.strides,
            padding=f"dense<{f'[{border}]' if border else ''}> : tensor<{rank}x2xi64>",
            lhs_dilation=self.lhs_dilation, rhs_dilation=self.rhs_dilation,
            dimension_numbers=f"#stablehlo.conv<{self.roles}>", feature_group_count=self.groups,
            batch_group_count=1, precision_config=precision(b, out.dtype),
        )  # fmt: skip

    @classmethod
    def samples(cls) -> Any:
        roles, one = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", (1, 1)
        x, w = real(1, 2, 4, 3), real(3, 2, 2, 2, salt=1)
        yield cls(roles, (2, 1), ((1, 0), (0, 1)), one, one, 1), (x, w)
        roles = "[b, 0, f]x[i, 0, o]->[f, 0, b]"
        yield cls(roles, (1,), ((0, 1),), (2,), (1,), 1), (real(2, 3, 1), real(1, 2, 2, salt=1))


class SliceAt(Composite):
    """The block of shape `sizes` that begins at `starts`, moved so that it fits into `x`."""

    sizes: tuple[int, ...]
    text = Text(("sizes",))
    kinds: ClassVar[str] = "biufc"
    imported = Imported(("dynamic_slice",), ("slice_sizes",))

    def expand(self, x: Node, *starts: Node) -> Node:
        return TABLE["DynamicSlice"](self.sizes)(x, *fitted_starts(x.type, self.sizes, starts))

    def hlo(self, b: Any, out: Type, x: Any, *starts: Any) -> Any:
        return b.op("stablehlo.dynamic_slice", x, *starts, out=out, slice_sizes=self.sizes)

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 3)), (real(4, 5), np.int32(1), np.int32(7))
        yield cls((2,)), (real(4), np.int64(-3))


class UpdateAt(Composite):
    """`x` with a block written at `starts`, moved so that it fits into `x`."""

    kinds: ClassVar[str] = "biufc"
    imported = Imported(("dynamic_update_slice",))

    def expand(self, x: Node, update: Node, *starts: Node) -> Node:
        at = fitted_starts(x.type, update.type.shape, starts)
        return TABLE["DynamicUpdateSlice"]()(x, update, *at)

    def hlo(self, b: Any, out: Type, x: Any, update: Any, *starts: Any) -> Any:
        return update_block(b, x, update, starts)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 5), real(2, 3, salt=1), np.int32(1), np.int32(7))
        yield cls(), (real(4), real(4, salt=1), np.int64(3))


def fitted_starts(x: Type, sizes: Sequence[int], starts: Sequence[Node]) -> list[Node]:
    """Clamp starts so that blocks of `sizes` fit into `x`; their number is checked later."""
    limits = [max(n - k, 0) for n, k in zip(x.shape, sizes, strict=False)]
    return [
        TABLE["Clamp"]()(s, constant(0, s.type.dtype), constant(limit, s.type.dtype))
        for s, limit in zip(starts, limits, strict=False)
    ]
