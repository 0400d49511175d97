"""Profiles: the dtypes, instructions, sizes and literals that a module may use.

`core-v1` is MIND Core v1, `core-v1+gradient` adds the instructions that its derivative rules emit,
and `extended` has everything. An op says which profile it belongs to (`Op.text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import VerificationError
from pullback.graph.dtypes import ALL, DType, bool_, float32, float64, int32, int64
from pullback.graph.types import Type

CORE, GRADIENT, EXTENDED = "core-v1", "core-v1+gradient", "extended"


@dataclass(frozen=True)
class StaticProfile:
    """The rules of one profile."""

    name: str
    level: int  # a higher level includes the lower ones
    dtypes: frozenset[DType]
    empty: bool  # whether a dimension may be 0
    special: bool  # whether nan, inf and -0.0 are literals

    def check_type(self, type: Type) -> None:
        if type.dtype not in self.dtypes:
            known = ", ".join(d.name for d in ALL if d in self.dtypes)
            message = f"the profile {self.name} has the dtypes {known}, got {type.dtype}"
            raise VerificationError(message, code="E2005", dtype=type.dtype.name)
        least = 0 if self.empty else 1
        for axis, n in enumerate(type.shape):
            if n < least:
                what = "known" if n == -1 else "positive" if least else "at least 0"
                message = f"dimensions must be {what}, dimension {axis} is {'?' if n == -1 else n}"
                raise VerificationError(message, code="E3006", dimension=axis, extent=n)

    def check_op(self, op: Any, xs: Sequence[Type]) -> None:
        least = PROFILES[op.text.least_profile(op, xs)]
        if least.level > self.level:
            message = f"the profile {self.name} does not have this instruction in this form"
            hint = f"Choose a larger profile in the first line: `profile: {least.name}`."
            raise VerificationError(message, code="E6003", hint=hint)

    def check_literal(self, array: np.ndarray) -> None:
        if not self.special and profile_has_special(array):
            message = f"literals of the profile {self.name} must not be nan, inf or -0.0"
            raise VerificationError(message, code="E1005")


def profile_has_special(array: np.ndarray) -> bool:
    """Whether an element is nan, inf or -0.0."""
    if array.dtype.kind in "biu":
        return False
    parts = array.view(array.real.dtype) if array.dtype.kind == "c" else array
    return not bool(np.all(np.isfinite(parts) & ((parts != 0) | ~np.signbit(parts))))


_NUMBERS = frozenset((int32, int64, float32, float64))
PROFILES = {
    p.name: p
    for p in (
        StaticProfile(CORE, 0, _NUMBERS, empty=False, special=False),
        StaticProfile(GRADIENT, 1, _NUMBERS | {bool_}, empty=False, special=True),
        StaticProfile(EXTENDED, 2, frozenset(ALL), empty=True, special=True),
    )
}
