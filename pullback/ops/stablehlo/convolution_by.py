"""StableHLO's convolution, with dimensions in any order."""

from __future__ import annotations

from typing import Any

from pullback.ops.linalg.contraction import contraction_precision
from pullback.ops.prelude import TABLE, Composite, Imported, Node, Op, Type
from pullback.ops.samples import real
from pullback.ops.shape.movement import Transpose


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
            batch_group_count=1, precision_config=contraction_precision(b, out.dtype),
        )  # fmt: skip

    @classmethod
    def samples(cls) -> Any:
        roles, one = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", (1, 1)
        x, w = real(1, 2, 4, 3), real(3, 2, 2, 2, salt=1)
        yield cls(roles, (2, 1), ((1, 0), (0, 1)), one, one, 1), (x, w)
        roles = "[b, 0, f]x[i, 0, o]->[f, 0, b]"
        yield cls(roles, (1,), ((0, 1),), (2,), (1,), 1), (real(2, 3, 1), real(1, 2, 2, salt=1))
