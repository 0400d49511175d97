"""The dtypes that samples are computed in and rounded to."""

from __future__ import annotations

from pullback.functions.arguments import literal_argument
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, bfloat16, float32, float64
from pullback.lazy.tensor import Tensor
from pullback.ops.random.between import LEAST


def rounded_to_sample_dtype(x: Tensor, dtype: DType) -> Tensor:
    """Round to a dtype; what is smaller than its least normal number becomes 0, as XLA has it."""
    if dtype in (float32, bfloat16):
        least = number_in_sample_dtype(LEAST[dtype])
        x = where((x < least) & (x > -least), number_in_sample_dtype(0.0), x)
    return sample_as_dtype(x, dtype)


def sample_computed_dtype(dtype: DType) -> DType:
    """Return the dtype that samples are computed in: f64 for f64, f32 for all others."""
    return float64 if dtype is float64 else float32


def sample_as_dtype(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else x.astype(dtype)


def number_in_sample_dtype(value: float) -> Tensor:
    return literal_argument(value, float64)
