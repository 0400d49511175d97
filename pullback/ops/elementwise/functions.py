"""Functions of nodes and numbers that formulas are written with."""

from __future__ import annotations

import numpy as np

from pullback.graph.dtypes import DType
from pullback.ops.helpers import op_functions
from pullback.ops.prelude import TABLE, Node

(where,) = op_functions("Where")
guarded, divided = op_functions("MulNoNan", "DivNoNan")
equal, not_equal = op_functions("Equal", "NotEqual")
less, greater = op_functions("Less", "Greater")
less_equal, greater_equal = op_functions("LessEqual", "GreaterEqual")
both, either, differ, negated = op_functions("LogicalAnd", "LogicalOr", "LogicalXor", "LogicalNot")


def cast(x: Node, dtype: DType) -> Node:
    """Convert x to a dtype, unless it has it."""
    return x if x.type.dtype is dtype else TABLE["Cast"](dtype)(x)


def nonzero_function(x: Node) -> Node:
    """Return a divisor: x, or infinity where x is 0, so that quotients and derivatives are 0."""
    return where(equal(x, 0), np.inf, x)
