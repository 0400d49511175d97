"""A per-device program for all devices at once: the mesh's axes become dimensions of every value.

Collectives are what they are over mapped examples. This is how the reference engine runs a
program on a mesh, without any device.
"""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.ops.prelude import TABLE, Axis, Node
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh
from pullback.transforms.batch import batched_graph


def simulated(local: Graph, mesh: DeviceMesh) -> Graph:
    """The program whose inputs and outputs have the mesh in front of each device's part."""
    inputs = [placeholder(name, x.type.plain.with_shape((*mesh.shape, *x.type.shape)))
              for name, x in zip(local.names, local.inputs, strict=True)]  # fmt: skip
    given = [_differing(x, y.type.varying, mesh) for x, y in zip(inputs, local.inputs, strict=True)]
    for name, size in reversed(mesh.sizes.items()):
        mapped = [name in x.type.varying for x in local.inputs]
        local, _ = batched_graph(local, Axis(size, name), mapped, [True] * len(local.outputs))
    return Graph(inputs, local(*given), local.names)


def _differing(x: Node, axes: tuple[str, ...], mesh: DeviceMesh) -> Node:
    """Of the devices along each axis over which they have the same, the first."""
    count, rank = len(mesh.shape), x.type.rank
    stops = [n if a in axes else 1 for a, n in mesh.sizes.items()]
    shape = x.type.shape[count:]
    first = TABLE["Slice"]((0,) * rank, (*stops, *shape), (1,) * rank)(x)
    kept = [n for a, n in mesh.sizes.items() if a in axes]
    return TABLE["Reshape"]((*kept, *shape))(first)
