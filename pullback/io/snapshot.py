"""What is saved of a tree: its structure, its plain values, and its tensors on the host.

A snapshot shares nothing with the tree that can change: it may be written later, by a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pullback import tree
from pullback.compiled.serialize import serialize_described_tree, serialize_plain_value
from pullback.engines.engine_registry import engine_for, engine_spans_processes
from pullback.engines.processes import current_processes
from pullback.errors import ArgumentError, DTypeError
from pullback.functions import asarray
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import BY_NUMPY, dtype
from pullback.io.atomic import atomic_replacing
from pullback.io.boxes import Box, shard_boxes
from pullback.io.container import ContainerLayout, encode_container_complex
from pullback.io.leaf_names import NamedLeafPath, UniqueLeafNames, named_leaf_paths
from pullback.io.manifest import manifest_text
from pullback.lazy.evaluate import evaluate
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor

TENSOR, ARRAY, SCALAR, VALUE = "tensor", "array", "scalar", "value"  # kinds of leaves


@dataclass
class TreeSnapshot:
    """A tree to be saved; of a tensor that spans processes, only the shards of this one."""

    tree: Any  # the structure, as data
    leaves: list[list[Any]]  # each a kind and what belongs to it, as data
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # that this process writes
    # For a tensor in shards: which process writes each of them, under which name
    shards: dict[str, list[tuple[int, str, Box]]] = field(default_factory=dict)


def take_snapshot(op: str, value: Any, copy: bool = False) -> TreeSnapshot:
    """Return what is to be saved of a tree; with `copy`, nothing may change it any more."""
    evaluate([x for x in tree.leaves(value) if isinstance(x, Tensor)])
    leaves: list[Any] = []
    numbers: dict[int, int] = {}  # of tensors, each of which is saved once

    def leaf(x: Any) -> int:
        number = numbers.setdefault(id(x), len(leaves)) if isinstance(x, Tensor) else len(leaves)
        if number == len(leaves):
            leaves.append(x)
        return number

    try:
        made = TreeSnapshot(serialize_described_tree(value, leaf), [])
    except RecursionError:
        raise ArgumentError(f"{op}: containers are nested too deeply") from None
    paths = named_leaf_paths(made.tree)
    names = UniqueLeafNames()
    for number, x in enumerate(leaves):
        made.leaves.append(_snapshot_leaf(op, x, paths[number][0], names, made, copy))
    return made


def _snapshot_leaf(
    op: str, x: Any, path: NamedLeafPath, names: UniqueLeafNames, made: TreeSnapshot, copy: bool
) -> list[Any]:
    """Return a leaf as data, and put its values into the snapshot."""
    if isinstance(x, (np.ndarray, np.generic)):
        kind, array = (ARRAY if isinstance(x, np.ndarray) else SCALAR), np.asarray(x)
        if array.dtype.newbyteorder("=") not in BY_NUMPY:
            what = f"an array of dtype {array.dtype} cannot be written to a file"
            raise DTypeError(f"{op}: {path.title}: {what}")
        array = array.astype(array.dtype.newbyteorder("="), copy=copy)
    elif isinstance(x, Tensor) or hasattr(x, "__dlpack__"):
        kind, x = TENSOR, asarray(x)
        if x.sharding is not None and engine_spans_processes(current(), x.sharding.mesh):
            return _snapshot_shards(x, names.unique(path.dotted), names, made, copy)
        array = _undonated_snapshot(x.numpy(), x) if copy else x.numpy()
    else:
        return [VALUE, _plain_snapshot_leaf(op, x, path)]
    name = names.unique(path.dotted)
    if current_processes().index == 0:
        _put_into_snapshot(made, name, array)
    return [kind, name, dtype(array.dtype).name, list(array.shape)]


def _undonated_snapshot(array: np.ndarray, x: Tensor) -> np.ndarray:
    """Return values of a tensor that stay if its buffer is donated: a CPU's memory is shared."""
    on_host = isinstance(x._node.value, np.ndarray)
    mesh = None if x.sharding is None else x.sharding.mesh
    shared = not on_host and engine_for(current(), mesh).platform == "cpu"
    return np.array(array) if shared else array


def _put_into_snapshot(made: TreeSnapshot, name: str, array: np.ndarray) -> None:
    made.arrays[name] = encode_container_complex(array) if array.dtype.kind == "c" else array


def _snapshot_shards(
    x: Tensor, name: str, names: UniqueLeafNames, made: TreeSnapshot, copy: bool
) -> list[Any]:
    """Put the shards that this process writes into the snapshot."""
    turn = len(made.shards)
    me, held = current_processes().index, {s.position: s.data for s in x.shards()}
    rows = made.shards[name] = []
    for process, position, box in shard_boxes(x, turn):
        stored = names.unique(f"{name}@{len(rows)}")
        rows.append((process, stored, box))
        if process == me:
            data = held[position]
            _put_into_snapshot(made, stored, _undonated_snapshot(data, x) if copy else data)
    return [TENSOR, name, x.dtype.name, list(x.shape)]


def _plain_snapshot_leaf(op: str, x: Any, path: NamedLeafPath) -> Any:
    try:
        return serialize_plain_value(x)
    except ArgumentError:
        raise ArgumentError(
            f"{op}: {path.title}: {shown_argument(x)} cannot be written to a file",
            hint="Save tensors, arrays, numbers, strings, booleans and None in lists, tuples, "
            "dicts,\nnamed tuples, dataclasses, modules and classes registered with "
            "pb.tree.register.",
        ) from None


def save_snapshot(path: str, snapshot: TreeSnapshot, info: dict[str, Any] | None = None) -> None:
    """Write a snapshot of a single process; `info` are plain values for the manifest."""
    layout = ContainerLayout.of(snapshot.arrays)
    body = {"tree": snapshot.tree, "leaves": snapshot.leaves, "info": info or {}}
    text = manifest_text(body, layout, snapshot.arrays)
    with atomic_replacing(path) as file:
        layout.write(file, snapshot.arrays, text)
