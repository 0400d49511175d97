"""Ops that stand for several others, because one kernel computes them faster."""

from pullback.ops.fused import attention  # noqa: F401
