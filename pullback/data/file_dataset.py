"""Datasets in NPY files, which are mapped into memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pullback import tree
from pullback.data.array_dataset import ArrayDataset, _common_array_length
from pullback.data.dataset import dataset_position
from pullback.data.npy_files import mapped_npy
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import boundary_methods


@boundary_methods
class FileDataset(ArrayDataset):
    """The rows of arrays in NPY files, which are mapped into memory and read when needed.

    `paths` is a path or a tree of paths. A worker process opens the files itself, so arrays larger
    than memory can be shuffled and read by many workers.

    >>> import os, tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(6.0).reshape(3, 2))
    >>> pb.data.FileDataset({"x": path})[1]
    {'x': array([2., 3.])}
    """

    def __init__(self, *paths: Any) -> None:
        given = paths[0] if len(paths) == 1 else paths
        self._paths = tree.map(_absolute_file_path, given)
        self._open()

    def _open(self) -> None:
        self.arrays = tree.map(mapped_npy, self._paths)
        self._length = _common_array_length("FileDataset", self.arrays)

    def __getitem__(self, index: int) -> Any:
        i = dataset_position(index, self._length)
        return tree.map(lambda x: np.array(x[i]), self.arrays)

    def __getstate__(self) -> dict[str, Any]:
        return {"_paths": self._paths}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _absolute_file_path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        message = f"needs a path or a tree of paths, got {shown_argument(path)}"
        raise ArgumentError(message, op="FileDataset")
    return os.path.abspath(path)
