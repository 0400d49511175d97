"""Einstein summation, expanded to transposes, sums and pairwise contractions."""

from __future__ import annotations

import itertools
import math
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.graph.types import show_types
from pullback.ops.linalg.contraction import Pair
from pullback.ops.linalg.dot_general import DotGeneral
from pullback.ops.prelude import Axis, Composite, Node, Text, Type
from pullback.ops.reduce.reductions import Sum
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.movement import Reshape, Transpose
from pullback.ops.shape.slicing import Slice

Labels = tuple[str, ...]  # one per dimension; the dimensions of `...` are "0", "1", ...
Term = tuple[Node, Labels]


class Einsum(Composite, SumOfProductsKind):
    """The sum over all index values of the product of the operands, as in NumPy's einsum.

    Each step of the path contracts operands of a list, by their positions, and appends the result.
    Without a path, the pair that adds the least memory is next.
    """

    spec: str
    path: tuple[tuple[int, ...], ...] = ()
    kinds: ClassVar[str] = "iufc"
    text = Text(("spec",))

    def expand(self, *xs: Node) -> Node:
        return einsum(self.spec, *xs, path=self.path)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        operands, output = expand_einsum_spec(self.spec)
        used = set(self.spec)
        free = next((i for i in string.ascii_letters if i not in used), None)
        if free is None:
            raise ArgumentError(f"{self.spec!r}: no letter is left for a mapped axis")
        parts = [free + part if has else part for part, has in zip(operands, mapped, strict=True)]
        return Einsum(f"{','.join(parts)}->{free}{output}", self.path)(*xs)

    @classmethod
    def samples(cls) -> Any:
        x, y = real(3, 4), real(4, 2, salt=1)
        yield cls("ij,jk->ik"), (x, y)
        yield cls("b i j, b k j -> k b"), (real(2, 3, 4), real(2, 5, 4, salt=1))
        yield cls("ii->i"), (real(4, 4),)
        yield cls("ijik->kj"), (real(3, 2, 3, 2),)
        yield cls("iii"), (real(2, 2, 2),)
        yield cls("ba"), (x,)
        yield cls("...i,...i->..."), (real(2, 1, 4), real(3, 4, salt=1))
        yield cls("...ij,jk"), (real(2, 3, 4), y)
        yield cls("i,j,k->kji"), (real(2), real(3), real(4))
        yield cls("ij,jk,kl,l->i"), (x, y, real(2, 5), real(5))
        yield cls("ij,ij,ij->i"), (real(2, 3), real(2, 3, salt=1), real(2, 3, salt=2))
        yield cls("ij,jk->ik"), (real(3, 4), real(1, 2))
        yield cls("ij,kj->ik"), (complex_samples(2, 3), complex_samples(2, 3, salt=1))
        yield cls("ij,jk,kl->il", ((1, 2), (0, 1))), (x, y, real(2, 5))
        yield cls(",i"), (real(), real(3))
        yield cls("ij,jk->ik"), (real(2, 0), real(0, 3))
        yield cls("ii"), (real(0, 0),)


def einsum(spec: str, *xs: Node, path: Sequence[Sequence[int]] = ()) -> Node:
    """`einsum("bij,bjk->bik", x, y)` as nodes; indices may repeat, `...` broadcasts."""
    types = [x.type for x in xs]
    terms, output = parse_einsum(spec, types)
    if len({t.dtype for t in types}) > 1:
        what = f"{spec!r}: operands must have the same dtype, got {show_types(types)}"
        raise DTypeError(what, code="E2004")
    sizes = einsum_sizes(spec, terms, types)
    work = [
        einsum_diagonals(einsum_without_ones(x, labels, sizes))
        for x, labels in zip(xs, terms, strict=True)
    ]
    for step in path:
        work = _contract_einsum_step(spec, work, step, output, sizes)
    return _expand_einsum_terms(work, output, sizes)


def _expand_einsum_terms(work: list[Term], output: Labels, sizes: dict[str, int]) -> Node:
    """The product of all terms, summed over the indices that the result lacks."""
    while True:
        needed = Counter(output)
        for _, labels in work:
            needed.update(labels)
        work = [_sum_own_einsum_labels(term, needed) for term in work]
        if len(work) == 1:
            return _einsum_arrange(*work[0], output)
        i, j = _cheapest_pair_to_expand([labels for _, labels in work], output, sizes)
        rest = [t for n, t in enumerate(work) if n not in (i, j)]
        kept = {*output, *itertools.chain.from_iterable(labels for _, labels in rest)}
        work = [*rest, expand_einsum_pair(work[i], work[j], kept)]


def _contract_einsum_step(
    spec: str, work: list[Term], step: Sequence[int], output: Labels, sizes: dict[str, int]
) -> list[Term]:
    """The terms after one step of a path."""
    if not step or len(set(step)) < len(step) or not all(0 <= i < len(work) for i in step):
        message = f"{spec!r}: a step of the path must name some of {len(work)} operands by position"
        raise ArgumentError(f"{message}, got {tuple(step)}")
    chosen = [work[i] for i in step]
    rest = [t for n, t in enumerate(work) if n not in step]
    kept = {*output, *itertools.chain.from_iterable(labels for _, labels in rest)}
    labels = dict.fromkeys(itertools.chain.from_iterable(labels for _, labels in chosen))
    order = tuple(i for i in labels if i in kept)
    return [*rest, (_expand_einsum_terms(chosen, order, sizes), order)]


def parse_einsum(spec: str, types: Sequence[Type]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's dimensions and of the result's."""
    parts, right = expand_einsum_spec(spec)
    if not types or len(parts) != len(types):
        raise ArgumentError(f"{spec!r}: names {len(parts)} operands, got {len(types)}")
    for part in (*parts, right):
        letters = part.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ArgumentError(f"{spec!r}: an operand has letters and one '...', got {part!r}")
    terms = [_einsum_labels(spec, part, type) for part, type in zip(parts, types, strict=True)]
    dots = tuple(sorted({i for labels in terms for i in labels if i.isdigit()}, key=int))[::-1]
    head, has_dots, tail = right.partition("...")
    if dots and not has_dots:
        raise ArgumentError(f"{spec!r}: the result must name the dimensions of '...' too")
    output = (*head, *dots, *tail)
    for label, count in Counter(output).items():
        if count > 1 or not any(label in labels for labels in terms):
            why = "is repeated" if count > 1 else "is in no operand"
            raise ArgumentError(f"{spec!r}: index {label!r} of the result {why}")
    return terms, output


def expand_einsum_spec(spec: str) -> tuple[list[str], str]:
    """The operands' parts and the result's. If it is left out, the result has the dimensions of
    `...` and then the letters that appear once, in alphabetical order."""
    left, arrow, right = spec.replace(" ", "").partition("->")
    if not arrow:
        once = sorted(i for i, n in Counter(left).items() if n == 1 and i.isalpha())
        right = "".join(["..." if "..." in left else "", *once])
    return left.split(","), right


def _einsum_labels(spec: str, part: str, type: Type) -> Labels:
    """One label per dimension; those of `...` are numbered from the right."""
    head, dots, tail = part.partition("...")
    hidden = type.rank - len(head) - len(tail)
    if hidden < 0 or (hidden and not dots):
        named = len(head) + len(tail)
        raise ShapeError(f"{spec!r}: {part!r} names {named} dimensions, got {type}", code="E3002")
    return (*head, *map(str, reversed(range(hidden))), *tail)


def einsum_sizes(spec: str, terms: Sequence[Labels], types: Sequence[Type]) -> dict[str, int]:
    """The size of each index; a dimension of size 1 broadcasts."""
    sizes: dict[str, int] = {}
    for labels, type in zip(terms, types, strict=True):
        for label, n in zip(labels, type.shape, strict=True):
            known = sizes.setdefault(label, n)
            if known == 1:
                sizes[label] = n
            elif n not in (1, known):
                name = "a dimension of '...'" if label.isdigit() else f"index {label!r}"
                code = "E3001" if label.isdigit() else "E3003"
                what = f"{spec!r}: {name} is {known} and {n}, got {show_types(types)}"
                raise ShapeError(what, code=code)
    return sizes


def einsum_without_ones(x: Node, labels: Labels, sizes: dict[str, int]) -> Term:
    """Drop dimensions of size 1 that broadcast to a larger index."""
    keep = [i for i, n in enumerate(x.type.shape) if n == sizes[labels[i]]]
    if len(keep) == len(labels):
        return x, labels
    shape = tuple(x.type.shape[i] for i in keep)
    return Reshape(shape)(x), tuple(labels[i] for i in keep)


def einsum_diagonals(term: Term) -> Term:
    """Take the diagonal where an index is repeated."""
    x, labels = term
    for label, count in Counter(labels).items():
        for _ in range(count - 1):
            rest = list(labels)
            rest.remove(label)
            rest.remove(label)
            x = _einsum_arrange(x, labels, (label, label, *rest))
            n = x.type.shape[0]
            shape = x.type.shape[2:]
            # In row-major order the diagonal of n by n is every (n + 1)st element.
            x = Reshape((n * n, *shape))(x)
            stops, steps = (n * n, *shape), (n + 1, *(1 for _ in shape))
            x = Slice((0,) * len(steps), stops, steps)(x)
            labels = (label, *rest)
    return x, labels


def expand_einsum_pair(x: Term, y: Term, kept: set[str]) -> Term:
    """The product of two operands, summed over the indices that are not `kept`."""
    (a, left), (b, right) = x, y
    shared = [i for i in left if i in right]
    summed = [i for i in shared if i not in kept]
    if not summed:
        return _einsum_multiply(x, y)
    batch = [i for i in shared if i in kept]

    def dims(names: list[str]) -> Pair:
        return tuple([left.index(i) for i in names]), tuple([right.index(i) for i in names])

    own = [i for i in (*left, *right) if i not in shared]
    return DotGeneral(dims(summed), dims(batch))(a, b), (*batch, *own)


def _einsum_multiply(x: Term, y: Term) -> Term:
    """The elementwise product over the union of the indices."""
    labels = tuple(dict.fromkeys((*x[1], *y[1])))
    factors = []
    for node, own in (x, y):
        present = tuple(i for i in labels if i in own)
        node = _einsum_arrange(node, own, present)
        sizes = dict(zip(present, node.type.shape, strict=True))
        shape = tuple(sizes.get(i, 1) for i in labels)
        factors.append(node if node.type.shape == shape else Reshape(shape)(node))
    return factors[0] * factors[1], labels


def _sum_own_einsum_labels(term: Term, needed: Counter) -> Term:
    """Sum over the indices that no other operand and not the result have."""
    x, labels = term
    axes = tuple(i for i, label in enumerate(labels) if needed[label] == 1)
    if not axes:
        return term
    return Sum(axes, False)(x), tuple(i for i in labels if needed[i] > 1)


def _cheapest_pair_to_expand(
    terms: Sequence[Labels], output: Labels, sizes: dict[str, int]
) -> tuple[int, int]:
    """The pair whose contraction adds the least memory; the first of equal ones."""

    def growth(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        kept = {*output}.union(*[labels for n, labels in enumerate(terms) if n not in pair])
        union = dict.fromkeys((*terms[i], *terms[j]))
        held = math.prod(sizes[k] for k in union if k in kept)
        work = math.prod(sizes[k] for k in union)
        return held - sum(math.prod(sizes[k] for k in terms[n]) for n in pair), work

    return min(itertools.combinations(range(len(terms)), 2), key=growth)


def _einsum_arrange(x: Node, labels: Labels, order: Sequence[str]) -> Node:
    perm = _einsum_positions(labels, order)
    return x if perm == tuple(range(len(perm))) else Transpose(perm)(x)


def _einsum_positions(labels: Labels, order: Sequence[str]) -> tuple[int, ...]:
    """The position of each label of `order` in `labels`; a repeated one takes the next."""
    positions: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        positions.setdefault(label, []).append(i)
    return tuple(positions[label].pop(0) for label in order)
