"""Complete elliptic integrals."""

from __future__ import annotations

from pullback.functions.arguments import Tensor, float_node
from pullback.lazy.record import record_at_one_line
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.elliptic import EllipE, EllipKm1
from pullback.special.operands import special
from pullback.typing import ArrayLike


def ellipk(m: ArrayLike) -> Tensor:
    """Return the complete elliptic integral of the first kind: that of 1 / sqrt(1 - m sin(t)**2)
    over t from 0 to pi/2. The parameter m is at most 1.

    >>> round(pb.special.ellipk(0.5).item(), 5)
    1.85407
    """
    with record_at_one_line():
        return special("ellipk", EllipKm1(), 1 - wrap(float_node(m)))


def ellipkm1(p: ArrayLike) -> Tensor:
    """Return `ellipk(1 - p)`, accurate also where p is small.

    >>> round(pb.special.ellipkm1(1e-20).item(), 4)
    24.4121
    """
    return special("ellipkm1", EllipKm1(), p)


def ellipe(m: ArrayLike) -> Tensor:
    """Return the complete elliptic integral of the second kind: that of sqrt(1 - m sin(t)**2) over
    t from 0 to pi/2. The parameter m is at most 1.

    >>> round(pb.special.ellipe(0.5).item(), 5)
    1.35064
    """
    return special("ellipe", EllipE(), m)


__all__ = ["ellipe", "ellipk", "ellipkm1"]
