"""Warn where float64 that NumPy chose by default widens a computation in a narrower dtype.

A tensor made from a NumPy array keeps its dtype, and that of most arrays is float64. The leaf of
such a tensor has a marked line; where promotion converts an operand to 64 bits, the other operands
are followed back to a marked leaf. Recording anything else costs nothing.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import PrecisionWarning
from pullback.graph.dtypes import DType, complex128, float64
from pullback.graph.node import Node
from pullback.graph.source_lines import SourceLine, stack_level, user_line
from pullback.lazy.settings import current

WIDE = frozenset((float64, complex128))  # looked up by identity
_MOST = 1000  # nodes that are looked at
_warned: set[SourceLine | None] = set()
# Wide operands above which no mark was found: a loop that widens at each step asks for each result
_unmarked: weakref.WeakSet[Node] = weakref.WeakSet()
# Lists and numbers that were operands, with their values in 64 bits: their dtype is a default of
# ours and means nothing, so that next to a wide operand they must not have lost digits
numbers_of_user: weakref.WeakKeyDictionary[Node, np.ndarray] = weakref.WeakKeyDictionary()


def mark_number_precision(made: Node, value: Any) -> None:
    """Keep the digits of floats that a user gave as a list or as a number."""
    dtype = made.type.dtype
    if dtype.is_inexact and dtype not in WIDE and not made.inputs:
        numbers_of_user[made] = np.array(value)


class NumpyPrecisionLine(SourceLine):
    """The line where an array with NumPy's default dtype became a tensor."""


def mark_numpy_precision(made: Node) -> None:
    """Mark the leaf of a tensor that is made from an array with its own dtype."""
    if made.type.dtype in WIDE and (line := user_line()) is not None:
        made.where = NumpyPrecisionLine(*line)


def follow_numpy_precision(argument: Any, placeholder: Node) -> None:
    """Mark the placeholder of an argument that is a marked tensor."""
    where = getattr(getattr(argument, "_node", None), "where", None)
    if isinstance(where, NumpyPrecisionLine):
        placeholder.where = where


def warn_of_widening(nodes: Sequence[Any], dtype: DType) -> None:
    """Warn, once at each line, if a float operand is converted to `dtype` because of NumPy."""
    settings = current()
    if not settings.precision_warnings or settings.default_dtype is float64:
        return
    own = [x for x in nodes if isinstance(x, Node) and x not in numbers_of_user]
    kinds = [x.type.dtype for x in own]
    narrow = next((d for d in kinds if d.is_inexact and d.real.bits < 64), None)
    if narrow is None or (line := user_line()) in _warned:
        return
    source = _numpy_precision_mark_above([x for x in own if x.type.dtype in WIDE])
    if source is not None:
        warnings.warn(
            f"{narrow} becomes {dtype} here, because of a NumPy array that became a tensor at "
            f"{source}: the default dtype of NumPy is float64. Convert it there, such as with "
            'pb.tensor(array, dtype="float32"), or call pb.config(precision_warnings=False).',
            PrecisionWarning,
            stacklevel=stack_level(),
        )
        _warned.add(line)


def _numpy_precision_mark_above(nodes: list[Node]) -> SourceLine | None:
    """Return the line of a marked leaf among what wide nodes were computed from."""
    seen: set[Node] = set()
    stack = list(nodes)
    while stack and len(seen) < _MOST:
        node = stack.pop()
        if isinstance(node.where, NumpyPrecisionLine) and not node.inputs:
            return node.where
        if node not in seen and node not in _unmarked:
            seen.add(node)
            stack += [x for x in node.inputs if _is_wide_precision(x.type)]
    _unmarked.update(nodes)
    return None


def _is_wide_precision(type: Any) -> bool:
    """Whether a value, or a result of an op with several, has 64 bits for a number."""
    return any(map(_is_wide_precision, type)) if isinstance(type, tuple) else type.dtype in WIDE
