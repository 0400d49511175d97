"""Words that factor rules are written with (`pullback.sharding.factors` says what they mean)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def named(rank: int, whole: Iterable[int] = (), letter: str = "d") -> list[str]:
    """A factor for each of `rank` dimensions, but for those that must be whole."""
    kept = set(whole)
    return ["_" if i in kept else f"{letter}{i}" for i in range(rank)]


def rule(operands: Iterable[Iterable[str]], results: Iterable[Iterable[str]]) -> str:
    """The rule from the words of each value's dimensions."""
    sides = [", ".join([" ".join(words) for words in side]) for side in (operands, results)]
    return " -> ".join(sides)


def placed(
    rank: int, index_rank: int, dims: Sequence[int], batched: int = 0, before: int = 0
) -> tuple[list[str], list[str], list[str]]:
    """The words of a value, of arrays that name places along its dimensions `dims`, and of what
    lies there (`pullback.ops.places` says in which order)."""
    value = named(rank, dims)
    index = [*value[:batched], *[f"i{k}" for k in range(batched, index_rank)]]
    rest = [w for i, w in enumerate(value) if i >= batched and i not in dims]
    there = [*value[:batched], *rest[:before], *index[batched:], *rest[before:]]
    return value, index, there


def reshaped(old: Sequence[int], new: Sequence[int]) -> tuple[list[str], list[str]]:
    """The words of a shape and of another with the same elements in the same order.

    Dimensions are taken together until both sides have as many elements: of such a group, one
    side must be one dimension, or only the first of each are the same.
    """
    left: list[str] = []
    right: list[str] = []
    i = j = 0
    while i < len(old) or j < len(new):
        i_end, j_end = _group(old, new, i, j)
        ours, theirs = _group_words(old[i:i_end], new[j:j_end], f"g{i}_{j}_")
        left += ours
        right += theirs
        i, j = i_end, j_end
    return left, right


def _group(old: Sequence[int], new: Sequence[int], i: int, j: int) -> tuple[int, int]:
    """The ends of the shortest runs from i and j with equally many elements."""
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


def _group_words(old: Sequence[int], new: Sequence[int], name: str) -> tuple[list[str], list[str]]:
    if len(old) == 1 and len(new) == 1:
        return [name], [name]
    if not old or not new:  # a dimension of extent 1, which has no counterpart
        return ["_"] * len(old), ["_"] * len(new)
    if len(old) == 1 or len(new) == 1:
        several = [f"{name}{k}" for k in range(max(len(old), len(new)))]
        one = [f"({' '.join(several)})"]
        return (one, several) if len(old) == 1 else (several, one)
    # [4, 6] and [8, 3]: they share the first part of their first dimensions
    major = math.gcd(old[0], new[0])
    if major == 1:
        return ["_"] * len(old), ["_"] * len(new)
    sides = []
    for side, letter in ((old, "a"), (new, "b")):
        rest = side[0] // major
        first = f"({name} {name}{letter})" if rest > 1 else name
        sides.append([first, *["_"] * (len(side) - 1)])
    return sides[0], sides[1]
