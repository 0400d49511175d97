"""Neural networks: modules, layers, functions, initialisers and keys for random layers."""

from __future__ import annotations

from pullback.graph.boundary import publish
from pullback.nn import functional, init
from pullback.nn.containers import Lambda, ModuleDict, ModuleList, Sequential
from pullback.nn.default_keys import seed
from pullback.nn.keys import next_key, rng
from pullback.nn.linear import Identity, Linear
from pullback.nn.module import Module, Parameter, State

__all__ = [
    "Identity", "Lambda", "Linear", "Module", "ModuleDict", "ModuleList", "Parameter",
    "Sequential", "State", "functional", "init", "next_key", "rng", "seed",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
