"""The gradient of GELU becomes one op."""

import numpy as np
from spelled import fused_ops, leaves, pulled, rows, same_with_kernels

import pullback as pb

X = rows(40, 120)


def test_the_gradient_is_found():
    for f in (pb.nn.functional.gelu, lambda x: pb.nn.functional.gelu(x * 2) ** 2):
        for dtype in (np.float32, np.float64):
            assert fused_ops(pulled(f), X.astype(dtype))["GeluGradient"] == 1


def test_gelu_with_kernels_and_without():
    x = X.copy()
    x[0, :6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30
    f = pb.nn.functional.gelu
    same_with_kernels([f, pb.grad(lambda x: f(x).sum()), pulled(lambda x: f(x) * 0.5)], [x])


def test_cotangents_of_0_where_the_slope_is_nan():
    def f(x, c):
        return pb.grad(lambda x: pb.sum(pb.nn.functional.gelu(x) * c))(x)

    x, c = X.copy(), rows(40, 120, salt=1)
    x[0, :4], c[0, :4] = np.nan, (0, 1, np.inf, np.nan)
    x[1, :4], c[1, :4] = -50.0, (0, 1, np.inf, np.nan)  # the slope is 0
    same_with_kernels([f], [x, c])


def test_near_misses_stay():
    tanh = lambda x: pb.nn.functional.gelu(x, approximate="tanh")  # noqa: E731
    leaves(pulled(tanh), [X], "GeluGradient")

    def second(x):
        return pb.grad(lambda x: pb.sum(pb.sin(pulled(pb.nn.functional.gelu)(x)[1][0])))(x)

    fused_ops(second, X)


def test_the_cotangent_may_have_another_shape():
    def f(x, c):
        return pb.grad(lambda x: pb.sum(pb.nn.functional.gelu(x) * c))(x)

    for shape in ((1, 120), (40, 1), (120,), ()):
        fused_ops(f, X, np.asarray(rows(*shape)))
