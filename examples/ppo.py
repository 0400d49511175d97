"""Proximal policy optimisation (Schulman and others, 2017): a policy learns to balance a pole.

The environment is written with tensors, so `vmap` runs many of them and `scan` runs many steps.
Playing and learning are one compiled program.
"""

from __future__ import annotations

import pullback as pb
from pullback import nn


def reset(key):
    """A cart with a pole that is almost upright: place, speed, angle, angular speed."""
    return pb.random.uniform(key, (4,), low=-0.05, high=0.05)


def advance(state, push):
    """The state after a push to the left (0) or the right (1), and whether the pole has fallen."""
    _, speed, angle, turning = pb.unstack(state)
    sine, cosine = pb.sin(angle), pb.cos(angle)
    total = (pb.where(push == 1, 10.0, -10.0) + 0.05 * turning**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * total) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    change = pb.stack([speed, total - 0.05 * turn * cosine / 1.1, turning, turn])
    state = state + 0.02 * change
    return state, (abs(state[0]) > 2.4) | (abs(state[2]) > 0.21)


class Agent(nn.Module):
    """The log probabilities of both pushes, and the expected return."""

    def __init__(self, width: int) -> None:
        self.policy = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
        self.value = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, state):
        return pb.log_softmax(self.policy(state), axis=-1), self.value(state)[..., 0]


def play(agent, state, key, steps):
    """Play in one environment; return its last state, and what happened in each step."""

    def step(state, key):
        for_push, for_reset = pb.random.split(key)
        logits, value = agent(state)
        push = pb.random.categorical(for_push, logits)
        new, fallen = advance(state, push)
        seen = {"state": state, "push": push, "log": logits[push], "value": value, "end": fallen}
        return pb.where(fallen, reset(for_reset), new), seen

    return pb.scan(step, state, pb.random.split(key, steps))


def advantages(seen, last, discount=0.99, decay=0.95):
    """How much better each push was than expected; each step that does not end earns 1."""

    def back(carry, now):
        later, advantage = carry
        goes_on = pb.where(now["end"], 0.0, discount)
        error = 1.0 + goes_on * later - now["value"]
        advantage = error + goes_on * decay * advantage
        return (now["value"], advantage), advantage

    return pb.scan(back, (last, pb.zeros_like(last)), seen, reverse=True)[1]


def loss(agent, seen, advantage, target, clip=0.2):
    """The clipped objective of the policy, the error of the value, and a bonus for entropy."""
    logits, value = agent(seen["state"])
    log = pb.take_along_axis(logits, seen["push"][:, None], axis=1)[:, 0]
    ratio, advantage = pb.exp(log - seen["log"]), advantage - advantage.mean()
    advantage = advantage / (pb.std(advantage) + 1e-8)
    gain = pb.minimum(ratio * advantage, pb.clip(ratio, 1 - clip, 1 + clip) * advantage)
    entropy = -(pb.exp(logits) * logits).sum(-1)
    return -gain.mean() + 0.5 * ((value - target) ** 2).mean() - 0.01 * entropy.mean()


def main(
    rounds: int = 60, environments: int = 16, steps: int = 128, width: int = 32
) -> list[float]:
    """Train; return the mean number of steps between two falls, in each round."""
    with nn.rng(pb.random.key(0)):
        agent = Agent(width)
    rule = pb.optim.adam(1e-2)
    keys = pb.random.split(pb.random.key(1), environments)

    @pb.compile
    def improve(agent, optimizer, states, key):
        keys = pb.random.split(key, environments)
        states, seen = pb.vmap(lambda s, k: play(agent, s, k, steps))(states, keys)
        advantage = pb.vmap(advantages)(seen, agent(states)[1])
        target = advantage + seen["value"]
        flat = pb.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (seen, advantage, target))

        def epoch(carry, _):
            agent, optimizer = carry
            grads = pb.grad(loss)(agent, *flat)
            return rule.update(grads, optimizer, agent), None

        (agent, optimizer), _ = pb.scan(epoch, (agent, optimizer), None, length=8)
        falls = seen["end"].astype("float32").sum()
        return agent, optimizer, states, environments * steps / (falls + 1)

    optimizer, states, lengths = rule.init(agent), pb.vmap(reset)(keys), []
    for number in range(rounds):
        key = pb.random.fold_in(pb.random.key(2), number)
        agent, optimizer, states, length = improve(agent, optimizer, states, key)
        lengths.append(length)
    lengths = [length.item() for length in lengths]
    print(f"steps between two falls: {lengths[0]:.0f} to {lengths[-1]:.0f}")
    return lengths


if __name__ == "__main__":
    lengths = main()
    assert lengths[0] < 40 and lengths[-1] > 200
