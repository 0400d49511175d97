"""The logarithm of softmax at one index of each row, as in the cross entropy of labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from pullback.graph.dtypes import int32, int64
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import cast, equal, guarded, where
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.fused.softmax_logsumexp import LogSoftmaxGradient
from pullback.ops.fused.spelling import (
    WITH_ROW_KERNELS,
    Operands,
    Spelling,
    spelling,
    spelling_operand_type,
)
from pullback.ops.index.along_axis import PutAlongAxisAdd, TakeAlongAxis
from pullback.ops.index.bounds import require_index_within_bounds
from pullback.ops.prelude import Composite, Node, Type, result_nodes
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import LogSoftmax
from pullback.ops.row_kernel_calls import row_kernel_call
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.iota import Iota
from pullback.ops.traits import HasKernel


class LogProbabilityOp(Composite, HasKernel, abstract=True):
    """An op on rows along the last axis of x, with one label a row, of size 1 along that axis.

    `trusted` and `examples` are those of TakeAlongAxis.
    """

    trusted: bool = False
    examples: int = 0
    kinds: ClassVar[str] = "f"
    kernel_name: ClassVar[str]

    @property
    def fallible(self) -> bool:  # type: ignore[override]
        return not self.trusted

    def kernel(self, b: Any, out: Any, x: Any, labels: Any, *xs: Any) -> Any:
        if labels.dtype not in (int32, int64):
            return None
        axis = len(x.shape) - 1
        made = row_kernel_call(b, self.kernel_name, x, labels, *xs, out=out, axes=(axis,))
        if made is not None:
            self._require_labels(b, x, labels)
        return made

    def hlo(self, b: Any, out: Any, x: Any, labels: Any, *xs: Any) -> Any:
        self._require_labels(b, x, labels)
        return super().hlo(b, out, x, labels, *xs)

    def _require_labels(self, b: Any, x: Any, labels: Any) -> None:
        if not self.trusted:
            require_index_within_bounds(b, [labels], [len(x.shape) - 1], x.shape, self.examples)


class LogProbability(LogProbabilityOp):
    """The logarithm of softmax at the label of each row, and two numbers for the gradient.

    They are the largest element (0 if that is infinite), and the logarithm of the sum of
    exp(x - largest). The results have size 1 along the last axis.
    """

    kernel_name = "log_probability"

    def infer(self, x: Type, labels: Type) -> tuple[Type, ...]:
        one = x.with_shape((*x.shape[:-1], 1))
        return one, one, one

    def expand(self, x: Node, labels: Node) -> tuple[Node, ...]:
        axis = x.type.rank - 1
        top = Max((axis,), True)(x)
        top = where(IsFinite()(top), top, 0)
        shifted = x - top
        log_sum = Log()(Sum((axis,), True)(Exp()(shifted)))
        # Taken first, so that the other differences need not be in memory
        taken = TakeAlongAxis(axis, trusted=True)(x, labels)
        return (taken - top) - log_sum, top, log_sum

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(5), integer_samples(1, high=5))
        yield cls(), (real(3, 4), integer_samples(3, 1, high=4))
        yield cls(True), (real(2, 3, 2), integer_samples(2, 3, 1, high=2))


class LogProbabilityGradient(LogProbabilityOp):
    """The cotangent of x in LogProbability, from that of its first result.

    `largest` and `log_sum` are its other results.
    """

    kernel_name = "log_probability_gradient"

    def infer(self, x: Type, labels: Type, largest: Type, log_sum: Type, g: Type) -> Type:
        return x

    def expand(self, x: Node, labels: Node, largest: Node, log_sum: Node, g: Node) -> Node:
        # Labels are in range, and comparing long integers takes GPUs longer than all the rest
        here = equal(Iota(x.type.shape, x.type.rank - 1, int32)(), cast(labels, int32))
        return where(here, g, 0) - guarded(g, Exp()((x - largest) - log_sum))

    @classmethod
    def samples(cls) -> Any:
        for op, (x, labels) in LogProbability.samples():
            rows = x.shape[:-1]
            numbers = [real(*rows, 1, salt=i) for i in range(3)]
            yield cls(op.trusted), (x, labels, *numbers)


class LabelSpelling(NamedTuple):
    """log_softmax(x) taken at one label a row, as in the cross entropy; and its gradient alone."""

    trusted: bool
    examples: int

    def formula(self, x: Node, labels: Node) -> Node:
        axis = x.type.rank - 1
        return TakeAlongAxis(axis, self.trusted, self.examples)(LogSoftmax((axis,))(x), labels)

    def operands(self, node: Node) -> Iterator[Operands]:
        x, labels = node.inputs
        last = x.type.rank - 1
        if x.op is LogSoftmax((last,)) and labels.type.shape == (*x.type.shape[:-1], 1):
            yield spelling_operand_type(x), spelling_operand_type(labels)

    def fused(self, x: Node, labels: Node) -> Node:
        return result_nodes(LogProbability(self.trusted, self.examples)(x, labels))[0]

    def pull(self, g: Node, y: Node, x: Node, labels: Node) -> Sequence[Node | None]:
        _, largest, log_sum = result_nodes(y.inputs[0])
        op = LogProbabilityGradient(self.trusted, self.examples)
        return [op(x, labels, largest, log_sum, g), None]

    def gradient_formula(self, g: Node, x: Node, labels: Node) -> Node:
        axis = x.type.rank - 1
        put = PutAlongAxisAdd(axis, x.type.shape[axis], self.trusted, self.examples)(g, labels)
        return LogSoftmaxGradient((axis,))(put, LogSoftmax((axis,))(x))

    def gradient_operands(self, node: Node) -> Iterator[Operands]:
        put = node.inputs[0]
        if isinstance(put.op, PutAlongAxisAdd) and put.type.shape == node.type.shape:
            g, labels = put.inputs
            if g.type.shape == (*node.type.shape[:-1], 1):
                yield (
                    spelling_operand_type(g),
                    spelling_operand_type(node),
                    spelling_operand_type(labels),
                )

    def gradient(self, g: Node, x: Node, labels: Node) -> Node | None:
        return self.pull(g, self.fused(x, labels), x, labels)[0]


for _way in (LabelSpelling(trusted, n) for trusted in (False, True) for n in (0, 1)):
    spelling(
        Spelling(
            name="log-probability of labels",
            last=TakeAlongAxis,
            formula=_way.formula,
            operands=_way.operands,
            fused=_way.fused,
            pull=_way.pull,
            stage=2,
            platforms=WITH_ROW_KERNELS,
        )
    )
    spelling(
        Spelling(
            name="gradient of log-probabilities of labels",
            last=LogSoftmaxGradient,
            formula=_way.gradient_formula,
            operands=_way.gradient_operands,
            fused=_way.gradient,
            stage=3,
            platforms=WITH_ROW_KERNELS,
        )
    )
