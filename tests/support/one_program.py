"""Many small programs compiled as one: compiling each by itself would take minutes."""

from __future__ import annotations

import numpy as np

from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.graph.graph import Graph


class OneProgram:
    """Labelled graphs, each with the arrays it is run on, as one program of XLA's."""

    def __init__(self, cases):
        self.labels, graphs, arrays = zip(*cases, strict=True)
        self.graph = Graph(
            [x for g in graphs for x in g.inputs], [y for g in graphs for y in g.outputs]
        )
        self.arrays = [np.array(a, order="C") for given in arrays for a in given]
        self.want = [testing.run(g, given) for g, given in zip(graphs, arrays)]

    def run(self, compiled=None):
        """What XLA computes, by a program that was compiled before or one for this call."""
        xla = registered_engine("xla")
        args = [xla.put(a, x.type) for a, x in zip(self.arrays, self.graph.inputs, strict=True)]
        made = (compiled or xla.compile(self.graph)).run(args)
        return [np.asarray(xla.get(v)) for v in made[: len(self.graph.outputs)]]

    def check(self, got, scale=1.0):
        """The results have the types that were inferred and, within rounding, the values of the
        reference engine."""
        rest, types = iter(got), [y.type for y in self.graph.outputs]
        assert [(v.shape, v.dtype) for v in got] == [(t.shape, t.dtype.numpy) for t in types]
        for label, want in zip(self.labels, self.want, strict=True):
            for y in want:
                try:
                    testing.assert_close(next(rest), y, scale)
                except AssertionError as error:
                    raise AssertionError(f"{label}: {error}") from error
        assert not list(rest)
