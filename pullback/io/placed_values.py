"""Saved values as tensors: with the dtype, the sharding and `requires_grad` of other tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pullback.engines.engine_registry import engine_for, engine_spans_processes
from pullback.graph.types import Type
from pullback.io.boxes import device_box
from pullback.io.saved_file import SavedTensor
from pullback.io.snapshot import SCALAR, TENSOR
from pullback.lazy.host_data import from_host, host_data_on_mesh
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import leaf_source
from pullback.sharding.spec import Sharding

if TYPE_CHECKING:
    from pullback.engines.xla.xla_mesh import XlaMesh


def read_placed_value(saved: SavedTensor) -> Any:
    """Return what was saved: a tensor, or an array or number of NumPy."""
    array = saved.whole()
    if saved.kind == TENSOR:
        return from_host(array)
    return array[()] if saved.kind == SCALAR else array


def read_placed_tensor(saved: SavedTensor, sharding: Sharding | None) -> Tensor:
    """Return a tensor with a sharding; a process reads only what its devices have."""
    if sharding is None:
        array = saved.whole()
        array.flags.writeable = False
        return wrap(leaf_source(saved.type, array))
    if not engine_spans_processes(current(), sharding.mesh):
        return host_data_on_mesh(saved.whole(), sharding)
    engine = cast("XlaMesh", engine_for(current(), sharding.mesh))
    shape = saved.shape
    found = saved.boxes({k: device_box(sharding, shape, k) for k in engine.group.here})
    parts: list[np.ndarray | None] = [None] * sharding.mesh.size
    for k, array in found.items():
        parts[k] = _padded_placed_value(array, sharding.local_shape(shape))
    type = Type(shape, saved.dtype, sharding)
    return wrap(leaf_source(type, engine.assemble(parts, type)))


def _padded_placed_value(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array with zeros behind it where a dimension does not divide."""
    if array.shape == shape:
        return array
    made = np.zeros(shape, array.dtype)
    made[tuple([slice(n) for n in array.shape])] = array
    return made
