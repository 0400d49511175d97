"""Results that programs on a GPU post to the host; here, memory of the host stands for both."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
import pytest
from triton_ir import KernelProgram

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla import builder as builder_module
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.cuda_driver import CudaDriver
from pullback.engines.xla.executable import Executable
from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue
from pullback.engines.xla.jax_arrays import jax_aval_of
from pullback.engines.xla.post_board import SLOT, PostBoard, PostedValue
from pullback.engines.xla.posted_results import (
    SLOT_TYPE,
    PostedResults,
    posting_kernel,
    with_posted_results,
)
from pullback.graph.dtypes import dtype as dtype_named
from pullback.graph.types import Type
from pullback.lazy.pending import compute_pending
from pullback.transforms import early_results


class Driver:
    """CUDA's functions for memory that a GPU writes."""

    given: ClassVar[list[Any]] = []  # as memory of the host, it is never freed

    def __init__(self) -> None:
        self.result = 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        return 0

    def cuCtxPopCurrent_v2(self, before: Any) -> int:
        return 0

    def cuMemHostAlloc(self, address: Any, size: Any, flags: Any) -> int:
        if not self.result:
            self.given.append(ctypes.create_string_buffer(size.value))
            ctypes.memset(self.given[-1], 1, size.value)
            address._obj.value = ctypes.addressof(self.given[-1])
        return self.result


class Buffer:
    """A buffer that is not computed yet."""

    ready = deleted = False

    def is_ready(self) -> bool:
        return self.ready

    def is_deleted(self) -> bool:
        return self.deleted


@pytest.fixture
def board() -> PostBoard:
    made = PostBoard.of_driver(CudaDriver(Driver(), 0))
    assert made is not None
    return made


def write(post: Any, values: list[np.ndarray]) -> None:
    """Write values as the kernel of a program does."""
    numbers = np.concatenate([as_words(x) for x in values])
    slot = np.zeros(SLOT, np.int64)
    program = KernelProgram(posting_kernel(numbers.size).module(), {int(post.argument[0]): slot})
    program.run((1, 1), [post.argument, numbers.view(np.int32), np.zeros(1, np.int32)])
    ctypes.memmove(int(post.argument[0]), slot.ctypes.data, slot.nbytes)


def as_words(x: np.ndarray) -> np.ndarray:
    if x.itemsize >= 4:
        return np.ascontiguousarray(x).reshape(-1).view(np.uint32)
    return x.reshape(-1).view(f"u{x.itemsize}").astype(np.uint32)


# -- the board -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "i8", "i64", "u32", "bool"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_values_of_every_dtype_are_read_before_the_buffer_is_ready(
    board: PostBoard, dtype: str, shape: tuple[int, ...]
) -> None:
    type = Type(shape, dtype_named(dtype))
    x = np.asarray(np.arange(-2, type.size - 2).reshape(shape)).astype(type.dtype.numpy)
    buffer, post = Buffer(), board.post()
    board.expect(buffer, PostedValue(post, 1, type))
    write(post, [np.float32([7]), x])
    found = board.read(buffer)
    assert found is not None and found.dtype == x.dtype and found.shape == shape
    assert (found == x).all()


def test_values_that_are_not_posted_are_left_to_xla(board: PostBoard) -> None:
    buffer, post = Buffer(), board.post()
    value = PostedValue(post, 0, Type((), dtype_named("f32")))
    assert board.read(buffer) is None
    board.expect(buffer, value)
    buffer.ready = True  # the program failed, for example
    assert board.read(buffer) is None
    buffer.ready, buffer.deleted = False, True
    assert board.read(buffer) is None
    write(post, [np.float32([1])])
    assert value.wait(buffer) == 1


def test_a_slot_that_a_later_run_has_is_not_mistaken(board: PostBoard) -> None:
    first, buffer = board.post(), Buffer()
    board.expect(buffer, PostedValue(first, 0, Type((), dtype_named("f32"))))
    write(first, [np.float32([1])])
    while (later := board.post()).argument[0] != first.argument[0]:
        pass
    assert board.read(buffer) == 1  # nothing was written over it yet
    write(later, [np.float32([2])])
    buffer.ready = True
    assert board.read(buffer) is None


def test_buffers_are_forgotten(board: PostBoard) -> None:
    for _ in range(3):
        buffer = Buffer()
        board.expect(buffer, PostedValue(board.post(), 0, Type((), dtype_named("f32"))))
    assert len(board._values) <= 2
    del buffer
    assert not board._values


def test_without_such_memory_there_is_no_board() -> None:
    driver = Driver()
    driver.result = 2
    assert PostBoard.of_driver(CudaDriver(driver, 0)) is None
    assert PostBoard.of_driver(None) is None


# -- programs --------------------------------------------------------------------------------------


def model(w: pb.Tensor, v: pb.Tensor, x: pb.Tensor, at: pb.Tensor) -> Any:
    """A loss with a check, gradients, and a result with a check of its own."""

    def loss(w: pb.Tensor, v: pb.Tensor) -> pb.Tensor:
        return (pb.tanh(pb.take(x, at, axis=0) @ w) @ v).sum()

    value, grads = pb.value_and_grad(loss, argnums=(0, 1))(w, v)
    return value, *grads, pb.take(v, at, axis=0).sum()


def operands() -> list[pb.Tensor]:
    rng = np.random.default_rng(0)
    made = [rng.normal(size=(8, 8)).astype(np.float32) for _ in range(3)]
    return [*map(pb.tensor, made), pb.tensor([0, 3, 5])]


def program() -> tuple[HloBlock, Builder, Any]:
    graph = pb.trace(model, *operands()).graph
    builder = Builder()
    builder.platform, builder.neutral = "cuda", False
    block = builder_module.build_xla_block(graph, builder)
    return block, builder, graph


def ancestors(block: HloBlock, values: set[HloValue]) -> set[HloInstruction]:
    found = set()
    for i in reversed(block.instructions):
        if values.intersection(i.results):
            found.add(i)
            values = values | set(i.operands)
    return found


def test_the_next_products_wait_for_a_post() -> None:
    plain, b, graph = program()
    block, posted = with_posted_results(plain, graph, (0,), b)
    assert posted == PostedResults((0,), (0,))  # not the check of the last result
    assert block.arguments == (*plain.arguments, block.arguments[-1])
    (call,) = [i for i in block.instructions if "post_results" in str(i.attributes)]
    made: set[HloValue] = set(block.arguments)
    for i in block.instructions:  # values are computed before they are used
        assert made.issuperset(i.operands)
        made.update(i.results)
    early = ancestors(block, set(call.operands))
    later = [i for i in block.instructions if i.name == "dot_general" and i not in early]
    assert len(later) == 3 and len(early & set(plain.instructions)) > 5
    for i in later:
        assert call in ancestors(block, set(i.operands))
    assert call not in ancestors(block, {block.results[0], block.results[-1]})


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (pb.zeros((SLOT + 1,)) + x.sum(), x * 2),  # too large
        lambda x: (x.sum() * 1j, x * 2),
        lambda x: (x[:0], x * 2),
    ],
)
def test_other_results_are_left_to_xla(f: Any) -> None:
    graph = pb.trace(f, pb.ones(3)).graph
    b = Builder()
    block = builder_module.build_xla_block(graph, b)
    assert with_posted_results(block, graph, (0,), b) == (block, PostedResults())


def test_the_text_has_one_more_argument() -> None:
    graph = pb.trace(model, *operands()).graph
    b = Builder()
    b.platform, b.neutral, b.awaited = "cuda", False, (0,)
    text = build_xla_module(graph, b)
    assert text.count("tensor<2xi64>") >= 2 and "post_results" in text
    assert b.posted.outputs == (0,)


# -- runs ------------------------------------------------------------------------------------------


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch, board: PostBoard, on_cpu: None) -> list[Any]:
    """Let programs for the CPU post, without a kernel: what a run posts is added to the list."""
    client, run, made = registered_engine("xla").client, Executable.run, []

    def without_kernel(block: HloBlock, graph: Any, awaited: Any, b: Builder) -> Any:
        return block, with_posted_results(block, graph, awaited, b)[1]

    def run_and_note(self: Executable, args: list[Any]) -> list[Any]:
        posting = bool(args) and jax_aval_of(SLOT_TYPE) == args[-1].aval
        results = run(self, args[:-1] if posting else args)
        made.append([np.asarray(r) for r in results])
        return results

    monkeypatch.setattr(client, "post_board", board)
    monkeypatch.setattr(builder_module, "with_posted_results", without_kernel)
    monkeypatch.setattr(Executable, "run", run_and_note)
    monkeypatch.setattr(early_results, "LONG", 10**12)
    monkeypatch.setattr(early_results, "LONG_ON_GPU", 0)
    pb.clear_cache()
    return made


def latest(board: PostBoard) -> Any:
    """What the latest run posts first."""
    return list(board._values.values())[-1][1].post


def step(*xs: pb.Tensor) -> Any:
    value, dw, _, extra = model(*xs)
    return value, xs[0] - 0.1 * dw, extra


def test_a_read_takes_what_was_posted(posts: list[Any], board: PostBoard) -> None:
    value, w, extra = step(*operands())
    compute_pending([value._node])
    assert len(board._values) == 1
    held = np.ones(1, np.bool_)
    write(latest(board), [np.float32([123]), held])  # something else than what was computed
    assert value.item() == 123
    assert np.isfinite(w.numpy()).all() and np.isfinite(extra.item())


def test_a_read_waits_for_the_program_if_nothing_is_posted(posts: list[Any]) -> None:
    value, w, _ = step(*operands())
    with pb.config(engine="reference"):
        wanted = step(*operands())[0].item()
    assert value.item() == pytest.approx(wanted, rel=1e-5)
    assert np.isfinite(w.numpy()).all()


@pytest.mark.parametrize("posted", [True, False])
def test_checks_of_posted_results(posts: list[Any], board: PostBoard, posted: bool) -> None:
    *xs, _ = operands()
    value, w, extra = step(*xs, pb.tensor([0, 30, 5]))
    compute_pending([value._node])
    if posted:
        write(latest(board), [np.float32([123]), np.zeros(1, np.bool_)])
    for y in (value, w, extra):
        with pytest.raises(pb.errors.IndexOutOfRange):
            y.numpy()


def test_a_loop_compiles_once(posts: list[Any], board: PostBoard) -> None:
    w, *rest = operands()
    for _ in range(4):
        value, w, _ = step(w, *rest)
        value.item()
    assert pb.cache_info().misses == 1


# -- on a GPU --------------------------------------------------------------------------------------


@pytest.mark.skipif(registered_engine("xla").platform == "cpu", reason="only GPUs write to boards")
def test_values_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of a loop are read from the board, and are those of compiled steps."""
    monkeypatch.setattr(early_results, "LONG_ON_GPU", 0)
    pb.clear_cache()
    found, wait = [], PostedValue.wait

    def noted(self: PostedValue, buffer: Any) -> Any:
        found.append(wait(self, buffer))
        return found[-1]

    monkeypatch.setattr(PostedValue, "wait", noted)
    losses = []
    for make in (lambda f: f, pb.compile):
        made, (w, *rest) = make(step), operands()
        for _ in range(5):
            value, w, _ = made(w, *rest)
            losses.append(value.item())
    assert losses[:5] == pytest.approx(losses[5:], rel=1e-4)
    assert sum(x is not None and x.dtype == np.float32 for x in found) == 5
    value, w, extra = step(*operands()[:3], pb.tensor([0, 30, 5]))
    for y in (value, w, extra):
        with pytest.raises(pb.errors.IndexOutOfRange):
            y.numpy()
