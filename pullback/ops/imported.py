"""How an op is recognised in a StableHLO program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.ops.op import Op


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """The StableHLO instructions that an op may be lowered to alone; set as `Op.imported`.

    A class whose parameters are not attributes of the instruction defines the class method
    `from_hlo(instruction)`, which returns the op that is lowered to the instruction, or `None`.
    The reader lowers that op and compares, so `from_hlo` may ignore what the op cannot express.
    """

    instructions: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()  # those of the instruction that are the op's parameters
    implied: int = 0  # last operands of the instruction that are constants of the op
    taken: tuple[int, ...] = ()  # the op's operands in the instruction, if in another order
    last: bool = False  # ops that say more about the instruction are tried first


def imported_op(cls: type[Op], instruction: Any) -> Op | None:
    """Return the op of a class that may be lowered to the instruction."""
    if hasattr(cls, "from_hlo"):
        return cls.from_hlo(instruction)
    names = cls.imported.attributes
    return cls(*[instruction[n] for n in names]) if names or not dataclasses.fields(cls) else None
