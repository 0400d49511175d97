"""StableHLO: modules written as it, and read from it."""

from pullback.interop.stablehlo.reader import from_stablehlo
from pullback.interop.stablehlo.writer import to_stablehlo

__all__ = ["from_stablehlo", "to_stablehlo"]
