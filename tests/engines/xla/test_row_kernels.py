"""Kernels that are generated for GPUs: what a program gives them, run with NumPy."""

from __future__ import annotations

import dataclasses
import re
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
from pullback.engines.xla.joins import with_joined_pads
from pullback.engines.xla.triton import row_clusters, row_kernel, row_terms
from pullback.engines.xla.triton.kernel_fusion import fuse_gpu_kernels
from pullback.engines.xla.triton.overwriting import overwritable_arrays
from pullback.engines.xla.triton.row_clusters import RowCluster, RowClusters
from pullback.engines.xla.triton.row_kernel import RowKernel
from pullback.engines.xla.triton.row_terms import row_term_combination
from pullback.nn import functional as F
from pullback.transforms.recognition import recognised

RNG = np.random.default_rng(0)
# Rows and columns: whole tiles, masked ones, long rows in chunks
SIZES = [(32, 64), (37, 50), (13, 300), (11, 1000)]
SCALED_DOWN = [
    (row_terms, {"NARROWEST": 16, "FEWEST_ROWS": 8, "FEWEST_SUMMED": 8, "SMALLEST": 512}),
    (row_clusters, {"RESIDENT": 512}),
    (row_kernel, {"PROGRAMS": 8, "CHUNK": 256, "_FEWEST": 128, "_SUMMED": (2, 64)}),
]


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays get kernels of all forms."""
    for module, sizes in SCALED_DOWN:
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    y = x.astype(pb.float32)
    y = y - y.mean(axis=-1, keepdims=True)
    y = y * pb.rsqrt((y * y).mean(axis=-1, keepdims=True) + 1e-5)
    return (y * scale + shift).astype(x.dtype)


def layer_norm_gradient(x: Any, scale: Any, shift: Any, g: Any) -> Any:
    y, pull = pb.vjp(layer_norm, x, scale, shift)
    return (y, *pull(g))


def half_layer_norm_gradient(x: Any, scale: Any, shift: Any, g: Any) -> Any:
    return layer_norm_gradient(x.astype(pb.bfloat16), scale, shift, g.astype(pb.bfloat16))


def cross_entropy(x: Any, labels: Any) -> Any:
    return pb.value_and_grad(lambda x: F.cross_entropy(x, labels))(x)


def softmax_gradient(x: Any, g: Any) -> Any:
    y, pull = pb.vjp(lambda x: pb.softmax(x, axis=-1), x)
    return y, pull(g)


def extrema(x: Any) -> Any:
    return x.max(axis=-1), x.min(axis=-1), (x > 0).any(axis=-1), (x < 9).all(axis=-1)


def program(f: Callable[..., Any], *args: Any) -> tuple[HloBlock, Builder]:
    """The program that would be compiled for a GPU, before it has kernels."""
    graph = pb.trace(f, *map(pb.tensor, args)).graph
    builder = Builder()
    builder.kernels, builder.platform = True, "cuda"
    builder.neutral = builder.literal = False
    return build_xla_block(recognised(graph, "cuda")[0], builder), builder


def kernels(block: HloBlock) -> list[RowKernel]:
    return [RowKernel("f", c, set(c.results)) for c in RowClusters(block).found]


def computed_by_xla(block: HloBlock, values: list[Any], args: list[np.ndarray]) -> list[np.ndarray]:
    """Values inside of a program, computed on the CPU without kernels."""
    text = print_hlo_module(dataclasses.replace(block, results=tuple(values)))
    xla: Any = registered_engine("xla", None)
    run = xla.load(text, [v.type for v in values], 0).run
    arguments = zip(args, block.arguments, strict=True)
    buffers = [xla.put(x, a.type) for x, a in arguments]
    return [np.asarray(xla.get(y)) for y in run(buffers)]


def check_kernel(kernel: RowKernel, loads: list[Any], wanted: list[Any], tolerance: float) -> None:
    cluster = kernel.cluster
    in_place = dict(overwritable_arrays(cluster, set(kernel.results)))
    for overwrites in [{}, in_place] if in_place else [{}]:
        check_results(kernel, overwrites, loads, wanted, tolerance)


def check_results(
    kernel: RowKernel, overwrites: dict[Any, Any], loads: list[Any], wanted: list[Any],
    tolerance: float,
) -> None:  # fmt: skip
    """Run a kernel whose results may share memory with what it loads."""
    cluster, given = kernel.cluster, [np.array(x, order="C") for x in loads]
    memory = dict(zip(kernel.loads, given, strict=True))
    made = [
        memory[overwrites[y]].reshape(y.shape) if y in overwrites
        else np.zeros(y.shape, y.dtype.numpy) for y in kernel.results
    ]  # fmt: skip
    sums = np.zeros(kernel.sums_shape, np.float32)
    stored = [*given, *made, *([sums] if cluster.by_column else [])]
    KernelProgram(kernel.k.module()).run(kernel.plan.grid, stored)
    results = zip([*kernel.results, *cluster.by_column], [*made, *sums.sum(axis=1)], strict=True)
    for (y, found), want in zip(results, wanted, strict=True):
        found, want = found.astype(np.float64), want.astype(np.float64)
        if y in cluster.by_row and row_term_combination(y.made_by) in ("maximum", "minimum"):
            want = np.where(np.isnan(found), found, want)  # XLA may lose NaN, which it looks for
        finite = np.isfinite(want)
        np.testing.assert_array_equal(np.where(finite, 0, found), np.where(finite, 0, want))
        scale = np.abs(want[finite]).max(initial=1e-30)
        assert np.abs(found[finite] - want[finite]).max(initial=0) <= tolerance * scale


def check(f: Callable[..., Any], *args: Any, count: int = 1, tolerance: float = 1e-5) -> None:
    """The kernels of a program compute what XLA computes, from the same operands."""
    block, _ = program(f, *args)
    found = kernels(block)
    assert len(found) == count
    for kernel in found:
        values = [*kernel.loads, *kernel.results, *kernel.cluster.by_column]
        known = computed_by_xla(block, values, list(args))
        loads, wanted = known[: len(kernel.loads)], known[len(kernel.loads) :]
        check_kernel(kernel, loads, wanted, tolerance)


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_forward(rows: int, width: int) -> None:
    x, scale, shift = random(rows, width), random(width), random(width)
    check(layer_norm, x, scale, shift)
    check(lambda x: pb.softmax(x, axis=-1), x)
    check(lambda x: pb.logsumexp(x, axis=-1), x)


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_gradients(rows: int, width: int) -> None:
    x, g, scale, shift = random(rows, width), random(rows, width), random(width), random(width)
    # Sums of rows that are too long for registers have a kernel of their own
    check(layer_norm_gradient, x, scale, shift, g, count=2 if width > 512 else 1)
    check(softmax_gradient, x, g)
    check(cross_entropy, x, RNG.integers(0, width, rows).astype(np.int32))


def test_sixteen_bits() -> None:
    x, g = random(33, 300), random(33, 300)
    check(half_layer_norm_gradient, x, random(300), random(300), g, tolerance=1e-2)


def test_sums_of_rows_alone() -> None:
    x, y = random(50, 200), random(50, 200)
    check(lambda x, y: (pb.tanh(x) * y).sum(axis=0), x, y)
    check(lambda x, y: ((z := pb.exp(x) * y), z.sum(axis=0)), x, y)


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_special_values(rows: int, width: int) -> None:
    x = random(rows, width)
    x[3, 5], x[7], x[9, 1], x[10, -1] = np.nan, -np.inf, np.inf, np.nan
    check(extrema, x)
    check(lambda x: pb.softmax(x, axis=-1), x)
    check(layer_norm, x, random(width), random(width))


def test_sums_along_both_axes_of_a_square() -> None:
    # A sum of each row is read along the columns: it must be complete first
    x = random(64, 64)
    check(lambda x: x - x.sum(axis=-1)[None, :] + x.sum(axis=0), x, count=1)


def test_three_dimensions() -> None:
    x = random(4, 5, 128)
    check(lambda x, w: pb.grad(lambda x: (pb.softmax(x * w, axis=-1) * x).sum())(x), x, random(128))


def test_bodies_of_loops_have_kernels() -> None:
    def f(x: Any, ws: Any, scale: Any) -> Any:
        return pb.scan(lambda y, w: (layer_norm(y + x, scale, scale) @ w, None), x, ws)[0]

    block, builder = program(f, random(32, 64), random(3, 64, 64), random(64))
    (loop,) = [i for i in block.instructions if i.name == "while"]
    assert "triton" not in print_hlo_module(block)
    fuse_gpu_kernels(block, builder)
    assert print_hlo_module(block).count("__gpu$xla.gpu.triton") == 1
    assert any("custom_call" in i.mnemonic for i in loop.regions[1].instructions)


def test_one_kernel_for_value_and_gradient() -> None:
    block, _ = program(cross_entropy, random(16, 700), np.zeros(16, np.int32))
    (cluster,) = RowClusters(block).found
    assert [t.value.type.shape for t in cluster.loads if t.value.type.size > 16] == [(16, 700)]
    assert [y.type.shape for y in cluster.arrays] == [(16, 700)]


def test_what_a_product_follows_is_stored_once() -> None:
    def block_of_layers(x: Any, w: Any, v: Any, b: Any) -> Any:
        x = x + (x @ w + b)
        y = layer_norm(x, b, b)
        x = x + (y @ v + b)
        return layer_norm(x, b, b) @ w

    w = random(64, 64)
    block, _ = program(block_of_layers, random(128, 64), w, w, random(64))
    found = RowClusters(block).found
    # Each kernel adds the product to the stream, stores the sum, and normalises it
    assert [(len(c.arrays), len(c.by_row)) for c in found] == [(2, 2), (2, 2)]
    wide = [[t for t in c.loads if t.value.type.size == 128 * 64] for c in found]
    assert [len(loads) for loads in wide] == [2, 2]


def calls(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The kernels' calls in the program of a function."""
    block, builder = program(f, *args)
    found = fuse_gpu_kernels(block, builder).instructions
    return [i for i in found if "triton" in i.attributes.get("call_target_name", "")]


def overwritten(call: Any) -> list[tuple[int, int]]:
    """Results of a call with the operands whose memory they take."""
    text = call.attributes["output_operand_aliases"]
    found = re.findall(r"output_tuple_indices = \[(\d*)\], operand_index = (\d+)", text)
    return [(int(result or 0), int(operand)) for result, operand in found]


def of_logits(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a loss with respect to features, and more that `f` makes of the logits."""

    def both(x: Any, w: Any, labels: Any) -> Any:
        logits = x @ w
        gradient = pb.grad(lambda y: F.cross_entropy(y, labels))(logits)
        return gradient @ w.mT, F.cross_entropy(logits, labels), *f(logits, gradient)

    return both


def test_a_gradient_takes_the_memory_of_logits() -> None:
    args = random(32, 8), random(8, 600), RNG.integers(0, 600, 32).astype(np.int32)
    (call,) = calls(of_logits(lambda y, g: ()), *args)
    ((result, operand),) = overwritten(call)
    assert call.results[result].type == call.operands[operand].type
    assert call.operands[operand].type.shape == (32, 600)
    # It waits for the logits of the labels, which are read from the same memory
    text = calls(lambda *xs: of_logits(lambda y, g: ())(*xs)[0], *args)[0]
    assert len(call.operands) == len(text.operands) + 1


@pytest.mark.parametrize(
    "more",
    [
        lambda y, g: (y,),  # returned
        lambda y, g: (pb.cumsum(y, axis=-1),),  # as large
        lambda y, g: (pb.take_along_axis(y, pb.argmax(g, axis=-1, keepdims=True), axis=-1),),
    ],
)
def test_what_is_read_later_is_not_overwritten(more: Callable[..., Any]) -> None:
    args = random(32, 8), random(8, 600), RNG.integers(0, 600, 32).astype(np.int32)
    (call,) = calls(of_logits(more), *args)
    assert overwritten(call) == []


def test_arguments_are_not_overwritten() -> None:
    (call,) = calls(softmax_gradient, random(32, 64), random(32, 64))
    assert overwritten(call) == []


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.tanh(x) * 2,  # no reduction
        lambda x: x.sum(axis=-1)[:, None].sum(),  # nothing wide but what is reduced
        lambda x: x.astype(pb.float64).sum(axis=-1),
        lambda x: x[:4].sum(axis=-1),  # too small
        lambda x: pb.cumsum(x, axis=-1),
        lambda x: x.prod(axis=-1),
    ],
)
def test_what_xla_does_as_well_is_left_to_it(f: Callable[..., Any]) -> None:
    block, _ = program(f, random(60, 50))
    assert [c for c in RowClusters(block).found if c.arrays] == []


def test_rows_of_tall_arrays_are_added_up_by_xla() -> None:
    for rows, count in ((16 * row_terms.TALLEST, 1), (16 * row_terms.TALLEST + 1, 0)):
        block, _ = program(lambda x: pb.tanh(x).sum(axis=0), random(rows, 16))
        assert len(RowClusters(block).found) == count


def test_rows_of_a_part_are_added_up_by_xla() -> None:
    for f, count in ((lambda x: x[::2].sum(axis=0), 0), (lambda x: pb.tanh(x[::2]).sum(axis=0), 1)):
        block, _ = program(f, random(256, 16))
        assert len(RowClusters(block).found) == count


def can_be_ordered(block: HloBlock, found: list[RowCluster]) -> bool:
    """Whether kernels can be run one after the other."""
    home = {y: c for c in found for y in c.results}
    made = {y: i for i in block.instructions for y in i.results}
    seen: dict[Any, bool] = {}

    def visit(unit: Any) -> bool:
        if unit in seen:
            return seen[unit]
        seen[unit] = False  # while it is being visited
        needs = [t.value for t in unit.loads] if isinstance(unit, RowCluster) else unit.operands
        sources = [home.get(x) or made.get(x) for x in needs]
        seen[unit] = all(visit(s) for s in sources if s is not None)
        return seen[unit]

    return all(visit(c) for c in found)


def test_random_programs_have_no_circles() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)

        def f(x: Any, w: Any, rng: Any = rng) -> Any:
            values, rows = [x, x @ w], [x.sum(axis=-1, keepdims=True)]
            for _ in range(12):
                a, b = (values[i] for i in rng.integers(0, len(values), 2))
                way = rng.integers(0, 6)
                if way == 0:
                    rows.append(a.max(axis=-1, keepdims=True) + rows[-1])
                elif way == 1:
                    values.append(a * rows[int(rng.integers(0, len(rows)))])
                elif way == 2:
                    values.append(a @ w)
                elif way == 3:
                    values.append(a + b.sum(axis=0))
                elif way == 4:
                    values.append(pb.softmax(a, axis=-1) - b)
                else:
                    values.append(pb.tanh(a) * b)
            return values[-3:], rows[-1]

        block, builder = program(f, random(64, 32), random(32, 32))
        found = RowClusters(block).found
        assert can_be_ordered(block, found)
        text = print_hlo_module(fuse_gpu_kernels(block, builder))
        assert 0 < len(re.findall("__gpu\\$xla.gpu.triton", text)) <= len(found)


def test_gradients_of_slices_are_joined() -> None:
    def f(x: Any, g: Any) -> Any:
        return pb.vjp(lambda x: (x[:, :3], x[:, 3:4], x[:, 4:]), x)[1](
            (g[:, 4:], g[:, :1], g[:, :4])
        )

    block, _ = program(f, random(5, 8), random(5, 7))
    joined = with_joined_pads(block)
    names = [i.name for i in joined.instructions if i.results[0] in joined.results]
    assert names == ["concatenate"]


def test_gradients_of_slices_that_overlap_are_added() -> None:
    def f(x: Any, g: Any) -> Any:
        return pb.vjp(lambda x: (x[:, :4], x[:, 3:]), x)[1]((g[:, :4], g[:, :5]))

    block, _ = program(f, random(5, 8), random(5, 7))
    assert "concatenate" not in [i.name for i in with_joined_pads(block).instructions]


def test_long_sums_are_walked_without_recursion() -> None:
    def f(x: Any) -> Any:
        for _ in range(3000):
            x = x + 1
        return x

    block, _ = program(f, random(4))
    assert len(with_joined_pads(block).instructions) == len(block.instructions)


def test_gradients_of_many_slices_are_joined() -> None:
    def f(x: Any) -> Any:
        return pb.grad(lambda x: sum((k * x[k : k + 1] ** 2).sum() for k in range(300)))(x)

    block, _ = program(f, random(300))
    names = [i.name for i in with_joined_pads(block).instructions]
    assert names.count("concatenate") == 1
