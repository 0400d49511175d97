"""Created tensors: no memory until a value is needed, iotas inside traced functions."""

from __future__ import annotations

import numpy as np
import pytest
from counters import counting

import pullback as pb
from pullback.errors import DTypeError, OutOfMemory
from pullback.lazy.values import DeferredValue


def test_no_buffer_until_a_value_is_needed():
    wide = (2**20, 2**20)  # 4 TiB
    for x in (pb.zeros(wide), pb.ones(wide), pb.full(wide, 2.5), pb.eye(2**20), pb.arange(2**40)):
        assert isinstance(x._node.value, DeferredValue)
        assert x.dtype is not None and x.ndim in (1, 2)
    small = pb.arange(4)
    assert small.tolist() == [0, 1, 2, 3] and isinstance(small._node.value, np.ndarray)
    assert not small.numpy().flags.writeable


def test_lack_of_memory_names_the_line_of_creation(monkeypatch):
    def full(*args):
        raise MemoryError

    monkeypatch.setattr(np, "full", full)
    x = pb.zeros((2**10, 3))
    with pytest.raises(OutOfMemory, match=r"zeros: there is not .*\[1024, 3\].*creation\.py"):
        (x + 1).numpy()


def test_a_loop_that_starts_from_zeros_compiles_once():
    """A recorded node would make the first step a program of its own."""
    state, step = pb.zeros(3), pb.ones(3)
    with counting() as counts:
        for _ in range(4):
            state = state * 0.5 + step
            state.numpy()
        assert counts.compiles == 1
    assert state.tolist() == [1.875] * 3


VALUES = {
    "zeros": lambda m: m.zeros((2, 3)),
    "full": lambda m: m.full((2,), 7),
    "arange": lambda m: m.arange(-3, 40, 7),
    "arange down": lambda m: m.arange(5, -5, -2),
    "arange of large integers": lambda m: m.arange(2**62, 2**62 + 9, 4),
    "arange of floats": lambda m: m.arange(0.1, 1.3, 0.1),
    "empty arange": lambda m: m.arange(5, 2),
    "linspace": lambda m: m.linspace(0.1, 0.7, 11),
    "eye": lambda m: m.eye(3, 5, 1),
    "eye below": lambda m: m.eye(4, 2, k=-9),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_values_equal_numpy_also_inside_a_traced_function(name, engine):
    make = VALUES[name]
    with pb.config(engine=engine), pb.default_dtype("f64"):
        wanted = make(np)
        traced = pb.compile(lambda x: (make(pb), x))(pb.tensor(1.0))[0]
        for found in (make(pb), traced):
            assert found.numpy().tobytes() == wanted.tobytes() and found.shape == wanted.shape


def test_integers_and_eye_are_iotas_in_a_program_not_data():
    text = pb.compile(lambda x: x + pb.arange(1000) + pb.eye(1000)).lower(pb.ones(1000)).text()
    assert text.count("Iota") >= 2 and len(text) < 3000


def test_integers_beyond_those_of_64_bits_are_exact_or_refused():
    """NumPy makes floats of a list with small integers and some beyond i64."""
    most = 2**64 - 1
    assert pb.asarray([1, most], dtype="uint64").tolist() == [1, most]
    assert pb.asarray([[0, 2**63 + 1]], dtype=pb.uint64).tolist() == [[0, 2**63 + 1]]
    assert pb.asarray([1, most], dtype="float64").tolist() == [1.0, 2.0**64]
    for data, dtype in (([1, 2**63], None), ([1, 2**63], "int64"), ([-1, 2**63], "uint64")):
        with pytest.raises(DTypeError, match="an integer does not fit into"):
            pb.asarray(data, dtype)
    assert pb.arange(2**63, 2**63 + 4, 2, dtype="uint64").tolist() == [2**63, 2**63 + 2]
    for call in (
        lambda: pb.arange(2**63, 2**63 + 2), lambda: pb.full(2, 300, dtype="int8"),
        lambda: pb.full_like([1], 1j), lambda: pb.full(2, float("nan"), dtype="int32"),
    ):  # fmt: skip
        with pytest.raises(DTypeError, match="not fit into"):
            call()
