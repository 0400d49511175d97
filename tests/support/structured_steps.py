"""Steps of random programs with more structure: softmax, computed places, loops, branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from programs import partner

import pullback as pb


def softmax(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return pb.sin(a)
    return (pb.softmax, pb.log_softmax)[n % 2](a, axis=n % a.ndim)


def statistics(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return a + 1.0
    axis = n % a.ndim
    return (pb.var(a, axis=axis, keepdims=True) if n % 2 else pb.prod(a * 0.5, axis=axis)) + 0.5


def product(a: Any, pool: list, n: int) -> Any:
    if a.ndim < 2:
        return pb.tanh(a) * 2.0
    others = [b for b in pool if b.ndim == 2 and b.shape[-1] == a.shape[-1]]
    other = others[n % len(others)] if others else a[(0,) * (a.ndim - 2)]
    return pb.einsum("...ij,kj->...ki", pb.tanh(a), other)


def along(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return -a
    axis = n % a.ndim
    chosen = pb.argmax(a, axis=axis, keepdims=True) if n % 2 else pb.argsort(a, axis=axis)
    return pb.take_along_axis(a, chosen, axis=axis) * 0.5


def largest(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return abs(a)
    axis = n % a.ndim
    return pb.top_k(a, 1 + n % a.shape[axis], axis=axis)[0]


def scattered(a: Any, pool: list, n: int) -> Any:
    """Places that the program computes, some of them named twice."""
    if not a.ndim:
        return a * a
    places = pb.astype(pb.abs(pb.sin(a[..., 0] if a.ndim > 1 else a)) * a.shape[0] * 0.99, "int64")
    places = pb.reshape(places, (-1,))
    updates = pb.stack([a[0] * 0.1] * places.shape[0])
    return getattr(a.at[places], ("add", "set", "max")[n % 3])(updates)


def spread(a: Any, pool: list, n: int) -> Any:
    if a.ndim > 2:
        return pb.sum(a, axis=0) * 0.3
    return pb.broadcast_to(a, (2 + n % 2, *a.shape)) * 0.5


def loop(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return a * 0.25
    b = partner(a, pool, n)
    b = b if b.shape == a.shape else a

    def step(h: Any, x: Any) -> Any:
        h = pb.tanh(h + pb.sum(x) * 0.1) + x * 0.5
        return h, h * h

    last, rows = pb.scan(step, b[0] * (n % 2), a, reverse=n % 3 == 0)
    return last if n % 5 else rows


def choice(a: Any, pool: list, n: int) -> Any:
    b = partner(a, pool, n)
    both = lambda a, b: pb.sin(a) * b  # noqa: E731
    return pb.cond(pb.sum(a) > n % 3 - 1, both, lambda a, b: both(b, a), a, b)


def again(a: Any, pool: list, n: int) -> Any:
    return pb.checkpoint(lambda x: pb.tanh(x) * pb.sum(x * 0.2))(a)


def convolved(a: Any, pool: list, n: int) -> Any:
    if a.ndim != 3:
        return pb.cos(a)
    w = pb.reshape(pb.arange(3.0 * a.shape[-1], dtype=a.dtype), (1, a.shape[-1], 3)) * 0.1
    return pb.conv(a, w, padding="SAME") if n % 2 else pb.cumulative_sum(a, axis=1) * 0.3


STRUCTURED: list[Callable] = [
    softmax, statistics, product, along, largest, scattered, spread, loop, choice, again, convolved,
]  # fmt: skip
