"""The op table: importing this package enters every op."""

from pullback.ops import (
    along,
    call,
    checkpoint,
    collective,
    control,
    conv,
    conv2d,
    custom,
    dynamic,
    einsum,
    elementwise,
    extremes,
    identity,
    index,
    instructions,
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
    "along", "call", "checkpoint", "collective", "control", "conv", "conv2d", "custom", "dynamic",
    "einsum", "elementwise", "extremes", "identity", "index", "instructions", "linalg", "movement",
    "random", "reduce", "scan", "scatter", "slicing", "softmax", "sort", "structure", "update",
    "window",
]  # fmt: skip
