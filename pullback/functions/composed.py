"""The decorator of public functions that are written with other public functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pullback.errors import PullbackError
from pullback.graph.ambient import thread
from pullback.graph.arguments import validated
from pullback.graph.where import user_line

F = TypeVar("F", bound=Callable[..., Any])


def composed(f: F) -> F:
    """Record all ops of `f` at the line of its caller, name `f` in errors that this line causes,
    and check arguments by their annotations.

    A function that calls one of the user does not use it: its ops and errors are the user's.
    """
    checked = validated(f)
    name = f.__name__

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
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
