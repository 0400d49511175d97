"""The kernel for matrix products agrees with XLA, for all shapes and places in memory."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import SETS, kernel_library
from pullback.graph.canonical import canonicalise
from pullback.transforms.recognition import recognised

pytestmark = [
    pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled"),
    pytest.mark.usefixtures("on_cpu"),
]

FLOATS = [np.float32, np.float64]
SIZES = [
    (8, 8, 600), (9, 17, 300), (12, 32, 128), (13, 33, 100), (64, 64, 64), (97, 1003, 65),
    (100, 50, 1000), (257, 129, 385), (2000, 49, 33), (14, 9, 8), (15, 16, 17),
    (50, 70, 5000), (20, 200, 64), (40, 515, 300), (17, 1024, 1500), (90, 4097, 600),
    (256, 10, 512), (17, 9, 700), (500, 32, 64), (31, 24, 401), (300, 8, 40),
]  # fmt: skip


def array(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def text_of(f, *xs, platform="cpu"):
    """The program of a function, with kernels."""
    b = Builder()
    b.platform, b.kernels, b.neutral = platform, True, False
    graph, _ = recognised(canonicalise(pb.trace(f, *xs).graph), platform)
    return build_xla_module(graph, b)


def calls(f, *xs):
    return text_of(f, *xs).count('"pullback_product"')


def check(f, *xs, kernels=1):
    """A function has as many calls of the kernel, and the values that it has without them."""
    given = [pb.tensor(x) for x in xs]
    assert calls(f, *given) == kernels
    got = pb.compile(f)(*given).numpy()
    with pb.config(kernels=False):
        want = pb.compile(f)(*given).numpy()
    assert got.dtype == want.dtype and got.shape == want.shape
    scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=100 * np.finfo(got.dtype).eps * scale)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_all_transposes(m, n, k, dtype):
    for turned_x, turned_y in itertools.product([False, True], repeat=2):
        x = array(*((k, m) if turned_x else (m, k)), dtype=dtype)
        y = array(*((n, k) if turned_y else (k, n)), dtype=dtype, seed=1)
        check(lambda x, y, p=turned_x, q=turned_y: (x.T if p else x) @ (y.T if q else y), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_of_many_terms_have_the_bits_of_those_in_a_batch(dtype):
    """Tasks have parts of the terms of a single product, and whole products of a batch."""
    xs, ys = array(2, 5000, 60, dtype=dtype), array(2, 5000, 70, dtype=dtype, seed=1)
    addend = array(2, 60, 70, dtype=dtype, seed=2)
    product = pb.compile(lambda x, y, c: x.mT @ y + c)
    batch = product(*map(pb.tensor, (xs, ys, addend))).numpy()
    for i in range(2):
        one = product(*[pb.tensor(v[i]) for v in (xs, ys, addend)]).numpy()
        np.testing.assert_array_equal(one, batch[i])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("columns", [8, 13, 16, 32])
def test_narrow_products_have_the_bits_of_those_in_a_batch(columns, dtype):
    """Tiles of a single one read its first operand where it is."""
    xs, ys = array(2, 130, 900, dtype=dtype), array(2, 900, columns, dtype=dtype, seed=1)
    addend = array(columns, dtype=dtype, seed=2)
    product = pb.compile(lambda x, y, c: x @ y + c)
    batch = product(*map(pb.tensor, (xs, ys, addend))).numpy()
    for i in range(2):
        for x in (xs[i], np.asfortranarray(xs[i])):
            one = product(pb.tensor(x), pb.tensor(ys[i]), pb.tensor(addend)).numpy()
            np.testing.assert_array_equal(one, batch[i])
        turned = pb.compile(lambda x, y, c: x.mT @ y + c)
        one = turned(*map(pb.tensor, (xs[i].T.copy(), ys[i], addend))).numpy()
        np.testing.assert_array_equal(one, batch[i])


BATCHES = [
    ((5, 20, 30), (5, 30, 40)),
    ((70, 16, 24), (70, 24, 9)),
    ((3, 1, 50, 60), (4, 60, 70)),  # batches broadcast
    ((200, 190), (7, 190, 210)),
    ((7, 200, 190), (190, 210)),  # one product of 1400 rows
    ((3, 300, 290), (3, 290, 310)),
    ((2, 1, 3, 40, 50), (1, 2, 1, 50, 60)),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_batches(left, right, dtype):
    check(lambda x, y: x @ y, array(*left, dtype=dtype), array(*right, dtype=dtype, seed=1))


def test_gradients_of_batches():
    def loss(x, y, w):
        return pb.sum(pb.tanh(x @ y) @ w)

    def f(x, y, w):
        grads = pb.grad(loss, argnums=(0, 1, 2))(x, y, w)
        return pb.concat([pb.reshape(g, (-1,)) for g in grads])

    check(f, array(6, 40, 30), array(6, 30, 50, seed=1), array(50, 20, seed=2), kernels=5)


VIEWS = {
    "slices": lambda x, y: x[1, 2:42:2, 3:] @ y[0, :39, 10:],
    "every other column": lambda x, y: x[0, :, ::2] @ y[1, :21, ::2],
    "both transposed": lambda x, y: x[0].T @ y[0, :, :50].T,
    "heads": lambda x, y: pb.einsum(
        "bihd,bjhd->bhij", *[pb.reshape(v[:, :, :40], (3, -1, 2, 20)) for v in (x, y)]),
    "a row for all": lambda x, y: pb.broadcast_to(x[0, :1], (30, 42)) @ y[0, :42],
    "rows of both dimensions": lambda x, y: pb.tensordot(x, y[0, :42], 1),
    "sums over both dimensions": lambda x, y: pb.tensordot(x, x, ((0, 1), (0, 1))),
    "sums in another order": lambda x, y: pb.einsum("abi,baj->ij", x, pb.moveaxis(x, 0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_read_where_they_are(view, dtype):
    x, y = array(3, 50, 42, dtype=dtype), array(3, 60, 70, dtype=dtype, seed=1)
    check(VIEWS[view], x, y)
    text = text_of(VIEWS[view], pb.tensor(x), pb.tensor(y))
    (call,) = re.findall(r'"stablehlo.custom_call"\((%\d+), (%\d+)\)', text)
    assert {*call} <= {"%1", "%2"}  # the program's inputs


def test_sums_over_dimensions_that_cannot_be_merged_are_left_to_xla():
    check(lambda x: pb.einsum("aib,akb->ik", x, x), array(20, 30, 40), kernels=0)


@pytest.mark.parametrize("shapes", [
    ((0, 30), (30, 20)), ((20, 0), (0, 30)), ((20, 30), (30, 0)), ((0, 20, 30), (30, 20)),
    ((20, 1), (1, 3000)), ((1, 3000), (3000, 20)), ((3000, 20), (20, 1)), ((7, 300), (300, 300)),
    ((12, 300), (300, 300)), ((300, 300), (300, 40)),
])  # fmt: skip
def test_narrow_products_are_left_to_xla(shapes):
    check(lambda x, y: x @ y, *[array(*shape) for shape in shapes], kernels=0)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i32", "complex64"])
def test_other_dtypes_are_left_to_xla(dtype):
    x = pb.tensor(array(64, 64)).astype(dtype)
    assert calls(lambda x: x @ x, x) == 0


def test_other_platforms_have_none():
    x = pb.zeros((64, 64))
    assert "dot_general" in text_of(lambda x: x @ x, x, platform="cuda")


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity(dtype):
    x, y = array(40, 50, dtype=dtype), array(50, 60, dtype=dtype, seed=1)
    x[3, 7], x[5, 0], x[9] = np.nan, np.inf, 0
    y[20, 11], y[30, 13], y[31, 13] = -np.inf, np.inf, -np.inf
    check(lambda x, y: x @ y, x, y)


def test_gradients_of_narrow_products():
    """The gradient of a narrow matrix is worth a call: XLA would transpose the rows."""

    def f(x, w, g):
        return pb.vjp(lambda w: x @ w, w)[1](g)[0]

    check(f, array(300, 300), array(300, 10, seed=1), array(300, 10, seed=2))


@pytest.mark.parametrize("f", [
    lambda x, y: pb.einsum("ij,jk->ik", x, y),
    lambda x, y: pb.tensordot(x, y, 1),
    lambda x, y: pb.vmap(lambda row: pb.vmap(lambda c: pb.dot(row, c))(y.T))(x),
    lambda x, y: pb.scan(lambda c, _: (c @ y, c), x, None, length=3)[0],
    lambda x, y: pb.where(pb.sum(x) > 0, x @ y, x @ y),
])  # fmt: skip
def test_every_way_to_write_a_product(f):
    x, y = array(40, 40), array(40, 40, seed=1)
    assert calls(f, pb.tensor(x), pb.tensor(y)) >= 1
    check(f, x, y, kernels=calls(f, pb.tensor(x), pb.tensor(y)))


SUMS = {
    "a bias": (lambda x, y, c: x @ y + c, (50,)),
    "a bias in front": (lambda x, y, c: c + x @ y, (50,)),
    "a residual": (lambda x, y, c: x @ y + c, (3, 40, 50)),
    "a row for each matrix": (lambda x, y, c: x @ y + c, (3, 1, 50)),
    "a matrix for all": (lambda x, y, c: x @ y + c, (40, 50)),
    "a bias and a residual": (lambda x, y, c: 2 * c + (x @ y + c[0, 0]), (3, 40, 50)),
    "a transposed residual": (lambda x, y, c: x @ y + pb.moveaxis(c, 0, 1), (40, 3, 50)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", SUMS)
def test_sums_with_a_product(name, batch, dtype):
    f, shape = SUMS[name]
    xs = [array(3, 40, 900, dtype=dtype), array(*batch, 900, 50, dtype=dtype, seed=1)]
    xs.append(array(*shape, dtype=dtype, seed=2))
    check(f, *xs)
    assert "stablehlo.add" not in text_of(f, *[pb.tensor(x) for x in xs])


@pytest.mark.parametrize("f", [
    lambda x, c: (x @ x + c) * (x @ x),  # the product itself is needed too
    lambda x, c: x @ x + c[:, None],  # a number for each row
    lambda x, c: x @ x + pb.stack([c, c])[:, None],  # the sum has more elements
])  # fmt: skip
def test_sums_that_stay(f):
    check(f, array(40, 40), array(40, seed=1))
    assert "stablehlo.add" in text_of(f, pb.tensor(array(40, 40)), pb.tensor(array(40)))


def test_layers_and_their_gradients():
    def loss(w, b, x):
        y = x + pb.tanh(x @ w + b) @ w + b
        return pb.sum(y * y)

    def f(w, b, x):
        dw, db, dx = pb.grad(loss, argnums=(0, 1, 2))(w, b, x)
        return pb.concat([dw, db[None], dx])

    check(f, array(64, 64), array(64, seed=1), array(90, 64, seed=2), kernels=6)


# It prints a digest of products, and the largest error in units of rounding.
PROGRAM = """
import hashlib, os, sys
import numpy as np
if len(sys.argv) > 1:
    os.sched_setaffinity(0, [int(sys.argv[1])])
import pullback as pb
digest, error = hashlib.sha256(), 0.0
for dtype in (np.float32, np.float64):
    for m, n, k in [(9, 15, 90), (97, 203, 65), (100, 49, 1000), (600, 300, 500), (1100, 70, 40),
                    (70, 90, 6000)]:
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        for a, b in ((x, y), (x.T.copy().T, y), (x, y.T.copy().T), (x[None], np.stack([y] * 3))):
            a, b = a.astype(dtype, order="K"), b.astype(dtype, order="K")
            got = (pb.tensor(a) @ pb.tensor(b)).numpy()
            digest.update(got.tobytes())
            want = a.astype(np.float64) @ b.astype(np.float64)
            error = max(error, abs(got - want).max() / np.finfo(dtype).eps / k**0.5)
print(digest.hexdigest(), error)
"""


def run(*arguments, **environment):
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env={**os.environ, **environment},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    digest, error = made.stdout.split()
    assert float(error) < 100
    return digest


def test_bits_do_not_depend_on_the_number_of_cores():
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    one = run(*[str(c) for c in cores[:1]], PULLBACK_THREADS="1")
    assert one == run(PULLBACK_THREADS="2") == run(PULLBACK_THREADS="5")


@pytest.mark.parametrize("instructions", SETS)
def test_every_instruction_set(instructions):
    assert run(PULLBACK_KERNELS=instructions)
