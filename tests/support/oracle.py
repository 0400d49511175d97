"""One program in many scenarios: modes, transforms, engines and meshes that must all agree.

Everything is compared with the plain program on the reference engine; NaN counts as a value. XLA
compiles many programs as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from agreement import Arrays, bits, differences, disagreement, flat, inner, nudged
from mixed_programs import MixedProgram
from scenario_functions import MODES, scenarios, simulated

import pullback as pb
from pullback import testing
from pullback.graph.dtypes import dtype

BITS = "compile of derivative"  # the reference engine gives the same bits here


@dataclass(frozen=True)
class Failure:
    """A program that disagrees with its plain form in a scenario."""

    program: MixedProgram
    scenario: str
    text: str


@dataclass
class Oracle:
    """Counts what was compared, and keeps what disagrees."""

    seeds: set[int] = field(default_factory=set)
    compared: Counter = field(default_factory=Counter)
    rounding: list[Failure] = field(default_factory=list)  # explained: see `disagreement`
    failures: list[Failure] = field(default_factory=list)

    def judge(self, program: MixedProgram, name: str, run: Callable[[], Arrays]) -> None:
        """Compare what a scenario gives; whatever it raises is a disagreement too."""
        self.compared[name] += 1
        try:
            got = run()
        except Exception as error:
            self.failures.append(Failure(program, name, f"{type(error).__name__}: {error}"))
            return
        wrong = disagreement(got, program.want)
        if wrong is None:
            return
        failure = Failure(program, name, wrong)
        with pb.config(engine="reference"), np.errstate(all="ignore"):
            values = None if program.finite else len(program.parts[0])
            explained = disagreement(got, program.want, nudged(program), values) is None
        (self.rounding if explained else self.failures).append(failure)

    # -- on the reference engine ------------------------------------------------------------------

    def check_reference(self, program: MixedProgram) -> None:
        """Every scenario on the reference engine, shards on simulated devices included."""
        with pb.config(engine="reference"), np.errstate(all="ignore"):
            if not self._expect(program):
                return
            made = scenarios(program)
            made.pop(BITS, None)
            for name, f in made.items():
                self.judge(program, f"reference, {name}", lambda f=f: flat(f(*program.tensors())))
            with pb.config(eager=True):
                self._check_bits(program, "reference, eager", made["plain"])
            self._check_bits(program, f"reference, {BITS}", pb.compile(made["plain"]))
            self.judge(program, "reference, sharded", lambda: simulated(program))
            self._check_identity(program)
            self._check_differences(program)

    def _expect(self, program: MixedProgram) -> bool:
        """Run the plain program; what it raises is a mistake of a step."""
        self.seeds.add(program.seed)
        try:
            program.expect()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self.failures.append(Failure(program, "reference, values", text))
            return False
        return True

    def _check_bits(self, program: MixedProgram, name: str, f: Callable) -> None:
        def run() -> Arrays:
            got = flat(f(*program.tensors()))
            for i, (g, w) in enumerate(zip(got, program.want, strict=True)):
                assert g.dtype == w.dtype and bits(g) == bits(w), f"bits of result {i} differ"
            return got

        self.judge(program, name, run)

    def _check_identity(self, program: MixedProgram) -> None:
        """<cotangents, J t> is <J' cotangents, t>."""
        values, pulled, pushed = program.parts
        made = [y for y in values if dtype(y.dtype).is_inexact]
        if not made or not all(np.isfinite(x).all() for x in (*made, *pulled, *pushed)):
            return
        cotangents = [g.numpy() for g in program.cotangents(made)]
        left, size = inner(cotangents, pushed)
        right, other = inner(program.tangents, pulled)
        kinds = [dtype(y.dtype).name for y in (*made, *pulled)]
        tolerance = 100 * max([testing.TOLERANCE[k] for k in kinds], default=0.0)
        self.compared["jvp against vjp"] += 1
        if abs(left - right) > tolerance * (1 + size + other):
            self.failures.append(Failure(program, "jvp against vjp", f"{left} and {right}"))

    def _check_differences(self, program: MixedProgram) -> None:
        """Compare with central differences where those of two sizes agree: at smooth places."""
        pushed = program.parts[2]
        if program.float != "float64" or program.special or not pushed:
            return
        self.compared["jvp against differences"] += 1
        slopes = [differences(program, step) for step in (1e-5, 2.5e-6)]
        for i, (t, a, b) in enumerate(zip(pushed, *slopes, strict=True)):
            smooth = np.abs(a - b) <= 1e-5 * (1 + np.abs(a))
            wrong = smooth & ~(np.abs(t - b) <= 1e-3 * (1 + np.abs(b)))
            if t.dtype == np.float64 and wrong.any():
                place = tuple(map(int, np.argwhere(wrong)[0]))
                text = f"tangent {i} at {place}: {t[place]}, differences {a[place]} and {b[place]}"
                self.failures.append(Failure(program, "jvp against differences", text))
                return

    # -- on XLA -----------------------------------------------------------------------------------

    def check_xla(self, programs: Sequence[MixedProgram], mode: str, every: bool = False) -> None:
        """Some programs as one of XLA's, each in a scenario of its own, or in every one."""
        cases = []
        for program in programs:
            self.seeds.add(program.seed)
            with pb.config(engine="reference"), np.errstate(all="ignore"):
                program.expect()
            made = scenarios(program)
            names = list(made) if every else [list(made)[program.seed % len(made)]]
            names = ["plain"] if mode == "sharded" else names
            cases += [(program, name, made[name]) for name in names]
        self._together(cases, mode)

    def _together(self, cases: list[tuple[MixedProgram, str, Callable]], mode: str) -> None:
        try:
            results: list[Any] = MODES[mode](cases)
        except Exception:
            if len(cases) > 1:  # find the program that fails
                half = len(cases) // 2
                self._together(cases[:half], mode)
                self._together(cases[half:], mode)
                return
            program, name, _ = cases[0]
            self.judge(program, f"XLA, {mode}, {name}", lambda: MODES[mode](cases)[0])
            return
        for (program, name, _), made in zip(cases, results, strict=True):
            self.judge(program, f"XLA, {mode}, {name}", lambda made=made: made)


# -- shorter reproducers --------------------------------------------------------------------------


def shrunk(failure: Failure) -> Failure:
    """The failure of a program with fewer steps, in the same scenario."""
    again, position = failure, 0
    while position < len(again.program.steps):
        steps = [s for i, s in enumerate(again.program.steps) if i != position]
        found = _retried(MixedProgram(failure.program.seed, steps), failure.scenario)
        again, position = (found, position) if found else (again, position + 1)
    return again


def _retried(program: MixedProgram, scenario: str) -> Failure | None:
    oracle = Oracle()
    engine, *rest = scenario.split(", ")
    try:
        if engine == "XLA":
            oracle.check_xla([program], rest[0], every=True)
        else:
            oracle.check_reference(program)
    except Exception:  # without this step it is no program
        return None
    return next((f for f in oracle.failures if f.scenario == scenario), None)
