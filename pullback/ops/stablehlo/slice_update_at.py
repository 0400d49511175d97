"""StableHLO's dynamic slices, which are moved until they fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ops.index.index_lowering import lower_block_update
from pullback.ops.prelude import TABLE, Composite, Imported, Node, Text, Type, constant_node
from pullback.ops.samples import real


class SliceAt(Composite):
    """The block of shape `sizes` that begins at `starts`, moved so that it fits into `x`."""

    sizes: tuple[int, ...]
    text = Text(("sizes",))
    kinds: ClassVar[str] = "biufc"
    imported = Imported(("dynamic_slice",), ("slice_sizes",))

    def expand(self, x: Node, *starts: Node) -> Node:
        return TABLE["DynamicSlice"](self.sizes)(
            x, *slice_update_starts(x.type, self.sizes, starts)
        )

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
        at = slice_update_starts(x.type, update.type.shape, starts)
        return TABLE["DynamicUpdateSlice"]()(x, update, *at)

    def hlo(self, b: Any, out: Type, x: Any, update: Any, *starts: Any) -> Any:
        return lower_block_update(b, x, update, starts)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 5), real(2, 3, salt=1), np.int32(1), np.int32(7))
        yield cls(), (real(4), real(4, salt=1), np.int64(3))


def slice_update_starts(x: Type, sizes: Sequence[int], starts: Sequence[Node]) -> list[Node]:
    """Clamp starts so that blocks of `sizes` fit into `x`; their number is checked later."""
    limits = [max(n - k, 0) for n, k in zip(x.shape, sizes, strict=False)]
    return [
        TABLE["Clamp"]()(s, constant_node(0, s.type.dtype), constant_node(limit, s.type.dtype))
        for s, limit in zip(starts, limits, strict=False)
    ]
