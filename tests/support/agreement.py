"""Whether results agree: within rounding, with NaN as a value, and how far rounding can carry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from mixed_programs import STEPS, MixedProgram

import pullback as pb
from pullback import testing
from pullback.graph.dtypes import dtype

Arrays = list[np.ndarray]


def flat(made: Any) -> Arrays:
    return [y.numpy() for y in pb.tree.leaves(made)]


def disagreement(
    got: Arrays, want: Arrays, nudged: Sequence[Arrays] = (), values: int | None = None
) -> str | None:
    """Where results differ by more than rounding, or None; `nudged` shows how far that carries.

    The results after the first `values` may be infinite where NaN is expected, and the reverse:
    a derivative of a traced function adds the cotangents of equal steps before it multiplies.
    """
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return f"result {i}: {g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
        wrong = different(g, w)
        if nudged and wrong.any():
            wrong &= ~_explained(g, w, [results[i] for results in nudged])
            if values is not None and i >= values:
                wrong &= np.isfinite(g) | np.isfinite(w)
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            return f"result {i} at {place}: {g[place]}, expected {w[place]}"
    return None


def different(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The places where arrays differ by more than rounding, which is relative to the largest."""
    kind = dtype(w.dtype)
    if not kind.is_inexact:
        return np.asarray(g != w)
    finite = np.abs(w[np.isfinite(w)])
    scale = 1.0 + (float(finite.max()) if finite.size else 0.0)
    return ~(_distance(g, w) <= 100 * testing.TOLERANCE[kind.name] * scale)


def _distance(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """How far two arrays are from each other; infinitely, if only one is finite."""
    g, w = np.asarray(g, np.complex128), np.asarray(w, np.complex128)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.nan_to_num(np.abs(g - w), nan=np.inf))


def _explained(g: np.ndarray, w: np.ndarray, nudged: Arrays) -> np.ndarray:
    """The places where nudged results are as far apart, or jump to the same value."""
    spread = np.max([_distance(y, w) for y in nudged], axis=0)
    jumps = np.any([~different(g, y) for y in nudged], axis=0)
    return jumps | ((_distance(g, w) <= 20 * spread) & np.isfinite(spread))


def nudged(program: MixedProgram, trials: int = 8) -> list[Arrays]:
    """What the program gives when the value of each step moves by a few units in the last place."""
    made = []
    for trial in range(trials):
        rng = np.random.default_rng([14, program.seed, trial])
        f = program.function([functools.partial(_nudged_step, rng, step) for step in STEPS])
        made.append(flat(program.derivatives(f)(*program.tensors())))
    return made


def _nudged_step(rng: np.random.Generator, step: Callable, a: Any, pool: list, n: int) -> Any:
    y = step(a, pool, n)
    if not dtype(y.dtype).is_inexact:
        return y
    ulps = rng.choice([-4.0, 0.0, 4.0], y.shape) * pb.finfo(y.dtype).eps
    y = y * pb.astype(pb.tensor(1.0 + ulps), y.dtype)
    zero = pb.astype(pb.tensor(rng.choice([-0.0, 0.0], y.shape)), y.dtype)
    return pb.where(y == 0, y + zero, y)  # of zeros that compare equal, an op may return either


def differences(program: MixedProgram, step: float) -> Arrays:
    """The slope of each float result along the program's tangents."""
    f = program.function()
    sides = []
    for s in (step, -step):
        xs = [pb.tensor(x + s * t) for x, t in zip(program.floats, program.tangents, strict=True)]
        made = flat(f(*map(pb.tensor, program.others), *xs))
        sides.append([y for y in made if dtype(y.dtype).is_inexact])
    return [(a.astype(float) - b) / (2 * step) for a, b in zip(*sides, strict=True)]


def inner(xs: Iterable[np.ndarray], ys: Iterable[np.ndarray]) -> tuple[float, float]:
    """The inner product, and the sum of the absolute values of its terms."""
    terms = [x.astype(float) * y.astype(float) for x, y in zip(xs, ys, strict=True)]
    return sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)


def bits(a: np.ndarray) -> bytes:
    """The bytes of an array in which every NaN is the same."""
    if dtype(a.dtype).is_inexact:
        a = np.where(np.isnan(a), np.array(np.nan, a.dtype), a)
    return a.tobytes()
