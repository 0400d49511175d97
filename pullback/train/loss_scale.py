"""Loss scaling: gradients in f16 are kept from vanishing by a factor on the loss.

The smallest positive number of f16 is 6e-8, and many gradients are smaller. The loss is multiplied
by a scale before the derivative, and the gradients, in f32, are divided by it. Where the scale was
too large, gradients are not finite: that step is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from pullback import tree
from pullback.errors import ArgumentError
from pullback.functions import all as all_true
from pullback.functions import isfinite, stack, where
from pullback.graph.boundary import boundary_methods
from pullback.graph.dtypes import float32
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor

Tree = TypeVar("Tree")


def all_finite(values: object) -> Tensor:
    """Return whether every float in a tree is finite, as a boolean tensor.

    >>> from pullback.train.loss_scale import all_finite
    >>> all_finite({"a": pb.ones(2), "b": pb.tensor(float("inf"))}).item()
    False
    """
    found = [
        all_true(isfinite(x))
        for x in tree.leaves(values)
        if isinstance(x, Tensor) and x.dtype.is_inexact
    ]
    return all_true(stack(found)) if found else asarray(True)


@boundary_methods
@dataclass(frozen=True)
class StaticLossScale:
    """A fixed factor on the loss.

    >>> scale = pb.train.StaticLossScale(1024.0)
    >>> g = pb.grad(lambda w: scale.scale(w * w))(pb.tensor(3.0))
    >>> scale.unscale(g).item()
    6.0
    """

    value: Tensor | float = 2.0**15

    def __post_init__(self) -> None:
        if isinstance(self.value, (int, float)):
            if not self.value > 0:
                raise ArgumentError(f"loss scale: the value must be positive, got {self.value}")
            object.__setattr__(self, "value", asarray(self.value, float32))

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale.

        >>> pb.train.StaticLossScale(8.0).scale(pb.tensor(2.0)).item()
        16.0
        """
        return loss * self._tensor.astype(loss.dtype)

    def unscale(self, grads: Tree) -> Tree:
        """Return gradients divided by the scale, in f32 where they were in half precision.

        >>> pb.train.StaticLossScale(8.0).unscale([pb.tensor(16.0)])[0].item()
        2.0
        """
        return tree.map(self._unscaled, grads)

    def adjust(self, finite: Tensor) -> StaticLossScale:
        """Return the scale for the next step.

        >>> pb.train.StaticLossScale(8.0).adjust(pb.tensor(False)).value.item()
        8.0
        """
        return self

    @property
    def _tensor(self) -> Tensor:
        return asarray(self.value)

    def _unscaled(self, g: object) -> object:
        if not isinstance(g, Tensor) or not g.dtype.is_inexact:
            return g
        if g.dtype.is_float and g.dtype.bits < 32:
            g = g.astype(float32)
        return g / self._tensor.astype(g.dtype.real)


@boundary_methods
@dataclass(frozen=True)
class DynamicLossScale(StaticLossScale):
    """A factor on the loss that finds its own size.

    It is halved after a step whose gradients are not all finite, and doubled after `period` steps
    in a row whose gradients are. It is a tree: pass it to a compiled step and return the new one.

    >>> scale = pb.train.DynamicLossScale(1024.0, period=2)
    >>> scale = scale.adjust(pb.tensor(False))
    >>> scale.value.item()
    512.0
    >>> scale.adjust(pb.tensor(True)).adjust(pb.tensor(True)).value.item()
    1024.0
    """

    period: int = field(default=2000, metadata={"static": True})
    factor: float = field(default=2.0, metadata={"static": True})
    least: float = field(default=1.0, metadata={"static": True})
    good_steps: Tensor | int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.good_steps, int):
            object.__setattr__(self, "good_steps", asarray(self.good_steps, "int32"))

    def adjust(self, finite: Tensor) -> DynamicLossScale:
        """Return the scale for the next step, given whether all gradients were finite.

        >>> pb.train.DynamicLossScale(8.0).adjust(pb.tensor(False)).value.item()
        4.0
        """
        good, value = asarray(self.good_steps), self._tensor
        full = good + 1 >= self.period
        grown = where(full, value * self.factor, value)
        grown = where(isfinite(grown), grown, value)
        shrunk = where(value / self.factor > self.least, value / self.factor, self.least)
        steps = where(full, 0, good + 1)
        return replace(
            self,
            value=where(finite, grown, shrunk.astype(value.dtype)),
            good_steps=where(finite, steps, 0).astype(good.dtype),
        )


tree.register(StaticLossScale)
tree.register(DynamicLossScale)
