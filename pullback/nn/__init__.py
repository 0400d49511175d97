"""Neural networks: functions, initialisers and keys for random layers.

They load at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pullback.graph.boundary import publish
from pullback.nn.keys import next_key, rng

if TYPE_CHECKING:
    from pullback.nn import functional, init

__all__ = ["functional", "init", "next_key", "rng"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a chapter at its first use."""
        return importlib.import_module(f"pullback.nn.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
