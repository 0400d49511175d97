"""Control flow: ops that hold graphs and run one of them, or run one repeatedly."""

from pullback.ops.control import cond, scan, while_loop

__all__ = ["cond", "scan", "while_loop"]
