"""The op table: importing this package registers every op."""

from pullback.ops import (  # noqa: F401  (importing them fills the table)
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
