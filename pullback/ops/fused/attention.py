"""Attention as one op, which never needs all weights at the same time, and its gradient."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import DType, bool_, float32, int64
from pullback.graph.op_kinds import SparseCotangentsKind
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import both, cast, equal, greater_equal, less_equal, where
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.fused.attention_cudnn import cudnn_attention, cudnn_attention_gradient
from pullback.ops.fused.attention_kernels import (
    attention_gradient_kernel_call,
    attention_kernel_call,
)
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.prelude import (
    TABLE,
    Axis,
    Composite,
    Node,
    Op,
    Type,
    full,
    result_nodes,
    same_dtype,
    spread_all,
    sum_to,
    zeros,
)
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.samples import boolean_samples, real
from pullback.ops.shape.movement import Reshape
from pullback.ops.traits import HasKernel


class AttentionScores(Composite, HasKernel, abstract=True):
    """The scores `scale * q @ k.mT`, and which count: the attributes of attention.

    Query i sees key j only if lower <= j - i <= upper, where these are given. The score of a key
    that is not seen is -inf, or a number that follows the masks.
    """

    scale: str  # a number, as Python writes it
    lower: tuple[int, ...] = ()  # one number, or none
    upper: tuple[int, ...] = ()
    zero_rows: bool = True  # a query whose scores are all -inf gives 0, not NaN


class AttentionOp(AttentionScores, abstract=True):
    """What attention and its gradient share.

    The operands are q [..., heads, L, E], k [..., kv heads, S, E] and v [..., kv heads, S, V];
    neighbouring heads of queries share one of keys and values. Masks broadcast to
    [..., heads, L, S] and have that rank: floats are added to the scores, bools are true where a
    key is seen. Scores of 16-bit floats are computed in f32.
    """

    def check(self, q: Type, k: Type, v: Type) -> None:
        """Raise an error unless queries, keys and values fit together."""
        check_elementwise_kind(same_dtype(self.title, q, k, v), "f")
        wanted = "q [..., heads, L, E], k [..., kv heads, S, E] and v [..., kv heads, S, V]"
        fits = q.rank == k.rank == v.rank >= 3 and q.shape[:-3] == k.shape[:-3] == v.shape[:-3]
        if not fits or q.shape[-1] != k.shape[-1] or k.shape[-3:-1] != v.shape[-3:-1]:
            raise ShapeError(f"needs {wanted}, got {q}, {k}, {v}")
        heads, shared = q.shape[-3], k.shape[-3]
        if heads != shared and (not shared or heads % shared):
            raise ShapeError(f"{heads} heads must be a multiple of the {shared} of keys")

    def check_masks(self, q: Type, k: Type, masks: Sequence[Type]) -> None:
        """Raise an error unless masks broadcast to the scores."""
        scores = (*q.shape[:-1], k.shape[-2])
        for mask in masks:
            if not (mask.dtype is bool_ or mask.dtype.is_float):
                raise DTypeError(f"masks must be bools or floats, got {mask}")
            if mask.rank == 0 and mask.dtype.is_float:
                continue
            pairs = zip(mask.shape, scores)
            if mask.rank != len(scores) or any(m not in (1, n) for m, n in pairs):
                raise ShapeError(f"masks must broadcast to {list(scores)}, got {mask}")

    def scores(self, q: Node, k: Node, masks: Sequence[Node]) -> Node:
        """Return the scores, -inf where a key is not seen; operands are in groups of heads."""
        wide = attention_score_dtype(q.type.dtype)
        s = MatMul()(cast(q, wide) * float(self.scale), adjoint(cast(k, wide)))
        for mask in masks:
            if not is_bool_attention_operand(mask) and mask.type.rank:
                s = s + cast(mask, wide)
        fill: Any = -math.inf
        for x in masks:
            fill = fill if x.type.rank else cast(x, wide)
        for seen in self.hiding(s.type, masks):
            s = where(seen, s, fill)
        return s

    def hiding(self, scores: Type, masks: Sequence[Node]) -> list[Node]:
        """Return bools that are true where a key is seen."""
        band = self.band(scores)
        return [
            *[m for m in masks if is_bool_attention_operand(m)],
            *([] if band is None else [band]),
        ]

    def band(self, scores: Type) -> Node | None:
        """Return which keys are seen by their positions [L, S]; None if all are."""
        i, j = (TABLE["Iota"](scores.shape[-2:], axis, int64)() for axis in (0, 1))
        seen = [less_equal(j - i, n) for n in self.upper]
        seen += [greater_equal(j - i, n) for n in self.lower]
        return both(*seen) if len(seen) == 2 else seen[0] if seen else None

    def heads(self, q: Type, k: Type) -> tuple[int, int]:
        """Return the number of heads of keys, and how many heads of queries share one."""
        shared = k.shape[-3]
        return shared, q.shape[-3] // shared if shared else 1

    def grouped(self, q: Node, k: Node, *xs: Node) -> list[Node]:
        """Return operands with the heads [..., kv heads, group], if groups share keys."""
        shared, groups = self.heads(q.type, k.type)
        if groups == 1:
            return [q, k, *xs]
        return [attention_head_groups(x, shared, groups) if x.type.rank else x for x in (q, k, *xs)]

    def factor_words(self, q: Type, k: Type, rows: str) -> dict[str, str]:
        """Return the factors of dimensions: heads can be split over devices, as the batch can."""
        _, groups = self.heads(q, k)
        batch = " ".join([f"b{i}" for i in range(q.rank - 3)])
        heads = "h" if groups == 1 else f"(h g={groups})"
        return {"batch": batch, "heads": f"{batch} {heads} {rows}", "kv": f"{batch} h _"}

    def mask_factors(self, q: Type, k: Type, rows: str, masks: Sequence[Type]) -> list[str]:
        words = [*attention_factor_dimensions(self.factor_words(q, k, rows)["heads"]), "_"]
        return [" ".join("1" if n == 1 else w for n, w in zip(m.shape, words)) for m in masks]

    def batch_masks(self, axis: Axis, masks: Sequence[Node], mapped: Sequence[bool]) -> list[Node]:
        """Return masks with the axis in front; one that examples share broadcasts along it."""
        pairs = zip(masks, mapped, strict=True)
        alone = [has or not m.type.rank for m, has in pairs]
        pairs = zip(masks, alone, strict=True)
        return [m if has else Reshape((1, *m.type.shape))(m) for m, has in pairs]


class Attention(AttentionOp, SparseCotangentsKind):
    """softmax(scale * q @ k.mT) @ v over the keys that each query sees, and the logarithms of the
    sums of exponentials [..., heads, L], from which the gradient computes the weights again.

    The third result is what rounding took from the second one: where a query sees no key, and the
    scores are -1e9 instead, the logarithm of the number of keys.
    """

    def infer(self, q: Type, k: Type, v: Type, *masks: Type) -> tuple[Type, ...]:
        self.check(q, k, v)
        self.check_masks(q, k, masks)
        statistics = Type(q.shape[:-1], attention_score_dtype(q.dtype))
        return q.with_shape((*q.shape[:-1], v.shape[-1])), statistics, statistics

    def expand(self, q: Node, k: Node, v: Node, *masks: Node) -> tuple[Node, ...]:
        out, statistics, _ = self.infer(*[x.type for x in (q, k, v, *masks)])
        q, k, v, *masks = self.grouped(q, k, v, *masks)  # type: ignore[assignment]
        s = self.scores(q, k, masks)
        if not s.type.shape[-1]:
            start = full(statistics, 0.0 if self.zero_rows else -math.inf)
            return zeros(out), start, zeros(statistics)
        last = (s.type.rank - 1,)
        top = TABLE["StopGradient"]()(Max(last, True)(s))
        top = where(IsFinite()(top), top, 0)
        weights = Exp()(s - top)
        total = Sum(last, True)(weights)
        if self.zero_rows:
            total = where(equal(total, 0), 1, total)
        y = MatMul()(cast(weights / total, v.type.dtype), v)
        log_total = Log()(total)
        found = top + log_total
        rest = TABLE["StopGradient"]()(log_total - (found - top))
        rest = where(IsFinite()(rest), rest, 0)
        shape = Reshape(statistics.shape)
        return Reshape(out.shape)(y), shape(found), shape(rest)

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        return attention_kernel_call(self, b, out, *xs)

    def on_cuda(self, b: Any, out: Any, *xs: Any) -> Any:
        return cudnn_attention(self, b, out, *xs)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        q, k, v, *masks = xs
        floats = [not is_bool_attention_operand(m) for m in masks]
        all_too = any(n and has for n, has in zip(need[3:], floats, strict=True))
        cotangent = zeros(out[0].type) if g[0] is None else g[0]
        more = () if g[1] is None else (g[1],)
        op = AttentionGradient(self.scale, self.lower, self.upper, self.zero_rows, all_too)
        dq, dk, dv, *rest = result_nodes(op(q, k, v, *out, cotangent, *masks, *more))
        found = iter(rest)
        return [dq, dk, dv, *[next(found) if all_too and has else None for has in floats]]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        if attention_maps_number(xs[3:], mapped[3:]):
            return Op.batch(self, axis, xs, mapped)
        masks = self.batch_masks(axis, xs[3:], mapped[3:])
        return self(*spread_all(axis, xs[:3], mapped[:3]), *masks)

    def factors(self, q: Type, k: Type, v: Type, *masks: Type) -> str:
        rows = "_" if self.lower or self.upper else "l"
        words = self.factor_words(q, k, rows)
        given = [f"{words['heads']} _", f"{words['kv']} _", f"{words['kv']} _"]
        given += self.mask_factors(q, k, rows, masks)
        return f"{', '.join(given)} -> {words['heads']} _, {words['heads']}, {words['heads']}"

    @classmethod
    def samples(cls) -> Any:
        q, k, v = real(2, 3, 2), real(2, 4, 2, salt=1), real(2, 4, 3, salt=2)
        yield cls("0.5"), (q, k, v)
        yield cls("1.0", (), (0,)), (real(1, 2, 3, 2), real(1, 1, 3, 2), real(1, 1, 3, 2, salt=1))
        seen = boolean_samples(1, 3, 4) | (np.arange(4) == 1)
        yield cls("0.5", (-1,), (1,)), (q, k, v, real(2, 1, 4, salt=3), seen)
        yield cls("0.5", (), (), False), (q, k, v, seen, np.array(-2.0))
        yield cls("0.5", (), (-1,)), (q, k, v)  # the first query sees nothing
        yield cls("0.5"), (q, k[:, :0], v[:, :0])


class AttentionGradient(AttentionOp):
    """The gradient of attention with respect to q, k and v, and with `all_too` to the other floats;
    from q, k, v, the results of attention, the first one's cotangent, the masks, and the second
    one's cotangent [..., heads, L], which may be left out."""

    all_too: bool = False

    def infer(self, q: Type, k: Type, v: Type, *more: Type) -> tuple[Type, ...]:
        self.check(q, k, v)
        out, statistics, lost, g, *others = more
        same_dtype(self.title, q, out, g)
        shape, rows = (*q.shape[:-1], v.shape[-1]), q.shape[:-1]
        if [x.shape for x in (out, statistics, lost, g)] != [shape, rows, rows, shape]:
            message = f"needs the results {list(shape)} and {list(rows)} of attention"
            raise ShapeError(f"{message}, got {out}, {statistics}, {lost}, {g}")
        masks, _ = split_masks_of_attention(q.rank, others)
        self.check_masks(q, k, masks)
        floats = [m for m in masks if m.dtype is not bool_]
        return (q, k, v, *floats) if self.all_too else (q, k, v)

    def expand(self, q: Node, k: Node, v: Node, *more: Node) -> tuple[Node, ...]:
        types = self.infer(*[x.type for x in (q, k, v, *more)])
        out, statistics, lost, g, *others = more
        masks, more_g = split_masks_of_attention(q.type.rank, others)
        wide = attention_score_dtype(q.type.dtype)
        shift = Sum((q.type.rank - 1,), True)(cast(g, wide) * cast(out, wide))
        rows = shift.type.shape
        for x in more_g:
            shift = shift - Reshape(rows)(cast(x, wide))
        statistics, lost = (Reshape(rows)(cast(x, wide)) for x in (statistics, lost))
        q, k, v, g, shift, statistics, lost, *masks = self.grouped(
            q, k, v, g, shift, statistics, lost, *masks
        )
        weights = Exp()((self.scores(q, k, masks) - statistics) - lost)
        dv = MatMul()(adjoint(cast(weights, g.type.dtype)), g)
        ds = weights * (cast(MatMul()(g, adjoint(v)), wide) - shift)
        everywhere = ds
        for seen in self.hiding(ds.type, masks):
            ds = where(seen, ds, 0)
        scaled = ds * float(self.scale)
        dq = MatMul()(scaled, cast(k, wide))
        dk = MatMul()(adjoint(scaled), cast(q, wide))
        made = [dq, dk, dv]
        if self.all_too:
            floats = [m for m in masks if not is_bool_attention_operand(m)]
            made += [ds if m.type.rank else everywhere - ds for m in floats]
        return tuple([self.summed(x, t) for x, t in zip(made, types, strict=True)])

    def summed(self, x: Node, type: Type) -> Node:
        """Return a cotangent as that of an operand: groups and broadcast dimensions are summed."""
        if type.rank and x.type.rank > type.rank:
            heads, groups = x.type.shape[-4:-2]
            if type.shape[-3] == heads * groups:
                x = Reshape((*x.type.shape[:-4], heads * groups, *x.type.shape[-2:]))(x)
            else:
                x = Sum((x.type.rank - 3,), False)(x)
        return cast(sum_to(x, Type(type.shape, x.type.dtype)), type.dtype)

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        return attention_gradient_kernel_call(self, b, out, *xs)

    def on_cuda(self, b: Any, out: Any, *xs: Any) -> Any:
        return cudnn_attention_gradient(self, b, out, *xs)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        rank = xs[0].type.rank - mapped[0]
        count = 7 + sum(x.type.rank - has != rank - 1 for x, has in zip(xs[7:], mapped[7:]))
        if self.all_too or attention_maps_number(xs[7:count], mapped[7:count]):
            return Op.batch(self, axis, xs, mapped)
        masks = self.batch_masks(axis, xs[7:count], mapped[7:count])
        more = spread_all(axis, xs[count:], mapped[count:])
        return self(*spread_all(axis, xs[:7], mapped[:7]), *masks, *more)

    def factors(self, q: Type, k: Type, v: Type, *more: Type) -> str:
        words = self.factor_words(q, k, "_")
        masks, more_g = split_masks_of_attention(q.rank, more[4:])
        big, small, rows = f"{words['heads']} _", f"{words['kv']} _", words["heads"]
        if self.all_too:
            return super().factors(q, k, v, *more)
        given = [big, small, small, big, rows, rows, big, *self.mask_factors(q, k, "_", masks)]
        given += [rows] * len(more_g)
        return f"{', '.join(given)} -> {big}, {small}, {small}"

    @classmethod
    def samples(cls) -> Any:
        for i, (op, xs) in enumerate(Attention.samples()):
            out, statistics, lost = op.numpy(*xs)
            g = real(*out.shape, salt=9)
            more = (real(*statistics.shape, salt=8),) if i < 2 else ()
            all_too = any(x.dtype != bool for x in xs[3:])
            own = cls(op.scale, op.lower, op.upper, op.zero_rows, all_too)
            yield own, (*xs[:3], out, statistics, lost, g, *xs[3:], *more)


def attention_score_dtype(dtype: DType) -> DType:
    """Return the dtype of scores and weights."""
    return float32 if dtype.bits == 16 else dtype


def is_bool_attention_operand(x: Node) -> bool:
    return x.type.dtype is bool_


def split_masks_of_attention(rank: int, xs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Separate masks from a cotangent of the statistics, which has one dimension less."""
    ranks = [x.type.rank if isinstance(x, Node) else x.rank for x in xs]
    pairs = list(zip(xs, ranks, strict=True))
    return [x for x, n in pairs if n != rank - 1], [x for x, n in pairs if n == rank - 1]


def attention_maps_number(xs: Sequence[Node], mapped: Sequence[bool]) -> bool:
    """Whether examples have different scores for keys that are not seen."""
    return any(has and x.type.rank == 1 for x, has in zip(xs, mapped, strict=True))


def attention_head_groups(x: Node, heads: int, groups: int) -> Node:
    """Return [..., heads of queries or keys, m, n] as [..., kv heads, group, m, n]."""
    *batch, count, m, n = x.type.shape
    split = (heads, groups) if count == heads * groups else (count, 1)
    return Reshape((*batch, *split, m, n))(x)


def attention_factor_dimensions(words: str) -> list[str]:
    """Return the words of a rule's operand, one for each dimension."""
    return re.findall(r"\([^)]*\)|\S+", words)
