"""`pb.load`: trees from safetensors files, those of pullback and of other libraries."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, TypeVar, overload

from pullback.compiled.serialize import deserialize_described_tree
from pullback.errors import ArgumentError, DamagedFile, PullbackError
from pullback.graph.argument_checks import with_argument_checks
from pullback.io.key_map import KeyMap, load_by_key_map
from pullback.io.like import load_like
from pullback.io.placed_values import read_placed_value
from pullback.io.saved_file import ForeignSavedFile, SavedFile, SavedFileValue, opened_saved_file

T = TypeVar("T")


@overload
def load(path: str | os.PathLike) -> Any: ...
@overload
def load(path: str | os.PathLike, like: T, keys: KeyMap | None = None) -> T: ...
@with_argument_checks
def load(path: str | os.PathLike, like: Any = None, keys: KeyMap | None = None) -> Any:
    """Load what `pb.save` wrote, or a safetensors file of another library.

    With `like`, a tree of tensors (or of types, as `pb.eval_shape` returns them), the result is a
    new tree with its classes, shardings and `requires_grad`. Names, shapes and dtypes must agree.
    Without it, a class that is not known here becomes a dict, and a file of another library is a
    dict of tensors by name.

    `keys`, a dict or function, tells the name in the file for the name of each leaf of `like`, such
    as `layers.0.w`. The name may come with a function that is applied to the tensor: `(name,
    pb.transpose)`; several names in a tuple give it several tensors. For None, the value of `like`
    is kept. Names that a dict lacks are the same in the file.

    Sizes and checksums are verified: a damaged file raises `DamagedFile` with the name of the
    tensor that is damaged. Nothing in a file is executed.

    >>> import pullback as pb, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> pb.save(path, {"w": pb.ones((2, 3)), "b": pb.zeros(3)})
    >>> pb.load(path, like={"w": pb.zeros((2, 3)), "b": pb.zeros(3)})["w"].sum().item()
    6.0
    >>> pb.load(path, like={"kernel": pb.zeros((3, 2))}, keys={"kernel": ("w", pb.transpose)})
    {'kernel': Tensor([[1., 1.],
           [1., 1.],
           [1., 1.]], f32)}
    """
    if keys is not None and like is None:
        hint = "Pass the tree that the tensors belong into: pb.load(path, like=model, keys=...)."
        raise ArgumentError("load: keys needs like", hint=hint)
    with opened_saved_file(path) as file:
        if like is None:
            return _rebuilt_for_loading(file)
        if keys is not None or isinstance(file, ForeignSavedFile):
            return load_by_key_map(file, like, keys)
        return load_like(file, like)


def _rebuilt_for_loading(file: SavedFile) -> Any:
    """Return the tree of a file, with classes that are known here."""
    values: dict[int, Any] = {}

    def leaf(number: int) -> Any:
        if number not in values:
            saved = file.leaves[number]
            values[number] = (
                saved.value if isinstance(saved, SavedFileValue) else read_placed_value(saved)
            )
        return values[number]

    if '"pullback.nn.' in json.dumps(file.tree):
        importlib.import_module("pullback.nn")  # its classes are registered when it is loaded
    try:
        return deserialize_described_tree(file.tree, leaf)
    except PullbackError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DamagedFile(f"load: the tree in {file.name} cannot be rebuilt: {error}") from error
