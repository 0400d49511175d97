"""The reference engine: NumPy, one op after the other. It says what is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.engines.base import Check, ProgramBase
from pullback.engines.limits import refuse_too_large
from pullback.errors import OutOfMemory, PullbackError
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.ops.prelude import interpret


class ReferenceEngine:
    """Runs graphs by each op's NumPy meaning."""

    name = "reference"
    platform = "numpy"

    def put(self, array: np.ndarray, type: Type) -> np.ndarray:
        return array

    def get(self, value: np.ndarray) -> np.ndarray:
        return value

    def owns(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def give_back(self) -> None:
        """Python reuses what dropped programs took."""

    def owns_all(self, values: Sequence[Any]) -> bool:
        return all(map(self.owns, values))

    def copy(self, value: np.ndarray) -> np.ndarray:
        return value  # donating changes nothing here

    def compile(self, graph: Graph, donated: Sequence[int] = ()) -> ReferenceProgram:
        """A program; NumPy makes new arrays, so donated ones are left alone."""
        refuse_too_large(graph)
        return ReferenceProgram(graph)


class ReferenceProgram(ProgramBase):
    """A graph, ready to be interpreted."""

    checks: Sequence[Check] = ()  # a failed one raises at once
    origin = "compiler"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nbytes = 1024 * len(graph.nodes)  # about what nodes and their edges take
        super().__init__(graph)

    def run(self, args: list[np.ndarray]) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            made = interpret(self.graph, args)
        try:
            return [np.array(v, order="C") for v in made]
        except MemoryError:  # a view, of which there is a copy now
            raise OutOfMemory("there is not enough memory for the results") from None

    def run_apart(self, args: list[np.ndarray]) -> list[Any]:
        """Each output by itself; for one that fails, the error."""
        found: list[Any] = []
        for y in self.graph.outputs:
            try:
                found += ReferenceProgram(Graph(self.graph.inputs, [y])).run(args)
            except PullbackError as error:
                found.append(error)
        return found
