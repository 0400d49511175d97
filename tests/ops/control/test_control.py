"""Conditionals and loops: values, trees, dtypes, modes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, HostReadError, IndexOutOfRange, InPlaceError

XS = np.arange(12.0).reshape(4, 3) / 7 - 0.5


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request: Any) -> Any:
    with pb.config(engine=request.param), pb.default_dtype("float64"):
        yield


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12, atol=1e-12)


# -- scan ---------------------------------------------------------------------------------------


def recurrence(c: Any, x: Any) -> Any:
    c = c * 0.5 + x
    return c, c * c


def by_hand(f: Any, c: Any, xs: Any, reverse: bool = False) -> Any:
    """Run a scan as a Python loop over NumPy arrays."""
    ys = []
    for x in xs[::-1] if reverse else xs:
        c, y = f(c, x)
        ys.append(y)
    return c, np.stack(ys[::-1] if reverse else ys)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 4, 9])
def test_scan_equals_the_python_loop(reverse, unroll):
    c, ys = pb.scan(recurrence, pb.zeros(3), pb.tensor(XS), reverse=reverse, unroll=unroll)
    want_c, want_ys = by_hand(recurrence, np.zeros(3), XS, reverse)
    close(c, want_c)
    close(ys, want_ys)


@pytest.mark.parametrize("unroll", [1, 3])
def test_a_scan_of_length_zero_returns_the_initial_state_and_empty_results(unroll):
    c, ys = pb.scan(recurrence, pb.ones(3), pb.zeros((0, 3)), unroll=unroll)
    close(c, np.ones(3))
    assert ys.shape == (0, 3) and ys.numpy().shape == (0, 3)


def test_scan_without_rows_needs_only_a_length():
    c, ys = pb.scan(lambda c, x: (c * 2, (c, x)), 1, length=5)
    assert c.item() == 32 and c.dtype is pb.int64
    assert ys[0].tolist() == [1, 2, 4, 8, 16] and ys[1] is None


def test_scan_accepts_and_returns_trees():
    init = {"h": pb.zeros(3), "n": (pb.tensor(0), None)}
    xs = [pb.tensor(XS), {"scale": pb.tensor([1.0, 2.0, 3.0, 4.0])}]

    def step(state: Any, row: Any) -> Any:
        x, more = row
        h = state["h"] + x * more["scale"]
        return {"h": h, "n": (state["n"][0] + 1, None)}, {"sum": h.sum(), "big": h > 0}

    last, ys = pb.scan(step, init, xs)
    want = np.cumsum(XS * np.array([[1.0], [2.0], [3.0], [4.0]]), 0)
    close(last["h"], want[-1])
    assert last["n"][0].item() == 4 and last["n"][1] is None
    close(ys["sum"], want.sum(1))
    np.testing.assert_array_equal(ys["big"].numpy(), want > 0)


def test_a_scan_without_a_state_or_results():
    assert pb.scan(lambda c, x: (None, None), None, pb.tensor(XS)) == (None, None)
    state, ys = pb.scan(lambda c, x: ((), x * 2), (), pb.tensor(XS))
    assert state == ()
    close(ys, XS * 2)


def test_a_body_may_return_its_inputs_and_constants():
    w = pb.tensor([1.0, 2.0])
    (a, b), ys = pb.scan(lambda s, x: ((s[1], s[0]), (w, 3.0, s[0])), (1.0, 2.0), length=3)
    assert (a.item(), b.item()) == (2.0, 1.0)
    close(ys[0], np.tile([1.0, 2.0], (3, 1)))
    close(ys[1], [3.0] * 3)
    close(ys[2], [1.0, 2.0, 1.0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16", "bool", "complex64"])
def test_dtypes_of_rows_and_state(dtype):
    xs = pb.astype(pb.tensor([[1, 0], [1, 1], [0, 1]]), dtype)
    last, ys = pb.scan(lambda c, x: (x, c), xs[0], xs)
    assert last.dtype is xs.dtype is ys.dtype
    np.testing.assert_array_equal(ys.numpy(), xs.numpy()[[0, 0, 1]])


def test_scans_nest():
    def outer(c: Any, x: Any) -> Any:
        total, parts = pb.scan(lambda d, y: (d + y * c, d), 0.0, x)
        return c + total, parts

    c, parts = pb.scan(outer, pb.tensor(0.5), pb.tensor(XS))

    def rows(c: Any, x: Any) -> Any:
        before = np.concatenate([[0.0], np.cumsum(x * c)])
        return c + before[-1], before[:-1]

    want = by_hand(rows, 0.5, XS)
    close(c, want[0])
    close(parts, want[1])


# -- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [0, 0.0, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_number_as_state_takes_the_dtype_of_the_body(init, dtype):
    xs = pb.astype(pb.tensor([1.0, 2.0, 3.0]), dtype)
    total, _ = pb.scan(lambda c, x: (c + x, None), init, xs)
    assert total.item() == 6.0 and total.dtype is xs.dtype


def test_a_body_whose_state_has_the_default_dtype_is_traced_once():
    calls = []

    def step(c: Any, x: Any) -> Any:
        calls.append(c.dtype)
        return c + x, None

    pb.scan(step, 0.0, pb.tensor([1.0, 2.0]))
    assert calls == [pb.float64]


def test_a_number_that_a_body_returns_takes_the_dtype_of_the_state():
    xs = pb.tensor([1.0, 2.0], dtype="float16")
    last, _ = pb.scan(lambda c, x: (0.0, c), xs[0], xs)
    assert last.dtype is pb.float16
    assert pb.cond(True, lambda x: x.sum(), lambda x: 0, xs).dtype is pb.float16
    assert pb.cond(pb.tensor(False), lambda: 1, lambda: 0.5).item() == 0.5
    close(pb.switch(1, [lambda: 1, lambda: 2.5, lambda: True]), 2.5)


# -- conditionals -------------------------------------------------------------------------------


@pytest.mark.parametrize("pred", [True, False, np.bool_(True), "tensor"])
def test_cond_runs_one_of_two_branches(pred):
    pred = pb.tensor(2) > 3 if isinstance(pred, str) else pred
    got = pb.cond(pred, lambda x, k: {"y": x * k}, lambda x, k: {"y": x - k}, pb.tensor(XS), 2)
    close(got["y"], XS * 2 if bool(pred) else XS - 2)


@pytest.mark.parametrize("i", [0, 1, 2])
@pytest.mark.parametrize("kind", ["int", "uint8", "int64"])
def test_switch_runs_the_selected_branch(i, kind):
    index = i if kind == "int" else pb.tensor(i, dtype=kind)
    made = pb.switch(index, [pb.sin, pb.exp, lambda x: x * x], pb.tensor(XS))
    close(made, [np.sin, np.exp, np.square][i](XS))


@pytest.mark.parametrize("bad", [3, -1, 1_000_000])
def test_an_index_without_a_branch_is_an_error(bad):
    branches = [pb.sin, pb.cos, pb.tan]
    with told(IndexOutOfRange, IndexError, "switch", "no branch", "less than 3"):
        pb.switch(bad, branches, pb.tensor(1.0))
    made = pb.switch(pb.tensor(bad) * 1, branches, pb.tensor(1.0))
    with pytest.raises(IndexOutOfRange, match=r"switch: .* has no branch.*test_control\.py"):
        made.item()


def test_a_branch_that_is_not_taken_does_not_run():
    table, far = pb.tensor(XS), pb.tensor(9) * 1
    close(pb.cond(far > 5, lambda: 1.0, lambda: table[far].sum()), 1.0)
    endless = lambda: pb.while_loop(lambda x: x > 0, lambda x: x, 1.0)  # noqa: E731
    close(pb.cond(far > 5, lambda: 1.0, endless), 1.0)


# -- while and fori -----------------------------------------------------------------------------


def test_while_loop_runs_until_the_condition_fails():
    n, x = pb.while_loop(lambda s: s[1] < 100, lambda s: (s[0] + 1, s[1] * 3.0), (0, 2.0))
    assert (n.item(), x.item()) == (4, 162.0)
    never = pb.while_loop(lambda s: s < 0, lambda s: s + 1, pb.tensor(5))
    assert never.item() == 5


@pytest.mark.parametrize(("lo", "hi"), [(0, 4), (2, 3), (3, 3), (5, 2), (-2, 2)])
def test_fori_loop_counts(lo, hi):
    want = 1.0
    for i in range(lo, hi):
        want = want * 2 + i
    step = lambda i, s: s * 2 + i  # noqa: E731
    for low in (lo, pb.tensor(lo), pb.tensor(lo, dtype="int16")):
        for high in (hi, pb.tensor(hi), np.int32(hi)):
            close(pb.fori_loop(low, high, step, 1.0), want)


def test_map_applies_the_function_to_each_row():
    got = pb.map(lambda r: {"d": r["x"] @ r["x"], "y": r["y"]}, {"x": pb.tensor(XS), "y": XS})
    close(got["d"], (XS * XS).sum(1))
    close(got["y"], XS)


def test_ten_thousand_iterations_are_one_small_program():
    step = lambda s, x: (s * 0.999 + x, None)  # noqa: E731
    xs = np.cos(np.arange(10_000.0))
    got, _ = pb.scan(step, 0.0, pb.tensor(xs))
    want = 0.0
    for x in xs:
        want = want * 0.999 + x
    close(got, want)


# -- modes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [{"eager": True}, {"verify_shapes": True}])
def test_eager_and_verifying_modes(mode):
    with pb.config(**mode):
        before = pb.engine_info().programs_run
        c, ys = pb.scan(recurrence, pb.zeros(3), pb.tensor(XS))
        assert pb.engine_info().programs_run - before <= 2  # the zeros, and all results together
        want = by_hand(recurrence, np.zeros(3), XS)
        close(c, want[0])
        close(ys, want[1])
        close(pb.cond(c.sum() > 0, pb.sin, pb.cos, c), np.sin(want[0]))
        close(pb.while_loop(lambda x: x < 10, lambda x: x * 2, 1.0), 16.0)
        g = pb.grad(lambda w: pb.scan(lambda s, x: (s * w, s), 1.0, length=3)[0])(2.0)
        close(g, 12.0)


def test_no_grad_outside_and_inside():
    w = pb.tensor(2.0, requires_grad=True)
    with pb.no_grad():
        assert not pb.scan(lambda s, _: (s * w, None), 1.0, length=3)[0].requires_grad

    def step(s: Any, _: None) -> Any:
        with pb.no_grad():
            constant = s * w
        return constant + s * w, None

    out = pb.scan(step, 1.0, length=2)[0]
    out.backward()
    close(out, 16.0)
    close(w.grad, 6.0)  # 4 from the last iteration, 2 * 1 from the first


# -- errors -------------------------------------------------------------------------------------


def test_the_error_for_a_state_that_changes_its_type_shows_both_trees():
    init = {"h": pb.zeros(3), "n": pb.tensor(0)}
    with told(ArgumentError, TypeError, "scan", "f64[3]", "f64[4,3]", "'n': i64[]"):
        pb.scan(lambda s, x: ({**s, "h": s["h"] + pb.tensor(XS)}, None), init, length=2)
    with told(ArgumentError, TypeError, "'n': i64[]", "'n': f64[]"):
        pb.scan(lambda s, x: ({**s, "n": s["n"] * 1.5}, None), init, length=2)
    with told(ArgumentError, ValueError, "scan", "{'h': f64[3]}"):
        pb.scan(lambda s, x: ({"h": s["h"]}, None), init, length=2)
    with told(ArgumentError, ValueError, "while_loop", "f64[3]", "(f64[3], f64[])"):
        pb.while_loop(lambda s: s.sum() < 3, lambda s: (s, 1.0), pb.zeros(3))
    with told(ArgumentError, ValueError, "fori_loop", "got\n  f64[3]", "returned\n  f64[]"):
        pb.fori_loop(0, 3, lambda i, s: s.sum(), pb.zeros(3))


def test_the_error_for_branches_that_differ_shows_both_trees():
    x = pb.tensor(XS)
    with told(ArgumentError, ValueError, "cond", "f64[4,3]", "f64[3]"):
        pb.cond(True, lambda: x, lambda: x[0])
    with told(ArgumentError, ValueError, "cond", "f64[4,3]", "{'a': f64[4,3]}"):
        pb.cond(True, lambda: x, lambda: {"a": x})
    with told(ArgumentError, ValueError, "switch", "f64[]", "i64[]"):
        pb.switch(0, [lambda: x.sum(), lambda: pb.tensor(1)])
    with told(ArgumentError, ValueError, "cond", "i64[]", "f64[]"):
        pb.cond(True, lambda: pb.tensor(1), lambda: 0.5)


def test_predicates_and_conditions_must_be_scalar_bools():
    x = pb.tensor(XS)
    with told(ArgumentError, TypeError, "cond", "must be a bool, got i64[]", "!= 0"):
        pb.cond(pb.tensor(1), lambda: x, lambda: x)
    with told(ArgumentError, TypeError, "must be a bool, got i64[]"):
        pb.cond(1, lambda: x, lambda: x)
    with told(ArgumentError, ValueError, "cond", "scalar, got bool[4,3]", "pb.where"):
        pb.cond(x > 0, lambda: x, lambda: x)
    with told(ArgumentError, ValueError, "switch", "integer, got f64[]"):
        pb.switch(1.0, [lambda: x])
    with told(ArgumentError, ValueError, "switch", "at least one function"):
        pb.switch(0, [])
    with told(ArgumentError, ValueError, "while_loop", "one scalar bool, got bool[4,3]"):
        pb.while_loop(lambda s: s > 0, lambda s: s, x)


def test_lengths_must_agree_and_be_known():
    f = lambda s, x: (s, None)  # noqa: E731
    with told(ArgumentError, ValueError, "scan", "4 (xs['a'])", "3 (xs['b'])"):
        pb.scan(f, 0.0, {"a": pb.zeros(4), "b": pb.zeros(3)})
    with told(ArgumentError, ValueError, "5 (length)", "4 (xs)"):
        pb.scan(f, 0.0, pb.zeros(4), length=5)
    with told(ArgumentError, ValueError, "length must be given"):
        pb.scan(f, 0.0)
    with told(ArgumentError, ValueError, "scalar f64[]"):
        pb.map(lambda x: x, pb.tensor(1.0))
    with told(ArgumentError, ValueError, "at least 0, got -1"):
        pb.scan(f, 0.0, length=-1)
    with told(ArgumentError, ValueError, "unroll", "got 0"):
        pb.scan(f, 0.0, length=1, unroll=0)
    with told(ArgumentError, ValueError, "pair (state, result), got Tensor"):
        pb.scan(lambda s, x: s, 0.0, length=1)
    with told(ArgumentError, TypeError, "must contain tensors, arrays or numbers, got str"):
        pb.scan(f, "state", length=1)
    with told(ArgumentError, TypeError, "the result of the function", "got str"):
        pb.scan(lambda s, x: (s, "y"), 0.0, length=1)
    with told(ArgumentError, ValueError, "fori_loop", "scalar integers, got f64[]"):
        pb.fori_loop(pb.tensor(1.5), 3, lambda i, s: s, 0.0)


def test_a_body_cannot_read_values_or_write_outside():
    seen = pb.zeros(3)

    def reads(s: Any, x: Any) -> Any:
        return (s if s > 0 else -s), None

    def writes(s: Any, x: Any) -> Any:
        seen[0] = s
        return s, None

    with told(HostReadError, TypeError, "placeholders"):
        pb.scan(reads, 1.0, length=3)
    with told(InPlaceError, RuntimeError, "made outside"):
        pb.scan(writes, 1.0, length=3)
    with told(HostReadError, TypeError, "placeholders"):
        pb.cond(True, lambda: float(seen[0]), lambda: 1.0)


def test_lengths_may_be_numpy_integers() -> None:
    count = pb.scan(lambda c, _: (c + 1, None), 0, length=np.int64(5), unroll=np.int32(2))[0]
    assert count.item() == 5


# -- numbers as arguments of compiled functions -------------------------------------------------

WEAK = [
    lambda n, x: pb.scan(lambda c, k: (c * n + k, None), 0.0, x)[0],
    lambda n, x: pb.scan(lambda c, k: (c + k, None), n, x)[0],
    lambda n, x: pb.scan(lambda c, k: (n * 2, c + k), n, x)[1],
    lambda n, x: pb.while_loop(lambda s: s < 9, lambda s: s * n + x.sum(), 1.0),
    lambda n, x: pb.cond(x.sum() > 100, lambda: x.sum(), lambda: n),
    lambda n, x: pb.cond(x.sum() > 100, lambda: x.sum(), lambda: n * 2 + 1),
]


@pytest.mark.parametrize("f", WEAK)
@pytest.mark.parametrize("dtype", [pb.float16, pb.float32, pb.float64])
@pytest.mark.parametrize("n", [3, 2.5])
def test_a_number_has_no_dtype_whether_it_is_known_or_not(f: Any, dtype: Any, n: Any) -> None:
    x = pb.tensor(np.arange(4.0), dtype=dtype)
    got, want = pb.compile(f)(n, x), f(n, x)
    assert got.dtype is want.dtype
    assert got.tolist() == want.tolist()


def test_a_bound_that_does_not_fit_the_counter_raises() -> None:
    with told(DTypeError, TypeError, "fori_loop: 300 does not fit into i8"):
        pb.fori_loop(pb.tensor(0, dtype=pb.int8), 300, lambda i, s: s + 1, 0)
    with told(DTypeError, TypeError, "fori_loop: -1 does not fit into u8"):
        pb.fori_loop(-1, pb.tensor(3, dtype=pb.uint8), lambda i, s: s + 1, 0)
