"""The boundary between user code and pullback, where errors leave it.

A traceback shows the user's frames only: those of pullback, also between a transform and the user
function that it calls, are dropped when an error leaves a public call. Nothing is done unless an
error is raised. `PULLBACK_TRACEBACK=full` keeps all frames.
"""

from __future__ import annotations

import functools
import opcode
import os
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from pullback.errors import ArgumentError, PullbackError, UnknownImport, UnknownName
from pullback.graph.source_lines import is_internal_frame_where, is_user_frame

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_NOTE = "(raised inside pullback; PULLBACK_TRACEBACK=full shows all of its frames)"
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]
# Special methods that users call through syntax or builtins, and that may fail
_SPECIAL = (
    "__init__", "__call__", "__enter__", "__exit__", "__getitem__", "__setitem__", "__bool__",
    "__int__", "__float__", "__complex__", "__index__", "__array__", "__array_ufunc__",
    "__array_function__", "__dlpack__", "__dlpack_device__", "__reduce__", "__repr__", "__str__",
    "__format__", "__copy__", "__deepcopy__", "__contains__",
)  # fmt: skip
# The code of functions whose frames call `leave` themselves, so that they need no wrapper; by id,
# because hashing code takes time
_handlers: dict[int, CodeType] = {}
_wrapped: dict[Any, Any] = {}  # the boundary of each public function


def leave_boundary(error: BaseException) -> None:
    """Drop pullback's frames from an error that leaves a public call, and from its causes.

    The frame that calls this re-raises the error with a bare `raise`, which adds no frame.
    """
    if os.environ.get("PULLBACK_TRACEBACK", "").strip().lower() == "full":
        return
    seen: set[int] = set()
    found: list[BaseException | None] = [error]
    while found:
        e = found.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            _trim_at_boundary(e)
            found += (e.__cause__, e.__context__)
            if isinstance(e, BaseExceptionGroup):
                found += e.exceptions


def _trim_at_boundary(error: BaseException) -> None:
    """Drop pullback's frames from the traceback of one error.

    An error that is not pullback's, but was raised in its code, keeps the frame that raised it.
    """
    kept: list[TracebackType] = []
    run: list[TracebackType] = []  # frames in a row that are not the user's
    last = -1  # the index of pullback's last frame in the run
    entry = error.__traceback__
    while entry is not None:
        if is_user_frame(entry.tb_frame):
            kept += [*run, entry] if last < 0 else [entry]
            run, last = [], -1
        else:
            if is_internal_frame_where(entry.tb_frame):
                last = len(run)
            run.append(entry)
        entry = entry.tb_next
    context = error.__context__
    if context is not None and last >= 0 and error.__cause__ is None:  # it was raised by pullback
        error.__suppress_context__ = not _boundary_has_user_frames(context.__traceback__)
    if last < 0:
        kept += run
    elif not _is_meant_for_boundary(error):
        kept += run[last:]
        if isinstance(error, Exception) and _NOTE not in getattr(error, "__notes__", ()):
            error.add_note(_NOTE)
    following: TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    error.__traceback__ = following


def _is_meant_for_boundary(error: BaseException) -> bool:
    """Whether an error was raised on purpose: it is pullback's, or about a call of a user function
    with the arguments that the user gave."""
    if isinstance(error, PullbackError) or type(error).__module__ == PullbackError.__module__:
        return True
    words = ("() takes ", "() missing ", "() got ")
    return type(error) is TypeError and any(word in str(error) for word in words)


def _boundary_has_user_frames(entry: TracebackType | None) -> bool:
    while entry is not None:
        if is_user_frame(entry.tb_frame):
            return True
        entry = entry.tb_next
    return False


def handles_boundary_errors(f: F) -> F:
    """Mark a function whose own frame calls `leave`."""
    code = cast(FunctionType, f).__code__
    _handlers[id(code)] = code
    return f


def boundary(f: F) -> F:
    """Return a public function that calls `f`; its errors end at the user's line."""
    if not isinstance(f, FunctionType) or id(f.__code__) in _handlers:
        return f

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except BaseException as error:
            refused = refused_at_boundary(f, error, args, kwargs)
            if refused is None:
                leave_boundary(error)
                raise
        try:
            raise refused
        except ArgumentError as error:
            leave_boundary(error)
            raise

    return cast(F, handles_boundary_errors(call))


def refused_at_boundary(
    f: Callable[..., Any], error: BaseException, args: tuple, kwargs: dict[str, Any]
) -> ArgumentError | None:
    """The error for arguments that do not fit the parameters of `f`, if that is what happened."""
    if type(error) is not TypeError:
        return None
    from pullback.suggestions.calls import refused_call_arguments

    return refused_call_arguments(f, args, kwargs)


def boundary_methods(cls: C) -> C:
    """Make the methods of a class that users call boundaries; properties are left alone."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType) and (not name.startswith("_") or name in _SPECIAL):
            setattr(cls, name, public(value))
    return cls


def public(f: F) -> F:
    """The boundary of a function, which is the same one in every namespace."""
    if f not in _wrapped:
        _wrapped[f] = boundary(f)
    return _wrapped[f]


def publish(module: str) -> None:
    """Make the functions in a module's `__all__` boundaries, and answer unknown names."""
    names = vars(sys.modules[module])
    load = names.get("__getattr__")  # loads names at their first use
    for name in names["__all__"]:
        if isinstance(names.get(name), FunctionType):
            publish_at_boundary(names, name)

    def __getattr__(name: str) -> Any:
        if load is None or name not in names["__all__"]:
            try:
                raise unknown_name_at_boundary(module, name)
            except PullbackError as error:
                leave_boundary(error)
                raise
        found = load(name)
        if isinstance(found, FunctionType):
            names[name] = found
            return publish_at_boundary(names, name)
        return found

    names["__getattr__"] = __getattr__


def publish_at_boundary(names: dict[str, Any], name: str) -> Any:
    """Replace a function in a module's namespace by its boundary."""
    given = names[name]
    made = public(given)
    if made is not given:
        if made.__module__ == given.__module__:  # else another module published it before
            made.__module__, made.__qualname__ = names["__name__"], name  # where pickle finds it
        names[name] = made
    return made


def unknown_name_at_boundary(owner: str, name: str) -> UnknownName | UnknownImport:
    """The error for a name that a module or `Tensor` does not have, at the caller's caller."""
    frame = sys._getframe(2)
    code, at = frame.f_code.co_code, frame.f_lasti
    is_module = owner.startswith("pullback")
    imported = is_module and 0 <= at < len(code) and code[at] == _IMPORT_FROM
    kind = UnknownImport if imported else UnknownName  # Python replaces the message of the latter
    holder = f"module {owner!r}" if is_module else owner
    # Most errors of this kind answer `hasattr`, so that nobody reads the hint
    hint = functools.partial(_suggest_at_boundary, owner, name)
    error = kind(f"{holder} has no attribute {name!r}", hint=hint)
    error.name = name  # otherwise Python adds a suggestion of its own
    return error


def _suggest_at_boundary(owner: str, name: str) -> str:
    from pullback.suggestions.names import suggest_name

    return suggest_name(owner, name)
