"""A graph network: the two groups of a karate club, from the members who led them.

Zachary (1977) observed 34 members of a club that split in two. Each edge is a friendship. A layer
sends every node's features along its edges, and adds up what arrives with `segment_sum`. Only the
labels of the two leaders are known in training.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F

FRIENDS = """0: 1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31; 1: 2 3 7 13 17 19 21 30; 2: 3 7 8 9 13 27
    28 32; 3: 7 12 13; 4: 6 10; 5: 6 10 16; 6: 16; 8: 30 32 33; 9: 33; 13: 33; 14: 32 33; 15: 32 33;
    18: 32 33; 19: 33; 20: 32 33; 22: 32 33; 23: 25 27 29 32 33; 24: 25 27 31; 25: 31; 26: 29 33;
    27: 33; 28: 31 33; 29: 32 33; 30: 32 33; 31: 32 33; 32: 33"""
INSTRUCTOR = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21}  # who stayed with node 0
NODES = 34


def karate_club() -> tuple[np.ndarray, np.ndarray]:
    """The edges as pairs of nodes, in both directions and from each node to itself; the labels."""
    pairs = [(i, i) for i in range(NODES)]
    for row in FRIENDS.split(";"):
        node, others = row.split(":")
        pairs += [(int(node), int(other)) for other in others.split()]
        pairs += [(int(other), int(node)) for other in others.split()]
    return np.array(pairs), np.array([int(i not in INSTRUCTOR) for i in range(NODES)])


class GraphLayer(nn.Module):
    """Each node receives the features of its neighbours, scaled by the degrees of both."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, edges):
        sources, targets = edges[:, 0], edges[:, 1]
        degree = pb.segment_sum(pb.ones(len(edges)), targets, len(x))
        scale = 1 / pb.sqrt(degree[sources] * degree[targets])
        messages = self.linear(x)[sources] * scale[:, None]
        return pb.segment_sum(messages, targets, len(x))


class GraphNetwork(nn.Module):
    def __init__(self, inputs: int, hidden: int = 16) -> None:
        self.first, self.second = GraphLayer(inputs, hidden), GraphLayer(hidden, 2)

    def forward(self, x, edges):
        return self.second(pb.tanh(self.first(x, edges)), edges)


def main(steps: int = 100) -> float:
    """Train on the two leaders; return the share of members whose group is found."""
    edges, labels = karate_club()
    edges, x = pb.tensor(edges), pb.eye(NODES)  # nothing is known of a node but which one it is
    leaders = pb.tensor([0, 33])
    with nn.rng(pb.random.key(0)):
        model = GraphNetwork(NODES)
    rule = pb.optim.adam(1e-2, weight_decay=5e-4)
    state = rule.init(model)

    @pb.compile
    def step(model, state):
        def loss(model):
            return F.cross_entropy(model(x, edges)[leaders], pb.tensor([0, 1]))

        value, grads = pb.value_and_grad(loss)(model)
        return (*rule.update(grads, state, model), value)

    for _ in range(steps):
        model, state, value = step(model, state)
    logits = model(x, edges)
    found = float((logits.argmax(-1).numpy() == labels).mean())
    print(f"loss {value.item():.4f}, the groups of {found:.1%} of {NODES} members from 2 labels")

    # The order of the edges does not matter, and nodes with other numbers get the same answers.
    order = np.random.default_rng(0).permutation(NODES)
    renamed = pb.tensor(np.argsort(order))[pb.flip(edges, axis=0)]
    again = model(x[pb.tensor(order)], renamed)
    np.testing.assert_allclose(again.numpy(), logits.numpy()[order], rtol=1e-4, atol=1e-5)
    return found


if __name__ == "__main__":
    assert main() >= 0.9
