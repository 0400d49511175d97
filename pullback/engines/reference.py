"""The reference engine: NumPy, one op after the other. It defines the correct results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.engines.choices import USUAL, CodeChoices
from pullback.engines.limits import refuse_beyond_limits
from pullback.engines.protocols import Check, ProgramBase
from pullback.engines.virtual_devices import cpu_device_count
from pullback.errors import OutOfMemory, PullbackError
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.ops.prelude import interpret


class ReferenceEngine:
    """Runs graphs with the NumPy rule of each op."""

    name = "reference"
    platform = "numpy"
    overwrites = False

    def __init__(self) -> None:
        self.local_devices = tuple(range(cpu_device_count()))

    def put(self, array: np.ndarray, type: Type) -> np.ndarray:
        return array

    def get(self, value: np.ndarray) -> np.ndarray:
        return value

    def owns(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def made(self, values: Sequence[Any]) -> list[bool]:
        return [False for _ in values]  # NumPy's views share memory

    def give_back(self) -> None:
        """Do nothing: Python reuses the memory."""

    def owns_all(self, values: Sequence[Any]) -> bool:
        return all(map(self.owns, values))

    def copy(self, value: np.ndarray) -> np.ndarray:
        return value  # donating changes nothing here

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> ReferenceProgram:
        """Return a program. NumPy allocates all results, so donation has no effect."""
        refuse_beyond_limits(graph)
        return ReferenceProgram(graph)

    compile_profiled = compile  # there is no profiler


class ReferenceProgram(ProgramBase):
    """A graph to interpret."""

    checks: Sequence[Check] = ()  # a failed one raises at once
    origin = "compiler"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nbytes = 1024 * len(graph.nodes)  # a rough estimate
        super().__init__(graph)

    def run(self, args: list[np.ndarray]) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            values = interpret(self.graph, args)
        try:
            return [np.array(v, order="C") for v in values]
        except MemoryError:  # while a view is copied
            raise OutOfMemory("there is not enough memory for the results") from None

    def run_apart(self, args: list[np.ndarray]) -> list[Any]:
        """Compute each output by itself; return the error for one that fails."""
        found: list[Any] = []
        for y in self.graph.outputs:
            try:
                found += ReferenceProgram(Graph(self.graph.inputs, [y])).run(args)
            except PullbackError as error:
                found.append(error)
        return found
