"""Ops that wrap a value or a graph: calls, checkpoints, custom rules, identities."""

from pullback.ops.wrap import call, checkpoint, custom, debug_print, identity  # noqa: F401
