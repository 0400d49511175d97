"""The modules of examples/ir, through the command line, against NumPy and central differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import ir
from paths import EXAMPLES

import pullback as pb

FOLDER = EXAMPLES / "ir"


# -- the same functions in NumPy ------------------------------------------------------------------


def mlp(x, target, w1, b1, w2, b2):
    return np.mean((np.maximum(x @ w1 + b1, 0) @ w2 + b2 - target) ** 2)


def slices(x):
    return np.sum((x[1:] - x[:-1])[::2, ::2] ** 2) * x[3, 1]


def log_likelihood(x, sign, w, b):
    return np.mean(np.log(1 + np.exp(-sign * (x @ w + b))))


def shapes(x):
    variance = np.var(x.reshape(2, 3, 4).transpose(2, 0, 1), axis=2)
    return np.sum(variance[:, :1] * variance)


def correlate(image, filter, stride):
    """Valid convolution of [N, H, W, C] with [h, w, C, F]."""
    h, w = filter.shape[:2]
    rows = range(0, image.shape[1] - h + 1, stride)
    columns = range(0, image.shape[2] - w + 1, stride)
    tap = [
        [np.einsum("nhwc,hwcf->nf", image[:, i : i + h, j : j + w], filter) for j in columns]
        for i in rows
    ]
    return np.moveaxis(np.array(tap), 2, 0)


def features(weight):
    picture = np.array([[0, 1, 2, 1], [1, 3, 1, 0], [2, 1, 0, 1], [1, 0, 1, 2]], float)
    edges = np.array([[[1, 1], [1, -1]], [[-1, 1], [-1, -1]]], float)[:, :, None]
    return np.mean(np.maximum(correlate(picture[None, :, :, None], edges, 1) * weight, 0))


def conv2d(image, filter):
    padded = np.pad(image, [(0, 0), (1, 1), (0, 1), (0, 0)])
    return np.mean(correlate(padded, filter, 2) ** 2)


def recurrent(w, h, xs):
    total = 0.0
    for x in xs:
        h = np.tanh(h @ w + x)
        total += h @ h
    return total + np.sum(h)


def attention(q, k, v):
    weights = np.exp(q @ k.T / 2)
    return np.mean((weights / weights.sum(-1, keepdims=True) @ v) ** 2)


FUNCTIONS: dict[str, Callable] = {
    "attention": attention,
    "batched_matmul": lambda a, b: np.mean(np.sum((a @ b) ** 2, (-1, -2))),
    "choice": lambda x: np.sum(x * x) if np.sum(x) > 0 else -np.sum(x),
    "conv2d": conv2d,
    "embedding": lambda table, scale: np.sum((table[[2, 0, 2, 3]] * scale) ** 2),
    "example": lambda x, y: np.sum(x * y + x),
    "features": features,
    "log_likelihood": log_likelihood,
    "mlp": mlp,
    "recurrent": recurrent,
    "shapes": shapes,
    "slices": slices,
}


def central_difference(f: Callable, xs: list[np.ndarray], k: int) -> np.ndarray:
    made = np.zeros_like(xs[k])
    for place in np.ndindex(made.shape):
        step = np.zeros_like(xs[k])
        step[place] = 1e-5
        up, down = ([*xs[:k], xs[k] + d, *xs[k + 1 :]] for d in (step, -step))
        made[place] = (f(*up) - f(*down)) / 2e-5
    return made


# -- the command line -----------------------------------------------------------------------------


def pipe(text: str, *argv: str) -> str:
    """The output of a command that reads a text."""
    ended = ir(*argv, stdin=text)
    assert (ended.status, ended.err) == (0, "")
    return ended.out


def samples(text: str) -> dict[str, np.ndarray]:
    """Arrays for a module's inputs, in f64; a sign is -1 or 1."""
    random = np.random.default_rng(7)
    graph = pb.ir.parse(text).graph
    made = {
        name: random.standard_normal(x.type.shape)
        for name, x in zip(graph.names, graph.inputs, strict=True)
    }
    return {name: np.sign(x) if name == "sign" else x for name, x in made.items()}


def test_every_example_is_here():
    assert sorted(p.stem for p in FOLDER.glob("*.ir")) == sorted(FUNCTIONS)


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str, engine: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.ir").read_text()
    xs = samples(text)
    inputs = pb.ir.parse(text).graph.inputs
    typed = {n: np.asarray(x, i.type.dtype.numpy) for (n, x), i in zip(xs.items(), inputs)}
    np.savez(tmp_path / "inputs.npz", **typed)

    assert pipe(text, "verify", "-") == ""
    gradient = pipe(text, "grad", "-")
    assert pipe(gradient, "verify", "-") == ""
    assert pipe(gradient, "canon", "-") == gradient
    assert pipe(gradient, "format", "-") == gradient

    out = str(tmp_path / "out.npz")
    arrays = str(tmp_path / "inputs.npz")
    pipe(gradient, "run", "-", "--input", arrays, "--engine", engine, "--out", out)
    value, *found = np.load(out).values()

    f, given = FUNCTIONS[name], list(xs.values())
    tolerance = 1e-5 if value.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(value, f(*given), rtol=tolerance)
    assert len(found) == len(given)
    for k, g in enumerate(found):
        assert g.dtype == inputs[k].type.dtype.numpy
        wanted = central_difference(f, given, k)
        np.testing.assert_allclose(g, wanted, rtol=max(tolerance, 1e-6), atol=1e-6)


def test_choice_takes_the_other_branch_too() -> None:
    gradient = pipe((FOLDER / "choice.ir").read_text(), "grad", "-")
    assert pipe(gradient, "run", "-", "--input", "x=[-1, -2, 1]").endswith("= [-1., -1., -1.]\n")
    assert pipe(gradient, "run", "-", "--input", "x=[1, 2, -1]").endswith("= [ 2.,  4., -2.]\n")


def test_attention_is_what_its_comment_says() -> None:
    def attention(q, k, v):
        return ((pb.softmax(q @ k.T / 2.0, axis=-1) @ v) ** 2).mean()

    x = pb.ones((3, 4), dtype=pb.float64)
    text = (FOLDER / "attention.ir").read_text()
    assert pb.ir.parse(text) == pb.ir.from_function(attention, x, x, x)
