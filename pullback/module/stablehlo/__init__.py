"""StableHLO: modules written as it, and read from it."""

from pullback.module.stablehlo.export import to_stablehlo
from pullback.module.stablehlo.reading import from_stablehlo

__all__ = ["from_stablehlo", "to_stablehlo"]
