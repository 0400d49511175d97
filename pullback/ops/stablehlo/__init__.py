"""StableHLO instructions that no other op is lowered to alone; programs are read as these."""

from pullback.ops.stablehlo import case, direct, gather_scatter, reduce_sort, reduce_window  # noqa: F401
