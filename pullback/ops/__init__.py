"""The op table: importing this package registers every op."""

from pullback.ops import (
    collective,
    control,
    conv,
    cumulative,
    elementwise,
    index,
    linalg,
    optimizer_steps,
    random,
    reduce,
    shape,
    sort,
    sources,
    stablehlo,
    wrap,
)

__all__ = [
    "collective",
    "control",
    "conv",
    "cumulative",
    "elementwise",
    "index",
    "linalg",
    "optimizer_steps",
    "random",
    "reduce",
    "shape",
    "sort",
    "sources",
    "stablehlo",
    "wrap",
]
