"""Control flow: ops that hold graphs and run one of them, or run one repeatedly."""

from pullback.ops.control import cond, scan, while_loop  # noqa: F401
