"""Steps of random programs that leave the smooth floats: other dtypes, masks, counts, NaN.

Every step takes a value of any dtype. `like(pool)` is the program's own float dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from programs import partner

import pullback as pb


def like(pool: list) -> Any:
    """The dtype of the program's first float."""
    return next(a.dtype for a in pool if is_float(a))


def is_float(a: Any) -> bool:
    return pb.isdtype(a.dtype, "real floating")


def is_bool(a: Any) -> bool:
    return a.dtype == pb.bool


def floated(a: Any, pool: list) -> Any:
    return a if is_float(a) else pb.astype(a, like(pool))


def whole(a: Any, pool: list) -> Any:
    """Small integers made of any value; casting NaN or infinity to an integer has no meaning."""
    if is_bool(a):
        return pb.astype(a, "int32")
    if not is_float(a):
        unsigned = pb.isdtype(a.dtype, "unsigned integer")
        return pb.clip(pb.astype(a, "int64") if unsigned else a, -9, 9)
    return pb.astype(pb.clip(pb.where(pb.isfinite(a), a, 0.0), -3.0, 3.0) * 3.0, "int64")


def mask(a: Any) -> Any:
    return a if is_bool(a) else a > 0


# -- steps ----------------------------------------------------------------------------------------


def compare(a: Any, pool: list, n: int) -> Any:
    b = partner(a, pool, n)
    if is_bool(a) or is_bool(b):
        return (pb.equal, pb.not_equal)[n % 2](a, b)
    names = (pb.less, pb.less_equal, pb.greater, pb.greater_equal, pb.equal, pb.not_equal)
    return names[n % 6](a, b)


def logic(a: Any, pool: list, n: int) -> Any:
    b = mask(partner(a, pool, n))
    joined = (pb.logical_and, pb.logical_or, pb.logical_xor)[n % 3](mask(a), b)
    return pb.logical_not(joined) if n % 2 else joined


def integers(a: Any, pool: list, n: int) -> Any:
    b = whole(partner(a, pool, n), pool)
    a = whole(a, pool)
    if n % 4 == 0:  # a divisor that is never 0
        return (pb.floor_divide, pb.remainder)[n // 4 % 2](a, b * 2 + 1)
    if n % 4 == 1:
        return (pb.bitwise_and, pb.bitwise_or, pb.bitwise_xor)[n // 4 % 3](a, b)
    if n % 4 == 2:
        return pb.bitwise_left_shift(a, abs(b) % 3) if n // 4 % 2 else a * b - a
    return (pb.maximum, pb.minimum)[n // 4 % 2](a, b)


def select(a: Any, pool: list, n: int) -> Any:
    b = partner(a, pool, n)
    chosen = mask(partner(b, pool, n // 3))
    return pb.where(chosen, floated(b, pool) * 0.5, b) if n % 2 else pb.where(~chosen, b, 0)


def count(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return whole(a, pool) + n % 3
    axis = n % a.ndim
    kinds: list[Callable] = [
        lambda: pb.sum(mask(a), axis=axis), lambda: pb.any(mask(a), axis=axis),
        lambda: pb.all(mask(a), axis=axis), lambda: pb.count_nonzero(a, axis=axis),
        lambda: pb.argmax(whole(a, pool), axis=axis),
        lambda: pb.argsort(floated(a, pool), axis=axis),
        lambda: pb.sum(whole(a, pool), axis=axis, keepdims=True),
        lambda: pb.cumulative_sum(whole(a, pool), axis=axis),
    ]  # fmt: skip
    return kinds[n // 3 % len(kinds)]()


def steps_of(a: Any, pool: list, n: int) -> Any:
    """Piecewise constant functions, and those with a kink."""
    if not is_float(a):
        return abs(whole(a, pool))
    kinds = (pb.floor, pb.ceil, pb.round, pb.trunc, pb.sign, pb.abs, pb.relu, pb.elu)
    return kinds[n % len(kinds)](a * 1.5)


def bounded(a: Any, pool: list, n: int) -> Any:
    low = -1 - n % 2
    return pb.clip(whole(a, pool), low, 3) if n % 3 == 0 else pb.clip(floated(a, pool), low, 1.25)


def cast(a: Any, pool: list, n: int) -> Any:
    names = (like(pool), "float32", "float64", "int32", "int8", "bool")
    kind = names[n % len(names)]
    if kind in ("int32", "int8"):
        return pb.astype(whole(a, pool), kind)
    return pb.astype(a, kind)


def singular(a: Any, pool: list, n: int) -> Any:
    """Values and derivatives that are NaN or infinite for some operands."""
    a = floated(a, pool)
    kinds: list[Callable] = [
        lambda: pb.log(a), lambda: pb.sqrt(a), lambda: pb.reciprocal(a), lambda: pb.rsqrt(a),
        lambda: a / partner(a, pool, n), lambda: a**0.5, lambda: pb.atanh(a), lambda: pb.cbrt(a),
        lambda: pb.logaddexp(a, floated(partner(a, pool, n), pool)), lambda: a**-2,
    ]  # fmt: skip
    return kinds[n % len(kinds)]()


def guarded(a: Any, pool: list, n: int) -> Any:
    """A branch of `where` that is not taken must not leak."""
    a = floated(a, pool)
    kinds: list[Callable] = [
        lambda: pb.where(pb.isfinite(a), a, 0.5), lambda: pb.where(a > 0, pb.log(a), a),
        lambda: pb.where(pb.isnan(a), pb.sin(a), pb.cos(a)), lambda: pb.sqrt(pb.maximum(a, 0.0)),
        lambda: pb.where(a == 0, 1.0, pb.sin(a) / a),
    ]  # fmt: skip
    return kinds[n % len(kinds)]()


def take(a: Any, pool: list, n: int) -> Any:
    """Indices that the program computes."""
    if not a.ndim:
        return a
    axis = n % a.ndim
    others = [b for b in pool if b.ndim <= 1]
    places = abs(whole(others[n // 3 % len(others)], pool)) % a.shape[axis]
    if n % 2:
        return pb.take(a, pb.reshape(places, (-1,)), axis=axis)
    return a[..., places % a.shape[-1]]


def kept(a: Any, pool: list, n: int) -> Any:
    """Writes through a mask and through computed indices."""
    if not a.ndim:
        return pb.where(mask(a), a, 0)
    if n % 2:
        return a.at[mask(a)].set(pb.astype(pb.tensor(n % 3), a.dtype))
    places = pb.reshape(abs(whole(a, pool))[..., 0] % a.shape[-1], (-1,))
    return a.at[..., places].set(pb.zeros((), dtype=a.dtype))


def complexes(a: Any, pool: list, n: int) -> Any:
    """Through the complex numbers and back."""
    a = floated(a, pool)
    if a.dtype not in (pb.float32, pb.float64):
        return -a
    z = pb.exp(pb.tanh(a) * 1j) * (0.5 + 0.25j)
    return (pb.real(z * z), pb.imag(z), pb.abs(z + 1.0), pb.angle(z + 2.0))[n % 4]


def inner_gradient(a: Any, pool: list, n: int) -> Any:
    a = floated(a, pool)
    inner = lambda x: pb.sum(pb.sin(x) * x)  # noqa: E731
    return pb.grad(inner)(a) if n % 2 else pb.jvp(inner, (a,), (pb.tanh(a),))[1]


def rows(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return a
    if n % 2:
        return pb.vmap(lambda r: pb.where(pb.any(mask(r)), floated(r, pool) * 0.5, 1.5))(a)
    return pb.map(lambda r: pb.max(r) if r.ndim else r, a)


def repeated(a: Any, pool: list, n: int) -> Any:
    a = floated(a, pool)
    if n % 2:
        return pb.fori_loop(0, 1 + n % 3, lambda i, h: pb.sin(h) + pb.astype(i, h.dtype), a)
    small = lambda h: pb.logical_and(h[0] < 2 + n % 3, pb.sum(h[1]) < 50)  # noqa: E731
    body = lambda h: (h[0] + 1, h[1] * 2 - 1)  # noqa: E731
    return a * pb.while_loop(small, body, (0, whole(a, pool)))[1]  # no reverse mode: integers


def switched(a: Any, pool: list, n: int) -> Any:
    which = pb.sum(whole(a, pool)) % 3
    operand = whole(a, pool) if n % 4 == 0 else floated(a, pool)
    return pb.switch(which, [pb.negative, pb.square, lambda x: x + x], operand)


def random(a: Any, pool: list, n: int) -> Any:
    key = pb.random.key(n)
    if n % 2:
        return pb.where(pb.random.bernoulli(key, 0.5, a.shape), a, 0)
    return floated(a, pool) * pb.random.uniform(key, a.shape, dtype="float32")


DISCRETE: list[Callable] = [
    compare, logic, integers, select, count, steps_of, bounded, cast, singular, guarded, take, kept,
    complexes, inner_gradient, rows, repeated, switched, random,
]  # fmt: skip


def widened(step: Callable, alone: bool = False) -> Callable:
    """A step for floats, made to take a value of any dtype; `alone` it sees floats of its own."""

    def wide(a: Any, pool: list, n: int) -> Any:
        a = floated(a, pool)
        others = [b for b in pool if (b.dtype == a.dtype if alone else not is_bool(b))]
        return step(a, [*others, a], n)

    wide.__name__ = step.__name__
    return wide


def special(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    """The array with some NaN, infinities and zeros."""
    odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], a.shape)
    return np.where(rng.random(a.shape) < 0.15, odd, a).astype(a.dtype)
