"""The op table: importing this package enters every op."""

from pullback.ops import (
    along,
    call,
    collective,
    control,
    conv,
    dynamic,
    einsum,
    elementwise,
    extremes,
    identity,
    index,
    linalg,
    movement,
    random,
    reduce,
    scan,
    scatter,
    slicing,
    softmax,
    sort,
    structure,
    update,
    window,
)

__all__ = [
    "along", "call", "collective", "control", "conv", "dynamic", "einsum", "elementwise",
    "extremes", "identity", "index", "linalg", "movement", "random", "reduce", "scan", "scatter",
    "slicing", "softmax", "sort", "structure", "update", "window",
]  # fmt: skip
