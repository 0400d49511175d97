"""A per-device program for all devices at once: the mesh's axes become dimensions of every value.

Collectives are what they are over mapped examples. This is how the reference engine runs a
program on a mesh, without any device.
"""

from __future__ import annotations

from pullback.ir.graph import Graph
from pullback.ops.base import Axis
from pullback.sharding.mesh import DeviceMesh
from pullback.transforms.batch import batched_graph


def simulated(local: Graph, mesh: DeviceMesh) -> Graph:
    """The program whose inputs and outputs have the mesh in front of each device's part."""
    for name, size in reversed(mesh.sizes.items()):
        everything = [True] * len(local.inputs), [True] * len(local.outputs)
        local, _ = batched_graph(local, Axis(size, name), *everything)
    return local
