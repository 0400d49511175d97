"""The op table: importing this package registers every op."""

from pullback.ops import (  # noqa: F401  # isort: skip
    collective, control, conv, cumulative, elementwise, fft, fused, index, linalg, optimizer_steps,
    random, reduce, shape, sort, sources, stablehlo, wrap,
)  # fmt: skip
