"""Telling zeros that a transform wrote."""

from __future__ import annotations

from pullback.ir.node import Node


def is_zero(x: Node) -> bool:
    """Whether a value is a constant 0, possibly spread over a shape: no derivative comes from it."""
    while x.op.name in ("Broadcast", "PVary"):
        x = x.inputs[0]
    return x.op.name == "Const" and not any(x.op.data)  # type: ignore[attr-defined]
