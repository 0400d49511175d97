"""Derivatives of linear algebra that the op table does not try: phases that are not unique, equal
eigenvalues and singular values, singular matrices, transforms."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

la = pb.linalg


@pytest.fixture(autouse=True)
def interpreted():
    """Rules are the same on both engines; the reference compiles nothing."""
    with pb.config(engine="reference"):
        yield


def drawn(*shape, salt=0):
    rng = np.random.default_rng([salt, *shape])
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


WEIGHTS = {n: pb.tensor(drawn(4, n, salt=7)) for n in (2, 3, 4)}


def weighed(x):
    """A number that depends on all elements of complex matrices."""
    return pb.real(x * WEIGHTS[x.shape[-1]][: x.shape[-2]]).sum()


def adjoint(x):
    return pb.conj(pb.matrix_transpose(x))


def hermitian(x):
    return (x + adjoint(x)) / 2 + pb.tensor(np.diag([0.0, 3.0, 6.0]))


def of_eigh(x):
    w, v = la.eigh(hermitian(x))
    return weighed(v @ (pb.exp(w / 4)[:, None] * adjoint(v))) + (w**3).sum()


def of_svd(x, full):
    u, s, vh = la.svd(x, full_matrices=full)
    k = s.shape[-1]
    return weighed(u[:, :k] @ (pb.sin(s)[:, None] * vh[:k])) + (s**3).sum()


def of_complement(x):
    """The projection on the columns that are added to the decomposition of a tall matrix."""
    u = la.svd(x).U[:, x.shape[1] :]
    q = la.qr(x, mode="complete").Q[:, x.shape[1] :]
    return weighed(u @ adjoint(u) + 2 * (q @ adjoint(q)))


def of_eig(x):
    w, v = la.eig(x)
    return weighed(v @ (w[:, None] ** 2 * la.inv(v))) + pb.abs(v**2).sum() + pb.real(w**3).sum()


INVARIANT = {
    "eigh": (of_eigh, drawn(3, 3)),
    "svd of a square matrix": (lambda x: of_svd(x, True), drawn(3, 3)),
    "reduced svd of a tall matrix": (lambda x: of_svd(x, False), drawn(4, 3)),
    "full svd of a wide matrix": (lambda x: of_svd(x, True), drawn(2, 4)),
    "complements": (of_complement, drawn(4, 2)),
    "eig of a complex matrix": (of_eig, drawn(3, 3)),
    "eig of a real matrix": (of_eig, drawn(4, 4).real),
    "solve": (lambda x: weighed(la.solve(x, x @ x + 1)), drawn(3, 3)),
    "cholesky": (lambda x: weighed(la.cholesky(x @ adjoint(x), upper=True)), drawn(3, 3)),
}


@pytest.mark.parametrize("name", INVARIANT)
def test_functions_that_do_not_depend_on_phases(name):
    f, x = INVARIANT[name]
    pb.check_grads(f, (pb.tensor(x),), order=2)


@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_hermitian_functions_are_hermitian(upper):
    x = drawn(3, 3)
    x = x @ np.conj(x.T) + np.eye(3)
    letter = "U" if upper else "L"
    for f in (
        lambda x: (la.eigvalsh(x, UPLO=letter) ** 2).sum(),
        lambda x: pb.real(pb.log(pb.diagonal(la.cholesky(x, upper=upper)))).sum(),
    ):
        g = pb.grad(f)(pb.tensor(x)).numpy()
        np.testing.assert_allclose(g, np.conj(g.T), atol=1e-12)
    np.testing.assert_allclose(g, np.linalg.inv(x) / 2, atol=1e-10)  # log det x = 2 sum log diag


def test_equal_eigenvalues_and_singular_values():
    """Gradients of symmetric functions are finite and right."""
    turn = np.linalg.qr(drawn(3, 3))[0]
    for x in (np.eye(3) * 2.0, np.zeros((3, 3)), turn @ np.diag([1.0, 1.0, 2.0]) @ np.conj(turn.T)):
        g = pb.grad(lambda x: (la.eigvalsh(x) ** 3).sum())(pb.tensor(x)).numpy()
        np.testing.assert_allclose(g, 3 * x @ x, atol=1e-12)
        g = pb.grad(lambda x: (la.svdvals(x) ** 2).sum())(pb.tensor(x)).numpy()
        np.testing.assert_allclose(g, 2 * x, atol=1e-12)
    zero = pb.tensor(np.zeros((2, 3)))
    assert np.isfinite(pb.grad(lambda x: la.svdvals(x).sum())(zero).numpy()).all()
    v = pb.grad(lambda x: (la.eigh(x).eigenvectors ** 2).sum())(pb.tensor(np.eye(3))).numpy()
    np.testing.assert_allclose(v, np.zeros((3, 3)), atol=1e-12)


SINGULAR = [
    np.array([[1.0, 2.0], [2.0, 4.0]]),
    np.array([[0.0, 1.0], [0.0, 0.0]]),
    np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    np.zeros((2, 2)),
    np.zeros((3, 3)),
    np.array([[1j, 2.0], [2j, 4.0]]),
]


@pytest.mark.parametrize("x", SINGULAR, ids=str)
def test_the_gradient_of_a_determinant_is_the_matrix_of_cofactors(x):
    n = len(x)
    minor = [[np.delete(np.delete(x, i, 0), j, 1) for j in range(n)] for i in range(n)]
    signs = [[(-1) ** (i + j) for j in range(n)] for i in range(n)]
    cofactors = np.array(signs) * np.linalg.det(np.array(minor))
    g = pb.grad(lambda x: pb.real(la.det(x)))(pb.tensor(x)).numpy()
    np.testing.assert_allclose(g, np.conj(cofactors), atol=1e-12)
    pb.check_grads(la.det, (pb.tensor(x),), order=2)


def test_slogdet_and_inverse_agree():
    x = pb.tensor(drawn(2, 3, 3))
    g = pb.grad(lambda x: la.slogdet(x).logabsdet.sum())(x).numpy()
    np.testing.assert_allclose(g, np.conj(np.swapaxes(np.linalg.inv(x.numpy()), -1, -2)))


def everything(x):
    """Gradients of many functions of one real matrix, which do not depend on the signs of vectors:
    kernels for CPUs and GPUs choose different ones."""
    spd = x @ pb.matrix_transpose(x) + pb.tensor(np.eye(x.shape[-1]))

    def loss(x, spd):
        w, v = la.eigh(spd)
        u, s, vh = la.svd(x)
        q, r = la.qr(x)
        size = la.slogdet(x).logabsdet + la.det(spd) + (la.cholesky(spd) ** 3).sum()
        size = size + (v**4).sum() + (w * s).sum() + ((u @ vh) ** 3).sum()
        size = size + ((q @ pb.sin(r)) ** 2).sum() + pb.abs(la.eigvals(x)).sum()
        return size + (la.inv(x) * la.solve(spd, x)).sum()

    return pb.grad(loss, argnums=(0, 1))(x, spd)


def test_transforms_on_xla():
    x = drawn(3, 3, 3).real + 2 * np.eye(3)
    want = [[y.numpy() for y in everything(pb.tensor(row))] for row in x]
    with pb.config(engine="xla"):
        mapped = pb.compile(pb.vmap(everything))(pb.tensor(x))
        for i in range(2):
            wanted = np.stack([w[i] for w in want])
            np.testing.assert_allclose(mapped[i].numpy(), wanted, atol=1e-8)


def of_squared_factors(x):
    """A number that depends on the elements of factors, but not on their signs."""
    u, s, vh = la.svd(x, full_matrices=False)
    w, v = la.eigh(x @ x.mT)
    q, r = la.qr(x.mT)
    weight = pb.tensor(np.cos(np.arange(15.0)).reshape(3, 5))
    square = weight[:, :3]
    parts = [(vh**2 * weight).sum(), ((u**2 + v**2 + r**2) * square).sum(), (s**3).sum()]
    return sum(parts, start=(q.mT**2 * weight).sum() + pb.sin(w).sum())


def test_second_derivatives_on_xla():
    """XLA may round x * x - y * y once: what must be 0 where x is y has to be so all the same."""
    x, t = (pb.tensor(drawn(3, 5, salt=i).real) for i in (1, 2))
    both = []
    for engine in ("reference", "xla"):
        with pb.config(engine=engine):
            both.append(pb.jvp(pb.grad(of_squared_factors), (x,), (t,))[1].numpy())
    np.testing.assert_allclose(*both, 1e-8, 1e-8)
