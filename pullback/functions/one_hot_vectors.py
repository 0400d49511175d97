"""Indices as vectors of zeros and a one."""

from __future__ import annotations

import numpy as np

from pullback.errors import DTypeError, IndexOutOfRange
from pullback.functions import arguments
from pullback.functions.arguments import apply, axis_argument, checked_integer_argument
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import int64
from pullback.lazy.index_plan import index_plan_integers
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.logic import Equal
from pullback.ops.index.checked_index import CheckedIndex
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.squeeze_flip_axes import ExpandDims
from pullback.typing import ArrayLike, DTypeLike


@with_argument_checks
def one_hot(
    x: ArrayLike, num_classes: int, dtype: DTypeLike | None = None, axis: int = -1
) -> Tensor:
    """Return 1 at each index and 0 elsewhere, along a new axis of size `num_classes`.

    An index below 0 or not less than `num_classes` is an error: at once if the indices are known,
    otherwise when the result is read. (`x[..., None] == pb.arange(n)` gives zeros for it.)

    >>> pb.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    given, x = x, as_tensor(x)
    wanted = arguments.dtype_argument("one_hot", dtype, current().default_dtype)
    count = checked_integer_argument("one_hot", num_classes, "num_classes")
    axis = axis_argument("one_hot", axis, x.ndim + 1)
    if not x.dtype.is_integer:
        raise DTypeError(f"indices must be integers, got {x._node.type}", op="one_hot")
    _check_one_hot_classes(index_plan_integers(given), count)
    with record_at_one_line("one_hot"):
        index = record(CheckedIndex(count), (node_of(x),))
    index = index if x.dtype.bits >= 32 else index.astype(int64)
    shape = (*(1,) * axis, count, *(1,) * (x.ndim - axis))
    classes = record(Iota(shape, axis, index.dtype), ())
    column = record(ExpandDims((axis,)), (index._node,))
    return apply(Equal, column._node, classes._node).astype(wanted)


def _check_one_hot_classes(values: np.ndarray | None, count: int) -> None:
    wrong = None if values is None else values[(values < 0) | (values >= count)]
    if wrong is not None and wrong.size:
        what = f"index {wrong[0]} is out of range for {count} classes"
        message = f"{what}: it must be at least 0 and less than {count}"
        raise IndexOutOfRange(message, op="one_hot", index=int(wrong[0]), extent=count)


__all__ = ["one_hot"]
