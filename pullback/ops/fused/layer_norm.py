"""Layer norm and RMS norm of rows, with their gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pullback.ops.elementwise.arithmetic import Square
from pullback.ops.elementwise.functions import guarded
from pullback.ops.elementwise.roots import Rsqrt
from pullback.ops.prelude import TABLE, Composite, Node, Type, constant_node, result_nodes
from pullback.ops.reduce.reductions import Mean, Sum
from pullback.ops.row_kernel_calls import row_kernel_call
from pullback.ops.samples import positive, real
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, Squeeze
from pullback.ops.traits import HasKernel

_CENTER, _SCALE, _SHIFT = 1, 2, 4  # flags of the kernels


class RowNormOp(Composite, HasKernel, abstract=True):
    """An op on rows along the last `dims` axes of x.

    `center` says whether the mean is subtracted, as layer norm does and RMS norm does not; `scaled`
    and `shifted` whether the result is multiplied by a scale and a shift is added to it.
    """

    dims: int
    center: bool = True
    scaled: bool = False
    shifted: bool = False
    kinds: ClassVar[str] = "f"
    kernel_name: ClassVar[str]

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        flags = _CENTER * self.center + _SCALE * self.scaled + _SHIFT * self.shifted
        axes = self.axes(len(xs[0].shape))
        return row_kernel_call(b, self.kernel_name, *xs, out=out, axes=axes, flags=flags)

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(range(rank - self.dims, rank))


class LayerNormalization(RowNormOp):
    """Rows normalised, and their means and the factors they were multiplied with.

    The factor is 1 / sqrt(sum((x - mean)**2) / count + epsilon). Operands are x, epsilon, count,
    the scale and the shift, if there are any.
    """

    kernel_name = "layer_norm"

    def infer(self, x: Type, *others: Type) -> tuple[Type, ...]:
        row = x.with_shape(x.shape[: x.rank - self.dims])
        return x, row, row

    def expand(self, x: Node, epsilon: Node, count: Node, *affine: Node) -> tuple[Node, ...]:
        axes = self.axes(x.type.rank)
        mean, d = _layer_norm_mean(x, axes) if self.center else (None, x)
        rstd = Rsqrt()(Sum(axes, True)(Square()(d)) / count + epsilon)
        y = d * rstd
        if self.scaled:
            y = y * affine[0]
        if self.shifted:
            y = y + affine[-1]
        rstd = Squeeze(axes)(rstd)
        zero = TABLE["Broadcast"](rstd.type.shape)(constant_node(0, x.type.dtype))
        return y, zero if mean is None else Squeeze(axes)(mean), rstd

    @classmethod
    def samples(cls) -> Any:
        numbers = np.array(1e-3), np.array(4.0)
        yield cls(1, True, True, True), (real(3, 4), *numbers, real(4, salt=1), real(4, salt=2))
        yield cls(2, True, False, True), (real(2, 3, 2), *numbers, real(3, 2, salt=2))
        yield cls(1, False, True), (real(4), *numbers, real(4, salt=1))
        yield cls(1, False), (real(2, 4), *numbers)


class LayerNormalizationGradient(RowNormOp):
    """The cotangents of x, scale and shift in LayerNormalization, from that of its first result.

    Operands are x, that cotangent, the other two results of that op, count, and the scale, if
    there is one.
    """

    kernel_name = "layer_norm_gradient"

    def expand(self, x: Node, g: Node, mean: Node, rstd: Node, count: Node, *affine: Node) -> Any:
        axes = self.axes(x.type.rank)
        rows = tuple(range(axes[0]))
        mean, rstd = (ExpandDims(axes)(v) for v in (mean, rstd))
        d = x - mean if self.center else x
        dz = g * affine[0] if self.scaled else g
        slope = -(Sum(axes, True)(dz * d) * rstd * rstd * rstd) / count
        dx = dz * rstd + d * slope
        if self.center:
            # The mean of dx: its terms with the slope add up to 0, unless they are infinite.
            dx = dx - (Mean(axes, True)(dz) * rstd + slope * 0)
        made = [dx]
        if self.scaled:
            made.append(Sum(rows, False)(guarded(g, d * rstd)))
        if self.shifted:
            made.append(Sum(rows, False)(g))
        return tuple(made) if len(made) > 1 else dx

    @classmethod
    def samples(cls) -> Any:
        for op, (x, _, count, *affine) in LayerNormalization.samples():
            rows = x.shape[: x.ndim - op.dims]
            made = cls(op.dims, op.center, op.scaled, op.shifted)
            given = real(*x.shape, salt=3), real(*rows, salt=4), positive(*rows)
            yield made, (x, *given, count, *affine[: int(op.scaled)])


def norm_gradients(norm: Node, g: Node) -> tuple[Node, ...]:
    """Return the cotangents of x, the scale and the shift of a LayerNormalization node."""
    op = norm.op
    assert isinstance(op, LayerNormalization)
    x, _, count, *affine = norm.inputs
    _, mean, rstd = result_nodes(norm)
    gradient = LayerNormalizationGradient(op.dims, op.center, op.scaled, op.shifted)
    made = gradient(x, g, mean, rstd, count, *affine[: int(op.scaled)])
    return result_nodes(made) if isinstance(made.type, tuple) else (made,)


def _layer_norm_mean(x: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    mean = Mean(axes, True)(x)
    return mean, x - mean
