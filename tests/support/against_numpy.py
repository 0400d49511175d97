"""Many calls of public functions in one program, compared with those of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb

Call = tuple[Callable, Callable, tuple, dict[str, Any]]  # ours, NumPy's, and the arguments


def same_name(space: Any, theirs: Any, name: str, *args: Any, **kwargs: Any) -> Call:
    """The call of a function that has the same name in both."""
    return getattr(space, name), getattr(theirs, name), args, kwargs


def check_calls(calls: Sequence[Call], rtol: float = 1e-11, atol: float = 1e-12) -> None:
    """Check shapes, dtypes and values of all results, in each engine."""
    for engine in ("reference", "xla"):
        with pb.config(engine=engine), pb.default_dtype("float64"):
            made = [_listed(ours(*args, **kwargs)) for ours, _, args, kwargs in calls]
            pb.evaluate(made)
            for results, (ours, theirs, args, kwargs) in zip(made, calls, strict=True):
                label = f"{ours.__name__} {[np.shape(a) for a in args]} {kwargs} {engine}"
                wanted = _listed(theirs(*args, **kwargs))
                assert len(results) == len(wanted), label
                for got, want in zip(results, map(np.asarray, wanted), strict=True):
                    assert (got.shape, got.dtype.numpy) == (want.shape, want.dtype), label
                    np.testing.assert_allclose(got.numpy(), want, rtol, atol, err_msg=label)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (tuple, list)) else [made]
