"""StableHLO reductions and sorts with a program that combines or compares elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.dtypes import bool_, float64, int64
from pullback.graph.graph import Graph
from pullback.graph.types import show_types
from pullback.ops.control.holder import run_held
from pullback.ops.control.masked_examples import masked_one_by_one
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.elementwise.functions import less, where
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.prelude import TABLE, Imported, Node, Op, Type
from pullback.ops.samples import real
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.sources import Input


class ReduceOrSort(Op, abstract=True):
    """Holds a program over scalars; it has no derivative (reductions with one are other ops)."""

    differentiable = False
    imported = Imported(last=True)
    batch = masked_one_by_one


class Reduce(ReduceOrSort):
    """Combines the elements over `axes` with `body`.

    Operands are n tensors of the same shape, then n initial values; `body` takes n scalars
    combined so far and the n next elements.
    """

    axes: tuple[int, ...]
    body: Graph
    imported = Imported(("reduce",), last=True)
    int_fields = ("axes",)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i["dimensions"], i.graphs[0])

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        tensors = check_reduce_operands(self.body, xs)
        check_axes(self.axes, tensors[0].rank)
        shape = [n for i, n in enumerate(tensors[0].shape) if i not in self.axes]
        return tuple([x.with_shape(shape) for x in tensors])

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        k = len(xs) // 2
        tensors, inits = xs[:k], xs[k:]
        kept = [i for i in range(tensors[0].ndim) if i not in self.axes]
        shape = [tensors[0].shape[i] for i in kept]
        count = int(np.prod([tensors[0].shape[i] for i in self.axes], dtype=np.int64))
        rows = [x.transpose(*self.axes, *kept).reshape(count, *shape) for x in tensors]
        total = [np.broadcast_to(i, shape).astype(i.dtype) for i in inits]
        for n in range(count):
            total = reduce_elementwise(self.body, [*total, *[r[n] for r in rows]])
        return tuple(total)

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> tuple:
        body = stablehlo_reduce_region(b, self.body)
        return b.op("stablehlo.reduce", *xs, out=out, regions=body, dimensions=self.axes)

    def factors(self, *xs: Type) -> str:
        k, words = len(xs) // 2, factor_rule_names(xs[0].rank, self.axes)
        kept = [w for w in words if w != "_"]
        return factor_rule([*[words] * k, *[[]] * k], [kept] * k)

    @classmethod
    def samples(cls) -> Any:
        yield cls((1,), _stablehlo_reduce_maximum()), (real(2, 3), np.float64(-1.0))
        yield cls((0, 2), _stablehlo_reduce_maximum()), (real(2, 3, 2), np.float64(-9.0))
        a, i, c, j = (Input(f"x{n}", (), (float64, int64)[n % 2])() for n in range(4))
        first = less(c, a)
        body = Graph((a, i, c, j), (where(first, c, a), where(first, j, i)))
        places = np.arange(6).reshape(2, 3)
        yield cls((1,), body), (real(2, 3), places, np.float64(np.inf), np.int64(-1))
        yield cls((0,), body), (real(0, 3), np.zeros((0, 3), np.int64), np.float64(1), np.int64(0))


class SortBy(ReduceOrSort):
    """The operands sorted together along `axis`; `precedes` compares pairs of their elements.

    It takes two elements of the first operand, two of the second, and so on. Elements that are
    equal in this order keep their order if the sort is `stable`.
    """

    axis: int
    stable: bool
    precedes: Graph
    imported = Imported(("sort",), last=True)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        axis = i.get("dimension", -1)
        return cls(axis % max(i.types[0].rank, 1), i.get("is_stable", False), i.graphs[0])

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        if not xs or any(x.shape != xs[0].shape for x in xs):
            raise ShapeError(
                f"operands must have the same shape, got {show_types(xs)}", code="E3001"
            )
        check_axes((self.axis,), xs[0].rank)
        pairs = [Type((), x.dtype) for x in xs for _ in range(2)]
        check_reduce_body(self.precedes, pairs, [Type((), bool_)])
        return xs

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        lanes = [np.moveaxis(x, self.axis, -1) for x in xs]
        pairs = [y for x in lanes for y in (x[..., :, None], x[..., None, :])]
        shape = (*lanes[0].shape, lanes[0].shape[-1])
        before = np.broadcast_to(reduce_elementwise(self.precedes, pairs)[0], shape)
        # An element's rank is the number of smaller elements and of earlier equal ones.
        equals = ~before & ~np.swapaxes(before, -1, -2)
        earlier = np.tri(before.shape[-1], k=-1, dtype=bool).T
        place = (before | (equals & earlier)).sum(-2)
        made = [np.empty_like(x) for x in lanes]
        for new, old in zip(made, lanes, strict=True):
            np.put_along_axis(new, place, old, -1)
        return tuple([np.moveaxis(x, -1, self.axis) for x in made])

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> tuple:
        return b.op(
            "stablehlo.sort", *xs, out=out, regions=stablehlo_reduce_region(b, self.precedes),
            dimension=self.axis, is_stable=self.stable,
        )  # fmt: skip

    def factors(self, *xs: Type) -> str:
        words = [factor_rule_names(xs[0].rank, (self.axis,))] * len(xs)
        return factor_rule(words, words)

    @classmethod
    def samples(cls) -> Any:
        x, y = (Input(f"x{n}", (), float64)() for n in range(2))
        i, j = (Input(f"x{n}", (), int64)() for n in (2, 3))
        yield cls(0, True, Graph((x, y), (less(y, x),))), (real(5),)
        keys = np.array([[2.0, 1.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0]])
        op = cls(1, True, Graph((x, y, i, j), (less(x, y),)))
        yield op, (keys, np.arange(8).reshape(2, 4))
        yield op, (np.zeros((2, 0)), np.zeros((2, 0), np.int64))


def check_reduce_operands(body: Graph, xs: Sequence[Type]) -> tuple[Type, ...]:
    """Return the tensors among the operands of a reduction; raise if they do not fit `body`."""
    k = len(xs) // 2
    tensors, inits = tuple(xs[:k]), xs[k:]
    if not k or len(xs) % 2:
        raise ArgumentError(
            f"operands must be tensors and as many initial values, got {show_types(xs)}"
        )
    if any(x.shape != tensors[0].shape for x in tensors):
        raise ShapeError(
            f"tensors must have the same shape, got {show_types(tensors)}", code="E3001"
        )
    scalars = [Type((), x.dtype) for x in tensors]
    if list(inits) != scalars:
        raise ShapeError(f"initial values must be {show_types(scalars)}, got {show_types(inits)}")
    check_reduce_body(body, [*scalars, *scalars], scalars)
    return tensors


def check_reduce_body(body: Graph, inputs: Sequence[Type], outputs: Sequence[Type]) -> None:
    """Raise if a program does not have these types."""
    got = [x.type for x in body.inputs], [y.type for y in body.outputs]
    if got != (list(inputs), list(outputs)):
        what = f"the program must map {show_types(inputs)} to {show_types(outputs)}"
        raise ShapeError(f"{what}, got {show_types(got[0])} to {show_types(got[1])}", code="E2001")


def stablehlo_reduce_region(b: Any, body: Graph) -> str:
    """Write `body` as a region of an instruction."""
    return b.region([x.type for x in body.inputs], lambda *xs: b.inline(body, xs))


def reduce_elementwise(body: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a program over scalars on arrays that broadcast, element by element."""
    inner = body.nodes[len(body.inputs) :]
    if not all(isinstance(n.op, Elementwise) or n.op.name in _PLAIN for n in inner):
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        whole = [np.broadcast_to(a, shape) for a in arrays]
        made = [np.empty(shape, y.type.dtype.numpy) for y in body.outputs]
        for place in np.ndindex(shape):
            for out, value in zip(made, run_held(body, [a[place] for a in whole]), strict=True):
                out[place] = value
        return made
    values: dict[Node, Any] = dict(zip(body.inputs, arrays, strict=True))
    for n in inner:
        values[n] = n.op.numpy(*[values[x] for x in n.inputs])
    return [np.asarray(values[y]) for y in body.outputs]


_PLAIN = ("Const", "Cast", "Bitcast", "Direct")  # these also work on arrays of any shape


def _stablehlo_reduce_maximum() -> Graph:
    x, y = (Input(f"x{n}", (), float64)() for n in range(2))
    return Graph((x, y), (TABLE["Maximum"]()(x, y),))


def stablehlo_reduce_sum(dtype: Any) -> Graph:
    """Return the program that adds two scalars."""
    x, y = (Input(f"x{n}", (), dtype)() for n in range(2))
    return Graph((x, y), (x + y,))
