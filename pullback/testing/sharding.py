"""Check shards on simulated devices against whole operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.ops.sources import Input
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import partition
from pullback.sharding.partition.simulate import simulate_partition
from pullback.sharding.parts import join_sharding_parts, part_places
from pullback.sharding.spec import P, Sharding
from pullback.testing.programs import Arrays, Function, assert_close, graph_of, run, several


def check_sharded(f: Function, arrays: Arrays, seed: int = 0) -> None:
    """Check that an op, or a function of nodes, gives the same on shards as on whole operands, for
    random meshes and specs on simulated devices. Shards are padded with garbage."""
    rng = np.random.default_rng(seed)
    want = run(graph_of(f, arrays), arrays)
    for shape, names in (((2,), ("x",)), ((3,), ("x",)), ((2, 2), ("x", "y"))):
        mesh = DeviceMesh(shape, names)
        shardings = [random_sharding(rng, mesh, np.ndim(a)) for a in arrays]
        try:
            got = run_sharded(f, arrays, shardings, mesh)
            for g, w in zip(got, want, strict=True):
                assert_close(g, w, scale=10)
        except Exception as error:
            error.add_note(f"on {mesh} with {', '.join([str(s.spec) for s in shardings])}")
            raise


def random_sharding(rng: np.random.Generator, mesh: DeviceMesh, rank: int) -> Sharding:
    """Return a random sharding: each axis of the mesh splits one dimension or none."""
    dims: list[tuple[str, ...]] = [()] * rank
    for axis in rng.permutation(mesh.axis_names):
        d = rng.integers(-1, rank)
        if d >= 0:
            dims[d] = (*dims[d], str(axis))
    return Sharding(mesh, P(*dims))


def run_sharded(
    f: Function, arrays: Arrays, shardings: Sequence[Sharding], mesh: DeviceMesh
) -> list[np.ndarray]:
    """Return the results of `f` on sharded operands, computed by simulated devices."""
    graph = sharded_graph(f, arrays, shardings)
    program = simulate_partition(partition(graph, mesh).graph, mesh)
    stacks = [
        _stacked_testing_shards(np.asarray(a), s) for a, s in zip(arrays, shardings, strict=True)
    ]
    results = []
    for stack, y in zip(run(program, stacks), graph.outputs, strict=True):
        parts = stack.reshape(mesh.size, *stack.shape[len(mesh.shape) :])
        sharding = y.type.sharding or Sharding(mesh, P())
        results.append(join_sharding_parts(dict(enumerate(parts)), sharding, y.type.shape))
    return results


def sharded_graph(f: Function, arrays: Arrays, shardings: Sequence[Sharding]) -> Graph:
    """Return `f` as a graph over inputs with the given shardings."""
    types = [Type(np.shape(a), dtypes.dtype(a.dtype), s) for a, s in zip(arrays, shardings)]
    inputs = [Input.of_type(f"x{i}", t) for i, t in enumerate(types)]
    return Graph(inputs, several(f(*inputs)))


def _stacked_testing_shards(array: np.ndarray, sharding: Sharding) -> np.ndarray:
    """Stack the shards of all devices, with the mesh as leading dimensions, padded with garbage."""
    mesh = sharding.mesh
    shape = [n * sharding.parts(i) for i, n in enumerate(sharding.local_shape(array.shape))]
    garbage = np.nan if array.dtype.kind in "fc" or array.dtype.kind == "V" else 77
    padded = np.full(shape, garbage, array.dtype)
    padded[tuple([slice(n) for n in array.shape])] = array
    parts = [padded[part_places(sharding, array.shape, k)] for k in range(mesh.size)]
    return np.stack(parts).reshape(*mesh.shape, *parts[0].shape)
