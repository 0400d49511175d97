"""Conditionals: an operand selects which of several graphs runs."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, IndexOutOfRange, ShapeError
from pullback.graph.dtypes import bool_, float64, int32
from pullback.graph.graph import Graph
from pullback.graph.subgraph import embed_subgraph
from pullback.graph.types import show_types
from pullback.ops.control import body_partition, cond_rules
from pullback.ops.control.holder import (
    Holder,
    canonical_holder_graph,
    hold,
    holder_positions_among,
    run_held,
)
from pullback.ops.control.varying import (
    Axes,
    varying_alike_branches,
    varying_axes_of,
    varying_union,
)
from pullback.ops.elementwise.functions import equal, less, negated
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.index.bounds import require_below_bound
from pullback.ops.prelude import TABLE, Node, Op, Type, batch_along
from pullback.ops.samples import real
from pullback.ops.sources import Input
from pullback.ops.wrap.call import check_call_operands
from pullback.sharding.spec import layout, spec_on_mesh


class CondChoice(Holder, abstract=True):
    """A conditional: the first operand selects a branch, which runs on the other operands."""

    branches: tuple[Graph, ...]

    def infer(self, index: Type, *xs: Type) -> tuple[Type, ...]:
        if index.shape:
            raise ShapeError(f"the index of a branch must have rank 0, got {index}", code="E3002")
        self.check_index(index)
        for branch in self.branches:
            check_call_operands(branch, [x.plain for x in xs])
        first, *others = (tuple([y.type.plain for y in b.outputs]) for b in self.branches)
        for types in others:
            if types != first:
                what = (
                    "branches must return the same types, "
                    f"got {show_types(first)} and {show_types(types)}"
                )
                raise ShapeError(what, code="E2001")
        return first

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        cond_rules.refuse_cond_rule_collectives(self, types[0].varying)
        return super()._derive_type(types)

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        """Results vary along the axes of the index."""
        index, first = xs[0].type.varying, self.branches[0]
        op: Op = self
        if any(a not in x.type.varying for a in index for x in (*first.inputs, *first.outputs)):
            pairs = zip(varying_axes_of(first.inputs), varying_axes_of(xs[1:]), strict=True)
            wider = [varying_union(index, a, b) for a, b in pairs]
            op = self.derived(("index", index, *wider), lambda: self.over(wider, index))
        op, operands = Holder.conform(op, xs[1:])  # type: ignore[arg-type]
        return op, (xs[0], *operands)

    def over(self, axes: Sequence[Axes], index: Axes = ()) -> CondChoice:
        return type(self)(
            tuple(map(canonical_holder_graph, varying_alike_branches(self.branches, axes, index)))
        )

    @abstractmethod
    def check_index(self, index: Type) -> None:
        """Raise if a value of this type cannot select a branch."""

    @abstractmethod
    def selects(self, index: Node, k: int) -> Node:
        """Return whether `index` selects branch `k`."""

    def checked(self, index: Node) -> Node:
        """Return the indices of a batch of examples; running it fails if one is out of range."""
        return index

    @abstractmethod
    def lower_index(self, b: Any, index: Any) -> Any:
        """Return the number of the branch as an i32."""

    def numpy(self, index: np.ndarray, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(run_held(self.branches[int(index)], xs))

    def hlo(self, b: Any, out: tuple[Type, ...], index: Any, *xs: Any) -> tuple:
        def lower(branch: Graph) -> Callable[[], Sequence]:
            return lambda: b.inline(branch, xs, held=True)

        return b.case(self.lower_index(b, index), [lower(branch) for branch in self.branches])

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        """Each result has the layout of the first branch that shards it."""
        found = [
            body_partition.body_partition_output_types(branch, xs[1:]) for branch in self.branches
        ]
        layouts = [[layout(t) for t in result] for result in zip(*found, strict=True)]
        return [spec_on_mesh(mesh, next(filter(any, dims), dims[0])) for dims in layouts]

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:
        types = [x.type(to.mesh) for x in xs]
        lie = self.shardings(to.mesh, types, type)
        dims = [s.dims(t.rank) for s, t in zip(lie, type, strict=True)]
        operands = [to.ask(x, x.dims).node for x in xs]
        branches = [
            body_partition.body_partition_graph(to, branch, types[1:], dims)
            for branch in self.branches
        ]
        found = to.results(dataclasses.replace(self, branches=tuple(branches)), operands)
        return to.local_values(found, type, dims)

    vjp = cond_rules.cond_vjp  # type: ignore[assignment]
    jvp = cond_rules.cond_jvp  # type: ignore[assignment]
    batch = cond_rules.batch_cond  # type: ignore[assignment]

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """Each branch of `other` must contain the branch here, in the same results."""
        if type(other) is not type(self) or len(other.branches) != len(self.branches):
            return None
        inputs = holder_positions_among(xs[1:], ys[1:])
        if xs[0] is not ys[0] or inputs is None:
            return None
        common: list[set[int]] | None = None
        for part, whole in zip(self.branches, other.branches, strict=True):
            found = embed_subgraph(part, whole, inputs)
            if found is None:
                return None
            sets = [{i for i, y in enumerate(whole.outputs) if y is f} for f in found]
            common = sets if common is None else [a & b for a, b in zip(common, sets)]
        if common is None or not all(common):
            return None
        return [min(positions) for positions in common]


class Cond(CondChoice):
    """Runs the second branch if a bool is true, else the first."""

    def check_index(self, index: Type) -> None:
        if index.dtype is not bool_ or len(self.branches) != 2:
            what = f"needs a bool and two branches, got {index} and {len(self.branches)} branches"
            raise DTypeError(what, code="E2005")

    def selects(self, index: Node, k: int) -> Node:
        return index if k else negated(index)

    def lower_index(self, b: Any, index: Any) -> Any:
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


class Switch(CondChoice):
    """Runs the branch whose number is given; running it fails if there is none."""

    fallible: ClassVar[bool] = True

    def check_index(self, index: Type) -> None:
        if not index.dtype.is_integer:
            raise DTypeError(f"the index must be an integer, got {index}", code="E2005")

    def selects(self, index: Node, k: int) -> Node:
        return equal(index, k)

    def checked(self, index: Node) -> Node:
        return BranchNumber(len(self.branches))(index)

    def numpy(self, index: np.ndarray, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        BranchNumber(len(self.branches)).numpy(index)
        return super().numpy(index, *xs)

    def lower_index(self, b: Any, index: Any) -> Any:
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
    """Returns its operand; running it fails unless all integers are numbers of `count` branches."""

    count: int
    title = "switch"
    differentiable: ClassVar[bool] = False
    fallible: ClassVar[bool] = True
    batch = batch_along
    factors = fixed_factor_rule("... -> ...")

    def infer(self, index: Type) -> Type:
        if not index.dtype.is_integer:
            raise DTypeError(f"the index must be an integer, got {index}", code="E2005")
        if self.count < 1:
            raise ShapeError(f"needs at least one branch, got {self.count}", code="E2007")
        return index

    def numpy(self, index: np.ndarray) -> np.ndarray:
        wrong = (index < 0) | (index >= self.count)
        if wrong.any():
            raise no_branch_of_cond(self.count, int(np.asarray(index)[wrong].flat[0]))
        return index

    def hlo(self, b: Any, out: Type, index: Any) -> Any:
        if index.type.size:
            require_below_bound(b, index, self.count, lambda: no_branch_of_cond(self.count))
        return index

    @classmethod
    def samples(cls) -> Any:
        yield cls(3), (np.array([2, 0, 1]),)
        yield cls(1), (np.uint8(0),)
        yield cls(300), (np.zeros((0, 2), np.int8),)


def no_branch_of_cond(count: int, index: int | None = None) -> IndexOutOfRange:
    """Return the error for an index that selects none of `count` branches."""
    what = "an index" if index is None else f"index {index}"
    message = f"{what} has no branch: it must be at least 0 and less than {count}"
    return IndexOutOfRange(message, index=index, extent=count)
