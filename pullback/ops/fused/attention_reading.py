"""Read hand-written attention: which nodes are queries, keys, values, masks and scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pullback.graph.dtypes import float32
from pullback.ops.elementwise.arithmetic import Add, Mul, Sub
from pullback.ops.elementwise.cast import Cast
from pullback.ops.elementwise.division import Div
from pullback.ops.elementwise.exponential import Exp
from pullback.ops.elementwise.select import Where
from pullback.ops.linalg.einsum_expansion import Einsum, parse_einsum
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.prelude import Node
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import Softmax
from pullback.ops.shape.movement import Broadcast
from pullback.ops.shape.squeeze_flip_axes import ExpandDims
from pullback.ops.wrap.identity import StopGradient

# A name for each dimension: those of the scores, "depth" and "width". Dimensions of the scores are
# "row" and "key"; "b0", "b1", ... where keys and values have them; "g0", "g1", ... where queries
# share keys and values; and "one0", "one1", ... are dimensions of size 1 that stand for those.
Labels = tuple[str, ...]


@dataclass(frozen=True)
class AttentionReading:
    """The parts of an attention formula."""

    q: Node
    k: Node
    v: Node
    q_labels: Labels
    k_labels: Labels
    v_labels: Labels = ()
    out_labels: Labels = ()
    scales: tuple[tuple[type, Node], ...] = ()  # a factor of the scores, or a divisor
    bias: tuple[Node, ...] = ()
    subtracted: bool = False  # whether the bias is subtracted from the scores
    masks: tuple[tuple[Node, bool], ...] = ()  # and whether it is true where a key is seen
    fill: tuple[Node, ...] = ()

    def operands(self) -> list[Node]:
        """The nodes that the formula is a function of."""
        scales = [x for _, x in self.scales]
        masks = [x for x, _ in self.masks]
        return list(
            dict.fromkeys([self.q, self.k, self.v, *scales, *self.bias, *masks, *self.fill])
        )


def read_attention(node: Node) -> AttentionReading | None:
    """Return the parts of attention whose result is `node`, a product of weights and values."""
    for weights, values, labels, v_labels, out_labels in _read_attention_sums(node):
        scores = _read_attention_softmax(_read_without_cast(weights))
        if scores is None:
            continue
        last = scores.type.rank - 1
        for found in _read_scores(scores):
            names = (*[f"b{i}" for i in range(last - 1)], "row", "key")
            known = dict(zip(labels, names, strict=True)) | {
                x: x for x in v_labels if is_one_in_attention(x)
            }
            return _read_attention_groups(dataclasses.replace(
                found, v=values,
                v_labels=tuple([known.get(x, "width") for x in v_labels]),
                out_labels=tuple([known.get(x, "width") for x in out_labels]),
            ))  # fmt: skip
    return None


def is_one_in_attention(label: str) -> bool:
    """Whether a dimension of size 1 stands for one that queries have."""
    return label.startswith("one")


def _read_attention_groups(found: AttentionReading) -> AttentionReading:
    """Name the dimensions of queries along which they share keys."""
    shared = {x for x in found.q_labels if x[0] == "b" and x not in found.k_labels}

    def named(labels: Labels) -> Labels:
        return tuple([f"g{x[1:]}" if x in shared else x for x in labels])

    return dataclasses.replace(
        found, q_labels=named(found.q_labels), v_labels=named(found.v_labels),
        out_labels=named(found.out_labels),
    )  # fmt: skip


def _read_attention_labels(node: Node) -> tuple[Labels, Labels, Labels] | None:
    """Names of the dimensions of a product's operands and result; None if they broadcast, unless
    only the second operand of a matrix product does."""
    x, y = node.inputs
    if isinstance(node.op, MatMul):
        rank = node.type.rank
        if x.type.shape[:-2] != node.type.shape[:-2] or y.type.rank != rank or rank < 2:
            return None
        batch = tuple([f"{i}" for i in range(rank - 2)])
        pairs = zip(batch, x.type.shape, y.type.shape)
        others = [i if n == m else f"one{i}" for i, n, m in pairs]
        return (*batch, "m", "k"), (*others, "k", "n"), (*batch, "m", "n")
    assert isinstance(node.op, Einsum)
    terms, output = parse_einsum(node.op.spec, [x.type, y.type])
    sizes: dict[str, set[int]] = {}
    for term, z in zip(terms, (x, y), strict=True):
        for label, n in zip(term, z.type.shape, strict=True):
            sizes.setdefault(label, set()).add(n)
    plain = all(len(set(t)) == len(t) for t in (*terms, output))
    alike = all(len(n) == 1 for n in sizes.values())
    return (*[tuple(t) for t in terms], tuple(output)) if plain and alike else None  # type: ignore[return-value]


def _read_attention_sums(node: Node) -> Iterator[tuple[Node, Node, Labels, Labels, Labels]]:
    """Ways to see a product as a sum of values with weights, along the weights' last dimension."""
    labels = _read_attention_labels(node) if len(node.inputs) == 2 else None
    if labels is None:
        return
    x, y, out = labels
    orders = [(0, x, y)] if isinstance(node.op, MatMul) else [(0, x, y), (1, y, x)]
    for at, weights, values in orders:
        summed = set(x) & set(y) - set(out)
        own = {x for x in values if x not in weights and not is_one_in_attention(x)}
        if summed != set(weights[-1:]) or not summed or len(own) != 1:
            continue
        if set(out) == {*weights[:-1], *own}:
            yield node.inputs[at], node.inputs[1 - at], weights, values, out


def _read_attention_softmax(p: Node) -> Node | None:
    """The scores of which `p` is the softmax along the last dimension."""
    last = (p.type.rank - 1,)
    if isinstance(p.op, Softmax):
        return p.inputs[0] if p.op.axes == last else None
    if not isinstance(p.op, Div):
        return None
    e, total = p.inputs
    if total.op is not Sum(last, True) or total.inputs[0] is not e or not isinstance(e.op, Exp):
        return None
    shifted = e.inputs[0]
    if not isinstance(shifted.op, Sub):
        return None
    scores, top = shifted.inputs
    top = top.inputs[0] if isinstance(top.op, StopGradient) else top
    return scores if top.op is Max(last, True) and top.inputs[0] is scores else None


def _read_scores(z: Node) -> Iterator[AttentionReading]:
    """Walk from the softmax's operand to the product of queries and keys."""
    steps: dict[str, Any] = {"scales": (), "bias": (), "masks": (), "fill": ()}
    while True:
        z = _read_without_cast(z)
        if isinstance(z.op, (MatMul, Einsum)):
            found = _read_product(z)
            if found is not None:
                scales = (*steps["scales"], *found.scales)
                yield dataclasses.replace(found, **{**steps, "scales": scales})
            return
        if _is_scaled_attention(z):
            steps["scales"] += ((type(z.op), _read_scale(z)),)
            z = _read_scaled(z)
        elif steps["scales"]:
            return  # a scaled mask
        elif isinstance(z.op, Where) and not steps["masks"] and not steps["bias"]:
            (mask, x, y), whole = z.inputs, z.type.shape
            seen = _read_attention_number(y).type.rank == 0
            z, fill = (x, _read_attention_number(y)) if seen else (y, _read_attention_number(x))
            if fill.type.rank or not mask.type.rank or z.type.shape != whole:
                return
            steps["masks"], steps["fill"] = ((mask, seen),), (fill,)
        elif isinstance(z.op, (Add, Sub)) and not steps["bias"]:
            (x, y), whole = z.inputs, z.type.shape
            steps["subtracted"] = isinstance(z.op, Sub)
            first = steps["subtracted"] or leads_to_attention_product(x)
            z, bias = (x, y) if first else (y, x)
            if not bias.type.rank or z.type.shape != whole:
                return
            steps["bias"] = (bias,)
        else:
            return


def _read_attention_number(x: Node) -> Node:
    """The number that a value repeats, if it does."""
    start = x
    while isinstance(x.op, (Broadcast, ExpandDims)):
        x = x.inputs[0]
    return start if x.type.rank else x


def leads_to_attention_product(z: Node) -> bool:
    """Whether a node is a product, maybe scaled: then it is the scores, not what is added."""
    z = _read_without_cast(z)
    while _is_scaled_attention(z):
        z = _read_without_cast(_read_scaled(z))
    return isinstance(z.op, (MatMul, Einsum))


def _is_scaled_attention(x: Node) -> bool:
    if isinstance(x.op, Div):
        return x.inputs[1].type.rank == 0 and x.inputs[0].type.rank > 0
    return isinstance(x.op, Mul) and 0 in [y.type.rank for y in x.inputs] and x.type.rank > 0


def _read_scaled(x: Node) -> Node:
    return x.inputs[0] if x.inputs[0].type.rank else x.inputs[1]


def _read_scale(x: Node) -> Node:
    return x.inputs[1] if x.inputs[0].type.rank else x.inputs[0]


def _read_without_cast(x: Node) -> Node:
    """A value before it was converted from a 16-bit float to f32, or back."""
    if not isinstance(x.op, Cast):
        return x
    pair = {x.type.dtype, x.inputs[0].type.dtype}
    short = [d for d in pair if d.is_float and d.bits == 16]
    return x.inputs[0] if len(short) == 1 and float32 in pair else x


def _read_product(node: Node) -> AttentionReading | None:
    """Queries and keys of a product whose last dimension is that of keys."""
    labels = _read_attention_labels(node) if len(node.inputs) == 2 else None
    if labels is None or node.type.rank < 2:
        return None
    x, y, out = labels
    at = 0 if out[-2] in x else 1
    q_labels, k_labels = (x, y) if at == 0 else (y, x)
    summed = set(x) & set(y) - set(out)
    own = out[-2] in k_labels or out[-1] in q_labels
    if len(summed) != 1 or own or set(q_labels) != {*out[:-1], *summed}:
        return None
    ones = {x: x for x in k_labels if is_one_in_attention(x)}
    if not {out[-1], *summed} <= set(k_labels) <= {*out[:-2], out[-1], *summed, *ones}:
        return None
    names = {label: f"b{i}" for i, label in enumerate(out[:-2])} | ones
    names |= {out[-2]: "row", out[-1]: "key", summed.pop(): "depth"}
    scales: list[tuple[type, Node]] = []
    read: list[Node] = []
    for given in (node.inputs[at], node.inputs[1 - at]):
        operand = _read_without_cast(given)
        while _is_scaled_attention(operand):
            scales.append((type(operand.op), _read_scale(operand)))
            operand = _read_without_cast(_read_scaled(operand))
        read.append(operand)
    return AttentionReading(
        q=read[0], k=read[1], v=read[1],
        q_labels=tuple([names[x] for x in q_labels]),
        k_labels=tuple([names[x] for x in k_labels]),
        scales=tuple(scales),
    )  # fmt: skip
