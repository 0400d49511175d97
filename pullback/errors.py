"""Every error that pullback raises.

Each carries `code` (a stable name, or the static IR's catalogue number), `op` and `where`, and
also inherits the builtin that a Python user would catch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.graph.where import user_line


class TextPosition(NamedTuple):
    """A place in the text of a module; both numbers count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class PullbackError(Exception):
    """The base of every error: what must hold, what was got, and the user's line."""

    code = "E0000"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        op: str | None = None,
        where: Any = None,
        code: str | None = None,
        **values: Any,
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.op = message, hint, op
        self._found = where is None  # nobody said where: the line was looked up
        self.where = user_line() if where is None else where
        if code is not None:
            self.code = code
        self.values = values

    def at(self, op: str | None, where: Any) -> PullbackError:
        """The same error with an op and a line, unless it was raised with its own."""
        self.op = self.op or op
        if self._found and where is not None:
            self.where, self._found = where, False
            self.op = getattr(where, "called", self.op)  # the name that the user wrote there
        return self

    def __str__(self) -> str:
        text = f"{self.op}: {self.message}" if self.op else self.message
        if self.where is not None:
            text += f" ({self.where})"
        return f"{text}\n{self.hint}" if self.hint else text


class ShapeError(PullbackError, ValueError):
    code = "E3001"


class AxisError(ShapeError, IndexError):
    code = "E3004"


class DTypeError(PullbackError, TypeError):
    code = "E2005"


class IndexOutOfRange(PullbackError, IndexError):
    code = "E6001"


class ArgumentError(PullbackError, TypeError, ValueError):
    """A call that cannot mean anything: wrong kind of argument, wrong tree, wrong option."""

    code = "E2007"


class VerificationError(PullbackError, ValueError):
    """A graph that breaks the IR's rules."""

    code = "E4001"


class ParseError(PullbackError, ValueError):
    """A text that is no module. `line` and `column` count from 1; `source` is the whole line."""

    code = "syntax"

    def __init__(
        self, message: str, *, line: int, column: int, source: str, code: str | None = None
    ) -> None:
        place = TextPosition(line, column)
        super().__init__(message, code=code, where=place, line=line, column=column)
        self.line, self.column, self.source = line, column, source


class EngineError(PullbackError, RuntimeError):
    """An engine could not compile or run a program."""

    code = "E6008"


class OutOfMemory(EngineError, MemoryError):
    code = "E6004"


class NumericOverflow(EngineError, OverflowError):
    """Finite numbers gave an infinite one, where all must be finite."""

    code = "E6005"


class InvalidNumber(EngineError, FloatingPointError):
    """NaN, or an infinite number that was given, where all must be finite."""

    code = "E6006"


class TimeLimit(EngineError, TimeoutError):
    code = "E6007"


class InPlaceError(PullbackError, RuntimeError):
    """A write that would change a value some derivative still needs."""

    code = "in-place"


class HostReadError(PullbackError, TypeError):
    """A value was asked for where none exists yet."""

    code = "host-read"


class TraceError(PullbackError, RuntimeError):
    """A trace that cannot be replayed or exported, because it branched on a value."""

    code = "trace"


class AutodiffError(PullbackError):
    """Something that cannot be differentiated."""

    code = "E5004"


class UnsupportedOp(AutodiffError, TypeError):
    code = "E5001"


class GradientVerification(AutodiffError, ValueError):
    code = "E5002"


class InvalidAxis(AutodiffError, IndexError):
    code = "E5003"


class UnsupportedShape(AutodiffError, ValueError):
    code = "E5004"


class NonDifferentiableInput(AutodiffError, TypeError):
    code = "E5005"


class GraphConsumed(AutodiffError, RuntimeError):
    """The graph was used up by an earlier backward()."""

    code = "consumed"


class DonatedError(PullbackError, RuntimeError):
    """A tensor was read after its buffer was given to a compiled function."""

    code = "donated"


class RecompileError(PullbackError, RuntimeError):
    """A program had to be compiled where `no_recompile` forbids it; `cause` says why."""

    code = "recompile"

    @property
    def cause(self) -> Any:
        return self.values["cause"]


class WorkerLost(PullbackError, ConnectionError):
    """A process of the cluster is gone or does not answer; `process` is its number."""

    code = "worker-lost"

    @property
    def process(self) -> int:
        return self.values["process"]


class ProcessMismatch(PullbackError, RuntimeError):
    """The processes of a cluster do not run the same programs in the same order."""

    code = "process-mismatch"
