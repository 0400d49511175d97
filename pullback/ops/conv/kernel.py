"""Calls of the kernels for convolutions on CPUs."""

from __future__ import annotations

from typing import Any

from pullback.graph.dtypes import float32, float64
from pullback.ops.conv.windows import WindowMotion
from pullback.ops.prelude import Type


def call_convolution_kernel(b: Any, name: str, out: Type, x: Any, y: Any, m: WindowMotion) -> Any:
    """Call the kernel that gives one of input, filter and result from the other two."""
    rank = len(m.strides)
    if out.dtype not in (float32, float64) or not 1 <= rank <= 3 or not out.size:
        return None
    sides = zip(m.strides, m.padding, m.lhs_dilation, m.rhs_dilation, strict=True)
    motion = tuple(n for stride, (low, _), a, d in sides for n in (stride, low, a, d))
    return b.kernel(name, x, y, out=out, motion=motion, groups=m.groups)
