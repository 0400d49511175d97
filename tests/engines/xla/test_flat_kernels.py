"""Elementwise kernels for GPUs: which parts of a program they compute, run with NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from triton_ir import KernelProgram

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.builder import Builder, build_xla_block
from pullback.engines.xla.hlo_instructions import HloBlock
from pullback.engines.xla.hlo_printer import print_hlo_module
from pullback.engines.xla.triton import flat_kernels as module
from pullback.engines.xla.triton.flat_kernels import FlatKernel, flat_kernels
from pullback.engines.xla.triton.kernel_fusion import fuse_gpu_kernels
from pullback.engines.xla.triton.tile_text import KernelText, Tile
from pullback.engines.xla.triton.triton_functions import (
    LARGE,
    write_triton_circular,
    write_triton_tanh,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays get kernels."""
    monkeypatch.setattr(module, "SMALLEST", 512)
    monkeypatch.setattr(module, "TILE", 256)


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


# -- functions -------------------------------------------------------------------------------------

Function = Callable[[KernelText, Tile], Tile]


def computed(function: Function, x: np.ndarray) -> np.ndarray:
    """The values of a function on numbers."""
    given, width = np.zeros(-(-x.size // 1024) * 1024, np.float32), 1024
    given[: x.size] = x
    made = np.zeros_like(given)
    k = KernelText("f", ["f32", "f32"])
    first = k.same("arith.muli", k.program_id("x"), k.constant(width, "i32"))
    place = k.positions(width, 1)
    place = k.same("arith.addi", place, k.splat(first, place.shape))
    old, new = (k.add_pointer(k.splat(p, place.shape), place) for p in k.arguments)
    k.store(new, function(k, k.load(old, None)), None)
    KernelProgram(k.module()).run((given.size // width, 1), [given, made])
    return made[: x.size]


def sine(k: KernelText, x: Tile) -> Tile:
    return write_triton_circular(k, x)[0]


def cosine(k: KernelText, x: Tile) -> Tile:
    return write_triton_circular(k, x)[1]


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    return (np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))).max()


@pytest.mark.parametrize(("function", "exact"), [(sine, np.sin), (cosine, np.cos)])
def test_sines_and_cosines_are_exact_to_the_last_bits(function: Function, exact: Any) -> None:
    near_zeros = np.arange(-60_000, 60_000) * (np.pi / 2)
    x = np.concatenate([
        RNG.uniform(-LARGE, LARGE, 50_000), RNG.normal(size=50_000) * 3, near_zeros,
        10.0 ** RNG.uniform(-30, 5, 20_000),
    ]).astype(np.float32)  # fmt: skip
    assert ulps(computed(function, x), exact(x.astype(np.float64))) < 2


def test_hyperbolic_tangents() -> None:
    x = np.concatenate([
        RNG.uniform(-10, 10, 50_000), 10.0 ** RNG.uniform(-30, 2, 20_000),
        np.linspace(0.6, 0.7, 10_000),
    ]).astype(np.float32)  # fmt: skip
    assert ulps(computed(write_triton_tanh, x), np.tanh(x.astype(np.float64))) < 2.5


def test_special_values() -> None:
    x = np.float32([0, -0.0, 1e-40, np.nan, 3e38, -90, np.inf, -np.inf])
    np.testing.assert_array_equal(computed(sine, x)[:4], x[:4])
    np.testing.assert_array_equal(computed(cosine, x)[:4], [1, 1, 1, np.nan])
    tanh = computed(write_triton_tanh, x)
    np.testing.assert_array_equal(tanh, np.float32([0, -0.0, 1e-40, np.nan, 1, -1, 1, -1]))
    for y in (computed(sine, x), tanh):
        np.testing.assert_array_equal(np.signbit(y[:2]), [False, True])


# -- programs --------------------------------------------------------------------------------------


def program(f: Callable[..., Any], *args: Any) -> HloBlock:
    """The program that would be compiled for a GPU, before it has kernels."""
    graph = pb.trace(f, *map(pb.tensor, args)).graph
    builder = Builder()
    builder.kernels, builder.platform = True, "cuda"
    builder.neutral = builder.literal = False
    return build_xla_block(graph, builder)


def by_xla(block: HloBlock, values: list[Any], args: list[np.ndarray]) -> list[np.ndarray]:
    """Values inside of a program, computed on the CPU without kernels."""
    text = print_hlo_module(dataclasses.replace(block, results=tuple(values)))
    xla: Any = registered_engine("xla", None)
    run = xla.load(text, [v.type for v in values], 0).run
    arguments = zip(args, block.arguments, strict=True)
    return [np.asarray(xla.get(y)) for y in run([xla.put(x, a.type) for x, a in arguments])]


def check(f: Callable[..., Any], *args: Any, kernels: int = 1) -> list[FlatKernel]:
    """The kernels of a program compute what XLA computes, from the same operands."""
    block = program(f, *args)
    found = flat_kernels(block, ())
    assert len(found) == kernels
    for kernel in found:
        loaded = by_xla(block, kernel.operands, list(args))
        wanted = by_xla(block, kernel.results, list(args))
        made = [np.zeros(y.shape, y.dtype.numpy) for y in kernel.results]
        given = [np.array(x, order="C") for x in loaded]
        KernelProgram(kernel.text().module()).run(kernel.plan[0], [*given, *made])
        for got, want in zip(made, wanted, strict=True):
            got, want = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)
    return found


def bell(x: Any) -> Any:
    return pb.grad(lambda x: pb.tanh(pb.sin(x) * pb.exp(-x * x)).sum())(x)


@pytest.mark.parametrize("shape", [(1024,), (1000,), (7, 100, 3)])
def test_a_gradient_is_one_kernel(shape: tuple[int, ...]) -> None:
    (kernel,) = check(bell, random(*shape))
    assert len(kernel.operands) == len(kernel.results) == 1


def test_special_values_of_a_gradient() -> None:
    x = random(2048)
    x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30]
    check(bell, x)


def test_only_tiles_with_large_numbers_are_computed_again() -> None:
    block = program(lambda x: pb.sin(pb.cos(x) * 1e3 + x), np.zeros(1000, np.float32))
    (kernel,) = flat_kernels(block, ())
    x = random(1000)
    x[300], x[301], x[0], x[999] = -3e38, np.nan, np.nan, 2e5  # NaN hides nothing
    made, text = np.zeros_like(x), KernelProgram(kernel.text().module())
    text.run(kernel.plan[0], [x, made])
    assert text.branches == [False, True, False, True]
    exact = x.astype(np.float64)
    inner = (np.cos(exact).astype(np.float32) * np.float32(1e3) + x).astype(np.float64)
    np.testing.assert_allclose(made, np.sin(inner), atol=2e-4)


def test_sixteen_bits_and_bools() -> None:
    check(lambda x: pb.where(x > 0, pb.sin(x.astype(pb.bfloat16)), pb.cos(x)), random(30, 40))
    check(lambda x, m: pb.where(m, pb.sin(x), x), random(30, 40), random(30, 40) > 0)


def test_a_layer_with_sines() -> None:
    """A product, a bias for each column and a number: the kernel reads them where they are."""

    def layer(x: Any, w: Any, b: Any, scale: Any) -> Any:
        return pb.sin((x @ w + b) * scale) @ w

    kernels = check(layer, random(40, 32), random(32, 32), random(32), np.float32(3))
    assert {x.shape for x in kernels[0].operands} == {(40, 32), (32,), ()}


def test_arrays_of_one_kernel() -> None:
    """Sine and cosine of the same array are computed together, also where one needs the other."""

    def f(x: Any, y: Any) -> Any:
        s = pb.sin(x) * y
        return s, pb.cos(x) + s, y * 2

    (kernel,) = check(f, random(20, 50), random(20, 50))
    assert len(kernel.results) == 2 and len(kernel.operands) == 2


def test_what_depends_on_a_kernel_s_result_by_way_of_a_product_is_another_kernel() -> None:
    def f(x: Any) -> Any:
        y = pb.sin(x)
        return y, pb.cos(x + y @ y)

    check(f, random(30, 30), kernels=2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.tanh(x) * x,  # XLA's own are as fast as memory
        lambda x: pb.sin(x).sum(),  # XLA computes what it reduces
        lambda x: pb.sin(x)[:3],
        lambda x: pb.sin(x.astype(pb.float64)),
        lambda x: pb.sin(x).mT + x.mT * 2,
        lambda x: pb.sin(x[:10]),  # small
        lambda x: x * pb.sin(pb.arange(30.0))[:, None],
    ],
)
def test_what_xla_does_as_well_is_left_to_it(f: Callable[..., Any]) -> None:
    check(f, random(30, 30), kernels=0)


def test_the_program_calls_the_kernel() -> None:
    block = program(bell, random(2000))
    b = Builder()
    b.platform, b.neutral = "cuda", False
    made = fuse_gpu_kernels(block, b)
    (call,) = [i for i in made.instructions if i.name == "custom_call"]
    assert [i for i in made.instructions if i.name in ("sine", "cosine", "tanh")] == []
    assert call.results == made.results and call.operands == made.arguments


def test_kernels_inside_and_around_others() -> None:
    """A norm of sines, and sines of norms: every value is computed before it is used."""

    def f(x: Any) -> Any:
        y = pb.sin(x)
        y = y - y.mean(axis=-1, keepdims=True)
        z = pb.cos(y * pb.rsqrt((y * y).mean(axis=-1, keepdims=True)))
        return z, z @ z.mT, pb.sin(z) * x

    block = program(f, random(1024, 300))
    b = Builder()
    b.platform, b.neutral, b.kernels = "cuda", False, True
    made = fuse_gpu_kernels(block, b)
    check_order(made)
    assert any(i.name == "custom_call" for i in made.instructions)
    assert not any(i.name in ("sine", "cosine") for i in made.instructions)


def test_kernels_do_not_wait_for_each_other() -> None:
    """Norms of two arrays are one kernel of rows; sines before and after it are apart."""

    def f(x: Any, w: Any) -> Any:
        def norm(y: Any) -> Any:
            return y * pb.rsqrt((y * y).mean(axis=-1, keepdims=True) + 1e-5)

        y = norm(x)
        after, before = pb.sin(y + x), pb.cos(x * 2)
        return y, after @ w, before @ w, norm(before + x)

    block = program(f, random(1024, 300), random(300, 300))
    b = Builder()
    b.platform, b.neutral, b.kernels = "cuda", False, True
    made = fuse_gpu_kernels(block, b)
    check_order(made)


def check_order(block: HloBlock) -> None:
    """Every value is computed before it is used."""
    known = set(block.arguments)
    for i in block.instructions:
        assert known.issuperset(i.operands), f"{i.name} {[x.name for x in i.operands]}"
        known.update(i.results)
    assert known.issuperset(block.results)


# -- on a GPU --------------------------------------------------------------------------------------


@pytest.mark.skipif(registered_engine("xla").platform == "cpu", reason="kernels run on GPUs")
@pytest.mark.parametrize("size", [4096, 70_001])
@pytest.mark.parametrize("largest", [10.0, 3e38])
def test_values_of_a_gpu(monkeypatch: pytest.MonkeyPatch, size: int, largest: float) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(module, "SMALLEST", 512)
    x = (random(size) * 3).astype(np.float32)
    x[[0, 9, 300, 301, size - 2, size - 1]] = [largest, -0.0, np.nan, -largest, np.inf, 1e-40]
    exact = x.astype(np.float64)
    with np.errstate(all="ignore"):
        e, s = np.exp(-exact * exact), np.sin(exact)
        slope = (1 - np.tanh(s * e) ** 2) * e * (np.cos(exact) - 2 * exact * s)
        wanted = [s, np.cos(exact), np.tanh(exact), slope]
    functions = [pb.sin, pb.cos, lambda x: pb.where(x == x, pb.tanh(x), pb.sin(x)), bell]
    for f, want in zip(functions, wanted, strict=True):
        got = pb.compile(f)(pb.tensor(x)).numpy().astype(np.float64)
        known = np.isfinite(want)
        np.testing.assert_allclose(got[known], want[known], rtol=3e-5, atol=1e-6)
    half = pb.tensor(x[500:1500]).astype(pb.bfloat16)
    got = pb.compile(pb.sin)(half).astype(pb.float64).numpy()
    np.testing.assert_allclose(got, np.sin(half.astype(pb.float64).numpy()), rtol=1e-2)
