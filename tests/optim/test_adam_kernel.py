"""The kernel for a step of Adam against what XLA compiles of its formula."""

import numpy as np
import pytest

import pullback as pb

SHAPES = [(4096,), (3, 1371), (70, 1001), (2, 5, 4099)]


def steps(dtype, shape, donate, kernels=True, count=3):
    """Parameters and state after some steps."""
    rng = np.random.default_rng(0)
    p, g = (pb.tensor(rng.normal(size=shape).astype(dtype)) for _ in range(2))
    rule = pb.optim.adam(0.1)
    state = rule.init(p)
    with pb.config(kernels=kernels):
        update = pb.compile(rule.update, donate_argnums=(1, 2) if donate else ())
        for _ in range(count):
            p, state = update(g, state, p)
        return [x.numpy() for x in pb.tree.leaves((p, state))]


@pytest.mark.parametrize("donate", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_agree_with_the_formula(dtype, shape, donate):
    found = steps(dtype, shape, donate)
    tolerance = 8 * np.finfo(dtype).eps
    for got, want in zip(found, steps(dtype, shape, donate, kernels=False), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_nan_and_infinity_stay_where_they_are():
    g = np.zeros(5000, np.float32)
    g[[0, 17, 4999]] = np.nan, np.inf, -np.inf
    found = []
    for kernels in (True, False):
        rule, p = pb.optim.adam(0.1), pb.ones(5000)
        with pb.config(kernels=kernels):
            made, state = pb.compile(rule.update)(pb.tensor(g), rule.init(p), p)
            found.append([x.numpy() for x in pb.tree.leaves((made, state))])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_training_step_with_donated_parameters_reads_their_old_values():
    rng = np.random.default_rng(0)
    x = pb.tensor(rng.normal(size=(16, 72)).astype(np.float32))
    arrays = [rng.normal(size=(72, 72)).astype(np.float32) / 9 for _ in range(3)]
    rule = pb.optim.adam(0.01)

    def loss(ps):
        y = x
        for p in ps:
            y = pb.tanh(y @ p)
        return (y * y).mean()

    def update(ps, state):
        value, grads = pb.value_and_grad(loss)(ps)
        return *rule.update(grads, state, ps), value

    losses = []
    for donate in ((0, 1), ()):
        ps = [pb.tensor(a) for a in arrays]
        state, step = rule.init(ps), pb.compile(update, donate_argnums=donate)
        values = []
        for _ in range(4):
            ps, state, value = step(ps, state)
            values.append(value.item())
        losses.append(values)
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]
