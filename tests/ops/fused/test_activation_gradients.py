"""Gradients of activation functions become one op each."""

import numpy as np
import pytest
from spelled import fused_ops, leaves, pulled, rows, same_with_kernels

import pullback as pb
from pullback.nn import functional as F

X = rows(40, 120)
FUNCTIONS = {
    "GeluGradient": F.gelu,
    "GeluTanhGradient": lambda x: F.gelu(x, approximate="tanh"),
    "SiluGradient": F.silu,
}
each = pytest.mark.parametrize("op", FUNCTIONS)


def special(*shape, salt=0):
    """Numbers of all sizes, and some that are not finite."""
    x = rows(*shape, salt=salt)
    x[0, :10] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, 40.0, -40.0
    x[1] = np.linspace(-20, 20, shape[1])
    return x


@each
def test_the_gradient_is_found(op):
    f = FUNCTIONS[op]
    for g in (f, lambda x: f(x * 2) ** 2, lambda x: pb.vmap(f)(x)):
        for dtype in (np.float32, np.float64):
            assert fused_ops(pulled(g), X.astype(dtype))[op] == 1


@each
def test_with_kernels_and_without(op):
    f = FUNCTIONS[op]
    loss = lambda x: f(x).sum()  # noqa: E731
    functions = [f, pb.grad(loss), pulled(lambda x: f(x) * 0.5), pb.vmap(pb.grad(loss))]
    same_with_kernels(functions, [special(40, 120)])


@each
def test_second_derivatives_with_kernels_and_without(op):
    f, x = FUNCTIONS[op], special(40, 120)
    slope = pb.grad(lambda x: f(x).sum())
    tangent = lambda x: pb.jvp(f, (x,), (pb.ones_like(x),))[1]  # noqa: E731
    of_slope = lambda x: pb.jvp(slope, (x,), (pb.ones_like(x),))[1]  # noqa: E731
    second = [pb.grad(lambda x: slope(x).sum()), pb.grad(lambda x: tangent(x).sum()), of_slope]
    same_with_kernels([tangent, *second], [x])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@each
def test_slopes_far_from_zero_are_1_and_0(op, dtype):
    f = FUNCTIONS[op]
    x = np.resize(np.asarray([np.inf, -np.inf, 6e4, -6e4, 3e3, -3e3], dtype), 6000)
    want = np.resize(np.asarray([1.0, 0.0], dtype), 6000)
    slope = pb.compile(pb.grad(lambda x: f(x).sum()))
    np.testing.assert_array_equal(slope(pb.tensor(x)).numpy(), want)
    tangent = pb.compile(lambda x: pb.jvp(f, (x,), (pb.ones_like(x),))[1])
    np.testing.assert_array_equal(tangent(pb.tensor(x)).numpy(), want)
    for mode in (slope, tangent):
        bend = pb.grad(lambda x, mode=mode: mode(x).sum())
        np.testing.assert_array_equal(bend(pb.tensor(x)).numpy(), np.zeros(6000))


@each
def test_cotangents_of_0_where_the_slope_is_nan(op):
    def f(x, c):
        return pb.grad(lambda x: pb.sum(FUNCTIONS[op](x) * c))(x)

    x, c = X.copy(), rows(40, 120, salt=1)
    x[0, :4], c[0, :4] = np.nan, (0, 1, np.inf, np.nan)
    x[1, :4], c[1, :4] = -900.0, (0, 1, np.inf, np.nan)  # the slope is 0
    same_with_kernels([f], [x, c])


@each
def test_near_misses_stay(op):
    for other, f in FUNCTIONS.items():
        if other != op:
            leaves(pulled(f), [X], op)
    for f in (pb.sigmoid, pb.tanh, lambda x: x * pb.tanh(x)):
        leaves(pulled(f), [X], op)

    def second(x):
        return pb.grad(lambda x: pb.sum(pb.sin(pulled(FUNCTIONS[op])(x)[1][0])))(x)

    fused_ops(second, X)


@each
def test_the_cotangent_may_have_another_shape(op):
    def f(x, c):
        return pb.grad(lambda x: pb.sum(FUNCTIONS[op](x) * c))(x)

    for shape in ((1, 120), (40, 1), (120,), ()):
        fused_ops(f, X, np.asarray(rows(*shape)))


@each
def test_on_a_mesh(op):
    """Each device has its part of the rows; small ones have no kernel."""
    f = FUNCTIONS[op]
    mesh = pb.DeviceMesh((1,), ("a",))
    for shape in ((40, 120), (4, 12)):
        x = pb.tensor(rows(*shape), dtype=pb.float32)
        placed = pb.shard(x, mesh, pb.P("a"))
        grad = pb.compile(pb.grad(lambda x: pb.sum(f(x) ** 2)))
        np.testing.assert_allclose(grad(placed).numpy(), grad(x).numpy(), rtol=1e-5, atol=1e-6)
