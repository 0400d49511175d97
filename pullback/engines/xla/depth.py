"""The nesting of a StableHLO text: deep text overflows the stack of MLIR's recursive parser."""

from __future__ import annotations

import re

import numpy as np

from pullback.errors import VerificationError

DEEPEST = 300  # MLIR's parser manages about 2,000 levels in 8 MiB of stack
_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->')
_OPEN, _CLOSE = b"([{<", b")]}>"
_STEP = np.zeros(256, np.int8)
_STEP[list(_OPEN)], _STEP[list(_CLOSE)] = 1, -1
_SIGNS = re.compile(rb"(?:-\s*){%d}" % DEEPEST)  # of an affine expression, each is a level
_ALIAS = re.compile(r"^[#!]([\w.$-]+) *= *(.*)$", re.MULTILINE)
_USED = re.compile(r"[#!]([\w.$-]+)")


def limit_depth(text: str) -> None:
    """Raise if a text is nested deeper than any program needs."""
    plain = _QUOTED.sub(b"", text.encode(errors="replace"))
    steps = _STEP[np.frombuffer(plain, np.uint8)]
    levels = int(np.cumsum(steps[steps != 0], dtype=np.int64).max(initial=0))
    if levels > DEEPEST or _SIGNS.search(plain) or _depth_aliases(text) > DEEPEST:
        raise VerificationError(
            f"the StableHLO program cannot be read: it is nested deeper than {DEEPEST} levels",
            code="E6003",
        )


def _depth_aliases(text: str) -> int:
    """Return the length of the longest chain of aliases, each defined by an earlier one."""
    known: dict[str, int] = {}
    for found in _ALIAS.finditer(text):
        used = [known.get(name, 0) for name in _USED.findall(found[2])]
        known[found[1]] = 1 + max(used, default=0)
    return max(known.values(), default=0)
