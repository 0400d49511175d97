"""Write graphs as StableHLO: lowered, in the normal form, as text or portable bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, overload

from pullback.engines.xla import mlir
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.hlo_instructions import HloBlock, HloValue, normal_hlo_instructions
from pullback.engines.xla.hlo_printer import print_hlo_module, print_hlo_quoted, print_hlo_type
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.graph import Graph
from pullback.static.module import IRModule, require_static_module


class UncheckedStableHloWriter(Builder):
    """Leaves out run-time checks, which StableHLO cannot express."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0  # how many checks were left out

    def check(self, holds: HloValue, error: Callable[[], Any]) -> None:
        self.asked += 1


@overload
def to_stablehlo(program: IRModule | Graph, portable: Literal[False] = False) -> str: ...
@overload
def to_stablehlo(program: IRModule | Graph, portable: Literal[True]) -> bytes: ...
@overload
def to_stablehlo(program: IRModule | Graph, portable: bool) -> str | bytes: ...
@with_argument_checks
def to_stablehlo(program: IRModule | Graph, portable: bool = False) -> str | bytes:
    """A module or graph as a StableHLO program with one function, `main`.

    The result is text; with `portable`, it is bytes in StableHLO's portable form, which later
    versions of StableHLO can read. Inputs keep their names, as the locations of `main`'s
    arguments, and outputs their order. There are no run-time checks: indices are clamped.

    >>> import pullback as pb
    >>> trace = pb.trace(lambda x: pb.sin(x) + x, pb.tensor([1.0, 2.0]))
    >>> print(pb.ir.to_stablehlo(trace.graph).rstrip())
    module @pullback {
      func.func public @main(%arg0: tensor<2xf32> loc("x")) -> tensor<2xf32> {
        %0 = stablehlo.sine %arg0 : tensor<2xf32>
        %1 = stablehlo.add %0, %arg0 : tensor<2xf32>
        return %1 : tensor<2xf32>
      }
    }
    """
    if not isinstance(program, Graph):
        program = require_static_module("to_stablehlo", program).graph
    main = written_stablehlo(program, UncheckedStableHloWriter())
    # Portable bytes hold locations: names for arguments, and nothing that depends on the text.
    names = [f" loc({'unknown' if n is None else print_hlo_quoted(n)})" for n in main.names]
    text = print_hlo_module(main, names, location=" loc(unknown)")
    return (
        mlir.portable_mlir(text)
        if portable
        else _write_stablehlo_names(mlir.pretty_mlir(text), main)
    )


def written_stablehlo(graph: Graph, builder: UncheckedStableHloWriter) -> HloBlock:
    """A graph's StableHLO in the normal form."""
    # MLIR reads the text, because instructions are compared with others that it has read.
    return normal_hlo_instructions(
        replace(mlir.read_mlir(build_xla_module(graph, builder)), names=graph.names)
    )


def _write_stablehlo_names(text: str, main: HloBlock) -> str:
    """Add the names of the arguments to MLIR's text, which omits all locations."""
    plain = [f"%arg{i}: {print_hlo_type(t)}" for i, t in enumerate(main.types)]
    named = [
        f"{a} loc({print_hlo_quoted(n or f'x{i}')})"
        for i, (a, n) in enumerate(zip(plain, main.names))
    ]
    head = "func.func public @main("
    return text.replace(head + ", ".join(plain), head + ", ".join(named), 1)
