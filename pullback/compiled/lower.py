"""Lowering: the program of a compiled function as an object, before it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from pullback import tree
from pullback.compiled.arguments import classify_arguments
from pullback.compiled.saved_program import save
from pullback.compiled.specialization import Specialization
from pullback.engines.mesh import mesh_for_engine, per_mesh_device
from pullback.errors import ArgumentError, EngineError
from pullback.graph.boundary import boundary_methods
from pullback.graph.graph import Graph
from pullback.graph.html import html_program
from pullback.graph.types import show_types_apart
from pullback.ops.flops import graph_flops

if TYPE_CHECKING:
    from pullback.compiled.function import CompiledFunctionCall
    from pullback.compiled.signature import PrivateKey

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """The cost of running a program, on each device; sizes are in bytes.

    `flops` counts the arithmetic operations of its ops: products and convolutions exactly, others
    one for each element. The rest is what XLA says: results that are written into donated arguments
    do not count, and traffic is that of the program without pullback's own kernels, of which XLA
    knows nothing, nor does it know what products on GPUs read.
    """

    flops: int
    bytes_accessed: float
    argument_bytes: int
    result_bytes: int
    temporary_bytes: int
    peak_bytes: int


@boundary_methods
class Lowered(Generic[Parameters, Result]):
    """The program for one kind of arguments, to print, save and compile."""

    def __init__(
        self, specialization: Specialization, call: CompiledFunctionCall, given: tuple = ()
    ) -> None:
        self._specialization, self._call = specialization, call
        self._given = given  # the instance of a method

    @property
    def graph(self) -> Graph:
        """The program in pullback's IR, after simplification."""
        return self._specialization.program.executed

    def text(self) -> str:
        """Return the program in pullback's IR."""
        return str(self.graph)

    def stablehlo(self) -> str:
        """Return the StableHLO module that XLA compiles: on a mesh, the program of one device."""
        # keeps `import pullback` light
        from pullback.engines.xla.builder import Builder, build_xla_module

        graph, donors = self.graph, self._specialization.program.donors
        mesh = mesh_for_engine([n.type for n in (*graph.outputs, *graph.inputs)])
        if mesh is not None:
            graph = per_mesh_device(graph, mesh).graph
        return build_xla_module(graph, Builder(mesh), [place for _, place in donors])

    def cost(self) -> Cost:
        """Compile the program and return the cost of a run."""
        program = self._specialization.program.ready()
        if program.engine.name != "xla":
            what = f"the {program.engine.name} engine does not know the cost of its programs"
            raise EngineError(f"cost: {what}", hint='Use pb.config(engine="xla").')
        memory = program.compiled.memory()
        donated = [place for _, place in program.donors]
        choices = program.mode.choices._replace(kernels=False)
        plain = program.engine.compile(program.executed, donated, choices)
        flops = graph_flops(getattr(plain, "local", program.executed))
        sizes = (memory.arguments, memory.results, memory.temporaries, memory.peak)
        return Cost(flops, plain.traffic(), *sizes)

    def compile(self) -> LoweredProgram[Parameters, Result]:
        """Compile the program, which then takes arguments of this kind only."""
        self._specialization.program.ready()
        return LoweredProgram(self._specialization, self._call, self._given)

    def save(self, path: str | os.PathLike, key: PrivateKey | None = None) -> None:
        """Write the program to a file for `pb.load_compiled`, also in another process.

        `key`, an Ed25519 private key of the package cryptography, signs the file.
        """
        save(self._specialization, self._call.options, path, key)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<lowered {self._call.name}: {self.graph.summary}>"

    def _repr_html_(self) -> str:
        return html_program(f"Lowered {self._call.name}: {self.graph.summary}", self.text())


@boundary_methods
class LoweredProgram(Generic[Parameters, Result]):
    """A program that was compiled ahead of time and is never traced again."""

    def __init__(
        self, specialization: Specialization, call: CompiledFunctionCall, given: tuple
    ) -> None:
        self._specialization, self._call, self._given = specialization, call, given

    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        call = self._call
        inputs, named_inputs, static = call.options.split((*self._given, *args), kwargs)
        leaves, in_tree = tree.flatten((inputs, named_inputs))
        leaves, kinds = classify_arguments(leaves)
        check_lowered_arguments(call.name, call.paths, (call.in_tree, call.kinds), (in_tree, kinds))
        if not self._specialization.expects([value for _, value in static], leaves):
            what = "static arguments must have the values of the lowered program"
            raise ArgumentError(f"{call.name}: {what}")
        return self._specialization.call(leaves)

    def save(self, path: str | os.PathLike, key: PrivateKey | None = None) -> None:
        """Write the program to a file, as `Lowered.save` does."""
        save(self._specialization, self._call.options, path, key)

    def __repr__(self) -> str:
        return f"<program {self._call.name}: {self._specialization.program.executed.summary}>"

    def _repr_html_(self) -> str:
        graph = self._specialization.program.executed
        return html_program(f"Program {self._call.name}: {graph.summary}", str(graph))


def check_lowered_arguments(name: str, paths: Sequence[str], wanted: tuple, given: tuple) -> None:
    """Raise unless arguments have the tree and kinds that a program was compiled for."""
    if wanted[0] != given[0]:
        trees = (
            f"the tree {tree.show_tree_structure(wanted[0])}, "
            f"got {tree.show_tree_structure(given[0])}"
        )
        raise ArgumentError(f"{name}: the arguments must have {trees}")
    for path, old, new in zip(paths, wanted[1], given[1]):
        if old != new:
            hint = "The program was compiled ahead of time, for one kind of arguments."
            wanted_kind, kind = show_types_apart(old, new)
            raise ArgumentError(f"{name}: {path} must be {wanted_kind}, got {kind}", hint=hint)
