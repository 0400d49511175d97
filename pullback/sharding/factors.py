"""Factor rules: which dimensions of operands and results are the same index of a computation.

A rule is written like an einsum: `"m k, k n -> m n"`. A word stands for one dimension:

    m       the factor m; a factor that no result has is contracted
    _       a dimension that must be whole on every device
    1       a dimension of extent 1, along which the operand repeats
    (a b)   a dimension that runs over several factors, the major one first
    ...     all remaining dimensions, which broadcast as in NumPy
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pullback.ir.errors import VerificationError
from pullback.ir.types import Type

Side = tuple[tuple[tuple[str, ...], ...], ...]  # the factors of each dimension of each value
_WORD = re.compile(r"\s*(?:(\.\.\.)|\(([\w\s]*)\)|(\w+))")


@dataclass(frozen=True)
class Rule:
    """A rule for given ranks: the factors of every dimension, and how far each runs."""

    operands: Side
    results: Side
    extents: dict[str, int]

    @property
    def contracted(self) -> list[str]:
        """The factors that no result has, in their order."""
        kept = {f for result in self.results for dim in result for f in dim}
        return [f for f in self.extents if f not in kept]


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[tuple, tuple]:
    """The words of operands and of results: a name, `...`, or a tuple for a compound."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise VerificationError(f"a factor rule needs an arrow, got {text!r}")
    return _values(left, text), _values(right, text)


def _values(side: str, text: str) -> tuple:
    return tuple([_words(v, text) for v in side.split(",")])


def _words(value: str, text: str) -> tuple:
    words: list = []
    at = 0
    while value[at:].strip():
        found = _WORD.match(value, at)
        if found is None:
            raise VerificationError(f"{value[at:].strip()!r} in a factor rule, in {text!r}")
        rest, compound, name = found.groups()
        words.append(rest or name or tuple(compound.split()))
        at = found.end()
    return tuple(words)


def instantiate(text: str, xs: Sequence[Type], ys: Sequence[Type]) -> Rule:
    """A rule for operands and results of the given types."""
    left, right = parse(text)
    left = left if xs else ()  # no words are also those of one operand of rank 0
    if len(left) != len(xs) or len(right) != len(ys):
        raise VerificationError(
            f"the factor rule {text!r} is for {len(left)} operands and {len(right)} results, "
            f"there are {len(xs)} and {len(ys)}"
        )
    operands = tuple([_dims(w, t, text) for w, t in zip(left, xs, strict=True)])
    results = tuple([_dims(w, t, text) for w, t in zip(right, ys, strict=True)])
    extents: dict[str, int] = {}
    pairs = list(zip((*operands, *results), (*xs, *ys), strict=True))
    for dims, t in pairs:
        for factors, n in zip(dims, t.shape, strict=True):
            if len(factors) == 1 and extents.setdefault(factors[0], n) != n:
                what = f"factor {factors[0]!r} is {extents[factors[0]]} and {n}"
                raise VerificationError(f"{what} in {text!r}")
    several = [(f, n) for dims, t in pairs for f, n in zip(dims, t.shape) if len(f) > 1]
    for _ in several:  # what one tells may be what another lacks
        for factors, n in several:
            _solve(factors, n, extents)
    for factors, n in several:
        if math.prod([extents.get(f, -1) for f in factors]) != n:
            raise VerificationError(f"{' '.join(factors)} does not make {n} in {text!r}")
    return Rule(operands, results, extents)


def _dims(words: tuple, type: Type, text: str) -> tuple:
    """The factors of each dimension; what `...` stands for is numbered from the last."""
    count = type.rank - (len(words) - ("..." in words))
    if count < 0 or (count and "..." not in words):
        raise VerificationError(f"the factor rule {text!r} does not fit a value of type {type}")
    made: list[tuple[str, ...]] = []
    for word in words:
        if word == "...":
            at = len(made)
            shape = type.shape[at : at + count]
            made += [(f"...{count - i}",) if n != 1 else () for i, n in enumerate(shape)]
        elif isinstance(word, tuple):
            made.append(word)
        else:
            made.append(() if word in ("_", "1") else (word,))
    return tuple(made)


def _solve(factors: tuple[str, ...], n: int, extents: dict[str, int]) -> None:
    """The extent of the one factor of a dimension that no other dimension tells."""
    known = math.prod([extents.get(f, 1) for f in factors])
    missing = [f for f in factors if f not in extents]
    if len(missing) == 1 and known and n % known == 0:
        extents[missing[0]] = n // known
