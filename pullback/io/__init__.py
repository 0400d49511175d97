"""Saving and loading: trees of tensors in safetensors files, and checkpoints of training runs.

Files are written completely or not at all, carry checksums, and hold no pickles.
"""

from pullback.errors import DamagedFile, FileError, MissingFile
from pullback.graph.boundary import publish
from pullback.io.checkpointer import Checkpointer
from pullback.io.loading import load
from pullback.io.saving import save

__all__ = ["Checkpointer", "DamagedFile", "FileError", "MissingFile", "load", "save"]


def __dir__() -> list[str]:
    return __all__


publish(__name__)
