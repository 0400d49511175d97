"""What a text states and Python has no literal for: bare words, ranges, pairs, NaN bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word: `Same`, `f32`."""

    name: str


@dataclass(frozen=True, slots=True)
class Applied:
    """A word applied to values: `Custom([[1, 1], [0, 0]])`, `Sum([0], false)`."""

    name: str
    arguments: tuple = ()
    keys: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """`start:stop:step`."""

    start: int
    stop: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Nan:
    """A NaN of other bits than the usual one's: `nan(0x7fc00001)`."""

    bits: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex number, `(1.0, -2.5)`."""

    real: Any
    imag: Any
