"""Batched indexing, contractions, convolutions and Jacobians, against loops over examples."""

from __future__ import annotations

import itertools
import string

import numpy as np
import pytest
from one_program import OneProgram

import pullback as pb
from pullback import testing
from pullback.errors import ArgumentError, IndexOutOfRange
from pullback.graph.graph import graph_ancestors
from pullback.graph.op_table import TABLE
from pullback.lazy.record import record
from pullback.ops.prelude import Axis
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.threefry import Threefry
from pullback.transforms.batch import batched_graph

rng = np.random.default_rng(7)


def real(*shape):
    return rng.standard_normal(shape)


def whole(*shape, high):
    return rng.integers(0, high, shape)


def looped(f, in_axes, *arrays):
    """Apply f to one example after another, and stack the results."""
    count = next(a.shape[i] for a, i in zip(arrays, in_axes) if i is not None)
    rows = []
    for k in range(count):
        args = [a if i is None else np.take(a, k, i) for a, i in zip(arrays, in_axes)]
        rows.append(f(*[pb.tensor(a) for a in args]).numpy())
    return np.stack(rows)


def check(f, *arrays, in_axes=None):
    """Compare vmap of f with a loop, for every choice of mapped arguments or the given one."""
    choices = [in_axes] if in_axes else itertools.product((0, None), repeat=len(arrays))
    firsts, cases = [a[0] for a in arrays], []
    tensors = [(pb.tensor(a), pb.tensor(first)) for a, first in zip(arrays, firsts)]
    for axes in choices:
        if any(a is not None for a in axes):
            given = [first if i is None else a for a, first, i in zip(arrays, firsts, axes)]
            xs = [first if i is None else x for (x, first), i in zip(tensors, axes)]
            cases.append((axes, given, pb.vmap(f, in_axes=axes)(*xs)))
    pb.evaluate([made for _, _, made in cases])  # one program
    for axes, given, made in cases:
        want = looped(f, axes, *given)
        np.testing.assert_allclose(made.numpy(), want, rtol=1e-9, atol=1e-9, err_msg=str(axes))


def nodes_of(*tensors):
    """The pending nodes of tensors, which are still to be computed."""
    nodes = graph_ancestors([t._node for t in tensors], lambda n: n.value is not None)
    return [n for n in nodes if n.value is None]


def ops_of(*tensors):
    return [n.op.name for n in nodes_of(*tensors)]


# -- contractions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
     ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3))],
)  # fmt: skip
def test_matmul(engine, left, right):
    check(pb.matmul, real(3, *left), real(3, *right))


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [("ij,jk->ik", ((3, 4), (4, 2))), ("ij,jk", ((3, 4), (4, 2))), ("ii->i", ((3, 3),)),
     ("...i,...i", ((2, 4), (4,))), ("b a", ((2, 3),)), ("i,j,k->kji", ((2,), (3,), (2,))),
     ("bij,bkj->kb", ((2, 3, 4), (2, 5, 4))), (",i", ((), (3,)))],
)  # fmt: skip
def test_einsum(engine, spec, shapes):
    check(lambda *xs: pb.einsum(spec, *xs), *[real(3, *s) for s in shapes])


def test_a_batched_einsum_is_one_einsum():
    xs = pb.tensor(real(3, 2, 4)), pb.tensor(real(3, 4, 5))
    assert ops_of(pb.vmap(lambda x, y: pb.einsum("ij,jk", x, y))(*xs)) == ["Einsum"]


def test_an_einsum_that_uses_every_letter():
    text = f"{string.ascii_letters}->"
    x = pb.tensor(np.ones((2, *[1] * 52)))
    with pytest.raises(ArgumentError, match="letter"):
        pb.vmap(lambda x: pb.einsum(text, x))(x)


def test_weights_are_not_repeated():
    """x [B, n, k] @ W [k, m] is one product of the unchanged operands."""
    x, w = pb.tensor(real(8, 3, 4)), pb.tensor(real(4, 5))
    y = pb.vmap(lambda x: x @ w)(x)
    assert ops_of(y) == ["MatMul"]
    (node,) = nodes_of(y)
    assert [n.type.shape for n in node.inputs] == [(8, 3, 4), (4, 5)]


@pytest.mark.parametrize("mapped", [(0, None), (None, 0), (0, 0)])
def test_a_batched_contraction_is_one_contraction(mapped):
    x, y = pb.tensor(real(2, 3, 4)), pb.tensor(real(2, 4, 3, 5))
    args = [a if i == 0 else a[0] for a, i in zip((x, y), mapped)]
    pb.evaluate(args)
    made = pb.vmap(lambda x, y: pb.tensordot(x, y, ([0, 1], [1, 0])), in_axes=mapped)(*args)
    names = ops_of(made)
    assert names.count("DotGeneral") == 1 and "Broadcast" not in names


# -- indexing -------------------------------------------------------------------------------------


def test_gather(engine):
    x, i = real(3, 4, 5), whole(3, 2, 2, high=4)
    check(lambda x, i: pb.take(x, i, axis=0), x, i)
    check(lambda x, i: pb.take(x, i, axis=1), x, i)
    check(lambda x, i: x[i], x, i[:, 0, 0])


def test_index_arrays(engine):
    x, i, j = real(3, 4, 2, 5), whole(3, 2, high=4), whole(3, 2, high=5)
    check(lambda x, i, j: x[i, :, j], x, i, j)
    check(lambda x, i, j: x[:, 1, j] + x[i, 0, 3][:, None], x[:, :2], i % 2, j)


@pytest.mark.parametrize("mode", ["set", "add", "multiply", "min", "max"])
def test_scatter(engine, mode):
    x, i, u = real(3, 4, 2), whole(3, 5, high=4), real(3, 5, 2)
    check(lambda x, i, u: getattr(x.at[i], mode)(u), x, i, u)


def test_dynamic_slices(engine):
    x, i, j, u = real(3, 5, 4), whole(3, high=4), whole(3, high=2), real(3, 2, 3)
    check(lambda x, i, j: pb.dynamic_slice(x, (i, j), (2, 3)), x, i, j)
    check(lambda x, u, i, j: pb.dynamic_update_slice(x, u, (i, j)), x, u, i, j)


def test_an_operand_that_all_examples_read_is_not_copied():
    x, i = pb.tensor(real(1000, 2)), pb.tensor(whole(50, 3, high=1000))
    y = pb.vmap(lambda i: x[i])(i)
    z = pb.vmap(lambda i: pb.dynamic_slice(x, (i, 0), (3, 2)))(i[:, 0])
    assert max(n.type.size for n in nodes_of(y, z)) <= 50 * 3 * 2
    grads = pb.grad(lambda x: pb.vmap(lambda i: pb.dynamic_slice(x, (i, 0), (3, 2)))(i[:, 0]).sum())
    g = grads(x)
    assert max(n.type.size for n in nodes_of(g)) <= 1000 * 2
    want = np.zeros((1000, 2))
    for k in i.numpy()[:, 0]:
        want[k : k + 3] += 1
    np.testing.assert_allclose(g.numpy(), want)


def test_index_arrays_of_all_examples_are_not_copied():
    """Cotangents for the same indices: the scatter writes once for all examples."""
    x, i = pb.tensor(real(6, 2)), pb.tensor(whole(4, high=6))
    _, pull = pb.vjp(lambda x: x[i], x)
    g = pb.vmap(pull)(pb.tensor(real(5, 4, 2)))[0]
    (scatter,) = [n for n in nodes_of(g) if n.op.name == "ScatterAdd"]
    assert scatter.inputs[2].type.shape == (4,)


def loss_by_indices(x, i):
    return (pb.sin(x[i]) * x[i[::-1]] ** 2).sum()


def test_derivatives_of_mapped_indexing(engine):
    x, i = real(3, 4, 2), whole(3, 3, high=4)
    check(pb.grad(loss_by_indices), x, i)
    got = pb.grad(lambda x: pb.vmap(loss_by_indices)(x, pb.tensor(i)).sum())(pb.tensor(x))
    want = looped(pb.grad(loss_by_indices), (0, 0), x, i)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9)
    shared = pb.grad(lambda x: pb.vmap(lambda i: loss_by_indices(x, i))(pb.tensor(i)).sum())
    want = looped(pb.grad(loss_by_indices), (None, 0), x[0], i).sum(0)
    np.testing.assert_allclose(shared(pb.tensor(x[0])).numpy(), want, rtol=1e-9)
    check(lambda x, i: pb.hessian(lambda x: loss_by_indices(x, i))(x), x, i)


OUT_OF_RANGE = [
    lambda x, i: x[i],
    lambda x, i: pb.take(x, i, axis=1),
    lambda x, i: x[:, 1][i],
    lambda x, i: x.at[i].set(0.0),
    lambda x, i: x.at[i, i].add(1.0),
    lambda x, i: pb.dynamic_slice(x, (i, 0), (1, 2)),
    lambda x, i: pb.dynamic_update_slice(x, x[:1], (i, 0)),
]


@pytest.mark.parametrize("k", range(len(OUT_OF_RANGE)))
@pytest.mark.parametrize("axes", [(0, 0), (None, 0)])
def test_one_example_out_of_range_raises(engine, k, axes):
    x, i = real(3, 4, 4), np.array([1, 4, 0])
    x = pb.tensor(x if axes[0] == 0 else x[0])
    with pytest.raises(IndexOutOfRange) as caught:
        pb.vmap(OUT_OF_RANGE[k], in_axes=axes)(x, pb.tensor(i)).numpy()
    assert "axis 0" in str(caught.value) or k == 1
    pb.vmap(OUT_OF_RANGE[k], in_axes=axes)(x, pb.tensor(i % 4)).numpy()


def test_no_examples(engine):
    x, i = pb.tensor(real(0, 4, 2)), pb.tensor(np.zeros((0, 3), np.int64))
    assert pb.vmap(lambda x, i: x[i])(x, i).shape == (0, 3, 2)
    images, filters = pb.tensor(real(0, 1, 4, 4, 2)), pb.tensor(real(0, 3, 3, 2, 5))
    assert pb.vmap(pb.conv2d)(images, filters).numpy().shape == (0, 1, 2, 2, 5)


# -- windows and convolutions ---------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(engine, groups):
    x, w = real(3, 2, 5, 6, 4), real(3, 3, 2, 4 // groups, 6)

    def f(x, w):
        return pb.conv(x, w, strides=(2, 1), padding=((1, 0), (0, 1)), groups=groups)

    check(f, x, w)
    check(pb.grad(lambda x, w: (f(x, w) ** 2).sum(), 0), x, w)
    check(pb.grad(lambda x, w: (f(x, w) ** 2).sum(), 1), x, w)


def test_conv2d_and_pooling(engine):
    x, w = real(3, 2, 6, 6, 3), real(3, 3, 3, 3, 2)
    check(lambda x, w: pb.conv2d(x, w, 2, "SAME"), x, w)
    check(lambda x: pb.max_pool(x, 2), x)
    check(lambda x: pb.avg_pool(x, (3, 2), 1, "SAME"), x)
    check(pb.grad(lambda x: (pb.max_pool(x, 2) ** 2).sum()), x)


def test_images_are_folded_into_one_convolution():
    x, w = pb.tensor(real(5, 2, 6, 6, 3)), pb.tensor(real(3, 3, 3, 2))
    y = pb.vmap(lambda x: pb.conv2d(x, w))(x)
    assert ops_of(y) == ["Reshape", "Conv2d", "Reshape"]


# -- random numbers -------------------------------------------------------------------------------


def test_numbers_drawn_with_a_key_do_not_depend_on_other_keys(engine):
    keys = rng.integers(0, 2**32, (4, 2)).astype(np.uint32)
    for op in (RandomBits((3, 5), 32), RandomBits((), 64), RandomBits((2,), 8)):
        check(lambda key, op=op: record(op, (key._node,)), keys)
    high, low = (rng.integers(0, 2**32, s).astype(np.uint32) for s in ((4,), (4, 2, 3)))

    def first(*xs):
        words = record(Threefry(), tuple(x._node for x in xs))
        return record(TABLE["Result"](0), (words._node,))

    check(first, keys, high, low)


# -- compositions ---------------------------------------------------------------------------------


def mlp(params, x):
    for w, b in params[:-1]:
        x = pb.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def mlp_loss(params, x, label):
    logits = mlp(params, x)
    return pb.logsumexp(logits) - logits[label]


def convnet_loss(params, image, label):
    kernel, w, b = params
    hidden = pb.max_pool(pb.relu(pb.conv2d(image[None], kernel, 1, "SAME")), 2)
    logits = hidden.reshape(-1) @ w + b
    return pb.logsumexp(logits) - logits[label]


MLP = [(real(4, 6), real(6)), (real(6, 3), real(3))]
CONVNET = (real(3, 3, 2, 3), real(3 * 3 * 3, 4), real(4))


@pytest.mark.parametrize(
    ("loss", "params", "inputs"),
    [(mlp_loss, MLP, real(5, 4)), (convnet_loss, CONVNET, real(5, 6, 6, 2))],
    ids=["mlp", "convnet"],
)
def test_per_example_gradients(engine, loss, params, inputs):
    labels = whole(5, high=3)
    params = pb.tree.map(pb.tensor, params)
    x, y = pb.tensor(inputs), pb.tensor(labels)
    each = pb.evaluate(pb.vmap(pb.grad(loss), in_axes=(None, 0, 0))(params, x, y))
    for k in range(5):
        want = pb.evaluate(pb.grad(loss)(params, pb.tensor(inputs[k]), int(labels[k])))
        for got, w in zip(pb.tree.leaves(each), pb.tree.leaves(want), strict=True):
            np.testing.assert_allclose(got.numpy()[k], w.numpy(), rtol=1e-8, atol=1e-10)
    together = pb.grad(lambda p: pb.vmap(loss, in_axes=(None, 0, 0))(p, x, y).sum())(params)
    pb.evaluate(together)
    for got, e in zip(pb.tree.leaves(together), pb.tree.leaves(each), strict=True):
        np.testing.assert_allclose(got.numpy(), e.numpy().sum(0), rtol=1e-8, atol=1e-10)


def test_an_ensemble(engine):
    """Parameters are mapped, the input is shared."""
    params = [(real(3, 4, 6), real(3, 6)), (real(3, 6, 2), real(3, 2))]
    x = pb.tensor(real(5, 4))
    got = pb.vmap(mlp, in_axes=(0, None))(pb.tree.map(pb.tensor, params), x).numpy()
    for k in range(3):
        one = pb.tree.map(lambda a, k=k: pb.tensor(a[k]), params)
        np.testing.assert_allclose(got[k], mlp(one, x).numpy(), rtol=1e-9)


def test_vmap_inside_vmap(engine):
    x, i, w = real(2, 3, 4, 5), whole(2, 3, 2, high=4), real(2, 5, 3)

    def f(x, i, w):
        return (x[i] @ w).sum(0) * x[0, i[0]]

    inner = pb.vmap(f, in_axes=(0, 0, None))
    got = pb.vmap(inner)(pb.tensor(x), pb.tensor(i), pb.tensor(w)).numpy()
    turned = pb.vmap(pb.vmap(f, in_axes=(0, 0, 0)), in_axes=(1, 1, None))
    other = turned(pb.tensor(x), pb.tensor(i), pb.tensor(w)).numpy()
    for a, b in itertools.product(range(2), range(3)):
        want = f(*map(pb.tensor, (x[a, b], i[a, b], w[a]))).numpy()
        np.testing.assert_allclose(got[a, b], want, rtol=1e-9)
        np.testing.assert_allclose(other[b, a], want, rtol=1e-9)


def update_and_read(x, i, u):
    return x.at[i].set(u) + pb.dynamic_slice(x[i], (i[0] // 2, 0), (2, 2)).sum() * x


SOME = [axes for axes in itertools.product((0, None), repeat=3) if 0 in axes]


@pytest.mark.parametrize("outer", SOME)
def test_nested_vmap_of_indexing(outer):
    """Map the operand, indices or updates in the outer and the inner vmap, in all combinations."""
    for inner in SOME:
        with pb.config(engine="reference"):
            check_nested(outer, inner)


def test_nested_vmap_of_indexing_compiled():
    check_nested((0, None, 0), (None, 0, 0))
    check_nested((None, 0, None), (0, 0, 0))


def check_nested(outer, inner):
    """Check values and gradients of nested maps at two of the examples."""
    given = []
    for array, a, b in zip(
        (real(2, 3, 4, 2), whole(2, 3, 5, high=4), real(2, 3, 5, 2)), outer, inner
    ):
        array = array if b == 0 else array[:, 0]
        given.append(array if a == 0 else array[0])
    gradient = pb.grad(lambda x, i, u: (update_and_read(x, i, u) ** 2).sum(), (0, 2))

    def f(x, i, u):
        return update_and_read(x, i, u), *gradient(x, i, u)

    got = pb.evaluate(pb.vmap(pb.vmap(f, in_axes=inner), in_axes=outer)(*map(pb.tensor, given)))
    for a, b in ((0, 0), (1, 2)):
        args = [array[a] if p == 0 else array for array, p in zip(given, outer)]
        args = [array[b] if q == 0 else array for array, q in zip(args, inner)]
        for y, want in zip(got, pb.evaluate(f(*map(pb.tensor, args))), strict=True):
            np.testing.assert_allclose(y.numpy()[a, b], want.numpy(), rtol=1e-8, atol=1e-9)


def test_vmap_of_a_pullback_and_of_a_pushforward(engine):
    x, w = pb.tensor(real(3, 4)), pb.tensor(real(4, 2))
    f = lambda x: pb.tanh(x @ w)[pb.tensor([2, 0, 2])]  # noqa: E731
    _, pull = pb.vjp(f, x)
    gs = real(5, 3, 2)
    got = pb.vmap(pull)(pb.tensor(gs))[0].numpy()
    np.testing.assert_allclose(got, np.stack([pull(pb.tensor(g))[0].numpy() for g in gs]))
    _, push = pb.linearize(f, x)
    ts = real(5, 3, 4)
    got = pb.vmap(push)(pb.tensor(ts)).numpy()
    np.testing.assert_allclose(got, np.stack([push(pb.tensor(t)).numpy() for t in ts]))


# -- the engine, op by op -------------------------------------------------------------------------

OPS = [
    "Conv2d", "Conv2dBackwardFilter", "Conv2dBackwardInput", "Convolution",
    "ConvolutionBackwardFilter", "ConvolutionBackwardInput", "Dot",
    "DotGeneral", "DynamicSlice", "DynamicUpdateAdd", "DynamicUpdateSlice", "Einsum", "Gather",
    "Index", "IndexArrays", "LastWrite", "MatMul", "RandomBits", "ScatterAdd", "ScatterMax",
    "ScatterMul", "ScatterSet", "Threefry", "WindowIndex", "WindowMax", "WindowPut", "WindowSum",
    "WindowTake",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_rules_on_the_engine(name):
    """The op table compares the rules with loops in NumPy; here XLA runs the emitted programs."""
    samples = list(TABLE[name].samples())
    program = OneProgram([case for i in (0, 1, -1) for case in mapped_cases(str(i), *samples[i])])
    program.check(program.run(), scale=10)


def mapped_cases(label, op, arrays):
    """The op on two examples, with the first, the last or every operand mapped."""
    arrays = [np.asarray(a) for a in arrays]
    count = len(arrays)
    for chosen in {(0,), (count - 1,), tuple(range(count))}:
        mapped = [i in chosen for i in range(count)]
        graph, _ = batched_graph(testing.graph_of(op, arrays), Axis(2), mapped)
        given = [np.stack([a, a]) if has else a for a, has in zip(arrays, mapped)]
        yield f"{label} mapped {chosen}", graph, given
