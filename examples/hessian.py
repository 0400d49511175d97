"""Compute the Hessian of a small network by all four combinations of forward and reverse mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import pullback as pb


def network(params: pb.Tensor, x: pb.Tensor) -> pb.Tensor:
    """The mean square of a network with one hidden layer; all parameters are one vector."""
    hidden = pb.tanh(x @ params[:6].reshape(2, 3) + params[6:9])
    return ((hidden @ params[9:12]) ** 2).mean()


def by_differences(gradient: Callable, params: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The rows of the Hessian as central differences of the gradient."""
    rows = []
    for e in np.eye(len(params)):
        ahead, behind = (gradient(pb.tensor(params + s * step * e)).numpy() for s in (1, -1))
        rows.append((ahead - behind) / (2 * step))
    return np.stack(rows)


def main() -> None:
    rng = np.random.default_rng(0)
    params, x = rng.standard_normal(12), pb.tensor(rng.standard_normal((10, 2)))

    def f(params: pb.Tensor) -> pb.Tensor:
        return network(params, x)

    want = by_differences(pb.grad(f), params)
    modes = {"forward": pb.jacfwd, "reverse": pb.jacrev}
    for outer, by_outer in modes.items():
        for inner, by_inner in modes.items():
            found = by_outer(by_inner(f))(pb.tensor(params)).numpy()
            error = np.abs(found - want).max()
            print(f"{outer} over {inner}: largest difference {error:.1e}")
            np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(found, found.T, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    main()
