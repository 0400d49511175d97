"""Dropout: elements, channels or units that are left out at random.

The random numbers come from `key`, else from the block `with pb.nn.rng(key)` around the call, else
from the stream that `pb.nn.seed` starts. The functions do nothing where `training` is false.
"""

from __future__ import annotations

import math

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.activations import SELU_ALPHA, SELU_SCALE
from pullback.functions.arguments import literal_argument
from pullback.functions.composed import composed
from pullback.graph.dtypes import uint32
from pullback.lazy.operators import as_tensor, scalar_operator_operand
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.arguments import Layout, functional_float_argument
from pullback.nn.functional.image_layouts import channel_axis_of_layout
from pullback.nn.keys import next_key
from pullback.random.discrete import bernoulli, bits
from pullback.typing import ArrayLike

_LEAST = -SELU_ALPHA * SELU_SCALE  # where selu is -inf: what alpha_dropout puts in


@composed
def dropout(
    x: ArrayLike, p: float = 0.5, training: bool = True, *, key: ArrayLike | None = None
) -> Tensor:
    """Replace each element by 0 with probability `p`, and divide the others by 1 - p.

    >>> pb.nn.functional.dropout(pb.ones(4), 0.75, key=pb.random.key(2)).tolist()
    [0.0, 0.0, 4.0, 0.0]
    """
    a = functional_float_argument(x)
    return _dropped(a, a.shape, p, training, key)


@composed
def feature_dropout(
    x: ArrayLike, p: float = 0.5, training: bool = True, *, key: ArrayLike | None = None,
    layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Replace whole channels of each example by 0 with probability `p`; see `dropout`.

    PyTorch calls it dropout1d, dropout2d and dropout3d, by the number of spatial dimensions.

    >>> x = pb.nn.functional.feature_dropout(pb.ones((1, 2, 3)), key=pb.random.key(1))
    >>> x.tolist()
    [[[2.0, 0.0, 2.0], [2.0, 0.0, 2.0]]]
    """
    a = functional_float_argument(x)
    return _dropped(a, _dropout_per_feature(a, layout), p, training, key)


@composed
def alpha_dropout(
    x: ArrayLike, p: float = 0.5, training: bool = True, *, key: ArrayLike | None = None
) -> Tensor:
    """Replace elements by the least value of `selu` with probability `p`, then scale and shift.

    Mean 0 and variance 1 are kept (Klambauer et al., 2017).

    >>> pb.nn.functional.alpha_dropout([1.0, 1.0], key=pb.random.key(1)).tolist()
    [1.665..., -0.779...]
    """
    a = functional_float_argument(x)
    return _alpha_dropped(a, a.shape, p, training, key)


@composed
def feature_alpha_dropout(
    x: ArrayLike, p: float = 0.5, training: bool = True, *, key: ArrayLike | None = None,
    layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Apply `alpha_dropout` to whole channels of each example.

    >>> pb.nn.functional.feature_alpha_dropout(pb.ones((1, 2, 3)), key=pb.random.key(1)).shape
    (1, 2, 3)
    """
    a = functional_float_argument(x)
    return _alpha_dropped(a, _dropout_per_feature(a, layout), p, training, key)


def _dropout_mask(
    shape: tuple[int, ...], p: float, training: bool, key: ArrayLike | None
) -> Tensor | None:
    """A mask of what stays, `None` for all of it."""
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise ArgumentError(f"p must be a probability, from 0 to 1, got {p}")
    if not training or (not isinstance(p, Tensor) and p == 0):
        return None
    used = next_key("dropout") if key is None else key
    if isinstance(p, Tensor):
        return bernoulli(used, 1 - p, shape)
    # 32 bits for each element take half as long as a sample to within 2**-64
    limit = min(round((1 - p) * 2**32), 2**32 - 1)
    return bits(used, shape) < wrap(scalar_operator_operand(limit, uint32))


def _dropped(
    a: Tensor, shape: tuple[int, ...], p: float, training: bool, key: ArrayLike | None
) -> Tensor:
    kept = _dropout_mask(shape, p, training, key)
    if kept is None:
        return a
    zero = literal_argument(0, a.dtype)
    if not isinstance(p, Tensor):
        return pf.where(kept, a / (1 - p) if p < 1 else zero, zero)
    return pf.where(kept, a / as_tensor(1 - p).astype(a.dtype), zero)


def _alpha_dropped(
    a: Tensor, shape: tuple[int, ...], p: float, training: bool, key: ArrayLike | None
) -> Tensor:
    kept = _dropout_mask(shape, p, training, key)
    if kept is None:
        return a
    if p == 1:
        return a * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _LEAST**2))
    return pf.where(kept, a, literal_argument(_LEAST, a.dtype)) * scale - scale * p * _LEAST


def _dropout_per_feature(a: Tensor, layout: str) -> tuple[int, ...]:
    axis = channel_axis_of_layout(a, layout)
    return tuple(n if i in (0, axis) else 1 for i, n in enumerate(a.shape))


__all__ = ["alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout"]
