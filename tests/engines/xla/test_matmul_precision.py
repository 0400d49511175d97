"""`pb.config(matmul_precision=...)` changes programs for GPUs, and nothing on CPUs."""

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.errors import ArgumentError
from pullback.graph.graph import Graph
from pullback.ops.conv.convolution import Convolution
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.sources import Input


def product(dtype):
    x, y = (Input("x", shape, dtype)() for shape in ((2, 3), (3, 4)))
    return Graph([x, y], [MatMul()(x, y)])


def text(graph, precision, platform="cuda"):
    b = Builder()
    b.platform, b.neutral, b.matmul_precision = platform, False, precision
    return build_xla_module(graph, b)


def test_tf32_and_bf16_lower_the_precision_of_f32_on_gpus():
    graph = product(pb.float32)
    assert "precision HIGHEST" in text(graph, "highest")
    tf32 = text(graph, "tf32")
    assert "precision DEFAULT" in tf32 and "bf16" not in tf32
    bf16 = text(graph, "bf16")
    assert "(tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>" in bf16


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_f64_and_complex_numbers_are_never_rounded(precision):
    for dtype in (pb.float64, pb.complex64):
        assert text(product(dtype), precision) == text(product(dtype), "highest")


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_convolutions_use_tf32(precision):
    x, w = (Input("x", shape, pb.float32)() for shape in ((2, 5, 3), (2, 3, 4)))
    graph = Graph([x, w], [Convolution((1,), ((0, 0),), (1,), (1,))(x, w)])
    made = text(graph, precision)
    assert "precision DEFAULT" in made and "bf16" not in made


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("kernels", [True, False])
def test_cpus_multiply_in_f32(precision, kernels):
    x = np.random.default_rng(0).standard_normal((9, 9), np.float32)
    with pb.config(kernels=kernels):
        want = (pb.tensor(x) @ x).numpy()
        with pb.config(matmul_precision=precision):
            got = (pb.tensor(x) @ x).numpy()
    assert got.tobytes() == want.tobytes()


def test_programs_of_another_precision_are_other_programs():
    f = pb.compile(lambda x: x @ x)
    x = pb.ones((3, 3))
    f(x)
    with pb.config(matmul_precision="tf32"):
        f(x)
    cause = pb.cache_info().causes[-1]
    assert (cause.kind, cause.path) == ("setting", "matmul_precision")


def test_unknown_precisions_are_refused():
    message = 'matmul_precision must be "highest", "tf32" or "bf16", got "medium"'
    with pytest.raises(ArgumentError, match=message.replace('"medium"', "'medium'")):
        pb.config(matmul_precision="medium")
