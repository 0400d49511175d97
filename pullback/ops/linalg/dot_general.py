"""The general contraction: paired dimensions are summed over, or kept as batch dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.linalg.contraction import Contraction, Pair, dot_general, numpy_contraction
from pullback.ops.prelude import GRADIENT, Axis, Imported, Node, Op, Type, conjugate, same_dtype
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.movement import Transpose, move_dimension
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.traits import HasSumOverRows


class DotGeneral(Contraction, HasSumOverRows):
    """Sums products over the paired dimensions `contract`, separately for each index of `batch`.

    The result has the batch dimensions, then the other dimensions of the first operand, then those
    of the second.
    """

    contract: Pair
    batched: Pair
    text = GRADIENT
    imported = Imported(("dot_general",), last=True)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        found = i["dot_dimension_numbers"]
        left, right = ([found.get(f"{side}_{w}_dimensions", ()) for side in ("lhs", "rhs")]
                       for w in ("contracting", "batching"))  # fmt: skip
        return cls(tuple(left), tuple(right))

    def __post_init__(self) -> None:
        for field in ("contract", "batched"):
            self.set(field, tuple(tuple(map(int, dims)) for dims in getattr(self, field)))

    def infer(self, x: Type, y: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, x, y), self.kinds)
        for side, operand in enumerate((x, y)):
            check_axes((*self.batched[side], *self.contract[side]), operand.rank)
        for name, (left, right) in (("contracted", self.contract), ("batch", self.batched)):
            shapes = [x.shape[i] for i in left], [y.shape[i] for i in right]
            if shapes[0] != shapes[1]:
                got = f"{list(left)} of {x} and {list(right)} of {y}"
                raise ShapeError(f"{name} dimensions must agree, got {got}", code="E3003")
        shape = [x.shape[i] for i in (*self.batched[0], *self.free(0, x.rank))]
        return x.with_shape((*shape, *(y.shape[i] for i in self.free(1, y.rank))))

    def products(self, xs: Sequence[Type]) -> int:
        return self.type_of(*xs).size * math.prod([xs[0].shape[i] for i in self.contract[0]])

    def free(self, side: int, rank: int) -> tuple[int, ...]:
        """The dimensions of an operand that are neither summed over nor batch dimensions."""
        used = (*self.contract[side], *self.batched[side])
        return tuple(i for i in range(rank) if i not in used)

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        (cx, cy), (bx, by) = self.contract, self.batched
        fx, fy = self.free(0, x.ndim), self.free(1, y.ndim)
        batch, rows = [x.shape[i] for i in bx], [x.shape[i] for i in fx]
        columns, inner = [y.shape[i] for i in fy], [x.shape[i] for i in cx]
        m, n, k = (int(np.prod(dims, dtype=np.int64)) for dims in (rows, columns, inner))
        left = x.transpose(*bx, *fx, *cx).reshape(*batch, m, k)
        right = y.transpose(*by, *cy, *fy).reshape(*batch, k, n)
        return numpy_contraction(left, right).reshape((*batch, *rows, *columns))

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        if (
            len(self.contract[0]) > 1
            and not self.batched[0]
            and all(map(_adjacent_dot_dims, self.contract))
        ):
            # Merge adjacent dimensions into one: XLA would transpose for several.
            first = tuple([(dims[0],) for dims in self.contract])
            pairs = zip((x, y), self.contract, strict=True)
            x, y = [b.reshape(v, _merged_dot_dims(v.shape, dims)) for v, dims in pairs]
            return dot_general(b, x, y, first, self.batched)  # type: ignore[arg-type]
        return dot_general(b, x, y, self.contract, self.batched)

    def factors(self, x: Type, y: Type) -> str:
        return _dot_general_rule(self.contract, self.batched, (x.rank, y.rank))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self._pull(side, g, xs) if need[side] else None for side in (0, 1)]

    def _pull(self, side: int, g: Node, xs: tuple[Node, ...]) -> Node:
        """g contracted with the other operand over the other's free dimensions."""
        x, other = xs[side], xs[1 - side]
        mine, theirs = self.free(side, x.type.rank), self.free(1 - side, other.type.rank)
        batch = tuple(range(len(self.batched[0])))
        start = len(batch) + (0 if side else len(mine))
        of_g = tuple(range(start, start + len(theirs)))
        pulled = DotGeneral((of_g, theirs), (batch, self.batched[1 - side]))(g, conjugate(other))
        # The result has the batch, then mine, then the contracted dimensions in the other's order.
        paired = dict(zip(self.contract[1 - side], self.contract[side], strict=True))
        order = (*self.batched[side], *mine, *(paired[i] for i in sorted(paired)))
        perm = tuple(order.index(i) for i in range(len(order)))
        return pulled if perm == tuple(range(len(perm))) else Transpose(perm)(pulled)

    def sum_over_rows(self, x: Node, y: Node) -> Node:
        (cx, cy), (bx, by) = (
            _dot_dims_behind(pair, (True, True)) for pair in (self.contract, self.batched)
        )
        return DotGeneral(((0, *cx), (0, *cy)), (bx, by))(x, y)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        own = [self.free(side, x.type.rank - has) for side, (x, has) in enumerate(zip(xs, mapped))]
        contract, batched = (
            _dot_dims_behind(self.contract, mapped),
            _dot_dims_behind(self.batched, mapped),
        )
        if all(mapped):
            return DotGeneral(contract, ((0, *batched[0]), (0, *batched[1])))(*xs)
        # A mapped axis that only one operand has is the first of that operand's free dimensions.
        at = len(self.batched[0])
        if mapped[1] and own[0] and not own[1]:  # swapped, nothing comes before it
            swapped = DotGeneral((contract[1], contract[0]), (batched[1], batched[0]))
            return move_dimension(swapped(xs[1], xs[0]), at, 0)
        return move_dimension(DotGeneral(contract, batched)(*xs), at + mapped[1] * len(own[0]), 0)

    @classmethod
    def samples(cls) -> Any:
        yield cls(((1,), (0,)), ((), ())), (real(3, 4), real(4, 2, salt=1))
        yield cls(((3, 1), (0, 2)), ((2,), (1,))), (real(2, 3, 4, 5), real(5, 4, 3, 2, salt=1))
        yield cls(((), ()), ((), ())), (real(2, 3), real(4, salt=1))
        yield cls(((0, 1), (1, 0)), ((), ())), (real(2, 3), real(3, 2, salt=1))
        yield cls(((), ()), ((0, 1), (1, 0))), (real(2, 3), real(3, 2, 2, salt=1))
        yield (
            cls(((1,), (1,)), ((0,), (0,))),
            (complex_samples(2, 3, 2), complex_samples(2, 3, salt=1)),
        )
        yield cls(((1,), (0,)), ((), ())), (real(3, 0), real(0, 2))


@lru_cache(maxsize=1024)  # the rule is the same for all shapes
def _dot_general_rule(contract: Pair, batched: Pair, ranks: tuple[int, int]) -> str:
    sides = factor_rule_names(ranks[0], letter="m"), factor_rule_names(ranks[1], letter="n")
    for letter, pair in (("b", batched), ("k", contract)):
        for i, dims in enumerate(zip(*pair, strict=True)):
            for side, d in zip(sides, dims, strict=True):
                side[d] = f"{letter}{i}"
    out = [w for w in sides[0] if w[0] == "m"] + [w for w in sides[1] if w[0] == "n"]
    return factor_rule(sides, [[*[f"b{i}" for i in range(len(batched[0]))], *out]])


def _adjacent_dot_dims(dims: tuple[int, ...]) -> bool:
    """Whether each dimension follows the one before."""
    return dims == tuple(range(dims[0], dims[0] + len(dims)))


def _merged_dot_dims(shape: Sequence[int], dims: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with adjacent dimensions merged."""
    first, last = dims[0], dims[-1] + 1
    return (*shape[:first], math.prod(shape[first:last]), *shape[last:])


def _dot_dims_behind(pair: Pair, mapped: Sequence[bool]) -> Pair:
    """The same dimensions of operands with a mapped axis in front."""
    left, right = [tuple([d + has for d in dims]) for dims, has in zip(pair, mapped, strict=True)]
    return left, right
