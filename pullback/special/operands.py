"""Argument handling that the special functions share."""

from __future__ import annotations

from pullback.functions.arguments import float_arguments, record_as
from pullback.lazy.tensor import Tensor
from pullback.ops.op import Op
from pullback.typing import ArrayLike


def special(name: str, op: Op, *xs: ArrayLike) -> Tensor:
    """Apply an op to floats that broadcast; errors show the name of the public function."""
    return record_as(f"special.{name}", op, *float_arguments(*xs))
