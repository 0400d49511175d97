"""pb.random: arguments, edge cases and the number of programs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.graph import dtypes
from pullback.ops.random.affine import Affine
from pullback.ops.random.between import Between
from pullback.ops.random.mul_high import MulHigh

R = pb.random
KEY = R.key(0)
FLOATS = (pb.float16, pb.bfloat16, pb.float32, pb.float64)
INTEGERS = [d for d in dtypes.ALL if d.is_integer]


@pytest.fixture
def reference():
    """Use the reference engine, which needs no compilation and gives the same bits."""
    with pb.config(engine="reference"):
        yield


def test_dir_lists_only_public_names():
    assert dir(R) == sorted(R.__all__)
    assert all(callable(getattr(R, name)) for name in dir(R))


# -- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "words"),
    [(0, [0, 0]), (7, [0, 7]), (2**40 + 3, [256, 3]), (-1, [2**32 - 1] * 2),
     (2**64 - 1, [2**32 - 1] * 2), (-(2**63), [2**31, 0])],
)  # fmt: skip
def test_a_seed_is_taken_modulo_two_to_the_64(seed, words):
    key = R.key(seed)
    assert key.dtype is pb.uint32 and key.tolist() == words


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_tensor_as_seed_gives_the_same_key(dtype):
    for seed in (0, 5, 100) + (() if dtype.kind == "u" else (-3,)):
        assert R.key(pb.tensor(seed, dtype=dtype)).tolist() == R.key(seed).tolist()


def test_fold_in_of_a_tensor_equals_fold_in_of_numbers():
    numbers = [0, 1, -1, 2**40, -(2**63)]
    keys = R.fold_in(KEY, pb.tensor(numbers)).tolist()
    assert keys == [R.fold_in(KEY, n).tolist() for n in numbers]
    assert R.fold_in(KEY, 2**64 - 1).tolist() == R.fold_in(KEY, -1).tolist()
    assert R.fold_in(KEY, pb.tensor([[1], [2]])).shape == (2, 1, 2)


def test_split_by_count_and_by_shape():
    flat = R.split(KEY, 6)
    assert (
        flat.shape == (6, 2)
        and R.split(KEY, (2, 3)).tolist() == flat.numpy().reshape(2, 3, 2).tolist()
    )
    assert R.split(KEY, 9)[:6].tolist() == flat.tolist()  # independent of their number
    assert R.split(KEY, 0).shape == (0, 2)


def test_a_key_may_be_a_numpy_array():
    assert R.bits(np.array([0, 5], np.uint32)).item() == R.bits(R.key(5)).item()


# -- shapes and dtypes ----------------------------------------------------------------------------

SAMPLERS = {
    "uniform": R.uniform,
    "normal": R.normal,
    "exponential": R.exponential,
    "truncated_normal": lambda k, shape, dtype=None: R.truncated_normal(k, -1, 1, shape, dtype),
    "gamma": lambda k, shape, dtype=None: R.gamma(k, 2, shape, dtype),
}


COMPILED = ("uniform", "normal")  # test_random_engines.py compares the engines in all


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 1), 4])
def test_shapes(name, shape):
    with pb.config(engine="xla" if name in COMPILED else "reference"):
        made = SAMPLERS[name](KEY, shape)
        assert made.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert made.dtype is pb.float32
        assert made.numpy().shape == made.shape and np.isfinite(made.numpy()).all()


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_dtypes(name, dtype):
    made = SAMPLERS[name](KEY, (4,), dtype)
    assert made.dtype is dtype and made.numpy().dtype == dtype.numpy
    if dtype.bits == 16:  # the numbers of f32, rounded
        wide = SAMPLERS[name](KEY, (4,), pb.float32).numpy()
        np.testing.assert_allclose(made.numpy().astype(np.float32), wide, rtol=0.01)


def test_the_default_dtype_is_that_of_the_parameters():
    with pb.default_dtype("float64"):
        assert R.normal(KEY).dtype is pb.float64
    assert R.uniform(KEY, minval=pb.tensor(0.5, dtype="float64")).dtype is pb.float64
    assert R.gamma(KEY, pb.tensor([1.0], dtype="float16")).dtype is pb.float16
    assert R.normal(KEY, loc=pb.tensor([1j])).dtype is pb.complex64
    assert R.gamma(KEY, pb.tensor([1, 2])).dtype is pb.float32


def test_parameters_broadcast():
    rows, columns = pb.tensor([[0.0], [10.0]]), pb.tensor([1.0, 2.0, 3.0])
    assert R.uniform(KEY, minval=rows, maxval=rows + columns).shape == (2, 3)
    assert R.normal(KEY, (4, 2, 3), loc=rows, scale=columns).shape == (4, 2, 3)
    assert R.gamma(KEY, columns, (5, 3)).shape == (5, 3)
    assert R.bernoulli(KEY, [0.5, 0.5]).shape == (2,)
    assert R.randint(KEY, None, pb.tensor([0, 5]), 10).shape == (2,)


def test_numbers_in_lists_keep_their_precision():
    made = R.uniform(KEY, dtype="f64", minval=[0.1], maxval=[0.2]).numpy()
    assert made == 0.1 + R.uniform(KEY, (1,), "f64").numpy() * (0.2 - 0.1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_dtypes(dtype):
    low, high = int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max)
    for a, b in ((low, high + 1), (low, low + 1), (high, high + 1), (low + 1, high)):
        x = R.randint(KEY, (200,), a, b, dtype).numpy()
        assert x.dtype == dtype.numpy
        assert all(a <= v < b for v in x.tolist())
    whole = R.randint(KEY, (200,), low, high + 1, dtype).numpy()
    assert len(np.unique(whole)) > 100


def test_randint_over_all_64_bit_integers_equals_bits():
    bits = R.bits(KEY, (9,), "u64")
    assert R.randint(KEY, (9,), 0, 2**64, "u64").tolist() == bits.tolist()


def test_tensors_as_bounds_of_randint():
    low, high = pb.tensor([-5, 7, 3]), pb.tensor([5, 8, 3])
    assert R.randint(KEY, (50, 3), low, high).shape == (50, 3)
    x = R.randint(KEY, (500, 3), low, high).numpy()
    assert set(x[:, 0]) == set(range(-5, 5)) and set(x[:, 1]) == {7} and set(x[:, 2]) == {3}
    same = R.randint(KEY, (500,), -5, 5).numpy()
    assert R.randint(KEY, (500,), low[0], high[0]).tolist() == same.tolist()
    wide = R.randint(KEY, (500,), pb.tensor(-(10**6)), pb.tensor(10**6), "i8").numpy()
    assert wide.min() < -100 and wide.max() > 100  # clamped to the dtype
    least = pb.tensor(-(2**63))
    assert R.randint(KEY, (3,), least, least).tolist() == [-(2**63)] * 3


def test_complex_normal_numbers():
    z = R.normal(KEY, (3,), pb.complex64, loc=2 - 1j, scale=0.0)
    assert z.tolist() == [2 - 1j] * 3
    assert R.normal(KEY, (3,), pb.complex128).numpy().dtype == np.complex128


# -- selection ------------------------------------------------------------------------------------


def test_categorical_shapes():
    logits = pb.zeros((2, 3, 4))
    assert R.categorical(KEY, logits).shape == (2, 3)
    assert R.categorical(KEY, logits, axis=0).shape == (3, 4)
    assert R.categorical(KEY, logits, axis=1, shape=(5, 6, 2, 4)).shape == (5, 6, 2, 4)
    assert R.categorical(KEY, pb.zeros(4), shape=()).dtype is pb.int64
    assert R.categorical(KEY, pb.zeros((0, 4))).shape == (0,)
    made = R.categorical(KEY, pb.zeros((3, 4)), shape=(2, 2, 3), replace=False).numpy()
    assert (np.sort(made.reshape(4, 3), axis=0) == np.arange(4)[:, None]).all()


def test_categorical_edge_cases():
    inf, nan = math.inf, math.nan
    rows = [[-inf, 0, -inf], [nan, -3, nan], [inf, 5, -inf], [-inf] * 3, [-1e30, 0, -800]]
    x = R.categorical(KEY, pb.tensor(rows), shape=(300, 5)).numpy()
    assert set(x[:, 0]) == {1} and set(x[:, 1]) == {1} and set(x[:, 2]) == {0}
    assert set(x[:, 3]) == {0, 1, 2} and set(x[:, 4]) == {1}
    assert set(R.categorical(KEY, [0.0], shape=(9,)).tolist()) == {0}


def test_choice_along_an_axis():
    x = pb.reshape(pb.arange(12), (3, 4))
    assert R.choice(KEY, x, (2, 5), axis=1).shape == (3, 2, 5)
    rows = R.choice(KEY, x, (3,), replace=False).numpy()
    assert sorted(rows[:, 0]) == [0, 4, 8]
    assert R.choice(KEY, x).shape == (4,)
    assert R.choice(KEY, 0, (0,)).shape == (0,)
    picked = R.choice(KEY, x, (30,), p=pb.tensor([0.0, 1.0, 0.0])).numpy()
    assert (picked == [4, 5, 6, 7]).all()


def test_choice_with_tensor_weights():
    for p in ([0.0, 0.0, 0.0], [math.inf, 1.0, math.inf], [math.nan, -1.0, 1e-300]):
        made = set(R.choice(KEY, 3, (200,), p=pb.tensor(p, dtype="f64")).tolist())
        assert made == {0: {0, 1, 2}, math.inf: {0, 2}}.get(p[0], {2})


def test_permutation_along_an_axis():
    x = pb.reshape(pb.arange(12), (3, 4))
    made = R.permutation(KEY, x, axis=1).numpy()
    assert (np.sort(made, 1) == x.numpy()).all() and (made[1] - made[0] == 4).all()
    apart = R.permutation(KEY, pb.reshape(pb.arange(400), (40, 10)), axis=1, independent=True)
    apart = apart.numpy() % 10
    assert (np.sort(apart, 1) == np.arange(10)).all() and len(np.unique(apart, axis=0)) > 30
    assert R.permutation(KEY, 0).shape == (0,)
    assert sorted(R.permutation(KEY, pb.tensor([5.0, 6.0])).tolist()) == [5.0, 6.0]


# -- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [pb.float16, pb.bfloat16, pb.float32])
def test_uniform_samples_stay_within_bounds_when_rounded(dtype):
    top = 6e4 if dtype is pb.float16 else 1e38
    ends = [2.0**-24, 2.0**-15, 1e-3, 0.5, 1.0, 1.0 + 2**-7, 100.0, top]
    ends = np.array([-e for e in ends] + [0.0] + ends, np.float32)
    low, high = np.array([(a, b) for a in ends for b in ends if a < b], np.float32).T
    unit = np.array([0, 2.0**-24, 0.25, 0.999, 1 - 2.0**-24], np.float32)[:, None]
    graph = testing.graph_of(Between(dtype), (unit, low, high))
    found = testing.run(graph, (unit, low, high))[0]
    assert (
        found.tobytes()
        == testing.run(graph, (unit, low, high), registered_engine("xla"))[0].tobytes()
    )
    wide = found.astype(np.float64)
    assert (low <= wide).all() and (wide < high).all()


def test_products_are_not_contracted_whatever_their_size():
    x = np.array([1.1, -2.3, 1e20, 0.0, 1e-30, 3.0], np.float32)
    scale = np.array([1e30, 1e-20, 1e30, np.inf, -1.0, np.nan], np.float32)[:, None]
    offset = np.float32(-1.7)
    graph = testing.graph_of(Affine(), (x, scale, offset))
    found = testing.run(graph, (x, scale, offset))[0]
    np.testing.assert_array_equal(
        found, testing.run(graph, (x, scale, offset), registered_engine("xla"))[0]
    )
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, x * scale + offset)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_mul_high_is_the_upper_half_of_the_product(bits):
    x = np.array(
        [0, 1, 3, 2**bits // 3, 2**bits // 2 + 1, 2**bits - 2, 2**bits - 1], f"u{bits // 8}"
    )
    exact = np.multiply.outer(x.astype(object), x.astype(object)) >> bits
    for machine in (None, registered_engine("xla")):
        graph = testing.graph_of(MulHigh(), (x[:, None], x))
        assert testing.run(graph, (x[:, None], x), machine)[0].tolist() == exact.tolist()


def test_bernoulli_of_probability_zero_and_one():
    assert R.bernoulli(KEY, 1.0, (1000,)).numpy().all()
    assert not R.bernoulli(KEY, 0.0, (1000,)).numpy().any()
    odd = R.bernoulli(KEY, pb.tensor([math.nan, -1.0, 2.0, math.inf]), (50, 4)).numpy()
    assert (odd == [False, False, True, True]).all()


def test_gamma_edge_cases(reference):
    small = R.gamma(KEY, 1e-4, (1000,))
    assert small.numpy().min() == np.finfo(np.float32).tiny
    assert R.gamma(KEY, 1e-300, (10,), "f64").numpy().max() == np.finfo(np.float64).tiny
    large = R.gamma(KEY, 1e20, (1000,), "f64").numpy() / 1e20
    assert abs(large - 1).max() < 1e-9 and large.std() > 0
    odd = R.gamma(KEY, pb.tensor([0.0, -1.0, math.nan, math.inf])).numpy()
    assert np.isnan(odd[:3]).all() and odd[3] == math.inf
    assert R.gamma(KEY, pb.tensor([1e-3, 2.0]), (0, 2)).shape == (0, 2)


def test_truncated_normal_edge_cases():
    x = R.truncated_normal(
        KEY, pb.tensor([3.0, -1e30, 40.0]), pb.tensor([3.0, -1e29, 40.5]), (9, 3)
    )
    x = x.numpy()
    assert (x[:, 0] == 3).all() and (x[:, 1] == np.float32(-1e29)).all()
    assert (x[:, 2] >= 40).all() and (x[:, 2] < 40.3).all()
    odd = R.truncated_normal(KEY, pb.tensor([1.0, math.nan, 0.0]), pb.tensor([0.0, 1.0, math.nan]))
    assert np.isnan(odd.numpy()).all()


# -- programs and compilation ---------------------------------------------------------------------


def programs(f):
    before = pb.engine_info().programs_run
    f()
    return pb.engine_info().programs_run - before


def test_splitting_and_drawing_run_one_program():
    def draw():
        key, first, second = R.split(R.key(3), 3)
        return pb.evaluate(R.normal(first, (3,)), R.uniform(second, (3,)), key)

    draw()
    assert programs(draw) == 1


def test_a_training_loop_compiles_once():
    """Splitting a key outside of the derivative costs another program: its inputs are computed."""
    key, w, count = R.key(0), pb.tensor([1.0, 2.0]), 0

    def carry_key():
        nonlocal key, w
        key, now = R.split(key)
        w = w - 0.1 * pb.grad(lambda w: ((w * R.normal(now, (2,))) ** 2).sum())(w)
        w.numpy()

    def fold_step():
        nonlocal w, count
        count += 1
        loss = lambda w: ((w * R.normal(R.fold_in(key, count), (2,))) ** 2).sum()  # noqa: E731
        w = w - 0.1 * pb.grad(loss)(w)
        w.numpy()

    for step, number in ((carry_key, 2), (fold_step, 1)):
        for _ in range(3):
            step()
        compiled = pb.cache_info().misses
        assert [programs(step) for _ in range(3)] == [number] * 3
        assert pb.cache_info().misses == compiled


@pytest.mark.parametrize(
    ("draw", "numbers"),
    [
        (lambda key, n: R.bits(R.key(n), 3), (-5,)),
        (lambda key, n: R.fold_in(key, n), (2**40,)),
        (lambda key, *ab: R.uniform(key, 3, None, *ab), (-3, 7.5)),
        (lambda key, *ab: R.normal(key, 3, None, *ab), (2, 0.5)),
        (lambda key, *ab: R.truncated_normal(key, *ab, 3), (-1, 2.5)),
        (lambda key, a: R.exponential(key, 3, scale=a), (2,)),
        (lambda key, a: R.gamma(key, a, 3), (2.0,)),
        (lambda key, p: R.bernoulli(key, p, 30), (0.2,)),
        (lambda key, *ab: R.randint(key, 9, *ab), (-3, 7)),
        (lambda key, p: R.choice(key, 2, 9, p=[p, 1 - p]), (0.2,)),
    ],
)
def test_numbers_as_arguments_of_compiled_functions(reference, draw, numbers):
    assert pb.compile(draw)(KEY, *numbers).tolist() == draw(KEY, *numbers).tolist()


def test_a_key_goes_through_every_transform():
    def walk(key, _):
        key, now = R.split(key)
        return key, R.normal(now)

    _, scanned = pb.scan(walk, R.key(1), None, length=4)
    key, made = R.key(1), []
    for _ in range(4):
        key, value = walk(key, None)
        made.append(value.item())
    assert scanned.tolist() == made
    chosen = pb.cond(pb.tensor(True), lambda k: R.uniform(k), lambda k: R.normal(k), KEY)
    assert chosen.item() == R.uniform(KEY).item()
    dropped = pb.checkpoint(lambda x: (x * R.bernoulli(KEY, 0.5, (6,))).sum())
    assert pb.grad(dropped)(pb.ones(6)).tolist() == R.bernoulli(KEY, 0.5, (6,)).tolist()
