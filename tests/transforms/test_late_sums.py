"""Sums that a loop does not read are formed after it: fewer and larger products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.graph.graph import Graph
from pullback.ops.control.scan import Scan
from pullback.ops.interpret import interpret
from pullback.transforms.late_sums import with_late_sums
from pullback.transforms.lowered_form import lowered_form


def drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(0.5 * rng.normal(size=s)).astype(dtype) for s in shapes]


def program(f: Any, arrays: Any, *argnums: int) -> Graph:
    gradient = pb.grad(f, argnums or 0)
    return pb.compile(gradient).lower(*map(pb.tensor, arrays)).graph


def scans(graph: Graph) -> list[Scan]:
    return [n.op for n in graph.nodes if isinstance(n.op, Scan)]


def rewritten(graph: Graph, arrays: Any, tolerance: float = 2e-5) -> Graph:
    """Return the program with late sums, after a check that it computes the same."""
    made, origins = with_late_sums(graph)
    for before, after in zip(interpret(graph, arrays), interpret(made, arrays), strict=True):
        np.testing.assert_allclose(
            after.astype(float), before.astype(float), rtol=tolerance, atol=tolerance
        )
    assert set(origins.values()) <= set(graph.nodes)
    return made


def recurrence(w: Any, u: Any, b: Any, xs: Any, **options: Any) -> Any:
    h, ys = pb.scan(
        lambda h, x: (pb.tanh(h @ w + x @ u + b),) * 2,
        pb.zeros((xs.shape[1], w.shape[0]), dtype=xs.dtype), xs, **options,
    )  # fmt: skip
    return (ys * ys).sum() + h.sum()


SHAPES = (5, 5), (3, 5), (5,), (7, 4, 3)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 3}])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_gradients_of_weights_leave_the_loop(dtype: str, options: dict) -> None:
    arrays = [pb.tensor(x, dtype=dtype).numpy() for x in drawn(*SHAPES, dtype="float64")]
    graph = program(lambda *xs: recurrence(*xs, **options), arrays, 0, 1, 2)
    forward, backward = scans(graph)
    assert (forward.carries, backward.carries) == (1, 4)
    made = rewritten(graph, arrays, 0.15 if dtype == "bfloat16" else 1e-6)
    kept, shortened = scans(made)
    assert kept is forward
    assert shortened.carries == 1  # the cotangent of the state; no sum over iterations
    assert (shortened.reverse, shortened.unroll) == (backward.reverse, backward.unroll)


def test_engines_agree_on_long_recurrences() -> None:
    arrays = drawn((64, 64), (32, 64), (64,), (50, 16, 32))
    gradient = pb.compile(pb.grad(recurrence, (0, 1, 2, 3)))
    tensors = [pb.tensor(x * 0.2) for x in arrays]
    found = [y.numpy() for y in gradient(*tensors)]
    with pb.config(kernels=False):
        plain = [y.numpy() for y in gradient(*tensors)]
    with pb.config(engine="reference"):
        wanted = [y.numpy() for y in pb.grad(recurrence, (0, 1, 2, 3))(*tensors)]
    for y, other, true in zip(found, plain, wanted, strict=True):
        scale = np.abs(true).max()
        assert np.abs(y - true).max() < 1e-5 * scale
        assert np.abs(other - true).max() < 1e-5 * scale


def test_weights_that_are_used_twice_have_two_products() -> None:
    def f(w: Any, xs: Any) -> Any:
        h, _ = pb.scan(lambda h, x: (pb.tanh(pb.tanh(h @ w + x) @ w), None), xs[0], xs)
        return (h * h).sum()

    arrays = drawn((6, 6), (5, 2, 6))
    made = rewritten(program(f, arrays), arrays)
    assert [s.carries for s in scans(made)] == [1, 1]
    assert sum(n.op.name == "DotGeneral" for n in made.nodes) == 2


def test_second_derivatives() -> None:
    def f(w: Any, xs: Any) -> Any:
        h, _ = pb.scan(lambda h, x: (pb.tanh(h @ w + x), None), xs[0], xs)
        return (h * h).sum()

    arrays = drawn((6, 6), (4, 2, 6))
    product = pb.grad(lambda w, xs: (pb.grad(f)(w, xs) ** 2).sum())
    graph = pb.compile(product).lower(*map(pb.tensor, arrays)).graph
    before = sum(s.carries for s in scans(graph))
    assert sum(s.carries for s in scans(rewritten(graph, arrays, 1e-4))) < before


def test_batches_of_matrices_and_sums_that_keep_dimensions() -> None:
    def f(w: Any, b: Any, xs: Any) -> Any:
        h, _ = pb.scan(lambda h, x: (pb.tanh(h @ w + x + b), None), xs[0], xs)
        return (h * h).sum()

    arrays = drawn((3, 6, 6), (3, 1, 6), (4, 3, 2, 6))
    made = rewritten(program(f, arrays, 0, 1), arrays)
    assert [s.carries for s in scans(made)] == [1, 1]


def test_rows_that_would_take_too_much_memory_stay_in_the_loop() -> None:
    """Many rows in an iteration, or rows much larger than those that the loop reads."""
    many = drawn((5, 5), (3, 5), (5,), (7, 40, 3))
    graph = program(recurrence, many, 0, 1, 2)
    assert with_late_sums(graph)[0] is graph

    def wide(r: Any, xs: Any) -> Any:
        return pb.scan(lambda s, x: (s + x.T @ (x @ r), None), pb.zeros((5, 100)), xs)[0]

    graph = pb.compile(wide).lower(*map(pb.tensor, drawn((5, 100), (3, 2, 5)))).graph
    assert with_late_sums(graph)[0] is graph


def test_a_sum_that_the_loop_reads_stays() -> None:
    def f(xs: Any, ys: Any) -> Any:
        def step(s: Any, row: Any) -> Any:
            x, y = row
            return s + x.T @ y, s.sum()

        total, reads = pb.scan(step, pb.zeros((5, 6)), (xs, ys))
        return total, reads

    arrays = drawn((4, 2, 5), (4, 2, 6))
    graph = pb.compile(f).lower(*map(pb.tensor, arrays)).graph
    assert with_late_sums(graph)[0] is graph
    unread = pb.compile(lambda *xs: pb.scan(
        lambda s, row: (s + row[0].T @ row[1], row[0].sum()), pb.ones((5, 6)), xs
    )).lower(*map(pb.tensor, arrays)).graph  # fmt: skip
    assert [s.carries for s in scans(rewritten(unread, arrays))] == [0]


def test_operands_that_do_not_change_stay() -> None:
    def f(xs: Any, y: Any) -> Any:
        total, _ = pb.scan(lambda s, x: (s + x.T @ y, None), pb.zeros((5, 6)), xs)
        return total

    graph = pb.compile(f).lower(*map(pb.tensor, drawn((4, 2, 5), (2, 6)))).graph
    assert with_late_sums(graph)[0] is graph


@pytest.mark.parametrize("length", [0, 1, 2])
def test_few_iterations(length: int) -> None:
    arrays = drawn((5, 5), (3, 5), (5,), (length, 4, 3))
    graph = program(recurrence, arrays, 0, 1, 2)
    assert len(rewritten(graph, arrays).nodes)
    found = pb.compile(pb.grad(recurrence))(*map(pb.tensor, arrays)).numpy()
    assert found.shape == (5, 5)


def test_loops_inside_loops() -> None:
    """The body of the outer loop is rewritten when it is lowered."""

    def f(w: Any, xs: Any) -> Any:
        def outer(h: Any, block: Any) -> Any:
            return pb.scan(lambda h, x: (pb.tanh(h @ w + x), None), h, block)[0], None

        return (pb.scan(outer, xs[0, 0], xs)[0] ** 2).sum()

    arrays = drawn((6, 6), (3, 4, 2, 6))
    w, xs = map(pb.tensor, arrays)
    found = pb.compile(pb.grad(f))(w, xs).numpy()
    with pb.config(engine="reference"):
        np.testing.assert_allclose(found, pb.grad(f)(w, xs).numpy(), rtol=1e-4, atol=1e-5)


def test_printed_programs_keep_their_sums() -> None:
    arrays = drawn(*SHAPES)
    graph = program(recurrence, arrays, 0, 1, 2)
    assert scans(graph)[1].carries == 4
    assert scans(lowered_form(graph, "cpu")[0])[1].carries == 1


def test_states_are_factors() -> None:
    """A state is a row like others: its values in all iterations are results of the loop."""

    def f(h: Any, s: Any, xs: Any) -> Any:
        def step(states: Any, x: Any) -> Any:
            h, s = states
            return (pb.tanh(h + x), s + pb.tensordot(h, x, ([0], [0]))), None

        return pb.scan(step, (h, s), xs)[0]

    arrays = drawn((4, 6), (6, 6), (5, 4, 6))
    graph = pb.compile(f).lower(*map(pb.tensor, arrays)).graph
    (loop,) = scans(rewritten(graph, arrays))
    assert (loop.carries, len(loop.body.outputs)) == (1, 2)
    (sums,) = [n for n in with_late_sums(graph)[0].nodes if n.op.name == "DotGeneral"]
    assert [x.type.shape for x in sums.inputs] == [(5, 4, 6), (5, 4, 6)]
