"""The integer program: one choice for each group, with the least total time.

Each choice of a group has a binary variable. A value that other groups need in some layout is moved
once for all of them: a continuous variable for each price of this move is bounded by the choices
with that price.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.node import Node
from pullback.sharding.auto.greedy import Solution, greedy_from_inputs, improve_greedily
from pullback.sharding.auto.groups import GroupChoice, GroupClaim, Groups, LayoutGroup
from pullback.sharding.spec import Dims

GAP = 2e-3  # relative distance to the optimum that is good enough: the cost model is no better
WHOLE = 500  # the most choices, beyond one per group, with which the whole program is solved
STARTS = 2  # solutions to improve
RELAXED = 2000  # the most choices with which the relaxation is faster than small programs
MICROSECONDS = 1e6  # the unit of the objective
SCARCE = 1e3  # the cost of exceeding memory by all of it, in times of the whole program
TIE = 1e-4  # microseconds for each axis that splits an input: prefer whole inputs in a tie


def integer_program_solver() -> Any:
    """Return `scipy.optimize`."""
    try:
        from scipy import optimize  # optional and heavy
    except ImportError:
        raise ArgumentError(
            "auto_shard: needs the package scipy, which is not installed",
            hint="Install it with: pip install 'pullback[auto]'.",
        ) from None
    return optimize


def choose_by_integer_program(
    groups: Groups,
    like_input: dict[int, int],
    starts: Sequence[Sequence[Dims]],
    memory: float | None,
    seconds: float,
    thorough: bool = True,
) -> list[list[Dims]]:
    """Return the layouts of the inputs in the solutions found, best first.

    Output i has the layout of the input `like_input[i]`, if there is one. `starts` are layouts of
    the inputs to start from, `memory` the bytes of a device, `seconds` the time limit. If not
    `thorough`, only the best start is improved.
    """
    _add_integer_program_outputs(groups, like_input)
    program = IntegerProgram(groups)
    if memory is not None:
        program.limit_memory(memory, like_input)
    found = program.solve(starts, seconds, thorough)
    return [[s[groups.of[x]].layouts[x] for x in groups.graph.inputs] for s in found]


def _add_integer_program_outputs(groups: Groups, like_input: dict[int, int]) -> None:
    """Add the moves of outputs to the layout of an input, or else to the propagated layout.

    Propagation does not split a sum over devices.
    """
    graph, of = groups.graph, groups.of
    for i, y in enumerate(graph.outputs):
        if y not in of or not y.type.rank:
            continue
        x = graph.inputs[like_input[i]] if i in like_input else y
        for c in of[x].choices:
            wanted = c.layouts[x]
            if x is y:
                wanted = tuple([tuple([a for a in by if a not in c.scattered]) for by in wanted])
            if of[x] is of[y]:
                c.seconds += groups.price(y.type.plain, c.layouts[y], wanted)
            else:
                c.asks[y, wanted] = None


class IntegerProgram:
    """Columns with costs, and rows: sparse sums of columns with bounds."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.costs: list[float] = []
        self.rows: list[dict[int, float]] = []
        self.bounds: list[tuple[float, float]] = []
        self.columns: dict[GroupChoice, int] = {}
        self.copies: dict[tuple[Node, Dims], dict[float, int]] = {}  # columns by price
        self.largest: int | None = None  # the column for the bytes of the largest value
        self.excess: int | None = None  # the column for the memory that is missing
        self._needed_memory: dict[int, float] = {}  # the row of the memory that is needed
        self._totals: dict[tuple[GroupChoice, ...], float] = {}  # of solutions
        inputs = {groups.of[x]: x for x in groups.graph.inputs}
        for group in groups.groups:
            for i, c in enumerate(group.choices):
                self.columns[c] = column = self._column(c.seconds * MICROSECONDS)
                if group in inputs:
                    split = sum(map(len, c.layouts[inputs[group]]))
                    self.costs[column] += TIE * (split + i / len(group.choices) / 10)
            self._row({self.columns[c]: 1.0 for c in group.choices}, 1.0, 1.0)
        self.binary = len(self.costs)
        self._add_copies()
        self._add_claims()

    def _column(self, cost: float) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def _row(self, row: dict[int, float], high: float = 0.0, low: float = -np.inf) -> None:
        self.rows.append(row)
        self.bounds.append((low, high))

    def _add_copies(self) -> None:
        """Add the prices of moving values to the layouts that other groups ask for."""
        for (x, dims), asking in self._asked().items():
            prices: dict[float, list[int]] = {}
            for c in self.groups.of[x].choices:
                price = self.groups.price(x.type.plain, c.layouts[x], dims)
                prices.setdefault(price, []).append(self.columns[c])
            if max(prices) == 0.0:
                continue
            copies = self.copies[x, dims] = {}
            for price, columns in sorted(prices.items()):
                copies[price] = self._column(price * MICROSECONDS)
                self._row({copies[price]: 1.0, **dict.fromkeys(columns, -1.0)})
            for columns in asking:
                self._row(dict.fromkeys(copies.values(), -1.0) | dict.fromkeys(columns, 1.0))

    def _add_claims(self) -> None:
        """Require that an operand is split along each claim of a choice, and none it ignores."""
        for group in self.groups.groups:
            claiming: dict[tuple[GroupClaim, float], list[int]] = {}
            for c in group.choices:
                for claims, sign in ((c.claims, -1.0), (c.ignores, 1.0)):
                    for claim in claims:
                        claiming.setdefault((claim, sign), []).append(self.columns[c])
            for ((axis, places), sign), columns in claiming.items():
                row = dict.fromkeys(columns, 1.0)
                for x, d in places:
                    for c in self.groups.of[x].choices:
                        if axis in c.layouts[x][d]:
                            row[self.columns[c]] = row.get(self.columns[c], 0.0) + sign
                self._row(row, max(0.0, sign))

    def _asked(self) -> dict[tuple[Node, Dims], list[list[int]]]:
        """Return, for each value and layout, the columns of the choices asking for it, by group."""
        found: dict[tuple[Node, Dims], list[list[int]]] = {}
        for group in self.groups.groups:
            asked: dict[tuple[Node, Dims], list[int]] = {}
            for c in group.choices:
                for ask in c.asks:
                    asked.setdefault(ask, []).append(self.columns[c])
            for ask, columns in asked.items():
                found.setdefault(ask, []).append(columns)
        return found

    def limit_memory(self, memory: float, like_input: dict[int, int]) -> None:
        """Let inputs, outputs and the largest value fit into each device's memory, if possible.

        Otherwise the solutions are those that need the least memory.
        """
        graph, groups, self.memory = self.groups.graph, self.groups, memory
        largest = self.largest = self._column(0.0)
        total = {largest: 1.0}
        like = [graph.inputs[like_input[i]] if i in like_input else y
                for i, y in enumerate(graph.outputs)]  # fmt: skip
        for y, x in zip((*graph.inputs, *graph.outputs), (*graph.inputs, *like), strict=True):
            for c in groups.of[x].choices if x in groups.of else ():
                share = groups.nbytes(y.type.plain, c.layouts[x]) / memory
                total[self.columns[c]] = total.get(self.columns[c], 0.0) + share
        whole = sum([max([self.costs[self.columns[c]] for c in g.choices]) for g in groups.groups])
        self.excess, self._needed_memory = self._column(SCARCE * (1.0 + whole)), total
        self._row({**total, self.excess: -1.0}, 1.0)
        for group in groups.groups:
            row = {self.columns[c]: c.largest / memory for c in group.choices}
            self._row({**row, largest: -1.0})
        for (x, dims), columns in self.copies.items():
            row = dict.fromkeys(columns.values(), groups.nbytes(x.type.plain, dims) / memory)
            self._row({**row, largest: -1.0})

    def solve(
        self, starts: Sequence[Sequence[Dims]], seconds: float, thorough: bool
    ) -> list[Solution]:
        """Return solutions, best first, until nothing can be much better.

        They come from a few small programs, and from the whole one where these leave little of it.
        """
        self.deadline = time.monotonic() + seconds
        self.matrix, (self.low, self.high) = self._matrix(), np.array(self.bounds).T
        self.weights = np.array(self.costs)
        groups, axes = self.groups, self.groups.mesh.several
        known = [s for inputs in starts for s in greedy_from_inputs(groups, inputs, self._cost)]
        known = self._sorted([s for s in known if self._fits(s)])
        if known and not thorough:
            return self._sorted([self._descend(known[0]), *known])
        least, reduced = self._relaxed()
        if not known or self._total(known[0]) > least * (1 + GAP):
            known = self._sorted(
                [*self._milp(lambda group, c: program_axes_together(c, axes)), *known]
            )
        if not known:
            return self._milp(lambda group, c: True)
        if self._total(known[0]) <= least * (1 + GAP):
            return known
        found = [self._descend(s) for s in known[:STARTS]]
        bound = min(map(self._total, found))
        hopeless = reduced > (bound - least) * (1 - GAP) + TIE
        if self.binary - hopeless.sum() <= WHOLE + len(groups.groups):
            found += self._milp(lambda group, c: not hopeless[self.columns[c]])
        return self._sorted([*found, *known])

    def _sorted(self, solutions: Iterable[Solution]) -> list[Solution]:
        """Return the distinct solutions, best first."""
        return sorted({self._key(s): s for s in solutions}.values(), key=self._total)

    def _key(self, solution: Solution) -> tuple[GroupChoice, ...]:
        return tuple([solution[g] for g in self.groups.groups])

    def _descend(self, best: Solution) -> Solution:
        """Improve a solution along one axis at a time, as long as that helps."""
        axes = list(self.groups.mesh.several)
        since = 0  # axes since the last improvement
        while since < len(axes) > 1:
            axis = axes[0]
            axes = [*axes[1:], axis]
            rest = {group: integer_program_without(c, axis) for group, c in best.items()}
            found = self._milp(lambda g, c, r=rest, a=axis: integer_program_without(c, a) == r[g])  # type: ignore[misc]
            since += 1
            if found and self._total(found[0]) < self._total(best) * (1 - GAP):
                best, since = found[0], 0
        return best

    def _milp(self, allowed: Callable[[LayoutGroup, GroupChoice], bool]) -> list[Solution]:
        """Return the best solution with the allowed choices, or an empty list."""
        groups = self.groups.groups
        binary = np.arange(len(self.costs)) < self.binary
        upper = np.where(binary, 0.0, np.inf)
        upper[[self.columns[c] for g in groups for c in g.choices if allowed(g, c)]] = 1.0
        rows, columns = self._needed(upper, binary)
        found = integer_program_solver().milp(
            self.weights[columns], integrality=binary[columns], bounds=(0, upper[columns]),
            constraints=(self.matrix[rows][:, columns], self.low[rows], self.high[rows]),
            options={"time_limit": max(1.0, self.deadline - time.monotonic()), "mip_rel_gap": GAP},
        )  # fmt: skip
        if found.x is None:
            return []
        values = np.zeros(len(self.costs))
        values[columns] = found.x
        best = {g: max(g.choices, key=lambda c: values[self.columns[c]]) for g in groups}
        improved = improve_greedily(self.groups, best, self._cost)  # in a tie, towards whole inputs
        return [min([best, *[improved] * self._fits(improved)], key=self._total)]

    def _needed(self, upper: np.ndarray, binary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that columns up to `upper` may violate, and the columns that matter.

        Columns matter if they are choices or help to satisfy a row: few, if few are allowed.
        """
        raising, lowering = self.matrix.maximum(0), self.matrix.minimum(0).T.tocsr()
        columns = upper > 0
        for _ in range(3):
            most = raising @ np.where(columns, np.minimum(upper, 1e12), 0.0)
            rows = (self.low > -np.inf) | (most > self.high)
            columns &= binary | (lowering @ rows.astype(float) < 0)
        return np.flatnonzero(rows), np.flatnonzero(columns)

    def _relaxed(self) -> tuple[float, np.ndarray]:
        """Return the optimum of the linear relaxation, and the reduced cost of each choice.

        The optimum is a lower bound. A choice is hopeless if its reduced cost exceeds the distance
        of a known solution from it.
        """
        nothing = 0.0, np.zeros(self.binary)
        if self.binary > RELAXED:
            return nothing
        same = self.low == self.high
        found = integer_program_solver().linprog(
            self.weights, A_ub=self.matrix[~same], b_ub=self.high[~same], A_eq=self.matrix[same],
            b_eq=self.high[same], bounds=(0, None), method="highs",
        )  # fmt: skip
        return nothing if found.x is None else (found.fun, found.lower.marginals[: self.binary])

    def _total(self, solution: Solution) -> float:
        key = self._key(solution)
        if key not in self._totals:
            self._totals[key] = float(np.dot(self.weights, self._values(solution)))
        return self._totals[key]

    def _fits(self, solution: Solution) -> bool:
        return bool(np.all(self.matrix @ self._values(solution) <= self.high + 1e-9))

    def _cost(self, choice: GroupChoice) -> float:
        return self.costs[self.columns[choice]] / MICROSECONDS

    def _matrix(self) -> Any:
        from scipy.sparse import csr_array  # optional and heavy

        data = [v for row in self.rows for v in row.values()]
        columns = [j for row in self.rows for j in row]
        starts = np.cumsum([0, *map(len, self.rows)])
        return csr_array((data, columns, starts), shape=(len(self.rows), len(self.costs)))

    def _values(self, solution: Solution) -> np.ndarray:
        """Return a solution as the values of all columns."""
        values = np.zeros(len(self.costs))
        groups, choices = self.groups, list(solution.values())
        values[[self.columns[c] for c in choices]] = 1.0
        sizes = [c.largest for c in choices]
        for x, dims in dict.fromkeys([ask for c in choices for ask in c.asks]):
            if (x, dims) in self.copies:
                price = groups.price(x.type.plain, solution[groups.of[x]].layouts[x], dims)
                values[self.copies[x, dims][price]] = 1.0
                sizes.append(groups.nbytes(x.type.plain, dims))
        if self.largest is not None:
            values[self.largest] = max(sizes) / self.memory
        if self.excess is not None:
            needed = sum([values[column] * x for column, x in self._needed_memory.items()])
            values[self.excess] = max(0.0, needed - 1.0)
        return values


def program_axes_together(choice: GroupChoice, axes: Sequence[str]) -> bool:
    """Return whether every dimension is split along all axes or none."""
    return all(not by or len(by) == len(axes) for dims in choice.key for by in dims)


def integer_program_without(choice: GroupChoice, axis: str) -> tuple[Dims, ...]:
    """Return the chosen layouts without one axis."""
    return tuple([tuple([tuple([a for a in by if a != axis]) for by in dims])
                  for dims in choice.key])  # fmt: skip
