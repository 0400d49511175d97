"""The parameters and the batch of the transformer, for every way to write it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import normal


class Sizes(NamedTuple):
    """The sizes of a transformer."""

    width: int
    heads: int
    layers: int
    words: int
    batch: int
    length: int


FULL = Sizes(width=256, heads=8, layers=4, words=1000, batch=8, length=128)
QUICK = Sizes(width=8, heads=2, layers=2, words=20, batch=2, length=6)


class Arrays(NamedTuple):
    """Parameters, tokens with the tokens that follow them, and the number of heads."""

    params: Any
    batch: tuple[np.ndarray, np.ndarray]
    heads: int


def inputs(quick: bool) -> Arrays:
    return transformer_arrays(QUICK if quick else FULL)


def transformer_arrays(sizes: Sizes) -> Arrays:
    rng, width = np.random.default_rng(0), sizes.width

    def norm() -> dict[str, np.ndarray]:
        scale = 1 + normal(rng, width, scale=0.1)
        return {"scale": scale.astype(np.float32), "shift": normal(rng, width, scale=0.1)}

    def linear(m: int, n: int) -> dict[str, np.ndarray]:
        return {"w": normal(rng, m, n), "b": normal(rng, n, scale=0.02)}

    def layer() -> dict[str, Any]:
        return {
            "norm1": norm(), "qkv": linear(width, 3 * width), "out": linear(width, width),
            "norm2": norm(), "up": linear(width, 4 * width), "down": linear(4 * width, width),
        }  # fmt: skip

    params = {
        "words": normal(rng, sizes.words, width, scale=0.1),
        "positions": normal(rng, sizes.length, width, scale=0.1),
        "layers": [layer() for _ in range(sizes.layers)],
        "norm": norm(),
        "head": normal(rng, width, sizes.words),
    }
    tokens = rng.integers(0, sizes.words, (sizes.batch, sizes.length + 1)).astype(np.int32)
    return Arrays(params, (tokens[:, :-1].copy(), tokens[:, 1:].copy()), sizes.heads)


def transposed(x: Any) -> Any:
    return x.T if x.ndim == 2 else x


def to_state(params: Any) -> dict[str, Any]:
    """Parameters as the modules `LM` of PyTorch and pullback name and transpose them."""
    state = {
        "words.weight": params["words"],
        "positions.weight": params["positions"],
        "norm.weight": params["norm"]["scale"],
        "norm.bias": params["norm"]["shift"],
        "head.weight": params["head"].T,
    }
    for i, layer in enumerate(params["layers"]):
        for part, names in layer.items():
            for name, value in names.items():
                known = {"scale": "weight", "shift": "bias", "w": "weight", "b": "bias"}[name]
                state[f"blocks.{i}.{part}.{known}"] = transposed(value)
    return state


def from_state(state: dict[str, Any]) -> Any:
    """The inverse of `to_state`."""
    layers: dict[int, dict[str, Any]] = {}
    for name, value in state.items():
        if name.startswith("blocks."):
            _, i, part, kind = name.split(".")
            is_norm = part.startswith("norm")
            known = {"weight": "scale" if is_norm else "w", "bias": "shift" if is_norm else "b"}
            layers.setdefault(int(i), {}).setdefault(part, {})[known[kind]] = transposed(value)
    return {
        "words": state["words.weight"],
        "positions": state["positions.weight"],
        "layers": [layers[i] for i in sorted(layers)],
        "norm": {"scale": state["norm.weight"], "shift": state["norm.bias"]},
        "head": state["head.weight"].T,
    }
