"""Softmax, its logarithm and logsumexp by hand become fused ops; what looks like them does not."""

import numpy as np
import pytest
from spelled import finds, fused_ops, leaves, pulled, rows, same_with_kernels

import pullback as pb

X = rows(4, 6)


def top(x):
    return pb.max(x, axis=-1, keepdims=True)


def held(x):
    return pb.stop_gradient(top(x))


def finite(x):
    return pb.where(pb.isfinite(held(x)), held(x), 0)


def softmax(x, shift):
    e = pb.exp(x - shift(x))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x, shift):
    z = x - shift(x)
    return z - pb.log(pb.sum(pb.exp(z), axis=-1, keepdims=True))


def logsumexp(x, shift):
    m = shift(x)
    return m + pb.log(pb.exp(x - m).sum(-1, keepdims=True))


SHIFTS = [top, held, finite]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("shape", [(4, 6), (6,), (2, 3, 5), (3, 1)])
def test_softmax_is_found(shift, shape):
    name = "Softmax" if shift is finite else "BareSoftmax"
    finds(lambda x: softmax(x, shift), [rows(*shape)], name, "SoftmaxGradient")


@pytest.mark.parametrize("shift", SHIFTS)
def test_log_softmax_is_found(shift):
    name = "LogSoftmax" if shift is finite else "BareLogSoftmax"
    finds(lambda x: log_softmax(x, shift), [X], name, "LogSoftmaxGradient")
    finds(lambda x: x - logsumexp(x, shift), [X], name, "LogSoftmaxGradient")
    twice = lambda x: (x - shift(x)) - pb.log(pb.exp(x - shift(x)).sum(-1, keepdims=True))  # noqa: E731
    if shift is top:  # each maximum has a gradient of its own
        fused_ops(pulled(twice), X)
    else:
        finds(twice, [X], name, "LogSoftmaxGradient")


@pytest.mark.parametrize("shift", SHIFTS)
def test_logsumexp_is_found(shift):
    finds(lambda x: logsumexp(x, shift), [X], "LogSumExp", "LogSumExpGradient")
    finds(lambda x: logsumexp(x, shift)[..., 0], [rows(2, 3, 5)], "LogSumExp", "LogSumExpGradient")


def test_functions_of_pullback():
    finds(lambda x: pb.softmax(x, axis=-1), [X], "Softmax", "SoftmaxGradient")
    finds(lambda x: pb.log_softmax(x, axis=-1), [X], "LogSoftmax", "LogSoftmaxGradient")
    finds(pb.nn.functional.softmax, [X], "Softmax", "SoftmaxGradient")
    finds(lambda x: pb.logsumexp(x, axis=-1), [X], "LogSumExp", "LogSumExpGradient")
    finds(
        lambda x: x - pb.logsumexp(x, axis=-1, keepdims=True),
        [X], "LogSoftmax", "LogSoftmaxGradient",
    )  # fmt: skip


def test_several_in_a_row():
    def f(x):
        return softmax(pb.sin(softmax(x, held)), held) + log_softmax(softmax(x, held), held)

    found = fused_ops(pulled(f), X)
    assert found["BareSoftmax"] == 2 and found["BareLogSoftmax"] == 1
    assert found["SoftmaxGradient"] == 3 and found["LogSoftmaxGradient"] == 1
    assert "Exp" not in found


ROW_FUNCTIONS = [
    *[lambda x, f=f, s=s: f(x, s) for f in (softmax, log_softmax, logsumexp) for s in SHIFTS],
    lambda x: pb.softmax(x, axis=-1),
    lambda x: pb.log_softmax(x, axis=-1),
    lambda x: pb.logsumexp(x, axis=-1, keepdims=True),
]


@pytest.mark.parametrize("f", ROW_FUNCTIONS)
def test_rows_without_a_cotangent_have_none(f):
    """Also if they are NaN, as rows in which everything is masked: with kernels and without."""
    x, counts = rows(6, 5), np.array([1, 0, 0, 0, 0, 1.0])[:, None]
    x[1, 2], x[2, 0], x[3] = np.nan, np.inf, -np.inf

    def loss(x, counts):
        y = f(x)
        return pb.sum(pb.where(counts != 0, y, 0)), y

    program = pb.grad(loss, has_aux=True)
    fused_ops(program, x, counts)
    with pb.config(engine="reference"):
        assert np.isfinite(program(pb.tensor(x), pb.tensor(counts))[0].numpy()).all()


def test_softmax_with_kernels_and_without():
    x = rows(40, 70)
    x[1, 5:9], x[2], x[3, 3], x[4, 3] = -np.inf, -np.inf, np.inf, np.nan
    same_with_kernels(ROW_FUNCTIONS[::2], [x])
    same_with_kernels([pulled(f) for f in ROW_FUNCTIONS[::4]], [rows(40, 70)])


NEAR_MISSES = {
    "another axis": lambda x: softmax(x.mT, held).mT.mT.sum(0) + pb.softmax(x, axis=0).sum(-1)[0],
    "the maximum of all": lambda x: softmax(x, pb.max),
    "the maximum of columns": lambda x: softmax(x, lambda x: pb.max(x, axis=0, keepdims=True)),
    "the smallest element": lambda x: softmax(x, lambda x: pb.min(x, axis=-1, keepdims=True)),
    "the maximum of another tensor": lambda x: softmax(x, lambda x: top(pb.sin(x))),
    "the sum of columns": lambda x: (lambda e: e / e.sum(0, keepdims=True))(pb.exp(x - top(x))),
    "the sum of other terms": lambda x: (
        pb.exp(x - top(x)) / pb.exp(pb.sin(x) - top(x)).sum(-1, keepdims=True)
    ),
    "base 2": lambda x: (lambda e: e / e.sum(-1, keepdims=True))(pb.exp2(x - top(x))),
    "plus one": lambda x: (lambda e: e / (1 + e.sum(-1, keepdims=True)))(pb.exp(x - top(x))),
    "log1p": lambda x: (lambda z: z - pb.log1p(pb.exp(z).sum(-1, keepdims=True)))(x - top(x)),
    "another shift added": lambda x: (
        pb.log(pb.exp(x - top(x)).sum(-1, keepdims=True)) + top(pb.sin(x))
    ),
    "softmax without a maximum": lambda x: (lambda e: e / e.sum(-1, keepdims=True))(pb.exp(x)),
    "log-softmax without a maximum": lambda x: x - pb.log(pb.exp(x).sum(-1, keepdims=True)),
    "logarithm of softmax without a maximum": lambda x: pb.log(
        (lambda e: e / e.sum(-1, keepdims=True))(pb.exp(x))
    ),
    "weights are an output": lambda x: (lambda e: (e / e.sum(-1, keepdims=True), e))(
        pb.exp(x - top(x))
    ),
}
OPS = "BareSoftmax", "Softmax", "BareLogSoftmax", "LogSoftmax", "LogSumExp", "SoftmaxGradient"


@pytest.mark.parametrize("way", [n for n in NEAR_MISSES if n != "another axis"])
def test_near_misses_stay(way):
    leaves(NEAR_MISSES[way], [X], *OPS)


def test_without_a_maximum_exponentials_overflow():
    """With kernels, too: the result says that something is wrong with the formula."""
    x = rows(40, 70)
    x[1], x[2], x[3, 3] = 200.0, -200.0, np.inf
    names = [n for n in NEAR_MISSES if n.endswith("without a maximum")]
    same_with_kernels([NEAR_MISSES[n] for n in names], [x])
    found = pb.compile(NEAR_MISSES[names[0]])(pb.tensor(x, dtype=pb.float32)).numpy()
    assert np.isnan(found[1:3]).all()


def test_near_misses_have_their_gradients():
    for f in NEAR_MISSES.values():
        fused_ops(f, X)
        fused_ops(pulled(lambda x, f=f: pb.tree.leaves(f(x))[0]), X)


def test_the_sum_and_the_shift_may_be_used_elsewhere():
    """The value stays the same where another part of the program needs an inner one."""
    for f in (
        lambda x: softmax(x, top) * pb.exp(x - top(x)),
        lambda x: log_softmax(x, top) + top(x),
        lambda x: logsumexp(x, held) * held(x) + (x - held(x)),
    ):
        fused_ops(f, X)
        fused_ops(pulled(f), X)


def test_the_cotangent_may_be_the_operand_or_the_result():
    """g and y of the gradient's formula are the same node."""

    def f(x, g):
        y, pull = pb.vjp(lambda x: softmax(x, top), x)
        return pull(y)[0] + pull(g)[0] * 3 + pull(x)[0]

    fused_ops(f, X, rows(4, 6, salt=1))


def test_second_derivatives_and_tangents():
    def second(x):
        return pb.grad(lambda x: pb.sum(pb.sin(pulled(lambda x: softmax(x, held))(x)[1][0])))(x)

    def tangent(x):
        return pb.jvp(lambda x: log_softmax(x, top), (x,), (pb.cos(x),))

    for program in (second, tangent, pulled(lambda x: tangent(x)[1])):
        fused_ops(program, X)
