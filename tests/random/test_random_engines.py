"""Random numbers are the same in both engines, batched or not, and never change."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.builder import Builder
from pullback.graph import dtypes
from pullback.graph.op_table import TABLE
from pullback.ops.random import sampler_formulas
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise

R = pb.random
FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
N = 3000  # a contracted product would change hundreds of these
LOGITS = np.linspace(-3, 3, 35).reshape(5, 7).astype(np.float32) ** 3


def limits(name):
    found = np.iinfo(dtypes.dtype(name).numpy)
    return int(found.min), int(found.max)


def cases():
    """Return functions of a key that cover all samplers, by name."""
    made = {"split": lambda k: R.split(k, 50), "fold_in": lambda k: R.fold_in(k, pb.arange(50))}
    for d in ("u8", "u16", "u32", "u64"):
        made[f"bits {d}"] = lambda k, d=d: R.bits(k, (N,), d)
    for d in FLOATS:
        made |= {
            f"uniform {d}": lambda k, d=d: R.uniform(k, (N,), d),
            f"uniform between {d}": lambda k, d=d: R.uniform(k, (N,), d, -3.3, 7.7),
            f"uniform by row {d}": lambda k, d=d: R.uniform(
                k, (N // 5, 5), d, pb.tensor(-1.3), pb.arange(5) + 0.37
            ),
            f"normal {d}": lambda k, d=d: R.normal(k, (N,), d),
            f"normal moved {d}": lambda k, d=d: R.normal(k, (N,), d, 1.37, 2.71),
            f"exponential {d}": lambda k, d=d: R.exponential(k, (N,), d),
            f"exponential scaled {d}": lambda k, d=d: R.exponential(k, (N,), d, 0.37),
            f"truncated {d}": lambda k, d=d: R.truncated_normal(k, -1.3, 2.2, (N,), d),
            f"truncated far {d}": lambda k, d=d: R.truncated_normal(k, 5.3, pb.inf, (N,), d),
            f"gamma {d}": lambda k, d=d: R.gamma(k, np.geomspace(0.01, 100, N), dtype=d),
            f"gamma of one {d}": lambda k, d=d: R.gamma(k, 2.5, (N,), d),
        }
    for d in ("complex64", "complex128"):
        made[f"normal {d}"] = lambda k, d=d: R.normal(k, (N,), d, 1 + 2j, 0.3)
    for d in INTEGERS:
        low, high = limits(d)
        made |= {
            f"randint {d}": lambda k, d=d: R.randint(k, (N,), 3, 100, d),
            f"randint all {d}": lambda k, d=d, a=low, b=high: R.randint(k, (N,), a, b + 1, d),
            f"randint most {d}": lambda k, d=d, a=low, b=high: R.randint(k, (N,), a + 1, b, d),
        }
    made |= {
        "bernoulli": lambda k: R.bernoulli(k, 0.3, (N,)),
        "bernoulli each": lambda k: R.bernoulli(k, np.linspace(0, 1, N).astype(np.float32)),
        "categorical": lambda k: R.categorical(k, LOGITS, shape=(N, 5)),
        "categorical axis": lambda k: R.categorical(k, LOGITS, axis=0, shape=(N, 7)),
        "categorical apart": lambda k: R.categorical(k, LOGITS, shape=(2, 3, 5), replace=False),
        "choice": lambda k: R.choice(k, 12, (N,)),
        "choice p": lambda k: R.choice(k, 7, (N,), p=pb.tensor(np.abs(LOGITS[1]))),
        "choice apart": lambda k: R.choice(k, 7, (5,), replace=False, p=pb.exp(LOGITS[2])),
        "permutation": lambda k: R.permutation(k, N),
        "permutation rows": lambda k: R.permutation(
            k, pb.reshape(pb.arange(60), (6, 10)), 1, independent=True
        ),
    }
    return made


CASES = cases()


def both_engines(f):
    made = f().numpy()
    with pb.config(engine="reference"):
        return made, f().numpy()


@pytest.mark.parametrize("name", CASES)
def test_both_engines_give_the_same_bits(name):
    xla, reference = both_engines(lambda: CASES[name](R.key(12345)))
    assert xla.dtype == reference.dtype and xla.shape == reference.shape
    assert xla.tobytes() == reference.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_batching_changes_no_bit(name):
    keys = R.split(R.key(7), 3).numpy()
    with pb.config(engine="reference"):
        each = np.stack([CASES[name](pb.tensor(k)).numpy() for k in keys])
        assert pb.vmap(CASES[name])(pb.tensor(keys)).numpy().tobytes() == each.tobytes()


@pytest.mark.parametrize(
    "name", ["normal f32", "uniform between f32", "gamma f32", "truncated f64", "categorical",
             "randint i64", "permutation", "choice apart", "normal complex64", "split"],
)  # fmt: skip
def test_batching_changes_no_bit_when_compiled(name):
    keys = R.split(R.key(7), 3).numpy()
    each = np.stack([CASES[name](pb.tensor(k)).numpy() for k in keys])
    assert pb.vmap(CASES[name])(pb.tensor(keys)).numpy().tobytes() == each.tobytes()


@pytest.mark.parametrize(
    "name", ["normal moved f32", "uniform between f32", "truncated f64", "gamma of one f64",
             "exponential scaled f64", "categorical", "choice apart", "randint i64"],
)  # fmt: skip
def test_compiling_changes_no_bit(name):
    """Also if parameters, and even the key, are constants that XLA folds."""
    with pb.config(engine="reference"):
        wanted = CASES[name](R.key(5)).numpy()
    assert pb.compile(CASES[name])(R.key(5)).numpy().tobytes() == wanted.tobytes()
    alone = pb.compile(lambda x: (CASES[name](R.key(5)), x))
    assert alone(pb.tensor(1.0))[0].numpy().tobytes() == wanted.tobytes()


NAMES = ("normal", "normal moved", "uniform between", "truncated", "gamma", "exponential scaled")
CONTINUOUS = [f"{name} {dtype}" for name in NAMES for dtype in ("f32", "f64")]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_fusion_changes_no_bit(name):
    """Samples do not depend on what else a program computes from them."""
    with pb.config(engine="reference"):
        wanted = CASES[name](R.key(5)).numpy()
    x = CASES[name](R.key(5))
    others = [x * 2.5 + 1, 3 - x * x, pb.exp(-x), (x * x).sum(), x + x * pb.stop_gradient(x)]
    pb.evaluate(x, *others)
    assert x.numpy().tobytes() == wanted.tobytes()
    with pb.config(eager=True):
        assert CASES[name](R.key(5)).numpy().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("p", [
    [1e308, 5e307, 1e308], [5e-324, 1e-323, 0], [2e-308, 3e-308, 0], [1, 0, 1e-300], [1, 0, 1e-310],
    [1e308, 0, 1.0], [np.inf, 1, 0],
])  # fmt: skip
@pytest.mark.parametrize("replace", [True, False])
def test_extreme_probabilities_choose_the_same_elements(p, replace):
    """A power of 2 that has no reciprocal, and numbers that XLA flushes to 0."""
    p, shape = np.array(p, np.float64), (20,) if replace else (2,)
    f = lambda: R.choice(R.key(3), 3, shape, replace=replace, p=pb.tensor(p))  # noqa: E731
    xla, reference = both_engines(f)
    assert xla.tolist() == reference.tolist()
    assert xla.max() < 3
    if replace and p.max() > 1e-300:
        assert (p[xla] > 0).all()


def test_gamma_of_a_subnormal_shape_is_nan_in_both_engines():
    for dtype, a in (("f32", 1e-40), ("f64", 1e-310)):
        for found in both_engines(lambda a=a, dtype=dtype: R.gamma(R.key(1), a, (3,), dtype)):
            assert np.isnan(found).all()


# Samples in 16 bits are rounded from f64 or f32; the others test contraction and conversions.
PROCESSOR = (
    "truncated far f16", "gamma f16", "truncated bf16", "normal f16", "uniform between f16",
    "exponential scaled f64", "normal moved f32", "choice p",
)  # fmt: skip


def digests(reference):
    """Return a digest of the numbers of each sampler, computed by one of the engines."""
    with pb.config(engine="reference" if reference else "xla"):
        drawn = [CASES[name](R.key(12345)) for name in PROCESSOR]
        pb.evaluate(*drawn)
        return [hashlib.sha256(x.numpy().tobytes()).hexdigest()[:12] for x in drawn]


@pytest.mark.parametrize("isa", ["AVX", "AVX2"])
def test_bits_do_not_depend_on_the_instruction_set(isa):
    """XLA compiles for an older processor: without conversions to f16, without fused products."""
    script = "import test_random_engines as t; print(t.digests(reference=False))"
    env = os.environ | {
        "XLA_FLAGS": f"--xla_cpu_max_isa={isa}",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == str(digests(reference=True)), done.stderr[-2000:]


# These numbers must never change: users rely on them to reproduce experiments.
GOLDEN = {
    "split": "b6be7d8d811b",
    "fold_in": "cd2ee56b746f",
    "bits u8": "0e4113e07d14",
    "bits u64": "aaa6d21edaa2",
    "uniform f16": "d830b16bba39",
    "uniform bf16": "2c83e3f9eacf",
    "uniform f32": "f737acf1b832",
    "uniform f64": "a1003c76c853",
    "uniform between f32": "eeeedd419fb2",
    "normal f32": "094bf60d0f6c",
    "normal f64": "5d2b4d48f08f",
    "normal moved f32": "91f27e2fa862",
    "normal complex64": "fccdb1d2652c",
    "exponential f32": "570ba37aa679",
    "exponential f64": "60554e03806d",
    "truncated f64": "91969eb9f077",
    "truncated far f32": "76010879a7f5",
    "gamma f32": "da23fc679ac2",
    "gamma f64": "ea1c9e11a889",
    "randint i32": "4b8e2df78c12",
    "randint i64": "c6d3d34c79a1",
    "randint most u64": "bc5f2ac64bf1",
    "bernoulli": "ad306925d54d",
    "categorical": "5f6a69d38d8c",
    "categorical apart": "e24bbee84b65",
    "choice p": "538d934eead5",
    "permutation": "01031594221e",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_numbers_never_change(name):
    with pb.config(engine="reference"):
        made = CASES[name](R.key(2**40 + 5)).numpy()
    assert hashlib.sha256(made.tobytes()).hexdigest()[:12] == GOLDEN[name]


def test_the_cipher_gives_the_known_answers_of_its_authors():
    words = np.array(
        [[0, 0, 0, 0], [0xFFFFFFFF] * 4, [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]],
        np.uint32,
    )
    answers = [[0x6B200159, 0x99BA4EFE], [0x1CB996FC, 0xBB002BE7], [0xC4923A9C, 0x483DF7A0]]
    graph = testing.graph_of(TABLE["Threefry"](), (words[:, :2], words[:, 2], words[:, 3]))
    for machine in (None, registered_engine("xla")):
        found = testing.run(graph, (words[:, :2], words[:, 2], words[:, 3]), machine)
        assert np.stack(found, -1).tolist() == answers


def test_bits_are_the_cipher_of_their_positions():
    key = R.key(0x13198A2E03707344)
    high = np.zeros(6, np.uint32)
    first, second = TABLE["Threefry"]().numpy(key.numpy(), high, np.arange(6, dtype=np.uint32))
    assert R.bits(key, (2, 3)).tolist() == (first ^ second).reshape(2, 3).tolist()
    whole = first.astype(object) * 2**32 + second
    assert R.bits(key, (6,), "u64").tolist() == whole.tolist()
    assert R.bits(key, (6,), "u8").tolist() == ((first ^ second) & 255).tolist()


# -- formulas, compared with NumPy ----------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 2e-7), (np.float64, 5e-16)])
def test_log(dtype, digits):
    x = np.concatenate([np.geomspace(1e-30, 1e30, 999), np.linspace(0.5, 2, 999)]).astype(dtype)
    x = x[x != 1]
    np.testing.assert_allclose(
        sampler_formulas.sampler_log_formula(NUMPY, x), np.log(x.astype(np.float64)), digits
    )


def test_exp():
    x = np.linspace(-699, 699, 9999)
    np.testing.assert_allclose(sampler_formulas.sampler_exp_formula(NUMPY, x), np.exp(x), 5e-16)
    assert sampler_formulas.sampler_exp_formula(NUMPY, np.array([-701.0, -np.inf])).tolist() == [
        0,
        0,
    ]


def test_normal_samples_are_quantiles():
    for bits, dtype, digits in ((31, np.int32, 2e-6), (63, np.int64, 1e-14)):
        k = np.linspace(0, 1, 400)[:-1] ** 8 * 2.0**bits
        k = (2**bits - 1 - k.astype(dtype)).astype(dtype)
        z = sampler_formulas.normal_formula(NUMPY, k).astype(np.float64)
        tail = (2.0**bits - k.astype(np.longdouble) - 0.5) / 2**bits
        found = np.array([math.erfc(v / math.sqrt(2)) for v in z])
        assert np.abs(found / tail.astype(np.float64) - 1).max() < digits * 100
        mirrored = sampler_formulas.normal_formula(NUMPY, ~k)
        assert (mirrored == -sampler_formulas.normal_formula(NUMPY, k)).all()


def test_a_formula_may_not_divide():
    """XLA may turn a division by a scalar into a product with its reciprocal."""
    b = Builder()
    x = b.constant(2.0, dtypes.float64)
    with pytest.raises(TypeError, match="reciprocal"):
        lifted_stepwise(b, lambda m, x: 3.0 / x, x)
