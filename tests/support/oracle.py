"""One program in many scenarios: modes, transforms, engines and meshes that must all agree.

Everything is compared with the plain program on the reference engine; NaN counts as a value. XLA
compiles many programs as one.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mixed_programs import STEPS, MixedProgram
from sharded import MESHES, staged

import pullback as pb
from pullback import testing
from pullback.graph.dtypes import dtype

Arrays = list[np.ndarray]

# -- scenarios: what is done to a function of tensors ---------------------------------------------


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


def branch(f: Callable) -> Callable:
    """A branch of cond that the program takes; the other one gives zeros."""

    def chosen(*xs: Any) -> Any:
        zeros = lambda *ys: pb.tree.map(pb.zeros_like, f(*ys))  # noqa: E731
        return pb.cond(pb.sum(xs[-1]) >= 0, f, zeros, *xs)

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
}


def scenarios(program: MixedProgram) -> dict[str, Callable]:
    """The program with its derivatives in each scenario: inside the derivative or around it."""
    f = program.function()
    made: dict[str, Callable] = {"plain": program.derivatives(f)}
    for name, wrap in WRAPPERS.items():
        made[f"derivative of {name}"] = program.derivatives(wrap(f))
        made[f"{name} of derivative"] = wrap(program.derivatives(f))
    names = sorted(WRAPPERS)
    a, b = np.random.default_rng([13, program.seed]).permutation(names)[:2]
    made[f"derivative of {a} of {b}"] = program.derivatives(WRAPPERS[a](WRAPPERS[b](f)))
    return made


# -- what must agree ------------------------------------------------------------------------------


def flat(made: Any) -> Arrays:
    return [y.numpy() for y in pb.tree.leaves(made)]


def disagreement(got: Arrays, want: Arrays, spread: Arrays | None = None) -> str | None:
    """Where results differ by more than rounding and the spread, or None."""
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return f"result {i}: {g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
        wrong = different(g, w)
        if spread is not None:
            wrong &= ~(_distance(g, w) <= 20 * spread[i])
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            return f"result {i} at {place}: {g[place]!r}, expected {w[place]!r}"
    return None


def different(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The places where arrays differ by more than rounding, which is relative to the largest."""
    kind = dtype(w.dtype)
    if not kind.is_inexact:
        return np.asarray(g != w)
    g, w = g.astype(np.complex128), w.astype(np.complex128)
    finite = np.abs(w[np.isfinite(w)])
    scale = 1.0 + (finite.max() if finite.size else 0.0)
    near = np.abs(g - w) <= 100 * testing.TOLERANCE[kind.name] * scale
    return ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))


def _distance(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """How far two arrays are from each other; infinitely, if only one is finite."""
    g, w = np.asarray(g, np.complex128), np.asarray(w, np.complex128)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    return np.where(same, 0.0, np.nan_to_num(np.abs(g - w), nan=np.inf))


def spread(program: MixedProgram, want: Arrays) -> Arrays:
    """How far results move when the value of each step does, by a few units in the last place."""
    moved = [np.zeros(w.shape) for w in want]
    for trial in range(8):
        rng = np.random.default_rng([14, program.seed, trial])
        f = program.function([functools.partial(_nudged, rng, step) for step in STEPS])
        for i, y in enumerate(flat(program.derivatives(f)(*program.tensors()))):
            moved[i] = np.maximum(moved[i], _distance(y, want[i]))
    return moved


def _nudged(rng: np.random.Generator, step: Callable, a: Any, pool: list, n: int) -> Any:
    y = step(a, pool, n)
    if not dtype(y.dtype).is_inexact:
        return y
    ulps = rng.choice([-4.0, 0.0, 4.0], y.shape) * pb.finfo(y.dtype).eps
    return y * pb.astype(pb.tensor(1.0 + ulps), y.dtype)


# -- the oracle -----------------------------------------------------------------------------------


@dataclass
class Oracle:
    """Counts what was compared, and keeps what disagrees."""

    compared: Counter = field(default_factory=Counter)
    rounding: Counter = field(default_factory=Counter)  # explained: the program is ill-conditioned
    failures: list[tuple[MixedProgram, str, str]] = field(default_factory=list)

    def judge(self, program: MixedProgram, name: str, made: Callable[[], Any]) -> bool:
        """Whether a scenario gives the expected results; what it raises is a disagreement."""
        self.compared[name] += 1
        try:
            got = made()
            got = got if isinstance(got, list) and _are_arrays(got) else flat(got)
            wrong = disagreement(got, program.want)
        except Exception as error:  # anything: it is reported
            wrong = f"{type(error).__name__}: {error}"
        else:
            if wrong is None:
                return True
            with pb.config(engine="reference"), np.errstate(all="ignore"):
                if disagreement(got, program.want, spread(program, program.want)) is None:
                    self.rounding[name] += 1
                    return True
        self.failures.append((program, name, wrong))
        return False

    # -- on the reference engine ------------------------------------------------------------------

    def check_reference(self, program: MixedProgram) -> None:
        """Every scenario on the reference engine, shards on simulated devices included."""
        with pb.config(engine="reference"), np.errstate(all="ignore"):
            made = scenarios(program)
            expect(program)
            for name, f in made.items():
                self.judge(program, f"reference, {name}", lambda f=f: f(*program.tensors()))
            with pb.config(eager=True):
                eager = self._same_bits(program, "eager", made["plain"])
            compiled = self._same_bits(program, "compile", pb.compile(made["plain"]))
            del eager, compiled
            self.judge(program, "reference, sharded", lambda: simulated(program))
            self._check_identity(program)
            self._check_differences(program)

    def _same_bits(self, program: MixedProgram, name: str, f: Callable) -> bool:
        name = f"reference, {name}: same bits"

        def made() -> Arrays:
            got = flat(f(*program.tensors()))
            for i, (g, w) in enumerate(zip(got, program.want, strict=True)):
                same = g.dtype == w.dtype and np.array_equal(_bits(g), _bits(w))
                assert same, f"result {i}: bits differ"
            return got

        return self.judge(program, name, made)

    def _check_identity(self, program: MixedProgram) -> None:
        """<cotangents, J t> is <J' cotangents, t>."""
        values, pulled, pushed = program.parts
        made = [y for y in values if dtype(y.dtype).is_inexact]
        if not all(np.isfinite(x).all() for x in (*made, *pulled, *pushed)):
            return
        cotangents = [g.numpy() for g in program.cotangents(made)]
        left, size = _inner(cotangents, pushed)
        right, other = _inner(program.tangents, pulled)
        self.compared["jvp against vjp"] += 1
        kinds = [dtype(y.dtype).name for y in (*made, *pulled)]
        tolerance = 100 * max([testing.TOLERANCE[k] for k in kinds], default=0.0)
        if abs(left - right) > tolerance * (1 + size + other):
            self.failures.append((program, "jvp against vjp", f"{left} and {right}"))

    def _check_differences(self, program: MixedProgram) -> None:
        """Central differences, where two steps of different size agree: they judge smooth ones."""
        values, pulled, pushed = program.parts
        if program.float != "float64" or program.special or not pushed:
            return
        slopes = [differences(program, step) for step in (1e-5, 2.5e-6)]
        if slopes[0] is None or slopes[1] is None:
            return
        self.compared["jvp against differences"] += 1
        for i, (t, a, b) in enumerate(zip(pushed, *slopes, strict=True)):
            if t.dtype != np.float64 or not np.isfinite(a).all():
                continue
            smooth = np.abs(a - b) <= 1e-5 * (1 + np.abs(a))
            wrong = smooth & ~(np.abs(t - b) <= 1e-3 * (1 + np.abs(b)))
            if wrong.any():
                place = tuple(map(int, np.argwhere(wrong)[0]))
                text = f"tangent {i} at {place}: {t[place]}, differences {a[place]} and {b[place]}"
                self.failures.append((program, "jvp against differences", text))
                return

    # -- on XLA -----------------------------------------------------------------------------------

    def check_xla(self, programs: Sequence[MixedProgram], mode: str, every: bool = False) -> None:
        """Some programs as one of XLA's, each in a scenario of its own, or in every one."""
        cases = []
        for program in programs:
            expect(program)
            made = scenarios(program)
            del made["compile of derivative"]  # this is what the mode `compile` does
            names = list(made) if every else [list(made)[program.seed % len(made)]]
            cases += [(program, name, made[name]) for name in names]
        if mode == "sharded":
            chosen = dict.fromkeys(map(id, programs))
            cases = [(p, "plain", p.derivatives(p.function())) for p in programs if id(p) in chosen]
        self._together(cases, mode)

    def _together(self, cases: list, mode: str) -> None:
        if not cases:
            return
        try:
            with np.errstate(all="ignore"):
                results = MODES[mode](cases)
        except Exception as error:
            if len(cases) == 1:
                program, name, _ = cases[0]
                text = f"{type(error).__name__}: {error}"
                self.compared[f"XLA, {mode}, {name}"] += 1
                self.failures.append((program, f"XLA, {mode}, {name}", text))
                return
            half = len(cases) // 2
            self._together(cases[:half], mode)
            self._together(cases[half:], mode)
            return
        for (program, name, _), made in zip(cases, results, strict=True):
            self.judge(program, f"XLA, {mode}, {name}", lambda made=made: made)


def expect(program: MixedProgram) -> None:
    """Set what the plain program gives on the reference engine."""
    if hasattr(program, "want"):
        return
    with pb.config(engine="reference"), np.errstate(all="ignore"):
        made = program.derivatives(program.function())(*program.tensors())
        program.parts = tuple([flat(part) for part in made])
    program.want = [y for part in program.parts for y in part]


def simulated(program: MixedProgram) -> Arrays:
    """The program and its derivatives on a mesh of simulated devices."""
    rng = np.random.default_rng([15, program.seed])
    f = program.derivatives(program.function())
    graph, more = staged(f, program.arrays, [None] * len(program.arrays))
    arrays = [*program.arrays, *more]
    mesh = MESHES[rng.integers(len(MESHES))]
    shardings = [testing.random_sharding(rng, mesh, a.ndim) for a in arrays]
    return testing.run_sharded(graph, arrays, shardings, mesh)


def differences(program: MixedProgram, step: float) -> Arrays | None:
    """The slope of each float result along the program's tangents."""
    f = program.function()
    sides = []
    for s in (step, -step):
        xs = [pb.tensor(x + s * t) for x, t in zip(program.floats, program.tangents, strict=True)]
        made = flat(f(*xs, *map(pb.tensor, program.others)))
        sides.append([y for y in made if dtype(y.dtype).is_inexact])
    if [y.shape for y in sides[0]] != [y.shape for y in sides[1]]:
        return None
    return [(a.astype(float) - b) / (2 * step) for a, b in zip(*sides, strict=True)]


def _inner(xs: Iterable[np.ndarray], ys: Iterable[np.ndarray]) -> tuple[float, float]:
    """The inner product, and the sum of the absolute values of its terms."""
    terms = [x.astype(float) * y.astype(float) for x, y in zip(xs, ys, strict=True)]
    return sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)


def _bits(a: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.where(np.isnan(a), np.nan, a).astype(a.dtype).tobytes(), np.uint8)


def _are_arrays(made: list) -> bool:
    return all(isinstance(y, np.ndarray) for y in made)


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
    mesh = pb.DeviceMesh((4,), ("a",)) if cases[0][0].seed % 2 else pb.DeviceMesh((2, 2), ("a", "b"))
    for (program, _, _), xs in zip(cases, inputs, strict=True):
        rng = np.random.default_rng([16, program.seed])
        xs[:] = [x.shard(mesh, testing.random_sharding(rng, mesh, x.ndim).spec) for x in xs]
    return [flat(y) for y in batch(inputs)]


MODES: dict[str, Callable[[list], list[Arrays]]] = {
    "lazy": _lazy, "compile": _compiled, "saved": _saved, "sharded": _sharded, "eager": _eager,
}  # fmt: skip
