"""Compare linear algebra with NumPy and SciPy in one run; print ratios.

Both sides are timed in turn, round by round, so that a slow minute of the machine affects both; the
best round counts. Ratios below 1 mean that pullback is faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

import pullback as pb

Case = tuple[str, Callable[..., Any], Callable[..., Any], str]  # operands: a, b, s (symmetric)


def cases() -> list[Case]:
    """Names, pullback's function, the reference, and which operands they take."""
    la, np_la, sp = pb.linalg, np.linalg, scipy.linalg
    return [
        ("solve", la.solve, np_la.solve, "ab"),
        ("inv", la.inv, np_la.inv, "a"),
        ("det", la.det, np_la.det, "a"),
        ("slogdet", la.slogdet, np_la.slogdet, "a"),
        ("cholesky", la.cholesky, np_la.cholesky, "s"),
        ("qr", la.qr, np_la.qr, "a"),
        ("svd", la.svd, np_la.svd, "a"),
        ("svdvals", la.svdvals, lambda a: np_la.svd(a, compute_uv=False), "a"),
        ("eigh", la.eigh, np_la.eigh, "s"),
        ("eigvalsh", la.eigvalsh, np_la.eigvalsh, "s"),
        ("eig", la.eig, np_la.eig, "a"),
        ("lu_factor", la.lu_factor, lambda a: sp.lu_factor(a, check_finite=False), "a"),
        (
            "solve_triangular", lambda a, b: la.solve_triangular(a, b, lower=True),
            lambda a, b: sp.solve_triangular(a, b, lower=True, check_finite=False), "ab",
        ),
    ]  # fmt: skip


def operands(shape: tuple[int, ...], dtype: type) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    n = shape[-1]
    a = rng.standard_normal(shape) + n**0.5 * np.eye(n)
    s = a @ np.swapaxes(a, -1, -2)
    b = rng.standard_normal((*shape[:-1], min(n, 8)))
    return {k: v.astype(dtype) for k, v in {"a": a, "b": b, "s": s}.items()}


def best_times(ours: Callable, theirs: Callable, rounds: int, limit: float) -> tuple[float, float]:
    """The best seconds of both over alternating rounds, fewer if they take long."""
    found: list[list[float]] = [[], []]
    end = time.perf_counter() + limit
    for i in range(rounds):
        for times, f in zip(found, (ours, theirs), strict=True):
            start = time.perf_counter()
            f()
            times.append(time.perf_counter() - start)
        if i >= 2 and time.perf_counter() > end:
            break
    return min(found[0]), min(found[1])


def waited(f: Callable, *tensors: pb.Tensor) -> Callable[[], None]:
    """A call that returns when the results are there."""

    def call() -> None:
        made = f(*tensors)
        for y in made if isinstance(made, tuple) else (made,):
            y.numpy()

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each case")
    parser.add_argument("--only", default="", help="names of functions, separated by commas")
    parser.add_argument("--f32", action="store_true", help="f32 instead of f64")
    options = parser.parse_args()
    for shape in ((200, 200), (1000, 1000), (10_000, 8, 8)):
        arrays = operands(shape, np.float32 if options.f32 else np.float64)
        for name, ours, theirs, letters in cases():
            if options.only and name not in options.only.split(","):
                continue
            given = [arrays[k] for k in letters]
            call = waited(pb.compile(ours), *[pb.tensor(g) for g in given])
            call()  # compiles
            mine, other = best_times(
                call, lambda f=theirs, xs=given: f(*xs), options.rounds, options.seconds
            )
            size = " x ".join(map(str, shape))
            times = f"{mine * 1e3:10.3f} ms, NumPy/SciPy {other * 1e3:10.3f} ms"
            print(f"{name:17} {size:12} {times}, ratio {mine / other:5.2f}", flush=True)


if __name__ == "__main__":
    main()
