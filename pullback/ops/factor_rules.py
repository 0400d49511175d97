"""Helpers for writing factor rules, which `pullback.sharding.factors` defines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache


def factor_rule_names(rank: int, whole: Iterable[int] = (), letter: str = "d") -> list[str]:
    """Name a factor for each of `rank` dimensions, except those that must be whole."""
    kept = set(whole)
    return ["_" if i in kept else f"{letter}{i}" for i in range(rank)]


def factor_rule(operands: Iterable[Iterable[str]], results: Iterable[Iterable[str]]) -> str:
    """Return the rule with these factors for each dimension of operands and results."""
    return f"{', '.join(map(' '.join, operands))} -> {', '.join(map(' '.join, results))}"


def fixed_factor_rule(text: str) -> Callable[..., str]:
    """Return the `factors` of an op that has the same rule for all operands."""
    return lambda op, *xs: text


@lru_cache(maxsize=1024)  # the same few are asked for at every op
def alike_factor_rule(
    rank: int, whole: tuple[int, ...], operands: int = 1, results: int = 1
) -> str:
    """Return the rule of an op that keeps all dimensions, some of which must be whole."""
    words = factor_rule_names(rank, whole)
    return factor_rule([words] * operands, [words] * results)


def indexed_factors(
    rank: int, index_rank: int, dims: Sequence[int], batched: int = 0, before: int = 0
) -> tuple[list[str], list[str], list[str]]:
    """Return the factors of a value, of arrays that index its dimensions `dims`, and of the
    elements there (in the order of `pullback.ops.index.bounds`)."""
    value = factor_rule_names(rank, dims)
    index = [*value[:batched], *[f"i{k}" for k in range(batched, index_rank)]]
    rest = [w for i, w in enumerate(value) if i >= batched and i not in dims]
    there = [*value[:batched], *rest[:before], *index[batched:], *rest[before:]]
    return value, index, there


def reshape_factor_rule(old: Sequence[int], new: Sequence[int]) -> str:
    """Return the rule of a reshape. Dimensions are grouped until both sides have equally many
    elements. If both sides of a group have several dimensions, they share factors only in the first
    ones."""
    groups: list[tuple[int, ...]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        i_end, j_end = _factor_rule_group(old, new, i, j)
        several = i_end > i + 1 and j_end > j + 1
        first = (old[i], new[j]) if several else ()
        groups.append((i_end - i, j_end - j, *first))
        i, j = i_end, j_end
    return _regrouping_factor_rule(tuple(groups))


@lru_cache(maxsize=1024)  # many shapes are grouped alike
def _regrouping_factor_rule(groups: tuple[tuple[int, ...], ...]) -> str:
    """Return the rule from the number of dimensions of each side in each group, followed by the
    sizes of the first ones if there are several on both sides."""
    left: list[str] = []
    right: list[str] = []
    for old, new, *first in groups:
        ours, theirs = _factor_rule_words(old, new, first, f"g{len(left)}_{len(right)}_")
        left += ours
        right += theirs
    return factor_rule([left], [right])


def _factor_rule_group(old: Sequence[int], new: Sequence[int], i: int, j: int) -> tuple[int, int]:
    """Return the ends of the shortest runs from i and j with equally many elements."""
    if i < len(old) and old[i] == 1:
        return i + 1, j
    if j < len(new) and new[j] == 1:
        return i, j + 1
    i_end, j_end = i + 1, j + 1
    a, b = old[i], new[j]
    while a != b:
        if a < b:
            a *= old[i_end]
            i_end += 1
        else:
            b *= new[j_end]
            j_end += 1
    return i_end, j_end


def _factor_rule_words(
    old: int, new: int, first: Sequence[int], name: str
) -> tuple[list[str], list[str]]:
    if old == new == 1:
        return [name], [name]
    if not old or not new:  # a dimension of size 1, which has no counterpart
        return ["_"] * old, ["_"] * new
    if not first:
        several = [f"{name}{k}" for k in range(max(old, new))]
        one = [f"({' '.join(several)})"]
        return (one, several) if old == 1 else (several, one)
    # [4, 6] and [8, 3]: they share the first part of their first dimensions
    major = math.gcd(*first)
    if major == 1:
        return ["_"] * old, ["_"] * new
    shared = f"{name}={major}" if major < min(first) else name  # else it is a dimension
    sides = []
    for count, extent, letter in ((old, first[0], "a"), (new, first[1], "b")):
        whole = f"({shared} {name}{letter})" if extent > major else name
        sides.append([whole, *["_"] * (count - 1)])
    return sides[0], sides[1]
