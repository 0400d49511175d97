"""Fused ops take the place of formulas and of what reverse mode makes of them."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.ops.elementwise.activations import Silu, SiluSlope
from pullback.ops.elementwise.arithmetic import Mul
from pullback.ops.elementwise.exponential import Logistic
from pullback.ops.fused.spelling import Spelling
from pullback.ops.interpret import interpret
from pullback.transforms import recognition
from pullback.transforms.recognition import recognised


def program(f, *shapes):
    """The canonical graph of a function, and arrays for its inputs."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    return pb.compile(f).lower(*map(pb.tensor, arrays)).graph, arrays


def ops_in(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def compare(graph: Graph, arrays: list, atol: float = 2e-7) -> list[str]:
    """The ops of the program with fused ops, after a check that it computes the same."""
    made, origins = recognised(graph, "cpu")
    for before, after in zip(interpret(graph, arrays), interpret(made, arrays), strict=True):
        np.testing.assert_allclose(before, after, rtol=2e-6, atol=atol)
    assert set(origins.values()) <= set(graph.nodes)
    assert made.inputs == graph.inputs
    return ops_in(made)


def cube(x):
    return (pb.softmax(x, -1) ** 3).sum()


def test_softmax_gradient_is_found():
    found = compare(*program(pb.grad(cube), (3, 5)))
    assert found.count("SoftmaxGradient") == 1 and "Sub" not in found


def test_softmax_gradient_of_another_axis_or_with_other_uses_stays():
    def other_axis(x):
        return (pb.softmax(x, 0) ** 3).sum()

    def same_formula(g, y):
        return g * y - y * (g * y).sum(-1, keepdims=True)

    def shared(g, x):
        y = pb.softmax(x, -1)
        return same_formula(g, y), g * y

    for f, count in ((pb.grad(other_axis), 1), (same_formula, 2), (shared, 2)):
        assert "SoftmaxGradient" not in compare(*program(f, *[(3, 5)] * count))


@pytest.fixture
def silu_spelling(monkeypatch):
    """x * sigmoid(x), with a gradient of two addends."""
    made = Spelling(
        name="silu",
        last=Mul,
        formula=lambda x: x * Logistic()(x),
        operands=lambda node: [(Type(node.type.shape, node.type.dtype),)],
        fused=lambda x: Silu()(x),
        pull=lambda g, y, x: [g * SiluSlope()(x)],
    )
    monkeypatch.setattr("pullback.transforms.recognition.SPELLINGS", [made])


def silu(x):
    return x * pb.sigmoid(x)


@pytest.mark.usefixtures("silu_spelling")
def test_formulas_are_found_with_their_gradients():
    assert compare(*program(silu, (4,))) == ["Input", "Silu"]
    found = compare(*program(pb.grad(lambda x: (silu(x) ** 2).sum()), (4,)))
    assert found.count("Silu") == found.count("SiluSlope") == 1
    assert "Logistic" not in found


@pytest.mark.usefixtures("silu_spelling")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (silu(x) * 3 + x).sum(),
        lambda x: (silu(pb.tanh(x)) + pb.sin(pb.tanh(x)) * pb.cos(x)).sum(),
        lambda x: (silu(silu(x)) * silu(x)).sum(),
    ],
)
def test_gradients_of_values_with_other_uses(f):
    found = compare(*program(pb.value_and_grad(f), (4,)))
    assert "Silu" in found and "SiluSlope" in found and "Logistic" not in found


@pytest.mark.usefixtures("silu_spelling")
def test_formulas_stay_where_their_parts_are_used():
    for f in (
        lambda x: (silu(x), pb.sigmoid(x)),
        pb.grad(lambda x: (silu(x) * pb.sigmoid(x)).sum()),
        pb.grad(lambda x: pb.jvp(silu, (x,), (pb.ones_like(x),))[1].sum()),
    ):
        assert "Silu" not in compare(*program(f, (4,)))


@pytest.mark.usefixtures("silu_spelling")
def test_gradients_that_depend_on_each_other_stay():
    def entangled(x, c):
        y = silu(x)
        (dx,) = pb.vjp(silu, x)[1](c)
        return silu(dx + y)

    compare(*program(entangled, (4,), (4,)))


def test_bodies_of_loops_are_searched():
    def step(carry, _):
        return carry - 0.1 * pb.grad(cube)(carry), carry.sum()

    x = pb.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    loop = pb.compile(lambda x: pb.scan(step, x, None, length=3)[0])
    fast = loop(x).numpy()
    with pb.config(kernels=False):
        np.testing.assert_allclose(loop(x).numpy(), fast, rtol=1e-5)


@pytest.mark.parametrize("shared", ["difference", "mean", "nothing"])
@pytest.mark.parametrize(("scaled", "shifted"), [(True, True), (True, False), (False, True)])
def test_norms_with_scale_and_shift_are_one_op(shared, scaled, shifted):
    def norm(x, scale, shift):
        d = x - x.mean(-1, keepdims=True)
        centered = {
            "difference": lambda: d,
            "mean": lambda: x - x.mean(-1, keepdims=True),
            "nothing": lambda: x - pb.mean(x, axis=-1, keepdims=True),
        }[shared]()
        y = centered / pb.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)
        y = y * scale if scaled else y
        return y + shift if shifted else y

    def loss(x, scale, shift):
        return pb.exp(norm(x, scale, shift)).sum()

    graph, arrays = program(pb.grad(loss, argnums=(0, 1, 2)), (3, 5), (5,), (5,))
    found = compare(graph, arrays, atol=5e-6)  # gradients of about 10 cancel
    assert found.count("LayerNormalization") == found.count("LayerNormalizationGradient") == 1
    assert "Sqrt" not in found and "Div" not in found


def test_the_search_in_a_deep_program_takes_as_many_steps_per_layer(monkeypatch):
    tried = []
    embedded = recognition._recognition_embedded
    monkeypatch.setattr(
        recognition, "_recognition_embedded", lambda *args: tried.append(0) or embedded(*args)
    )

    def loss(x, layers):
        for scale, w in layers:
            d = x - x.mean(-1, keepdims=True)
            x = x + pb.tanh(d / pb.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * scale @ w)
        return x.sum()

    counts = []
    for depth in (4, 16):
        layers = [(pb.ones(5), pb.ones((5, 5))) for _ in range(depth)]
        graph = pb.compile(pb.grad(loss, argnums=(0, 1))).lower(pb.ones((3, 5)), layers).graph
        tried.clear()
        found = ops_in(recognised(graph, "cpu")[0])
        assert (
            found.count("LayerNormalization") == found.count("LayerNormalizationGradient") == depth
        )
        counts.append(len(tried) / depth)
    assert counts[1] < 1.2 * counts[0]


@pytest.mark.parametrize("whole", [True, False])
def test_scale_and_shift_of_a_norm_are_found_with_their_gradients(whole):
    def affine(x, scale, shift, weights):
        y = pb.nn.functional.layer_norm(x, (5,), scale, shift)
        return (y * weights).sum() if whole else (y * weights * shift).sum()

    gradient = pb.value_and_grad(affine, argnums=(0, 1, 2))
    graph, arrays = program(gradient, (3, 5), (5,), (5,), (3, 5))
    made = recognised(graph, "cpu")[0]
    compare(graph, arrays)
    (norm,) = [n.op for n in made.nodes if n.op.name == "LayerNormalization"]
    (pulled,) = [n.op for n in made.nodes if n.op.name == "LayerNormalizationGradient"]
    assert norm.scaled and norm.shifted and pulled.scaled and pulled.shifted


def test_sums_of_other_values_are_no_gradients_of_a_shift():
    def two_sums(x, scale, shift, other):
        y = pb.nn.functional.layer_norm(x, (5,), scale, shift)
        return (y * x).sum() + (pb.tanh(other).sum(0) ** 2).sum()

    found = compare(*program(pb.grad(two_sums, argnums=(0, 1, 2)), (3, 5), (5,), (5,), (3, 5)))
    assert found.count("LayerNormalizationGradient") == 1


def test_norms_whose_epsilon_has_a_gradient_stay():
    def with_epsilon(x, epsilon):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return ((x - mean) / pb.sqrt(variance + epsilon * epsilon) * x).sum()

    assert "LayerNormalization" in compare(*program(pb.grad(with_epsilon), (3, 5), ()))
    assert "LayerNormalization" not in compare(
        *program(pb.grad(with_epsilon, argnums=(0, 1)), (3, 5), ())
    )
