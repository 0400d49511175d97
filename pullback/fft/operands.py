"""Operands of transforms, in dtypes that can be transformed."""

from __future__ import annotations

from pullback.errors import DTypeError
from pullback.functions.arguments import float_node
from pullback.graph.dtypes import DType, complex64, complex128, float32, float64
from pullback.lazy.tensor import Tensor, wrap
from pullback.typing import ArrayLike

COMPLEX: dict[DType, DType] = {float32: complex64, float64: complex128}


def fft_operand(x: ArrayLike) -> Tensor:
    """Return the operand as f32, f64 or complex: integers become the default float, f16 f32."""
    made = wrap(float_node(x))
    return made.astype(float32) if made.dtype.bits == 16 else made


def real_fft_operand(op: str, x: ArrayLike) -> Tensor:
    """Like `fft_operand`, but complex numbers are refused."""
    made = fft_operand(x)
    if made.dtype.is_complex:
        what = f"needs real numbers, got {made._node.type}; take pb.real(x) or use pb.fft.fft"
        raise DTypeError(what, op=op)
    return made


def complex_fft_operand(x: ArrayLike) -> Tensor:
    """Like `fft_operand`, but as complex numbers."""
    made = fft_operand(x)
    return made if made.dtype.is_complex else made.astype(COMPLEX[made.dtype])
