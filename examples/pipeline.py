"""A pipeline over a mesh axis (GPipe), alone and times data parallelism.

Each device along the axis "stage" holds one layer. Microbatches enter the first stage one by one;
after every tick a stage sends its result to the next with `pb.ppermute`. The loop over ticks is
`pb.scan`. The backward pass needs no code of its own: it is the gradient of this program, which
sends in the other direction. Values, losses and gradients are compared with the same layers run in
sequence on one device.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

os.environ.setdefault("PULLBACK_CPU_DEVICES", "8")

import pullback as pb
from pullback import P

STAGES, MICROBATCHES, ROWS, WIDTH = 4, 6, 4, 8
Params = dict[str, pb.Tensor]  # the first dimension of each is the layer


def initial_params(stages: int, rng: np.random.Generator) -> Params:
    weights = rng.standard_normal((stages, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    return {"w": pb.tensor(weights), "b": pb.tensor(0.1 * rng.standard_normal((stages, WIDTH)))}


def layer(w: pb.Tensor, b: pb.Tensor, x: pb.Tensor) -> pb.Tensor:
    return x + pb.tanh(x @ w + b)


def sequential(params: Params, xs: pb.Tensor) -> pb.Tensor:
    """Apply all layers to all microbatches (the first dimension of `xs`) on one device."""
    for w, b in zip(params["w"], params["b"], strict=True):
        xs = layer(w, b, xs)
    return xs


def one_stage(params: Params, xs: pb.Tensor) -> pb.Tensor:
    """The program of one stage, which has one layer and receives all microbatches."""
    w, b = params["w"][0], params["b"][0]
    stage, stages = pb.axis_index("stage"), pb.axis_size("stage")
    onward = [(i, i + 1) for i in range(stages - 1)]
    # The last microbatch leaves this many ticks after it entered.
    drain = pb.zeros((stages - 1, *xs.shape[1:]), dtype=xs.dtype)

    def tick(arrived: pb.Tensor, x: pb.Tensor) -> Any:
        y = layer(w, b, pb.where(stage == 0, x, arrived))
        return pb.ppermute(y, "stage", onward), y

    _, made = pb.scan(tick, pb.zeros_like(xs[0]), pb.concat([xs, drain]))
    # The last stage holds the results, starting with the tick at which the first one arrived.
    last = pb.where(stage == stages - 1, made[stages - 1 :], 0.0)
    return pb.psum(last, "stage")


def pipelined(mesh: pb.DeviceMesh) -> Any:
    """Return the pipeline as a function of whole tensors; an axis "data" splits rows."""
    rows = "data" if "data" in mesh.axis_names else None
    batch = P(None, rows)
    return pb.shard_map(one_stage, mesh, in_specs=(P("stage"), batch), out_specs=batch)


def loss(model: Any, params: Params, xs: pb.Tensor, ys: pb.Tensor) -> pb.Tensor:
    return ((model(params, xs) - ys) ** 2).mean()


def compare(mesh: pb.DeviceMesh) -> float:
    """The largest difference between the pipeline and the layers in sequence."""
    rng = np.random.default_rng(0)
    params = initial_params(mesh.sizes["stage"], rng)
    xs, ys = (pb.tensor(rng.standard_normal((MICROBATCHES, ROWS, WIDTH))) for _ in range(2))
    step = pb.compile(pb.value_and_grad(loss, 1), static_argnums=0)
    pairs = [(pipelined(mesh)(params, xs), sequential(params, xs))]
    found, wanted = (step(model, params, xs, ys) for model in (pipelined(mesh), sequential))
    pairs += zip(pb.tree.leaves(found), pb.tree.leaves(wanted), strict=True)
    return max(float(abs(a.numpy() - b.numpy()).max()) for a, b in pairs)


def main() -> None:
    for mesh in (pb.DeviceMesh(STAGES, "stage"), pb.DeviceMesh((2, STAGES), ("data", "stage"))):
        error = compare(mesh)
        assert error < 1e-12, error
        print(f"pipeline on {mesh}: values and gradients differ by {error:.1e} from the sequence")


if __name__ == "__main__":
    main()
