"""Simulation of a mesh: one program for all devices, with the mesh axes as dimensions.

Collectives act on mapped examples. The reference engine runs programs on a mesh this way.
"""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.ops.prelude import Axis, Node
from pullback.ops.shape.movement import Reshape
from pullback.ops.shape.slicing import Slice
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh
from pullback.transforms.batch import batched_graph


def simulate_partition(local: Graph, mesh: DeviceMesh) -> Graph:
    """Return a program whose inputs and outputs are shards with the mesh dimensions in front."""
    inputs = [placeholder(name, x.type.plain.with_shape((*mesh.shape, *x.type.shape)))
              for name, x in zip(local.names, local.inputs, strict=True)]  # fmt: skip
    pairs = zip(inputs, local.inputs, strict=True)
    operands = [_simulate_without_copies(x, y.type.varying, mesh) for x, y in pairs]
    for name, size in reversed(mesh.sizes.items()):
        mapped = [name in x.type.varying for x in local.inputs]
        local, _ = batched_graph(local, Axis(size, name), mapped, [True] * len(local.outputs))
    return Graph(inputs, local(*operands), local.names)


def _simulate_without_copies(x: Node, axes: tuple[str, ...], mesh: DeviceMesh) -> Node:
    """Keep only the first device along each mesh axis that is not in `axes`."""
    rank, shape = x.type.rank, x.type.shape[len(mesh.shape) :]
    stops = [n if a in axes else 1 for a, n in mesh.sizes.items()]
    first = Slice((0,) * rank, (*stops, *shape), (1,) * rank)(x)
    return Reshape((*[n for a, n in mesh.sizes.items() if a in axes], *shape))(first)
