"""Measure the errors of elementwise functions against mpmath and write docs/accuracy.md.

python tools/accuracy.py docs/accuracy.md --points 2000
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from mpmath.libmp import NoConvergence

sys.path.insert(0, str(Path(__file__).resolve().parent))

from accuracy_cases import CASES, AccuracyCase

import pullback as pb

ENGINES = ("xla", "reference")
BITS = 140  # of mpmath's numbers


def points_of(case: AccuracyCase, dtype: type, count: int) -> list[np.ndarray]:
    """Sample the operands; a function's points do not depend on the others that are measured."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
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
        except (ValueError, ZeroDivisionError, NoConvergence, OverflowError):
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


def measure(
    case: AccuracyCase, count: int, engines: Sequence[str] = ENGINES, verbose: bool = False
) -> dict[tuple, float]:
    """Return the largest error by dtype and kind ("value" or "derivative")."""
    made: dict[tuple, float] = {}
    for dtype in (np.float32, np.float64):
        xs = points_of(case, dtype, max(count // case.cost, 4))
        rows = [tuple(map(mp.mpf, row)) for row in zip(*[x.tolist() for x in xs], strict=True)]
        columns = [(case.value, case.scale), *[(f, case.slope_scale) for f in case.partials]]
        wanted = [(exact(f, rows), scale) for f, scale in columns]
        for engine in engines:
            results = computed(case, xs, engine)
            for k, (got, (values, scale)) in enumerate(zip(results, wanted, strict=True)):
                error, place = errors_in_ulp(got, values, rows, scale)
                key = (np.dtype(dtype).name, "derivative" if k else "value")
                made[key] = max(made.get(key, 0.0), error)
                if verbose:
                    where = [float(x[place]) for x in xs]
                    print(f"{case.name:14} {key[0]} {engine:9} {k} {error:8.2f} {where}")
    return made


PAGE = """# Accuracy

The largest errors of elementwise functions, in units of the last place (ulp): the distance between
neighbouring numbers of the dtype at the exact value. `make docs-accuracy` measures them against
mpmath, on random numbers over the domain of each function, and writes this page. Each figure is
the larger of both engines, XLA on a CPU and the reference engine. Derivatives are partial
derivatives by reverse mode. 16-bit floats are computed in f32 and rounded.

The aim is 4 ulp for values and 16 ulp for derivatives. Functions that miss it come last, with the
reason. Results that are subnormal or overflow are left out: XLA's CPU code has no subnormal
numbers.

Where a result crosses zero, its relative error is bounded only if the zero is treated by itself, as
it is for `lgamma`, `digamma`, `erfinv` and others. Elsewhere errors are measured in ulp of a scale
that the last column names.

"""


def shown(error: float) -> str:
    """Return an error with two digits."""
    return "inf" if np.isinf(error) else f"{error:.1f}" if error < 10 else f"{error:.0f}"


def page_of(rows: Sequence[tuple[AccuracyCase, dict]]) -> str:
    """Return the page."""
    keys = [(d, k) for k in ("value", "derivative") for d in ("float32", "float64")]
    head = "| function | value f32 | f64 | derivative f32 | f64 | |\n|---|---|---|---|---|---|\n"
    tables: dict[bool, list[str]] = {True: [], False: []}
    for case, errors in rows:
        cells = " | ".join(shown(errors[k]) for k in keys)
        aim = all(errors[k] <= (4 if k[1] == "value" else 16) for k in keys)
        tables[aim].append(f"| `{case.name}` | {cells} | {case.reason} |\n")
    page = PAGE + head + "".join(tables[True])
    if tables[False]:
        page += "\n## Exceptions\n\n" + head + "".join(tables[False])
    return page


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, and fail if a function exceeds its limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--points", type=int, default=800)
    given = parser.parse_args(arguments)
    rows, failed = [], []
    with mp.workprec(BITS):
        for case in CASES:
            errors = measure(case, given.points)
            rows.append((case, errors))
            failed += [f"{case.name} {k}: {v:.1f} ulp" for k, v in errors.items()
                       if v > case.limits[k[1] == "derivative"]]  # fmt: skip
    given.page.write_text(page_of(rows), encoding="utf-8")
    if failed:
        sys.exit("beyond the limits of tools/accuracy_cases.py:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
