"""Hand-written attention and its gradient as the fused ops.

There are many ways to write attention, so the formula is read from the program: the nodes between
its operands and its result are the template, and `Found` says what the operands mean.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np

from pullback.graph.dtypes import DType
from pullback.graph.graph import Graph, by_number, graphs_in_parameters
from pullback.graph.node import Node, constant_node
from pullback.graph.op_kinds import DistinctKind, UnpackedScalarKind
from pullback.graph.types import Type
from pullback.ops.collective.all_reduce import Collective
from pullback.ops.elementwise.division import Div
from pullback.ops.elementwise.functions import cast, negated
from pullback.ops.fused.attention import Attention, AttentionGradient, attention_score_dtype
from pullback.ops.fused.attention_cudnn import cudnn_takes
from pullback.ops.fused.attention_reading import (
    AttentionReading,
    Labels,
    is_one_in_attention,
    leads_to_attention_product,
    read_attention,
)
from pullback.ops.fused.attention_scaled import ScaledAttention, ScaledAttentionGradient
from pullback.ops.fused.spelling import Operands, Spelling, spelling
from pullback.ops.interpret import interpret
from pullback.ops.linalg.einsum_expansion import Einsum
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.prelude import Op, result_nodes
from pullback.ops.reduce.extrema import Max
from pullback.ops.shape.movement import Reshape, Transpose
from pullback.ops.sources import Const, Input
from pullback.ops.wrap.identity import StopGradient

_HIDDEN = -1e8  # what is at most this, added to scores, leaves no weight
_LARGEST = 1 << 24  # elements of a mask that are computed to see what it is
_DEEPEST = 64  # nodes that it is computed from

Steps = tuple[tuple[Op, tuple[int, ...]], ...]  # ops and the numbers of operands or earlier steps


@dataclass(frozen=True)
class AttentionSpellingForm:
    """A way to write attention: the steps of the formula, and what its operands are.

    Roles are positions among the operands, like the numbers of operands in steps.
    """

    steps: Steps
    count: int  # of operands
    q: int
    k: int
    v: int
    labels: tuple[Labels, Labels, Labels, Labels]  # of q, k, v and the result
    scale: str  # the product of all constant ones
    factors: tuple[tuple[bool, int], ...]  # other scales, and whether they are divisors
    bias: tuple[int, ...]
    subtracted: bool  # whether the bias is
    mask: tuple[tuple[int, bool], ...]
    fill: tuple[int | str, ...]  # an operand, or a number
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    stops: bool = False  # whether no derivative goes through a maximum

    def replay(self, *operands: Node) -> Node:
        """Return the formula over other operands."""
        nodes = list(operands)
        for op, numbers in self.steps:
            y = op(*[nodes[i] for i in numbers])
            nodes.append(StopGradient()(y) if self.stops and isinstance(op, Max) else y)
        return nodes[-1]

    def fused(self, *operands: Node) -> Node | None:
        """Return the result by the fused op."""
        q, k, v, *number = self._arranged(operands)
        own = self.scale, self.lower, self.upper, False
        op = ScaledAttention(*own, *self._divides) if number else Attention(*own)
        y = result_nodes(op(q, k, v, *number, *self._masks(operands, q)))[0]
        labels, sizes = self.labels[3], self._sizes(operands)
        return _spelled_from_heads(y, labels, ("row", "width"), [sizes[x] for x in labels])

    def pull(self, g: Node, made: Node, *operands: Node) -> Sequence[Node | None]:
        """Return the cotangents of queries, keys and values, at their positions."""
        while not isinstance(made.op, (Attention, ScaledAttention)):
            made = made.inputs[0]
        q, k, v, *number = self._arranged(operands)
        g = _spelled_in_heads(g, self.labels[3], ("row", "width"))
        own = self.scale, self.lower, self.upper, False
        op = ScaledAttentionGradient(*own, *self._divides) if number else AttentionGradient(*own)
        masks = self._masks(operands, q)
        found: list[Node | None] = [None] * self.count
        dq, *others = result_nodes(op(q, k, v, *number, *result_nodes(made), g, *masks))
        if not number:
            dq = self._scaled(dq, operands)  # scales were factors of queries alone
        places = zip((self.q, self.k, self.v), self.labels, (dq, *others), _KINDS)
        for at, labels, cotangent, kind in places:
            x = _spelled_from_heads(cotangent, labels, kind, operands[at].type.shape)
            earlier = found[at]
            found[at] = x if earlier is None else earlier + x
        return found

    def _arranged(self, operands: Sequence[Node]) -> list[Node]:
        """Queries, keys and values [..., heads, length, depth].

        If exactly one number scales the queries, it follows them; other scales are applied here.
        """
        places = zip((self.q, self.k, self.v), self.labels, _KINDS)
        q, k, v = [_spelled_in_heads(operands[at], labels, kind) for at, labels, kind in places]
        numbers = [operands[at] for _, at in self.factors]
        if len(numbers) == 1 and not numbers[0].type.rank:
            return [q, k, v, *numbers]
        return [self._scaled(q, operands), k, v]

    @property
    def _divides(self) -> tuple[bool, ...]:
        return tuple([divides for divides, _ in self.factors])

    def _sizes(self, operands: Sequence[Node]) -> dict[str, int]:
        """The sizes of the dimensions, by their names."""
        given = zip((self.q, self.k, self.v), self.labels)
        return {x: n for at, labels in given for x, n in zip(labels, operands[at].type.shape)}

    def _scaled(self, x: Node, operands: Sequence[Node]) -> Node:
        """The value times the scales that are not constants."""
        for divides, at in self.factors:
            c = cast(operands[at], x.type.dtype)
            x = x / c if divides else x * c
        return x

    def _masks(self, operands: Sequence[Node], q: Node) -> list[Node]:
        wide = attention_score_dtype(q.type.dtype)
        found = [self._mask_in_heads(cast(operands[i], wide)) for i in self.bias]
        found = [-x if self.subtracted else x for x in found]
        for at, seen in self.mask:
            mask = self._mask_in_heads(operands[at])
            found.append(mask if seen else negated(mask))
        for x in self.fill:
            found.append(
                constant_node(float(x), wide) if isinstance(x, str) else cast(operands[x], wide)
            )
        return found if self.fill != ("-inf",) else found[:-1]

    def _mask_in_heads(self, mask: Node) -> Node:
        """A mask, which broadcasts to the scores, in the order of heads."""
        batch = [x for x in self.labels[0] if x[0] in "bg"]
        labels = (*sorted(batch, key=lambda x: int(x[1:])), "row", "key")
        whole = (*(1,) * (len(labels) - mask.type.rank), *mask.type.shape)
        return _spelled_in_heads(_spelled_in_shape(mask, whole), labels, ("row", "key"))


_KINDS = ("row", "depth"), ("key", "depth"), ("key", "width")  # of queries, keys and values


def _attention_spelling_order(labels: Labels, *last: str) -> Labels:
    """The names of dimensions in the order of the fused op: groups of queries are neighbours."""
    batch = [x for x in labels if x[0] in "bg"]
    return (*sorted(batch, key=lambda x: (x[0], int(x[1:]))), *last)


def _spelled_in_heads(x: Node, labels: Labels, last: Labels) -> Node:
    """A value as the fused op has it, [..., heads, length, depth]."""
    sizes = dict(zip(labels, x.type.shape, strict=True))
    kept = tuple([n for n in labels if not is_one_in_attention(n)])
    x = _spelled_in_shape(x, [sizes[n] for n in kept])
    wanted = _attention_spelling_order(kept, *last)
    perm = tuple([kept.index(w) for w in wanted])
    x = x if perm == tuple(range(len(perm))) else Transpose(perm)(x)
    batch = [sizes[n] for n in wanted if n[0] == "b"] or [1]
    groups = [sizes[n] for n in wanted if n[0] == "g"]
    heads = math.prod([batch[-1], *groups])
    return _spelled_in_shape(x, (*batch[:-1], heads, *[sizes[n] for n in last]))


def _spelled_from_heads(x: Node, labels: Labels, last: Labels, shape: Sequence[int]) -> Node:
    """The inverse of `_spelled_in_heads`, for a value of this shape."""
    sizes = dict(zip(labels, shape, strict=True))
    given = _attention_spelling_order(labels, *last)
    x = _spelled_in_shape(x, [sizes[n] for n in given])
    perm = tuple([given.index(n) for n in labels if not is_one_in_attention(n)])
    x = x if perm == tuple(range(len(perm))) else Transpose(perm)(x)
    return _spelled_in_shape(x, shape)


def _spelled_in_shape(x: Node, shape: Sequence[int]) -> Node:
    return x if x.type.shape == tuple(shape) else Reshape(tuple(shape))(x)


def _attention_forms(node: Node) -> Iterator[tuple[Spelling, Operands]]:
    """The spelling whose result is `node`, read from the program."""
    found = read_attention(node)
    if (
        found is None
        or not _attention_spelling_fits(found)
        or not _is_ordinary_attention_scale(_spelled_attention_scale(found), found.q.type.dtype)
    ):
        return
    operands = [x for x in found.operands() if not _is_spelled_attention_number(x)]
    inner = _attention_spelling_nodes(node, set(operands))
    if inner is None:
        return
    types = tuple([Type(x.type.shape, x.type.dtype) for x in operands])
    form = _attention_spelling_form(found, operands, _attention_spelling_steps(inner, operands))
    yield _attention_spelling_of(form), types
    if any(isinstance(op, Max) for op, _ in form.steps):  # the derivative may stop there
        yield _attention_spelling_of(dataclasses.replace(form, stops=True)), types


def _attention_spelling_form(
    found: AttentionReading, operands: Sequence[Node], steps: Steps
) -> AttentionSpellingForm:
    at = {x: i for i, x in enumerate(operands)}
    lower, upper, masks, bias = _spelled_attention_masks(found)
    others = [(kind is Div, at[x]) for kind, x in found.scales if x in at]
    return AttentionSpellingForm(
        steps=steps, count=len(operands), q=at[found.q], k=at[found.k], v=at[found.v],
        labels=(found.q_labels, found.k_labels, found.v_labels, found.out_labels),
        scale=repr(_spelled_attention_scale(found)), factors=tuple(others),
        bias=tuple([at[x] for x in bias]), subtracted=found.subtracted,
        mask=tuple([(at[x], seen) for x, seen in masks]),
        fill=tuple([
            repr(_spelled_attention_number(x)) if _is_spelled_attention_number(x) else at[x]
            for x in found.fill
        ]),
        lower=lower, upper=upper,
    )  # fmt: skip


def _spelled_attention_scale(found: AttentionReading) -> float:
    """The product of the scales that are constants; NaN if one divides by 0."""
    scale = 1.0
    for kind, x in found.scales:
        if _is_spelled_attention_number(x):
            number = _spelled_attention_number(x)
            scale *= number if kind is not Div else 1 / number if number else math.nan
    return scale


def _is_ordinary_attention_scale(scale: float, dtype: DType) -> bool:
    """Whether queries may be scaled instead of scores: infinity times 0 is NaN."""
    return abs(scale) <= float(ml_dtypes.finfo(dtype.numpy).max)


@lru_cache(maxsize=256)
def _attention_spelling_of(form: AttentionSpellingForm) -> Spelling:
    return Spelling(
        name="attention", last=type(form.steps[-1][0]), formula=form.replay,
        operands=lambda node: (), fused=form.fused, pull=form.pull,
    )  # fmt: skip


def _attention_spelling_fits(found: AttentionReading) -> bool:
    """Whether the fused op takes these operands."""
    dtypes = {x.type.dtype for x in (found.q, found.k, found.v)}
    labels = found.q_labels, found.k_labels, found.v_labels, found.out_labels
    q, k, v, out = ({x for x in names if x[0] in "bg"} for names in labels)
    if len(dtypes) != 1 or not dtypes.pop().is_float:
        return False
    shared = {x for x in q if x[0] == "g"}
    return q == out and k == v == q - shared and _attention_spelling_masks_fit(found)


def _attention_spelling_masks_fit(found: AttentionReading) -> bool:
    """Whether masks are the same for all heads, or given for each."""
    sizes = dict(zip(found.q_labels, found.q.type.shape))
    heads = [x for x in _attention_spelling_order(found.q_labels) if x[0] == "b"][-1:]
    heads += [x for x in sizes if x[0] == "g"]
    rank = len(found.q_labels)  # as many as scores have
    for mask in (*found.bias, *[x for x, _ in found.masks]):
        shape = (*(1,) * (rank - mask.type.rank), *mask.type.shape)
        given = {shape[int(x[1:])] == sizes[x] for x in heads if sizes[x] != 1}
        if len(given) == 2:
            return False
    return True


def _is_spelled_attention_number(x: Node) -> bool:
    return isinstance(x.op, Const) and not x.type.rank


def _spelled_attention_number(x: Node) -> float:
    assert isinstance(x.op, Const)
    return float(x.op.array)


def _attention_spelling_nodes(node: Node, operands: set[Node]) -> list[Node] | None:
    """The nodes of the formula, operands of each one first; None if it has other operands."""
    found, stack = {node}, [node]
    while stack:
        x = stack.pop()
        if not x.inputs and not _is_spelled_attention_number(x):
            return None
        for y in x.inputs:
            if y not in operands and y not in found:
                found.add(y)
                stack.append(y)
    return sorted(found, key=by_number)


def _attention_spelling_steps(inner: Sequence[Node], operands: Sequence[Node]) -> Steps:
    at = {x: i for i, x in enumerate([*operands, *inner])}
    return tuple([(x.op, tuple([at[y] for y in x.inputs])) for x in inner])


Masks = tuple[tuple[Node, bool], ...]


def _spelled_attention_masks(
    found: AttentionReading,
) -> tuple[tuple, tuple, Masks, tuple[Node, ...]]:
    """The limits of keys that queries see by position, and masks and biases that say more."""
    sizes = dict(
        zip((*found.q_labels, *found.k_labels), (*found.q.type.shape, *found.k.type.shape))
    )
    scores = sizes["row"], sizes["key"]
    for mask, seen in found.masks:
        array = _spelled_attention_constant(mask)
        band = None if array is None else _spelled_attention_band(array if seen else ~array, scores)
        if band is not None:
            return *band, (), found.bias
    for bias in found.bias:
        unknown = found.masks or leads_to_attention_product(bias)
        array = None if unknown else _spelled_attention_constant(bias)
        if array is not None and found.subtracted:
            array = -array
        if array is not None and np.all((array == 0) | (array <= _HIDDEN)):
            band = _spelled_attention_band(array == 0, scores)
            if band is not None and np.all(np.any(array == 0, -1)):
                lower, upper = band
                return lower, upper, (), ()
    return (), (), found.masks, found.bias


def _spelled_attention_band(
    seen: np.ndarray, scores: tuple[int, int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The limits of j - i where query i sees key j; None if the mask is not such a band."""
    if any(n != 1 for n in seen.shape[:-2]) or not seen.any():
        return None
    queries, keys = scores
    seen = np.broadcast_to(seen, (*seen.shape[:-2], queries, keys)).reshape(queries, keys)
    away = np.arange(keys) - np.arange(queries)[:, None]
    low, high = int(away[seen].min()), int(away[seen].max())
    if not np.array_equal(seen, (away >= low) & (away <= high)):
        return None
    return () if low == away.min() else (low,), () if high == away.max() else (high,)


def _spelled_attention_constant(x: Node) -> np.ndarray | None:
    """The value of a node that depends neither on inputs nor on the device."""
    if x.type.size > _LARGEST:
        return None
    found, stack = {x}, [x]
    while stack:
        y = stack.pop()
        unknown = isinstance(y.op, (DistinctKind, UnpackedScalarKind, Collective))
        if unknown or graphs_in_parameters(y.op.parameters()) or len(found) > _DEEPEST:
            return None
        for z in y.inputs:
            if z not in found:
                found.add(z)
                stack.append(z)
    return interpret(Graph([], [x]), [])[0]


def _attention_spellings_for_cudnn(node: Node) -> Iterator[tuple[Spelling, Operands]]:
    """Those that cuDNN computes; others would be written out again, in wider products."""
    for found, types in _attention_forms(node):
        fused = found.fused(*[Input(f"x{i}", t.shape, t.dtype)() for i, t in enumerate(types)])
        for x in [] if fused is None else Graph([], [fused]).nodes:
            if isinstance(x.op, Attention) and cudnn_takes(x.op, *[y.type for y in x.inputs]):
                yield found, types


for _platform, _read in (("cpu", _attention_forms), ("cuda", _attention_spellings_for_cudnn)):
    for _last in (MatMul, Einsum):
        spelling(
            Spelling(
                name="attention",
                last=_last,
                formula=lambda *xs: xs[0],
                operands=_read,
                fused=lambda *xs: None,
                platforms=(_platform,),
            )
        )
