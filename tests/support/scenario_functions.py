"""Scenarios of random programs: the transforms around them, and how XLA is given many of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from agreement import Arrays, flat
from mixed_programs import MixedProgram
from sharded import MESHES, staged

import pullback as pb
from pullback import testing


def one_row(f: Callable) -> Callable:
    """vmap over one example."""

    def mapped(*xs: Any) -> Any:
        return _first(pb.vmap(f)(*[pb.expand_dims(x, axis=0) for x in xs]))

    return mapped


def one_iteration(f: Callable) -> Callable:
    """scan over one row: half of the inputs are carried, the others are rows."""

    def scanned(*xs: Any) -> Any:
        rows = [pb.expand_dims(x, axis=0) for x in xs[1::2]]

        def body(carry: list, row: list) -> Any:
            inputs = list(xs)
            inputs[::2], inputs[1::2] = carry, row
            return carry, f(*inputs)

        return _first(pb.scan(body, list(xs[::2]), rows)[1])

    return scanned


def two_examples(f: Callable) -> Callable:
    """vmap over the inputs and others like them; every third input is not mapped."""

    def mapped(*xs: Any) -> Any:
        axes = tuple([None if i % 3 == 1 else -1 for i in range(len(xs))])
        two = [x if axis is None else _beside(x) for x, axis in zip(xs, axes, strict=True)]
        return _first(pb.vmap(f, in_axes=axes)(*two))

    return mapped


def three_iterations(f: Callable) -> Callable:
    """The last of three iterations of scan, which goes backwards."""

    def scanned(*xs: Any) -> Any:
        rows = [pb.stack([x, _beside(x)[..., 1], x]) for x in xs]

        def body(count: Any, row: list) -> Any:
            return count + 1, f(*row)

        return _first(pb.scan(body, pb.tensor(0), rows, reverse=True)[1])

    return scanned


def _beside(x: Any) -> Any:
    """The tensor and another one, along a last axis."""
    other = ~x if x.dtype == pb.bool else x // 2 if pb.isdtype(x.dtype, "integral") else x * 0.5
    return pb.stack([x, other], axis=-1)


def branch(f: Callable) -> Callable:
    """A branch of cond that the program takes; the other one gives zeros."""

    def chosen(*xs: Any) -> Any:
        zeros = lambda *ys: pb.tree.map(pb.zeros_like, f(*ys))  # noqa: E731
        return pb.cond(pb.sum(xs[0]) >= 0, f, zeros, *xs)

    return chosen


def masked_branch(f: Callable) -> Callable:
    """Two examples under vmap, of which the first takes the branch: cond becomes a selection."""

    def chosen(*xs: Any) -> Any:
        zeros = lambda *ys: pb.tree.map(pb.zeros_like, f(*ys))  # noqa: E731
        two = [pb.stack([x, x]) for x in xs]
        cond = lambda p, *ys: pb.cond(p, f, zeros, *ys)  # noqa: E731
        return _first(pb.vmap(cond)(pb.tensor([True, False]), *two))

    return chosen


def _first(made: Any) -> Any:
    return pb.tree.map(lambda y: y[0], made)


WRAPPERS: dict[str, Callable[[Callable], Callable]] = {
    "vmap": one_row,
    "scan": one_iteration,
    "checkpoint": lambda f: pb.checkpoint(f),
    "cond": branch,
    "compile": lambda f: pb.compile(f),
    "masked cond": masked_branch,
    "vmap of two": two_examples,
    "scan of three": three_iterations,
}

# With other examples beside the program's own. Their cotangents are 0, which an infinite derivative
# makes NaN, so programs with infinite values see them around the derivative only.
OTHERS = ("vmap of two", "scan of three")


def scenarios(program: MixedProgram) -> dict[str, Callable]:
    """The program with its derivatives in each scenario, inside the derivative or around it."""
    f, rng = program.function(), np.random.default_rng([13, program.seed])
    made: dict[str, Callable] = {"plain": program.derivatives(f)}
    around = () if program.finite else OTHERS
    for name, wrap in WRAPPERS.items():
        inside = rng.integers(2)
        if inside and name not in around:
            made[f"derivative of {name}"] = program.derivatives(wrap(f))
        else:
            made[f"{name} of derivative"] = wrap(program.derivatives(f))
    names = [name for name in WRAPPERS if name not in around]
    a, b = rng.permutation(names)[:2]
    made[f"derivative of {a} of {b}"] = program.derivatives(WRAPPERS[a](WRAPPERS[b](f)))
    return made


# -- modes: how XLA is given the programs ---------------------------------------------------------


def _lazy(cases: list) -> list[Arrays]:
    made = [f(*program.tensors()) for program, _, f in cases]
    pb.evaluate(made)
    return [flat(y) for y in made]


def _eager(cases: list) -> list[Arrays]:
    with pb.config(eager=True):
        return _lazy(cases)


def _batch(cases: list) -> tuple[Callable, list]:
    functions = [f for _, _, f in cases]
    inputs = [program.tensors() for program, _, _ in cases]
    return pb.compile(lambda given: [f(*xs) for f, xs in zip(functions, given)]), inputs


def _compiled(cases: list) -> list[Arrays]:
    batch, inputs = _batch(cases)
    return [flat(y) for y in batch(inputs)]


def _saved(cases: list) -> list[Arrays]:
    batch, inputs = _batch(cases)
    with tempfile.TemporaryDirectory(prefix="pullback-scenarios-") as folder:
        path = os.path.join(folder, "program")
        batch.lower(inputs).save(path)
        return [flat(y) for y in pb.load_compiled(path)(inputs)]


def _sharded(cases: list) -> list[Arrays]:
    """On four devices; each program's inputs lie there in random ways."""
    batch, inputs = _batch(cases)
    mesh = (
        pb.DeviceMesh((4,), ("a",)) if cases[0][0].seed % 2 else pb.DeviceMesh((2, 2), ("a", "b"))
    )
    for (program, _, _), xs in zip(cases, inputs, strict=True):
        rng = np.random.default_rng([16, program.seed])
        xs[:] = [x.shard(mesh, testing.random_sharding(rng, mesh, x.ndim).spec) for x in xs]
    return [flat(y) for y in batch(inputs)]


MODES: dict[str, Callable[[list], list[Arrays]]] = {
    "lazy": _lazy, "compile": _compiled, "saved": _saved, "sharded": _sharded, "eager": _eager,
}  # fmt: skip


# -- simulated devices ----------------------------------------------------------------------------


def simulated(program: MixedProgram) -> Arrays:
    """The program and its derivatives on a mesh of simulated devices."""
    rng = np.random.default_rng([15, program.seed])
    f = program.derivatives(program.function())
    graph, more = staged(f, program.arrays, [None] * len(program.arrays))
    arrays = [*program.arrays, *more]
    mesh = MESHES[rng.integers(len(MESHES))]
    shardings = [testing.random_sharding(rng, mesh, a.ndim) for a in arrays]
    return testing.run_sharded(graph, arrays, shardings, mesh)
