"""Tensors from a function of their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.functions.index_tuples import indices
from pullback.functions.splitting import unstack
from pullback.graph.argument_checks import checked_function_argument
from pullback.lazy.host_data import asarray
from pullback.lazy.settings import current
from pullback.typing import DTypeLike, Shape


def fromfunction(
    f: Callable[..., Any], shape: Shape, *, dtype: DTypeLike | None = None, **kwargs: Any
) -> Any:
    """Return `f` of the indices of all elements of a shape: one tensor for each axis.

    >>> pb.fromfunction(lambda i, j: i + 10 * j, (2, 3), dtype=pb.int64).tolist()
    [[0, 10, 20], [1, 11, 21]]
    """
    f = checked_function_argument("fromfunction", f, "f")
    grid = indices(shape, current().default_dtype if dtype is None else dtype)
    return f(*unstack(asarray(grid)), **kwargs)
