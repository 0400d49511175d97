"""Per-example gradients: vmap of grad, in one program.

They measure the influence of each example on the parameters; differentially private training clips
them one by one. A loop over examples gives the same numbers, one program per example.
"""

from __future__ import annotations

import itertools

import numpy as np

import pullback as pb

Params = list[tuple[pb.Tensor, pb.Tensor]]


def initial_params(sizes: tuple[int, ...], rng: np.random.Generator) -> Params:
    return [
        (pb.tensor(rng.standard_normal((m, n)) / np.sqrt(m)), pb.tensor(np.zeros(n)))
        for m, n in itertools.pairwise(sizes)
    ]


def loss(params: Params, x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    """The squared error of one example."""
    for w, b in params[:-1]:
        x = pb.tanh(x @ w + b)
    w, b = params[-1]
    return ((x @ w + b - y) ** 2).sum()


def main() -> None:
    rng = np.random.default_rng(0)
    params = initial_params((4, 8, 2), rng)
    x, y = pb.tensor(rng.standard_normal((16, 4))), pb.tensor(rng.standard_normal((16, 2)))

    each = pb.vmap(pb.grad(loss), in_axes=(None, 0, 0))(params, x, y)
    for i in range(len(x)):
        alone = pb.grad(loss)(params, x[i], y[i])
        for got, want in zip(pb.tree.leaves(each), pb.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(got[i].numpy(), want.numpy(), rtol=1e-9, atol=1e-12)

    total = pb.grad(lambda p: sum(loss(p, x[i], y[i]) for i in range(len(x))))(params)
    for got, want in zip(pb.tree.leaves(each), pb.tree.leaves(total), strict=True):
        np.testing.assert_allclose(got.sum(axis=0).numpy(), want.numpy(), rtol=1e-9)

    squares = sum((g.reshape(len(x), -1) ** 2).sum(axis=1) for g in pb.tree.leaves(each))
    norms = pb.sqrt(squares)
    print(f"gradient norms of {len(x)} examples: {norms.min():.3f} to {norms.max():.3f}")


if __name__ == "__main__":
    main()
