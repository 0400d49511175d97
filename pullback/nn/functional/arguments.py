"""Arguments that the functions share: floats and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pullback.errors import ArgumentError
from pullback.functions.arguments import float_node
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import DType, float32
from pullback.lazy.tensor import Tensor, wrap
from pullback.typing import ArrayLike

Layout = Literal["NHWC", "NCHW", "NWC", "NCW", "NDHWC", "NCDHW"]
Reduction = Literal["none", "mean", "sum"]


def functional_float_argument(x: ArrayLike) -> Tensor:
    """A tensor of floats; integers become the default float dtype."""
    return wrap(float_node(x))


def widened_functional_argument(x: Tensor) -> Tensor:
    """16-bit floats as f32, in which statistics and sums are computed."""
    return x.astype(float32) if x.dtype.bits == 16 else x


def narrowed_to_functional_argument(x: Tensor, dtype: DType) -> Tensor:
    """A result in the dtype of the function's argument."""
    return x if x.dtype is dtype else x.astype(dtype)


def functional_choice_argument(value: object, choices: Sequence[str], what: str) -> Any:
    """A word that must be one of several."""
    if value not in choices:
        words = ", ".join(f'"{c}"' for c in choices)
        raise ArgumentError(f"{what} must be one of {words}, got {shown_argument(value)}")
    return value
