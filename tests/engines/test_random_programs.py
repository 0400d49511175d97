"""Random programs: engines, modes, live sets and both directions of differentiation agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from counters import counting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import ALL, SMOOTH, run

import pullback as pb
from pullback.transforms import early_results

SHAPES = [(3, 4), (3, 4), (4, 3), (4,), ()]


def bounded(examples: int) -> Any:
    """The same examples in every run, without a deadline for busy machines."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


steps = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000)),
    min_size=3, max_size=10,
)  # fmt: skip
seeds = st.integers(0, 10_000)


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, shape) for shape in SHAPES]


def values(tensors: Sequence[Any]) -> list[np.ndarray]:
    return [t.numpy() for t in tensors]


def tensors(data: Sequence[np.ndarray]) -> list[Any]:
    return [pb.tensor(a) for a in data]


def same_bits(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> None:
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tobytes() == y.tobytes(), f"value {i}: {x} and {y}"


def close(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> None:
    for x, y in zip(xs, ys, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


# -- what must agree ------------------------------------------------------------------------------


@bounded(25)
@given(steps, seeds)
def test_engines_agree(program, seed):
    data = arrays(seed)
    got = values(run(program, tensors(data), ALL))
    with pb.config(engine="reference"):
        want = values(run(program, tensors(data), ALL))
    close(got, want)


@bounded(25)
@given(steps, seeds)
def test_programs_cut_after_what_is_read_agree(program, seed):
    data = arrays(seed)

    def found(order: int) -> list[np.ndarray]:
        pb.clear_cache()
        results = run(program, tensors(data), ALL)
        return values(results[::order])[::order]  # the first is read while the others are pending

    want = found(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(early_results, "LONG", 0)
        close(found(1), want)
        close(found(-1), want)


@bounded(60)
@given(steps, seeds)
def test_modes_give_the_same_bits_on_the_reference(program, seed):
    data = arrays(seed)
    with pb.config(engine="reference"):
        deferred = values(run(program, tensors(data), ALL))
        with pb.config(eager=True):
            eager = values(run(program, tensors(data), ALL))
        with pb.config(verify_shapes=True):
            verified = values(run(program, tensors(data), ALL))
    same_bits(deferred, eager)
    same_bits(deferred, verified)


@bounded(5)
@given(steps, seeds)
def test_modes_agree_on_xla(program, seed):
    data = arrays(seed)
    deferred = values(run(program, tensors(data), ALL))
    with pb.config(eager=True):
        eager = values(run(program, tensors(data), ALL))
    close(deferred, eager)


def read_some(program: Any, data: Any, ops: list, live: int, order: int) -> dict[int, np.ndarray]:
    """Keep some values alive and read them in some order; the others are freed."""
    made = dict(enumerate(run(program, tensors(data), ops)))
    kept = {i: t for i, t in made.items() if live >> i & 1}
    del made
    rng = np.random.default_rng(order)
    read: dict[int, np.ndarray] = {}
    for i in rng.permutation(list(kept)):
        # in some orders, what was read dies before the next one is read
        t = kept.pop(int(i)) if order % 3 == 0 else kept[int(i)]
        read[int(i)] = t.numpy()
    return read


@bounded(60)
@given(steps, seeds, st.lists(st.tuples(st.integers(1, 1023), seeds), min_size=2, max_size=4))
def test_live_sets_do_not_change_bits_on_the_reference(program, seed, sets):
    data = arrays(seed)
    with pb.config(engine="reference"):
        want = values(run(program, tensors(data), ALL))
        for live, order in sets:
            for i, got in read_some(program, data, ALL, live, order).items():
                assert got.tobytes() == want[i].tobytes()


@bounded(8)
@given(steps, seeds, st.tuples(st.integers(1, 1023), seeds))
def test_live_sets_agree_on_xla(program, seed, live_set):
    data = arrays(seed)
    want = values(run(program, tensors(data), ALL))
    for i, got in read_some(program, data, ALL, *live_set).items():
        np.testing.assert_allclose(got, want[i], rtol=1e-10, atol=1e-10)


@bounded(40)
@given(steps, seeds)
def test_repeated_evaluation_hits_the_cache(program, seed):
    pb.clear_cache()  # a program of an earlier example may have been kept with fewer outputs
    with pb.config(engine="reference"):
        first = values(run(program, tensors(arrays(seed)), ALL))
        with counting() as counts:
            again = values(run(program, tensors(arrays(seed)), ALL))
            other = values(run(program, tensors(arrays(seed + 1)), ALL))
            assert counts.compiles == 0 and counts.misses == 0
        same_bits(first, again)
        assert [x.shape for x in other] == [x.shape for x in first]


# -- derivatives ----------------------------------------------------------------------------------


def scalar_of(program: Any) -> Callable:
    """The last values of a program, weighted and summed."""

    def f(*inputs: Any) -> Any:
        made = run(program, inputs, SMOOTH)[-3:]
        result = pb.tensor(0.0, dtype="float64")
        for i, y in enumerate(made):
            result = result + (pb.sin(y) * (i + 1.0)).sum()
        return result

    return f


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return sum(float((np.asarray(x) * np.asarray(y)).sum()) for x, y in zip(xs, ys, strict=True))


@bounded(50)
@given(steps, seeds)
def test_reverse_forward_and_differences_agree(program, seed):
    f, data = scalar_of(program), arrays(seed)
    directions = arrays(seed + 1)
    with pb.config(engine="reference"):
        argnums = tuple(range(len(data)))
        value, gs = pb.value_and_grad(f, argnums)(*tensors(data))
        y, t = pb.jvp(f, tensors(data), tensors(directions))
        assert y.numpy().tobytes() == value.numpy().tobytes()
        by_reverse, by_forward = inner(gs, directions), t.item()
        np.testing.assert_allclose(by_reverse, by_forward, rtol=1e-9, atol=1e-9)
        step = 1e-6
        plus, minus = (
            f(*tensors([a + s * d for a, d in zip(data, directions)])).item() for s in (step, -step)
        )
        slope = (plus - minus) / (2 * step)
        np.testing.assert_allclose(by_forward, slope, rtol=1e-4, atol=1e-4)


@bounded(20)
@given(steps, seeds)
def test_dot_product_identity_for_every_result(program, seed):
    """<J t, g> is <t, J' g>, with several results."""
    data, directions = arrays(seed), arrays(seed + 1)

    def f(*inputs: Any) -> list[Any]:
        return run(program, inputs, SMOOTH)[-3:]

    with pb.config(engine="reference"):
        ys, pull = pb.vjp(f, *tensors(data))
        rng = np.random.default_rng(seed)
        gs = [rng.normal(size=y.shape) for y in ys]
        pulled = pull(tensors(gs))
        _, pushed = pb.jvp(f, tensors(data), tensors(directions))
        left, right = inner(pushed, gs), inner(directions, pulled)
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


@bounded(10)
@given(steps, seeds)
def test_second_derivatives_agree(program, seed):
    """Forward over reverse, reverse over forward: the same Hessian product."""
    f, data, directions = scalar_of(program[:6]), arrays(seed), arrays(seed + 1)
    argnums = tuple(range(len(data)))
    with pb.config(engine="reference"):
        over_reverse = pb.hvp(f, tensors(data), tensors(directions))
        over_forward = pb.grad(
            lambda *xs: pb.jvp(f, xs, tensors(directions))[1], argnums
        )(*tensors(data))  # fmt: skip
        for a, b in zip(over_reverse, over_forward, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-8)


@bounded(8)
@given(steps, seeds)
def test_gradients_agree_between_engines(program, seed):
    f, data = scalar_of(program), arrays(seed)
    argnums = tuple(range(len(data)))
    got = values(pb.grad(f, argnums)(*tensors(data)))
    with pb.config(engine="reference"):
        want = values(pb.grad(f, argnums)(*tensors(data)))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-8)
