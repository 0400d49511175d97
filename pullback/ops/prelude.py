"""What op modules are written with: the op classes, and the words of their rules."""

from pullback.graph.node import Node, constant, results
from pullback.graph.table import TABLE
from pullback.graph.types import Type
from pullback.ops.composite import Composite, Expandable
from pullback.ops.helpers import (
    Axis,
    batch_along,
    broadcast_shapes,
    broadcast_types,
    conjugate,
    counted,
    full,
    laid_out,
    ones,
    same_dtype,
    spread,
    spread_all,
    sum_to,
    zeros,
    zeros_like,
)
from pullback.ops.interpret import interpret
from pullback.ops.op import Op

__all__ = [
    "TABLE",
    "Axis",
    "Composite",
    "Expandable",
    "Node",
    "Op",
    "Type",
    "batch_along",
    "broadcast_shapes",
    "broadcast_types",
    "conjugate",
    "constant",
    "counted",
    "full",
    "interpret",
    "laid_out",
    "ones",
    "results",
    "same_dtype",
    "spread",
    "spread_all",
    "sum_to",
    "zeros",
    "zeros_like",
]  # fmt: skip
