"""StableHLO's logical shift."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph.dtypes import dtype
from pullback.ops.prelude import TABLE, Composite, Imported, Node, Type
from pullback.ops.samples import integer_samples


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
        yield cls(), (integer_samples(6, low=-90, high=90), places)
        yield cls(), (integer_samples(6).astype(np.uint8), places.astype(np.uint8))
