"""Compare the results of the libraries before anything is timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def disagreement(files: dict[str, Path], tolerance: float) -> str:
    """Describe the first difference between the results of libraries; "" if they agree.

    Each result is compared as a whole: the norm of the difference may be `tolerance` times the
    norm of the result.
    """
    found = {library: dict(np.load(path)) for library, path in files.items()}
    (first, expected), *others = found.items()
    for name, value in expected.items():
        if not np.isfinite(value).all():
            return f"{name} of {first} is not finite"
    for library, results in others:
        if results.keys() != expected.keys():
            missing = ", ".join(sorted(results.keys() ^ expected.keys())[:3])
            return f"only one of {first} and {library} has {missing}"
        for name, value in expected.items():
            other = results[name]
            if other.shape != value.shape:
                return f"{name} is {value.shape} in {first} and {other.shape} in {library}"
            error = relative_error(other, value)
            if not error <= tolerance:
                return f"{name} of {first} and {library} differ by {error:.1e} of their norm"
    return ""


def relative_error(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    scale = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    return float(np.linalg.norm(x - y)) / scale if scale else 0.0
