"""Random numbers as functions of keys, the same in every engine to the last bit."""

from pullback.ops.random import (  # noqa: F401  # isort: skip
    affine, between, bits, count_up_to, counts, exact, gamma, mills_ratio, mul_high, sampling,
    split_fold_keys, wald, weighted_choice,
)  # fmt: skip
