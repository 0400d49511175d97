"""Random programs: engines, modes, live sets and both directions of differentiation agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from counters import counting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pullback as pb

SHAPES = [(3, 4), (3, 4), (4, 3), (4,), ()]


def bounded(examples: int) -> Any:
    """The same examples in every run, and no deadline that a busy machine could miss."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


# -- building -------------------------------------------------------------------------------------
# A program is a list of numbers. Each step takes an op and operands by their number among what
# fits, so every list is a program, and a shorter list is a simpler one.


def fits(a: Any, b: Any) -> bool:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


def partner(a: Any, pool: list[Any], n: int) -> Any:
    """Another value that broadcasts with `a`."""
    others = [b for b in pool if fits(a, b)]
    return others[n % len(others)]


def add(a: Any, pool: list[Any], n: int) -> Any:
    return (a + partner(a, pool, n)) * 0.5


def subtract(a: Any, pool: list[Any], n: int) -> Any:
    return partner(a, pool, n) - a * 0.25


def multiply(a: Any, pool: list[Any], n: int) -> Any:
    return pb.tanh(a) * partner(a, pool, n)


def divide(a: Any, pool: list[Any], n: int) -> Any:
    b = partner(a, pool, n)
    return a / (b * b + 1.5)


def unary(a: Any, pool: list[Any], n: int) -> Any:
    return (pb.sin, pb.tanh, pb.logistic, pb.atan, pb.square)[n % 5](pb.tanh(a))


def exponential(a: Any, pool: list[Any], n: int) -> Any:
    return pb.exp(pb.tanh(a)) if n % 2 else pb.log(a * a + 1.0)


def total(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim:
        return a * 0.5
    axis = None if n % 5 == 0 else n % a.ndim
    return pb.mean(a, axis=axis, keepdims=n % 3 == 0) if n % 2 else pb.sum(a, axis=axis) * 0.25


def running(a: Any, pool: list[Any], n: int) -> Any:
    return pb.cumulative_sum(a, axis=n % a.ndim) * 0.5 if a.ndim else a - 0.5


def transpose(a: Any, pool: list[Any], n: int) -> Any:
    return pb.permute_dims(a, tuple(reversed(range(a.ndim))))


def reshape(a: Any, pool: list[Any], n: int) -> Any:
    if a.shape == (3, 4):
        return pb.reshape(a, ((4, 3), (12,), (2, 6))[n % 3])
    return pb.reshape(a, (-1,)) if a.size < 30 else a * 0.5


def flip(a: Any, pool: list[Any], n: int) -> Any:
    return pb.flip(a, axis=n % a.ndim) if a.ndim else -a


def concat(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim or a.size > 30:
        return pb.expand_dims(a, axis=0)
    return pb.concat([a, a * 0.5], axis=n % a.ndim)


def pad(a: Any, pool: list[Any], n: int) -> Any:
    return pb.pad(a, (1, 0), 0.25) if a.ndim and a.size < 30 else a + 0.25


def cut(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim:
        return a
    return a[(slice(None),) * (n % a.ndim) + (slice(None, None, -1 if n % 2 else 2),)]


def pick(a: Any, pool: list[Any], n: int) -> Any:
    return a[n % a.shape[0]] if a.ndim else a


def gather(a: Any, pool: list[Any], n: int) -> Any:
    return a[np.array([n, n // 2, 0, n]) % a.shape[0]] if a.ndim and a.size < 30 else a


def write(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim:
        return a
    y = pb.tensor(a)
    y[n % a.shape[0]] = 0.5
    return y


def matmul(a: Any, pool: list[Any], n: int) -> Any:
    if a.ndim != 2:
        return pb.sin(a)
    others = [b for b in pool if b.ndim == 2 and b.shape[0] == a.shape[1]]
    b = others[n % len(others)] if others else pb.matrix_transpose(a)
    return pb.tanh(a) @ b / a.shape[1]


def where(a: Any, pool: list[Any], n: int) -> Any:
    b = partner(a, pool, n)
    return pb.where(a > 0.123, b * 0.5, pb.tanh(a))


def extreme(a: Any, pool: list[Any], n: int) -> Any:
    if n % 2 and a.ndim:
        return pb.max(a, axis=n % a.ndim)
    return pb.minimum(a, partner(a, pool, n))


def order(a: Any, pool: list[Any], n: int) -> Any:
    return pb.sort(a, axis=n % a.ndim) if a.ndim else abs(a)


SMOOTH: list[Callable] = [
    add, subtract, multiply, divide, unary, exponential, total, running, transpose, reshape,
    flip, concat, pad, cut, pick, gather, write, matmul, where,
]  # fmt: skip
ALL = [*SMOOTH, extreme, order]
steps = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000)),
    min_size=3, max_size=10,
)  # fmt: skip
seeds = st.integers(0, 10_000)


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, shape) for shape in SHAPES]


def run(program: Sequence[tuple[int, int, int]], inputs: Sequence[Any], ops: list) -> list[Any]:
    """Every value the program makes, in order."""
    pool = list(inputs)
    for op, operand, choice in program:
        recent = pool[-6:]
        pool.append(ops[op % len(ops)](recent[operand % len(recent)], pool, choice))
    return pool[len(inputs) :]


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
    """Keep some values alive, and read them in some order; the others die."""
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
            f(*tensors([a + s * d for a, d in zip(data, directions)])).item()
            for s in (step, -step)
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
