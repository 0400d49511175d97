"""The log-probability of labels by hand, as in the cross entropy, becomes one op."""

import numpy as np
import pytest
from spelled import finds, fused_ops, leaves, pulled, rows, same_with_kernels

import pullback as pb

X, LABELS = rows(5, 7), np.array([3, 0, 6, 1, 1])
OPS = "LogProbability", "LogProbabilityGradient"


def taken(log_p, labels):
    return pb.take_along_axis(log_p, labels[..., None], axis=-1)


def by_hand(x):
    z = x - pb.stop_gradient(pb.max(x, axis=-1, keepdims=True))
    return z - pb.log(pb.exp(z).sum(-1, keepdims=True))


WAYS = {
    "taken": lambda x, t: taken(pb.log_softmax(x, axis=-1), t),
    "mean": lambda x, t: -taken(pb.log_softmax(x, axis=-1), t).mean(),
    "squeezed": lambda x, t: -taken(pb.log_softmax(x, axis=-1), t)[..., 0],
    "weighted": lambda x, t: taken(pb.nn.functional.log_softmax(x), t) * 0.5,
    "functional": lambda x, t: pb.nn.functional.cross_entropy(x, t),
    "logsumexp": lambda x, t: taken(x - pb.logsumexp(x, axis=-1, keepdims=True), t),
}


@pytest.mark.parametrize("way", WAYS)
def test_labels_are_found(way):
    finds(WAYS[way], [X, LABELS], *OPS)
    finds(WAYS[way], [X, LABELS.astype(np.int32)], *OPS)


def test_the_gradient_alone():
    """A mean needs no log-probabilities for its gradient."""
    program = pb.grad(lambda x, t: -taken(pb.log_softmax(x, axis=-1), t).mean())
    assert fused_ops(program, X, LABELS)["LogProbabilityGradient"] == 1


def test_labels_with_kernels_and_without():
    x, labels = rows(60, 33), np.arange(60) % 33
    same_with_kernels([pulled(WAYS[n]) for n in ("functional", "logsumexp")], [x, labels])
    x[1, 5:9], x[2], x[3, 3], x[4, 3] = -np.inf, -np.inf, np.inf, np.nan
    x[7, 7] = -np.inf  # a label of probability 0
    same_with_kernels([WAYS["taken"], pulled(WAYS["squeezed"])], [x, labels])


def test_labels_that_count_from_the_end():
    for f in (WAYS["taken"], pulled(WAYS["squeezed"])):
        same_with_kernels([f], [X, LABELS - 7])


@pytest.mark.parametrize("label", [-8, 7])
def test_labels_out_of_range(label):
    """They are an error with kernels, too."""
    t = np.where(np.arange(5) == 2, label, LABELS)
    for kernels in (True, False):
        with pb.config(kernels=kernels), pytest.raises(pb.errors.PullbackError):
            pb.compile(WAYS["taken"])(pb.tensor(X), pb.tensor(t)).numpy()


def test_near_misses_stay():
    def other_axis(x, t):
        return pb.take_along_axis(pb.log_softmax(x, axis=0), t[:, None], axis=-1)

    def along_columns(x, t):
        return pb.take_along_axis(pb.log_softmax(x, axis=-1), t[None, :5] % 5, axis=0)

    def probabilities(x, t):
        return taken(pb.softmax(x, axis=-1), t)

    def two_labels(x, t):
        return pb.take_along_axis(pb.log_softmax(x, axis=-1), pb.stack([t, t], axis=1), axis=-1)

    def used_elsewhere(x, t):
        log_p = pb.log_softmax(x, axis=-1)
        return taken(log_p, t), log_p

    functions = [other_axis, probabilities, two_labels, used_elsewhere]
    for f in functions:
        leaves(f, [X, LABELS], *OPS)
    for f in functions[:-1]:
        fused_ops(pulled(f), X, LABELS)
    leaves(along_columns, [rows(5, 5), LABELS], *OPS)


def test_without_a_finite_shift():
    """Rows with infinite elements differ, so this is not the same formula."""
    f = lambda x, t: taken(by_hand(x), t)  # noqa: E731
    fused_ops(f, X, LABELS)
    fused_ops(pulled(f), X, LABELS)
    x = X.copy()
    x[1] = -np.inf
    fused_ops(f, x, LABELS)


def test_second_derivatives():
    def second(x, t):
        return pb.grad(lambda x: pb.sum(pb.sin(pulled(WAYS["taken"])(x, t)[1][0])))(x)

    fused_ops(second, X, LABELS)
