"""An LSTM with `pb.scan` that learns to remember the sign of the first input of a sequence.

The scan is one node for any length, and so is its gradient. The gradient is checked against the
same network written as a Python loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb

HIDDEN, LENGTH, BATCH = 12, 12, 64
Params = dict[str, pb.Tensor]


def initial_params(rng: np.random.Generator) -> Params:
    def scaled(m: int, n: int) -> pb.Tensor:
        return pb.tensor((rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32))

    bias = np.zeros(4 * HIDDEN, np.float32)
    bias[HIDDEN : 2 * HIDDEN] = 2  # the forget gates start open
    return {
        "input": scaled(1, 4 * HIDDEN),
        "state": scaled(HIDDEN, 4 * HIDDEN),
        "bias": pb.tensor(bias),
        "out": scaled(HIDDEN, 1),
    }


def cell(params: Params, state: tuple[pb.Tensor, pb.Tensor], x: pb.Tensor) -> Any:
    """One step, with input, forget, cell and output gates."""
    h, c = state
    gates = x @ params["input"] + h @ params["state"] + params["bias"]
    i, f, g, o = (gates[:, k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
    c = pb.sigmoid(f) * c + pb.sigmoid(i) * pb.tanh(g)
    return pb.sigmoid(o) * pb.tanh(c), c


def scanned(params: Params, xs: pb.Tensor) -> pb.Tensor:
    """Return the last hidden state; the first dimension of `xs` is time."""
    start = pb.zeros((xs.shape[1], HIDDEN)), pb.zeros((xs.shape[1], HIDDEN))
    (h, _), _ = pb.scan(lambda state, x: (cell(params, state, x), None), start, xs)
    return h


def looped(params: Params, xs: pb.Tensor) -> pb.Tensor:
    state = pb.zeros((xs.shape[1], HIDDEN)), pb.zeros((xs.shape[1], HIDDEN))
    for t in range(len(xs)):
        state = cell(params, state, xs[t])
    return state[0]


def loss(params: Params, xs: pb.Tensor, signs: pb.Tensor, run: Any = scanned) -> pb.Tensor:
    """The logistic loss of the sign predicted from the last state."""
    score = (run(params, xs) @ params["out"])[:, 0]
    return pb.softplus(-score * signs).mean()


def batch(rng: np.random.Generator) -> tuple[pb.Tensor, pb.Tensor]:
    """Noise sequences; the label is the sign of the first entry."""
    xs = rng.standard_normal((LENGTH, BATCH, 1)).astype(np.float32)
    return pb.tensor(xs), pb.tensor(np.sign(xs[0, :, 0]))


def main() -> None:
    rng = np.random.default_rng(0)
    params = initial_params(rng)
    xs, signs = batch(rng)
    got, want = (pb.grad(loss)(params, xs, signs, run) for run in (scanned, looped))
    for name in params:
        np.testing.assert_allclose(got[name].numpy(), want[name].numpy(), rtol=2e-4, atol=1e-6)

    optimizer = pb.optim.adam(3e-2)
    state = optimizer.init(params)
    first = loss(params, xs, signs).item()
    for _ in range(200):
        grads = pb.grad(loss)(params, *batch(rng))
        params, state = optimizer.update(grads, state, params)
    last = loss(params, xs, signs).item()
    agrees = (scanned(params, xs) @ params["out"])[:, 0] * signs > 0
    right = agrees.astype(pb.float32).mean().item()
    assert last < 0.3 * first, (first, last)
    assert right > 0.9, right
    print(f"loss {first:.3f} to {last:.3f}, {100 * right:.0f} % of the first signs remembered")


if __name__ == "__main__":
    main()
