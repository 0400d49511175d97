"""StableHLO instructions that no other op is lowered to alone; programs are read as these."""

from pullback.ops.stablehlo import (  # noqa: F401  # isort: skip
    broadcast_in_dim, case, convolution_by, direct, gather_scatter, reduce_sort, reduce_window,
    shift_right_logical, slice_update_at,
)  # fmt: skip
