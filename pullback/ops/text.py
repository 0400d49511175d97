"""How an op is written in program text, and the values that Python has no literal for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pullback.graph.types import Type
from pullback.ops.helpers import counted

if TYPE_CHECKING:
    from pullback.ops.op import Op


@dataclass(frozen=True)
class Text:
    """How programs write an op; set as `Op.text`. By default the parameters are the op's fields. A
    subclass overrides `written` and `read` for an op that is stated in other terms."""

    positional: tuple[str, ...] = ()  # parameters that are written as arguments
    profile: str = "extended"  # the smallest profile that has the op; empty: it is never written
    spellings: Mapping[str, str] = field(default_factory=dict)  # other names of parameters

    def written(self, op: Op, xs: Sequence[Type]) -> dict[str, Any]:
        """Return the parameters as the text states them, for operands of these types."""
        return {f.name: getattr(op, f.name) for f in fields(op)}

    def read(self, cls: type[Op], xs: Sequence[Type], **stated: Any) -> Op:
        """Return the op that a text states, for operands of these types: inverse of `written`.
        Keyword-only parameters of an override replace the fields of the same name, and all fields
        if it takes no others. An axis may count from the end."""
        for name in ("axis", "axes"):
            if xs and name in stated:
                stated[name] = counted(stated[name], xs[0].rank)
        return cls(**stated)

    def least_profile(self, op: Op, xs: Sequence[Type]) -> str:
        """Return the smallest profile that has this op on operands of these types."""
        return self.profile


CORE = Text(profile="core-v1")
GRADIENT = Text(profile="core-v1+gradient")
UNWRITTEN = Text(profile="")


@dataclass(frozen=True, slots=True)
class OpTextWord:
    """A bare word: `Same`, `f32`."""

    name: str


@dataclass(frozen=True, slots=True)
class OpTextApplied:
    """A word applied to values: `Custom([[1, 1], [0, 0]])`, `Sum([0], false)`."""

    name: str
    arguments: tuple = ()
    keys: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpTextRange:
    """`start:stop:step`."""

    start: int
    stop: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class OpTextNan:
    """A NaN with other bits than the default one: `nan(0x7fc00001)`."""

    bits: int


@dataclass(frozen=True, slots=True)
class OpTextPair:
    """A complex number, `(1.0, -2.5)`."""

    real: Any
    imag: Any
