"""Flags of XLA that depend on what a program contains."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla import compiler_options
from pullback.engines.xla.compiler_options import compiler_flags
from pullback.engines.xla.engine import XlaEngine

X, W = np.ones((1, 4, 2), np.float32), np.ones((2, 2, 3), np.float32)


def more_flags(text):
    """The flags of a program for CPUs, besides the one that all of them have."""
    first, *others = compiler_flags("cpu", text)
    assert first == ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INVALID")
    return others


def test_no_program_for_cpus_uses_ynnpack():
    """Two threads that prepare its calls at the same time may end the process."""
    for name in ("convolution", "dot_general", "reduce", "add"):
        text = f'%1 = "stablehlo.{name}"(%0, %0) : tensor<100x100xf32>'.encode()
        assert more_flags(text) == []
        assert "ynn" not in str(compiler_flags("cuda", text))


def test_only_large_programs_with_donation_for_cpus_have_more_flags():
    donor = b"(%0: tensor<100x100xf32> {tf.aliasing_output = 0 : i32})"
    assert more_flags(donor) and not compiler_flags("cuda", donor)


def test_programs_that_call_kernels_have_a_flag():
    text = b'%1 = "stablehlo.custom_call"(%0) {call_target_name = "pullback_softmax"}'
    text += b" : tensor<100x100xf32>"
    assert more_flags(text) and not compiler_flags("cuda", text)
    assert not more_flags(text.replace(b"pullback_", b"lapack_"))


def test_products_of_sixteen_bits_are_not_tuned_for_gpus():
    line = '%2 = "stablehlo.dot_general"(%0, %1) {dims} : (tensor<8x8xbf16>) -> tensor<8x8xKIND>\n'
    for kind, names in {
        "bf16": ["xla_gpu_enable_triton_gemm", "xla_gpu_autotune_level"],
        "f32": ["xla_gpu_enable_triton_gemm"],
    }.items():
        text = line.replace("KIND", kind).encode()
        assert [name for name, _ in compiler_flags("cuda", text)] == names
        # Convolutions are: cuDNN has many algorithms
        text += b'%3 = "stablehlo.convolution"(%2, %2)'
        assert [name for name, _ in compiler_flags("cuda", text)] == names[:1]


def test_flags_of_the_environment_come_first(monkeypatch):
    flags = (("xla_gpu_autotune_level", 0), ("xla_gpu_enable_triton_gemm", False))
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    chosen = compiler_options.compile_options("cuda", flags).env_option_overrides
    assert [name for name, _ in chosen] == [
        "xla_allow_excess_precision", "xla_gpu_enable_triton_gemm"
    ]  # fmt: skip


@pytest.mark.usefixtures("cold_disk")
def test_a_flag_that_xla_does_not_know_is_left_out(monkeypatch):
    """The program is compiled without it, and found on the disk under the same key."""
    flags = (("xla_no_such_flag", True),)
    monkeypatch.setattr("pullback.engines.xla.engine.compiler_flags", lambda *_: flags)
    monkeypatch.setattr(compiler_options, "_unknown", set())

    text = (
        "module @m { func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> { "
        "%0 = stablehlo.add %a, %a : tensor<3xf32>\n return %0 : tensor<3xf32> } }"
    )
    engine, outs = XlaEngine(), [pb.zeros(3)._node.type]
    assert engine._code(text, outs).origin == "missed"
    assert compiler_options._unknown == {"xla_no_such_flag"}
    compiler_options._unknown.clear()
    assert engine._code(text, outs).origin == "disk"
    assert compiler_options.known_compiler_flags(flags) == ()


def test_convolutions_have_the_same_values_with_and_without_flags(monkeypatch):
    with pb.config(kernels=False):
        want = pb.conv(X, W).numpy()
        monkeypatch.setattr("pullback.engines.xla.engine.compiler_flags", lambda *_: ())
        got = pb.compile(lambda x, w: pb.conv(x, w))(X, W).numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_short_reductions_of_large_arrays(dtype):
    """Also in one loop with what is computed before and after them."""
    x = np.random.default_rng(0).standard_normal((50_000, 3)).astype(dtype)
    x[0], x[1], x[2], x[3] = np.nan, np.inf, [np.inf, -np.inf, 1], [0, np.nan, np.inf]

    def f(x):
        norm = pb.sqrt(pb.sum(x * x, axis=1, keepdims=True))
        return pb.sum(x, axis=1), pb.max(x, axis=1), pb.min(-x, axis=1), x / norm

    rounding = 10 * np.finfo(dtype).eps
    with np.errstate(invalid="ignore"):
        norm = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
        want = np.sum(x, axis=1), np.max(x, axis=1), np.min(-x, axis=1), x / norm
    for got, right in zip(pb.compile(f)(pb.tensor(x)), want, strict=True):
        np.testing.assert_allclose(got.numpy(), right, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("size", [3, 100])
def test_a_value_is_overwritten_after_the_small_loops_that_read_it(size):
    """One of XLA's passes moves such loops behind what must wait for them."""

    def f(x, large):
        replaced = pb.put_along_axis(+x, pb.argsort(x), x, 0)
        return pb.put(+x, [1], 2.0), replaced, pb.softmax(large)

    x = np.random.default_rng(0).standard_normal((2, 4))
    large = np.ones((size, size))
    made = pb.compile(pb.vmap(f, in_axes=(0, None)))(pb.tensor(x), pb.tensor(large))
    for i, row in enumerate(x):
        want = row.copy()
        want[np.argsort(row)] = row
        np.testing.assert_array_equal(made[1].numpy()[i], want)
        assert made[0].numpy()[i].tolist() == [row[0], 2.0, *row[2:]]
