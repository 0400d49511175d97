"""Ops that users define: applying them to tensors, and finding other ops for their rules."""

from __future__ import annotations

import difflib
from typing import Any

from pullback.api.signatures import ArrayLike
from pullback.errors import ArgumentError
from pullback.graph.op_table import TABLE
from pullback.lazy.operators import as_tensor, node_of, operator_operands
from pullback.lazy.record import record, record_result_handles
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.prelude import Op


def apply(op: Op, *xs: ArrayLike) -> Any:
    """Apply an op to tensors; return a tensor, or a tuple of tensors for several results.

    Operands of an elementwise op are promoted to a common dtype, as those of `+` are.

    >>> class Doubled(pb.Elementwise):
    ...     "Twice the operand."
    ...     def numpy(self, x):
    ...         return x + x
    ...     def expand(self, x):
    ...         return x + x
    ...     def partials(self, out, x):
    ...         return (2,)
    >>> pb.apply(Doubled(), pb.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    >>> pb.grad(lambda x: pb.apply(Doubled(), x))(pb.tensor(1.0)).item()
    2.0
    """
    if not isinstance(op, Op):
        made = isinstance(op, type) and issubclass(op, Op)
        raise ArgumentError(
            f"apply: op must be an op, got {op.__name__ if made else type(op).__name__}",  # type: ignore[attr-defined]
            hint="Make an instance of the class: pb.apply(Scale(3), x)." if made else None,
        )
    promoted = isinstance(op, Elementwise) and bool(xs)
    nodes = operator_operands(*xs) if promoted else [node_of(as_tensor(x)) for x in xs]
    made = record(op, tuple(nodes))
    return record_result_handles(made._node) if isinstance(made._node.type, tuple) else made


def op(name: str, *parameters: Any) -> Op:
    """Return the op called `name` with these parameters, to write rules with.

    >>> pb.op("Sum", (0,), False)
    Sum(axes=(0,), keepdims=False)
    """
    found = TABLE.get(name)
    if found is None:
        near = difflib.get_close_matches(str(name), TABLE, 1)
        message = f"op: there is no op {name!r}"
        raise ArgumentError(message, hint=f"Did you mean {near[0]!r}?" if near else None)
    return found(*parameters)
