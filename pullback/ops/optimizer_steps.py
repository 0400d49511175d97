"""The update of one parameter by an optimizer as one op, so that a step records few nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import DType, float32, float64
from pullback.ops.elementwise.elementwise import align_elementwise_operand, check_elementwise_kind
from pullback.ops.elementwise.functions import cast
from pullback.ops.prelude import TABLE, Axis, Composite, Node, Type, conjugate, spread_all
from pullback.ops.samples import complex_samples, positive, real
from pullback.ops.traits import HasKernel

_KERNEL_SIZE = 4096  # elements from which one pass over memory is better than what XLA fuses


class AdamStep(Composite, HasKernel):
    """One step of Adam: from p, g, mean, square to the new p, mean and square.

    The other operands are numbers: the length of the step, the correction of the root of
    `square`, each decay rate b followed by 1 - b (computed in double precision), and epsilon.
    """

    kinds: ClassVar[str] = "f"

    def infer(self, p: Type, g: Type, mean: Type, square: Type, *numbers: Type) -> tuple:
        check_elementwise_kind(p.dtype, "fc")
        return p, mean, square

    def kernel(self, b: Any, out: tuple[Type, ...], *xs: Any) -> Any:
        p, dtype, numbers = out[0], out[0].dtype, [x.type for x in xs[4:]]
        if dtype not in (float32, float64) or p.size < _KERNEL_SIZE:
            return None
        if any(x.type != p for x in xs[:4]) or any(x != Type((), dtype) for x in numbers):
            return None
        in_place = {
            k: i for k, i in enumerate((0, 2, 3)) if _is_donated_to_optimizer_step(b, xs[i])
        }
        return b.kernel("adam_step", *xs, out=out, in_place=in_place, shared=len(numbers))

    def expand(self, p: Node, g: Node, mean: Node, square: Node, *numbers: Node) -> tuple:
        length, correction, keep, take, keep_square, take_square, epsilon = numbers
        mean = mean * cast(keep, p.type.dtype) + g * cast(take, p.type.dtype)
        size = optimizer_real_part(g * conjugate(g), square.type.dtype)
        square = square * keep_square + size * take_square
        root = TABLE["Sqrt"]()(square) * correction + epsilon
        new = p - mean * cast(length, p.type.dtype) / cast(root, p.type.dtype)
        return new, mean, square

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        tensors = spread_all(axis, xs[:4], mapped[:4])
        rank = tensors[0].type.rank - 1
        numbers = zip(xs[4:], mapped[4:], strict=True)
        return self(
            *tensors, *[align_elementwise_operand(x, rank) if has else x for x, has in numbers]
        )

    @classmethod
    def samples(cls) -> Any:
        numbers = tuple(np.array(v) for v in (0.1, 1.3, 0.9, 0.1, 0.99, 0.01, 1e-3))
        for shape in ((), (3,), (2, 2), (5,)):
            yield cls(), (real(*shape), real(*shape, salt=1), real(*shape, salt=2),
                          positive(*shape), *numbers)  # fmt: skip
        yield cls(), (complex_samples(3), complex_samples(3, salt=1), complex_samples(3, salt=2),
                      positive(3), *numbers)  # fmt: skip


def _is_donated_to_optimizer_step(b: Any, x: Any) -> bool:
    """Whether a value is donated, or computed from a donated one: a decayed parameter."""
    operands = () if x.made_by is None else x.made_by.operands
    return x in b.donated or any(y in b.donated and y.type == x.type for y in operands)


class AdamCorrections(Composite):
    """The bias corrections of Adam, from the number of steps and the logarithms of two decay rates.

    They are 1 - b ** steps for the first rate b, computed without cancellation, and one over the
    square root of the same for the second.
    """

    def infer(self, steps: Type, *logarithms: Type) -> tuple:
        for x in logarithms:
            check_elementwise_kind(x.dtype, "f")
        return logarithms

    def expand(self, steps: Node, *logarithms: Node) -> tuple:
        first, second = (-TABLE["Expm1"]()(cast(steps, x.type.dtype) * x) for x in logarithms)
        return first, 1 / TABLE["Sqrt"]()(second)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (np.array(3, np.int32), np.array(-0.1), np.array(-0.001))


def optimizer_real_part(x: Node, dtype: DType) -> Node:
    return cast(TABLE["Real"]()(x), dtype) if x.type.dtype.is_complex else x
