"""Contractions: matrix products and their general form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from pullback.ir.dtypes import DType
from pullback.ir.errors import AxisError, ShapeError
from pullback.ops.base import (
    TABLE,
    Axis,
    Node,
    Op,
    Type,
    broadcast_shapes,
    conjugate,
    same_dtype,
)
from pullback.ops.elementwise.base import align, check_kind
from pullback.ops.factoring import named, rule
from pullback.ops.movement import Transpose, moved
from pullback.ops.sample import complexes, real

Pair = tuple[tuple[int, ...], tuple[int, ...]]


class Contraction(Op, abstract=True):
    """A product of two operands, linear in each: its forward rule is the product rule."""

    kinds: ClassVar[str] = "iufc"
    product: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = (0, 1)
    instructions = ("dot_general",)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node:
        (x, y), (s, t) = xs, ts
        terms = [self(s, y)] if s is not None else []
        if t is not None:
            terms.append(self(x, t))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]


class DotGeneral(Contraction):
    """Sums products over the paired dimensions `contract`, separately for each index of `batch`.

    The result has the batch dimensions, then what is left of the first operand, then of the
    second.
    """

    contract: Pair
    batched: Pair
    profile = "core-v1+gradient"
    reads_last = True

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
        check_kind(same_dtype(self.title, x, y), self.kinds)
        for side, operand in enumerate((x, y)):
            _check_dims((*self.batched[side], *self.contract[side]), operand)
        for word, (left, right) in (("contracted", self.contract), ("batch", self.batched)):
            shapes = [x.shape[i] for i in left], [y.shape[i] for i in right]
            if shapes[0] != shapes[1]:
                got = f"{list(left)} of {x} and {list(right)} of {y}"
                raise ShapeError(f"{word} dimensions must agree, got {got}", code="E3003")
        shape = [x.shape[i] for i in (*self.batched[0], *self.free(0, x.rank))]
        return x.with_shape((*shape, *(y.shape[i] for i in self.free(1, y.rank))))

    def free(self, side: int, rank: int) -> tuple[int, ...]:
        """The dimensions of an operand that appear in the result as its own."""
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
        return matmul(left, right).reshape((*batch, *rows, *columns))

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        if len(self.contract[0]) > 1 and not self.batched[0] and all(map(_are_one, self.contract)):
            # as one dimension: XLA would transpose for several
            first = tuple([(dims[0],) for dims in self.contract])
            pairs = zip((x, y), self.contract, strict=True)
            x, y = [b.reshape(v, _merged(v.shape, dims)) for v, dims in pairs]
            return dot_general(b, x, y, first, self.batched)  # type: ignore[arg-type]
        return dot_general(b, x, y, self.contract, self.batched)

    def factors(self, x: Type, y: Type) -> str:
        return _dot_rule(self.contract, self.batched, (x.rank, y.rank))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self._pull(side, g, xs) if need[side] else None for side in (0, 1)]

    def _pull(self, side: int, g: Node, xs: tuple[Node, ...]) -> Node:
        """g contracted with the other operand over the other's own dimensions."""
        x, other = xs[side], xs[1 - side]
        mine, theirs = self.free(side, x.type.rank), self.free(1 - side, other.type.rank)
        batch = tuple(range(len(self.batched[0])))
        start = len(batch) + (0 if side else len(mine))
        of_g = tuple(range(start, start + len(theirs)))
        made = DotGeneral((of_g, theirs), (batch, self.batched[1 - side]))(g, conjugate(other))
        # The result has the batch, then mine, then the contracted dimensions in the other's order.
        paired = dict(zip(self.contract[1 - side], self.contract[side], strict=True))
        order = (*self.batched[side], *mine, *(paired[i] for i in sorted(paired)))
        perm = tuple(order.index(i) for i in range(len(order)))
        return made if perm == tuple(range(len(perm))) else Transpose(perm)(made)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        own = [self.free(side, x.type.rank - has) for side, (x, has) in enumerate(zip(xs, mapped))]
        contract, batched = _behind(self.contract, mapped), _behind(self.batched, mapped)
        if all(mapped):
            return DotGeneral(contract, ((0, *batched[0]), (0, *batched[1])))(*xs)
        # A dimension that only one operand has is the first of that operand's own.
        place = len(self.batched[0])
        if mapped[1] and own[0] and not own[1]:  # swapped, nothing stands before it
            swapped = DotGeneral((contract[1], contract[0]), (batched[1], batched[0]))
            return moved(swapped(xs[1], xs[0]), place, 0)
        return moved(DotGeneral(contract, batched)(*xs), place + mapped[1] * len(own[0]), 0)

    @classmethod
    def samples(cls) -> Any:
        yield cls(((1,), (0,)), ((), ())), (real(3, 4), real(4, 2, salt=1))
        yield cls(((3, 1), (0, 2)), ((2,), (1,))), (real(2, 3, 4, 5), real(5, 4, 3, 2, salt=1))
        yield cls(((), ()), ((), ())), (real(2, 3), real(4, salt=1))
        yield cls(((0, 1), (1, 0)), ((), ())), (real(2, 3), real(3, 2, salt=1))
        yield cls(((), ()), ((0, 1), (1, 0))), (real(2, 3), real(3, 2, 2, salt=1))
        yield cls(((1,), (1,)), ((0,), (0,))), (complexes(2, 3, 2), complexes(2, 3, salt=1))
        yield cls(((1,), (0,)), ((), ())), (real(3, 0), real(0, 2))


@lru_cache(maxsize=1024)  # it is the same for all shapes
def _dot_rule(contract: Pair, batched: Pair, ranks: tuple[int, int]) -> str:
    sides = named(ranks[0], letter="m"), named(ranks[1], letter="n")
    for word, pair in (("b", batched), ("k", contract)):
        for i, dims in enumerate(zip(*pair, strict=True)):
            for side, d in zip(sides, dims, strict=True):
                side[d] = f"{word}{i}"
    out = [w for w in sides[0] if w[0] == "m"] + [w for w in sides[1] if w[0] == "n"]
    return rule(sides, [[*[f"b{i}" for i in range(len(batched[0]))], *out]])


class MatMul(Contraction):
    """The product of matrices in the last two dimensions; those before them broadcast."""

    title = "matmul"
    profile = "core-v1"

    def infer(self, x: Type, y: Type) -> Type:
        if x.rank < 2 or y.rank < 2:
            what = f"operands must have rank 2 or more, got {x} @ {y}"
            raise ShapeError(what, code="E3002", ranks=(x.rank, y.rank))
        check_kind(same_dtype(self.title, x, y), self.kinds)
        if x.shape[-1] != y.shape[-2]:
            what = f"inner dimensions must agree, got {x} @ {y}"
            raise ShapeError(what, code="E3003", extents=(x.shape[-1], y.shape[-2]))
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return x.with_shape((*batch, x.shape[-2], y.shape[-1]))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return matmul(x, y)

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        # A batch dimension that only one operand has is one of that operand's own dimensions:
        # it is not repeated in memory.
        rank = len(out.shape)
        x, own = _without_ones(b, x, rank)
        y, others = _without_ones(b, y, rank)
        missing = [i for i in others if i not in own]
        copies = x.type.size * math.prod([out.shape[i] for i in missing])
        if missing and 2 * copies < y.type.size + out.size:
            # Else `y` and the result would be turned, for y's own dimensions belong between the
            # rows: a small `x` is cheaper to repeat.
            places = sorted([*own, *missing])
            kept, count = [places.index(i) for i in own], len(places)
            shape = (*[out.shape[i] for i in places], *x.shape[-2:])
            x = b.broadcast_in_dim(x, shape, [*kept, count, count + 1])
            own = places
        inner = rank  # no place in the result
        at_x, at_y = [*own, rank - 2, inner], [*others, inner, rank - 1]
        shared = [i for i in own if i in others]
        batch = tuple(at_x.index(i) for i in shared), tuple(at_y.index(i) for i in shared)
        made = dot_general(b, x, y, ((at_x.index(inner),), (at_y.index(inner),)), batch)
        order = [*shared, *(i for i in (*at_x, *at_y) if i not in shared and i != inner)]
        if order != sorted(order):
            made = b.transpose(made, [order.index(i) for i in sorted(order)])
        return b.reshape(made, out.shape)

    def factors(self, x: Type, y: Type) -> str:
        return "... m k, ... k n -> ... m n"

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        left = self(g, adjoint(y)) if need[0] else None
        right = None
        if need[1] and x.type.rank > 2 and y.type.rank == 2:
            # one product over all rows: a sum of products would take more memory, and rows as one
            # dimension could not be split along several axes of a mesh
            rows = tuple(range(x.type.rank - 1))
            right = DotGeneral((rows, rows), ((), ()))(conjugate(x), g)
        elif need[1]:
            right = self(adjoint(x), g)
        return [left, right]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        rank = max(x.type.rank - has for x, has in zip(xs, mapped, strict=True))
        return self(*[align(x, rank) if has else x for x, has in zip(xs, mapped, strict=True)])

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), real(4, 2, salt=1))
        yield cls(), (real(2, 1, 3, 4), real(1, 5, 4, 6, salt=1))
        yield cls(), (real(2, 3, 4), real(4, 5, salt=1))
        yield cls(), (real(2, 3), real(4, 3, 2, salt=1))
        yield cls(), (real(2, 3, 2, 4), real(3, 4, 3, salt=1))
        yield cls(), (real(1, 3, 4), real(1, 4, 2, salt=1))
        yield cls(), (complexes(2, 2, 3), complexes(3, 2, salt=1))
        for left, right in (((3, 0), (0, 2)), ((0, 3), (3, 2)), ((0, 2, 3), (3, 2))):
            yield cls(), (real(*left), real(*right))


class Dot(Contraction):
    """The product of vectors and matrices: the last dimension of x with the first of y."""

    profile = "core-v1"

    def infer(self, x: Type, y: Type) -> Type:
        if not {x.rank, y.rank} <= {1, 2}:
            what = f"operands must have rank 1 or 2, got {x} and {y}"
            raise ShapeError(what, code="E3002", ranks=(x.rank, y.rank))
        check_kind(same_dtype(self.title, x, y), self.kinds)
        if x.shape[-1] != y.shape[0]:
            what = f"inner dimensions must agree, got {x} and {y}"
            raise ShapeError(what, code="E3003", extents=(x.shape[-1], y.shape[0]))
        return x.with_shape((*x.shape[:-1], *y.shape[1:]))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(matmul(x, y))

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return dot_general(b, x, y, ((len(x.shape) - 1,), (0,)), ((), ()))

    def factors(self, x: Type, y: Type) -> str:
        return rule([["m", "k"][-x.rank :], ["k", "n"][: y.rank]],
                    [["m"][: x.rank - 1] + ["n"][: y.rank - 1]])  # fmt: skip

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        if x.type.rank == y.type.rank == 2:
            return MatMul().vjp(g, out, xs, need)
        left = right = None
        if need[0]:
            if y.type.rank == 2:
                left = self(g, adjoint(y))
            else:
                left = (as_column(g) if x.type.rank == 2 else g) * conjugate(y)
        if need[1]:
            if x.type.rank == 2:
                right = self(adjoint(x), g)
            else:
                right = conjugate(as_column(x) if y.type.rank == 2 else x) * g
        return [left, right]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        ranks = [x.type.rank - has for x, has in zip(xs, mapped, strict=True)]
        if ranks == [2, 2]:
            return MatMul().batch(axis, xs, mapped)
        if ranks[0] == 1 and not mapped[1]:
            return self(*xs)
        return DotGeneral(((ranks[0] - 1,), (0,)), ((), ())).batch(axis, xs, mapped)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4), real(4, salt=1))
        yield cls(), (real(3, 4), real(4, salt=1))
        yield cls(), (real(3), real(3, 2, salt=1))
        yield cls(), (real(3, 2), real(2, 4, salt=1))
        yield cls(), (complexes(3, 2), complexes(2, salt=1))
        yield cls(), (complexes(2), complexes(2, 3, salt=1))
        yield cls(), (real(0), real(0))


# -- words of this family -----------------------------------------------------------------------


def adjoint(x: Node) -> Node:
    """The last two dimensions swapped, and the conjugate taken."""
    return conjugate(_swap(x.type.rank)(x))


@cache
def _swap(rank: int) -> Op:
    return Transpose((*range(rank - 2), rank - 1, rank - 2))


def _are_one(dims: tuple[int, ...]) -> bool:
    """Whether dimensions follow each other, in their order."""
    return dims == tuple(range(dims[0], dims[0] + len(dims)))


def _merged(shape: Sequence[int], dims: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with neighbouring dimensions as one."""
    first, last = dims[0], dims[-1] + 1
    return (*shape[:first], math.prod(shape[first:last]), *shape[last:])


def as_column(x: Node) -> Node:
    return TABLE["Reshape"]((*x.type.shape, 1))(x)


def wide(x: np.ndarray) -> np.ndarray:
    """`x` in the element type that sums of products are kept in: f32 for the short floats."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.matmul(wide(x), wide(y)).astype(x.dtype)


def precision(dtype: DType) -> str:
    """f32 is true f32 on every device; the short floats are exact in every unit."""
    word = "DEFAULT" if dtype.is_float and dtype.bits < 32 else "HIGHEST"
    return f"[#stablehlo<precision {word}>, #stablehlo<precision {word}>]"


def dot_general(b: Any, x: Any, y: Any, contract: Pair, batch: Pair) -> Any:
    """The instruction; engines sum short floats in f32 and round once."""
    left, right = (set(contract[i]) | set(batch[i]) for i in (0, 1))
    shape = [x.shape[i] for i in batch[0]]
    shape += [n for i, n in enumerate(x.shape) if i not in left]
    shape += [n for i, n in enumerate(y.shape) if i not in right]
    numbers = ", ".join(
        f"{side}_{word}_dimensions = {list(dims)}"
        for word, pair in (("batching", batch), ("contracting", contract))
        for side, dims in zip(("lhs", "rhs"), pair, strict=True)
    )
    return b.op(
        "stablehlo.dot_general", x, y, out=Type(tuple(shape), x.dtype),
        dot_dimension_numbers=f"#stablehlo.dot<{numbers}>", precision_config=precision(x.dtype),
    )  # fmt: skip


def _without_ones(b: Any, x: Any, rank: int) -> tuple[Any, list[int]]:
    """Matrices without their batch dimensions of extent 1, and the places that the remaining
    ones take in a result of the given rank."""
    kept = [i for i, n in enumerate(x.shape[:-2]) if n != 1]
    offset = rank - len(x.shape)
    return b.reshape(x, [*(x.shape[i] for i in kept), *x.shape[-2:]]), [i + offset for i in kept]


def _behind(pair: Pair, mapped: Sequence[bool]) -> Pair:
    """The same dimensions of operands that have one more in front where `mapped`."""
    left, right = [tuple([d + has for d in dims]) for dims, has in zip(pair, mapped, strict=True)]
    return left, right


def _check_dims(dims: Sequence[int], operand: Type) -> None:
    for i, d in enumerate(dims):
        if not 0 <= d < operand.rank:
            raise AxisError(f"dimension {d} is out of range for {operand}", code="E3004")
        if d in dims[:i]:
            raise AxisError(f"dimension {d} of {operand} is named twice", code="E3005")
