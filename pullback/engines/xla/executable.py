"""Executables of XLA, and the translation of its errors."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from typing import Any

from pullback.engines import fork
from pullback.engines.byte_sizes import show_bytes
from pullback.engines.limits import physical_memory
from pullback.engines.xla.jax_arrays import jax_result_handler
from pullback.engines.xla.memory import MemoryUse
from pullback.errors import EngineError, OutOfMemory
from pullback.graph.types import Type


class Executable:
    """A compiled program whose results have the given `sharding`.

    On the host, XLA finds out while a program runs that there is too little memory for it. A
    program that needs much is therefore awaited: if it fails, nothing has its results yet. If it
    overwrites arguments, these would be lost, so memory is asked for before.
    """

    def __init__(
        self, loaded: Any, outs: Sequence[Type], sharding: Any, on_host: bool = False
    ) -> None:
        self._execute = loaded.execute_sharded
        self._handlers = [jax_result_handler(t, sharding) for t in outs]
        self.loaded = loaded
        needs = self.memory()
        self._awaited = on_host and _is_memory_heavy_executable(needs)
        overwrites = self._awaited and loaded.get_compiled_memory_stats().alias_size_in_bytes
        self._tried = needs.results + needs.temporaries if overwrites else 0
        # What starts the program, and what its `consume_with_handlers` takes
        self.direct = (None, None) if self._awaited else (self._execute, self._handlers)

    def serialise(self) -> bytes | None:
        """Return the machine code, for `Client.load`; None if XLA cannot write it.

        Call this before the first run: afterwards XLA fails to write programs that sort.
        """
        try:
            return self.loaded.serialize()
        except Exception:
            return None

    def run(self, args: list[Any]) -> list[Any]:
        """Start the program; the device may still be computing the buffers that it returns."""
        if fork.lost_xla:
            fork.refuse_after_fork("running a program")
        try:
            if self._tried:
                mmap.mmap(-1, self._tried).close()  # raises if there is too little
            results = self._execute(args).consume_with_handlers(self._handlers)
            if self._awaited:
                for result in results:
                    result.block_until_ready()
            return results
        except OSError:
            wanted = show_bytes(self._tried)
            raise OutOfMemory(_TOO_LITTLE.format(f"{wanted} for its values")) from None
        except Exception as error:
            raise executable_error(error, "run") from None

    def run_to_end(self, args: list[Any]) -> list[Any]:
        """Run a program that calls Python, which must not end before it does."""
        values = self.run(args)
        try:
            for value in values:
                value.block_until_ready()
        except EngineError:
            raise
        except Exception as error:
            raise executable_error(error, "run") from None
        return values

    def memory(self) -> MemoryUse:
        """Return the memory of a run, according to XLA's buffer assignment."""
        found = self.loaded.get_compiled_memory_stats()
        arguments = found.argument_size_in_bytes
        results = found.output_size_in_bytes - found.alias_size_in_bytes
        return MemoryUse(arguments, results, found.temp_size_in_bytes)

    def traffic(self) -> float:
        """Return how many bytes a run reads and writes."""
        return max(0.0, self.loaded.cost_analysis().get("bytes accessed", 0.0))


def _is_memory_heavy_executable(needs: MemoryUse) -> bool:
    return needs.results + needs.temporaries > physical_memory() // 16


def executable_error(error: Exception, action: str) -> EngineError:
    """Convert an error of XLA: keep its first line, and recognise a lack of memory."""
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, MemoryError) or any(sign in first.lower() for sign in _NO_MEMORY):
        wanted = _BYTES.search(first)
        what = f"{show_bytes(int(wanted[1]))} for its values" if wanted else "its values"
        return OutOfMemory(_TOO_LITTLE.format(what))
    return EngineError(f"XLA could not {action} the program: {first}")


_TOO_LITTLE = "the device does not have enough memory for a program: it needs {}"
_NO_MEMORY = ("resource_exhausted", "out of memory", "bad_alloc")
_BYTES = re.compile(r"allocat\w* (?:of )?(\d+) bytes")
