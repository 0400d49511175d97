"""Images in files, read with Pillow where it is installed."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.data.dataset import Dataset, dataset_position
from pullback.data.npy_files import refused_npy_file
from pullback.errors import ArgumentError, DamagedFile, MissingFile
from pullback.functions.arguments import per_axis_argument
from pullback.graph.argument_checks import checked_path_argument, text
from pullback.graph.boundary import boundary_methods

if TYPE_CHECKING:
    from _typeshed import StrPath

_MODES = ("L", "RGB", "RGBA")
_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp")


def read_image(path: StrPath, mode: str = "RGB", size: tuple[int, int] | None = None) -> np.ndarray:
    """Return an image file as u8[height, width, channels].

    `mode` is "RGB", "RGBA", or "L" for grey, which has one channel. With `size`, (height, width),
    the image is scaled. Needs Pillow: `pip install pullback[images]`.

    >>> import os, tempfile
    >>> from PIL import Image
    >>> path = os.path.join(tempfile.mkdtemp(), "red.png")
    >>> Image.new("RGB", (4, 3), "red").save(path)
    >>> pb.data.read_image(path)[0, 0].tolist(), pb.data.read_image(path, "L").shape
    ([255, 0, 0], (3, 4, 1))
    """
    return _decoded_image("data.read_image", path, mode, size)


def _decoded_image(op: str, path: StrPath, mode: str, size: tuple[int, int] | None) -> np.ndarray:
    checked_path_argument(op, path, "path")
    if text(op, mode, "mode") not in _MODES:
        raise ArgumentError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}", op=op)
    pillow = _image_library(op)
    try:
        with pillow.open(path) as image:
            found = image.convert(mode)
    except pillow.DecompressionBombError:
        raise DamagedFile(f"{os.fspath(path)} claims to have too many pixels", op=op) from None
    except (OSError, SyntaxError, ValueError) as error:
        raise refused_npy_file(op, path, "an image", error) from None
    if size is not None:
        height, width = per_axis_argument(op, size, 2, "size")
        if min(height, width) < 1:
            raise ArgumentError(f"size must be positive, got {(height, width)}", op=op)
        found = found.resize((width, height), pillow.Resampling.BILINEAR)
    array = np.array(found, np.uint8)
    return array[:, :, None] if mode == "L" else array


def _image_library(op: str) -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        hint = "Install it with `pip install pullback[images]`."
        message = "needs the package pillow, which is not installed"
        raise ArgumentError(message, op=op, hint=hint) from None
    return Image


@boundary_methods
class ImageFolder(Dataset):
    """Images in folders, one for each class: examples are (u8[height, width, channels], label).

    Classes are the names of the folders in alphabetical order, and labels count them. Files are
    found in all depths, by the endings of their names. `mode` and `size` are those of `read_image`.

    >>> import os, tempfile
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("cats", "dogs"):
    ...     os.mkdir(os.path.join(folder, name))
    ...     Image.new("RGB", (4, 3)).save(os.path.join(folder, name, "1.png"))
    >>> pets = pb.data.ImageFolder(folder, size=(8, 8))
    >>> pets.classes, len(pets), pets[1][0].shape, pets[1][1]
    (('cats', 'dogs'), 2, (8, 8, 3), 1)
    """

    def __init__(
        self, folder: StrPath, mode: str = "RGB", size: tuple[int, int] | None = None
    ) -> None:
        op = "ImageFolder"
        checked_path_argument(op, folder, "folder")
        root = os.path.abspath(folder)
        if not os.path.isdir(root):
            raise MissingFile(f"there is no folder {os.fspath(folder)}", op=op)
        _image_library(op)
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self._mode, self._size = mode, size
        self.classes: tuple[str, ...] = tuple(names)
        self.files: list[tuple[str, int]] = [
            (path, label) for label, name in enumerate(names)
            for path in _images_below(os.path.join(root, name))
        ]  # fmt: skip
        if not self.files:
            hint = "It must hold one folder for each class: cats/1.png, dogs/2.png."
            message = f"{os.fspath(folder)} has no images in its folders"
            raise MissingFile(message, op=op, hint=hint)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.files[dataset_position(index, len(self))]
        return _decoded_image("ImageFolder", path, self._mode, self._size), label


def _images_below(folder: str) -> list[str]:
    found = [
        os.path.join(at, name)
        for at, _, names in os.walk(folder) for name in names
        if name.lower().endswith(_SUFFIXES)
    ]  # fmt: skip
    return sorted(found)
