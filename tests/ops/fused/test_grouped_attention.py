"""Attention whose queries share keys and values in groups, written with all dimensions."""

import math

import numpy as np
import pytest
from spelled import finds, graph_of, leaves, pulled, rows, same_with_kernels

import pullback as pb
from pullback.transforms.recognition import recognised

OPS = "Attention", "AttentionGradient"
B, L, S, H, G, D = 2, 5, 7, 2, 3, 4
# Queries are [batch, length, heads of keys, group, depth], keys and values have no group.
LENGTH_FIRST = [rows(B, L, H, G, D), rows(B, S, H, D, salt=1), rows(B, S, H, D + 2, salt=2)]
HEADS_FIRST = [rows(B, H, G, L, D), rows(B, H, S, D, salt=1), rows(B, H, S, D + 2, salt=2)]


def softmax(x):
    return pb.softmax(x, axis=-1)


def causal():
    return pb.tril(pb.ones((L, S), dtype=bool))


def grouped(q, k, v, change=lambda s: s):
    s = pb.einsum("blhgd,bshd->bhgls", q, k) / math.sqrt(D)
    return pb.einsum("bhgls,bshd->blhgd", softmax(change(s)), v)


def groups_first(q, k, v, change=lambda s: s):
    """Queries of the same group are not neighbours."""
    s = change(pb.einsum("blhgd,bshd->bghls", q, k))
    return pb.einsum("bghls,bshd->blghd", softmax(s), v)


def broadcast(q, k, v):
    k, v = k[:, :, None], v[:, :, None]
    return softmax(q @ k.mT * 0.3) @ v


WAYS = {
    "einsum": (grouped, LENGTH_FIRST),
    "causal": (lambda *xs: grouped(*xs, lambda s: pb.where(causal(), s, -math.inf)), LENGTH_FIRST),
    "added": (
        lambda *xs: grouped(*xs[:3], lambda s: s + xs[3]),
        [*LENGTH_FIRST, rows(B, 1, 1, 1, S)],
    ),
    "another order": (groups_first, LENGTH_FIRST),
    "another order, a bias of each head": (
        lambda *xs: groups_first(*xs[:3], lambda s: s + xs[3]),
        [*LENGTH_FIRST, rows(G, H, L, S)],
    ),
    "heads first": (
        lambda q, k, v: pb.einsum(
            "bhgls,bhsd->bhgld", softmax(pb.einsum("bhgld,bhsd->bhgls", q * 0.5, k)), v
        ),
        HEADS_FIRST,
    ),
    "broadcast": (broadcast, HEADS_FIRST),
    "one head of keys": (
        lambda q, k, v: pb.einsum("gls,sd->lgd", softmax(pb.einsum("lgd,sd->gls", q, k)), v),
        [rows(L, G, D), rows(S, D, salt=1), rows(S, D + 2, salt=2)],
    ),
    "one head of keys for a batch": (
        lambda q, k, v: pb.einsum("bhls,bsd->bhld", softmax(pb.einsum("bhld,bsd->bhls", q, k)), v),
        [rows(B, H, L, D), rows(B, S, D, salt=1), rows(B, S, D + 2, salt=2)],
    ),
    "two groups": (
        lambda q, k, v: pb.einsum(
            "bhgls,bsd->bhgld", softmax(pb.einsum("bhgld,bsd->bhgls", q, k)), v
        ),
        [rows(B, H, G, L, D), rows(B, S, D, salt=1), rows(B, S, D + 2, salt=2)],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_found(way):
    f, arrays = WAYS[way]
    finds(f, arrays, *OPS, argnums=(0, 1, 2))


def test_queries_that_are_reshaped():
    def f(q, k, v):
        return grouped(q.reshape(B, L, H, G, D), k, v).reshape(B, L, -1)

    finds(f, [rows(B, L, H * G * D), *LENGTH_FIRST[1:]], *OPS, argnums=(0, 1, 2))


def test_the_order_of_heads():
    """Neighbouring heads share keys; masks keep their shape."""
    f, arrays = WAYS["causal"]
    made, _ = recognised(graph_of(f, *[x.astype(np.float32) for x in arrays]), "cpu")
    (node,) = [n for n in made.nodes if n.op.name == "Attention"]
    assert [x.type.shape for x in node.inputs] == [(B, H * G, L, D), (B, H, S, D), (B, H, S, D + 2)]
    assert (node.op.lower, node.op.upper) == ((), (0,))


NEAR_MISSES = {
    "keys of each query": (
        lambda q, k, v: pb.einsum(
            "bhgls,bshd->blhgd", softmax(pb.einsum("blhgd,bshgd->bhgls", q, k)), v
        ),
        [LENGTH_FIRST[0], rows(B, S, H, G, D), LENGTH_FIRST[2]],
    ),
    "values of each query": (
        lambda q, k, v: pb.einsum(
            "bhgls,bshgd->blhgd", softmax(pb.einsum("blhgd,bshd->bhgls", q, k)), v
        ),
        [*LENGTH_FIRST[:2], rows(B, S, H, G, D)],
    ),
    "groups are summed": (
        lambda q, k, v: pb.einsum(
            "bhgls,bshd->blhd", softmax(pb.einsum("blhgd,bshd->bhgls", q, k)), v
        ),
        LENGTH_FIRST,
    ),
    "keys of more heads": (
        lambda q, k, v: pb.einsum("bhls,bhsd->bhld", softmax(pb.einsum("bld,bhsd->bhls", q, k)), v),
        [rows(B, L, D), rows(B, H, S, D), rows(B, H, S, D)],
    ),
    "a mask of groups": (
        lambda *xs: grouped(*xs[:3], lambda s: s + xs[3]),
        [*LENGTH_FIRST, rows(G, 1, 1)],
    ),
    "a mask of heads of keys": (
        lambda *xs: grouped(*xs[:3], lambda s: s + xs[3]),
        [*LENGTH_FIRST, rows(H, 1, 1, S)],
    ),
    "queries broadcast": (
        lambda q, k, v: softmax(q[:, :, :1] @ pb.stack([k] * G, axis=2).mT) @ v[:, :, None],
        HEADS_FIRST,
    ),
}


@pytest.mark.parametrize("way", NEAR_MISSES)
def test_near_misses_stay(way):
    f, arrays = NEAR_MISSES[way]
    leaves(f, arrays, *OPS)


def test_with_kernels_and_without():
    for way in ("causal", "another order, a bias of each head", "broadcast", "two groups"):
        f, arrays = WAYS[way]
        same_with_kernels([f, pulled(f, 0, 1, 2)], arrays)
