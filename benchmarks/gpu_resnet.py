"""Training steps of ResNet-50, one source for all libraries.

Computation in bf16, statistics of batches and parameters in f32, gradient descent with momentum.
Images are NHWC; PyTorch sees them as NCHW in the memory format channels_last. Running means are not
kept.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.training import Optimizer, jax_training, pullback_training, torch_training
from benchmarks.workload import Case, leaves, mapped

OPTIMIZER = Optimizer(1e-2, momentum=0.9)
EPS = 1e-5
# blocks of each stage, width of the first one, side of images, batch, classes
FULL = ((3, 4, 6, 3), 64, 224, 256, 1000)
TINY = ((1, 1, 1, 1), 8, 64, 4, 10)


def inputs(quick: bool) -> tuple[Any, Any]:
    """Parameters, and a batch of images and labels."""
    blocks, width, side, batch, classes = TINY if quick else FULL
    rng = np.random.default_rng(0)
    images = np.resize(rng.standard_normal(2**20, np.float32), (batch, side, side, 3))
    labels = rng.integers(0, classes, batch).astype(np.int32)
    return parameters(rng, blocks, width, classes), (images, labels)


def parameters(
    rng: np.random.Generator, blocks: tuple[int, ...], width: int, classes: int
) -> dict[str, Any]:
    def unit(side: int, m: int, n: int, scale: float = 1.0) -> dict[str, np.ndarray]:
        """A convolution and the normalisation after it."""
        filters = rng.standard_normal((side, side, m, n), np.float32)
        filters *= np.float32((2 / (side * side * m)) ** 0.5)
        return {"filters": filters, "scale": np.full(n, scale, np.float32),
                "bias": np.zeros(n, np.float32)}  # fmt: skip

    def block(m: int, n: int, shortcut: bool) -> dict[str, Any]:
        found = {"reduce": unit(1, m, n), "conv": unit(3, n, n), "expand": unit(1, n, 4 * n, 0.2)}
        return {**found, "shortcut": unit(1, m, 4 * n)} if shortcut else found

    stages, m = [], width
    for i, count in enumerate(blocks):
        n = width * 2**i
        stages.append([block(m if k == 0 else 4 * n, n, k == 0) for k in range(count)])
        m = 4 * n
    head = rng.standard_normal((m, classes), np.float32) * np.float32(m**-0.5)
    return {"stem": unit(7, 3, width), "stages": stages, "head": head,
            "head_bias": np.zeros(classes, np.float32)}  # fmt: skip


def loss(m: Any, params: Any, batch: Any) -> Any:
    """The mean cross-entropy of images, in the namespace of a library."""

    def unit(x: Any, p: Any, side: int, stride: int = 1) -> Any:
        x = m.conv(x, m.bf16(p["filters"]), stride, side // 2)
        return m.norm(x, p["scale"], p["bias"])

    images, labels = batch
    x = m.max_pool(m.relu(unit(m.bf16(images), params["stem"], 7, 2)))
    for i, stage in enumerate(params["stages"]):
        for k, p in enumerate(stage):
            stride = 2 if i > 0 and k == 0 else 1
            y = m.relu(unit(x, p["reduce"], 1))
            y = unit(m.relu(unit(y, p["conv"], 3, stride)), p["expand"], 1)
            x = m.relu(y + (unit(x, p["shortcut"], 1, stride) if "shortcut" in p else x))
    scores = m.bf16(m.average(x)) @ m.bf16(params["head"])
    return m.cross_entropy(m.f32(scores) + params["head_bias"], labels)


def with_pullback(arrays: Any, compiled: bool = True) -> Case:
    import pullback as pb
    from pullback.nn import functional as F

    m = SimpleNamespace(
        f32=lambda x: x.astype(pb.float32), bf16=lambda x: x.astype(pb.bfloat16), relu=pb.relu,
        conv=lambda x, w, stride, pad: pb.conv(x, w, strides=stride, padding=((pad, pad),) * 2),
        norm=lambda x, scale, bias: F.batch_norm(
            x, weight=scale, bias=bias, training=True, eps=EPS
        ),
        max_pool=lambda x: F.max_pool2d(x, 3, 2, 1), cross_entropy=F.cross_entropy,
        average=lambda x: x.astype(pb.float32).mean(axis=(1, 2)),
    )  # fmt: skip
    return pullback_training(
        lambda params, batch: loss(m, params, batch), *arrays, OPTIMIZER, compiled
    )


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    def conv(x: Any, w: Any, stride: int, pad: int) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        pads = ((pad, pad),) * 2
        return jax.lax.conv_general_dilated(x, w, (stride,) * 2, pads, dimension_numbers=layout)

    def norm(x: Any, scale: Any, bias: Any) -> Any:
        y = jax.nn.standardize(x.astype(jnp.float32), axis=(0, 1, 2), epsilon=EPS)
        return (y * scale + bias).astype(x.dtype)

    def max_pool(x: Any) -> Any:
        low, pads = np.array(-np.inf, x.dtype), ((0, 0), (1, 1), (1, 1), (0, 0))
        return jax.lax.reduce_window(x, low, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)

    def cross_entropy(scores: Any, labels: Any) -> Any:
        logs = jax.nn.log_softmax(scores, axis=-1)
        return -jnp.take_along_axis(logs, labels[:, None], axis=-1).mean()

    m = SimpleNamespace(
        f32=lambda x: x.astype(jnp.float32), bf16=lambda x: x.astype(jnp.bfloat16),
        relu=jax.nn.relu, conv=conv, norm=norm, max_pool=max_pool, cross_entropy=cross_entropy,
        average=lambda x: x.astype(jnp.float32).mean(axis=(1, 2)),
    )  # fmt: skip
    return jax_training(lambda params, batch: loss(m, params, batch), *arrays, OPTIMIZER)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch
    import torch.nn.functional as F

    m = SimpleNamespace(
        f32=lambda x: x.float(), bf16=lambda x: x.bfloat16(), relu=F.relu,
        conv=lambda x, w, stride, pad: F.conv2d(x, w, stride=stride, padding=pad),
        norm=lambda x, scale, bias: F.batch_norm(x, None, None, scale, bias, True, eps=EPS),
        max_pool=lambda x: F.max_pool2d(x, 3, 2, 1), cross_entropy=F.cross_entropy,
        average=lambda x: x.float().mean((2, 3)),
    )  # fmt: skip

    def parameter(x: np.ndarray) -> Any:
        if x.ndim < 4:
            return torch.tensor(x, requires_grad=True)
        filters = torch.tensor(x.transpose(3, 2, 0, 1))
        return filters.contiguous(memory_format=torch.channels_last).requires_grad_()

    params, (images, labels) = arrays
    tensors = mapped(parameter, params)
    forward = compile(lambda params, batch: loss(m, params, batch))
    batch = torch.tensor(images).permute(0, 3, 1, 2), torch.tensor(labels).long()
    return torch_training(
        lambda batch: forward(tensors, batch), [x for _, x in leaves(tensors)], batch,
        optimizer=OPTIMIZER,
    )  # fmt: skip
