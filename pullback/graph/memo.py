"""Tables of remembered results, with a stated bound.

Tables that are read on hot paths are plain dictionaries: a hit must cost one lookup, and a subclass
of `dict` is slower. Elsewhere, use `functools.lru_cache(maxsize=...)`.
"""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def remember(table: dict[Key, Value], key: Key, value: Value, bound: int) -> Value:
    """Set `table[key]` and return the value; a table with `bound` entries is emptied first.

    >>> squares = {}
    >>> [remember(squares, i, i * i, bound=2) for i in range(3)]
    [0, 1, 4]
    >>> squares
    {2: 4}
    """
    if len(table) >= bound:
        table.clear()
    table[key] = value
    return value
