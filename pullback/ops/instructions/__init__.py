"""StableHLO's own instructions as ops, where no op of the table is lowered to one as it stands.

Programs that come from StableHLO are made of them. Each means what StableHLO says: an index out
of range is moved until it fits, and nothing is checked.
"""

from pullback.ops.instructions import blocks, choice, direct, folds, windows

__all__ = ["blocks", "choice", "direct", "folds", "windows"]
