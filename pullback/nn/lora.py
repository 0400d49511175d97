"""LoRA: low-rank adapters of linear layers whose own weights stay as they are (Hu et al., 2021)."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.errors import ArgumentError
from pullback.functions import zeros
from pullback.graph.argument_checks import checked_integer_argument
from pullback.graph.boundary import boundary
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.nn.dropout_layers import Dropout
from pullback.nn.init import kaiming_uniform
from pullback.nn.initial import initial_parameter
from pullback.nn.keys import layer_keys
from pullback.nn.linear import Linear
from pullback.nn.module import Module
from pullback.nn.module_walk import walk_named_submodules
from pullback.nn.nf4 import NF4Linear
from pullback.typing import ArrayLike

M = TypeVar("M", bound=Module)


class LoRALinear(Module):
    """A frozen linear layer with an adapter: `base(x) + alpha / rank * x @ A.T @ B.T`.

    `lora_a` has shape (rank, in_features), `lora_b` has shape (out_features, rank) and starts at
    zero, so that the layer begins as its base.

    >>> layer = pb.nn.LoRALinear(pb.nn.Linear(8, 4), rank=2)
    >>> [name for name, p in pb.nn.trainable(layer).items()]
    ['lora_a', 'lora_b']
    """

    lora_a: Tensor
    lora_b: Tensor

    def __init__(
        self, base: Linear | NF4Linear, rank: int = 8, alpha: float | None = None,
        dropout: float = 0.0, *, key: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self.rank = checked_integer_argument("LoRALinear", rank, "rank")
        if self.rank < 1:
            raise ArgumentError(f"LoRALinear: rank must be at least 1, got {rank}")
        self.scaling = float(rank if alpha is None else alpha) / rank
        self.base = base.freeze()
        self.dropout = Dropout(dropout)
        shape = (self.rank, base.in_features)
        dtype = base.scales.dtype if isinstance(base, NF4Linear) else base.weight.dtype
        self.lora_a = initial_parameter(
            kaiming_uniform, layer_keys(key, 1)[0], shape, dtype=dtype, a=5**0.5
        )
        self.lora_b = zeros((base.out_features, self.rank), dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        change = self.dropout(x) @ self.lora_a.T @ self.lora_b.T
        return self.base(x) + change * self.scaling

    def merged(self) -> Linear:
        """Return a linear layer with the adapter added to its weight.

        >>> pb.nn.LoRALinear(pb.nn.Linear(8, 4), rank=2).merged().weight.shape
        (4, 8)
        """
        made = Linear(self.base.in_features, self.base.out_features, bias=False)
        with no_grad():
            made.weight = self.base.weight + self.lora_b @ self.lora_a * self.scaling
            made.bias = None if self.base.bias is None else self.base.bias.detach()
        return made


@boundary
def add_lora(
    model: M, rank: int = 8, alpha: float | None = None, dropout: float = 0.0, *,
    targets: str | Callable[[str, Module], bool] = "*", key: ArrayLike | None = None,
    quantize: bool = False,
) -> M:  # fmt: skip
    """Freeze a model and give its linear layers adapters; return the model.

    `targets` is a pattern for dotted names, such as `"*.attention.*"`, or a function of name and
    layer. With `quantize`, the weights of these layers are stored in 4 bits, as in QLoRA.

    >>> model = pb.nn.Sequential(pb.nn.Linear(8, 8), pb.relu, pb.nn.Linear(8, 4))
    >>> _ = pb.nn.add_lora(model, rank=2, targets="0")
    >>> sum(p.size for p in pb.nn.trainable(model).values())
    32
    """
    found = {
        n: m
        for n, m in walk_named_submodules(model)
        if type(m) is Linear and _lora_hit(targets, n, m)
    }
    if not found:
        hint = "Names are those of model.named_modules()."
        raise ArgumentError(f"add_lora: no linear layer has a name like {targets!r}", hint=hint)
    model.freeze()
    keys = layer_keys(key, len(found))

    def adapted(linear: Linear, own: Tensor) -> Module:
        base = NF4Linear(linear) if quantize else linear
        return LoRALinear(base, rank, alpha, dropout, key=own)

    new = {id(m): adapted(m, k) for m, k in zip(found.values(), keys, strict=True)}
    return _with_lora_replaced(model, new)


@boundary
def merge_lora(model: M) -> M:
    """Replace adapters by linear layers with the adapter added to the weight; return the model.

    >>> model = pb.nn.add_lora(pb.nn.Sequential(pb.nn.Linear(8, 8)), rank=2)
    >>> type(pb.nn.merge_lora(model)[0]).__name__
    'Linear'
    """
    found = [m for _, m in walk_named_submodules(model) if isinstance(m, LoRALinear)]
    return _with_lora_replaced(model, {id(m): m.merged() for m in found})


def _lora_hit(targets: str | Callable[[str, Module], bool], name: str, module: Module) -> bool:
    return fnmatch.fnmatch(name, targets) if isinstance(targets, str) else targets(name, module)


def _with_lora_replaced(model: Any, new: dict[int, Module]) -> Any:
    """Put modules into the places of others, given by id."""
    if id(model) in new:
        return new[id(model)]
    for _, module in list(walk_named_submodules(model)):
        own = module.__dict__
        for name, value in list(own.items()):
            own[name] = _lora_replaced_in(value, new)
    return model


def _lora_replaced_in(value: Any, new: dict[int, Module]) -> Any:
    if id(value) in new:
        return new[id(value)]
    if type(value) in (list, tuple):
        return type(value)([_lora_replaced_in(v, new) for v in value])
    if type(value) is dict:
        return {k: _lora_replaced_in(v, new) for k, v in value.items()}
    return value
