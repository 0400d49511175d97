"""Ops that wrap a value or a graph: calls, checkpoints, custom rules, identities."""

from pullback.ops.wrap import (  # noqa: F401  # isort: skip
    barriers, call, checkpoint, custom, debug_print, identity, kept, tied,
)  # fmt: skip
