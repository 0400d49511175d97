"""Steps of random programs: functions that few others use, and transforms inside a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discrete_steps import floated, is_bool, like, mask, whole
from programs import partner

import pullback as pb


def assorted(a: Any, pool: list, n: int) -> Any:
    """Functions that few other steps use."""
    if not a.ndim:
        return pb.stack([a, a])
    axis, x = n % a.ndim, floated(a, pool)
    kinds: list[Callable] = [
        lambda: pb.norm(x, ord=1 + n % 3, axis=axis), lambda: pb.std(x, axis=axis),
        lambda: pb.logsumexp(x, axis=axis), lambda: pb.cummax(x, axis=axis),
        lambda: pb.roll(a, n % 5, axis=axis), lambda: pb.tile(a, (2,) + (1,) * (a.ndim - 1)),
        lambda: pb.tril(a, n % 3 - 1) if a.ndim > 1 else pb.flip(a),
        lambda: pb.repeat(a, 2, axis=axis),
        lambda: pb.one_hot(abs(whole(a, pool)) % 3, 3), lambda: pb.unstack(a, axis=axis)[-1],
        lambda: pb.min(a, axis=axis) if not is_bool(a) else pb.all(a, axis=axis),
        lambda: pb.searchsorted(pb.sort(pb.reshape(x, (-1,))), pb.reshape(x, (-1,))[:3]),
        lambda: pb.diff(x, axis=axis) if a.shape[axis] > 1 else x,
        lambda: pb.max_pool(x[None, ..., None], 2, 1, "SAME")[0, ..., 0],
        lambda: pb.outer(x, x) if a.ndim == 1 else pb.swapaxes(x, 0, 1),
    ]  # fmt: skip
    return kinds[n // 3 % len(kinds)]()


def pointwise(a: Any, pool: list, n: int) -> Any:
    """Functions of one number, some of them undefined for some numbers."""
    x = floated(a, pool)
    kinds = (
        pb.expm1, pb.log1p, pb.asinh, pb.acosh, pb.acos, pb.erf, pb.erfc, pb.erfinv, pb.lgamma,
        pb.digamma, pb.gelu, pb.silu, pb.softplus, pb.log_sigmoid, pb.leaky_relu, pb.sinh, pb.tan,
        pb.exp2, pb.log2, pb.log10, pb.signbit, pb.isinf, pb.square, pb.cosh,
    )  # fmt: skip
    return kinds[n % len(kinds)](x)


def paired(a: Any, pool: list, n: int) -> Any:
    """Functions of two floats."""
    x = floated(a, pool)
    y = floated(partner(a, pool, n), pool)
    kinds: list[Callable] = [
        pb.hypot, pb.atan2, pb.copysign, pb.remainder, pb.floor_divide, pb.maximum, pb.minimum,
        lambda x, y: abs(x) ** y, lambda x, y: x**y, lambda x, y: pb.clip(x, y, y + 1.0),
        lambda x, y: x * pb.stop_gradient(pb.sign(y)), lambda x, y: pb.where(x < y, x / y, y / x),
    ]  # fmt: skip
    return kinds[n // 5 % len(kinds)](x, y)


def masked_product(a: Any, pool: list, n: int) -> Any:
    """A mask as a number: 0 times NaN is NaN."""
    b = partner(a, pool, n)
    x = pb.astype(mask(a), like(pool))
    return x * floated(b, pool) if n % 3 else x / floated(b, pool)


def narrow(a: Any, pool: list, n: int) -> Any:
    """Integers that wrap around."""
    kind = ("int8", "uint8", "uint16", "uint32", "int16")[n % 5]
    x = pb.astype(whole(a, pool), kind)
    y = pb.astype(whole(partner(a, pool, n), pool), kind)
    kinds: list[Callable] = [
        lambda: x * x * x * y, lambda: x - y, lambda: pb.bitwise_invert(x) + y,
        lambda: pb.bitwise_right_shift(x, abs(y) % 4), lambda: pb.bitwise_count(x),
        lambda: pb.sum(x), lambda: pb.astype(x, like(pool)) * 0.5, lambda: x**3, lambda: -x // 3,
        lambda: pb.max(x) - x, lambda: pb.prod(x), lambda: x % 5,
    ]  # fmt: skip
    return kinds[n // 5 % len(kinds)]()


def windowed(a: Any, pool: list, n: int) -> Any:
    """Parts at computed places."""
    if not a.ndim:
        return a
    sizes = tuple([max(1, d - 1) for d in a.shape])
    starts = [abs(pb.sum(whole(a, pool))) % 2 if d > 1 else 0 for d in a.shape]
    part = pb.dynamic_slice(a, starts, sizes)
    return part if n % 2 else pb.dynamic_update_slice(a, pb.flip(part), starts)


def written(a: Any, pool: list, n: int) -> Any:
    """Writes to places that occur twice."""
    if not a.ndim:
        return a
    x = floated(a, pool)
    places = abs(whole(x[..., 0] if a.ndim > 1 else x, pool)) % a.shape[-1]
    places = pb.reshape(places, (-1,))
    update = pb.stack([x[..., 0] * 0.5] * places.shape[0], axis=-1)
    return getattr(x.at[..., places], ("add", "multiply", "min", "max")[n % 4])(update)


def moved(a: Any, pool: list, n: int) -> Any:
    if a.ndim < 2:
        return pb.moveaxis(pb.stack([a, a], axis=-1), -1, 0)
    kinds: list[Callable] = [
        lambda: pb.rot90(a), lambda: pb.triu(a, n % 3 - 1), lambda: pb.diagonal(a),
        lambda: pb.matrix_trace(floated(a, pool)), lambda: pb.moveaxis(a, 0, -1),
        lambda: pb.tensordot(floated(a, pool), floated(a, pool), axes=([0], [0])),
        lambda: pb.vecdot(floated(a, pool), floated(a, pool)), lambda: pb.split(a, 1, axis=0)[0],
    ]  # fmt: skip
    return kinds[n // 3 % len(kinds)]()


def cumulative(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return a
    x = floated(a, pool)
    kinds = (pb.cumulative_prod, pb.cumlogsumexp, pb.cummin, pb.cummax)
    return kinds[n % 4](x, axis=n % a.ndim)


@pb.custom_vjp
def clipped(x: Any) -> Any:
    """The identity, with a gradient of at most 1."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, x), lambda x, g: (pb.clip(g, -1.0, 1.0),))


@pb.custom_jvp
def cube(x: Any) -> Any:
    return x * x * x


cube.defjvp(lambda xs, ts: (cube(xs[0]), 3.0 * xs[0] * xs[0] * ts[0]))


def nested(a: Any, pool: list, n: int) -> Any:
    """Transforms inside the program, inside each other."""
    x = floated(a, pool)
    f = lambda x: pb.sum(cube(x) * pb.sin(x))  # noqa: E731
    kinds: list[Callable] = [
        lambda: cube(x), lambda: pb.hvp(f, (x,), (pb.cos(x),))[0],
        lambda: pb.vmap(pb.grad(f))(x) if x.ndim else x,
        lambda: pb.vmap(lambda r: r - pb.pmean(r, "rows"), axis_name="rows")(x) if x.ndim else x,
        lambda: pb.grad(lambda x: f(pb.checkpoint(cube)(x)))(x),
        lambda: pb.compile(lambda x: pb.sin(x) * x)(x),
        lambda: pb.scan(lambda c, r: (c + pb.grad(f)(r), c), x[0] * 0.0, x)[0] if x.ndim else x,
        lambda: pb.jacfwd(lambda v: cube(v) * pb.sum(v))(pb.reshape(x, (-1,))[:2]),
        lambda: pb.linearize(cube, x)[1](pb.ones_like(x)),
    ]  # fmt: skip
    return kinds[n % len(kinds)]()


RARE: list[Callable] = [
    assorted, pointwise, paired, masked_product, narrow, windowed, written, moved, cumulative,
    nested,
]  # fmt: skip
