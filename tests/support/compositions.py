"""Compositions of transforms over random programs, and what they must give, in NumPy alone.

Every transform here turns a function of a vector into another one, so they compose at will. The
oracle does the same with loops and central differences in extended precision: it shares nothing
with the library.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb

WIDTH = 3
Wide = np.longdouble
Vector = Callable[[Any], Any]
TANGENT = np.array([0.6, -0.8, 0.3])
MASK = np.array([True, False, True])
SHIFTS = np.array([0.3, -0.2, 0.1])
MATRIX = np.array([[0.4, -0.3, 0.2], [0.1, 0.5, -0.6], [-0.2, 0.3, 0.4]])


# -- random programs ------------------------------------------------------------------------------

STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda m, h, x: m.sin(h),
    lambda m, h, x: m.tanh(h) + 0.5 * x,
    lambda m, h, x: h * x,
    lambda m, h, x: m.exp(-h * h),
    lambda m, h, x: (h - x) / (2.0 + m.cos(x)),
    lambda m, h, x: m.matmul(constant(m, MATRIX), h),
    lambda m, h, x: m.sqrt(1.0 + h * h),
    lambda m, h, x: h[::-1] * 0.7 + x,
    lambda m, h, x: m.sum(h * x) * h,
    lambda m, h, x: m.concatenate([h[1:], x[:1]]) if m is np else m.concat([h[1:], x[:1]]),
    lambda m, h, x: m.where(constant(m, MASK), h, m.cos(h)),  # differences must not cross a jump
    lambda m, h, x: m.log(2.5 + m.sin(h)),
]


def constant(m: Any, value: np.ndarray) -> Any:
    wide = Wide if value.dtype.kind == "f" else value.dtype
    return value.astype(wide) if m is np else pb.tensor(value)


def program(seed: int) -> Callable[[Any, Any], Any]:
    """A smooth function of a vector, written once for both libraries."""
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(rng.randint(2, 4))]

    def f(m: Any, x: Any) -> Any:
        h = x
        for step in steps:
            h = step(m, h, x)
        return h

    return f


# -- the transforms -------------------------------------------------------------------------------


def grad(f: Vector) -> Vector:
    return pb.grad(lambda x: f(x).sum())


def jvp(f: Vector) -> Vector:
    return lambda x: pb.jvp(f, (x,), (pb.tensor(TANGENT),))[1]


def vmap(f: Vector) -> Vector:
    def mapped(x: Any) -> Any:
        y = pb.vmap(f)(pb.stack([x, 0.5 * x + 0.1]))
        return y[0] - 0.5 * y[1]

    return mapped


def scan(f: Vector) -> Vector:
    def scanned(x: Any) -> Any:
        def body(c: Any, s: Any) -> Any:
            c = pb.tanh(f(c)) * 0.5 + s * x
            return c, c * c

        last, squares = pb.scan(body, x, pb.tensor(SHIFTS))
        return last + squares.sum(axis=0)

    return scanned


TRANSFORMS: dict[str, Callable[[Vector], Vector]] = {
    "grad": grad,
    "jvp": jvp,
    "vmap": vmap,
    "compile": lambda f: pb.compile(f),
    "checkpoint": lambda f: pb.checkpoint(f),
    "scan": scan,
}

# -- their meaning --------------------------------------------------------------------------------

# Central differences of eighth order: with 64 bits of mantissa, three of them inside each other
# still leave ten digits.
OFFSETS = np.array([1, 2, 3, 4])
WEIGHTS = np.array([4 / Wide(5), -1 / Wide(5), 4 / Wide(105), -1 / Wide(280)], Wide)
STEP = Wide(1) / 256


def difference(f: Vector, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The derivative of f along t."""
    pairs = [f(x + k * STEP * t) - f(x - k * STEP * t) for k in OFFSETS]
    return sum(w * p for w, p in zip(WEIGHTS, pairs, strict=True)) / STEP


def np_grad(f: Vector) -> Vector:
    basis = np.eye(WIDTH, dtype=Wide)
    return lambda x: np.array([difference(lambda v: f(v).sum(), x, e) for e in basis], Wide)


def np_vmap(f: Vector) -> Vector:
    return lambda x: f(x) - 0.5 * f(Wide(0.5) * x + Wide(0.1))


def np_scan(f: Vector) -> Vector:
    def scanned(x: np.ndarray) -> np.ndarray:
        c, total = x, np.zeros(WIDTH, Wide)
        for s in SHIFTS.astype(Wide):
            c = np.tanh(f(c)) * Wide(0.5) + s * x
            total = total + c * c
        return c + total

    return scanned


MEANING: dict[str, Callable[[Vector], Vector]] = {
    "grad": np_grad,
    "jvp": lambda f: lambda x: difference(f, x, TANGENT.astype(Wide)),
    "vmap": np_vmap,
    "compile": lambda f: f,
    "checkpoint": lambda f: f,
    "scan": np_scan,
}

POINT = np.array([0.37, -0.52, 0.81])


def check(names: Sequence[str], seed: int, engines: Sequence[str]) -> None:
    """The composition `names[0](names[1](... f))` of a random program, on each engine."""
    f = program(seed)
    want: Vector = lambda x: f(np, x)  # noqa: E731
    got: Vector = lambda x: f(pb, x)  # noqa: E731
    for name in reversed(names):
        want, got = MEANING[name](want), TRANSFORMS[name](got)
    expected = want(POINT.astype(Wide)).astype(np.float64)
    for engine in engines:
        with pb.config(engine=engine):
            value = got(pb.tensor(POINT)).numpy()
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-8, err_msg=f"{names} {seed}")
