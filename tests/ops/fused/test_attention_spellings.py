"""Attention by hand becomes the fused op, and what only looks like it does not."""

import math

import numpy as np
import pytest
from spelled import finds, fused_ops, graph_of, in_dtypes, leaves, pulled, rows, same_with_kernels

import pullback as pb
from pullback.transforms.recognition import recognised

Q, K, V = rows(2, 3, 5, 4), rows(2, 3, 7, 4, salt=1), rows(2, 3, 7, 6, salt=2)
FULL = [Q, K, V]
SPLIT = [x.swapaxes(1, 2) for x in FULL]  # [batch, length, heads, depth]
OPS = "Attention", "AttentionGradient"
SCALED = "ScaledAttention", "ScaledAttentionGradient"


def softmax(s):
    return pb.softmax(s, axis=-1)


def by_hand(s):
    e = pb.exp(s - pb.max(s, axis=-1, keepdims=True))
    return e / pb.sum(e, axis=-1, keepdims=True)


def held(s):
    e = pb.exp(s - pb.stop_gradient(pb.max(s, axis=-1, keepdims=True)))
    return e / e.sum(-1, keepdims=True)


def tril(k=0):
    return pb.tril(pb.ones((5, 7), dtype=pb.bool), k)


def einsum(q, k, v):
    s = pb.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(4)
    return pb.einsum("bhqk,bkhd->bqhd", softmax(s), v)


def einsum_swapped(q, k, v):
    s = pb.einsum("bkhd,bqhd->bhqk", k, q) * 0.5
    return pb.einsum("bkhd,bhqk->bhqd", v, softmax(s))


WAYS = {
    "plain": lambda q, k, v: softmax(q @ k.mT) @ v,
    "divided": lambda q, k, v: softmax(q @ k.mT / math.sqrt(4)) @ v,
    "multiplied": lambda q, k, v: softmax(4**-0.5 * (q @ k.mT)) @ v,
    "negative scale": lambda q, k, v: softmax(q @ k.mT * -1.5) @ v,
    "scale 0": lambda q, k, v: softmax(q @ k.mT * 0.0) @ v,
    "scaled queries": lambda q, k, v: softmax((q * 0.5) @ k.mT) @ v,
    "scaled keys": lambda q, k, v: softmax(q @ (k / 2).mT) @ v,
    "scaled twice": lambda q, k, v: softmax((q * 0.7) @ k.mT / 3) @ v,
    "functional": lambda q, k, v: pb.matmul(
        pb.nn.functional.softmax(pb.matmul(q, pb.swapaxes(k, -1, -2)) / 2), v
    ),
    "transposed": lambda q, k, v: softmax(q @ pb.permute_dims(k, (0, 1, 3, 2)) / 2) @ v,
    "by hand": lambda q, k, v: by_hand(q @ k.mT) @ v,
    "by hand, held": lambda q, k, v: held(q @ k.mT / 2) @ v,
    "einsum of heads": lambda q, k, v: pb.einsum(
        "...qk,...kd->...qd", softmax(pb.einsum("...qd,...kd->...qk", q, k) * 0.5), v
    ),
}
MASKED = {
    "-inf": lambda q, k, v: softmax(pb.where(tril(), q @ k.mT / 2, -math.inf)) @ v,
    "-1e9": lambda q, k, v: softmax(pb.where(tril(), q @ k.mT / 2, -1e9)) @ v,
    "triu": lambda q, k, v: softmax(
        pb.where(pb.triu(pb.ones((5, 7)), 1) == 1, -math.inf, q @ k.mT)
    ) @ v,
    "positions": lambda q, k, v: softmax(
        pb.where(pb.arange(7)[None, :] <= pb.arange(5)[:, None], q @ k.mT, -math.inf)
    ) @ v,
    "added": lambda q, k, v: softmax(q @ k.mT / 2 + pb.where(tril(), 0.0, -1e9)) @ v,
    "added -inf": lambda q, k, v: softmax(
        pb.where(tril(), 0.0, -math.inf)[None, None] + q @ k.mT
    ) @ v,
    "added product": lambda q, k, v: softmax(q @ k.mT - 1e9 * pb.triu(pb.ones((5, 7)), 1)) @ v,
    "subtracted mask": lambda q, k, v: softmax(q @ k.mT - pb.where(tril(), 0.0, 1e9)) @ v,
    "window": lambda q, k, v: softmax(pb.where(tril() & ~tril(-3), q @ k.mT, -math.inf)) @ v,
}  # fmt: skip
# Masks that are constants and no bands; queries that see no key
OTHER_MASKS = {
    "keys": lambda q, k, v: softmax(pb.where(pb.arange(7)[None, :] < 3, q @ k.mT, -math.inf)) @ v,
    "keys of all": lambda q, k, v: softmax(
        pb.where((pb.arange(7) < 3).reshape(1, 1, 1, 7), q @ k.mT, -1e9)
    ) @ v,
    "a vector": lambda q, k, v: softmax(pb.where(pb.arange(7) < 3, q @ k.mT, -1e9)) @ v,
    "queries": lambda q, k, v: softmax(pb.where(pb.arange(5)[:, None] < 3, q @ k.mT, -1e9)) @ v,
    "added to keys": lambda q, k, v: softmax(
        q @ k.mT + pb.where(pb.arange(7)[None, :] < 3, 0.0, -1e9)
    ) @ v,
    "added to queries": lambda q, k, v: softmax(
        q @ k.mT + pb.where(pb.arange(5)[:, None] < 3, 0.0, -1e9)
    ) @ v,
    "strict, -1e9": lambda q, k, v: softmax(pb.where(tril(-1), q @ k.mT, -1e9)) @ v,
    "strict, -inf": lambda q, k, v: softmax(pb.where(tril(-1), q @ k.mT, -math.inf)) @ v,
    "strict, added": lambda q, k, v: softmax(q @ k.mT + pb.where(tril(-1), 0.0, -1e9)) @ v,
    "0": lambda q, k, v: softmax(pb.where(tril(), q @ k.mT, 0.0)) @ v,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_attention_is_found(way):
    finds(WAYS[way], FULL, *OPS, argnums=(0, 1, 2))


@pytest.mark.parametrize("way", [*MASKED, *OTHER_MASKS])
def test_masked_attention_is_found(way):
    finds((MASKED | OTHER_MASKS)[way], FULL, *OPS, argnums=(0, 1, 2))


@pytest.mark.parametrize("f", [einsum, einsum_swapped])
def test_einsum_with_heads_beside_depth(f):
    finds(f, SPLIT, *OPS, argnums=(0, 1, 2))


def limits(f):
    """The limits of j - i that the fused op has, for a function of q, k and v."""
    made, _ = recognised(graph_of(f, *[x.astype(np.float32) for x in FULL]), "cpu")
    (node,) = [n for n in made.nodes if n.op.name == "Attention"]
    return node.op.lower, node.op.upper, len(node.inputs) - 3


def test_constant_masks_become_limits():
    """The mask is no operand then; a finite score of hidden keys is."""
    assert limits(MASKED["-inf"]) == limits(MASKED["triu"]) == ((), (0,), 0)
    assert limits(MASKED["added"]) == limits(MASKED["added product"]) == ((), (0,), 0)
    assert limits(MASKED["-1e9"]) == ((), (0,), 1)
    assert limits(MASKED["window"]) == ((-2,), (0,), 0)
    for name in ("keys", "keys of all", "a vector", "queries"):
        assert limits(OTHER_MASKS[name])[:2] == ((), ()), name


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_other_ranks(rank):
    given = [x[(0,) * (4 - rank)] if rank < 4 else x[None] for x in FULL]
    finds(MASKED["-inf"], given, *OPS, argnums=(0, 1, 2))


def test_queries_keys_and_values_may_be_the_same():
    x, y = rows(2, 5, 4), rows(2, 5, 4, salt=1)
    finds(lambda x: softmax(x @ x.mT / 3) @ x, [x], *OPS)
    finds(lambda x, y: softmax(x @ y.mT / 3) @ y, [x, y], *OPS, argnums=(0, 1))
    finds(lambda x, y: softmax(x @ y.mT / 3) @ x, [x, y], *OPS, argnums=(0, 1))


def test_numbers_that_are_inputs():
    """As in code that is not compiled: a scale counts once, also where x is queries and keys."""
    c = np.asarray(0.37)
    finds(lambda x, c: softmax(x @ x.mT * c) @ x, [rows(2, 5, 4), c], *SCALED)
    finds(lambda x, c: softmax(x @ x.mT / c) @ x, [rows(2, 5, 4), c], *SCALED)
    finds(lambda q, k, v, c: softmax((q * c) @ k.mT) @ v, [*FULL, c], *SCALED, argnums=(0, 1, 2))
    finds(lambda q, k, v, c: softmax(q @ k.mT / c / 2) @ v, [*FULL, c], *SCALED, argnums=(0, 1, 2))
    both = lambda q, k, v, c: softmax(q * c @ k.mT / (c + 1)) @ v  # noqa: E731
    finds(both, [*FULL, c], *OPS, argnums=(0, 1, 2))
    masked = lambda q, k, v, c: softmax(pb.where(tril(), q @ k.mT, c)) @ v  # noqa: E731
    for fill in (-1e9, -math.inf, 0.0):
        finds(masked, [*FULL, np.asarray(fill)], *OPS, argnums=(0, 1, 2))


def test_masks_that_are_inputs():
    seen = np.random.default_rng(1).random((2, 1, 5, 7)) < 0.6
    seen[0, 0, 2] = False
    for fill in (-math.inf, -1e9):
        where = lambda q, k, v, m, fill=fill: softmax(pb.where(m, q @ k.mT / 2, fill)) @ v  # noqa: E731
        finds(where, [*FULL, seen], *OPS, argnums=(0, 1, 2))
        inverse = lambda q, k, v, m, fill=fill: softmax(pb.where(~m, fill, q @ k.mT)) @ v  # noqa: E731
        finds(inverse, [*FULL, seen[:, :, :1]], *OPS, argnums=(0, 1, 2))
    added = lambda q, k, v, m: softmax(q @ k.mT / 2 + m) @ v  # noqa: E731
    for shape in ((5, 7), (3, 5, 7), (2, 1, 1, 7), (7,)):
        finds(added, [*FULL, rows(*shape, salt=4)], *OPS, argnums=(0, 1, 2))
    finds(added, [*FULL, np.where(seen, 0.0, -1e9)], *OPS, argnums=(0, 1, 2))


def test_a_mask_of_the_scores_needs_them_twice():
    """The product is computed for the mask too, so it is no intermediate value alone."""
    f = lambda q, k, v: (lambda s: softmax(pb.where(s > 0, s, -1e9)) @ v)(q @ k.mT)  # noqa: E731
    fused_ops(f, *FULL)
    fused_ops(pulled(f, 0, 1, 2), *FULL)


def test_16_bit_floats():
    def wide(q, k, v):
        s = pb.astype(q, pb.float32) @ pb.astype(k.mT, pb.float32)
        return pb.astype(softmax(pb.where(tril(), s / 2, -math.inf)), q.dtype) @ v

    for f in (WAYS["divided"], wide):
        for given in in_dtypes(FULL, "float16"):
            assert fused_ops(f, *given)["Attention"] == 1
            fused_ops(pulled(f, 0, 1, 2), *given)
    only_scores = lambda q, k, v: softmax(pb.astype(q @ k.mT, pb.float32)) @ pb.astype(v, "float32")  # noqa: E731
    leaves(only_scores, [x.astype(np.float16) for x in FULL])


def test_attention_with_kernels_and_without():
    names = "-inf", "added", "window", "keys of all", "queries", "strict, -1e9", "strict, -inf", "0"
    functions = [WAYS["scaled twice"], *[(MASKED | OTHER_MASKS)[name] for name in names]]
    same_with_kernels([pulled(f, 0, 1, 2) for f in functions], FULL)


NEAR_MISSES = {
    "over queries": lambda q, k, v: pb.softmax(q @ k.mT, axis=-2) @ v,
    "dropout": lambda q, k, v: (softmax(q @ k.mT) * (q.sum() > 0)) @ v,
    "weights are an output": lambda q, k, v: (lambda w: (w @ v, w))(softmax(q @ k.mT)),
    "scores are an output": lambda q, k, v: (lambda s: (softmax(s) @ v, s))(q @ k.mT),
    "a scale of each head": lambda q, k, v: softmax(
        q @ k.mT * pb.tensor([1.0, 2.0, 3.0], dtype=q.dtype).reshape(3, 1, 1)
    ) @ v,
    "a scaled mask": lambda q, k, v: softmax(pb.where(tril(), q @ k.mT, -3.0) / 2) @ v,
    "division by 0": lambda q, k, v: softmax(q @ k.mT / 0.0) @ v,
    "an infinite scale": lambda q, k, v: softmax(q @ k.mT * math.inf) @ v,
    "a number added": lambda q, k, v: softmax(q @ k.mT + 1.0) @ v,
    "a mask of rank 0": lambda q, k, v: softmax(pb.where(True, q @ k.mT, -math.inf)) @ v,
    "no maximum": lambda q, k, v: (lambda e: (e / e.sum(-1, keepdims=True)) @ v)(
        pb.exp(q @ k.mT)
    ),
    "another maximum": lambda q, k, v: (
        lambda s: (lambda e: (e / e.sum(-1, keepdims=True)) @ v)(pb.exp(s - pb.max(s)))
    )(q @ k.mT),
    "another sum": lambda q, k, v: (
        lambda s: (lambda e: (e / e.sum(-2, keepdims=True)) @ v)(
            pb.exp(s - pb.max(s, axis=-1, keepdims=True))
        )
    )(q @ k.mT),
    "keys summed": lambda q, k, v: pb.einsum("bhqk,bhkd->bhd", softmax(q @ k.mT), v),
    "one head of values": lambda q, k, v: softmax(q @ k.mT) @ v[:, :1],
}  # fmt: skip


@pytest.mark.parametrize("way", NEAR_MISSES)
def test_near_misses_stay(way):
    leaves(NEAR_MISSES[way], FULL, *OPS)


def test_a_mask_or_values_may_have_more_examples_than_the_scores():
    q, k, v = rows(1, 5, 4), rows(1, 7, 4), rows(3, 7, 4)
    seen = np.random.default_rng(0).random((3, 5, 7)) < 0.7
    leaves(lambda q, k, v, m: softmax(pb.where(m, q @ k.mT, -1e9)) @ v, [q, k, v, seen], *OPS)
    leaves(lambda q, k, v, m: softmax(q @ k.mT + m) @ v, [q, k, v, rows(3, 5, 7)], *OPS)


def test_gradients_that_the_fused_op_does_not_have():
    """Of a learned scale, a learned bias, and a number in place of hidden scores."""
    scaled = lambda q, k, v, c: softmax(q @ k.mT * c) @ v  # noqa: E731
    leaves(pulled(scaled, 0, 3), [*FULL, np.asarray(0.7)], *OPS)
    biased = lambda q, k, v, c: softmax(q @ k.mT + c) @ v  # noqa: E731
    for shape in ((5, 7), (3, 1, 7)):
        leaves(pulled(biased, 0, 3), [*FULL, rows(*shape)], *OPS)
    filled = lambda q, k, v, c: softmax(pb.where(tril(), q @ k.mT, c)) @ v  # noqa: E731
    leaves(pulled(filled, 0, 3), [*FULL, np.asarray(-0.5)], *OPS)


def test_second_derivatives_and_tangents():
    f = MASKED["-inf"]

    def second(q, k, v):
        return pb.grad(lambda q: pb.sum(pb.sin(pulled(f)(q, k, v)[1][0])))(q)

    def tangent(q, k, v):
        return pb.jvp(lambda q: f(q, k, v), (q,), (pb.ones_like(q),))

    for program in (second, tangent, pulled(lambda q, k, v: tangent(q, k, v)[1], 0, 1, 2)):
        fused_ops(program, *FULL)


def test_masks_of_a_device_are_not_constants():
    """The position on a mesh has no operands, and no value before the program runs."""
    mesh = pb.DeviceMesh((1,), ("a",))

    def local(q, k, v):
        first = pb.axis_index("a") * 5
        seen = pb.arange(7)[None, :] <= pb.arange(5)[:, None] + first
        return softmax(pb.where(seen, q @ k.mT, -math.inf)) @ v

    given = [pb.tensor(x) for x in FULL]
    spec = pb.P("a")
    f = pb.shard_map(local, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec)
    want = MASKED["positions"](*given).numpy()
    np.testing.assert_allclose(pb.compile(f)(*given).numpy(), want, rtol=1e-10)


def test_products_of_few_dimensions():
    """They are looked at, too, and are no attention."""
    q, k, v, c = rows(4), rows(7, 4), rows(7, 6), np.asarray(0.5)
    leaves(lambda q, k, v, c: softmax(k @ q) @ v, [q, k, v, c], *OPS)
    leaves(lambda q, k, v, c: pb.einsum(",i->i", c, q), [q, k, v, c], *OPS)
    leaves(lambda q, k, v, c: pb.einsum("i,i->", q, q), [q, k, v, c], *OPS)
    leaves(
        lambda q, k, v, c: pb.einsum("k,kd->d", softmax(pb.einsum("kd,d->k", k, q)), v),
        [q, k, v, c], *OPS,
    )  # fmt: skip


def test_divisors_whose_reciprocal_is_subnormal():
    """XLA's CPU code flushes subnormal numbers to zero, so queries must really be divided."""

    def f(q, k, v, root):
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return softmax(q / root @ k.mT) @ v

    q, k, v = (np.asarray(x / 8, np.float32) for x in SPLIT)
    root = np.float32(2e38)
    found = pb.compile(f)(q * root, k, v, root).numpy()
    wanted = pb.compile(f)(q, k, v, np.float32(1)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
