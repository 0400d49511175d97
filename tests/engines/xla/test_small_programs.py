"""Programs of small arrays are compiled with flags that shorten compiling."""

from __future__ import annotations

import numpy as np
import pytest
from one_program import OneProgram

import pullback  # noqa: F401  (fills the table)
from pullback import testing
from pullback.engines.xla import compiler_options
from pullback.engines.xla.compiler_options import compiler_flags
from pullback.graph.op_table import TABLE


def flags_of_small(text):
    """The flags of a program, without the one that all programs for CPUs have."""
    return compiler_flags("cpu", text)[1:]


def test_small_arrays():
    text = b"%1 = stablehlo.add %0, %0 : tensor<64x64xf32>"
    (name, value), parts = flags_of_small(text)
    assert (name, value) == ("xla_cpu_use_fusion_emitters", False) and parts[1] == 1
    assert flags_of_small(text.replace(b"64x64x", b"")) == flags_of_small(text)
    assert not compiler_flags("cuda", text)
    assert not flags_of_small(text + b" tensor<1x65x64xf32>")


def test_results_of_products_count_as_small_up_to_128_elements():
    text = b'%2 = "stablehlo.dot_general"(%0, %1) : (tensor<8x40xf32>, tensor<40x16xf32>) -> '
    assert flags_of_small(text + b"tensor<8x16xf32>")
    assert not flags_of_small(text + b"tensor<16x16xf32>")
    other = b'\n%3 = "stablehlo.exponential"(%2) : (tensor<64xf32>) -> tensor<40x40xf32>'
    assert flags_of_small(text + b"tensor<8x16xf32>" + other)


def test_long_programs_are_compiled_in_parts():
    text = b"%1 = stablehlo.add %0, %0 : tensor<f32>\n"
    assert [flags_of_small(text * n)[1][1] for n in (1, 1000, 10**5)] == [1, 2, 32]


# Samples are small, so other tests run them with these flags. Those of every kind of code that XLA
# generates run without them here, as large arrays would; those of all ops in
# tests/long/large_programs.py.
KINDS = [
    "Add", "ArgMax", "Atan2", "Bitcast", "BroadcastInDim", "Cast", "Complex", "Concat", "Cond",
    "Convolution", "CumSum", "DotGeneral", "DynamicUpdateSlice", "Erf", "Exp", "Fft", "Flip",
    "Gather", "IntegerPow", "Max", "Mean", "Pad", "Prod", "RandomBits", "Rem", "Round", "Scan",
    "ScatterAdd", "Slice", "Sort", "Sum", "Tanh", "Transpose", "Where", "While", "WindowMax",
]  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_samples_without_the_flags(name, monkeypatch):
    check_as_large(name, monkeypatch)


def check_as_large(name, monkeypatch):
    """On its samples, an op has the values of the reference engine when it is compiled as for
    large arrays."""
    monkeypatch.setattr(compiler_options, "_is_small_for_compiler_options", lambda text: False)
    samples = [(op, [np.asarray(a) for a in arrays]) for op, arrays in TABLE[name].samples()]
    cases = [(i, testing.graph_of(op, arrays), arrays) for i, (op, arrays) in enumerate(samples)]
    program = OneProgram(cases)
    program.check(program.run())
