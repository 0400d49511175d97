"""A long short-term memory over sequences, with its gradient: by scan, or PyTorch's layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call
from benchmarks.workload import Case, Workload, normal


def inputs(quick: bool) -> Any:
    return arrays_of(5, 2, 4) if quick else arrays_of(200, 32, 64)


def arrays_of(length: int, batch: int, width: int) -> Any:
    """Weights of input, forget, cell and output gates; sequences [length, batch, width]."""
    rng = np.random.default_rng(0)
    params = {
        "wx": normal(rng, width, 4 * width),
        "wh": normal(rng, width, 4 * width),
        "b": normal(rng, 4 * width, scale=0.1),
    }
    return params, normal(rng, length, batch, width, scale=1.0)


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def loss(params: Any, xs: Any) -> Any:
        width = params["wh"].shape[0]

        def cell(state: Any, x: Any) -> Any:
            h, c = state
            z = x @ params["wx"] + h @ params["wh"] + params["b"]
            i, f, g, o = (z[:, k * width : (k + 1) * width] for k in range(4))
            c = pb.sigmoid(f) * c + pb.sigmoid(i) * pb.tanh(g)
            h = pb.sigmoid(o) * pb.tanh(c)
            return (h, c), h

        start = pb.zeros((xs.shape[1], width))
        _, hs = pb.scan(cell, (start, start), xs)
        return (hs * hs).mean()

    return pullback_call(pb.value_and_grad(loss), *arrays)


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    def loss(params: Any, xs: Any) -> Any:
        width = params["wh"].shape[0]

        def cell(state: Any, x: Any) -> Any:
            h, c = state
            z = x @ params["wx"] + h @ params["wh"] + params["b"]
            i, f, g, o = (z[:, k * width : (k + 1) * width] for k in range(4))
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((xs.shape[1], width))
        _, hs = jax.lax.scan(cell, (start, start), xs)
        return (hs * hs).mean()

    return jax_call(jax.value_and_grad(loss), *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    params, xs = arrays
    width = params["wh"].shape[0]
    layer = torch.nn.LSTM(width, width)
    layer.weight_ih_l0.data = torch.tensor(params["wx"].T.copy())
    layer.weight_hh_l0.data = torch.tensor(params["wh"].T.copy())
    layer.bias_ih_l0.data = torch.tensor(params["b"])
    layer.bias_hh_l0.data.zero_()
    layer.flatten_parameters()  # as cuDNN wants them
    targets, xs = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0), torch.tensor(xs)

    def both() -> Any:
        hs, _ = layer(xs)
        value = (hs * hs).mean()
        wx, wh, b = torch.autograd.grad(value, targets)
        return value, {"wx": wx.T, "wh": wh.T, "b": b}

    return Case(both, both)


WORKLOADS = [
    Workload(
        "lstm", "LSTM by scan, 200 steps, batch 32, width 64, forward and backward", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch}, torch_compile=False,
        note=(
            "in PyTorch it is one op, which took 5.2 to 7.6 ms in five runs. Here, each "
            "of the three products of an iteration takes 4 to 5 us on one core, and what "
            "is between them 4 us forward and 6 us backward, less than half of which is "
            "waiting for memory: rows of eight values are written in one loop and read in "
            "the other. Two cores for these products, by threads that wait between them, "
            "saved 5 %. With sums by YNNPACK, which may crash, 6.3 ms."
        ),
    )
]  # fmt: skip
