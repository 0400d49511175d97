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


def check_calls(calls: Sequence[Call], compiled: int = 1) -> None:
    """Check shapes, dtypes and values of all results in the reference engine.

    One call in `compiled` is compiled too: the functions are made of ops whose engines other tests
    compare, and compiling takes most of the time.
    """
    for engine, chosen in (("reference", calls), ("xla", calls[::compiled])):
        with pb.config(engine=engine), pb.default_dtype("float64"):
            made = [_listed(ours(*args, **kwargs)) for ours, _, args, kwargs in chosen]
            pb.evaluate(made)
            for results, call in zip(made, chosen, strict=True):
                _check_call(results, call, engine)


def _check_call(results: list[Any], call: Call, engine: str) -> None:
    ours, theirs, args, kwargs = call
    label = f"{ours.__name__} {[getattr(a, 'shape', a) for a in args]} {kwargs} {engine}"
    with np.errstate(all="ignore"):
        wanted = [np.asarray(v) for v in _listed(theirs(*args, **kwargs))]
    assert len(results) == len(wanted), label
    for got, want in zip(results, wanted, strict=True):
        assert (got.shape, got.dtype.numpy) == (want.shape, want.dtype), label
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12, err_msg=label)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (tuple, list)) else [made]
