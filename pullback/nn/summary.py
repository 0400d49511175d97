"""Summaries of models: the layers of a call with their results, parameters and flops."""

from __future__ import annotations

import html
import io
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback import tree
from pullback.api.eval_shape import eval_shape
from pullback.graph.ambient import thread
from pullback.graph.graph import graph_ancestors
from pullback.graph.node import next_number
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.keys import rng
from pullback.nn.module import Module, observer
from pullback.nn.module_tensors import trainable
from pullback.nn.module_tree import STATE
from pullback.nn.module_walk import walk_named_submodules, walk_named_values
from pullback.ops.flops import node_flops
from pullback.random.keys import key

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = ("layer", "type", "output", "parameters", "flops")


class LayerRow(NamedTuple):
    """A layer in a summary; `output` is empty if it was not called."""

    name: str
    kind: str
    output: str
    parameters: int  # without those of layers in it
    flops: int  # its own operations in all calls
    calls: int


@dataclass(frozen=True, repr=False)
class Summary:
    """What `Module.summary` returns: rows of layers, and totals. It prints as a table."""

    rows: tuple[LayerRow, ...]
    parameters: int
    trainable: int
    flops: int

    def __str__(self) -> str:
        from rich.console import Console  # heavy

        out = io.StringIO()
        console = Console(file=out, width=200, color_system=None, highlight=False, markup=False)
        console.print(self.__rich__())
        lines = [line[1:].rstrip() for line in out.getvalue().splitlines()]
        return "\n".join([line for line in lines if line])

    __repr__ = __str__

    def __rich__(self) -> Table:
        from rich.box import SIMPLE_HEAD  # heavy
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True)
        for name, last in zip(_COLUMNS, self._totals()):
            justify: Any = "right" if name in ("parameters", "flops") else "left"
            table.add_column(name, last, justify=justify, no_wrap=True)
        for row in self.rows:
            table.add_row(*_summary_cells(row))
        return table

    def _totals(self) -> tuple[str, ...]:
        fixed = self.parameters - self.trainable
        frozen = f"{fixed:,} frozen" if fixed else ""
        return "total", "", frozen, f"{self.parameters:,}", f"{self.flops:,}"

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        body = [
            _summary_html_row("th", _COLUMNS),
            *[_summary_html_row("td", _summary_cells(r)) for r in self.rows],
        ]
        return f"<table>{''.join(body)}{_summary_html_row('th', self._totals())}</table>"


def _summary_cells(row: LayerRow) -> tuple[str, ...]:
    output = f"{row.output} (last of {row.calls} calls)" if row.calls > 1 else row.output
    return row.name or "(model)", row.kind, output, f"{row.parameters:,}", f"{row.flops:,}"


def _summary_html_row(tag: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join([f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells])}</tr>"


class _SummaryCalls:
    """The calls of modules in a run on placeholders."""

    def __init__(self) -> None:
        self.outputs: dict[int, str] = {}
        self.counts: dict[int, int] = {}
        self.inside: list[int] = [0]  # the modules that are being called
        # From the node with a number on, ops belong to a module
        self.starts: list[int] = []
        self.owners: list[int] = []

    def enter(self, owner: int) -> None:
        self.starts.append(next_number())
        self.owners.append(owner)

    def __call__(
        self, module: Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        own = id(module)
        self.enter(own)
        self.inside.append(own)
        try:
            result = forward(*args, **kwargs)
        finally:
            self.inside.pop()
            self.enter(self.inside[-1])
        self.counts[own] = self.counts.get(own, 0) + 1
        self.outputs[own] = _summary_types(result)
        return result

    def flops(self, results: Any) -> dict[int, int]:
        """Return the operations of each module among those that results and state depend on."""
        first = self.starts[0]
        nodes = [as_tensor(x)._node for x in tree.leaves(results) if isinstance(x, Tensor)]
        if thread.state_writes is not None:
            nodes += [state._node for state in thread.state_writes.before]
        found: dict[int, int] = {}
        for node in graph_ancestors(nodes, lambda n: n.number < first):
            place = bisect_right(self.starts, node.number) - 1
            if place >= 0:
                owner = self.owners[place]
                found[owner] = found.get(owner, 0) + node_flops(node)
        return found


def _summary_types(result: Any) -> str:
    types = [str(x._node.type) for x in tree.leaves(result) if isinstance(x, Tensor)]
    return ", ".join(types)


def summarize(model: Module, args: tuple, kwargs: dict[str, Any]) -> Summary:
    """Run a model on placeholders, and return what its layers do."""
    calls = _SummaryCalls()
    flops: dict[int, int] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        with rng(key(0)):  # so that the default stream of keys is left alone
            calls.enter(0)
            token = observer.set(calls)
            try:
                result = model(*args, **kwargs)
            finally:
                observer.reset(token)
            flops.update(calls.flops(result))
        return result

    eval_shape(run, *args, **kwargs)
    rows, counted = [], set[int]()
    for name, module in walk_named_submodules(model):
        own, state = id(module), vars(module).get(STATE, ())
        tensors = [
            v for n, v in walk_named_values(module) if isinstance(v, Tensor) and n not in state
        ]
        mine = [t for t in tensors if t.dtype.is_inexact and id(t) not in counted]
        counted.update(map(id, mine))
        output, count = calls.outputs.get(own, ""), calls.counts.get(own, 0)
        size = sum(t.size for t in mine)
        rows.append(LayerRow(name, type(module).__name__, output, size, flops.get(own, 0), count))
    trained = sum({id(t): t.size for t in trainable(model).values()}.values())
    return Summary(tuple(rows), model.num_parameters(), trained, sum(flops.values()))
