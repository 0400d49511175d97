"""Mistakes of other libraries (TRAPS.md), one test for each row that concerns the core."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from helpers import Opaque, array, line, names, source, told, vjp_graph

import pullback as pb
from pullback.errors import AxisError, IndexOutOfRange, ShapeError, UnsupportedOp
from pullback.graph.ambient import PENDING_LIMIT
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.lazy import record
from pullback.transforms.reverse import gradients

X = array(1.5, -2.0, 0.5)


def compiles():
    return pb.cache_info().compiles


# -- Nabla ----------------------------------------------------------------------------------------


def test_which_leaf_is_which_is_part_of_the_key():
    x, y = pb.tensor([2.0, 3.0]), pb.tensor([5.0, 7.0])
    assert (x * y + x).tolist() == [12.0, 24.0]
    assert (x * y + y).tolist() == [15.0, 28.0]
    assert (x * x).tolist() == [4.0, 9.0]
    assert (x * y).tolist() == [10.0, 21.0]
    assert (y * x).tolist() == [10.0, 21.0]
    assert (x - y).tolist() == [-3.0, -4.0]
    assert (y - x).tolist() == [3.0, 4.0]


def test_a_function_of_the_same_tensor_twice_is_another_program():
    def f(a, b):
        return (a * 2.0 + b).sum()

    u, v = pb.tensor([1.0, 2.0]), pb.tensor([10.0, 20.0])
    assert f(u, u).item() == 9.0
    assert f(u, v).item() == 36.0
    assert f(v, u).item() == 63.0


def test_axes_whose_hashes_are_equal_are_different_programs():
    assert hash(-1) == hash(-2)
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis=-1).tolist() == [3.0, 7.0]
    assert x.sum(axis=-2).tolist() == [4.0, 6.0]
    assert pb.roll(x, -1, axis=1).tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert pb.roll(x, -2, axis=1).tolist() == x.tolist()


def test_numbers_that_are_equal_are_different_by_type_and_bits():
    x = pb.tensor([1.0])
    with np.errstate(all="ignore"):
        assert (x / 0.0).tolist() == [np.inf]
        assert (x / -0.0).tolist() == [-np.inf]
    assert (x + True).dtype is (x + 1).dtype is pb.float32
    assert pb.pad(x, 1, constant_values=0.0).tolist() == [0.0, 1.0, 0.0]
    padded = pb.pad(x, 1, constant_values=-0.0).numpy()
    assert np.signbit(padded).tolist() == [True, False, True]


def test_random_numbers_come_from_explicit_keys():
    bits = TABLE["RandomBits"]((4,), 32)
    first = record.apply(bits, pb.tensor([0, 1], dtype="uint32"))
    again = record.apply(bits, pb.tensor([0, 1], dtype="uint32"))
    other = record.apply(bits, pb.tensor([0, 2], dtype="uint32"))
    assert first.tolist() == again.tolist() != other.tolist()


def test_the_same_tensor_for_two_arguments_gives_the_partial_derivative():
    x = pb.tensor([2.0, 3.0])
    assert pb.grad(lambda a, b: (a * a * b).sum(), 0)(x, x).tolist() == [8.0, 18.0]
    assert pb.grad(lambda a, b: (a * a * b).sum(), 1)(x, x).tolist() == [4.0, 9.0]
    ga, gb = pb.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x)
    assert (ga.tolist(), gb.tolist()) == ([8.0, 18.0], [4.0, 9.0])


def test_a_tensor_from_outside_is_a_constant_also_when_it_is_the_argument():
    x = pb.tensor(3.0)
    assert pb.grad(lambda a: a * x)(x).item() == 3.0


def test_forward_mode_without_a_rule_is_an_error_and_not_zero():
    x = pb.tensor([1.0, 2.0])
    with pytest.raises(UnsupportedOp, match="opaque"):
        pb.jvp(lambda x: record.apply(Opaque(), x), (x,), (x,))


def test_two_thousand_operations_do_not_recurse():
    with pb.config(engine="reference"):
        x = y = pb.tensor([1.0])
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(250, len(_frames()) + 120))
        try:
            for _ in range(2000):
                y = y + 1.0
            assert y.tolist() == [2001.0]
            g = pb.grad(lambda x: _chain(x, 2000).sum())(x)
            assert g.tolist() == [1.0]
        finally:
            sys.setrecursionlimit(limit)


def _frames():
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _chain(x, n):
    for _ in range(n):
        x = x + 1.0
    return x


def test_wrong_shapes_axes_and_indices_raise_when_they_are_recorded():
    x = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    before = pb.engine_info().programs_run
    with told(ShapeError, ValueError, "reshape", "f32[2,3]"):
        x.reshape(4, 2)
    with told(AxisError, IndexError, "sum", "axis 2"):
        x.sum(axis=2)
    with told(IndexOutOfRange, IndexError, "index", "2"):
        x[2]
    with told(IndexOutOfRange, IndexError, "index", "-4"):
        x[0, -4]
    assert pb.engine_info().programs_run == before


def test_iteration_over_rows_ends():
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    a, b, c = x
    assert (a + b + c).tolist() == [9.0, 12.0]


def test_a_training_loop_compiles_once():
    pb.clear_cache()
    w = pb.tensor(np.ones((4, 3), np.float32), requires_grad=True)
    x = np.ones((5, 4), np.float32)
    seen = []
    for step in range(6):
        loss = ((x @ w - 1.0) ** 2).mean()
        loss.backward()
        with pb.no_grad():
            w.assign(w - w.grad * (0.1 / (step + 1)))
        w.zero_grad()
        loss.item()
        seen.append(compiles())
    assert seen == [1] * 6, pb.cache_info().causes


def test_the_first_operation_is_one_small_program():
    pb.clear_cache()
    before = pb.engine_info().programs_run
    assert (pb.tensor([1.0]) + 1.0).tolist() == [2.0]
    assert pb.engine_info().programs_run == before + 1
    assert compiles() == 1


# -- tinygrad -------------------------------------------------------------------------------------


def test_equal_leaves_are_two_leaves():
    a, b = pb.tensor(1.0), pb.tensor(1.0)
    ga, gb = pb.grad(lambda a, b: a * 3.0 + b * b, (0, 1))(a, b)
    assert (ga.item(), gb.item()) == (3.0, 2.0)
    x, y = source(2), source(2)
    assert len(canonicalise(Graph([x, y], [x + y])).inputs) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_tie_count_does_not_overflow(dtype):
    g = pb.grad(lambda x: x.max())(pb.ones((70_000,), dtype=dtype))
    assert float(g[0]) == pytest.approx(1 / 70_000, rel=1e-2)


def test_a_product_with_a_zero_has_a_gradient():
    assert pb.grad(lambda x: x.prod())(pb.tensor([0.0, 3.0, 4.0])).tolist() == [12.0, 0.0, 0.0]


def test_nothing_a_function_captures_is_frozen():
    scale = pb.tensor(2.0)
    g = pb.grad(lambda x: x * scale)
    assert g(pb.tensor(1.0)).item() == 2.0
    scale = pb.tensor(5.0)
    assert g(pb.tensor(1.0)).item() == 5.0
    scale += 1.0
    assert g(pb.tensor(1.0)).item() == 6.0


# -- JAX and PyTorch ------------------------------------------------------------------------------


def test_the_branch_that_where_did_not_take_leaks_no_nan():
    x = pb.tensor([0.0, 4.0])
    g = pb.grad(lambda x: pb.where(x > 0, pb.sqrt(x), 0.0).sum())(x)
    assert g.tolist() == [0.0, 0.25]


def test_an_index_out_of_range_is_an_error():
    x = pb.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    with told(IndexOutOfRange, IndexError, "10", "5"):
        x[10]
    with told(IndexOutOfRange, IndexError, "10", "5"):
        x.at[10].set(1.0)
    with told(IndexOutOfRange, IndexError, "10", "5"):
        x[10] = 1.0
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_an_index_that_is_computed_out_of_range_is_an_error_when_read(engine):
    with pb.config(engine=engine):
        x, i = pb.tensor([1.0, 2.0, 3.0]), pb.tensor([0, 1])
        y = x[i * 10]
        wanted = line(-1)
        with pytest.raises(IndexOutOfRange) as info:
            (y + 1.0).numpy()
        assert wanted in str(info.value)
        assert (x + 1.0).tolist() == [2.0, 3.0, 4.0]


def test_dtypes_are_what_was_asked_for():
    x = pb.tensor([1.0], dtype="float64")
    tiny = 2.0**-40
    y = x + tiny
    assert y.dtype is pb.float64 and y.numpy().dtype == np.float64
    assert y.tolist() == [1.0 + tiny]
    assert pb.tensor(np.ones(2)).dtype is pb.float64
    assert pb.grad(lambda x: (x * x).sum())(y).numpy().dtype == np.float64
    assert pb.tensor(2**40).item() == 2**40


def test_dtypes_do_not_depend_on_what_else_is_imported():
    before = pb.tensor([1.0], dtype="float64") * 3
    try:
        importlib.import_module("jax.numpy")
    except ImportError:
        pytest.skip("jax is not installed here")
    after = pb.tensor([1.0], dtype="float64") * 3 + 2.0**-40
    assert before.dtype is after.dtype is pb.float64
    assert after.numpy().dtype == np.float64 and after.item() == 3.0 + 2.0**-40
    assert pb.tensor(1.0).dtype is pb.float32 and pb.tensor(1).dtype is pb.int64


def test_a_scalar_has_no_dtype_of_its_own():
    pb.clear_cache()
    seen = []
    state = 0.0
    for _ in range(4):
        state = state * 0.5 + pb.tensor([1.0])
        state.numpy()
        seen.append(compiles())
    assert state.dtype is pb.float32
    assert seen[1:] == [seen[1]] * 3 and seen[-1] <= 2
    for dtype in ("float16", "bfloat16", "float64", "int8"):
        assert (pb.tensor([1], dtype=dtype) + 1).dtype is pb.tensor([1], dtype=dtype).dtype


def test_programs_are_kept_in_a_bounded_cache(monkeypatch):
    from pullback.lazy import cache

    monkeypatch.setattr(cache, "MOST_PROGRAMS", 5)
    with pb.config(engine="reference"):
        pb.clear_cache()
        for n in range(1, 13):
            g = pb.grad(lambda x: (x * x).sum())(pb.ones((n,)))
            assert g.tolist() == [2.0] * n
        assert pb.cache_info().programs <= 5
        pb.clear_cache()


def test_an_unused_parameter_differs_from_a_zero_gradient():
    used, unused = pb.tensor(1.0, requires_grad=True), pb.tensor(1.0, requires_grad=True)
    (used * 0.0).backward()
    assert used.grad.item() == 0.0 and unused.grad is None


def test_a_loss_that_depends_on_no_parameter_says_so():
    x = pb.tensor([1.0, 2.0])
    with told(pb.PullbackError, ValueError, "requires_grad=True"):
        (x * x).sum().backward()


# -- MIND -----------------------------------------------------------------------------------------


def test_canonicalising_twice_keeps_every_gradient():
    def f(x, y):
        return TABLE["Sin"]()(x * y) + x

    graph = vjp_graph(f, X, X)
    once = canonicalise(graph)
    twice = canonicalise(once)
    assert str(once) == str(twice)
    assert len(twice.outputs) == 2 and "Cos" in names(twice.nodes)


def test_an_op_without_a_rule_is_never_skipped():
    x = source(3)
    with pytest.raises(UnsupportedOp) as info:
        gradients([Opaque()(x) + x], [source(3, name="g")], [x])
    assert info.value.code == "E5001" and "opaque" in str(info.value)


# -- laziness -------------------------------------------------------------------------------------


def test_a_loop_that_never_reads_does_not_grow_without_bound():
    with pb.config(engine="reference"):
        x = pb.tensor([0.0])
        most = 0
        for i in range(24_000):
            x = x + 1.0
            if i % 1000 == 999:
                most = max(most, _pending_behind(x))
        assert most <= 2 * PENDING_LIMIT
        assert x.tolist() == [24_000.0]


def _pending_behind(x):
    from pullback.graph.graph import graph_ancestors

    return sum(1 for n in graph_ancestors([x._node]) if n.value is None)


def test_a_failed_computation_does_not_poison_what_follows():
    class Unlowered(Opaque, abstract=True):
        name = "Unlowered"

        def hlo(self, b, out, x):
            raise UnsupportedOp("has no StableHLO lowering", op=self.title)

    x = pb.tensor([1.0, 2.0])
    bad = record.apply(Unlowered(), x)
    wanted = line(-1)
    try:
        assert (x * 3.0).tolist() == [3.0, 6.0]
        assert pb.grad(lambda x: (x * x).sum())(x).tolist() == [2.0, 4.0]
        with pytest.raises(UnsupportedOp) as info:
            (bad + 1.0).numpy()
        assert "unlowered" in str(info.value) and wanted in str(info.value)
    finally:
        del bad
