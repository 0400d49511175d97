"""What op modules import: the op classes, and helpers for writing rules."""

# ruff: noqa: F401

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
