"""Compare linear algebra with NumPy and SciPy in one run; print ratios.

Each side runs in a process of its own, because NumPy and SciPy bring a library of linear algebra
each, whose threads keep the cores busy for a while after a call. The sides take turns, after a
pause in which these threads go to sleep; the best call counts. Where NumPy and SciPy both have a
function, the faster one is the reference. Ratios below 1 mean that pullback is faster.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = ((200, 200), (1000, 1000), (10_000, 8, 8))
# name -> operands (s is symmetric), NumPy's and SciPy's calls
CASES = {
    "solve": ("ab", "np.solve(a, b)", "sp.solve(a, b)"),
    "inv": ("a", "np.inv(a)", "sp.inv(a)"),
    "det": ("a", "np.det(a)", "sp.det(a)"),
    "slogdet": ("a", "np.slogdet(a)", ""),
    "cholesky": ("s", "np.cholesky(s)", "sp.cholesky(s, lower=True)"),
    "qr": ("a", "np.qr(a)", "sp.qr(a, mode='economic')"),
    "svd": ("a", "np.svd(a)", "sp.svd(a)"),
    "svdvals": ("a", "np.svd(a, compute_uv=False)", "sp.svdvals(a)"),
    "eigh": ("s", "np.eigh(s)", "sp.eigh(s, driver='evd')"),
    "eigvalsh": ("s", "np.eigvalsh(s)", "sp.eigvalsh(s)"),
    "eig": ("a", "np.eig(a)", "sp.eig(a)"),
    "lu_factor": ("a", "", "sp.lu_factor(a)"),
    "solve_triangular": ("ab", "", "sp.solve_triangular(a, b, lower=True)"),
}
OURS = {"solve_triangular": "la.solve_triangular(a, b, lower=True)"}


def operands(shape: tuple[int, ...], dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    n = shape[-1]
    a = rng.standard_normal(shape) + n**0.5 * np.eye(n)
    s = a @ np.swapaxes(a, -1, -2)
    b = rng.standard_normal((*shape[:-1], min(n, 8)))
    return {k: v.astype(dtype) for k, v in {"a": a, "b": b, "s": s}.items()}


def reference_calls(name: str, arrays: dict[str, np.ndarray]) -> list[Callable[[], Any]]:
    """The calls of NumPy and SciPy, without the tests for finite numbers that SciPy adds."""
    import scipy.linalg

    class WithoutChecks:
        def __getattr__(self, function: str) -> Any:
            f = getattr(scipy.linalg, function)
            return lambda *xs, **options: f(*xs, check_finite=False, **options)

    names = {"np": np.linalg, "sp": WithoutChecks(), **arrays}
    batched = arrays["a"].ndim > 2  # SciPy loops over batches in Python
    texts = [t for t in CASES[name][1:] if t]
    return [eval(f"lambda: {t}", names) for t in (texts[:1] if batched else texts)]


def own_calls(name: str, arrays: dict[str, np.ndarray]) -> list[Callable[[], Any]]:
    """A call of the compiled function that returns when the results are there."""
    import pullback as pb

    letters = ", ".join(CASES[name][0])
    text = OURS.get(name, f"la.{name}({letters})")
    f = pb.compile(eval(f"lambda {letters}: {text}", {"la": pb.linalg}))
    tensors = [pb.tensor(arrays[k]) for k in CASES[name][0]]

    def call() -> None:
        made = f(*tensors)
        for y in made if isinstance(made, tuple) else (made,):
            y.numpy()

    return [call]


def serve(pipe: Any, make: Callable, dtype: str) -> None:
    """Time what is asked for: the best seconds of each of a side's calls, within a time limit."""
    made: dict[tuple, list[Callable[[], Any]]] = {}
    while (asked := pipe.recv()) is not None:
        name, shape, seconds = asked
        if asked not in made:
            made.clear()
            made[asked] = make(name, operands(shape, dtype))
            for f in made[asked]:
                f()  # compiles
        best = []
        for f in made[asked]:
            times, end = [], time.perf_counter() + seconds
            while not times or (time.perf_counter() < end and len(times) < 50):
                start = time.perf_counter()
                f()
                times.append(time.perf_counter() - start)
            best.append(min(times))
        pipe.send(min(best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each case, side and round")
    parser.add_argument("--only", default="", help="names of functions, separated by commas")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--threads", type=int, help="of LAPACK, on both sides")
    parser.add_argument("--sizes", type=int, default=3, help="how many of the three sizes")
    options = parser.parse_args()
    if options.threads is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)  # both processes inherit it
    context = multiprocessing.get_context("spawn")
    sides = []
    for make in (own_calls, reference_calls):
        here, there = context.Pipe()
        context.Process(target=serve, args=(there, make, options.dtype), daemon=True).start()
        sides.append(here)
    for shape in SHAPES[: options.sizes]:
        for name in options.only.split(",") if options.only else CASES:
            best = [np.inf, np.inf]
            for _ in range(options.rounds):
                for i, side in enumerate(sides):
                    side.send((name, shape, options.seconds))
                    best[i] = min(best[i], side.recv())
                    time.sleep(0.12)
            size = " x ".join(map(str, shape))
            times = f"{best[0] * 1e3:10.3f} ms, NumPy/SciPy {best[1] * 1e3:10.3f} ms"
            print(f"{name:17} {size:12} {times}, ratio {best[0] / best[1]:5.2f}", flush=True)
    for side in sides:
        side.send(None)


if __name__ == "__main__":
    main()
