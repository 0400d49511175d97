"""Conversion and checks of the samplers' arguments: keys, shapes, dtypes and parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, PullbackError, ShapeError
from pullback.functions.arguments import converted_argument, shape_argument
from pullback.functions.shape import spread_to_shape
from pullback.graph.dtypes import DType, float64, promote_dtypes, uint32
from pullback.graph.node import Node
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import (
    NUMBERS,
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_operand,
)
from pullback.lazy.settings import current, user_dtype
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.prelude import broadcast_shapes
from pullback.typing import ArrayLike, DTypeLike, Shape


def random_key_argument(op: str, key: ArrayLike) -> Node:
    """Return the node of a key; raise unless it is a single key."""
    error: type[PullbackError] = ArgumentError
    got, hint = type(key).__name__, "Make one from an integer with pb.random.key(seed)."
    if isinstance(key, (Tensor, np.ndarray)):
        node = node_of(as_tensor(key))
        dtype, shape = node.type.dtype, node.type.shape
        if dtype is uint32 and shape == (2,):
            return node
        error, got = DTypeError if dtype is not uint32 else ShapeError, str(node.type)
        if dtype is uint32 and shape[1:] and shape[-1] == 2:
            hint = "These are several keys: select one of them, as in keys[0]."
    raise error(f"key must be u32[2], got {got}", op=op, hint=hint)


def random_dtype_argument(
    op: str, dtype: DTypeLike | None, *parameters: ArrayLike, kinds: str = "f"
) -> DType:
    """Return the requested dtype, else the promoted dtype of the parameters, else the default."""
    if dtype is None:
        given = [as_tensor(p).dtype for p in parameters if isinstance(p, (Tensor, np.ndarray))]
        given = [d for d in given if d.kind in kinds]
        return reduce(promote_dtypes, given) if given else current().default_dtype
    requested = user_dtype(op, dtype)
    if requested.kind not in kinds:
        expected = "float or complex" if "c" in kinds else "float"
        raise DTypeError(f"dtype must be {expected}, got {requested}", op=op)
    return requested


def random_parameter_argument(op: str, value: ArrayLike, dtype: DType) -> Node:
    """Return a parameter of a distribution as a node of the given float dtype."""
    value = operator_number(value)
    if isinstance(value, complex):
        raise DTypeError(f"parameters must be real, got {value}", op=op)
    if type(value) in NUMBERS:
        return scalar_operator_operand(float(value), dtype)  # type: ignore[arg-type]
    if isinstance(value, TracedNumber) and value.kind is not complex:
        return value.cast(dtype)
    if not isinstance(value, (Tensor, np.ndarray)):
        return node_of(asarray(value, dtype))  # numbers in a list have no dtype of their own
    node = node_of(as_tensor(value))
    if node.type.dtype.is_complex:
        raise DTypeError(f"parameters must be real, got {node.type}", op=op)
    return cast_node(node, dtype)


def sample_shape_argument(op: str, shape: Shape | None, *parameters: Node) -> tuple[int, ...]:
    """Return the requested shape, to which parameters must broadcast; default: their own."""
    shapes = [p.type.shape for p in parameters]
    if shape is None:
        return converted_argument(op, broadcast_shapes, (), *shapes)
    wanted = shape_argument(op, shape)
    for given in shapes:
        pairs = zip(reversed(given), reversed(wanted))
        if len(given) > len(wanted) or any(n not in (1, m) for n, m in pairs):
            message = f"parameters must broadcast to shape {list(wanted)}, got {list(given)}"
            raise ShapeError(message, op=op)
    return wanted


def known_random_argument(value: ArrayLike) -> np.ndarray | None:
    """Return a parameter given as Python numbers or an array; None for tensors."""
    if not _is_known_random_argument(value):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # of different lengths: reported when it becomes a tensor
        return None
    return array if array.dtype.kind in "biuf" or array.dtype == object else None


def _is_known_random_argument(value: ArrayLike) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_known_random_argument, value))
    return not isinstance(value, (Tensor, TracedNumber))


def require_random_argument(
    op: str, test: Callable[..., Any], message: str, *values: ArrayLike
) -> None:
    """Raise ArgumentError unless all elements of `test(*values)` are true, if values are known."""
    arrays = [known_random_argument(v) for v in values]
    if any(a is None for a in arrays):
        return
    try:
        with np.errstate(all="ignore"):
            holds = bool(np.all(test(*arrays)))
    except ValueError:  # not broadcastable: `sample_shape_argument` reports that
        return
    except TypeError:  # not numbers: the check says what must hold
        holds = False
    if not holds:
        got = f", got {' and '.join(map(str, values))}" if values else ""
        raise ArgumentError(message + got, op=op)


def require_positive_random_argument(op: str, **parameters: ArrayLike) -> None:
    for name, value in parameters.items():
        require_random_argument(op, lambda x: x > 0, f"{name} must be positive", value)


def spread_random_arguments(op: str, shape: Shape | None, *values: ArrayLike) -> list[Tensor]:
    """Return parameters in f64, broadcast to the shape of the samples."""
    given = [random_parameter_argument(op, v, float64) for v in values]
    wanted = sample_shape_argument(op, shape, *given)
    return [spread_to_shape(wrap(g), wanted) for g in given]
