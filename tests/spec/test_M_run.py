"""Running modules: inputs by name, outputs in order, every run-time code (M71, M72, M74)."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import pytest
from modules import build, feed, op

import pullback as pb
from pullback import ir
from pullback.engines.reference import ReferenceProgram
from pullback.errors import (
    ArgumentError,
    DTypeError,
    EngineError,
    IndexOutOfRange,
    InvalidNumber,
    NumericOverflow,
    OutOfMemory,
    PullbackError,
    ShapeError,
    TimeLimit,
)
from pullback.graph.op_table import TABLE
from pullback.lazy.launch import state
from pullback.ops.elementwise.elementwise import Unary

ENGINES = ["reference", "xla"]
engines = pytest.mark.parametrize("engine", ENGINES)
X = '%0 = Input() {name: "x"} : Tensor<f32, [2]>\n'
EXP = ir.parse(X + "%1 = Exp(%0) : Tensor<f32, [2]>\noutputs: %1, %0\n")


@engines
def test_outputs_come_in_order(engine):
    y, x = ir.run(EXP, {"x": np.zeros(2, "f")}, engine=engine)
    assert (y.tolist(), x.tolist()) == ([1, 1], [0, 0])
    assert y.dtype == np.float32 and y.flags.writeable


def test_numbers_and_lists_take_the_declared_dtype():
    module = build(op("Add"), (2,), ())
    assert ir.run(module, {"x": [1, 2], "y": 0.5})[0].tolist() == [1.5, 2.5]
    assert ir.run(module, {"x": pb.ones(2, dtype="float64"), "y": 2})[0].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("inputs", "kind", "what"),
    [
        ({}, ArgumentError, "input 'x' is missing"),
        ({"x": [1.0, 2.0], "z": 1.0}, ArgumentError, "there is no input 'z', only 'x'"),
        ({"x": [1.0]}, ShapeError, r"'x' is declared as f32\[2\], got f32\[1\]"),
        ({"x": np.ones(2)}, DTypeError, r"'x' is declared as f32\[2\], got f64\[2\]"),
        ({"x": [1j, 2j]}, DTypeError, r"'x' is declared as f32\[2\], got complex64\[2\]"),
    ],
)
def test_inputs_that_do_not_fit(inputs, kind, what):
    with pytest.raises(kind, match=what):
        ir.run(EXP, inputs)


@engines
def test_M71_E6001_an_index_out_of_range(engine):
    module = ir.parse(
        X + '%1 = Input() {name: "i"} : Tensor<i64, [3]>\n'
        "%2 = Gather(%0, %1) : Tensor<f32, [3]>\noutputs: %2\n"
    )
    with pytest.raises(IndexOutOfRange, match=r"line 3") as caught:
        ir.run(module, {"x": [1.0, 2.0], "i": [0, 1, 2]}, engine=engine)
    assert caught.value.code == "E6001"


@pytest.mark.parametrize("engine", ["tpu", "xla:rocm", "xla:cpu:3", ""])
def test_M71_E6002_an_engine_that_is_missing(engine, monkeypatch):
    def execute(*_):
        raise AssertionError("something was executed")

    monkeypatch.setattr(ReferenceProgram, "run", execute)
    before = state.programs_run
    with pytest.raises(EngineError) as caught:
        ir.run(EXP, {"x": [1.0, 2.0]}, engine=engine)
    assert caught.value.code == "E6002"
    assert state.programs_run == before


@pytest.fixture
def table():
    """Remove invalid ops from the table after a test."""
    before = set(TABLE)
    yield
    for name in set(TABLE) - before:
        del TABLE[name]


@pytest.mark.usefixtures("table")
def test_M71_E6003_an_op_that_an_engine_does_not_have():
    class Unlowered(Unary):
        """An op that only one engine implements."""

        ufunc = np.negative
        differentiable: ClassVar[bool] = False

        def partials(self, out, x):
            return (None,)

    module = build(Unlowered(), (2,), profile="extended")
    assert ir.run(module, {"x": [1.0, 2.0]}, engine="reference")[0].tolist() == [-1, -2]
    wanted = "xla does not support the instruction unlowered"
    with pytest.raises(EngineError, match=wanted) as caught:
        ir.run(module, {"x": [1.0, 2.0]}, engine="xla")
    assert caught.value.code == "E6003"


def test_M71_E6003_an_instruction_that_nobody_knows():
    module = ir.parse(X + "%1 = Frobnicate(%0) : Tensor<f32, [2]>\noutputs: %1\n")
    with pytest.raises(PullbackError) as caught:
        ir.run(module, {"x": [1.0, 2.0]})
    assert caught.value.code == "E6003"


def test_M71_log_of_what_is_not_positive_is_ieee():
    module = build(op("Log"), (3,))
    for engine in ENGINES:
        (got,) = ir.run(module, {"x": [0.0, -0.0, -1.0]}, engine=engine)
        assert got[:2].tolist() == [-np.inf, -np.inf] and np.isnan(got[2])


@engines
@pytest.mark.parametrize("shape", [(2**63 - 1, 2**63 - 1), (2**62, 4), (2**62, 2**62, 0)])
def test_E6004_sizes_that_do_not_fit_64_bits_end_no_process(engine, shape):
    module = build(lambda x: op("Sum", (0,), False)(op("Broadcast", shape)(x)), (),
                   profile="extended")  # fmt: skip
    with pytest.raises(OutOfMemory, match="not enough memory for f64"):
        ir.run(module, {"x": 1.0}, engine=engine)


def test_arguments_that_mean_nothing():
    for wrong in ({"inputs": [1.0, 2.0]}, {"timeout": "1"}, {"checks": "all"}):
        with pytest.raises(ArgumentError, match="run: "):
            ir.run(EXP, **{"inputs": {"x": [1.0, 2.0]}, **wrong})
    with pytest.raises(EngineError, match="engine must be xla or reference, got 3"):
        ir.run(EXP, {"x": [1.0, 2.0]}, engine=3)


@engines
def test_E6004_more_memory_than_there_is(engine):
    huge = (2**26, 2**26)  # 32 PiB: more than there are addresses, so nobody promises it
    module = build(lambda x: op("Exp")(op("Broadcast", huge)(x)), (), profile="extended")
    with pytest.raises(OutOfMemory) as caught:
        ir.run(module, {"x": 1.0}, engine=engine)
    assert caught.value.code == "E6004"


@engines
@pytest.mark.parametrize(
    ("x", "kind", "value"),
    [(1e3, NumericOverflow, 1), (-1.0, InvalidNumber, 3), (np.inf, InvalidNumber, 0),
     (np.nan, InvalidNumber, 0)],
)  # fmt: skip
def test_E6005_E6006_values_that_are_not_finite(engine, x, kind, value):
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f32, []>\n%1 = Exp(%0) : Tensor<f32, []>\n'
        "%2 = Neg(%1) : Tensor<f32, []>\n%3 = Log(%0) : Tensor<f32, []>\n"
        "%4 = BinOp(Add, %2, %3) : Tensor<f32, []>\noutputs: %4\n"
    )
    assert not np.isfinite(ir.run(module, {"x": x}, engine=engine)[0])
    with pytest.raises(kind, match=f"value %{value} ") as caught:
        ir.run(module, {"x": x}, engine=engine, checks="finite")
    assert caught.value.code == {NumericOverflow: "E6005", InvalidNumber: "E6006"}[kind]
    assert caught.value.values["value"] == value
    (got,) = ir.run(module, {"x": 2.0}, engine=engine, checks="finite")
    assert got == pytest.approx(np.log(2) - np.exp(2))


def test_checks_of_a_module_without_floats():
    module = ir.parse('%0 = Input() {name: "n"} : Tensor<i64, [2]>\noutputs: %0\n')
    assert ir.run(module, {"n": [1, 2]}, checks="finite")[0].tolist() == [1, 2]


def test_options_that_mean_nothing():
    with pytest.raises(ArgumentError, match='checks must be "finite"'):
        ir.run(EXP, {"x": [1.0, 2.0]}, checks="all")
    with pytest.raises(ArgumentError, match="timeout must be a positive number"):
        ir.run(EXP, {"x": [1.0, 2.0]}, timeout=0)


def rounds():
    """A module that takes the cosine n times."""

    def repeat(n):
        state = (pb.tensor(0), pb.tensor(0.0))
        return pb.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, pb.cos(s[1])), state)

    return ir.from_function(repeat, pb.tensor(0))


@engines
def test_E6007_the_time_limit(engine):
    module = rounds()
    assert ir.run(module, {"n": 3}, engine=engine, timeout=60)[0] == 3
    slow = 10**12
    if engine == "xla":  # it cannot be stopped, so it must not run for much longer than a second
        slow, begin = 10**4, time.monotonic()
        while time.monotonic() - begin < 0.5:
            slow, begin = 4 * slow, time.monotonic()
            ir.run(module, {"n": slow}, engine=engine)
        slow *= 2
    with pytest.raises(TimeLimit) as caught:
        ir.run(module, {"n": slow}, engine=engine, timeout=0.2)
    assert caught.value.code == "E6007"


def test_an_error_within_the_time_limit_is_that_error():
    with pytest.raises(InvalidNumber):
        ir.run(EXP, {"x": [1.0, np.nan]}, checks="finite", timeout=60)


@pytest.mark.usefixtures("table")
def test_E6008_what_the_device_does_not_take():
    class Garbled(Unary):
        """An op whose lowering is not valid StableHLO."""

        ufunc = np.negative
        differentiable: ClassVar[bool] = False

        def lower(self, b, out, x):
            return b.op("stablehlo.no_such_instruction", x, out=out)

    module = build(Garbled(), (2,), profile="extended")
    with pytest.raises(EngineError, match="XLA could not compile") as caught:
        ir.run(module, {"x": [1.0, 2.0]}, engine="xla")
    assert caught.value.code == "E6008"


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-6), ("f64", 1e-12)])
def test_M72_forward_numerics(dtype, tolerance):
    module = ir.parse(
        f'%0 = Input() {{name: "x"}} : Tensor<{dtype}, [5, 7]>\n'
        f'%1 = Input() {{name: "w"}} : Tensor<{dtype}, [7, 3]>\n'
        f"%2 = MatMul(%0, %1) : Tensor<{dtype}, [5, 3]>\n%3 = Relu(%2) : Tensor<{dtype}, [5, 3]>\n"
        f"%4 = Exp(%3) : Tensor<{dtype}, [5, 3]>\n%5 = Sum(%4, [1], false) : Tensor<{dtype}, [5]>\n"
        f"%6 = Log(%5) : Tensor<{dtype}, [5]>\n%7 = Mean(%6, [], false) : Tensor<{dtype}, []>\n"
        "outputs: %3, %7\n"
    )
    rng = np.random.default_rng(0)
    arrays = feed(module, [rng.normal(size=(5, 7)), rng.normal(size=(7, 3))])
    h = np.maximum(arrays["x"].astype(float) @ arrays["w"].astype(float), 0)
    expected = h, np.log(np.exp(h).sum(1)).mean()
    for engine in ENGINES:
        first, second = (ir.run(module, arrays, engine=engine) for _ in range(2))
        for got, again, want in zip(first, second, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
            assert got.tobytes() == again.tobytes(), "bit-identical on repeat"


def test_M74_nothing_runs_after_a_verification_error(monkeypatch):
    def execute(*_):
        raise AssertionError("something was executed")

    monkeypatch.setattr(ReferenceProgram, "run", execute)
    module = ir.parse(
        X + "%1 = Exp(%0) : Tensor<f32, [2]>\n%2 = MatMul(%1, %1) : Tensor<f32, [2]>\noutputs: %1\n"
    )
    with pytest.raises(PullbackError) as caught:
        ir.run(module, {"x": [1.0, 2.0]}, engine="reference")
    assert caught.value.code == "E3002"
