"""Texts that XLA compiles once, for tests that empty every cache of programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pullback.engines.xla.client import Client


@contextmanager
def compile_once() -> Iterator[None]:
    """Inside the block, XLA compiles each text once; all caches and counters work as always.

    Tests that begin without programs would otherwise compile the same training step again and
    again, which takes most of their time.
    """
    made: dict[tuple[Any, ...], Any] = {}
    original = Client.compiled

    def compiled(
        self: Client, text: str | bytes, devices: Any, options_with: Any, functions: Any = (),
        flags: Any = (),
    ) -> Any:  # fmt: skip
        if functions:
            return original(self, text, devices, options_with, functions, flags)
        key = id(self), text, tuple(devices), options_with(()).SerializeAsString(), tuple(flags)
        if key not in made:
            made[key] = original(self, text, devices, options_with, (), flags)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "compiled", compiled)
        yield
