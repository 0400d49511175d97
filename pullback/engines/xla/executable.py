"""Compiled programs, and what XLA's errors mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.engines.xla.jax_arrays import result_handler
from pullback.engines.xla.memory import MemoryUse
from pullback.errors import EngineError, OutOfMemory
from pullback.graph.types import Type


class Executable:
    """A compiled program whose results are placed by `sharding`."""

    def __init__(self, loaded: Any, outs: Sequence[Type], sharding: Any) -> None:
        self._execute = loaded.execute_sharded
        self._handlers = [result_handler(t, sharding) for t in outs]
        self.loaded = loaded

    def serialise(self) -> bytes | None:
        """Its machine code, for `Client.load`; None when XLA cannot write it.

        To be asked before the first run: after it, XLA no longer writes programs that sort.
        """
        try:
            return self.loaded.serialize()
        except Exception:
            return None

    def run(self, args: list[Any]) -> list[Any]:
        """Start the program; the buffers it returns may still be being computed."""
        try:
            return self._execute(args).consume_with_handlers(self._handlers)
        except Exception as error:
            raise explain(error, "run") from None

    def memory(self) -> MemoryUse:
        """What XLA's buffer assignment says that a run takes."""
        found = self.loaded.get_compiled_memory_stats()
        arguments = found.argument_size_in_bytes
        results = found.output_size_in_bytes - found.alias_size_in_bytes
        return MemoryUse(arguments, results, found.temp_size_in_bytes)

    def work(self) -> tuple[float, float]:
        """Floating-point operations of a run, and bytes that it reads and writes."""
        found = self.loaded.cost_analysis()
        return max(0.0, found.get("flops", 0.0)), max(0.0, found.get("bytes accessed", 0.0))


def explain(error: Exception, action: str) -> EngineError:
    """An error of XLA's as one of ours: its first line, and what it means."""
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "RESOURCE_EXHAUSTED" in first or "out of memory" in first.lower():
        return OutOfMemory(f"the device is out of memory: {first}")
    return EngineError(f"XLA could not {action} the program: {first}")
