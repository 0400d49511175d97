"""Choices: one of several programs runs, and a value says which."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, IndexOutOfRange, ShapeError
from pullback.graph.dtypes import bool_, float64, int32
from pullback.graph.graph import Graph
from pullback.graph.subgraph import embed
from pullback.graph.types import show
from pullback.ops.control import cond_rules, partition
from pullback.ops.control.holder import Holder, held, hold, places_among, run
from pullback.ops.control.varying import Axes, alike, axes_of, union
from pullback.ops.elementwise.base import equal, less, negated
from pullback.ops.index.bounds import require_below
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type
from pullback.ops.samples import real
from pullback.ops.sources import Input
from pullback.ops.wrap.call import check_operands
from pullback.sharding.spec import layout, on_mesh


class Choice(Holder, abstract=True):
    """The results of one of the branches on the operands after the first, which names it."""

    branches: tuple[Graph, ...]

    def infer(self, index: Type, *xs: Type) -> tuple[Type, ...]:
        if index.shape:
            raise ShapeError(f"what is chosen by must have rank 0, got {index}", code="E3002")
        self.check_index(index)
        found = []
        for branch in self.branches:
            check_operands(branch, [x.plain for x in xs])
            found.append(tuple([y.type.plain for y in branch.outputs]))
        for types in found:
            if types != found[0]:
                what = f"branches must give the same types, got {show(found[0])} and {show(types)}"
                raise ShapeError(what, code="E2001")
        return found[0]

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        cond_rules.refuse_collectives(self, types[0].varying)
        return super()._derive_type(types)

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        """What is chosen by an index that varies along an axis varies along it."""
        index, first = xs[0].type.varying, self.branches[0]
        around = [*axes_of(first.inputs), *axes_of(first.outputs)]
        op: Op = self
        if any(a not in axes for a in index for axes in around):
            pairs = zip(axes_of(first.inputs), axes_of(xs[1:]), strict=True)
            wider = [union(index, a, b) for a, b in pairs]
            op = self.derived(("chosen", index, *wider), lambda: self.over(wider, index))
        op, operands = Holder.conform(op, xs[1:])  # type: ignore[arg-type]
        return op, (xs[0], *operands)

    def over(self, axes: Sequence[Axes], index: Axes = ()) -> Choice:
        return type(self)(tuple(map(held, alike(self.branches, axes, index))))

    @abstractmethod
    def check_index(self, index: Type) -> None:
        """Raise if a value of this type cannot name a branch."""

    @abstractmethod
    def takes(self, index: Node, k: int) -> Node:
        """Whether branch `k` is the one that `index` names."""

    def checked(self, index: Node) -> Node:
        """Indices, one for each example, of which each must name a branch."""
        return index

    @abstractmethod
    def lowered(self, b: Any, index: Any) -> Any:
        """The number of the branch, as an i32."""

    def numpy(self, index: np.ndarray, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(run(self.branches[int(index)], xs))

    def hlo(self, b: Any, out: tuple[Type, ...], index: Any, *xs: Any) -> tuple:
        def lower(branch: Graph) -> Callable[[], Sequence]:
            return lambda: b.inline(branch, xs, held=True)

        return b.case(self.lowered(b, index), [lower(branch) for branch in self.branches])

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        """A result lies as the first branch gives it that does not give it whole."""
        found = [partition.leaving(branch, xs[1:]) for branch in self.branches]
        layouts = [[layout(t) for t in result] for result in zip(*found, strict=True)]
        return [on_mesh(mesh, next(filter(any, dims), dims[0])) for dims in layouts]

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:
        types = [x.type(to.mesh) for x in xs]
        lie = self.shardings(to.mesh, types, type)
        dims = [s.dims(t.rank) for s, t in zip(lie, type, strict=True)]
        operands = [to.ask(x, x.dims).node for x in xs]
        branches = [partition.local(to, branch, types[1:], dims) for branch in self.branches]
        found = to.results(dataclasses.replace(self, branches=tuple(branches)), operands)
        return to.placed(found, type, dims)

    def vjp(
        self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        return cond_rules.pull_back(self, g, out, xs, need, gradients)

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence, tangents: Callable) -> Any:
        return cond_rules.push_forward(self, xs, ts, tangents)

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Any:
        return cond_rules.batch(self, axis, xs, mapped, batched_graph)

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """Another choice does the same if each of its branches does, in the same results."""
        if type(other) is not type(self) or len(other.branches) != len(self.branches):
            return None
        inputs = places_among(xs[1:], ys[1:])
        if xs[0] is not ys[0] or inputs is None:
            return None
        common: list[set[int]] | None = None
        for part, whole in zip(self.branches, other.branches, strict=True):
            found = embed(part, whole, inputs)
            if found is None:
                return None
            sets = [{i for i, y in enumerate(whole.outputs) if y is f} for f in found]
            common = sets if common is None else [a & b for a, b in zip(common, sets)]
        if common is None or not all(common):
            return None
        return [min(positions) for positions in common]


class Cond(Choice):
    """The second branch if a bool is true, the first if it is false."""

    def check_index(self, index: Type) -> None:
        if index.dtype is not bool_ or len(self.branches) != 2:
            what = f"a bool chooses between two branches, got {index} for {len(self.branches)}"
            raise DTypeError(what, code="E2005")

    def takes(self, index: Node, k: int) -> Node:
        return index if k else negated(index)

    def lowered(self, b: Any, index: Any) -> Any:
        return b.convert(index, int32)

    @classmethod
    def samples(cls) -> Any:
        x, y = (Input(label, (3,), float64)() for label in "xy")
        sin, dot = TABLE["Sin"](), TABLE["Dot"]()
        spread = TABLE["Broadcast"]((3,))
        first = hold((x, y), (sin(x) * y, x))
        second = hold((x, y), (spread(dot(x, y)), y * y))
        for flag in (np.bool_(False), np.bool_(True)):
            yield cls((first, second)), (flag, real(3), real(3, salt=1))
        constant = hold((x,), (spread(TABLE["Const"](float64, (), np.float64(2).tobytes())()),))
        yield cls((constant, hold((x,), (x,)))), (np.bool_(True), real(3))


class Switch(Choice):
    """The branch whose number is given; a number without a branch is an error."""

    fallible: ClassVar[bool] = True

    def check_index(self, index: Type) -> None:
        if not index.dtype.is_integer:
            raise DTypeError(f"an integer chooses a branch, got {index}", code="E2005")

    def takes(self, index: Node, k: int) -> Node:
        return equal(index, k)

    def checked(self, index: Node) -> Node:
        return BranchNumber(len(self.branches))(index)

    def numpy(self, index: np.ndarray, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        BranchNumber(len(self.branches)).numpy(index)
        return super().numpy(index, *xs)

    def lowered(self, b: Any, index: Any) -> Any:
        checked = BranchNumber(len(self.branches)).hlo(b, index.type, index)
        return b.convert(checked, int32)

    @classmethod
    def samples(cls) -> Any:
        x = Input("x", (2, 2), float64)()
        smaller = TABLE["Where"]()(less(x, 0), x, x * x)
        graphs = [hold((x,), (y,)) for y in (TABLE["MatMul"]()(x, x), TABLE["Exp"]()(x), smaller)]
        for i in range(3):
            yield cls(tuple(graphs)), (np.int64(i), real(2, 2))
        yield cls(tuple(graphs[:1])), (np.uint8(0), real(2, 2))


class BranchNumber(Op):
    """Integers, handed on; each must be the number of one of `count` branches."""

    count: int
    title = "switch"
    differentiable: ClassVar[bool] = False
    fallible: ClassVar[bool] = True

    def infer(self, index: Type) -> Type:
        if not index.dtype.is_integer:
            raise DTypeError(f"the number of a branch is an integer, got {index}", code="E2005")
        if self.count < 1:
            raise ShapeError(f"there must be a branch, got {self.count}", code="E2007")
        return index

    def numpy(self, index: np.ndarray) -> np.ndarray:
        wrong = (index < 0) | (index >= self.count)
        if wrong.any():
            raise no_branch(self.count, int(np.asarray(index)[wrong].flat[0]))
        return index

    def hlo(self, b: Any, out: Type, index: Any) -> Any:
        if index.type.size:
            require_below(b, index, self.count, lambda: no_branch(self.count))
        return index

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(xs[0])

    def factors(self, index: Type) -> str:
        return "... -> ..."

    @classmethod
    def samples(cls) -> Any:
        yield cls(3), (np.array([2, 0, 1]),)
        yield cls(1), (np.uint8(0),)
        yield cls(300), (np.zeros((0, 2), np.int8),)


def no_branch(count: int, index: int | None = None) -> IndexOutOfRange:
    what = "an index" if index is None else f"index {index}"
    return IndexOutOfRange(
        f"{what} has no branch: it must be at least 0 and less than {count}",
        index=index, extent=count,
    )  # fmt: skip
