"""Jacobians and Hessians: a linear map over all unit vectors at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from counters import counting

import pullback as pb
from pullback.errors import ArgumentError

rng = np.random.default_rng(8)


def real(*shape):
    return rng.standard_normal(shape)


@pytest.mark.parametrize("jacobian", [pb.jacrev, pb.jacfwd])
@pytest.mark.parametrize("chunk_size", [None, 1, 4, 100])
def test_blocks_of_a_jacobian(engine, jacobian, chunk_size):
    a, b = real(3, 2), real(2)

    def f(tree):
        return {"y": tree["a"] @ tree["b"], "n": tree["b"] * 3, "i": pb.argmax(tree["b"])}

    made = jacobian(f, chunk_size=chunk_size)({"a": pb.tensor(a), "b": pb.tensor(b)})
    np.testing.assert_allclose(made["y"]["b"].numpy(), a)
    by_a = np.einsum("ij,k->ijk", np.eye(3), b)
    np.testing.assert_allclose(made["y"]["a"].numpy(), by_a)
    np.testing.assert_allclose(made["n"]["b"].numpy(), 3 * np.eye(2))
    assert made["n"]["a"].shape == (2, 3, 2) and not made["n"]["a"].numpy().any()
    assert made["i"]["a"].shape == (3, 2) and not made["i"]["a"].numpy().any()


@pytest.mark.parametrize("jacobian", [pb.jacrev, pb.jacfwd])
def test_jacobians_of_many_leaves(jacobian):
    xs = [pb.tensor(real(2)) for _ in range(20)]
    made = jacobian(lambda xs: [x * k for k, x in enumerate(xs)])(xs)
    for i, k in itertools.product(range(20), repeat=2):
        np.testing.assert_allclose(made[i][k].numpy(), (i == k) * k * np.eye(2))


@pytest.mark.parametrize("jacobian", [pb.jacrev, pb.jacfwd])
def test_jacobians_of_empty_tensors(jacobian):
    x, y = pb.tensor(np.zeros((0, 2))), pb.tensor(real(3))
    by_x, by_y = jacobian(lambda x, y: (x * 2, y * x.sum()), (0, 1))(x, y)[1]
    assert by_x.shape == (3, 0, 2) and by_x.dtype is pb.float64
    np.testing.assert_allclose(by_y.numpy(), np.zeros((3, 3)))
    assert jacobian(lambda x: x)(x).shape == (0, 2, 0, 2)


def test_complex_jacobians():
    """Their columns are pushforwards, and their rows pullbacks, of real unit vectors."""
    z = pb.tensor(real(3) + 1j * real(3))
    f = lambda z: z * z * pb.conj(z)  # noqa: E731
    _, pull = pb.vjp(f, z)
    _, push = pb.linearize(f, z)
    basis = [pb.tensor(e) for e in np.eye(3, dtype=np.complex128)]
    rows = np.stack([pull(e)[0].numpy() for e in basis])
    columns = np.stack([push(e).numpy() for e in basis], -1)
    np.testing.assert_allclose(pb.jacrev(f)(z).numpy(), rows)
    np.testing.assert_allclose(pb.jacfwd(f)(z).numpy(), columns)


def test_a_hessian_of_an_mlp_four_ways(engine):
    x = pb.tensor(real(4))
    params = [pb.tensor(real(4, 5)), pb.tensor(real(5, 3))]

    def loss(params):
        logits = pb.tanh(x @ params[0]) @ params[1]
        return pb.logsumexp(logits) - logits[1]

    ways = [j(k(loss)) for j in (pb.jacfwd, pb.jacrev) for k in (pb.jacfwd, pb.jacrev)]
    found = [pb.tree.leaves(w(params)) for w in (*ways, pb.hessian(loss, chunk_size=7))]
    for blocks in found[1:]:
        for got, want in zip(blocks, found[0], strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-8, atol=1e-10)
    w = params[0]
    v = real(*w.shape)
    only = lambda w: loss([w, params[1]])  # noqa: E731
    block = pb.hessian(only)(w).numpy()
    product = pb.hvp(only, (w,), (pb.tensor(v),))[0].numpy()
    np.testing.assert_allclose(np.tensordot(block, v, 2), product, rtol=1e-9, atol=1e-12)


def test_a_jacobian_is_one_program_whatever_its_size():
    a = pb.tensor(real(40, 40))
    for n in (10, 40):
        x = pb.tensor(real(n))
        with counting() as counts:
            pb.jacrev(lambda x, n=n: pb.tanh(a[:n, :n] @ x))(x).numpy()
        assert (counts.programs, counts.compiles) == (1, 1)


def test_chunks_share_a_program():
    x, a = pb.tensor(real(32)), pb.tensor(real(64, 32))
    f = lambda x: pb.tanh(a @ x)  # noqa: E731
    with counting() as counts:
        made = pb.jacrev(f, chunk_size=8)(x).numpy()
    assert counts.programs >= 8 and counts.compiles <= 3
    np.testing.assert_allclose(made, pb.jacrev(f)(x).numpy(), rtol=1e-9)


@pytest.mark.parametrize("jacobian", [pb.jacrev, pb.jacfwd])
def test_chunks_of_a_compiled_jacobian_run_in_a_loop(engine, jacobian):
    w = pb.tensor(real(16, 16))

    def f(x):
        return pb.tanh(pb.tanh(x @ w) @ w)

    x = pb.tensor(real(4, 16))
    want = jacobian(f)(x).numpy()
    for chunk_size in (1, 5, 16, 64):
        got = pb.compile(jacobian(f, chunk_size=chunk_size))(x)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)
        got = pb.vmap(jacobian(f, chunk_size=chunk_size))(x[None])
        np.testing.assert_allclose(got[0].numpy(), want, rtol=1e-9, atol=1e-12)
    nothing = pb.compile(jacobian(lambda x: x[:, :0], chunk_size=3))(x)
    assert nothing.shape == (4, 0, 4, 16)


def test_chunks_bound_the_memory_of_a_compiled_jacobian():
    def temporaries(chunk_size):
        f = pb.jacrev(lambda x: pb.tanh(pb.tanh(x @ w) @ w), chunk_size=chunk_size)
        return pb.memory_plan(f)(x).temporaries

    w, x = pb.tensor(real(32, 32)), pb.tensor(real(8, 32))
    assert temporaries(8) < temporaries(None) / 4


@pytest.mark.parametrize("chunk_size", [0, -1, 2.0, True, "all"])
def test_invalid_chunk_sizes(chunk_size):
    with pytest.raises(ArgumentError, match="chunk_size"):
        pb.jacrev(lambda x: x, chunk_size=chunk_size)(pb.tensor([1.0, 2.0]))


def test_jacobians_inside_vmap(engine):
    x, w = real(3, 4), real(5, 4)
    f = lambda x: pb.tanh(pb.tensor(w) @ x)  # noqa: E731
    for jacobian in (pb.jacrev(f), pb.jacfwd(f), pb.jacrev(f, chunk_size=2), pb.hessian(f)):
        got = pb.vmap(jacobian)(pb.tensor(x)).numpy()
        want = np.stack([jacobian(pb.tensor(row)).numpy() for row in x])
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_a_jacobian_may_be_differentiated():
    x = pb.tensor(real(3))
    g = pb.grad(lambda x: (pb.jacrev(lambda x: x**3)(x) ** 2).sum())(x)
    np.testing.assert_allclose(g.numpy(), 36 * x.numpy() ** 3, rtol=1e-9)


def test_the_results_of_an_op_with_several_in_a_hessian(engine):
    x = pb.tensor([1.0, 3.0, 2.0], dtype=pb.float64)
    made = pb.hessian(lambda x: (pb.top_k(x, 2)[0] ** 3).sum())(x)
    np.testing.assert_allclose(made.numpy(), np.diag([0.0, 18.0, 12.0]))


def test_auxiliary_data_of_every_transform():
    """`has_aux` gives the derivative of the first result, and the second as it is."""
    x = pb.tensor([1.0, 2.0])

    def f(x):
        return x**3, {"sum": x.sum(), "name": "f"}

    def scalar(x):
        value, aux = f(x)
        return value.sum(), aux

    jacobians = (pb.jacrev, pb.jacfwd, pb.jacobian)
    made = [
        pb.jvp(f, (x,), (pb.ones(2),), has_aux=True)[1:],
        (lambda y, push, aux: (push(pb.ones(2)), aux))(*pb.linearize(f, x, has_aux=True)),
        (lambda y, pull, aux: (pull(pb.ones(2))[0], aux))(*pb.vjp(f, x, has_aux=True)),
        *[(j.sum(0), aux) for j, aux in (of(f, has_aux=True)(x) for of in jacobians)],
        pb.grad(scalar, has_aux=True)(x),
    ]
    for derivative, aux in made:
        assert derivative.tolist() == [3.0, 12.0]
        assert aux["sum"].item() == 3.0 and aux["name"] == "f"
    hessian = pb.compile(lambda x: pb.hessian(scalar, has_aux=True)(x)[0])(x)
    assert hessian.tolist() == [[6.0, 0.0], [0.0, 12.0]]
    hessian, aux = pb.hessian(scalar, has_aux=True, argnums=(0,))(x)
    assert hessian[0][0].tolist() == [[6.0, 0.0], [0.0, 12.0]] and aux["sum"].item() == 3.0
    for name, call in {
        "jvp": lambda f: pb.jvp(f, (x,), (x,), has_aux=True),
        "linearize": lambda f: pb.linearize(f, x, has_aux=True),
        "jacfwd": lambda f: pb.jacfwd(f, has_aux=True)(x),
        "jacrev": lambda f: pb.jacrev(f, has_aux=True)(x),
    }.items():
        with pytest.raises(ArgumentError, match=f"{name}: with has_aux=True the function must"):
            call(lambda x: x)
