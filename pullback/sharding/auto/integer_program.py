"""The integer program: one choice for each group, so that all together takes the least time.

A variable for each choice of each group says whether it is taken. A value that another group asks
for in some layout is laid out anew once, however many ask: a continuous variable for each price
that this can have, bounded by the choices that have this price.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.node import Node
from pullback.sharding.auto.greedy import Taken, from_inputs, settle
from pullback.sharding.auto.groups import Claim, Groups, LayoutChoice, LayoutGroup
from pullback.sharding.spec import Dims

GAP = 2e-3  # a solution so near to the best one is good enough: the cost model is no better
WHOLE = 500  # choices beyond one for each group, up to which the whole program is solved
STARTS = 2  # solutions that are improved
RELAXED = 2000  # choices up to which it is relaxed: of more, small programs tell as much sooner
MICROSECONDS = 1e6  # the unit of the objective
TIE = 1e-4  # of a microsecond, for each axis that splits an input: whole is better if all is equal


def solver() -> Any:
    """scipy's optimizer, which only this needs."""
    try:
        from scipy import optimize
    except ImportError:
        raise ArgumentError(
            "auto_shard: needs the package scipy, which is not installed",
            hint="Install it with: pip install 'pullback[auto]'.",
        ) from None  # fmt: skip
    return optimize


def choose(
    groups: Groups,
    alike: dict[int, int],
    starts: Sequence[Sequence[Dims]],
    memory: float | None,
    seconds: float,
    thorough: bool = True,
) -> list[list[Dims]]:
    """How the inputs lie in the solutions found, the best first.

    An output in `alike` lies as the input that it names; `starts` are layouts of the inputs to
    begin with; each device has so much `memory`; the search ends after so many `seconds`. If it
    is not `thorough`, only the best start is improved.
    """
    _hand_out(groups, alike)
    model = Model(groups)
    if memory is not None:
        model.limit(memory, alike)
    found = model.solve(starts, seconds, thorough)
    return [[taken[id(groups.of[x])].lies[x] for x in groups.graph.inputs] for taken in found]


def _hand_out(groups: Groups, alike: dict[int, int]) -> None:
    """The program's results: some lie as an input does, the others as is propagated, which
    splits no sum over devices."""
    graph = groups.graph
    for i, y in enumerate(graph.outputs):
        group = groups.of.get(y)
        if group is None or not y.type.rank:
            continue
        type = y.type.plain
        if i in alike:
            x = graph.inputs[alike[i]]
            for c in groups.of[x].choices:
                if groups.of[x] is group:
                    c.seconds += groups.price(type, c.lies[y], c.lies[x])
                else:
                    c.asks[y, c.lies[x]] = None
        else:
            for c in group.choices:
                whole = tuple([tuple([a for a in axes if a not in c.scattered])
                               for axes in c.lies[y]])  # fmt: skip
                c.seconds += groups.price(type, c.lies[y], whole)


class Model:
    """Columns with their costs, and rows: sparse sums of columns with an upper bound."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.costs: list[float] = []
        self.rows: list[dict[int, float]] = []
        self.bounds: list[tuple[float, float]] = []
        self.columns: dict[int, int] = {}  # of a choice, by its identity
        self.copies: dict[tuple[Node, Dims], dict[float, int]] = {}  # columns by price
        self.largest: int | None = None  # the column for the bytes of the largest value
        self._totals: dict[tuple[int, ...], float] = {}  # of solutions
        inputs = {id(groups.of[x]): x for x in groups.graph.inputs}
        for group in groups.groups:
            mine = []
            for i, c in enumerate(group.choices):
                mine.append(self._column(c.seconds * MICROSECONDS))
                self.columns[id(c)] = mine[-1]
                if id(group) in inputs:
                    split = sum(map(len, c.lies[inputs[id(group)]]))
                    self.costs[mine[-1]] += TIE * (split + i / len(group.choices) / 10)
            self._row(dict.fromkeys(mine, 1.0), 1.0, 1.0)
        self.binary = len(self.costs)
        self._copies()
        self._claims()

    def _column(self, cost: float) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def _row(self, row: dict[int, float], low: float, high: float) -> None:
        self.rows.append(row)
        self.bounds.append((low, high))

    def _copies(self) -> None:
        """What it costs to lay values out as other groups ask for them."""
        for (x, dims), asking in self._asked().items():
            classes: dict[float, list[int]] = {}
            for c in self.groups.of[x].choices:
                price = self.groups.price(x.type.plain, c.lies[x], dims)
                classes.setdefault(price, []).append(self.columns[id(c)])
            if max(classes) == 0.0:
                continue
            made = self.copies[x, dims] = {}
            for price, columns in sorted(classes.items()):
                made[price] = self._column(price * MICROSECONDS)
                self._row({made[price]: 1.0, **dict.fromkeys(columns, -1.0)}, -np.inf, 0.0)
            enough = dict.fromkeys(made.values(), -1.0)
            for columns in asking:
                self._row({**enough, **dict.fromkeys(columns, 1.0)}, -np.inf, 0.0)

    def _claims(self) -> None:
        """What a choice splits must be split at one of its operands; what it ignores must not."""
        for group in self.groups.groups:
            claiming: dict[tuple[Claim, float], list[int]] = {}
            for c in group.choices:
                for claims, sign in ((c.claims, -1.0), (c.ignores, 1.0)):
                    for claim in claims:
                        claiming.setdefault((claim, sign), []).append(self.columns[id(c)])
            for ((axis, places), sign), columns in claiming.items():
                row = dict.fromkeys(columns, 1.0)
                for x, d in places:
                    for c in self.groups.of[x].choices:
                        if axis in c.lies[x][d]:
                            at = self.columns[id(c)]
                            row[at] = row.get(at, 0.0) + sign
                self._row(row, -np.inf, max(0.0, sign))

    def _asked(self) -> dict[tuple[Node, Dims], list[list[int]]]:
        """For each value and layout, the columns of the choices that ask for it, by group."""
        found: dict[tuple[Node, Dims], list[list[int]]] = {}
        for group in self.groups.groups:
            mine: dict[tuple[Node, Dims], list[int]] = {}
            for c in group.choices:
                for ask in c.asks:
                    mine.setdefault(ask, []).append(self.columns[id(c)])
            for ask, columns in mine.items():
                found.setdefault(ask, []).append(columns)
        return found

    def limit(self, memory: float, alike: dict[int, int]) -> None:
        """On every device, inputs, outputs and the largest value fit into so many bytes."""
        graph, of, self.memory = self.groups.graph, self.groups.of, memory
        largest = self.largest = self._column(0.0)
        total = {largest: 1.0}
        for x in graph.inputs:
            self._add(total, of[x], x, x, memory)
        for i, y in enumerate(graph.outputs):
            like = graph.inputs[alike[i]] if i in alike else y
            if like in of:
                self._add(total, of[like], y, like, memory)
        self._row(total, -np.inf, 1.0)
        for group in self.groups.groups:
            row = {self.columns[id(c)]: c.largest / memory for c in group.choices}
            self._row({**row, largest: -1.0}, -np.inf, 0.0)
        for (x, dims), columns in self.copies.items():
            share = self.groups.nbytes(x.type.plain, dims) / memory
            row = dict.fromkeys(columns.values(), share)
            self._row({**row, largest: -1.0}, -np.inf, 0.0)

    def _add(
        self, row: dict[int, float], of: LayoutGroup, x: Node, like: Node, memory: float
    ) -> None:
        for c in of.choices:
            column = self.columns[id(c)]
            share = self.groups.nbytes(x.type.plain, c.lies[like]) / memory
            row[column] = row.get(column, 0.0) + share

    # -- solving -----------------------------------------------------------------------------------

    def solve(
        self, starts: Sequence[Sequence[Dims]], seconds: float, thorough: bool
    ) -> list[Taken]:
        """Solutions, the best first: those of a few small programs, and that of the whole one,
        where these leave only a little of it. No more is tried once nothing can be much better."""
        self.deadline = time.monotonic() + seconds
        self.matrix, (self.low, self.high) = self._matrix(), np.array(self.bounds).T
        self.weights = np.array(self.costs)
        groups, axes = self.groups, self.groups.mesh.several
        known = [s for inputs in starts for s in from_inputs(groups, inputs, self._cost)]
        known = self._sorted([s for s in known if self._fits(s)])
        if known and not thorough:
            return self._sorted([self._descend(known[0]), *known])
        least, reduced = self._relaxed()
        if not known or self._total(known[0]) > least * (1 + GAP):
            known = self._sorted([*self._milp(lambda group, c: together(c, axes)), *known])
        if not known:
            return self._milp(lambda group, c: True)
        if self._total(known[0]) <= least * (1 + GAP):
            return known
        found = [self._descend(s) for s in known[:STARTS]]
        bound = min(map(self._total, found))
        hopeless = reduced > (bound - least) * (1 - GAP) + TIE
        if self.binary - hopeless.sum() <= WHOLE + len(groups.groups):
            found += self._milp(lambda group, c: not hopeless[self.columns[id(c)]])
        return self._sorted([*found, *known])

    def _sorted(self, solutions: Sequence[Taken]) -> list[Taken]:
        """Solutions without those that are there twice, the best first."""
        return sorted({self._identity(s): s for s in solutions}.values(), key=self._total)

    def _identity(self, taken: Taken) -> tuple[int, ...]:
        return tuple([id(taken[id(g)]) for g in self.groups.groups])

    def _descend(self, best: Taken) -> Taken:
        """Choose anew along one axis at a time, as long as that helps."""
        axes = list(self.groups.mesh.several)
        since = 0  # how many axes in sequence have brought nothing
        while since < len(axes) > 1:
            axis = axes[0]
            axes = [*axes[1:], axis]
            held = {key: without(c, axis) for key, c in best.items()}
            found = self._milp(lambda g, c, h=held, a=axis: without(c, a) == h[id(g)])  # type: ignore[misc]
            since += 1
            if found and self._total(found[0]) < self._total(best) * (1 - GAP):
                best, since = found[0], 0
        return best

    def _milp(self, allowed: Callable[[LayoutGroup, LayoutChoice], bool]) -> list[Taken]:
        """The best solution with these choices only, if there is one."""
        groups = self.groups.groups
        whole = np.arange(len(self.costs)) < self.binary
        upper = np.where(whole, 0.0, np.inf)
        upper[[self.columns[id(c)] for g in groups for c in g.choices if allowed(g, c)]] = 1.0
        rows, columns = self._needed(upper, whole)
        found = solver().milp(
            self.weights[columns], integrality=whole[columns], bounds=(0, upper[columns]),
            constraints=(self.matrix[rows][:, columns], self.low[rows], self.high[rows]),
            options={"time_limit": max(1.0, self.deadline - time.monotonic()), "mip_rel_gap": GAP},
        )  # fmt: skip
        if found.x is None:
            return []
        values = np.zeros(len(self.costs))
        values[columns] = found.x
        best = {id(g): max(g.choices, key=lambda c: values[self.columns[id(c)]]) for g in groups}
        settled = settle(self.groups, best, self._cost)  # ties are settled towards whole inputs
        return [min([best, *[settled] * self._fits(settled)], key=self._total)]

    def _needed(self, upper: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that may be violated, where columns are at most `upper`, and the columns that
        are choices or help to fulfil a row: where few choices are allowed, that is a small part."""
        raising, lowering = self.matrix.maximum(0), self.matrix.minimum(0).T.tocsr()
        columns = upper > 0
        for _ in range(3):
            most = raising @ np.where(columns, np.minimum(upper, 1e12), 0.0)
            rows = (self.low > -np.inf) | (most > self.high)
            columns &= whole | (lowering @ rows.astype(float) < 0)
        return np.flatnonzero(rows), np.flatnonzero(columns)

    def _relaxed(self) -> tuple[float, np.ndarray]:
        """The cost of the program where parts of choices may be taken, than which no solution is
        better; and by how much more each choice costs there at least, which is hopeless if it is
        more than a solution has left."""
        nothing = 0.0, np.zeros(self.binary)
        if self.binary > RELAXED:
            return nothing
        same = self.low == self.high
        found = solver().linprog(
            self.weights, A_ub=self.matrix[~same], b_ub=self.high[~same], A_eq=self.matrix[same],
            b_eq=self.high[same], bounds=(0, None), method="highs",
        )  # fmt: skip
        return nothing if found.x is None else (found.fun, found.lower.marginals[: self.binary])

    def _total(self, taken: Taken) -> float:
        key = self._identity(taken)
        if key not in self._totals:
            self._totals[key] = float(np.dot(self.weights, self._columns(taken)))
        return self._totals[key]

    def _fits(self, taken: Taken) -> bool:
        return bool(np.all(self.matrix @ self._columns(taken) <= self.high + 1e-9))

    def _cost(self, choice: LayoutChoice) -> float:
        return self.costs[self.columns[id(choice)]] / MICROSECONDS

    def _matrix(self) -> Any:
        from scipy.sparse import csr_array

        data = [v for row in self.rows for v in row.values()]
        places = [j for row in self.rows for j in row]
        starts = np.cumsum([0, *map(len, self.rows)])
        return csr_array((data, places, starts), shape=(len(self.rows), len(self.costs)))

    def _columns(self, taken: Taken) -> np.ndarray:
        """A solution as the values of all columns."""
        made = np.zeros(len(self.costs))
        groups, solution = self.groups, list(taken.values())
        made[[self.columns[id(c)] for c in solution]] = 1.0
        sizes = [c.largest for c in solution]
        for x, dims in dict.fromkeys([ask for c in solution for ask in c.asks]):
            if (x, dims) in self.copies:
                price = groups.price(x.type.plain, taken[id(groups.of[x])].lies[x], dims)
                made[self.copies[x, dims][price]] = 1.0
                sizes.append(groups.nbytes(x.type.plain, dims))
        if self.largest is not None:
            made[self.largest] = max(sizes) / self.memory
        return made


def together(choice: LayoutChoice, axes: Sequence[str]) -> bool:
    """Whether a dimension is split along all axes or along none."""
    return all(not by or len(by) == len(axes) for dims in choice.key for by in dims)


def without(choice: LayoutChoice, axis: str) -> tuple:
    """A choice, apart from what it does along one axis."""
    return tuple([tuple([tuple([a for a in by if a != axis]) for by in dims])
                  for dims in choice.key])  # fmt: skip
