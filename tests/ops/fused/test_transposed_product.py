"""The transpose of a product becomes a product in the other order."""

import numpy as np
import pytest
from spelled import fused_ops, graph_of, pulled, rows, same_with_kernels

import pullback as pb
from pullback.ops.linalg.dot_general import DotGeneral
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.shape.movement import Transpose
from pullback.transforms.recognition import recognised


def transposed_products(f, *arrays):
    """How many results of products are transposed."""
    fused_ops(f, *arrays)
    made, _ = recognised(graph_of(f, *arrays), "cpu")
    moved = [n.inputs[0] for n in made.nodes if isinstance(n.op, Transpose)]
    return sum(isinstance(x.op, (MatMul, DotGeneral)) for x in moved)


def linear(x, w):
    return pb.nn.functional.linear(x, w)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 5, 3, 4)])
def test_gradients_of_layers(shape):
    assert transposed_products(pulled(linear, 0, 1), rows(*shape), rows(6, 4)) == 0


def test_products_that_are_written():
    x, y = rows(3, 4), rows(4, 6)
    assert transposed_products(lambda x, y: (x @ y).T + 1, x, y) == 0
    assert transposed_products(lambda x, y: (x @ y).mT + 1, rows(2, 3, 4), rows(2, 4, 6)) == 0


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: (lambda z: (z, z.mT))(x @ y),  # the product is needed, too
        lambda x, y: pb.permute_dims(x @ y, (1, 0, 2)),
        lambda x, y: pb.permute_dims(x @ y, (2, 1, 0)),
        lambda x, y: (x[:1] @ y).mT,  # one matrix for all of a batch
    ],
)
def test_near_misses_stay(f):
    assert transposed_products(f, rows(2, 3, 4), rows(2, 4, 6)) == 1


def test_dimensions_side_by_side():
    """The second operand has two dimensions of columns."""
    f = lambda x, y: pb.permute_dims(pb.tensordot(x, y, 1), (0, 2, 1))  # noqa: E731
    fused_ops(f, rows(3, 4), rows(4, 5, 6))


def test_with_kernels_and_without():
    x, w = rows(2, 64, 70), rows(60, 70)
    x[0, 0, 0], w[1, 1] = np.nan, np.inf
    same_with_kernels([pulled(linear, 0, 1), lambda x, w: linear(x, w).mT], [x, w])
