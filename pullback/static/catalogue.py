"""The error codes of the static IR, as data. Codes are never renumbered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from pullback.errors import ArgumentError, PullbackError

Params = ParamSpec("Params")
Result = TypeVar("Result")


class ErrorEntry(NamedTuple):
    """One code. Messages begin with its title; a `reserved` code keeps its number but cannot occur
    in this IR."""

    code: str
    title: str
    meaning: str
    reserved: bool = False


_ENTRIES = (
    ErrorEntry("E1001", "Invalid UTF-8 sequence", "invalid UTF-8"),
    ErrorEntry("E1002", "Invalid character", "invalid character"),
    ErrorEntry("E1003", "Unterminated string literal", "unterminated string"),
    ErrorEntry("E1004", "Invalid escape sequence", "invalid escape"),
    ErrorEntry("E1005", "Invalid numeric literal", "invalid number"),
    ErrorEntry("E1006", "Unterminated block comment", "unterminated comment", reserved=True),
    ErrorEntry("E2001", "Type mismatch", "type mismatch"),
    ErrorEntry("E2002", "Unresolved name", "undefined name", reserved=True),
    ErrorEntry("E2003", "Cannot infer type", "cannot infer type", reserved=True),
    ErrorEntry("E2004", "Dtype mismatch", "operand dtypes differ"),
    ErrorEntry("E2005", "Invalid dtype", "wrong dtype for the op or the profile"),
    ErrorEntry("E2006", "Trait bound not satisfied", "trait not satisfied", reserved=True),
    ErrorEntry("E2007", "Arity mismatch", "wrong number of operands or parameters"),
    ErrorEntry("E3001", "Broadcasting failed", "broadcasting fails"),
    ErrorEntry("E3002", "Rank mismatch", "rank mismatch"),
    ErrorEntry("E3003", "Dimension mismatch", "contracted dimensions differ"),
    ErrorEntry("E3004", "Invalid axis", "axis out of range"),
    ErrorEntry("E3005", "Duplicate axis", "duplicate axis"),
    ErrorEntry("E3006", "Invalid dimension", "dimension zero, negative or unknown"),
    ErrorEntry("E3007", "Element count mismatch", "element counts differ"),
    ErrorEntry("E3008", "Invalid permutation", "not a permutation"),
    ErrorEntry("E3009", "Squeeze dimension not 1", "squeezed dimension is not 1"),
    ErrorEntry("E3010", "Literal shape mismatch", "literal shape differs"),
    ErrorEntry("E4001", "Use before definition", "used before definition"),
    ErrorEntry("E4002", "Multiple definitions", "defined twice"),
    ErrorEntry("E4003", "Undefined output", "undefined output"),
    ErrorEntry("E4004", "Invalid input declaration", "bad input declaration"),
    ErrorEntry("E4005", "Invalid constant", "constant data does not fit its type"),
    ErrorEntry("E4006", "Index list length mismatch", "index list length"),
    ErrorEntry("E4007", "Slice length mismatch", "slice list lengths"),
    ErrorEntry("E4008", "Invalid slice step", "slice step not positive"),
    ErrorEntry("E4009", "Conv2d channel mismatch", "conv2d channels differ"),
    ErrorEntry("E4010", "Conv2d invalid strides", "conv2d strides"),
    ErrorEntry("E4011", "Gather invalid indices dtype", "gather indices not integer"),
    ErrorEntry("E5001", "Unsupported operation", "no derivative rule"),
    ErrorEntry("E5002", "Gradient verification failed", "gradient module fails verification"),
    ErrorEntry("E5003", "Invalid axis in gradient", "invalid axis in a gradient"),
    ErrorEntry("E5004", "Unsupported shape in gradient", "shape not supported in a gradient"),
    ErrorEntry("E5005", "Non-differentiable input", "input is not differentiable"),
    ErrorEntry("E6001", "Index out of bounds", "index out of bounds"),
    ErrorEntry("E6002", "Backend unavailable", "engine not available"),
    ErrorEntry(
        "E6003",
        "Unsupported operation",
        "op not known, or not supported by the profile or the engine",
    ),
    ErrorEntry("E6004", "Allocation failed", "allocation failed"),
    ErrorEntry("E6005", "Numeric overflow", "numeric overflow"),
    ErrorEntry("E6006", "Invalid numeric value", "invalid numeric value"),
    ErrorEntry("E6007", "Execution timeout", "time limit"),
    ErrorEntry("E6008", "Device error", "device error"),
)
CATALOGUE = {entry.code: entry for entry in _ENTRIES}
"""The errors of the static IR by their code, with title and meaning."""


def catalogued(f: Callable[Params, Result]) -> Callable[Params, Result]:
    """Make the errors of a function begin with their code and its title.

    A wrong call of the Python function itself has neither.
    """

    @functools.wraps(f)
    def checked(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return f(*args, **kwargs)
        except PullbackError as error:
            misused = type(error) is ArgumentError and error.code == ArgumentError.code
            if error.code in CATALOGUE and not misused:
                error.title = CATALOGUE[error.code].title
            raise

    return checked
