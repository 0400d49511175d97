"""Graphs as StableHLO: lowered, brought into the normal form, printed or serialised."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pullback.engines.xla import mlir
from pullback.engines.xla.builder import Builder, HloValue, mlir_type, module
from pullback.engines.xla.instructions import Block, normal, quoted, written
from pullback.graph.graph import Graph
from pullback.static.module import require_module


class Unchecked(Builder):
    """Writes programs without run-time checks, which StableHLO has no words for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0  # how many checks were left out

    def check(self, holds: HloValue, error: Callable[[], Any]) -> None:
        self.asked += 1


def to_stablehlo(program: Any, portable: bool = False) -> str | bytes:
    """A module or graph as a StableHLO program with one function, `main`.

    It is text, or with `portable` bytes in StableHLO's portable form, which later versions of
    it read. Inputs keep their names, as the locations of `main`'s arguments, and outputs their
    order. Checks at run time are left out: there, an index out of range is moved until it fits.

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
        program = require_module("to_stablehlo", program).graph
    block = lowered(program)
    text = written(block)
    return mlir.portable(text) if portable else _named(mlir.pretty(text), block)


def lowered(graph: Graph, builder: Builder | None = None) -> Block:
    """A graph's StableHLO in the normal form."""
    block = mlir.read(module(graph, builder or Unchecked()))
    return normal(dataclasses.replace(block, names=graph.names))


def _named(text: str, block: Block) -> str:
    """MLIR's print with the names of the arguments, which it leaves out with all locations."""
    plain = [f"%arg{i}: {mlir_type(t)}" for i, t in enumerate(block.types)]
    named = [f"{a} loc({quoted(n or f'x{i}')})" for i, (a, n) in enumerate(zip(plain, block.names))]
    head = "func.func public @main("
    return text.replace(head + ", ".join(plain), head + ", ".join(named), 1)
