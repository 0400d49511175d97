"""Programs that call kernels: saved and loaded, on disk, for other platforms, and hostile ones."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import testing
from pullback.engines.xla import mlir
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.emitted import emitted_again
from pullback.errors import VerificationError
from pullback.graph.dtypes import float64
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.linalg.matrix_kernel import MatrixKernel

KERNELS = sorted(n for n, cls in TABLE.items() if issubclass(cls, MatrixKernel))
X = np.array([[4.0, 1.0], [1.0, 3.0]])


def step(x):
    """Calls inside a loop and outside."""
    _, rows = pb.scan(lambda c, row: (c, pb.linalg.inv(row)), pb.zeros(()), x)
    return rows, pb.linalg.eigh(x[0]).eigenvalues


@pytest.mark.usefixtures("cold_disk")
def test_programs_with_kernels_are_saved_and_loaded(tmp_path):
    x = pb.tensor(np.stack([X, 2 * X]))
    compiled = pb.compile(step)
    want = [y.numpy() for y in compiled(x)]
    compiled.lower(x).save(tmp_path / "step.pullback")
    got = [y.numpy() for y in pb.load_compiled(tmp_path / "step.pullback")(x)]
    assert [y.tobytes() for y in got] == [y.tobytes() for y in want]
    data = (tmp_path / "step.pullback").read_bytes()
    assert b"pullback.LU" in data and b"lapack" not in data


@pytest.mark.parametrize("name", KERNELS)
def test_a_call_for_any_platform_is_one_instruction(name):
    for op, arrays in list(TABLE[name].samples())[:1]:
        graph = testing.graph_of(op, [np.asarray(a) for a in arrays])
        text = build_xla_module(graph)
        assert text.count("custom_call") == 1 and f'"pullback.{name}"' in text


@pytest.mark.parametrize("name", KERNELS)
def test_programs_for_gpus_are_valid(name):
    """Without a GPU they cannot run, but MLIR reads them."""
    for op, arrays in TABLE[name].samples():
        graph = testing.graph_of(op, [np.asarray(a) for a in arrays])
        b = Builder()
        b.platform, b.neutral = "cuda", False
        text = build_xla_module(graph, b)
        mlir.parsed_mlir(text)
        assert "lapack" not in text and "pullback." not in text


TYPE = Type((2, 2), float64)
HOSTILE = {
    "another target": 'call_target_name = "lapack_dpotrf_ffi"',
    "an unknown op": 'call_target_name = "pullback.Exp"',
    "more attributes": 'call_target_name = "pullback.Cholesky", has_side_effect = true',
    "too few operands": 'call_target_name = "pullback.TriangularSolve", '
    'backend_config = "True N True"',
    "another parameter": 'call_target_name = "pullback.QR", backend_config = "Maybe"',
    "too many parameters": 'call_target_name = "pullback.Cholesky", backend_config = "1"',
}


def load(attributes, result="2x2"):
    """Read a program with one call as a file's program is read."""
    call = f'"stablehlo.custom_call"(%x) {{{attributes}}}'
    out = f"tensor<{result}xf64>"
    text = f"""module @pullback {{
        func.func public @main(%x: tensor<2x2xf64>) -> ({out}) {{
        %0 = {call} : (tensor<2x2xf64>) -> {out}
        return %0 : {out}
    }} }}"""
    shape = tuple(map(int, result.split("x")))
    return emitted_again(text.encode(), [TYPE], [Type(shape, float64)], (), 0, "cpu")


@pytest.mark.parametrize("why", HOSTILE)
def test_other_calls_are_not_loaded(why):
    with pytest.raises(VerificationError, match="custom_call that pullback does not write"):
        load(HOSTILE[why])


def test_a_result_of_another_type_is_not_loaded():
    good = 'call_target_name = "pullback.Cholesky"'
    assert "lapack_dpotrf_ffi" in load(good)
    with pytest.raises(VerificationError, match="custom_call"):
        load(good, "2x3")
