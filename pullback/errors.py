"""The errors that pullback raises, public as `pb.errors`.

Each has a `code` (a stable name, or a number of the static IR's catalogue), `op` and `where`, and
also derives from the builtin exception that Python raises in such a case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pullback.graph.source_lines import SourceLine, user_line

if TYPE_CHECKING:
    from pullback.lazy.cache import CacheMissCause

__all__ = [
    "ArgumentError", "AutodiffError", "AxisError", "DTypeError", "DamagedFile", "DonatedError",
    "EngineError", "ExportError", "FileError", "ForkError", "GradientCut", "GradientCutWarning",
    "GradientVerification", "GraphConsumed", "HostReadError", "InPlaceError", "IndexOutOfRange",
    "InvalidAxis", "InvalidNumber", "MissingFile", "NonDifferentiableInput", "NumericOverflow",
    "OutOfMemory", "ParseError", "PrecisionWarning", "ProcessMismatch", "PullbackError",
    "RecompileError", "ShapeError", "TextPosition", "TimeLimit", "TraceError", "UnknownImport",
    "UnknownName", "UnsupportedOp", "UnsupportedShape", "VerificationError", "WorkerError",
    "WorkerLost",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # checkers know all names

    def __getattr__(name: str) -> NoReturn:
        if name.startswith("__"):  # the import of this module asks for such names
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        from pullback.graph.boundary import unknown_name_at_boundary

        raise unknown_name_at_boundary(__name__, name)


class TextPosition(NamedTuple):
    """A position in the text of a module; line and column start at 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


Location = SourceLine | TextPosition | None  # where an op was written


class PullbackError(Exception):
    """The base class of all errors; the message ends with the line that caused the error."""

    code = "E0000"
    title = ""  # of the code, in errors of `pb.ir`

    def __init__(
        self,
        message: str,
        *,
        hint: str | Callable[[], str] | None = None,
        op: str | None = None,
        where: Location = None,
        code: str | None = None,
        **values: Any,
    ) -> None:
        super().__init__(message)
        self.message, self.op = message, op
        self._hint = hint
        self._found = where is None  # the line was looked up, so `at` may replace it
        self.where: Location = user_line() if where is None else where
        if code is not None:
            self.code = code
        self.values = values

    @property
    def hint(self) -> str | None:
        """What to write instead; one that takes time to find is a function until it is read."""
        if callable(self._hint):
            self._hint = self._hint()
        return self._hint

    @hint.setter
    def hint(self, value: str | None) -> None:
        self._hint = value

    def at(self, op: str | None, where: Location) -> PullbackError:
        """Set the op and the line, unless the error was raised with its own; return the error."""
        self.op = self.op or op
        if self._found and where is not None:
            self.where, self._found = where, False
            self.op = getattr(where, "called", self.op)  # the name that the user wrote there
        return self

    def name_input(self, name: str) -> PullbackError:
        """Replace "input 3" of a program by what the user calls it; return the error."""
        number = self.values.pop("input", None)
        if number is not None:
            self.message = self.message.replace(f"input {number}", name, 1)
        return self

    def __str__(self) -> str:
        text = f"{self.op}: {self.message}" if self.op else self.message
        if self.title:
            text = f"{self.code}: {self.title}: {text}"
        if self.where is not None:
            text += f" ({self.where})"
        return f"{text}\n{self.hint}" if self.hint else text


class ShapeError(PullbackError, ValueError):
    """Shapes that do not fit the operation, or each other."""

    code = "E3001"


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have, or one that is given twice."""

    code = "E3004"


class DTypeError(PullbackError, TypeError):
    """A dtype that the operation does not take, or dtypes that do not fit each other."""

    code = "E2005"


class IndexOutOfRange(PullbackError, IndexError):
    """An index that is not within the size of its axis."""

    code = "E6001"


class ArgumentError(PullbackError, TypeError, ValueError):
    """A call with a wrong kind of argument, a wrong tree or a wrong option."""

    code = "E2007"


class UnknownName(PullbackError, AttributeError):
    """A name that a module of pullback, or a tensor, does not have; the hint says what to write."""

    code = "unknown-name"


class UnknownImport(PullbackError, ImportError):
    """The same for `from pullback import name`."""

    code = "unknown-name"


class VerificationError(PullbackError, ValueError):
    """A graph that violates the rules of the IR."""

    code = "E4001"


class ParseError(PullbackError, ValueError):
    """A text that is not a module. `line` and `column` start at 1; `source` is the whole line."""

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
    """A program, or one of its values, does not fit into the memory of a device."""

    code = "E6004"


class ForkError(EngineError):
    """A forked process cannot compute: the engine's threads exist only in its parent."""

    code = "fork"


class NumericOverflow(EngineError, OverflowError):
    """An infinite result of finite operands where all results must be finite."""

    code = "E6005"


class InvalidNumber(EngineError, FloatingPointError):
    """NaN, or an infinite operand, where all values must be finite."""

    code = "E6006"


class TimeLimit(EngineError, TimeoutError):
    """A program ran longer than its time limit."""

    code = "E6007"


class ExportError(PullbackError, BufferError):
    """Memory that cannot be shared with another library as it was asked for."""

    code = "export"


class FileError(PullbackError, OSError):
    """A file that cannot be read or written, for example because the disk is full."""

    code = "file"


class MissingFile(FileError, FileNotFoundError):
    """A file that does not exist."""


class DamagedFile(PullbackError, ValueError):
    """A file that is damaged, or was not written as its format demands."""

    code = "damaged-file"


class InPlaceError(PullbackError, RuntimeError):
    """A write to a value that a derivative may still need."""

    code = "in-place"


class HostReadError(PullbackError, TypeError):
    """A value was read where none exists yet."""

    code = "host-read"


class TraceError(PullbackError, RuntimeError):
    """A trace that cannot be replayed or exported because it branched on a value."""

    code = "trace"


class AutodiffError(PullbackError):
    """Something that cannot be differentiated."""

    code = "E5004"


class UnsupportedOp(AutodiffError, TypeError):
    """An op without a derivative lies between the result and an argument."""

    code = "E5001"


class GradientCut(UnsupportedOp):
    """A read that would cut a derivative in progress: what is computed from it is a constant."""


class GradientCutWarning(UserWarning):
    """A conversion of a tensor to a Python number, or to NumPy, that cuts its derivative."""


class PrecisionWarning(UserWarning):
    """A computation in a narrower dtype that becomes float64 because of a NumPy array."""


class GradientVerification(AutodiffError, ValueError):
    """A derivative rule that returned something other than its op requires."""

    code = "E5002"


class InvalidAxis(AutodiffError, IndexError):
    """An op of the program to be differentiated has an axis that its operand lacks."""

    code = "E5003"


class UnsupportedShape(AutodiffError, ValueError):
    """A result or cotangent whose shape cannot be differentiated."""

    code = "E5004"


class NonDifferentiableInput(AutodiffError, TypeError):
    """An argument that is not float or complex has no derivative."""

    code = "E5005"


class GraphConsumed(AutodiffError, RuntimeError):
    """The graph was consumed by an earlier backward()."""

    code = "consumed"


class DonatedError(PullbackError, RuntimeError):
    """A tensor was read after its buffer was donated to a compiled function."""

    code = "donated"


class RecompileError(PullbackError, RuntimeError):
    """A program had to be compiled inside `no_recompile`; `cause` says why."""

    code = "recompile"

    @property
    def cause(self) -> CacheMissCause:
        return self.values["cause"]


class WorkerError(PullbackError, RuntimeError):
    """An error in a worker process of a data loader; its traceback is in the message, and
    `__cause__` is the error itself if it could be sent."""

    code = "worker"


class WorkerLost(PullbackError, ConnectionError):
    """A process of the cluster, or a worker of a data loader, has ended or does not respond;
    `process` is its number."""

    code = "worker-lost"

    @property
    def process(self) -> int:
        return self.values["process"]


class ProcessMismatch(PullbackError, RuntimeError):
    """The processes of a cluster do not run the same programs in the same order."""

    code = "process-mismatch"
