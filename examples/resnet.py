"""A small ResNet with BatchNorm on handwritten digits, in PyTorch's style.

The model is an object with state: a call in training mode updates the running means, the optimizer
changes the parameters in place, and `loss.backward()` finds the gradients.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F


class ResidualBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int = 1) -> None:
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        same = stride == 1 and channels_in == channels_out
        self.shortcut = None if same else nn.Conv2d(channels_in, channels_out, 1, stride)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """Images [batch, height, width, 1] to scores of ten digits."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.blocks = nn.Sequential(
            ResidualBlock(8, 8), ResidualBlock(8, 16, stride=2), ResidualBlock(16, 32, stride=2)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.stem(x))).mean((1, 2)))


def main(epochs: int = 8) -> float:
    """Train; return the accuracy on images that were not seen."""
    images, labels = pb.data.digits()
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order].reshape(-1, 8, 8, 1), labels[order]
    loader = pb.data.DataLoader(
        (images[:1400], labels[:1400]), 70, shuffle=True, key=pb.random.key(0)
    )
    nn.seed(0)
    model = ResNet()
    optimizer = pb.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    model.eval()
    hits = model(pb.tensor(images[1400:])).argmax(-1) == pb.tensor(labels[1400:])
    accuracy = hits.astype("float32").mean().item()
    print(f"{model.num_parameters():,} parameters, test accuracy {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    assert main() > 0.95
