"""Hamiltonian Monte Carlo: samples of a distribution that is known up to a factor.

A proposal follows the gradient of the log density for some leapfrog steps, a scan; it is accepted
or not, in another scan over the samples; and `vmap` runs many chains at once. All of it is one
program.
"""

from __future__ import annotations

import numpy as np

import pullback as pb

MEAN = np.array([1.0, -2.0])
COVARIANCE = np.array([[1.0, 0.8], [0.8, 2.0]])


def log_density(q):
    """A correlated normal distribution, without its constant."""
    centred = q - pb.tensor(MEAN)
    return -0.5 * centred @ pb.linalg.solve(pb.tensor(COVARIANCE), centred)


def leapfrog(log_density, q, p, size, steps):
    """Follow the Hamiltonian flow of position `q` and momentum `p`."""
    force = pb.grad(log_density)

    def step(state, _):
        q, p = state
        p = p + 0.5 * size * force(q)
        q = q + size * p
        return (q, p + 0.5 * size * force(q)), None

    return pb.scan(step, (q, p), None, length=steps)[0]


def chain(log_density, q, key, samples, size=0.5, steps=6):
    """The positions of one chain, and which proposals were accepted."""

    def energy(q, p):
        return 0.5 * (p * p).sum() - log_density(q)

    def transition(q, key):
        for_momentum, for_choice = pb.random.split(key)
        p = pb.random.normal(for_momentum, q.shape, dtype=q.dtype)
        new_q, new_p = leapfrog(log_density, q, p, size, steps)
        log_ratio = energy(q, p) - energy(new_q, new_p)
        accepted = pb.log(pb.random.uniform(for_choice, dtype=q.dtype)) < log_ratio
        q = pb.where(accepted, new_q, q)
        return q, (q, accepted)

    return pb.scan(transition, q, pb.random.split(key, samples))[1]


def spread(chains: np.ndarray) -> float:
    """Gelman and Rubin's ratio: near 1 if the chains [chains, samples] agree with each other."""
    within = chains.var(axis=1, ddof=1).mean()
    between = chains.mean(axis=1).var(ddof=1)
    return float(np.sqrt(1 - 1 / chains.shape[1] + between / within))


def main(chains: int = 64, samples: int = 500, warmup: int = 50) -> dict[str, object]:
    """Draw samples; return their moments beside the true ones."""
    start = 5 * pb.random.normal(pb.random.key(0), (chains, 2), dtype="float64")
    keys = pb.random.split(pb.random.key(1), chains)
    draw = pb.compile(pb.vmap(lambda q, key: chain(log_density, q, key, warmup + samples)))
    positions, accepted = draw(start, keys)
    kept = positions.numpy()[:, warmup:]
    found = {
        "mean": kept.mean((0, 1)),
        "covariance": np.cov(kept.reshape(-1, 2).T),
        "acceptance": float(accepted.numpy().mean()),
        "spread": max(spread(kept[..., i]) for i in range(2)),
    }
    print(f"{chains} chains of {samples} samples, {found['acceptance']:.1%} accepted")
    print(f"mean {found['mean'].round(3).tolist()}, in truth {MEAN.tolist()}")
    print(f"covariance {found['covariance'].round(3).tolist()}, in truth {COVARIANCE.tolist()}")

    # The flow is reversible: backwards from the end, with the momentum turned, to the start.
    q, p = pb.tensor(MEAN + 1), pb.tensor(np.ones(2))
    there = leapfrog(log_density, q, p, 0.5, 6)
    back = leapfrog(log_density, there[0], -there[1], 0.5, 6)
    np.testing.assert_allclose(back[0].numpy(), q.numpy(), rtol=1e-12)
    return found


if __name__ == "__main__":
    found = main()
    np.testing.assert_allclose(found["mean"], MEAN, atol=0.05)
    np.testing.assert_allclose(found["covariance"], COVARIANCE, atol=0.1)
    assert found["acceptance"] > 0.8 and found["spread"] < 1.02
