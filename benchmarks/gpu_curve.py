"""Compare loss curves of GPT-2 in bf16 with one that is computed in f32.

`python -m benchmarks.gpu_curve --out FILE` trains on the same batches each time: in f32, in bf16,
in bf16 without pullback's kernels, and in bf16 with JAX. How far JAX's curve and the one without
kernels are from f32 is what bf16 costs; ours should be no further away.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu_gpt
from benchmarks.workload import Case

REFERENCE = "f32"


def batches(shape: tuple[int, ...], words: int, steps: int) -> np.ndarray:
    """Batches of text that can be learned: frequent words, and a likely word after each word."""
    rng = np.random.default_rng(1)
    text = (words * rng.random((steps, *shape)) ** 4).astype(np.int32)
    follows = rng.random(text.shape) < 0.5
    for at in range(1, shape[-1]):
        likely = (7 * text[..., at - 1] + 11) % words
        text[..., at] = np.where(follows[..., at], likely, text[..., at])
    return text


def with_pullback(arrays: Any, exact: bool = False, kernels: bool = True) -> Case:
    import pullback as pb

    pb.config(kernels=kernels)
    return gpu_gpt.with_pullback(arrays, exact=exact)


CURVES: dict[str, Callable[[Any], Case]] = {
    REFERENCE: lambda arrays: with_pullback(arrays, exact=True),
    "bf16": with_pullback,
    "bf16 without kernels": lambda arrays: with_pullback(arrays, kernels=False),
    "bf16, JAX": gpu_gpt.with_jax,
}


def curve(name: str, size: str, steps: int) -> np.ndarray:
    """The loss of each step, on one batch after the other."""
    arrays = gpu_gpt.inputs(size == "tiny", size)
    text = batches(arrays[1].shape, gpu_gpt.SIZES[size][-1], steps)
    case = CURVES[name](arrays)
    assert case.launch is not None
    losses = [case.launch(batch) for batch in text]
    return np.array([x.item() for x in losses])


def table(curves: dict[str, np.ndarray]) -> str:
    """How far each curve is from the reference: over all steps, and over the last quarter."""
    titles = ["curve", "first loss", "last loss", "largest difference", "mean", "mean of the end"]
    made = [titles, ["---"] * len(titles)]
    for name, losses in curves.items():
        apart = np.abs(losses - curves[REFERENCE])
        end = apart[-len(apart) // 4 :].mean()
        cells = [f"{losses[0]:.4f}", f"{losses[-1]:.4f}"]
        cells += [f"{x:.5f}" for x in (apart.max(), apart.mean(), end)]
        made.append([name, *cells])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in made)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_curve", description=__doc__)
    parser.add_argument("--size", choices=gpu_gpt.SIZES, default="small")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the table")
    options = parser.parse_args()
    curves: dict[str, np.ndarray] = {}
    for name in CURVES:
        if "JAX" in name and not find_spec("jax"):
            continue
        # Each library wants to load the GPU's plugin itself
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            curves[name] = process.submit(curve, name, options.size, options.steps).result()
        made = table(curves)
        print(made, flush=True)
        if options.out:
            options.out.write_text(made)


if __name__ == "__main__":
    main()
