"""A variational autoencoder of handwritten digits, in the functional style.

The encoder gives a normal distribution of hidden values for each image; a sample of it is decoded.
The loss is a bound of the likelihood (Kingma and Welling, 2013). Randomness comes from keys.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F

HIDDEN = 4


class VAE(nn.Module):
    def __init__(self) -> None:
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2 * HIDDEN))
        self.decoder = nn.Sequential(nn.Linear(HIDDEN, 64), nn.SiLU(), nn.Linear(64, 64))

    def forward(self, x, key):
        """Return the logits of the pixels, and the distribution of the hidden values."""
        mean, log_std = pb.split(self.encoder(x), 2, axis=-1)
        noise = pb.random.normal(key, mean.shape)
        return self.decoder(mean + pb.exp(log_std) * noise), mean, log_std


def negative_bound(model, x, key):
    """The negative evidence lower bound of a batch of images, per image."""
    logits, mean, log_std = model(x, key)
    pixels = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
    divergence = (0.5 * (mean**2 + pb.exp(2 * log_std) - 1) - log_std).sum(-1)
    return (pixels + divergence).mean()


def main(epochs: int = 30) -> tuple[float, float]:
    """Train; return the bound before and after."""
    images, _ = pb.data.digits()
    x = images.reshape(len(images), 64)
    loader = pb.data.DataLoader(x, 128, shuffle=True, key=pb.random.key(0), drop_last=True)
    with nn.rng(pb.random.key(1)):
        model = VAE()
    rule = pb.optim.adam(3e-3)
    state = rule.init(model)

    @pb.compile
    def step(model, state, x, key):
        loss, grads = pb.value_and_grad(negative_bound)(model, x, key)
        return (*rule.update(grads, state, model), loss)

    key, losses = pb.random.key(2), []
    for _ in range(epochs):
        for batch in loader:
            key, sub = pb.random.split(key)
            model, state, loss = step(model, state, batch, sub)
            losses.append(loss)
    first, last = losses[0].item(), np.mean([loss.item() for loss in losses[-10:]])
    print(f"negative bound {first:.2f} to {last:.2f}")
    samples = pb.sigmoid(model.decoder(pb.random.normal(key, (4, HIDDEN)))).reshape(4, 8, 8)
    shades = np.array(list(" .:*#"))[(4.99 * samples.numpy()).astype(int)]
    for row in range(8):  # four new digits, side by side
        print("   ".join("".join(np.repeat(image[row], 2)) for image in shades))
    return first, float(last)


if __name__ == "__main__":
    first, last = main()
    assert last < 0.65 * first
