"""Group the reductions of a program, and what is computed beside them, into kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
)
from pullback.engines.xla.triton.row_terms import (
    RowTermPart,
    RowTermSpace,
    Term,
    is_row_term_reduction,
    is_sum_of_row_terms,
    row_term_space,
    term_leaves,
    term_operands,
)  # fmt: skip

RESIDENT = 16384  # the widest row that a kernel keeps in registers
LARGEST = 12  # arrays that a kernel reads and writes


@dataclass(eq=False)
class RowCluster:
    """What one kernel computes: arrays, numbers for each row, and sums of all rows."""

    space: RowTermSpace
    arrays: list[HloValue] = field(default_factory=list)
    by_row: list[HloValue] = field(default_factory=list)
    by_column: list[HloValue] = field(default_factory=list)
    loads: dict[Term, None] = field(default_factory=dict)
    overwrites: dict[HloValue, HloValue] = field(default_factory=dict)  # results and loads
    after: dict[HloValue, None] = field(default_factory=dict)  # values computed from those before

    @property
    def results(self) -> list[HloValue]:
        return [*self.arrays, *self.by_row, *self.by_column]

    @property
    def reduces(self) -> bool:
        return bool(self.by_row or self.by_column)

    @property
    def wide(self) -> bool:
        """Whether a row is too long for registers."""
        return self.space.width > RESIDENT

    @property
    def traffic(self) -> int:
        """The number of arrays that the kernel reads and writes."""
        return len(self.arrays) + sum([t.part is RowTermPart.ALL for t in self.loads])

    @property
    def operands(self) -> list[HloValue]:
        """What the kernel is called with; it does not read those that it only waits for."""
        return list(dict.fromkeys([*[t.value for t in self.loads], *self.after]))

    def stops(self, term: Term) -> bool:
        """Whether the kernel loads a term, or has it as a result of a reduction."""
        made = term.value.made_by
        return term in self.loads or (made is not None and made.name == "reduce")

    def computes(self, term: Term) -> bool:
        """Whether the kernel has a term while it works on the rows that it belongs to."""
        return term.value in (self.arrays if term.part is RowTermPart.ALL else self.by_row) and (
            term.part in (RowTermPart.ALL, RowTermPart.BY_ROW)
        )


class RowClusters:
    """The clusters of a block. They do not depend on each other in a circle."""

    def __init__(self, block: HloBlock) -> None:
        self.block = block
        self.users: dict[HloValue, list[HloInstruction]] = {}
        for i in block.instructions:
            for x in (*i.operands, *captured_by_hlo_instruction(i)):
                self.users.setdefault(x, []).append(i)
        self.outputs = set(block.results)
        self._epilogues: set[HloValue] = set()
        self._sums: set[HloValue] = set()
        self._stored: dict[HloValue, bool] = {}
        self.home: dict[HloValue, RowCluster] = {}
        self._before: dict[HloValue, frozenset[RowCluster]] = {}  # clusters a value depends on
        self._uses: dict[RowCluster, set[RowCluster]] = {}
        self._loading: dict[Term, dict[RowCluster, None]] = {}  # those that load a term
        self._find_stored()
        for i in block.instructions:
            self._place(i)

    @property
    def found(self) -> list[RowCluster]:
        """Those that combine elements: XLA fuses the others well."""
        return [c for c in dict.fromkeys(self.home.values()) if c.reduces]

    def stops(self, term: Term) -> bool:
        """Whether a kernel loads a term that it could compute: it is in memory anyway."""
        made = term.value.made_by
        if made is None or made.array is not None:
            return False
        stored = self._stored.get(term.value, True)  # values from outside of a loop are
        return made.name == "reduce" or (term.part is RowTermPart.ALL and stored)

    def _find_stored(self) -> None:
        """Find the arrays that are in memory: what others than kernels use, and sums with products
        of matrices. cuBLAS adds a row to all rows as it writes a product."""
        for i in self.block.instructions:
            if i.name == "add" and any(self._is_product(x) for x in i.operands):
                other = i.operands[self._is_product(i.operands[0])]
                own = self._epilogues if _repeats_row_in_cluster(other) else self._sums
                own.update(i.results)
        for i in reversed(self.block.instructions):
            for y in i.results:
                product = y in self._epilogues or y in self._sums
                self._stored[y] = product or self._used_elsewhere(y)

    def _is_product(self, x: HloValue) -> bool:
        while (made := x.made_by) is not None and made.name == "reshape":
            x = made.operands[0]
        if made is None or len(self.users.get(x, ())) > 1:
            return False
        return made.name == "dot_general" or x in self._epilogues

    def _used_elsewhere(self, y: HloValue) -> bool:
        if y in self.outputs or row_term_space(y) is None:
            return True
        return any(self._stores(user, y) for user in self.users.get(y, ()))

    def _stores(self, user: HloInstruction, y: HloValue) -> bool:
        """Whether an instruction needs an array in memory."""
        if (
            is_row_term_reduction(user)
            or is_sum_of_row_terms(user)
            or _reads_little_of_cluster(user, y)
        ):
            return False
        if len(user.results) != 1 or term_operands(Term(user.results[0], RowTermPart.ALL)) is None:
            return True
        (z,) = user.results
        return z in self._epilogues or (user.name == "reshape" and self._stored[z])

    def _place(self, i: HloInstruction) -> None:
        """Put an instruction's result into a cluster, if a kernel can compute it."""
        before: set[RowCluster] = set()
        for x in (*i.operands, *captured_by_hlo_instruction(i)):
            before |= self._before.get(x, frozenset())
        joined = self._joined(i)
        for y in i.results:
            self._before[y] = frozenset((joined,)) if joined else frozenset(before)

    def _joined(self, i: HloInstruction) -> RowCluster | None:
        by_row, by_column = is_row_term_reduction(i), is_sum_of_row_terms(i)
        if by_row or by_column:
            root = Term(i.operands[0], RowTermPart.ALL)
        else:
            if len(i.results) != 1 or i.name in ("reshape", "broadcast_in_dim", "iota"):
                return None
            root = Term(i.results[0], RowTermPart.ALL)
            if root.value in self._epilogues or not self._stored[root.value]:
                return None
        space = row_term_space(root.value)
        if space is None or (term_operands(root) is None and not (by_row or by_column)):
            return None
        loads = {root: None} if self._loaded(root, i) else term_leaves(root, self.stops)
        if loads is None:
            return None
        cluster = self._cluster_for(space, loads, by_row, by_column)
        if cluster is None:
            return None
        kind = cluster.by_row if by_row else cluster.by_column if by_column else cluster.arrays
        kind.append(i.results[0])
        self.home[i.results[0]] = cluster
        for term in loads:
            if not cluster.computes(term):
                cluster.loads[term] = None
                self._loading.setdefault(term, {})[cluster] = None
                self._uses[cluster] |= self._before.get(term.value, frozenset())
        return cluster

    def _loaded(self, root: Term, i: HloInstruction) -> bool:
        """Whether the operand of a reduction is in memory, or cannot be computed by a kernel."""
        if i.results[0] is root.value:
            return False
        return term_operands(root) is None or self.stops(root)

    def _cluster_for(
        self, space: RowTermSpace, loads: dict[Term, None], by_row: bool, by_column: bool
    ) -> RowCluster | None:
        """The cluster that shares most with a value that needs these loads; a new one if none."""
        wide = RowCluster(space).wide
        candidates: dict[RowCluster, int] = {}
        for t in loads:
            if (home := self.home.get(t.value)) is not None:
                candidates[home] = candidates.get(home, 0) + 2
        for t in loads:
            for c in self._loading.get(t, ()) if t.part is RowTermPart.ALL else ():
                candidates[c] = candidates.get(c, 0) + 1
        for c in sorted(candidates, key=lambda c: -candidates[c]):
            mixed = (by_column and c.by_row) or (by_row and c.by_column)
            if c.space != space or (wide and mixed) or c.traffic >= LARGEST:
                continue
            if not any(self._depends(t.value, c) for t in loads if not c.computes(t)):
                return c
        made = RowCluster(space)
        self._uses[made] = set()
        return made

    def _depends(self, x: HloValue, cluster: RowCluster) -> bool:
        """Whether a value depends on what a cluster computes."""
        seen: set[RowCluster] = set()
        stack = list(self._before.get(x, ()))
        while stack:
            c = stack.pop()
            if c is cluster:
                return True
            if c not in seen:
                seen.add(c)
                stack.extend(self._uses[c])
        return False


def _repeats_row_in_cluster(x: HloValue) -> bool:
    made = x.made_by
    if made is None or made.name != "broadcast_in_dim":
        return False
    return made["broadcast_dimensions"] == (len(x.shape) - 1,)


def _reads_little_of_cluster(user: HloInstruction, y: HloValue) -> bool:
    """Whether an instruction reads so few elements that XLA had better compute them again."""
    if user.name not in ("gather", "slice", "dynamic_slice") or user.operands[0] is not y:
        return False
    return 8 * user.results[0].type.size <= y.type.size
