"""A small GPT-2 under the names of Hugging Face, and the same model as one might write it here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pullback as pb

WIDTH, HEADS, WORDS, LENGTH, LAYERS = 8, 2, 11, 6, 2
RNG = np.random.default_rng(0)


class Linear(NamedTuple):
    weight: Any  # of shape (out, in), as in PyTorch
    bias: Any


def gpt2_weights():
    """Weights under the names of GPT-2: Conv1D stores (in, out), the head is the embedding."""
    made = {"wte.weight": (WORDS, WIDTH), "wpe.weight": (LENGTH, WIDTH)}
    for i in range(LAYERS):
        made |= {
            f"h.{i}.ln_1.weight": (WIDTH,), f"h.{i}.ln_1.bias": (WIDTH,),
            f"h.{i}.attn.c_attn.weight": (WIDTH, 3 * WIDTH),
            f"h.{i}.attn.c_attn.bias": (3 * WIDTH,),
            f"h.{i}.attn.c_proj.weight": (WIDTH, WIDTH), f"h.{i}.attn.c_proj.bias": (WIDTH,),
            f"h.{i}.attn.bias": (1, 1, LENGTH, LENGTH),
            f"h.{i}.ln_2.weight": (WIDTH,), f"h.{i}.ln_2.bias": (WIDTH,),
            f"h.{i}.mlp.c_fc.weight": (WIDTH, 4 * WIDTH), f"h.{i}.mlp.c_fc.bias": (4 * WIDTH,),
            f"h.{i}.mlp.c_proj.weight": (4 * WIDTH, WIDTH), f"h.{i}.mlp.c_proj.bias": (WIDTH,),
        }  # fmt: skip
    made |= {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    return {name: RNG.normal(0, 0.2, shape).astype(np.float32) for name, shape in made.items()}


def model():
    """Our model: q, k and v apart, weights of shape (out, in)."""
    zeros = pb.zeros

    def block():
        square = Linear(zeros((WIDTH, WIDTH)), zeros(WIDTH))
        return {
            "norm1": {"scale": zeros(WIDTH), "shift": zeros(WIDTH)},
            "attention": {"q": square, "k": square, "v": square, "out": square},
            "norm2": {"scale": zeros(WIDTH), "shift": zeros(WIDTH)},
            "up": Linear(zeros((4 * WIDTH, WIDTH)), zeros(4 * WIDTH)),
            "down": Linear(zeros((WIDTH, 4 * WIDTH)), zeros(WIDTH)),
        }

    return {
        "tokens": zeros((WORDS, WIDTH)), "positions": zeros((LENGTH, WIDTH)),
        "blocks": [pb.tree.map(lambda x: x + 0, block()) for _ in range(LAYERS)],
        "norm": {"scale": zeros(WIDTH), "shift": zeros(WIDTH)},
        "head": zeros((WORDS, WIDTH)), "temperature": 1.0,
    }  # fmt: skip


PARTS = {"tokens": "wte.weight", "positions": "wpe.weight", "head": "wte.weight",
         "norm1": "ln_1", "norm2": "ln_2", "norm": "ln_f", "scale": "weight", "shift": "bias",
         "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj", "blocks": "h"}  # fmt: skip


def gpt2_name(name):
    """The name in the file for one of ours, with what is done to the tensor."""
    steps = name.split(".")
    if "attention" in steps and steps[3] in "qkv":
        at = slice("qkv".index(steps[3]) * WIDTH, ("qkv".index(steps[3]) + 1) * WIDTH)
        theirs = f"h.{steps[1]}.attn.c_attn.{steps[4]}"
        return theirs, lambda x: x.T[at] if x.ndim == 2 else x[at]
    theirs = ".".join([PARTS.get(s, s) for s in steps if s != "attention"])
    turned = steps[-1] == "weight"
    return (theirs, pb.transpose) if turned else theirs


def norm(x, p, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x / p.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + shift


def attend(q, k, v, p):
    def heads(x):
        return p.permute_dims(p.reshape(x, (LENGTH, HEADS, -1)), (1, 0, 2))

    scores = heads(q) @ p.permute_dims(heads(k), (0, 2, 1)) / (WIDTH / HEADS) ** 0.5
    seen = p.asarray(np.tri(LENGTH, dtype=bool))
    scores = p.where(seen, scores, -1e30)
    weights = p.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True)) @ heads(v)
    return p.reshape(p.permute_dims(mixed, (1, 0, 2)), (LENGTH, WIDTH))


def gelu(x, p):
    return 0.5 * x * (1 + p.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def our_forward(m, words):
    def linear(x, layer):
        return x @ layer.weight.T + layer.bias

    x = m["tokens"][words] + m["positions"]
    for b in m["blocks"]:
        y, a = norm(x, pb, **b["norm1"]), b["attention"]
        mixed = attend(linear(y, a["q"]), linear(y, a["k"]), linear(y, a["v"]), pb)
        x = x + linear(mixed, a["out"])
        x = x + linear(gelu(linear(norm(x, pb, **b["norm2"]), b["up"]), pb), b["down"])
    return norm(x, pb, **m["norm"]) @ m["head"].T


def their_forward(w, words):
    """GPT-2 with its own names, in NumPy."""
    x = w["wte.weight"][words] + w["wpe.weight"]

    def conv(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    for i in range(LAYERS):
        y = norm(x, np, w[f"h.{i}.ln_1.weight"], w[f"h.{i}.ln_1.bias"])
        q, k, v = np.split(conv(y, f"h.{i}.attn.c_attn"), 3, -1)
        x = x + conv(attend(q, k, v, np), f"h.{i}.attn.c_proj")
        y = norm(x, np, w[f"h.{i}.ln_2.weight"], w[f"h.{i}.ln_2.bias"])
        x = x + conv(gelu(conv(y, f"h.{i}.mlp.c_fc"), np), f"h.{i}.mlp.c_proj")
    return norm(x, np, w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].T
