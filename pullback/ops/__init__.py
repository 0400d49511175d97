"""The op table: importing this package enters every op."""

from pullback.ops import (
    along,
    call,
    checkpoint,
    collective,
    control,
    conv,
    custom,
    dynamic,
    einsum,
    elementwise,
    exchange,
    extremes,
    identity,
    index,
    linalg,
    movement,
    placement,
    random,
    reduce,
    scan,
    scatter,
    shard_map,
    slicing,
    softmax,
    sort,
    structure,
    update,
    window,
)

__all__ = [
    "along", "call", "checkpoint", "collective", "control", "conv", "custom", "dynamic", "einsum",
    "elementwise", "exchange", "extremes", "identity", "index", "linalg", "movement", "placement",
    "random", "reduce", "scan", "scatter", "shard_map", "slicing", "softmax", "sort", "structure",
    "update", "window",
]  # fmt: skip
