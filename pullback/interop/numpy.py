"""NumPy functions on tensors: `np.exp(x)` calls `pb.exp(x)`, with its derivative.

A NumPy function runs as the pullback function of the same meaning if that supports all of its
arguments; otherwise NumPy computes it on the values. If a derivative passes through them, the
result would silently be a constant, so that is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback import functions
from pullback.errors import ArgumentError, GradientCut
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import cuts_backward, cuts_derivative, read
from pullback.lazy.tensor import Tensor

# Older names of NumPy, and the names of the array API standard
NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "power": "pow",
    "right_shift": "bitwise_right_shift", "true_divide": "divide", "amax": "max", "amin": "min",
    "around": "round", "concatenate": "concat", "mod": "remainder",
}  # fmt: skip
_PARAMETERS = {"a_min": "min", "a_max": "max", "ddof": "correction"}
_HOST = {"allclose", "can_cast", "result_type"}  # these return Python or NumPy values
_WRITES = {"put_along_axis"}  # into its argument, where ours returns a new tensor

Function = Callable[..., Any]


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, options: dict[str, Any]) -> Any:
    """Implement `Tensor.__array_ufunc__`."""
    ours = _counterpart_of_numpy(ufunc)
    if ours is not None and method == "__call__" and not options:
        return ours(*inputs)
    return _call_numpy_on_host(ufunc.__name__, getattr(ufunc, method), inputs, options)


def call_function(function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Implement `Tensor.__array_function__`."""
    if function.__name__ in _WRITES:
        what = f"np.{function.__name__}: cannot write into a tensor"
        raise ArgumentError(what, hint=f"Write x = pb.{function.__name__}(x, ...).")
    ours = _counterpart_of_numpy(function)
    if ours is not None:
        bound = _bind_numpy_call(function, ours, args, kwargs)
        if bound is not None:
            return ours(*bound.args, **bound.kwargs)
    return _call_numpy_on_host(function.__name__, function, args, kwargs)


def _flat(x: Any) -> Tensor:
    return functions.reshape(x, (-1,))


def _numpy_along_last(f: Function) -> Function:
    """A function that NumPy applies to the last axis by default, and flattened for `axis=None`."""

    def apply(x: Any, axis: int | None = -1, stable: bool = True) -> Tensor:
        return f(_flat(x)) if axis is None else f(x, axis=axis)

    return apply


def _numpy_dot(a: Any, b: Any) -> Tensor:
    a, b = functions.asarray(a), functions.asarray(b)
    if not a.ndim or not b.ndim:
        return functions.multiply(a, b)
    return functions.tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def _numpy_trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Tensor:
    return functions.matrix_trace(a, offset, axis1, axis2, dtype)


# Functions that pullback does not have, or that take more arguments in NumPy
_ADAPTED: dict[str, Function] = {
    "shape": lambda a: a.shape, "ndim": lambda a: a.ndim, "ravel": _flat, "dot": _numpy_dot,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "trace": _numpy_trace,
    "sort": _numpy_along_last(functions.sort), "argsort": _numpy_along_last(functions.argsort),
    "outer": lambda a, b: functions.outer(_flat(a), _flat(b)),
}  # fmt: skip


def _counterpart_of_numpy(function: Any) -> Function | None:
    """The pullback function that means the same as a NumPy function."""
    name = function.__name__
    if getattr(np, name, None) is not function or name in _HOST:
        return None
    return _ADAPTED.get(name) or getattr(functions, NAMES.get(name, name), None)


def _bind_numpy_call(
    function: Function, ours: Function, args: tuple, kwargs: dict[str, Any]
) -> inspect.BoundArguments | None:
    """Bind the arguments of a NumPy call to our function, or return None if it lacks an option.

    Operands go by position, options by name.
    """
    signature = inspect.signature(ours)
    try:
        given = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # NumPy does not know its signature: the arguments must fit as they are
        return _bound_numpy_call(signature, args, kwargs)
    operands: list[Any] = []
    options: dict[str, Any] = {}
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        called = _PARAMETERS.get(name, name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            operands.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            options.update({_PARAMETERS.get(k, k): v for k, v in value.items()})
        elif parameter.default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            operands.append(value)
        elif called in signature.parameters:
            options[called] = value
        elif value is not parameter.default and value is not None:
            return None
    return _bound_numpy_call(signature, operands, options)


def _bound_numpy_call(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments | None:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def _call_numpy_on_host(name: str, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call a NumPy function on the values of tensors."""
    found: list[Tensor] = []
    values, options = _values_for_numpy(args, found), _values_for_numpy(kwargs, found)
    result = function(*values, **options)
    # a function that returns None has written its result somewhere
    lost = result is None or _numpy_call_holds_floats(result)
    if lost and any(cuts_derivative(x) or cuts_backward(x) for x in found):
        what = "NumPy would compute on the values of a tensor that is being differentiated"
        hint = "Use a pullback function, or x.detach() to make the tensor a constant."
        raise GradientCut(f"np.{name}: {what}, and its derivative would be lost", hint=hint)
    return result


def _values_for_numpy(x: Any, found: list[Tensor]) -> Any:
    """Replace tensors among arguments by their values, and collect them in `found`."""
    if isinstance(x, Tensor):
        found.append(x)
        return read(x)
    if isinstance(x, (list, tuple)):
        return type(x)([_values_for_numpy(part, found) for part in x])
    if isinstance(x, dict):
        return {key: _values_for_numpy(part, found) for key, part in x.items()}
    return x


def _numpy_call_holds_floats(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_numpy_call_holds_floats, x))
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fcV"


hooks.call_ufunc, hooks.call_function = call_ufunc, call_function
