"""Differentially private training: no single example can change the result much.

The gradient of each example, `vmap` of `grad`, is clipped to a norm; their sum gets normal noise
(Abadi and others, 2016). Every step uses all examples, so the privacy loss is that of composed
Gaussian mechanisms (Bun and Steinke, 2016).
"""

from __future__ import annotations

import math

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F

DELTA = 1e-5


def loss(model, x, y):
    """The loss of one example."""
    return F.cross_entropy(model(x), y)


def norms(gradients):
    """The norm of each example's gradient, over all parameters."""
    squares = [(g.reshape(len(g), -1) ** 2).sum(1) for g in pb.tree.leaves(gradients)]
    return pb.sqrt(sum(squares))


def clipped(gradients, limit):
    """The gradients of all examples, scaled so that no norm is above the limit."""
    scale = pb.minimum(1.0, limit / norms(gradients))
    return pb.tree.map(lambda g: g * scale.reshape(-1, *[1] * (g.ndim - 1)), gradients)


def private_gradient(model, x, y, key, limit, noise):
    """The mean of the clipped gradients, with noise of `noise * limit` in their sum."""
    each = clipped(pb.vmap(pb.grad(loss), in_axes=(None, 0, 0))(model, x, y), limit)
    leaves, structure = pb.tree.flatten(each)
    keys = pb.random.split(key, len(leaves))
    sums = [
        g.sum(0) + noise * limit * pb.random.normal(k, g.shape[1:]) for g, k in zip(leaves, keys)
    ]
    return pb.tree.unflatten(structure, [s / len(x) for s in sums])


def epsilon(steps: int, noise: float) -> float:
    """The privacy loss of so many steps, which is exceeded with probability DELTA."""
    rho = steps / (2 * noise**2)
    return rho + 2 * math.sqrt(rho * math.log(1 / DELTA))


def main(steps: int = 60, noise: float = 12.0, limit: float = 1.0, examples: int = 1500) -> dict:
    """Train with privacy; return what was measured."""
    images, labels = pb.data.digits()
    x, y = pb.tensor(images.reshape(len(images), 64)), pb.tensor(labels)
    train, test = (x[:examples], y[:examples]), (x[1500:], y[1500:])
    with nn.rng(pb.random.key(0)):
        model = nn.Linear(64, 10)

    few = train[0][:8], train[1][:8]
    each = pb.vmap(pb.grad(loss), in_axes=(None, 0, 0))(model, *few)
    for i in range(8):  # the gradients one by one are the same
        alone = pb.grad(loss)(model, few[0][i], few[1][i])
        np.testing.assert_allclose(each.weight[i].numpy(), alone.weight.numpy(), atol=1e-6)
    assert norms(clipped(each, 0.5)).max().item() <= 0.5 * (1 + 1e-5) < norms(each).max().item()
    plain = pb.grad(lambda m: pb.vmap(loss, in_axes=(None, 0, 0))(m, *few).mean())(model)
    exact = private_gradient(model, *few, pb.random.key(1), limit=1e6, noise=0.0)
    np.testing.assert_allclose(exact.weight.numpy(), plain.weight.numpy(), atol=1e-6)

    rule = pb.optim.sgd(2.0, momentum=0.5)

    @pb.compile
    def step(model, state, key):
        return rule.update(private_gradient(model, *train, key, limit, noise), state, model)

    state = rule.init(model)
    for number in range(steps):
        model, state = step(model, state, pb.random.fold_in(pb.random.key(2), number))
    accuracy = (model(test[0]).argmax(-1) == test[1]).astype("float32").mean().item()
    found = {"accuracy": accuracy, "epsilon": epsilon(steps, noise)}
    print(f"test accuracy {accuracy:.1%} with epsilon {found['epsilon']:.2f}, delta {DELTA}")
    return found


if __name__ == "__main__":
    found = main()
    assert found["accuracy"] > 0.8 and found["epsilon"] < 4
