"""State dicts of PyTorch: its names, in the order of axes that layers here store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.nn.module import Module
from pullback.nn.module_walk import is_module_to_walk, walk_named_submodules


def from_torch(model: Module, values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return a state dict of PyTorch as `model.load_state_dict` takes it.

    The names stay. Filters [F, C / groups, h, w] become [h, w, C / groups, F] where a convolution
    of the model has layout="NHWC". A linear layer after `Flatten` needs columns in another order
    if it follows images [N, H, W, C]: nothing here can know that.

    >>> model = pb.nn.Sequential(pb.nn.Conv2d(3, 4, 5), pb.relu)
    >>> values = {"0.weight": pb.ones((4, 3, 5, 5)), "0.bias": pb.zeros(4)}
    >>> model.load_state_dict(pb.nn.from_torch(model, values))[0].weight.shape
    (5, 5, 3, 4)
    """
    if not is_module_to_walk(model):
        raise ArgumentError(
            f"model must be a module, got {shown_argument(model)}", op="nn.from_torch"
        )
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"values must be a state dict, got {shown_argument(values)}", op="nn.from_torch"
        )
    modules = dict(walk_named_submodules(model))
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        holder, _, own = name.rpartition(".")
        convert = getattr(modules.get(holder), "from_torch", None)
        found[name] = asarray(value) if convert is None else convert(own, asarray(value))
    return found


__all__ = ["from_torch"]
