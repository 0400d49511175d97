"""Printing the values of tensors inside functions that run on placeholders."""

from __future__ import annotations

import string
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pullback.debug.debugged_function import debugged_host_values
from pullback.errors import ArgumentError
from pullback.graph.ambient import thread
from pullback.graph.dtypes import int32
from pullback.graph.node import constant_node
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.record import record_node
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.wrap.debug_print import DebugPrint, written_debug_print


def print(*values: Any, **named: Any) -> None:
    """Print values, also inside `compile`, `vmap`, `scan`, `cond` and other traced functions.

    As with Python's `print`, the values are joined with spaces. If the first is a string with
    replacement fields, the others fill them in, as `str.format` does.

    A traced function prints each time that its program runs: in a loop at every iteration, under
    `vmap` once for each example, in the order of the program.

    >>> @pb.compile
    ... def f(x):
    ...     pb.debug.print("x is {:.1f}, its square {y:.2f}", x, y=x * x)
    ...     return x + 1
    >>> f(pb.tensor(1.5)).item()
    x is 1.5, its square 2.25
    2.5
    """
    template, tensors = _printing_template(values, named)
    nodes = [node_of(asarray(x)) for x in tensors]
    try:  # a wrong specification must raise here, not while the program runs
        written_debug_print(template, [np.zeros(n.type.shape, n.type.dtype.numpy) for n in nodes])
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"debug.print: {error}") from None
    if thread.tracing_from:
        before = thread.prints or constant_node(0, int32)
        thread.prints = record_node(DebugPrint(template), before, *nodes)
    else:
        sys.stdout.write(written_debug_print(template, debugged_host_values(nodes)) + "\n")


def _printing_template(values: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The text with a numbered field for each tensor, and the tensors; other values are written."""
    tensors: list[Any] = []
    first, rest = (values[0], values[1:]) if values else ("", ())
    if not isinstance(first, str) or not (rest or named) or not _printing_has_fields(first):
        if named:
            what = f"there is no replacement field for {min(named)!r}"
            raise ArgumentError(
                f"debug.print: {what}", hint='Write "{name}" in the first argument.'
            )
        return " ".join([_printing_field(x, "", "", tensors) for x in values]), tensors
    parts, count = [], 0
    for text, name, spec, conversion in string.Formatter().parse(first):
        parts.append(_escaped_for_printing(text))
        if name is None:
            continue
        if not name:
            name, count = str(count), count + 1
        value = _looked_up_for_printing(name, rest, named)
        parts.append(_printing_field(value, spec or "", conversion or "", tensors))
    return "".join(parts), tensors


def _printing_has_fields(text: str) -> bool:
    try:
        return any(name is not None for _, name, _, _ in string.Formatter().parse(text))
    except ValueError:  # a single brace: it is only text
        return False


def _looked_up_for_printing(name: str, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The value of a replacement field, such as `0`, `loss` or `params[w]`."""
    try:
        return string.Formatter().get_field(name, values, named)[0]
    except (IndexError, KeyError, AttributeError, TypeError):
        message = f"debug.print: there is no value for the replacement field {{{name}}}"
        raise ArgumentError(message) from None


def _printing_field(value: Any, spec: str, conversion: str, tensors: list[Any]) -> str:
    """A field for a tensor, the text of another value."""
    if isinstance(value, (Tensor, TracedNumber)):
        tensors.append(value)
        return f"{{{len(tensors) - 1}{':' if spec else ''}{spec}}}"
    made = repr(value) if conversion == "r" else str(value) if conversion == "s" else value
    try:
        return _escaped_for_printing(format(made, spec))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"debug.print: {error}") from None


def _escaped_for_printing(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
