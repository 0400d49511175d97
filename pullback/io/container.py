"""Files in the safetensors format: a header with names, dtypes, shapes and offsets, then the data.

A file is 8 bytes with the length of the header, the header as JSON, and the tensors one after the
other without gaps. Everything that a header claims is checked against the size of the file before
memory is allocated.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pullback.errors import ArgumentError, DamagedFile, OutOfMemory
from pullback.graph import dtypes
from pullback.graph.dtypes import DType
from pullback.io.atomic import atomic_file_errors

METADATA = "__metadata__"
LONGEST_HEADER = 100_000_000  # as in other readers of the format
_MOST_DIMENSIONS = 64  # of an array of NumPy

BY_CODE = {
    "BOOL": dtypes.bool_, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32,
    "I64": dtypes.int64, "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32,
    "U64": dtypes.uint64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip
CODES = {d: code for code, d in BY_CODE.items()}


class ContainerEntry(NamedTuple):
    """A tensor as the header describes it: its place counts from the end of the header."""

    code: str
    shape: tuple[int, ...]
    start: int
    stop: int


class ContainerLayout(NamedTuple):
    """Where the arrays of a file will be, in order."""

    entries: dict[str, ContainerEntry]

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray]) -> ContainerLayout:
        """Place wide elements first, so that all are aligned, and otherwise sort by name."""
        entries, end = {}, 0
        for name in sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n)):
            array = arrays[name]
            code = CODES[dtypes.dtype(array.dtype)]
            entries[name] = ContainerEntry(code, array.shape, end, end + array.nbytes)
            end += array.nbytes
        return ContainerLayout(entries)

    def write(self, file: BinaryIO, arrays: Mapping[str, np.ndarray], metadata: str) -> None:
        """Write the file; `metadata` is pullback's own entry in the header."""
        header: dict[str, Any] = {METADATA: {"pullback": metadata}}
        for name, (code, shape, start, stop) in self.entries.items():
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [start, stop]}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        if len(text) > LONGEST_HEADER:
            what = (
                f"{len(arrays)} tensors need a header of {len(text)} bytes, too long for the format"
            )
            raise ArgumentError(f"save: {what}", hint="Join small tensors, or use several files.")
        file.write(len(text).to_bytes(8, "little") + text)
        for name in self.entries:
            file.write(container_array_bytes(arrays[name]))


def container_array_bytes(array: np.ndarray) -> memoryview:
    """Return the elements of an array in row-major order as bytes."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def encode_container_complex(array: np.ndarray) -> np.ndarray:
    """Return complex numbers as pairs of real ones, which every reader of the format knows."""
    real = np.dtype(f"f{array.dtype.itemsize // 2}")
    return np.ascontiguousarray(array).reshape(-1).view(real).reshape(*array.shape, 2)


def decode_container_complex(array: np.ndarray) -> np.ndarray:
    """Undo `encode_container_complex`."""
    kind = np.dtype(f"c{array.dtype.itemsize * 2}")
    return array.reshape(-1).view(kind).reshape(array.shape[:-1])


class Container:
    """A file in the format that is open for reading."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.path, self._file = path, file
        size = os.fstat(file.fileno()).st_size
        header, self._origin = self._header(size)
        metadata = header.pop(METADATA, {})
        self._demand(
            isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values()),
            "its metadata is no dictionary of texts",
        )
        self.metadata: dict[str, str] = metadata
        self.entries = {name: self._entry(name, item) for name, item in header.items()}
        self._check_places(size - self._origin)

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def damaged(self, what: str) -> DamagedFile:
        return DamagedFile(f"load: {self.name} is damaged or no safetensors file: {what}")

    def refused(self, what: str) -> DamagedFile:
        return DamagedFile(f"load: {self.name} cannot be read: {what}")

    def _demand(self, holds: bool, what: str) -> None:
        if not holds:
            raise self.damaged(what)

    def _header(self, size: int) -> tuple[dict[str, Any], int]:
        """Return the header, and where the data begins."""
        self._demand(size >= 8, f"it has only {size} bytes")
        length = int.from_bytes(self._bytes(8), "little")
        self._demand(length <= size - 8, f"its header of {length} bytes is longer than the file")
        self._demand(length <= LONGEST_HEADER, f"its header of {length} bytes is too long")
        try:
            header = json.loads(
                self._bytes(length).decode(), object_pairs_hook=_unique_container_header
            )
        except (ValueError, RecursionError):
            raise self.damaged("its header cannot be read") from None
        self._demand(isinstance(header, dict), "its header cannot be read")
        return header, 8 + length

    def _bytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self._file.read(count - len(found))
            self._demand(len(more) > 0, "it is truncated in the header")
            found += more
        return found

    def _entry(self, name: str, item: Any) -> ContainerEntry:
        """Return a tensor of the header, whose fields have the right kinds and agree."""
        what = f"the header is wrong about the tensor {name!r}"
        self._demand(isinstance(item, dict), what)
        code, shape, place = (item.get(k) for k in ("dtype", "shape", "data_offsets"))
        self._demand(
            isinstance(code, str) and _are_container_sizes(shape) and _are_container_sizes(place),
            what,
        )
        self._demand(len(place) == 2 and len(shape) <= _MOST_DIMENSIONS, what)
        kind = BY_CODE.get(code)
        if kind is not None:
            needed, held = math.prod(shape) * kind.numpy.itemsize, place[1] - place[0]
            self._demand(
                needed == held, f"{what}: {kind}{shape} needs {needed} bytes, and it has {held}"
            )
        return ContainerEntry(code, tuple(shape), *place)

    def _check_places(self, size: int) -> None:
        """Refuse tensors that overlap, leave gaps or are beyond the end of the file."""
        end = 0
        for name, entry in sorted(self.entries.items(), key=lambda item: item[1][2:]):
            what = "overlaps another one" if entry.start < end else "does not follow the one before"
            self._demand(entry.start == end <= entry.stop, f"the tensor {name!r} {what}")
            end = entry.stop
            self._demand(end <= size, f"it is truncated in the tensor {name!r}")
        self._demand(end == size, f"{size - end} bytes belong to no tensor")

    def dtype(self, name: str) -> DType:
        """Return the dtype of a tensor; raise if pullback does not have it."""
        code = self.entries[name].code
        if code not in BY_CODE:
            what = f"the tensor {name!r} has the dtype {code}, which pullback does not have"
            raise self.refused(what)
        return BY_CODE[code]

    def read(self, name: str) -> np.ndarray:
        """Return a tensor as an array of its own."""
        entry, kind = self.entries[name], self.dtype(name)
        try:
            array = np.empty(entry.shape, kind.numpy)
        except (MemoryError, ValueError):
            what = f"there is not enough memory for {name!r}, {entry.stop - entry.start} bytes"
            raise OutOfMemory(f"load: {what}") from None
        with atomic_file_errors("load", self.path):
            self._file.seek(self._origin + entry.start)
            rest = container_array_bytes(array)
            while rest:
                count = self._file.readinto(rest)  # type: ignore[attr-defined]
                self._demand(count > 0, f"it is truncated in the tensor {name!r}")
                rest = rest[count:]
        return array


def _unique_container_header(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _are_container_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and n >= 0 for n in values)


@contextmanager
def opened_container(path: str) -> Iterator[Container]:
    """Open a file for reading, with its header read and checked."""
    with atomic_file_errors("load", path):
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
    with file:
        with atomic_file_errors("load", path):
            made = Container(file, path)
        yield made
