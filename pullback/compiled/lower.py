"""Ahead of time: a compiled function's program as an object, before it is run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback import tree
from pullback.compiled.arguments import STATIC, sorted_out
from pullback.compiled.specialization import Version
from pullback.errors import ArgumentError, EngineError
from pullback.graph.graph import Graph
from pullback.graph.types import Type


@dataclass(frozen=True)
class Cost:
    """What running a program takes, by XLA's own account; sizes are in bytes.

    Results that are written into donated arguments do not count again.
    """

    flops: float
    bytes_accessed: float
    argument_bytes: int
    result_bytes: int
    temporary_bytes: int
    peak_bytes: int


class Lowered:
    """A program for one kind of arguments: to read, to cost, to save, and to compile."""

    def __init__(self, version: Version, call: Any, given: tuple = ()) -> None:
        self._version, self._call = version, call
        self._given = given  # the instance that a method belongs to

    @property
    def graph(self) -> Graph:
        """The program in pullback's IR: without dead code, repeated work and foldable constants."""
        return self._version.program.executed

    def text(self) -> str:
        """The program in pullback's IR."""
        return str(self.graph)

    def stablehlo(self) -> str:
        """The program as XLA gets it."""
        from pullback.engines.xla.builder import module

        return module(self.graph, donated=[place for _, place in self._version.program.donors])

    def cost(self) -> Cost:
        """What a run takes; compiles the program."""
        program = self._version.program.ready()
        if program.engine.name != "xla":
            raise EngineError(
                f"cost: the {program.engine.name} engine keeps no account of its programs",
                hint='Use pb.config(engine="xla").',
            )
        memory = program.compiled.memory()
        flops, traffic = program.compiled.work()
        return Cost(
            flops, traffic, memory.arguments, memory.results, memory.temporaries, memory.peak
        )

    def compile(self) -> AheadOfTime:
        """The program, ready to run on arguments of this kind alone."""
        self._version.program.ready()
        return AheadOfTime(self._version, self._call, self._given)

    def save(self, path: str | os.PathLike) -> None:
        """Write the program to a file that `pb.load_compiled` reads, in any later process."""
        from pullback.compiled.save import save

        save(self._version, self._call, path)

    def __str__(self) -> str:
        return self.text()


class AheadOfTime:
    """A program that was compiled ahead of time: it is never traced again."""

    def __init__(self, version: Version, call: Any, given: tuple) -> None:
        self._version, self._call, self._given = version, call, given

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        call = self._call
        args, kwargs, named = call.options.split((*self._given, *args), kwargs)
        leaves, in_tree = tree.flatten((args, kwargs))
        leaves, kinds = sorted_out(leaves)
        check(call.name, call.paths, (call.in_tree, call.kinds), (in_tree, kinds))
        if not self._version.expects([value for _, value in named], leaves):
            raise ArgumentError(
                f"{call.name}: a static argument has another value than it was compiled for",
            )
        return self._version.call(leaves)


def check(name: str, paths: Sequence[str], wanted: tuple, given: tuple) -> None:
    """Arguments of a program that is not traced again must be of its kind."""
    if wanted[0] != given[0]:
        raise ArgumentError(
            f"{name}: the arguments must have the tree {wanted[0]}, got {given[0]}",
        )
    for path, old, new in zip(paths, wanted[1], given[1]):
        if old != new and not (old is STATIC and new is STATIC):
            shown = old if isinstance(old, Type) else f"{old}"
            raise ArgumentError(
                f"{name}: {path} must be {shown}, got {new}",
                hint="The program was compiled ahead of time, for one kind of arguments.",
            )  # fmt: skip
