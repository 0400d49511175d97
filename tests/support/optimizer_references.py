"""Optimizers in NumPy, as their papers and PyTorch's documentation define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = {"matrix": (4, 3), "wide": (2, 5), "cube": (2, 3, 2), "vector": (5,), "scalar": ()}
STEPS = 50
RNG = np.random.default_rng(0)
STARTS = {k: RNG.normal(size=s) for k, s in SHAPES.items()}
TARGETS = {k: RNG.normal(size=s) for k, s in SHAPES.items()}
NOISE = [{k: 0.1 * RNG.normal(size=s) for k, s in SHAPES.items()} for _ in range(STEPS)]

Step = Callable[..., np.ndarray]  # of p, g, slots, t, rate and options


def gradient(p: Any, name: str, noise: Any) -> Any:
    """The gradient of a parabola, with noise."""
    return (p - TARGETS[name]) * 1.5 + noise


def sgd(p, g, s, t, rate, momentum=0.0, nesterov=False, weight_decay=0.0, dampening=0.0):
    g = g + weight_decay * p
    if momentum:
        s["v"] = g if t == 1 else momentum * s["v"] + (1 - dampening) * g
        g = g + momentum * s["v"] if nesterov else s["v"]
    return p - rate * g


def adam(
    p, g, s, t, rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False, amsgrad=False
):
    if decoupled:
        p = p * (1 - rate * weight_decay)
    else:
        g = g + weight_decay * p
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    v = s["v"]
    if amsgrad:
        v = s["largest"] = np.maximum(s.get("largest", 0), v)
    return p - rate * s["m"] / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw(p, g, s, t, rate, weight_decay=1e-2, **options):
    return adam(p, g, s, t, rate, weight_decay=weight_decay, decoupled=True, **options)


def adagrad(p, g, s, t, rate, eps=1e-10, weight_decay=0.0, initial=0.0, decay=0.0):
    g = g + weight_decay * p
    s["s"] = s.get("s", initial) + g * g
    return p - rate / (1 + (t - 1) * decay) * g / (np.sqrt(s["s"]) + eps)


def rmsprop(p, g, s, t, rate, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    g = g + weight_decay * p
    variance = s["s"] = alpha * s.get("s", 0) + (1 - alpha) * g * g
    if centered:
        s["a"] = alpha * s.get("a", 0) + (1 - alpha) * g
        variance = variance - s["a"] ** 2
    s["v"] = momentum * s.get("v", 0) + g / (np.sqrt(variance) + eps)
    return p - rate * s["v"]


def adadelta(p, g, s, t, rate, rho=0.9, eps=1e-6, weight_decay=0.0):
    g = g + weight_decay * p
    s["s"] = rho * s.get("s", 0) + (1 - rho) * g * g
    d = np.sqrt(s.get("u", 0) + eps) / np.sqrt(s["s"] + eps) * g
    s["u"] = rho * s.get("u", 0) + (1 - rho) * d * d
    return p - rate * d


def lion(p, g, s, t, rate, betas=(0.9, 0.99), weight_decay=0.0):
    m = s.get("m", 0)
    s["m"] = betas[1] * m + (1 - betas[1]) * g
    return p - rate * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)


def lamb(p, g, s, t, rate, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
    d = -adam(np.zeros_like(p), g, s, t, 1.0, betas, eps) + weight_decay * p
    return p - rate * np.sqrt((p**2).sum() / (d**2).sum()) * d


def muon(
    p, g, s, t, rate, momentum=0.95, nesterov=True, weight_decay=0.1, iterations=5, eps=1e-7,
    scale="shape", betas=(0.9, 0.999),
):  # fmt: skip
    if p.ndim != 2:
        return adamw(p, g, s, t, rate, weight_decay, betas=betas)
    s["v"] = momentum * s.get("v", 0) + (1 - momentum) * g
    x = momentum * s["v"] + (1 - momentum) * g if nesterov else s["v"]
    x = x / max(np.linalg.norm(x), eps)
    for _ in range(iterations):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    rows, columns = p.shape
    wide = np.sqrt(max(1, rows / columns)) if scale == "shape" else 0.2 * np.sqrt(max(p.shape))
    return p * (1 - rate * weight_decay) - rate * wide * x


def adafactor(
    p, g, s, t, rate, beta2_decay=-0.8, eps=None, eps_scale=1e-3, clip=1.0, weight_decay=0.0
):
    eps, w = np.finfo(np.float64).eps if eps is None else eps, t**beta2_decay
    size = max(eps_scale, np.sqrt((p**2).mean())) * min(rate, 1 / np.sqrt(t))
    if p.ndim < 2:
        v = s["v"] = (1 - w) * s.get("v", 0) + w * g * g
    else:
        row = s["r"] = (1 - w) * s.get("r", 0) + w * (g * g).mean(-1, keepdims=True)
        column = s["c"] = (1 - w) * s.get("c", 0) + w * (g * g).mean(-2, keepdims=True)
        v = row * column / np.maximum(row.mean(-2, keepdims=True), eps)
    d = g / np.sqrt(np.maximum(v, eps * eps))
    limit = max(1.0, np.sqrt((d**2).mean()) / clip)
    return p * (1 - rate * weight_decay) - size / limit * d


# Name: the optimizer in functional form, the class, and options
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sgd": ("sgd", "SGD", {}),
    "momentum": ("sgd", "SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    "nesterov": ("sgd", "SGD", {"momentum": 0.9, "nesterov": True}),
    "dampening": ("sgd", "SGD", {"momentum": 0.9, "dampening": 0.3}),
    "adam": ("adam", "Adam", {}),
    "adam l2": ("adam", "Adam", {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    "amsgrad": ("adam", "Adam", {"amsgrad": True, "weight_decay": 0.1}),
    "adamw": ("adamw", "AdamW", {"weight_decay": 0.1}),
    "adamw amsgrad": ("adamw", "AdamW", {"amsgrad": True}),
    "adagrad": ("adagrad", "Adagrad", {}),
    "adagrad more": ("adagrad", "Adagrad", {"decay": 0.1, "initial": 0.2, "weight_decay": 0.1}),
    "rmsprop": ("rmsprop", "RMSProp", {}),
    "rmsprop more": (
        "rmsprop", "RMSProp", {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
    ),
    "adadelta": ("adadelta", "Adadelta", {"weight_decay": 0.1}),
    "lion": ("lion", "Lion", {"weight_decay": 0.1}),
    "lamb": ("lamb", "LAMB", {"weight_decay": 0.1}),
    "muon": ("muon", "Muon", {}),
    "muon rms": ("muon", "Muon", {"nesterov": False, "scale": "rms", "weight_decay": 0.0}),
    "adafactor": ("adafactor", "Adafactor", {}),
    "adafactor more": (
        "adafactor", "Adafactor", {"clip": 1.5, "weight_decay": 0.1, "beta2_decay": -0.5},
    ),
}  # fmt: skip


# The parameters that a case is tested with, where it depends on their rank
_PARAMETERS = {
    "muon": ["matrix", "wide", "vector"], "muon rms": ["wide"],
    "adafactor": ["matrix", "scalar"], "adafactor more": ["cube", "vector"],
}  # fmt: skip


def parameters_of(case: str) -> list[str]:
    """Return the names of the parameters that a case is tested with."""
    return _PARAMETERS.get(case, ["matrix"])


def by_numpy(case: str, rate: Callable[[int], float], steps: int = STEPS) -> dict[str, Any]:
    """Return the parameters after some steps; the rate is a function of the steps taken."""
    name, _, options = CASES[case]
    params = {k: STARTS[k].copy() for k in parameters_of(case)}
    slots: dict[str, dict] = {k: {} for k in params}
    for t in range(1, steps + 1):
        for k, p in params.items():
            g = gradient(p, k, NOISE[t - 1][k])
            params[k] = globals()[name](p, g, slots[k], t, rate(t - 1), **options)
    return params
