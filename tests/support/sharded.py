"""Random programs on random meshes, with operands that lie there in random ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from programs import SMOOTH, extreme, order, run
from structured_steps import STRUCTURED

import pullback as pb
from pullback import testing, tree
from pullback.api.placeholders import stage_on_placeholders
from pullback.graph.dtypes import dtype
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.lazy.tensor import wrap
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import P, Sharding

SHAPES = [
    [(3, 4), (3, 4), (4, 3), (4,), ()],
    [(4, 6), (6, 4), (4, 6), (6,), ()],
    [(5, 2), (2, 5), (5, 1), (2,), ()],
    [(2, 3, 4), (4, 3), (3, 4), (4,), (1,)],
]
EXTENTS = [(2,), (3,), (4,), (2, 2), (2, 3), (1, 2), (2, 2, 2)]
MESHES = [DeviceMesh(shape, tuple("abc"[: len(shape)])) for shape in EXTENTS]


OPS = [*SMOOTH, *STRUCTURED, extreme, order]


def placed(rng: Any, mesh: DeviceMesh, a: Any, pool: list, n: int) -> Any:
    """A value that the program says how to lay out."""
    return pb.with_sharding_constraint(a, testing.random_sharding(rng, mesh, a.ndim))


def staged(
    f: Callable, data: Sequence[np.ndarray], shardings: Sequence[Any]
) -> tuple[Graph, list[np.ndarray]]:
    """The graph of a function of tensors with given layouts, and the values of its constants."""
    types = [Type(a.shape, dtype(a.dtype), s) for a, s in zip(data, shardings, strict=True)]
    leaves, in_tree = tree.flatten((tuple(types), {}))
    made = stage_on_placeholders("program", f, leaves, in_tree)
    return made.graph, [wrap(node).numpy() for node in made.captured]


# -- cases ----------------------------------------------------------------------------------------


class Case:
    """A random program: its last values, and the gradient of a number made of them."""

    def __init__(self, seed: int, most: int = 6) -> None:
        self.rng = rng = np.random.default_rng(seed)
        shapes = SHAPES[seed % len(SHAPES)]
        self.data = [rng.uniform(-2, 2, shape) for shape in shapes]
        count = int(rng.integers(most // 2, most + 1))
        self.program = [tuple(map(int, step)) for step in rng.integers(0, 1000, (count, 3))]

    def function(self, ops: list[Callable]) -> Callable:
        def values(*inputs: Any) -> list[Any]:
            return run(self.program, inputs, ops)[-3:]

        def number(*inputs: Any) -> Any:
            return sum(pb.sum(pb.sin(y) * (i + 1.0)) for i, y in enumerate(values(*inputs)))

        every = tuple(range(len(self.data)))
        return lambda *xs: (values(*xs), pb.grad(number, every)(*xs))

    def graph(self, ops: list[Callable], shardings: list[Any]) -> tuple[Graph, list[np.ndarray]]:
        """The program over operands that lie as said, and its own constants."""
        return staged(self.function(ops), self.data, shardings)

    def check(self, layouts: int) -> None:
        """On some meshes, it gives what it gives on one device."""
        plain, more = self.graph(OPS, [None] * len(self.data))
        arrays = [*self.data, *more]
        with np.errstate(all="ignore"):
            want = testing.run(plain, arrays)
            for k in range(layouts):
                self._check_one(plain if k else None, arrays, want)

    def check_on_devices(self) -> None:
        """The same on a mesh of XLA's devices, as a user writes it."""
        plain, more = self.graph(OPS, [None] * len(self.data))
        mesh = MESHES[self.rng.integers(len(MESHES))]
        specs = [testing.random_sharding(self.rng, mesh, a.ndim).spec for a in self.data]
        with np.errstate(all="ignore"):
            want = testing.run(plain, [*self.data, *more])
        with self._told(mesh, specs):
            xs = [pb.tensor(a).shard(mesh, spec) for a, spec in zip(self.data, specs, strict=True)]
            made = pb.compile(self.function(OPS))(*xs)
            _compare([y.numpy() for y in pb.tree.leaves(made)], want)

    def _check_one(self, plain: Graph | None, arrays: list, want: list) -> None:
        mesh = MESHES[self.rng.integers(len(MESHES))]
        shardings = [testing.random_sharding(self.rng, mesh, a.ndim) for a in arrays]
        if plain is None:  # recorded and differentiated on the mesh, with layouts of its own
            count, moves = len(self.data), np.random.default_rng(self.rng.integers(1 << 30))
            ops = [partial(_then, op, partial(placed, moves, mesh)) for op in OPS]
            shardings[count:] = [Sharding(mesh, P())] * (len(arrays) - count)
            plain, _ = self.graph(ops, shardings[:count])
        with self._told(mesh, [s.spec for s in shardings]):
            got = testing.run_sharded(plain, arrays, shardings, mesh)
            _compare(got, want)

    @contextmanager
    def _told(self, mesh: DeviceMesh, specs: list[P]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"{self.program} on {mesh} with {', '.join(map(str, specs))}")
            raise


def _compare(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
    for g, w in zip(got, want, strict=True):
        testing.assert_close(g, w, scale=1000)


def _then(op: Callable, after: Callable, a: Any, pool: list, n: int) -> Any:
    made = op(a, pool, n)
    return after(made, pool, n) if n % 3 == 0 else made
