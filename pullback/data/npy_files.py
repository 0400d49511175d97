"""Arrays in NPY and NPZ files. Files that need pickle, which could run code, are refused."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import DamagedFile, FileError, MissingFile, PullbackError
from pullback.graph.argument_checks import checked_path_argument, with_argument_checks

if TYPE_CHECKING:
    from _typeshed import StrPath

_PICKLE = "Object arrays are stored with pickle, which can run code, and are never loaded."


@with_argument_checks
def read_npy(path: str | os.PathLike[str], mmap: bool = False) -> np.ndarray:
    """Return the array in an NPY file; with `mmap` it stays in the file until it is read.

    >>> import os, tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(3))
    >>> pb.data.read_npy(path)
    array([0, 1, 2])
    """
    checked_path_argument("data.read_npy", path, "path")  # also if it is a tensor
    if mmap:
        return mapped_npy(path, "data.read_npy")
    return _load_npy("data.read_npy", path, None)


@with_argument_checks
def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays in an NPZ file by their names.

    >>> import os, tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
    >>> np.savez_compressed(path, x=np.arange(3), y=np.array([True, False]))
    >>> pb.data.read_npz(path)
    {'x': array([0, 1, 2]), 'y': array([ True, False])}
    """
    op = "data.read_npz"
    checked_path_argument(op, path, "path")
    try:
        with open(path, "rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                hint = "It holds a single array: use pb.data.read_npy(path)."
                raise DamagedFile(f"{os.fspath(path)} is not an NPZ file", op=op, hint=hint)
            return {name: _npz_member(op, path, found, name) for name in found.files}
    except _DAMAGES as error:
        raise refused_npy_file(op, path, "an NPZ file", error) from None


def _npz_member(op: str, path: StrPath, archive: Any, name: str) -> np.ndarray:
    found = archive[name]
    if not isinstance(found, np.ndarray):
        raise DamagedFile(f"{os.fspath(path)}: {name!r} is not an array", op=op)
    return found


def mapped_npy(path: StrPath, op: str = "FileDataset") -> np.ndarray:
    """Return the array in an NPY file, mapped into memory."""
    checked_path_argument(op, path, "path")
    return _load_npy(op, path, "r")


def _load_npy(op: str, path: StrPath, mode: Any) -> np.ndarray:
    try:
        with open(path, "rb") as file:
            found = np.load(path if mode else file, mmap_mode=mode, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return found
            found.close()
    except _DAMAGES as error:
        raise refused_npy_file(op, path, "an NPY file", error) from None
    hint = "It holds several arrays: use pb.data.read_npz(path)."
    raise DamagedFile(f"{os.fspath(path)} is not an NPY file", op=op, hint=hint)


_DAMAGES = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)


def refused_npy_file(op: str, path: StrPath, what: str, error: Exception) -> PullbackError:
    """The error for a file that cannot be read, from what NumPy or the system says."""
    name = os.fspath(path)
    if isinstance(error, PullbackError):
        return error
    if isinstance(error, FileNotFoundError):
        return MissingFile(f"there is no file {name}", op=op)
    if isinstance(error, OSError) and error.strerror:
        return FileError(f"cannot read {name}: {error.strerror}", op=op)
    if any(words in str(error) for words in ("allow_pickle", "bject array", "Python objects")):
        return DamagedFile(f"{name} holds Python objects or is not {what}", op=op, hint=_PICKLE)
    return DamagedFile(f"{name} is damaged or not {what}: {error}", op=op)
