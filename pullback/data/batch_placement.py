"""Batches of NumPy arrays become tensors on a device or over a mesh."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import tree
from pullback.distributed.local_data import shard_local
from pullback.engines.engine_registry import engine_for
from pullback.errors import ArgumentError
from pullback.functions.sharding import to_device
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import BY_NUMPY
from pullback.lazy.devices import layout_on_named_device
from pullback.lazy.host_data import asarray
from pullback.lazy.numpy_precision import mark_numpy_precision
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor
from pullback.lazy.values import leaf_value_buffer
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import P, Sharding

_OP = "DataLoader"


class BatchPlacement:
    """Where the tensors of a batch are put: a device, a sharding, or the default device."""

    def __init__(self, device: str | None, sharding: Sharding | DeviceMesh | None) -> None:
        if device is not None and sharding is not None:
            raise ArgumentError("device and sharding must not both be given", op=_OP)
        if device is not None:
            layout_on_named_device(_OP, device)  # raises if there is no such device
        self._device = device
        self._sharding = _batch_placement_sharding(sharding)

    def place(self, batch: Any, owned: bool) -> Any:
        """Return a batch with tensors for its arrays; arrays that are `owned` need no copy."""
        return tree.map(lambda leaf: self._placed(leaf, owned), batch)

    def _placed(self, leaf: Any, owned: bool) -> Any:
        made = _batch_placement_tensor(leaf, owned)
        if made is None:  # a string, for example
            return leaf
        if self._sharding is not None:
            return shard_local(made, self._sharding.mesh, self._sharding.spec)
        if self._device is not None:
            return to_device(made, self._device)
        if made.sharding is None and made._node.value is not None:
            leaf_value_buffer(engine_for(current(), None), made._node)  # starts the copy
        return made


def _batch_placement_tensor(leaf: Any, owned: bool) -> Tensor | None:
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, (bool, int, float, complex)):
        return asarray(leaf)
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return None
    array = np.asarray(leaf)
    if array.dtype not in BY_NUMPY:
        return None if array.dtype.kind in "OSUmM" else asarray(array)
    if not owned or not (array.flags.c_contiguous and array.flags.aligned):
        return asarray(array)
    made = asarray(array, copy=False)
    mark_numpy_precision(made._node)
    return made


def _batch_placement_sharding(given: Any) -> Sharding | None:
    """Return a sharding; a mesh stands for batches split along its first axis."""
    if given is None or isinstance(given, Sharding):
        return given
    if isinstance(given, DeviceMesh):
        return Sharding(given, P(given.axis_names[0]))
    hint = 'Write sharding=mesh, or sharding=pb.Sharding(mesh, pb.P("dp")).'
    message = f"sharding must be a mesh or a Sharding, got {shown_argument(given)}"
    raise ArgumentError(message, op=_OP, hint=hint)
