"""Measure the errors of elementwise functions against mpmath and write docs/accuracy.md.

python tools/accuracy.py docs/accuracy.md [--points 2000] [--only name,name]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from accuracy_cases import CASES, AccuracyCase

import pullback as pb

ENGINES = ("xla", "reference")
BITS = 140  # of mpmath's numbers


def points_of(case: AccuracyCase, dtype: type, count: int) -> list[np.ndarray]:
    """Sample the operands; a function's points do not depend on the others that are measured."""
    rng = np.random.default_rng(len(case.name) + 31 * ord(case.name[0]))
    return [np.asarray(domain(rng, count)).astype(dtype) for domain in case.domains]


def computed(case: AccuracyCase, xs: Sequence[np.ndarray], engine: str) -> list[np.ndarray]:
    """Return the value and the partial derivatives on an engine."""
    with pb.config(engine=engine), np.errstate(all="ignore"):
        y, pull = pb.vjp(case.function, *[pb.tensor(x) for x in xs])
        slopes = pull(pb.ones_like(y))
        slopes = slopes if isinstance(slopes, tuple) else (slopes,)
        return [y.numpy(), *[s.numpy() for s in slopes]]


def exact(f: Any, rows: Sequence[tuple]) -> list[Any]:
    """Evaluate a function of mpmath at points; None where it does not converge."""
    made = []
    for row in rows:
        try:
            value = f(*row)
            made.append(value if isinstance(value, mp.mpf) else mp.mpf(value.real))
        except (ValueError, ZeroDivisionError, mp.NoConvergence, OverflowError):
            made.append(None)
    return made


def errors_in_ulp(
    got: np.ndarray, wanted: Sequence[Any], rows: Sequence[tuple], scale: Any
) -> tuple[float, int]:
    """Return the largest error in units of the last place of the exact value (or of the scale, if
    that is larger), and where it is. Values that the dtype cannot hold are left out."""
    info = np.finfo(got.dtype)
    worst, place = 0.0, 0
    for i, (found, value, row) in enumerate(zip(got.tolist(), wanted, rows, strict=True)):
        if value is None or not info.tiny * 4 < abs(value) < info.max / 4:
            continue
        size = max(abs(value), abs(scale(*row))) if scale else abs(value)
        unit = float(np.spacing(got.dtype.type(float(size))))
        error = float(abs(mp.mpf(found) - value) / unit) if np.isfinite(found) else np.inf
        if error > worst:
            worst, place = error, i
    return worst, place


def measure(case: AccuracyCase, count: int, verbose: bool = False) -> dict[tuple, float]:
    """Return the largest error by dtype and kind ("value" or "derivative")."""
    made: dict[tuple, float] = {}
    for dtype in (np.float32, np.float64):
        xs = points_of(case, dtype, max(count // case.cost, 20))
        rows = [tuple(map(mp.mpf, row)) for row in zip(*[x.tolist() for x in xs], strict=True)]
        columns = [(case.value, case.scale), *[(f, case.slope_scale) for f in case.partials]]
        wanted = [(exact(f, rows), scale) for f, scale in columns]
        for engine in ENGINES:
            results = computed(case, xs, engine)
            for k, (got, (values, scale)) in enumerate(zip(results, wanted, strict=True)):
                error, place = errors_in_ulp(got, values, rows, scale)
                key = (np.dtype(dtype).name, "derivative" if k else "value")
                made[key] = max(made.get(key, 0.0), error)
                if verbose:
                    where = [float(x[place]) for x in xs]
                    print(f"{case.name:14} {np.dtype(dtype).name} {engine:9} {k} {error:8.2f} {where}")
    return made
