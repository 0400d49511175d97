"""Tables of calls whose results NumPy knows, run by both engines, on XLA as one program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb

Row = tuple[str, Callable[[], Any], Any]  # a label, the call, and the array or arrays it must give


def check_rows(
    rows: Sequence[Row], rtol: float = 1e-9, atol: float = 1e-11,
    engines: Sequence[str] = ("reference", "xla"),
) -> None:  # fmt: skip
    """Every call gives the value, shape and dtype of its array, on both engines."""
    for engine in engines:
        with pb.config(engine=engine), warnings.catch_warnings(), np.errstate(all="ignore"):
            made = [pb.tree.leaves(call()) for _, call, _ in rows]
            pb.evaluate(made)
            for (label, _, want), got in zip(rows, made, strict=True):
                wanted = want if isinstance(want, (tuple, list)) else [want]
                assert len(got) == len(wanted), label
                for g, w in zip(got, map(np.asarray, wanted), strict=True):
                    assert (g.shape, g.dtype.numpy) == (w.shape, w.dtype), f"{engine}: {label}"
                    np.testing.assert_allclose(
                        g.numpy(), w, rtol=rtol, atol=atol, err_msg=f"{engine}: {label}"
                    )


def check_second_order(functions: Sequence[Callable], *args: np.ndarray) -> None:
    """Both modes agree with differences to second order, all functions at once."""
    with pb.config(engine="reference"):
        tensors = tuple(map(pb.tensor, args))
        pb.check_grads(lambda *xs: [f(*xs) for f in functions], tensors, order=2)
