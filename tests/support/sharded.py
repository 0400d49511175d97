"""Random programs on random meshes, with operands that lie there in random ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from programs import SMOOTH, extreme, order, partner, run

import pullback as pb
from pullback import testing, tree
from pullback.api.placeholders import stage
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


# -- steps that matter here -----------------------------------------------------------------------


def softmax(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return pb.sin(a)
    return (pb.softmax, pb.log_softmax)[n % 2](a, axis=n % a.ndim)


def statistics(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return a + 1.0
    axis = n % a.ndim
    return (pb.var(a, axis=axis, keepdims=True) if n % 2 else pb.prod(a * 0.5, axis=axis)) + 0.5


def product(a: Any, pool: list, n: int) -> Any:
    if a.ndim < 2:
        return pb.tanh(a) * 2.0
    others = [b for b in pool if b.ndim == 2 and b.shape[-1] == a.shape[-1]]
    other = others[n % len(others)] if others else a[(0,) * (a.ndim - 2)]
    return pb.einsum("...ij,kj->...ki", pb.tanh(a), other)


def along(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return -a
    axis = n % a.ndim
    chosen = pb.argmax(a, axis=axis, keepdims=True) if n % 2 else pb.argsort(a, axis=axis)
    return pb.take_along_axis(a, chosen, axis=axis) * 0.5


def largest(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return abs(a)
    axis = n % a.ndim
    return pb.top_k(a, 1 + n % a.shape[axis], axis=axis)[0]


def scattered(a: Any, pool: list, n: int) -> Any:
    """Places that the program computes, some of them named twice."""
    if not a.ndim:
        return a * a
    places = pb.astype(pb.abs(pb.sin(a[..., 0] if a.ndim > 1 else a)) * a.shape[0] * 0.99, "int64")
    places = pb.reshape(places, (-1,))
    updates = pb.stack([a[0] * 0.1] * places.shape[0])
    return getattr(a.at[places], ("add", "set", "max")[n % 3])(updates)


def spread(a: Any, pool: list, n: int) -> Any:
    if a.ndim > 2:
        return pb.sum(a, axis=0) * 0.3
    return pb.broadcast_to(a, (2 + n % 2, *a.shape)) * 0.5


def loop(a: Any, pool: list, n: int) -> Any:
    if not a.ndim:
        return a * 0.25
    b = partner(a, pool, n)
    b = b if b.shape == a.shape else a

    def step(h: Any, x: Any) -> Any:
        h = pb.tanh(h + pb.sum(x) * 0.1) + x * 0.5
        return h, h * h

    last, rows = pb.scan(step, b[0] * (n % 2), a, reverse=n % 3 == 0)
    return last if n % 5 else rows


def choice(a: Any, pool: list, n: int) -> Any:
    b = partner(a, pool, n)
    both = lambda a, b: pb.sin(a) * b  # noqa: E731
    return pb.cond(pb.sum(a) > n % 3 - 1, both, lambda a, b: both(b, a), a, b)


def again(a: Any, pool: list, n: int) -> Any:
    return pb.checkpoint(lambda x: pb.tanh(x) * pb.sum(x * 0.2))(a)


def convolved(a: Any, pool: list, n: int) -> Any:
    if a.ndim != 3:
        return pb.cos(a)
    w = pb.reshape(pb.arange(3.0 * a.shape[-1], dtype="float64"), (1, a.shape[-1], 3)) * 0.1
    return pb.conv(a, w, padding="SAME") if n % 2 else pb.cumulative_sum(a, axis=1) * 0.3


HERE: list[Callable] = [
    softmax, statistics, product, along, largest, scattered, spread, loop, choice, again, convolved,
]  # fmt: skip
OPS = [*SMOOTH, *HERE, extreme, order]


def placed(rng: Any, mesh: DeviceMesh, a: Any, pool: list, n: int) -> Any:
    """A value that the program says how to lay out."""
    return pb.with_sharding_constraint(a, testing.random_sharding(rng, mesh, a.ndim))


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
        pairs = zip(self.data, shardings, strict=True)
        types = [Type(a.shape, dtype(a.dtype), s) for a, s in pairs]
        leaves, in_tree = tree.flatten((tuple(types), {}))
        made = stage("program", self.function(ops), leaves, in_tree)
        return made.graph, [wrap(node).numpy() for node in made.captured]

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
