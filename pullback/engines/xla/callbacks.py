"""Calls of Python functions from programs, in the order of the program.

Each call takes the ticket of the call before it and returns a new one, so that XLA cannot reorder
them. The ticket enters and leaves loops and branches in which there are calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.engines.protocols import BuilderProtocol
from pullback.engines.xla.hlo_instructions import HloValue
from pullback.errors import UnsupportedOp
from pullback.graph.dtypes import int32
from pullback.graph.types import Type

TICKET = Type((), int32)
# jaxlib registers this target; it takes the number of a function passed to the compiler
TARGET = "xla_ffi_python_cpu_callback"


class CallbackOrder:
    """The last ticket of a block. In a loop's body (`looped`), the first one is an argument."""

    def __init__(self, last: HloValue | None = None, looped: bool = False) -> None:
        self.first = self.last = last
        self.looped = looped


class Callbacks(BuilderProtocol):
    """The part of `Builder` that writes calls of Python functions."""

    calls: CallbackOrder
    functions: list[Callable[..., Any]]  # numbered as in the program
    platform: str
    value: Callable[[Type], HloValue]

    def callback(self, f: Callable[..., None], *xs: HloValue) -> None:
        """Call `f` with arrays each time that the program gets here.

        On a mesh, `f` gets the position of the device as its first argument.
        """
        if self.platform != "cpu":
            raise UnsupportedOp(
                f"programs on {self.platform} cannot call Python",
                hint='Run the function on the CPU: with pb.default_device("cpu:0").',
            )
        given = xs if self.mesh is None else (self.by_position(range(self.mesh.size)), *xs)
        number = len(self.functions)
        self.functions.append(_callback_with_ticket(f))
        self.calls.last = self.op(
            "stablehlo.custom_call", self.ticket(), *given, out=TICKET, has_side_effect=True,
            call_target_name=f'"{TARGET}"',
            api_version="4 : i32", backend_config=f"{{index = {number} : ui64}}",
        )  # fmt: skip

    def ticket(self) -> HloValue:
        """The ticket of the last call in this block, or the one that enters it."""
        if self.calls.last is None:
            made = self.value(TICKET) if self.calls.looped else self.constant(0, int32)
            self.calls.first = self.calls.last = made
        return self.calls.last


def _callback_with_ticket(f: Callable[..., None]) -> Callable[..., tuple[np.ndarray]]:
    """A function for XLA: it takes and returns a ticket."""

    def call(ticket: Any, *arrays: Any) -> tuple[np.ndarray]:
        f(*map(np.asarray, arrays))
        return (np.zeros((), np.int32),)

    return call
