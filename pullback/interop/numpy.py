"""NumPy's functions on tensors: `np.exp(x)` is `pb.exp(x)`, and is differentiated as that is.

A function that pullback has, and that is asked for nothing pullback's does not know, is called.
Any other is NumPy's own on the values. Where a derivative passes, what it computes would count as
a constant, which nobody asked for: that raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import functions
from pullback.errors import UnsupportedOp
from pullback.lazy.hooks import hooks
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor

# NumPy's older names, and what is called so here.
NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "power": "pow",
    "right_shift": "bitwise_right_shift", "true_divide": "divide", "amax": "max", "amin": "min",
    "around": "round", "concatenate": "concat", "mod": "remainder",
}  # fmt: skip
_PARAMETERS = {"a_min": "min", "a_max": "max", "ddof": "correction", "constant_values": "value"}
_HOST = {"allclose", "can_cast", "result_type"}  # whose answers are Python's, or NumPy's


def call_ufunc(function: Any, method: str, inputs: tuple, options: dict) -> Any:
    """What `__array_ufunc__` answers."""
    ours = _ours(function)
    if ours is not None and method == "__call__" and not options:
        return ours(*inputs)
    return _on_host(function.__name__, getattr(function, method), inputs, options)


def call_function(function: Any, args: tuple, kwargs: dict) -> Any:
    """What `__array_function__` answers."""
    ours = _ours(function)
    if ours is not None:
        bound = _bound(function, ours, args, kwargs)
        if bound is not None:
            return ours(*bound.args, **bound.kwargs)
    return _on_host(function.__name__, function, args, kwargs)


def _flat(x: Any) -> Tensor:
    return functions.reshape(x, (-1,))


def _along(f: Callable) -> Callable:
    """A function that NumPy applies to all elements in a row where no axis is given."""

    def apply(x: Any, *more: Any, axis: int | None = None) -> Tensor:
        return f(_flat(x), *more, axis=0) if axis is None else f(x, *more, axis=axis)

    return apply


def _along_last(f: Callable) -> Callable:
    """The same where NumPy takes the last axis if none is given, and `None` is all in a row."""

    def apply(x: Any, axis: int | None = -1, stable: bool = True) -> Tensor:
        return f(_flat(x)) if axis is None else f(x, axis=axis)

    return apply


def _dot(a: Any, b: Any) -> Tensor:
    a, b = functions.asarray(a), functions.asarray(b)
    if not a.ndim or not b.ndim:
        return functions.multiply(a, b)
    return functions.tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


# What pullback does not have under any name, or where NumPy takes more.
_KNOWN: dict[str, Callable] = {
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "ravel": _flat,
    "cumsum": _along(functions.cumulative_sum),
    "cumprod": _along(functions.cumulative_prod),
    "take": _along(functions.take),
    "sort": _along_last(functions.sort),
    "argsort": _along_last(functions.argsort),
    "outer": lambda a, b: functions.outer(_flat(a), _flat(b)),
    "dot": _dot,
}


def _ours(function: Any) -> Callable | None:
    """The function of pullback's that means the same."""
    name = function.__name__
    if getattr(np, name, None) is not function or name in _HOST:
        return None
    return _KNOWN.get(name) or getattr(functions, NAMES.get(name, name), None)


def _bound(function: Any, ours: Callable, args: tuple, kwargs: dict) -> Any:
    """The arguments of a call as those of our function; None if they say what it does not know.

    Operands go by position, all else by name.
    """
    mine = inspect.signature(ours)
    try:
        given = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # NumPy does not tell: then what is given must fit as it stands
        return _fitting(mine, args, kwargs)
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
        elif called in mine.parameters:
            options[called] = value
        elif value is not parameter.default and value is not None:
            return None
    return _fitting(mine, operands, options)


def _fitting(mine: inspect.Signature, args: Any, kwargs: dict) -> Any:
    try:
        return mine.bind(*args, **kwargs)
    except TypeError:
        return None


def _on_host(name: str, function: Callable, args: Any, kwargs: dict) -> Any:
    found: list[Tensor] = []
    values, options = _values(args, found), _values(kwargs, found)
    result = function(*values, **options)
    # what returns nothing has written values somewhere
    lost = result is None or _holds_floats(result)
    if lost and any(map(_is_differentiated, found)):
        raise UnsupportedOp(
            f"np.{name}: NumPy would compute on the values of a tensor that is being "
            "differentiated, and its derivative would be lost",
            hint="Use a function of pullback's, or x.detach() if it is to count as a constant.",
        )
    return result


def _values(x: Any, found: list[Tensor]) -> Any:
    """Arguments with arrays in place of tensors."""
    if isinstance(x, Tensor):
        found.append(x)
        return x.numpy()
    if isinstance(x, (list, tuple)):
        return type(x)([_values(part, found) for part in x])
    if isinstance(x, dict):
        return {key: _values(part, found) for key, part in x.items()}
    return x


def _is_differentiated(x: Tensor) -> bool:
    if not current().grad_enabled:
        return False
    return x._token is not None or any(t.alive for t in x._node.tokens)


def _holds_floats(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_holds_floats, x))
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fcV"


hooks.call_ufunc, hooks.call_function = call_ufunc, call_function
