"""Saved files that are open for reading: their tensors may be in shards in several files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.serialize import deserialize_plain_value
from pullback.errors import DamagedFile
from pullback.graph.dtypes import DType
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.types import Type
from pullback.io.atomic import atomic_file_errors
from pullback.io.boxes import Box, box_shape, box_size, boxes_overlap, copy_box_overlap, whole_box
from pullback.io.container import Container, decode_container_complex, opened_container
from pullback.io.leaf_names import NamedLeafPath, named_leaf_paths
from pullback.io.manifest import manifest_checksum, read_manifest
from pullback.io.snapshot import ARRAY, SCALAR, TENSOR, VALUE

_INDEX_SIZE = 100_000_000  # the longest index of a model in several files


class SavedFilePiece(NamedTuple):
    """A tensor of a file that is a saved tensor or one of its shards."""

    file: Container
    name: str
    box: Box
    checksum: str | None  # None in a file that another library wrote

    def read(self, pairs: bool) -> np.ndarray:
        array = self.file.read(self.name)
        if self.checksum is not None and manifest_checksum(array) != self.checksum:
            raise self.file.damaged(f"the tensor {self.name!r} does not have its checksum")
        return decode_container_complex(array) if pairs else array


class SavedTensor(NamedTuple):
    """A tensor in one file, or in shards in several."""

    dtype: DType
    shape: tuple[int, ...]
    pieces: list[SavedFilePiece]
    kind: str = TENSOR

    @property
    def type(self) -> Type:
        return Type(self.shape, self.dtype)

    def boxes(self, wanted: Mapping[int, Box]) -> dict[int, np.ndarray]:
        """Return parts of the tensor; each piece that they need is read once."""
        pairs = self._pairs
        if len(self.pieces) == 1 and all(b == self.pieces[0].box for b in wanted.values()):
            array = self.pieces[0].read(pairs)
            return dict.fromkeys(wanted, array)
        made = {k: np.zeros(box_shape(b), self.dtype.numpy) for k, b in wanted.items()}
        for piece in self.pieces:
            near = {k: b for k, b in wanted.items() if boxes_overlap(b, piece.box)}
            if near:
                values = piece.read(pairs)
                for k, box in near.items():
                    copy_box_overlap(made[k], box, values, piece.box)
        return made

    def whole(self) -> np.ndarray:
        return self.boxes({0: whole_box(self.shape)})[0]

    @property
    def _pairs(self) -> bool:
        """Whether complex numbers are stored as pairs of real ones."""
        stored = [p.file.dtype(p.name) for p in self.pieces]
        return self.dtype.is_complex and not any(d.is_complex for d in stored)

    def check(self) -> SavedTensor:
        """Raise unless the pieces are tensors of the right types that make up the whole."""
        for piece in self.pieces:
            entry = piece.file.entries[piece.name]
            shape, kind = box_shape(piece.box), self.dtype
            if kind.is_complex and entry.code != "C64":
                shape, kind = (*shape, 2), kind.real
            inside = all(0 <= a <= b <= n for (a, b), n in zip(piece.box, self.shape, strict=True))
            if entry.shape != shape or piece.file.dtype(piece.name) is not kind or not inside:
                raise piece.file.damaged(f"its manifest is wrong about the tensor {piece.name!r}")
        if sum(box_size(p.box) for p in self.pieces) != self.type.size:
            raise ValueError("shards do not make up a tensor")
        return self


class SavedFileValue(NamedTuple):
    """A leaf that is a Python number, text or None."""

    value: Any


SavedLeaf = SavedTensor | SavedFileValue


class SavedFile:
    """A file of pullback, with a tree; or one of another library, with tensors by name."""

    def __init__(self, name: str, tree: Any, leaves: list[SavedLeaf], info: Any) -> None:
        self.name, self.tree, self.leaves, self.info = name, tree, leaves, info
        self.paths = named_leaf_paths(tree)
        if sorted(self.paths) != list(range(len(leaves))):
            raise ValueError("leaves")

    def by_name(self) -> dict[str, SavedLeaf]:
        """Return the leaves by their names, such as `layers.0.w`."""
        return {path.dotted: self.leaves[k] for k, paths in self.paths.items() for path in paths}


class ForeignSavedFile(SavedFile):
    """A file that another library wrote: a flat dict of tensors."""

    def __init__(self, name: str, files: list[Container]) -> None:
        pieces = {n: _foreign_saved_file_tensor(file, n) for file in files for n in file.entries}
        if len(pieces) != sum(len(file.entries) for file in files):
            raise DamagedFile(f"load: {name} cannot be read: two of its files have the same tensor")
        self.name, self.leaves, self.info = name, list(pieces.values()), {}
        self.tree = ["dict", [[n, k] for k, n in enumerate(pieces)]]
        self.paths = {k: [NamedLeafPath(f"[{n!r}]", n)] for k, n in enumerate(pieces)}


def _foreign_saved_file_tensor(file: Container, name: str) -> SavedTensor:
    entry = file.entries[name]
    piece = SavedFilePiece(file, name, whole_box(entry.shape), None)
    return SavedTensor(file.dtype(name), entry.shape, [piece])


@contextmanager
def opened_saved_file(path: str | os.PathLike) -> Iterator[SavedFile]:
    """Open a file for reading; its header and manifest are checked."""
    path = os.fspath(path)
    with ExitStack() as stack:
        name = os.path.basename(path)
        try:
            found = _read_saved_file(path, stack)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            if isinstance(error, DamagedFile):
                raise
            raise DamagedFile(f"load: {name} is damaged: its manifest is invalid") from None
        except RecursionError:
            raise DamagedFile(f"load: {name} is damaged: it is nested too deep") from None
        yield found


def _read_saved_file(path: str, stack: ExitStack) -> SavedFile:
    if path.endswith("index.json"):
        return _saved_file_from_index(path, stack)
    file = stack.enter_context(opened_container(path))
    body = read_manifest(file)
    if body is None:
        return ForeignSavedFile(file.name, [file])
    if "tree" not in body:
        raise file.refused("it is one of several files; load the one without a number")
    files = [(file, body), *_saved_file_parts(file, body, stack)]
    leaves = [_saved_file_leaf(row, body.get("shards", {}), files) for row in body["leaves"]]
    return SavedFile(file.name, body["tree"], leaves, body.get("info", {}))


Files = list[tuple[Container, dict[str, Any]]]  # with their manifests


def _saved_file_parts(file: Container, body: dict[str, Any], stack: ExitStack) -> Files:
    """Open the files of the processes, which are beside the one with the manifest."""
    made = []
    for name, checksum in body.get("files", []):
        if os.path.basename(name) != name:
            raise ValueError("files")
        part = os.path.join(os.path.dirname(file.path), name)
        if not os.path.exists(part):
            raise file.damaged(f"its part {name} is missing")
        opened = stack.enter_context(opened_container(part))
        manifest = read_manifest(opened) or {}
        if manifest.get("checksum") != checksum:
            raise opened.damaged(f"it does not belong to {file.name}")
        made.append((opened, manifest))
    return made


def _saved_file_leaf(row: list[Any], shards: dict[str, Any], files: Files) -> SavedLeaf:
    kind, *more = row
    if kind == VALUE:
        return SavedFileValue(deserialize_plain_value(*more))
    name, dtype, shape = more
    if kind not in (TENSOR, ARRAY, SCALAR) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("a leaf")
    # What is in no shards is in the first file with tensors
    found = shards.get(name, [[min(1, len(files) - 1), name, whole_box(shape)]])
    pieces = []
    for k, stored, box in found:
        file, manifest = files[k]
        pieces.append(
            SavedFilePiece(
                file, stored, tuple([(a, b) for a, b in box]), manifest["sha256"][stored]
            )
        )
    return SavedTensor(dtype_of(dtype), tuple(shape), pieces, kind).check()


def _saved_file_from_index(path: str, stack: ExitStack) -> ForeignSavedFile:
    """Open the files that the index of a large model names (`model.safetensors.index.json`)."""
    name = os.path.basename(path)
    with atomic_file_errors("load", path), open(path, "rb") as file:
        text = file.read(_INDEX_SIZE)
    try:
        names = sorted(set(json.loads(text)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedFile(f"load: {name} cannot be read: it is no index of a model") from None
    if any(os.path.basename(n) != n for n in names):
        raise DamagedFile(f"load: {name} cannot be read: it names files in other folders")
    folder = os.path.dirname(path)
    files = [stack.enter_context(opened_container(os.path.join(folder, n))) for n in names]
    return ForeignSavedFile(name, files)
