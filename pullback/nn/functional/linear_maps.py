"""Linear maps, bilinear forms and tables of vectors."""

from __future__ import annotations

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, float_arguments
from pullback.functions.composed import composed
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.loss_arguments import loss_class_indices
from pullback.typing import ArrayLike


@composed
def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Tensor:
    """Return `x @ weight.T + bias` for x [..., in], weight [out, in] or [in], and bias [out] or [].

    >>> pb.nn.functional.linear([1.0, 2.0], [[3.0, 4.0]], [0.5]).tolist()
    [11.5]
    """
    a, w = map(wrap, float_arguments(x, weight))
    if not a.ndim or w.ndim not in (1, 2) or a.shape[-1] != w.shape[-1]:
        given = f"got {a._node.type} and {w._node.type}"
        raise ShapeError(f"needs x [..., in] and weight [out, in], {given}")
    y = pf.matmul(a, pf.matrix_transpose(w) if w.ndim == 2 else w)
    return _linear_with_bias(y, bias, w.shape[:-1])


def _linear_with_bias(y: Tensor, bias: ArrayLike | None, shape: tuple[int, ...]) -> Tensor:
    if bias is None:
        return y
    b = as_tensor(bias)
    if b.shape != shape:
        raise ShapeError(f"bias must have shape {list(shape)}, got {b._node.type}")
    return y + b


@composed
def bilinear(
    x1: ArrayLike, x2: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None
) -> Tensor:
    """Return `x1 @ weight[k] @ x2 + bias[k]` for each k, along the last axis.

    The shapes are x1 [..., in1], x2 [..., in2], weight [out, in1, in2] and bias [out].

    >>> pb.nn.functional.bilinear([1.0, 2.0], [3.0], [[[1.0], [10.0]]]).tolist()
    [63.0]
    """
    a, b, w = map(wrap, float_arguments(x1, x2, weight))
    fits = w.ndim == 3 and a.ndim and b.ndim and w.shape[1:] == (a.shape[-1], b.shape[-1])
    if not fits:
        given = f"got {a._node.type}, {b._node.type} and {w._node.type}"
        raise ShapeError(f"needs [..., in1], [..., in2] and weight [out, in1, in2], {given}")
    y = pf.einsum("...i,oij,...j->...o", a, w, b)
    return _linear_with_bias(y, bias, w.shape[:1])


@composed
def embedding(x: ArrayLike, weight: ArrayLike, padding_idx: int | None = None) -> Tensor:
    """Return the rows of a table [count, size] at integer indices.

    An index out of range, also a negative one, is an error. The row `padding_idx`, which may be
    counted from the end, gets no gradient.

    >>> pb.nn.functional.embedding([2, 0], [[1.0], [2.0], [3.0]]).tolist()
    [[3.0], [1.0]]
    """
    table = as_tensor(weight)
    if table.ndim != 2:
        raise ShapeError(f"weight must be a matrix [count, size], got {table._node.type}")
    count = table.shape[0]
    index, _ = loss_class_indices(x, count, "an index")
    rows = pf.take(table, index, 0)
    if padding_idx is None:
        return rows
    unused = checked_integer_argument("", padding_idx, "padding_idx")
    if not -count <= unused < count:
        raise ArgumentError(f"padding_idx must be an index of {count} rows, got {unused}")
    return pf.where(pf.expand_dims(index == unused % count, -1), rows.detach(), rows)


__all__ = ["bilinear", "embedding", "linear"]
