"""Instructions of StableHLO that no other op is lowered to as they stand."""

from pullback.ops.stablehlo import case, direct, gather_scatter, reduce_sort, reduce_window

__all__ = ["case", "direct", "gather_scatter", "reduce_sort", "reduce_window"]
