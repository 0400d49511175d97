"""Lines of user code: where an op was recorded or an error was caused."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np
import optree

from pullback.graph.native import bind_native

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Frames between user code and pullback: `with` blocks, threads, NumPy that converts a tensor,
# optree that takes a node apart
_BETWEEN = (
    contextlib.__file__, functools.__file__, threading.__file__, "<__array_function__",
    "<frozen runpy>", os.path.dirname(np.__file__) + os.sep,
    os.path.dirname(optree.__file__) + os.sep,
)  # fmt: skip
# Whether a source file is skipped; a cache, because it is looked up for every recorded op
_internal: dict[str, bool] = {}
_make = tuple.__new__


class SourceLine(NamedTuple):
    """A position in source code, which is cheap to make and resolved when printed."""

    code: CodeType
    instruction: int

    @property
    def line(self) -> int:
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def function(self) -> str:
        return self.code.co_name

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    def __reduce__(self) -> tuple:
        """Errors are sent to other processes with their line; code objects cannot be."""
        return _unpickled_line, (self.file, self.line, self.function)


class CalledSourceLine(SourceLine):
    """A line of user code that records ops under another name than theirs: `called`."""

    called: str


def _unpickled_line(file: str, line: int, function: str) -> SourceLine:
    code = compile("0", file, "eval").replace(co_firstlineno=line, co_name=function)
    return SourceLine(code, len(code.co_code) - 2)  # its last instruction


def is_internal_file(name: str) -> bool:
    """Whether a source file is part of pullback."""
    return name.startswith(_PACKAGE)


def _is_skipped_frame(name: str, frame: FrameType) -> bool:
    """Whether a frame is not the user's."""
    if name == "<string>":  # a method that `dataclass` wrote, perhaps for a class of pullback
        return str(frame.f_globals.get("__name__")).startswith("pullback.")
    _internal[name] = name.startswith((_PACKAGE, *_BETWEEN))
    return _internal[name]


def is_user_frame(frame: FrameType) -> bool:
    """Whether a frame is neither pullback's nor one between it and user code."""
    name = frame.f_code.co_filename
    internal = _internal.get(name)
    return not (_is_skipped_frame(name, frame) if internal is None else internal)


def is_internal_frame_where(frame: FrameType) -> bool:
    """Whether a frame that is not the user's is pullback's."""
    name = frame.f_code.co_filename
    return name == "<string>" or name.startswith(_PACKAGE)


def stack_level() -> int:
    """Return the `stacklevel` with which the caller's warning points at the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, *_BETWEEN)):
        frame, level = frame.f_back, level + 1
    return level


def user_line(called: str = "", depth: int = 1) -> SourceLine | None:
    """Return the innermost line outside pullback; errors show `called` instead of the op's name.

    `depth` is the number of the first caller that may be the user's: each frame costs time.
    """
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        internal = _internal.get(name)
        if internal is None:
            internal = _is_skipped_frame(name, frame)
        if not internal:
            if called:
                line = CalledSourceLine(code, frame.f_lasti)
                line.called = called
                return line
            return _make(SourceLine, (code, frame.f_lasti))  # twice as fast as a call
        frame = frame.f_back  # type: ignore[assignment]
    return None


bind_native(SourceLine=SourceLine, internal_files=_internal, find_user_line=user_line)
