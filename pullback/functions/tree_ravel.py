"""`pb.tree.ravel`: the tensors of a tree as one vector."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.complex_parts import real
from pullback.functions.creation import zeros
from pullback.functions.joining import concat
from pullback.graph.boundary import publish_at_boundary
from pullback.graph.dtypes import DType, promote_dtypes
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import NUMBERS
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber
from pullback.tree import unflatten


def ravel(tree: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """Return all elements of a tree of tensors as one vector, and the function that undoes it.

    Leaves of different dtypes are promoted to a common one. `unravel` takes a vector of the same
    length and returns a tree whose leaves have their shapes and dtypes again. Both are
    differentiable.

    >>> import pullback as pb
    >>> flat, unravel = pb.tree.ravel({"w": pb.ones((2, 2)), "b": pb.tensor([3.0])})
    >>> flat.tolist()
    [3.0, 1.0, 1.0, 1.0, 1.0]
    >>> unravel(2 * flat)["b"].tolist()
    [6.0]
    """
    leaves, structure = _ravelled_tensors(tree)
    shapes, dtypes = [x.shape for x in leaves], [x.dtype for x in leaves]
    ends = list(itertools.accumulate(map(math.prod, shapes)))
    if leaves:
        common = reduce(promote_dtypes, dtypes)
        flat = concat([x.astype(common).reshape(-1) for x in leaves])
    else:
        flat = zeros((0,))

    def unravel(flat: Any) -> Any:
        vector = _ravelled_vector(flat, ends[-1] if ends else 0, dtypes)
        starts = [0, *ends[:-1]]
        parts = [vector[i:j].reshape(n) for i, j, n in zip(starts, ends, shapes, strict=True)]
        return unflatten(structure, map(_ravelled_leaf_dtype, parts, dtypes))

    return flat, unravel


def _ravelled_tensors(value: Any) -> tuple[list[Tensor], Any]:
    leaves, structure = tree.flatten(value)
    for i, x in enumerate(leaves):
        if not isinstance(x, (Tensor, TracedNumber, np.ndarray, np.generic, *NUMBERS)):
            where = tree.paths(value)[i] or "the tree"
            what = f"leaves must be tensors or numbers, got {type(x).__name__} at {where}"
            raise ArgumentError(f"tree.ravel: {what}")
    return [asarray(x) for x in leaves], structure


def _ravelled_vector(flat: Any, size: int, dtypes: list[DType]) -> Tensor:
    """Return the argument of `unravel` as a tensor; raise unless it fits."""
    vector = asarray(flat)
    if vector.shape != (size,):
        must = f"needs a vector of {size} elements, got {vector._node.type}"
        raise ShapeError(f"unravel: {must}")
    if vector.dtype.is_complex and not any(d.is_complex for d in dtypes):
        what = f"the leaves are real, got {vector._node.type}"
        raise DTypeError(f"unravel: {what}", hint="Take pb.real of the vector.")
    return vector


def _ravelled_leaf_dtype(x: Tensor, dtype: DType) -> Tensor:
    """Convert to a dtype; a real leaf beside complex ones gets the real part."""
    return (real(x) if x.dtype.is_complex and not dtype.is_complex else x).astype(dtype)


tree.ravel = ravel
publish_at_boundary(vars(tree), "ravel")
