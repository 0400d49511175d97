"""Decorators of public functions that are written with other public functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pullback.errors import ArgumentError, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.argument_checks import (
    checked_flag_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.source_lines import user_line
from pullback.lazy.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def composed(f: F) -> F:
    """Record all ops of `f` at the line of its caller, name `f` in errors that this line causes,
    and check arguments by their annotations.

    A function that calls one of the user does not use it: its ops and errors are the user's.
    """
    checked: Any = None  # made at the first call: importing pullback needs few of them
    name = f.__name__

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        if checked is None:
            checked = with_argument_checks(f)
        if thread.user_line is not None:  # called by another such function
            return checked(*args, **kwargs)
        thread.user_line = line = user_line(name)
        try:
            return checked(*args, **kwargs)
        except PullbackError as error:
            if error.where == line:
                error.op = name
            raise
        finally:
            thread.user_line = None

    return cast(F, call)


def composed_inplace(f: F) -> F:
    """Like `composed`, for a function that writes its result to its first argument and returns it,
    as NumPy's function of the same name does, unless it is called with `inplace=False`.
    """
    result = composed(f)
    name = f.__name__

    @functools.wraps(f)
    def call(x: Any, *args: Any, inplace: bool = True, **kwargs: Any) -> Any:
        made = result(x, *args, **kwargs)
        if not checked_flag_argument(name, inplace, "inplace"):
            return made
        if not isinstance(x, Tensor):
            hint = "Pass inplace=False to get a new tensor."
            raise ArgumentError(f"x must be a tensor, got {shown_argument(x)}", op=name, hint=hint)
        return x._update(made, name)

    return cast(F, call)
