"""Attention on GPUs: which programs call cuDNN, and that they agree with the plain lowering."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.graph.canonical import canonicalise
from pullback.graph.dtypes import bfloat16, bool_, float16, float32
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.nn import functional as F
from pullback.ops.fused.attention import Attention
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.prelude import TABLE, result_nodes
from pullback.ops.reduce.softmax import Softmax
from pullback.transforms.recognition import recognised
from pullback.transforms.reverse import derive_in_reverse, reverse_reach


def operands(shape=(2, 4, 16, 32), kv=None, dtype=bfloat16) -> list[Node]:
    names = {"q": shape, "k": kv or shape, "v": kv or shape}
    return [TABLE["Input"](n, s, dtype)() for n, s in names.items()]


def for_gpus() -> Builder:
    b = Builder(None)
    b.kernels, b.platform, b.neutral = True, "cuda", False
    return b


def calls(graph: Graph) -> list[str]:
    """The routines of cuDNN that a program for GPUs calls."""
    text = build_xla_module(graph, for_gpus())
    return [line.split('"', 1)[0] for line in text.split('call_target_name = "__cudnn$')[1:]]


def with_gradient(op: Attention, xs: list[Node]) -> Graph:
    y = result_nodes(op(*xs))[0]
    g = TABLE["Input"]("g", y.type.shape, y.type.dtype)()
    pulled, _ = derive_in_reverse(reverse_reach([y], xs[:3]), [y], [g], xs[:3])
    return Graph([*xs, g], [y, *pulled])


@pytest.mark.parametrize("dtype", [bfloat16, float16])
@pytest.mark.parametrize("upper", [(), (0,)])
def test_programs_for_gpus_call_cudnn(dtype, upper):
    grouped = operands(kv=(2, 2, 24, 32), dtype=dtype)
    for xs in (operands(dtype=dtype), operands((4, 16, 8), dtype=dtype), grouped):
        graph = with_gradient(Attention("0.5", (), upper), xs)
        assert calls(graph) == ["fmhaSoftmax", "fmhaSoftmaxBackward"]


@pytest.mark.parametrize(
    ("op", "xs"),
    [
        (Attention("0.5"), operands(dtype=float32)),
        (Attention("0.5"), operands((2, 4, 16, 12))),
        (Attention("0.5"), operands((2, 4, 16, 136))),
        (Attention("0.5", (-3,), (1,)), operands()),
        (Attention("0.5", (-3,), (0,)), operands(kv=(2, 4, 14, 32))),  # rows without keys
        (Attention("0.5", (), (1,)), operands()),
    ],
)
def test_what_cudnn_does_not_compute_is_written_out(op, xs):
    assert calls(with_gradient(op, xs)) == []


def test_windows_are_computed_by_cudnn():
    graph = with_gradient(Attention("0.5", (-3,), (0,)), operands())
    assert calls(graph) == ["fmhaSoftmax", "fmhaSoftmaxBackward"]
    assert r"\22sliding_window_length\22: 4" in build_xla_module(graph, for_gpus())


@pytest.mark.parametrize(
    ("mask", "bias"),
    [
        ((2, 1, 1, 16), "2x1x16x16"),
        ((1, 4, 16, 1), "1x4x16x16"),
        ((1, 1, 16, 16), "1x1x16x16"),
        ((2, 4, 16, 16), "2x4x16x16"),
    ],
)
def test_masks_are_added_to_scores(mask, bias):
    xs = [*operands(), TABLE["Input"]("mask", mask, bool_)()]
    graph = with_gradient(Attention("0.5", (), (0,)), xs)
    assert calls(graph) == ["fmhaScaleBiasSoftmax", "fmhaScaleBiasSoftmaxBackward"]
    text = build_xla_module(graph, for_gpus())
    called = [line for line in text.split("\n") if "fmhaScaleBiasSoftmax" in line]
    assert all(f"tensor<{bias}xbf16>" in line for line in called)


@pytest.mark.parametrize("rows", [15, 16])
def test_masks_that_cudnn_does_not_take_are_written_out(rows):
    mask = TABLE["Input"]("mask", (1, 1, 1, rows), bool_)()
    xs = [*operands((2, 4, rows, 32)), mask]
    op = Attention("0.5", zero_rows=rows == 15)
    assert calls(Graph(xs, list(result_nodes(op(*xs))))) == []


@pytest.mark.parametrize("more", [[], [bool_]])
@pytest.mark.parametrize("shape", [(1, 4, 16, 16), (2, 1, 1, 16)])
def test_masks_of_floats_are_added_to_scores(shape, more):
    masks = [TABLE["Input"](f"m{i}", shape, t)() for i, t in enumerate([bfloat16, *more])]
    graph = with_gradient(Attention("0.5", (), (0,)), [*operands(), *masks])
    assert calls(graph) == ["fmhaScaleBiasSoftmax", "fmhaScaleBiasSoftmaxBackward"]


@pytest.mark.parametrize("dtypes", [[float32], [bfloat16, bfloat16], [float16]])
def test_masks_that_would_be_rounded_are_written_out(dtypes):
    masks = [TABLE["Input"](f"m{i}", (1, 1, 16, 16), t)() for i, t in enumerate(dtypes)]
    xs = [*operands(), *masks]
    assert calls(Graph(xs, list(result_nodes(Attention("0.5")(*xs))))) == []


def test_a_mask_with_a_gradient_is_written_out():
    mask = TABLE["Input"]("mask", (1, 4, 16, 16), bfloat16)()
    xs = [*operands(), mask]
    y = result_nodes(Attention("0.5")(*xs))[0]
    g = TABLE["Input"]("g", y.type.shape, y.type.dtype)()
    pulled, _ = derive_in_reverse(reverse_reach([y], xs), [y], [g], xs)
    assert calls(Graph([*xs, g], [y, *pulled])) == ["fmhaScaleBiasSoftmax"]


def test_other_kernels_are_for_cpus():
    x = TABLE["Input"]("x", (64, 64), float32)()
    assert "custom_call" not in build_xla_module(Graph([x], [Softmax((1,))(x)]), for_gpus())


def test_attention_by_hand_calls_cudnn():
    q, k, v = operands()
    weights = Softmax((3,))(MatMul()(q, adjoint(k)) * 0.25)
    found, _ = recognised(canonicalise(Graph([q, k, v], [MatMul()(weights, v)])), "cuda")
    assert calls(found) == ["fmhaSoftmax"]


def test_attention_by_hand_in_f32_stays():
    q, k, v = operands(dtype=float32)
    weights = Softmax((3,))(MatMul()(q, adjoint(k)) * 0.25)
    graph = canonicalise(Graph([q, k, v], [MatMul()(weights, v)]))
    assert recognised(graph, "cuda")[0] is graph
    assert recognised(graph, "cpu")[0] is not graph


@pytest.mark.parametrize(
    ("heads", "groups", "rows", "keys", "width", "causal"),
    [
        (4, 4, 64, 64, 32, False),
        (4, 2, 40, 40, 64, True),
        (2, 2, 37, 53, 40, False),
        (2, 1, 20, 30, 72, True),
        (2, 2, 30, 20, 8, True),
        (2, 2, 1, 7, 128, False),
    ],
)
def test_16_bit_attention_agrees_with_the_plain_form(heads, groups, rows, keys, width, causal):
    rng = np.random.default_rng(0)
    shapes = [(3, heads, rows, width), *[(3, groups, keys, width)] * 2, (3, heads, rows, width)]
    *xs, g = [pb.tensor(rng.normal(size=s)).astype(pb.bfloat16) for s in shapes]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    def run() -> list[np.ndarray]:
        y, pull = pb.vjp(attend, *xs)
        results = pb.evaluate([x.astype(pb.float32) for x in (y, *pull(g))])  # one program
        return [x.numpy() for x in results]

    made = run()
    with pb.config(kernels=False):
        wanted = run()
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=0.03 * np.abs(b).max())


MASKS = {
    "padding": np.arange(16) < np.array([9, 16, 0])[:, None, None, None],  # the last sees nothing
    "left": np.arange(16) >= np.array([9, 0, 3])[:, None, None, None],
    "random": np.random.default_rng(1).random((3, 4, 16, 16)) < 0.4,
    "shared": np.random.default_rng(2).random((16, 16)) < 0.4,
}


def check_masked(**masks) -> None:
    """Attention and its gradients have the values of the plain form."""
    rng = np.random.default_rng(0)
    *xs, g = [pb.tensor(rng.normal(size=(3, 4, 16, 32))).astype(pb.bfloat16) for _ in range(4)]

    def run() -> list[np.ndarray]:
        y, pull = pb.vjp(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **masks), *xs)
        return [x.astype(pb.float32).numpy() for x in (y, *pull(g))]

    made = run()
    with pb.config(kernels=False):
        wanted = run()
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=0.03 * np.abs(b).max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_masked_attention_agrees_with_the_plain_form(name, causal):
    mask = MASKS[name] & np.tri(16, dtype=bool) if causal else MASKS[name]
    check_masked(attn_mask=pb.tensor(mask))


DISTANCES = -np.abs(np.subtract.outer(np.arange(16), np.arange(16)))
FLOAT_MASKS = {
    "distances": DISTANCES * np.array([0.5, 0.25, 0.125, 0.0625])[:, None, None],
    "hidden": np.where(MASKS["random"], DISTANCES, -np.inf),
    "nothing seen": np.where(np.arange(16)[:, None] < 3, -np.inf, 0.0),
    "least numbers": np.where(np.tri(16, dtype=bool), 0.0, -3e38),
}


@pytest.mark.parametrize("name", FLOAT_MASKS)
def test_float_masks_agree_with_the_plain_form(name):
    check_masked(bias=pb.tensor(FLOAT_MASKS[name]).astype(pb.bfloat16))
