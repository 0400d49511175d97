"""Layer norm and RMS norm by hand become the fused op, and what only looks like them does not."""

import numpy as np
import pytest
from spelled import finds, fused_ops, in_dtypes, leaves, pulled, rows, same_with_kernels

import pullback as pb

X, SCALE, SHIFT = rows(4, 6), rows(6, salt=1), rows(6, salt=2)
OPS = "LayerNormalization", "LayerNormalizationGradient"
EPS = 1e-5


def normalised(x):
    d = x - x.mean(-1, keepdims=True)
    return d / pb.sqrt(pb.mean(d**2, axis=-1, keepdims=True) + EPS)


LAYER_NORMS = {
    "difference squared": normalised,
    "product": lambda x: (lambda d: d / pb.sqrt((d * d).mean(-1, keepdims=True) + EPS))(
        x - x.mean(-1, keepdims=True)
    ),
    "square": lambda x: (lambda d: d * pb.rsqrt(pb.square(d).mean(-1, keepdims=True) + EPS))(
        x - x.mean(-1, keepdims=True)
    ),
    "variance": lambda x: (
        (x - pb.mean(x, axis=-1, keepdims=True)) / pb.sqrt(pb.var(x, axis=-1, keepdims=True) + EPS)
    ),
    "reciprocal root": lambda x: (
        (x - pb.mean(x, axis=-1, keepdims=True)) * pb.rsqrt(pb.var(x, axis=-1, keepdims=True) + EPS)
    ),
    "epsilon first": lambda x: (
        (x - x.mean(-1, keepdims=True)) / pb.sqrt(EPS + x.var(-1, keepdims=True))
    ),
    "divided by count": lambda x: (lambda d: d / pb.sqrt((d * d).sum(-1, keepdims=True) / 6 + EPS))(
        x - x.mean(-1, keepdims=True)
    ),
    "divided by count - 1": lambda x: (
        lambda d: d / pb.sqrt((d * d).sum(-1, keepdims=True) / 5 + EPS)
    )(x - x.mean(-1, keepdims=True)),
    "functional": lambda x: pb.nn.functional.layer_norm(x, (6,)),
}
RMS_NORMS = {
    "root": lambda x: x / pb.sqrt(pb.mean(x**2, axis=-1, keepdims=True) + EPS),
    "reciprocal root": lambda x: x * pb.rsqrt(pb.mean(x * x, axis=-1, keepdims=True) + EPS),
    "square": lambda x: x * pb.rsqrt(pb.square(x).mean(-1, keepdims=True) + EPS),
    "functional": lambda x: pb.nn.functional.rms_norm(x, (6,), eps=EPS),
}


@pytest.mark.parametrize("way", LAYER_NORMS)
def test_layer_norm_is_found(way):
    finds(LAYER_NORMS[way], [X], *OPS)


@pytest.mark.parametrize("way", RMS_NORMS)
def test_rms_norm_is_found(way):
    finds(RMS_NORMS[way], [X], *OPS)


@pytest.mark.parametrize("norm", [normalised, *RMS_NORMS.values(), *LAYER_NORMS.values()])
def test_scale_and_shift_belong_to_the_norm(norm):
    """No product and no sum of the whole tensor stays."""
    ways = [
        (lambda x, a, b: norm(x) * a + b, (0, 1, 2)),
        (lambda x, a, b: b + a * norm(x), (0, 1, 2)),
        (lambda x, a, b: norm(x) * a, (0, 1)),
        (lambda x, a, b: norm(x) + b, (0, 2)),
    ]
    for f, argnums in ways:
        finds(f, [X, SCALE, SHIFT], *OPS, argnums=argnums)
        found = fused_ops(f, *in_dtypes([X, SCALE, SHIFT], "float32")[0])
        assert not {"Mul", "Sqrt", "Rsqrt", "Mean"} & set(found), found


def test_scale_before_the_root():
    def f(x, a, b):
        d = x - x.mean(-1, keepdims=True)
        return a * d / pb.sqrt((d**2).mean(-1, keepdims=True) + EPS) + b

    finds(f, [X, SCALE, SHIFT], "LayerNormalization", argnums=(0, 1, 2))


def test_numbers_that_are_inputs():
    """As in code that is not compiled."""
    number = np.asarray(1e-3)
    finds(
        lambda x, e: (x - x.mean(-1, keepdims=True)) / pb.sqrt(x.var(-1, keepdims=True) + e),
        [X, number], *OPS,
    )  # fmt: skip
    finds(
        lambda x, e: x * pb.rsqrt((x * x).mean(-1, keepdims=True) + e), [X, number], *OPS
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(6,), (2, 3, 6), (1, 6), (3, 1)])
def test_other_shapes(shape):
    finds(normalised, [rows(*shape)], *OPS)
    finds(RMS_NORMS["root"], [rows(*shape)], *OPS)


def test_rows_of_several_axes():
    axes = (-2, -1)

    def f(x, a):
        d = x - x.mean(axes, keepdims=True)
        return d / pb.sqrt(pb.mean(d**2, axis=axes, keepdims=True) + EPS) * a

    finds(f, [rows(2, 3, 4), rows(3, 4)], *OPS, argnums=(0, 1))


def test_norms_with_kernels_and_without():
    functions = [
        lambda x, a, b: normalised(x) * a + b,
        lambda x, a, b: RMS_NORMS["root"](x) * a,
        lambda x, a, b: LAYER_NORMS["variance"](x) + b,
    ]
    x = rows(40, 70)
    x[3] = 2.5  # a row of variance 0
    same_with_kernels([pulled(f, 0, 1, 2) for f in functions], [x, rows(70), rows(70, salt=1)])


def bare_norm(x, y, eps):
    d = x - y.mean(-1, keepdims=True)
    return d / pb.sqrt((d**2).mean(-1, keepdims=True) + eps)


NEAR_MISSES = {
    "another axis": lambda x: (
        (x - x.mean(0, keepdims=True)) / pb.sqrt(x.var(0, keepdims=True) + EPS)
    ),
    "axes that differ": lambda x: (
        (x - x.mean(0, keepdims=True)) / pb.sqrt(x.var(-1, keepdims=True) + EPS)
    ),
    "the mean of another tensor": lambda x: bare_norm(x, pb.sin(x), EPS),
    "epsilon outside of the root": lambda x: (
        (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + EPS)
    ),
    "no epsilon": lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
    "an epsilon of each row": lambda x: bare_norm(x, x, pb.ones((4, 1)) * EPS),
    "the third power": lambda x: x / pb.sqrt(pb.mean(x**3, axis=-1, keepdims=True) + EPS),
    "the root of another tensor": lambda x: (
        pb.sin(x) / pb.sqrt(pb.mean(x**2, axis=-1, keepdims=True) + EPS)
    ),
    "the fourth root": lambda x: x / pb.sqrt(pb.sqrt(pb.mean(x**2, -1, keepdims=True) + EPS)),
    "multiplied by the root": lambda x: x * pb.sqrt(pb.mean(x**2, -1, keepdims=True) + EPS),
    "divided by the reciprocal": lambda x: x / pb.rsqrt(pb.mean(x**2, -1, keepdims=True) + EPS),
    "the difference is an output": lambda x: (
        lambda d: (d / pb.sqrt((d * d).mean(-1, keepdims=True) + EPS), d)
    )(x - x.mean(-1, keepdims=True)),
    "the variance is an output": lambda x: (
        lambda v: ((x - x.mean(-1, keepdims=True)) / pb.sqrt(v + EPS), v)
    )(x.var(-1, keepdims=True)),
}


@pytest.mark.parametrize("way", NEAR_MISSES)
def test_near_misses_stay(way):
    leaves(NEAR_MISSES[way], [X], *OPS)


def test_scales_of_another_shape_are_not_part_of_the_norm():
    for shape in ((4, 6), (4, 1), (1, 6), (1,)):
        f = lambda x, a: normalised(x) * a  # noqa: E731
        found = fused_ops(f, X.astype(np.float32), rows(*shape).astype(np.float32))
        assert found["LayerNormalization"] == 1 and found["Mul"] == 1
        fused_ops(pulled(f, 0, 1), X, rows(*shape))


def test_the_scale_may_be_the_input():
    x = rows(6)
    for f in (lambda x: normalised(x) * x, lambda x: normalised(x) * x + x):
        fused_ops(f, x)
        fused_ops(pulled(f), x)
        same_with_kernels([pulled(f)], [x])


def test_gradients_that_the_fused_op_does_not_have():
    def f(x, e):
        return x / pb.sqrt((x**2).mean(-1, keepdims=True) + e)

    leaves(pulled(f, 0, 1), [X, np.asarray(0.1)], *OPS)
    leaves(pulled(f, 1), [X, np.asarray(0.1)], "LayerNormalizationGradient")


def test_second_derivatives_and_tangents():
    def second(x):
        return pb.grad(lambda x: pb.sum(pb.sin(pulled(normalised)(x)[1][0])))(x)

    def tangent(x):
        return pb.jvp(normalised, (x,), (pb.cos(x),))

    for program in (second, tangent, pulled(lambda x: tangent(x)[1])):
        fused_ops(program, X)


def test_rows_that_are_not_finite():
    x = rows(6, 5)
    x[1, 2], x[2, 0], x[3] = np.nan, np.inf, 1e300
    for f in (normalised, RMS_NORMS["root"]):
        fused_ops(f, x)
        fused_ops(pulled(f), x)
        same_with_kernels([pulled(f)], [x[[0, 1, 2, 4, 5]]])
