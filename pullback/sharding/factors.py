"""Factor rules: which dimensions of operands and results are the same index of a computation.

A rule is written like an einsum, `"m k, k n -> m n"`, with one word per dimension:

    m       the factor m; a factor that no result has is contracted
    _       a dimension that must be whole on every device
    1       a dimension of size 1, along which the operand broadcasts
    (a b)   a dimension that combines several factors, major first
    a=2     a factor of known size, which occurs only in such combined dimensions
    ...     all remaining dimensions, which broadcast as in NumPy
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pullback.errors import VerificationError
from pullback.graph.memo import remember
from pullback.graph.types import Type

Side = tuple[tuple[tuple[str, ...], ...], ...]  # the factors of each dimension of each value
_WORD = re.compile(r"\s*(?:(\.\.\.)|\(([\w\s=]*)\)|(\w+))")
_STATED = re.compile(r"(\w+)=(\d+)")
_FORMS: dict[tuple, FactorForm] = {}


class FactorForm:
    """A rule for given ranks and any sizes: the factors of every dimension.

    `major` factors come first in combined dimensions: they are split evenly or not at all. The
    other factors there, `minor`, are never split. `places` numbers the factors of results; factors
    that no result has are `contracted`.
    """

    def __init__(self, text: str, operands: Side, results: Side) -> None:
        self.text, self.operands, self.results = text, operands, results
        values = enumerate((*operands, *results))
        dims = [(factors, i, d) for i, dims in values for d, factors in enumerate(dims)]
        self._single = [(fs[0], i, d) for fs, i, d in dims if len(fs) == 1]
        self._several = [dim for dim in dims if len(dim[0]) > 1]
        self._stated = {f: int(n) for f, n in _STATED.findall(text)}
        inside = [factors for factors, _, _ in self._several]
        single = [f for f, _, _ in self._single]
        self.names = tuple(dict.fromkeys(single + [f for factors in inside for f in factors]))
        self.major = tuple(dict.fromkeys([factors[0] for factors in inside]))
        self.minor = {f for factors in inside for f in factors[1:]}
        self.places = {f: i for i, f in enumerate(f for r in results for dim in r for f in dim)}
        self.contracted = [f for f in self.names if f not in self.places]

    def extents(self, types: Sequence[Type]) -> dict[str, int]:
        """Return the size of each factor, for operands and results of the given types."""
        found = dict(self._stated)
        for factor, i, d in self._single:
            n = types[i].shape[d]
            if found.setdefault(factor, n) != n:
                what = f"factor {factor!r} is {found[factor]} and {n}"
                raise VerificationError(f"{what} in {self.text!r}")
        if len(found) < len(self.names):
            self._solve(types, found)
        for factors, i, d in self._several:
            n = types[i].shape[d]
            if math.prod([found.get(f, -1) for f in factors]) != n:
                raise VerificationError(f"{' '.join(factors)} does not make {n} in {self.text!r}")
        return found

    def _solve(self, types: Sequence[Type], extents: dict[str, int]) -> None:
        """Add the sizes of factors that occur only in combined dimensions."""
        for factors, i, d in self._several * len(
            self._several
        ):  # one may provide what another lacks
            n = types[i].shape[d]
            missing = [f for f in factors if f not in extents]
            known = math.prod([extents.get(f, 1) for f in factors])
            if len(missing) == 1 and known and n % known == 0:
                extents[missing[0]] = n // known


@dataclass(frozen=True)
class SizedFactors:
    """A form with the size of each factor."""

    form: FactorForm
    extents: dict[str, int]

    @property
    def operands(self) -> Side:
        return self.form.operands

    @property
    def results(self) -> Side:
        return self.form.results

    @property
    def contracted(self) -> list[str]:
        return self.form.contracted


@lru_cache(maxsize=1024)
def parse_factors(text: str) -> tuple[tuple, tuple]:
    """Return the words of operands and results: a name, `...`, or a tuple of names."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise VerificationError(f"a factor rule must contain '->', got {text!r}")
    return _factor_values(left, text), _factor_values(right, text)


def _factor_values(side: str, text: str) -> tuple:
    return tuple([_parse_factor_words(v, text) for v in side.split(",")])


def _parse_factor_words(value: str, text: str) -> tuple:
    words: list = []
    at = 0
    while value[at:].strip():
        found = _WORD.match(value, at)
        if found is None:
            raise VerificationError(
                f"cannot parse {value[at:].strip()!r} in the factor rule {text!r}"
            )
        rest, compound, name = found.groups()
        words.append(rest or name or tuple(_STATED.sub(r"\1", compound).split()))
        at = found.end()
    return tuple(words)


def instantiate_factors(text: str, xs: Sequence[Type], ys: Sequence[Type]) -> SizedFactors:
    """Return the rule for operands and results of the given types."""
    found = form_of_factors(text, xs, ys)
    return SizedFactors(found, found.extents((*xs, *ys)))


def form_of_factors(text: str, xs: Sequence[Type], ys: Sequence[Type]) -> FactorForm:
    """Return the form of a rule, shared by all types with equal ranks and equal positions of 1s."""
    key = text, len(xs), *[_unit_factor_dims(t) if 1 in t.shape else t.rank for t in (*xs, *ys)]
    found = _FORMS.get(key)
    if found is None:
        found = remember(_FORMS, key, _factor_form(text, xs, ys), bound=4096)
    return found


def _unit_factor_dims(t: Type) -> tuple[bool, ...]:
    return tuple([n == 1 for n in t.shape])


def _factor_form(text: str, xs: Sequence[Type], ys: Sequence[Type]) -> FactorForm:
    left, right = parse_factors(text)
    left = left if xs else ()  # an empty side also means one operand of rank 0
    if len(left) != len(xs) or len(right) != len(ys):
        raise VerificationError(
            f"the factor rule {text!r} has {len(left)} operands and {len(right)} results, "
            f"the op has {len(xs)} and {len(ys)}"
        )
    operands = tuple([_dims_of_factors(w, t, text) for w, t in zip(left, xs, strict=True)])
    results = tuple([_dims_of_factors(w, t, text) for w, t in zip(right, ys, strict=True)])
    return FactorForm(text, operands, results)


def _dims_of_factors(words: tuple, type: Type, text: str) -> tuple:
    """Return the factors of each dimension; those of `...` are numbered from the last."""
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
