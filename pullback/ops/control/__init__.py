"""Control flow: ops that hold graphs, and run one of them, or one again and again."""

from pullback.ops.control.choice import Cond, Switch
from pullback.ops.control.loop import While
from pullback.ops.control.scan import Scan

__all__ = ["Cond", "Scan", "Switch", "While"]
