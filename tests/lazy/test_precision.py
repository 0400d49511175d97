"""A warning where NumPy's default float64 widens a computation: once a line, and only there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import line

import pullback as pb
from pullback.errors import PrecisionWarning
from pullback.lazy import numpy_precision


def warned(act) -> list[str]:
    """Return the warnings of `act`."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    assert all(w.category is PrecisionWarning for w in found)
    assert all(w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


W64, X32 = np.ones(3), pb.ones(3)


@pytest.mark.parametrize(
    "widen",
    [
        lambda w: w * X32,
        lambda w: X32 + (w * 2).sin(),
        lambda w: X32 * W64,
        lambda w: pb.where(X32 > 0, X32, w),
        lambda w: pb.concat([X32, w]),
        lambda w: X32 @ w,
        lambda w: pb.stack([X32, w.astype("complex128")]),
        lambda w: pb.grad(lambda x: (x * w).sum())(X32),
        lambda w: pb.compile(lambda x, w: x - w)(X32, W64),
        lambda w: pb.tensor(W64, requires_grad=True) / X32,
    ],
)
def test_widening_is_told_once(widen):
    made, here = pb.tensor(W64), line()
    (text,) = warned(lambda: widen(made))
    assert "f32 becomes" in text and "float32" in text and "precision_warnings=False" in text
    assert "test_precision.py:" in text and (here in text or "W64" not in here)
    assert not warned(lambda: widen(made))


def test_what_was_asked_for_is_not_told():
    w = pb.tensor(W64)
    for quiet in (
        lambda: w * w, lambda: w * 2.0, lambda: [1.0, 2.0, 3.0] - w, lambda: w * pb.arange(3),
        lambda: X32 * pb.tensor(W64, dtype="float64"), lambda: X32 * pb.ones(3, dtype="float64"),
        lambda: X32 * np.float64(2), lambda: X32.astype("float64") + X32, lambda: w > 0.5,
        lambda: X32 + pb.tensor(np.ones(3, np.float32)), lambda: X32 * w.astype("float32"),
    ):  # fmt: skip
        assert not warned(quiet)


def test_the_warning_can_be_switched_off():
    w = pb.tensor(W64)
    with pb.config(precision_warnings=False):
        assert not warned(lambda: w + X32)
    with pb.default_dtype("float64"):
        assert not warned(lambda: w - X32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        assert (w / X32).dtype is pb.float64
    with pytest.raises(pb.errors.ArgumentError, match="precision_warnings must be True or False"):
        pb.config(precision_warnings="no")


def test_as_an_error_it_is_raised_each_time():
    w = pb.tensor(W64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        for _ in range(2):
            with pytest.raises(PrecisionWarning):
                w * X32


def test_a_loop_that_widens_looks_at_each_value_once(monkeypatch):
    looked = []
    wide = numpy_precision._is_wide_precision
    monkeypatch.setattr(
        numpy_precision, "_is_wide_precision", lambda t: looked.append(t) or wide(t)
    )
    x = pb.ones(3, dtype="float64")
    for _ in range(100):
        x = x + X32
    assert len(looked) <= 300  # of each sum, the operands and what was converted
    assert warned(lambda: x * pb.tensor(W64) + X32)
