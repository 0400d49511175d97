"""Denoising diffusion (Ho, Jain and Abbeel, 2020): samples of a distribution that is only observed.

Noise is added to the data in many small steps; a network learns to tell the noise of a noisy point.
Sampling starts with noise alone and removes it step by step, in a scan.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn

MODES = 2 * np.stack([(np.cos(a), np.sin(a)) for a in np.arange(8) * np.pi / 4])  # on a circle
SPREAD = 0.2  # the standard deviation around each of them


def observed(key, count):
    """Points of the distribution."""
    which, around = pb.random.split(key)
    centres = pb.tensor(MODES, dtype="float32")[pb.random.randint(which, (count,), 0, 8)]
    return centres + SPREAD * pb.random.normal(around, (count, 2))


class Denoiser(nn.Module):
    """Predicts the noise in points [..., 2] from the points and the time, between 0 and 1."""

    def __init__(self, width: int) -> None:
        self.time = nn.Linear(1, width)
        self.first, self.last = nn.Linear(2, width), nn.Linear(width, 2)
        self.hidden = [nn.Linear(width, width) for _ in range(2)]

    def forward(self, x, time):
        time, x = self.time(time[..., None]), self.first(x)
        for layer in self.hidden:
            x = x + layer(pb.silu(x + time))
        return self.last(pb.silu(x))


def schedule(steps: int):
    """The share of noise that each step adds, and the share of the data that is left after it."""
    betas = pb.linspace(1e-3, 8 / steps, steps, dtype="float32")
    return betas, pb.cumprod(1 - betas)


def loss(model, x, key, steps):
    """The error of the predicted noise, at a random step for each point."""
    for_step, for_noise = pb.random.split(key)
    step = pb.random.randint(for_step, x.shape[:1], 0, steps)
    noise = pb.random.normal(for_noise, x.shape)
    left = schedule(steps)[1][step][:, None]
    noisy = pb.sqrt(left) * x + pb.sqrt(1 - left) * noise
    return ((model(noisy, step / steps) - noise) ** 2).mean()


@pb.compile(static_argnums=(2, 3))
def sample(model, key, count, steps):
    """New points: remove the noise of each step, the last one first."""
    betas, left = schedule(steps)
    before = left / (1 - betas)  # what was left before each step: 1 before the first

    def remove(x, given):
        step, key = given
        noise = model(x, pb.full((count,), step / steps))
        mean = (x - betas[step] / pb.sqrt(1 - left[step]) * noise) / pb.sqrt(1 - betas[step])
        spread = pb.sqrt(betas[step] * (1 - before[step]) / (1 - left[step]))
        return mean + spread * pb.random.normal(key, x.shape), None

    start, rest = pb.random.split(key)
    order = pb.arange(steps - 1, -1, -1)
    x = pb.random.normal(start, (count, 2))
    return pb.scan(remove, x, (order, pb.random.split(rest, steps)))[0]


def main(updates: int = 3000, width: int = 64, steps: int = 50, batch: int = 256) -> dict:
    """Train, and return how the samples are distributed."""
    with nn.rng(pb.random.key(0)):
        model = Denoiser(width)
    rule = pb.optim.ema(pb.optim.adam(pb.optim.schedules.cosine(3e-3, updates)), 0.99)

    @pb.compile
    def train(model):
        def update(carry, key):
            model, state = carry
            for_data, for_loss = pb.random.split(key)
            x = observed(for_data, batch)
            value, grads = pb.value_and_grad(loss)(model, x, for_loss, steps)
            model, state = rule.update(grads, state, model)
            return (model, state), value

        keys = pb.random.split(pb.random.key(1), updates)
        (model, state), losses = pb.scan(update, (model, rule.init(model)), keys)
        return state.average, losses

    model, losses = train(model)
    points = sample(model, pb.random.key(2), 2000, steps).numpy()
    distances = np.linalg.norm(points[:, None] - MODES, axis=-1)
    shares = np.bincount(distances.argmin(1), minlength=8) / len(points)
    found = {
        "loss": float(losses[-100:].mean()),
        "near": float((distances.min(1) < 3 * SPREAD).mean()),
        "least": float(shares.min()), "most": float(shares.max()),
        "radius": float(np.linalg.norm(points, axis=1).mean()),
    }  # fmt: skip
    print(f"loss {float(losses[0]):.3f} to {found['loss']:.3f}")
    print(f"{found['near']:.1%} of the samples near one of the 8 modes, mean radius "
          f"{found['radius']:.3f}, shares {found['least']:.3f} to {found['most']:.3f}")  # fmt: skip
    return found


if __name__ == "__main__":
    found = main()
    assert found["near"] > 0.75 and found["least"] > 0.08 and found["most"] < 0.18
