"""Which of several writes to a position is the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import bool_
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.helpers import spread_all
from pullback.ops.index.bounds import index_within_bounds, require_index_within_bounds
from pullback.ops.index.index_lowering import lower_last_index_writes
from pullback.ops.index.indexing import index_shape, index_with_shared
from pullback.ops.prelude import Axis, Node, Op, Parts, Type


class LastWrite(Op):
    """Whether each position that index arrays select is not selected again later, in row-major
    order.

    `extents` are the sizes of the indexed dimensions. Positions of different parts along the
    first `batched` dimensions are never the same.
    """

    extents: tuple[int, ...]
    batched: int = 0
    differentiable: ClassVar[bool] = False  # from integers to bools
    fallible: ClassVar[bool] = True
    parts = Parts(positions=0)

    def infer(self, *indices: Type) -> Type:
        shape = index_shape(range(len(self.extents)), Type(self.extents, bool_), indices)
        return Type(shape, bool_)

    def numpy(self, *indices: np.ndarray) -> np.ndarray:
        found = index_within_bounds(indices, range(len(self.extents)), self.extents)
        positions = np.broadcast_arrays(*index_with_shared(found, self.batched))
        columns = [p.ravel().tolist() for p in positions]
        last = {position: i for i, position in enumerate(zip(*columns, strict=True))}
        out = np.zeros(positions[0].size, bool)
        out[list(last.values())] = True
        return out.reshape(positions[0].shape)

    def hlo(self, b: Any, out: Type, *indices: Any) -> Any:
        require_index_within_bounds(b, indices, range(len(self.extents)), self.extents)
        return lower_last_index_writes(b, indices, self.extents, self.batched)

    def factors(self, *indices: Type) -> str:
        rank = indices[0].rank
        return alike_factor_rule(rank, tuple(range(self.batched, rank)), len(indices))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return LastWrite(self.extents, self.batched + 1)(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        yield cls((4,)), (np.array([2, 0, 2, 3, 2, 0], np.int64),)
        rows, columns = np.array([[1, 1], [0, 1]], np.uint8), np.array([[9, 3], [9, 9]], np.int16)
        yield cls((2, 300)), (rows, columns + np.int16(290))
        yield cls((3,)), (np.int64(1),)
        yield cls((3,)), (np.zeros((0, 2), np.int32),)
        yield cls((4,), 1), (np.array([[1, 3, 1], [3, 3, 0]], np.int64),)
