"""Checks of arguments that are not tensors: flags, integers, numbers, names and functions.

`validated` applies them to a public function by its annotations, so that a string for a flag or a
float for a count is refused before it can mean anything.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

from pullback.errors import ArgumentError, PullbackError
from pullback.graph.boundary import handles_boundary_errors, leave_boundary, refused_at_boundary

_LONGEST = 80  # of a value in a message
_INT64 = 2**63

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[str, Any, str], Any]  # of the function's name, the value and its name


def shown_argument(value: Any) -> str:
    """Return the type and the value of an argument, for a message."""
    if value is None:
        return "None"
    if type(value).__name__ == "Tensor" and _is_unchecked_argument(value):
        return f"a tensor {value._node.type}"
    text = repr(value)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{type(value).__name__} {text}"


def _is_unchecked_argument(value: Any) -> bool:
    """Whether a value is of a type of pullback, such as a number that is traced."""
    return type(value).__module__.startswith("pullback.")


def checked_flag_argument(op: str, value: Any, what: str) -> bool:
    """Return a flag: True or False, also of NumPy, or 1 or 0."""
    if type(value) is bool:
        return value
    if isinstance(value, (int, np.integer, np.bool_)) and value in (0, 1):
        return bool(value)
    raise ArgumentError(f"{what} must be True or False, got {shown_argument(value)}", op=op)


def checked_copy_argument(op: str, value: Any) -> bool | None:
    """Return the argument `copy` of a function: True, False, or None where that is left open."""
    return None if value is None else checked_flag_argument(op, value, "copy")


def checked_integer_argument(op: str, value: Any, what: str, bounded: bool = True) -> int:
    """Return `value` as a Python int, which must be one of 64 bits if it is `bounded`."""
    try:
        found = operator.index(value)
    except ArgumentError:  # a tensor that is no integer
        from pullback.suggestions.calls import INTEGER_HINTS

        message = f"{what} must be an integer, got {shown_argument(value)}"
        raise ArgumentError(message, op=op, hint=INTEGER_HINTS.get(op)) from None
    except PullbackError:  # a traced number
        raise
    except TypeError:
        raise ArgumentError(
            f"{what} must be an integer, got {shown_argument(value)}", op=op
        ) from None
    if bounded and not -_INT64 <= found < _INT64:
        raise ArgumentError(f"{what} must fit into 64 bits, got {shown_argument(value)}", op=op)
    return found


def real(op: str, value: Any, what: str, kinds: str = "biufV") -> Any:
    """Return a real number or an array, which the function itself converts."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")  # "V": types that NumPy lacks
    if isinstance(value, (int, float)) or (kind and kind in kinds) or _is_unchecked_argument(value):
        return value
    must = "a number" if "c" in kinds else "a real number"
    raise ArgumentError(f"{what} must be {must}, got {shown_argument(value)}", op=op)


def checked_number_argument(op: str, value: Any, what: str) -> Any:
    """Like `real`, but it may be complex."""
    return value if isinstance(value, complex) else real(op, value, what, "biufcV")


def text(op: str, value: Any, what: str) -> str:
    """Return a string."""
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{what} must be a string, got {shown_argument(value)}", op=op)


def checked_path_argument(op: str, value: Any, what: str) -> Any:
    """Return the path of a file."""
    if isinstance(value, (str, os.PathLike)):
        return value
    raise ArgumentError(f"{what} must be a path, got {shown_argument(value)}", op=op)


def checked_sequence_argument(op: str, value: Any, what: str) -> Any:
    """Return something with elements; a string is one value."""
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ArgumentError(f"{what} must be a sequence, got {shown_argument(value)}", op=op)
    return value


def checked_function_argument(op: str, value: Any, what: str) -> Callable:
    """Return something that can be called."""
    if callable(value):
        return value
    from pullback.suggestions.calls import FUNCTION_HINTS

    message = f"{what} must be a function, got {shown_argument(value)}"
    raise ArgumentError(message, op=op, hint=FUNCTION_HINTS.get(op))


# The check of a parameter whose annotation consists of these words; there is none for others.
_PACKAGES = ("fft", "linalg", "random", "special")  # whose functions are named with their package
_CHECKS: dict[frozenset[str], Check] = {
    frozenset(("bool",)): checked_flag_argument,
    frozenset(("int",)): checked_integer_argument,
    frozenset(("float",)): real,
    frozenset(("float", "Tensor")): real,
    frozenset(("Number", "Tensor")): checked_number_argument,
    frozenset(("str",)): text,
    frozenset(("str", "os", "PathLike")): checked_path_argument,
    frozenset(("Callable",)): checked_function_argument,
    frozenset(("Sequence",)): checked_sequence_argument,
}


def with_argument_checks(f: F) -> F:
    """Check the arguments of a public function by its annotations, unless they are defaults.

    Values of pullback's own types, such as numbers that are traced, are left to the function.
    """
    tests = []
    package = f.__module__.removeprefix("pullback.").split(".")[0]
    prefix = f"{package}." if package in _PACKAGES else ""
    op = f"{prefix}{f.__qualname__.removesuffix('.__init__')}"
    for i, (name, p) in enumerate(inspect.signature(f).parameters.items()):
        words = _checked_annotation_words(str(p.annotation))
        check = _CHECKS.get(words - {"None"})
        if check is not None and p.kind is not p.VAR_POSITIONAL:
            place = -1 if p.kind is p.KEYWORD_ONLY else i
            tests.append((place, name, None if "None" in words else p.default, check))

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            count = len(args)
            for i, name, default, check in tests:
                if 0 <= i < count:
                    value = args[i]
                elif name in kwargs:
                    value = kwargs[name]
                else:
                    continue
                if value is not default and (
                    check is checked_function_argument or not _is_unchecked_argument(value)
                ):
                    check(op, value, name)
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


def _checked_annotation_words(annotation: str) -> frozenset[str]:
    """Return the types that an annotation joins, without their parameters."""
    return frozenset(re.findall(r"\w+", re.sub(r"\[.*\]", "", annotation)))
