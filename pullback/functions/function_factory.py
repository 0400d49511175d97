"""Factories for public functions that apply one op.

Each returns an ordinary function with its own name, signature, docstring and example, so that
`help`, `inspect.signature` and doctest treat it as one written out. Functions that are also methods
of Tensor are annotated: type checkers read them before the call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pullback.functions.arguments import (
    argument_node,
    axes_argument,
    float_arguments,
    float_node,
    operator_operands,
)
from pullback.functions.masked_reductions import masked_extremum_reduction, masked_for_reduction
from pullback.graph.boundary import handles_boundary_errors
from pullback.graph.node import Node
from pullback.lazy.operators import leave_operator
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.op import Op
from pullback.typing import ArrayLike, Axis


class UnaryFunction(Protocol):
    """A function of one array; as a class attribute, a method without arguments."""

    def __call__(self, x: ArrayLike) -> Tensor: ...
    def __get__(self, x: Any, owner: type | None = None, /) -> Callable[[], Tensor]: ...


class BinaryFunction(Protocol):
    """A function of two arrays, which broadcast."""

    def __call__(self, x1: ArrayLike, x2: ArrayLike) -> Tensor: ...
    def __get__(self, x: Any, owner: type | None = None, /) -> Callable[[ArrayLike], Tensor]: ...


class ReductionFunction(Protocol):
    """A function that combines elements over axes, perhaps only those that `where` selects."""

    def __call__(
        self, x: ArrayLike, axis: Axis = None, keepdims: bool = False,
        *, where: ArrayLike | None = None,
    ) -> Tensor: ...  # fmt: skip
    def __get__(self, x: Any, owner: type | None = None, /) -> BoundReductionFunction: ...


class BoundReductionFunction(Protocol):
    """A reduction as a method."""

    def __call__(
        self, axis: Axis = None, keepdims: bool = False, *, where: ArrayLike | None = None
    ) -> Tensor: ...


class ExtremumFunction(Protocol):
    """A reduction without a value for no elements, unless `initial` gives one."""

    def __call__(
        self, x: ArrayLike, axis: Axis = None, keepdims: bool = False,
        *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
    ) -> Tensor: ...  # fmt: skip
    def __get__(self, x: Any, owner: type | None = None, /) -> BoundExtremumFunction: ...


class BoundExtremumFunction(Protocol):
    """Such a reduction as a method."""

    def __call__(
        self, axis: Axis = None, keepdims: bool = False,
        *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
    ) -> Tensor: ...  # fmt: skip


def unary_function(
    name: str, op: type[Op], summary: str, example: str,
    operand: Callable[[ArrayLike], Node] = argument_node,
) -> UnaryFunction:  # fmt: skip
    """The function `name(x)` that applies `op` to `operand(x)`.

    `example` is the source text of arguments and result: "[1, 2] -> [-1, -2]".
    """
    instance = op()

    def function(x: ArrayLike) -> Tensor:
        try:
            return record(instance, (operand(x),))
        except BaseException as error:
            leave_operator(error, name, instance.title)
            raise

    return describe_factory_function(handles_boundary_errors(function), name, summary, example)


def float_unary(name: str, op: type[Op], summary: str, example: str) -> UnaryFunction:
    """Like `unary_function`, but integers and bools become the default float dtype."""
    return unary_function(name, op, summary, example, float_node)


def binary_function(
    name: str, op: type[Op], summary: str, example: str,
    operands: Callable[..., Sequence[Node]] = operator_operands,
) -> BinaryFunction:  # fmt: skip
    """The function `name(x1, x2)` that applies `op` to `operands(x1, x2)`."""
    instance = op()

    def function(x1: ArrayLike, x2: ArrayLike) -> Tensor:
        try:
            return record(instance, tuple(operands(x1, x2)))
        except BaseException as error:
            leave_operator(error, name, instance.title)
            raise

    return describe_factory_function(handles_boundary_errors(function), name, summary, example)


def float_binary_function(name: str, op: type[Op], summary: str, example: str) -> BinaryFunction:
    """Like `binary_function`, but two integers or bools become the default float dtype."""
    return binary_function(name, op, summary, example, float_arguments)


def reduction_function(
    name: str, op: Callable[[tuple[int, ...], bool], Op], neutral: Any, summary: str, example: str,
    operand: Callable[[ArrayLike], Node] = argument_node,
) -> ReductionFunction:  # fmt: skip
    """The function `name(x, axis, keepdims)` that applies `op(axes, keepdims)`. Elements that
    `where` leaves out are replaced by `neutral`."""

    def function(
        x: ArrayLike, axis: Axis = None, keepdims: bool = False,
        *, where: ArrayLike | None = None,
    ) -> Tensor:  # fmt: skip
        a = operand(x)
        if where is not None:
            a = masked_for_reduction(name, a, where, neutral)
        return record(op(axes_argument(name, axis, a.type.rank), keepdims), (a,))

    return describe_factory_function(function, name, summary, example)


def extremum_function(
    name: str, op: Callable[[tuple[int, ...], bool], Op], larger: bool, summary: str, example: str
) -> ExtremumFunction:
    """The function `name(x, axis, keepdims, initial, where)` that applies `op(axes, keepdims)`."""

    def function(
        x: ArrayLike, axis: Axis = None, keepdims: bool = False,
        *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
    ) -> Tensor:  # fmt: skip
        a = argument_node(x)
        made = op(axes_argument(name, axis, a.type.rank), keepdims)
        if initial is None and where is None:
            return record(made, (a,))
        return masked_extremum_reduction(name, made, larger, a, initial, where)

    return describe_factory_function(function, name, summary, example)


def describe_factory_function(function: Any, name: str, summary: str, example: str) -> Any:
    """Give a function its name, docstring and module: that which called a factory of this file."""
    arguments, result = example.split(" -> ")
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == __name__:
        frame = frame.f_back  # type: ignore[assignment]  # a module called the factory
    function.__name__ = function.__qualname__ = name
    function.__module__ = frame.f_globals["__name__"]
    parts = function.__module__.split(".")
    path = name if parts[1] == "functions" else f"{parts[1]}.{name}"
    function.__doc__ = f"{summary}\n\n>>> pb.{path}({arguments}).tolist()\n{result}\n"
    return function
