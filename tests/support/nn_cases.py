"""Checks of functions of neural networks against NumPy, from a table of cases.

A case is the call, its definition in NumPy, and the arguments of both. Arrays of floats are the
arguments that get derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

Case = tuple[Any, ...]  # a function of tensors, the same in NumPy, and arrays
RNG = np.random.default_rng(7)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, shape)


def _is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def _tensors(arrays: list) -> list:
    return [pb.tensor(a) if _is_float(a) else a for a in arrays]


def check_values(cases: dict[str, Case]) -> None:
    """All values, computed in one program."""
    found = pb.evaluate({name: f(*_tensors(arrays)) for name, (f, _, *arrays) in cases.items()})
    for name, (_, wanted, *arrays) in cases.items():
        expected = np.asarray(wanted(*arrays))
        assert found[name].shape == expected.shape, name
        assert found[name].dtype is pb.float64 or expected.dtype.kind != "f", name
        np.testing.assert_allclose(found[name].numpy(), expected, 1e-9, 1e-11, err_msg=name)


def of_floats(f: Callable, arrays: list) -> tuple[Callable, list]:
    """A function of the float arguments alone, and those as tensors."""
    places = [i for i, a in enumerate(arrays) if _is_float(a)]

    def call(*xs: Any) -> Any:
        given = list(arrays)
        for i, x in zip(places, xs, strict=True):
            given[i] = x
        return f(*given)

    return call, [pb.tensor(arrays[i]) for i in places]


def check_derivatives(cases: dict[str, Case], order: int = 2) -> None:
    """Both modes agree with differences, and batching with a loop."""
    with pb.config(engine="reference"):
        for name, (f, _, *arrays) in cases.items():
            call, (first, *rest) = of_floats(f, arrays)
            try:
                pb.check_grads(call, (first, *rest), order=order)
            except Exception as error:
                raise AssertionError(f"derivatives of {name}") from error
            both = pb.stack([first, first * 0.5 + 0.25])
            rows = pb.vmap(call, in_axes=(0, *(None,) * len(rest)))(both, *rest)
            for i in (0, 1):
                wanted = call(both[i], *rest).numpy()
                np.testing.assert_allclose(rows[i].numpy(), wanted, 1e-9, 1e-11, err_msg=name)


def check_dtypes(cases: dict[str, Case], tol: float = 0.03) -> None:
    """Results have the dtype of the arguments, and agree with f64 as far as it goes."""
    with pb.config(engine="reference"):
        for name, (f, wanted, *arrays) in cases.items():
            expected = np.asarray(wanted(*arrays), np.float64)
            for dtype in (pb.float16, pb.bfloat16, pb.float32):
                given = [pb.tensor(a, dtype) if _is_float(a) else a for a in arrays]
                found = f(*given)
                assert found.dtype is dtype, (name, dtype)
                size = np.abs(expected).max(initial=1.0)
                off = np.abs(found.numpy().astype(np.float64) - expected).max(initial=0)
                assert off <= size * tol * (1e-3 if dtype is pb.float32 else 1), (name, dtype, off)
