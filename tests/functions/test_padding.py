"""Padding in the modes of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told
from numpy_tables import check_rows, check_second_order

import pullback as pb
from pullback.errors import ArgumentError, AxisError, ShapeError

RNG = np.random.default_rng(5)
MODES = [
    ("constant", {"constant_values": 3}), ("constant", {"constant_values": (1, 2)}), ("edge", {}),
    ("wrap", {}), ("reflect", {}), ("symmetric", {}), ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {"reflect_type": "odd"}), ("linear_ramp", {}), ("linear_ramp", {"end_values": 5}),
    ("maximum", {}), ("minimum", {"stat_length": 2}), ("mean", {}), ("mean", {"stat_length": 3}),
    ("median", {}), ("median", {"stat_length": (2, 1)}),
]  # fmt: skip


def test_every_mode_agrees_with_numpy():
    rows, compiled = [], []
    for shape in ((1,), (5,), (3, 4)):
        for width in (1, (0, 3), 9):
            x = RNG.uniform(0, 50, shape)
            for dtype in ("float64", "int64", "uint8"):
                if dtype != "float64" and width == (0, 3):
                    continue
                a = x.astype(dtype)
                for mode, k in MODES:
                    want = np.pad(a, width, mode, **k)
                    call = lambda a=a, w=width, m=mode, k=k: pb.pad(a, w, m, **k)  # noqa: E731
                    rows.append((f"{mode} {k} {dtype}{shape} {width}", call, want))
                    if shape == (5,) and width == (9 if dtype == "float64" else 1):
                        compiled.append(rows[-1])
    check_rows(rows, 1e-8, 1e-8, ["reference"])
    check_rows(compiled, 1e-8, 1e-8, ["xla"])


def test_forms_of_widths_and_values():
    x = np.arange(6.0).reshape(2, 3)
    calls = [
        (((1, 2), (0, 1)), {}), (((1, 2),), {}), ([[1], [2]], {}), ([2], {}), ({-1: (1, 2)}, {}),
        ({0: 1}, {}), (np.array([[1, 0], [0, 2]]), {}), (((0, 0), (0, 0)), {"mode": "edge"}),
        (1, {"constant_values": ((1, 2), (3, 4))}), (1, {"constant_values": np.array([[1], [2]])}),
        (2, {"mode": "linear_ramp", "end_values": ((-1, 1), (2, -2))}),
        (1, {"mode": "mean", "stat_length": ((1, 2), (3, 9))}),
    ]  # fmt: skip
    rows = [(f"{w} {k}", lambda w=w, k=k: pb.pad(x, w, **k), np.pad(x, w, **k)) for w, k in calls]
    rows += [
        ("rank 0", lambda: pb.pad(np.array(2.0), ()), np.array(2.0)),
        ("crop", lambda: pb.pad(x, ((0, 0), (-1, 1))), np.pad(x[:, 1:], ((0, 0), (0, 1)))),
        ("empty", lambda: pb.pad(x, 1, "empty")[1:-1, 1:-1], x),
        ("no elements", lambda: pb.pad(np.zeros((0, 2)), ((0, 0), (1, 1)), "edge"),
         np.zeros((0, 4))),
        ("np.pad", lambda: np.pad(pb.tensor(x), 2, "reflect"), np.pad(x, 2, "reflect")),
        ("complex", lambda: pb.pad(x * 1j, 1, "reflect"), np.pad(x * 1j, 1, "reflect")),
        ("NaN", lambda: pb.pad(np.array([1.0, np.nan]), 1, "median"),
         np.array([np.nan, 1.0, np.nan, np.nan])),
    ]  # fmt: skip
    check_rows(rows)


def test_padding_is_differentiable_and_maps():
    x = RNG.normal(size=(3, 2))
    check_second_order(
        [lambda x, m=m, k=k: pb.pad(x, 2, m, **k) ** 2 for m, k in MODES]
        + [lambda x: pb.pad(x, 1, constant_values=x[0, 0]), lambda x: pb.pad(x, 40, "wrap")],
        x,
    )
    rows = pb.tensor(RNG.normal(size=(4, 3)))
    got = pb.vmap(lambda r: pb.pad(r, (2, 1), "reflect"))(rows)
    np.testing.assert_array_equal(got.numpy(), np.pad(rows.numpy(), ((0, 0), (2, 1)), "reflect"))
    ends = pb.grad(lambda v: pb.pad(pb.ones(2), 1, "linear_ramp", end_values=v).sum())
    assert ends(pb.tensor(0.5)).item() == 2.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.pad([1.0], 1, "mirror"), ArgumentError, "pad: mode must be one of constant"),
        (lambda: pb.pad([1.0], 1, 2.0), ArgumentError, "Write constant_values=2.0"),
        (lambda: pb.pad([1.0], 1, "edge", constant_values=1), ArgumentError, "has no option const"),
        (lambda: pb.pad([1.0], -1, "edge"), ArgumentError, "pad_width must not be negative"),
        (lambda: pb.pad(pb.zeros(0), 1, "wrap"), ShapeError, "axis 0 of f32[0] is empty"),
        (lambda: pb.pad([1.0], ((1, 1), (1, 1))), ArgumentError, "for each of the 1 dimensions"),
        (lambda: pb.pad([1.0], (1, 2, 3)), ArgumentError, "for each of the 1 dimensions"),
        (lambda: pb.pad([1.0], {2: 1}), AxisError, "pad: axis 2 is out of range"),
        (lambda: pb.pad([1.0], 1.5), ArgumentError, "an amount of padding must be an integer"),
        (lambda: pb.pad([1.0], 1, "mean", stat_length=0), ArgumentError, "stat_length must be at"),
        (lambda: pb.pad([1.0], 1, "reflect", reflect_type="x"), ArgumentError, "reflect_type must"),
    ],
)
def test_wrong_padding(call, error, words):
    with told(error, Exception, words):
        call()
