"""What the samplers share: keys, shapes, element types and parameters in normal form."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import (
    as_tensor,
    cast_node,
    node_of,
    number,
    placed,
    scalar,
    shape_of,
)
from pullback.graph.dtypes import DType, float32, float64, promote, uint32
from pullback.graph.node import Node
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import NUMBERS
from pullback.lazy.settings import current, user_dtype
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import Unknown
from pullback.ops.prelude import broadcast_shapes


def key_of(op: str, key: Any) -> Node:
    """The node of one key."""
    found = key if isinstance(key, (Tensor, np.ndarray)) else None
    if found is None:
        raise ArgumentError(
            f"needs a key, got {type(key).__name__}", op=op,
            hint="Make one from an integer with pb.random.key(seed).",
        )  # fmt: skip
    node = node_of(as_tensor(found))
    if node.type.dtype is uint32 and node.type.shape == (2,):
        return node
    error = DTypeError if node.type.dtype is not uint32 else ShapeError
    several = node.type.dtype is uint32 and node.type.rank > 1 and node.type.shape[-1] == 2
    raise error(
        f"a key is u32[2], got {node.type}", op=op,
        hint="These are several keys: take one of them, as in keys[0]."
        if several else "Make one from an integer with pb.random.key(seed).",
    )  # fmt: skip


def float_dtype(op: str, dtype: Any, *parameters: Any, kinds: str = "f") -> DType:
    """The element type asked for, or else that of the parameters, or else the default float."""
    if dtype is None:
        given = [as_tensor(p).dtype for p in parameters if isinstance(p, (Tensor, np.ndarray))]
        given = [d for d in given if d.kind in kinds]
        return reduce(promote, given) if given else current().default_dtype
    made = user_dtype(op, dtype)
    if made.kind not in kinds:
        named = "a float or complex type" if "c" in kinds else "a float type"
        raise DTypeError(f"needs {named}, got {made}", op=op)
    return made


def computed_in(dtype: DType) -> DType:
    """The type that numbers of another one are computed in: f32, or f64 for itself."""
    return float64 if dtype is float64 else float32


def parameter(op: str, value: Any, dtype: DType) -> Node:
    """A parameter of a distribution as a node of the given float type."""
    value = number(value)
    if isinstance(value, complex):
        raise DTypeError(f"needs real parameters, got {value}", op=op)
    if type(value) in NUMBERS:
        return scalar(float(value), dtype)
    if isinstance(value, Unknown) and value.kind is not complex:
        return value.cast(dtype)
    if not isinstance(value, (Tensor, np.ndarray)):
        return node_of(asarray(value, dtype))  # numbers in a list have no type of their own
    node = node_of(as_tensor(value))
    if node.type.dtype.is_complex:
        raise DTypeError(f"needs real parameters, got {node.type}", op=op)
    return cast_node(node, dtype)


def sample_shape(op: str, shape: Any, *parameters: Node) -> tuple[int, ...]:
    """The shape asked for, which parameters broadcast to; without one, the parameters' own."""
    shapes = [p.type.shape for p in parameters]
    if shape is None:
        return placed(op, broadcast_shapes, (), *shapes)
    wanted = shape_of(op, shape)
    for given in shapes:
        pairs = zip(reversed(given), reversed(wanted))
        if len(given) > len(wanted) or any(n not in (1, m) for n, m in pairs):
            raise ShapeError(
                f"parameters must broadcast to the shape {list(wanted)}, got {list(given)}",
                op=op,
            )  # fmt: skip
    return wanted


def known(value: Any) -> np.ndarray | None:
    """A parameter that the user wrote down; None for a tensor, which is not read."""
    if not _is_written(value):
        return None
    made = np.asarray(value)
    return made if made.dtype.kind in "biuf" or made.dtype == object else None


def _is_written(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_written, value))
    return not isinstance(value, (Tensor, Unknown))


def require(op: str, holds: Any, message: str, hint: str | None = None) -> None:
    """An error at the user's line unless everything in `holds` is true."""
    if not np.all(holds):
        raise ArgumentError(message, op=op, hint=hint)


def require_order(op: str, low: Any, high: Any, names: tuple[str, str]) -> None:
    """Bounds that are known must leave room between them."""
    a, b = known(low), known(high)
    if a is None or b is None:
        return
    try:
        fits = a < b
    except ValueError:  # they do not broadcast, which is told elsewhere
        return
    require(op, fits, f"{names[0]} must be less than {names[1]}, got {low} and {high}")
