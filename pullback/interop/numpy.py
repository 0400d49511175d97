"""NumPy functions on tensors: `np.exp(x)` calls `pb.exp(x)`, with its derivative.

A NumPy function runs as the pullback function of the same meaning if that supports all of its
arguments; otherwise NumPy computes it on the values. If a derivative passes through them, the
result would silently be a constant, so that is an error.

Functions are looked up by name when they are first called: those of NumPy itself in
`pullback.functions`, those of `numpy.linalg` and `numpy.fft` in the module of the same name, and
ufuncs of `scipy.special` in `pullback.special`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback import functions
from pullback.errors import ArgumentError, GradientCut
from pullback.functions.arguments import tensor_arguments
from pullback.interop.numpy_adapted import ADAPTED
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import read_cuts_backward, read_cuts_derivative, read_on_host
from pullback.lazy.tensor import Tensor

# Older names of NumPy, and the names of the array API standard
NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "power": "pow",
    "right_shift": "bitwise_right_shift", "true_divide": "divide", "amax": "max", "amin": "min",
    "around": "round", "concatenate": "concat", "mod": "remainder",
    "degrees": "rad2deg", "radians": "deg2rad",
}  # fmt: skip
_PARAMETERS = {"a_min": "min", "a_max": "max", "ddof": "correction"}
_SPECIAL = {"expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma"}  # of scipy.special
_OF_NAMESPACE = {"apply_along_axis", "apply_over_axes", "gcd", "lcm"}  # they use transforms
_SPECIAL_OF_NUMPY = {"i0", "sinc"}
# These return Python or NumPy values
_HOST = {"allclose", "array_equal", "array_equiv", "can_cast", "promote_types"}
# These write to their first argument and return None
_WRITERS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_MODULES = {"numpy.linalg": "linalg", "numpy.fft": "fft"}
# What the methods of a ufunc compute
_REDUCED = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any", "logaddexp": "logsumexp",
}  # fmt: skip
_ACCUMULATED = {
    "add": "cumulative_sum", "multiply": "cumulative_prod", "maximum": "cummax",
    "minimum": "cummin", "logaddexp": "cumlogsumexp",
}  # fmt: skip
# Options that change how NumPy computes, not what
_NO_EFFECT = {"casting", "copy", "kind", "overwrite_input"}
_WITHOUT_EFFECT = {"casting": "same_kind", "order": "K", "subok": True}

Function = Callable[..., Any]


def call_numpy_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, options: dict[str, Any]) -> Any:
    """Implement `Tensor.__array_ufunc__`."""
    out = options.pop("out", None)
    target = out[0] if out and len(out) == 1 and isinstance(out[0], Tensor) else None
    if out is None or target is not None:
        result = _call_our_numpy_ufunc(ufunc, method, inputs, dict(options), target)
        if result is not NotImplemented:
            return result
    if out is not None:
        options["out"] = out if len(out) > 1 else out[0]
    return _call_numpy_on_host(ufunc.__name__, getattr(ufunc, method), inputs, options)


def call_numpy_function(function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Implement `Tensor.__array_function__`."""
    target = kwargs.get("out")
    if function.__name__ in _WRITERS and not (args and isinstance(args[0], Tensor)):
        return _call_numpy_on_host(function.__name__, function, args, kwargs)
    if isinstance(target, Tensor):
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    ours = _counterpart_of_numpy(function)
    if ours is not None:
        bound = _bind_numpy_call(function, ours, args, kwargs)
        if bound is not None:
            result = ours(*bound.args, **bound.kwargs)
            if isinstance(target, Tensor):
                return _write_numpy_result(function.__name__, target, result)
            return None if function.__name__ in _WRITERS else result
    return _call_numpy_on_host(function.__name__, function, args, kwargs)


def _call_our_numpy_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple, options: dict[str, Any], target: Tensor | None
) -> Any:
    """Compute a ufunc or one of its methods here; NotImplemented if that is not possible."""
    name = ufunc.__name__
    for option, default in _WITHOUT_EFFECT.items():
        if options.pop(option, default) != default:
            return NotImplemented
    if method == "__call__":
        where = options.pop("where", True)
        call = _bind_numpy_ufunc_call(ufunc, inputs, options)
        if call is None:
            return NotImplemented
        result = call()
        if where is not True:
            if target is None:
                hint = "NumPy leaves the other elements undefined. Use pb.where."
                raise ArgumentError(f"np.{name}: where= needs out=", hint=hint)
            result = functions.where(where, result, target)
    else:
        call = _bind_numpy_ufunc_method(ufunc, method, inputs, options)
        if call is None:
            return NotImplemented
        result = call()
    return result if target is None else _write_numpy_result(name, target, result)


def _bind_numpy_ufunc_call(
    ufunc: np.ufunc, inputs: tuple, options: dict[str, Any]
) -> Callable[[], Any] | None:
    ours = _counterpart_of_numpy(ufunc)
    dtype = options.pop("dtype", None)
    if ours is None or _bound_numpy_call(_signature_of(ours), inputs, options) is None:
        return None
    if dtype is not None:
        inputs = tuple([functions.asarray(x, dtype=dtype) for x in inputs])
    return functools.partial(ours, *inputs, **options)


def _bind_numpy_ufunc_method(
    ufunc: np.ufunc, method: str, inputs: tuple, options: dict[str, Any]
) -> Callable[[], Any] | None:
    """Return a call that does what `np.add.reduce` and others do."""
    if method == "outer" and not options and (ours := _counterpart_of_numpy(ufunc)) is not None:
        x, y = tensor_arguments(*inputs)
        spread = functions.reshape(x, (*x.shape, *(1,) * y.ndim))
        return functools.partial(ours, spread, y)
    table = {"reduce": _REDUCED, "accumulate": _ACCUMULATED}.get(method, {})
    found = getattr(functions, table.get(ufunc.__name__, ""), None)
    if found is None:
        return None
    x, *more = inputs  # the axis and the dtype may be given by position
    options |= dict(zip(("axis", "dtype"), more, strict=False))
    options.setdefault("axis", 0)
    given = {name: value for name, value in options.items() if name == "axis" or value is not None}
    if _bound_numpy_call(_signature_of(found), (x,), given) is None:
        return None
    return functools.partial(found, x, **given)


def _write_numpy_result(name: str, target: Tensor, result: Any) -> Tensor:
    """Write a result to the tensor given as `out`."""
    return target._update(result, f"np.{name}(out=...)")


@functools.cache
def _counterpart_of_numpy(function: Any) -> Function | None:
    """The pullback function that means the same as a NumPy function."""
    name = function.__name__
    module = _MODULES.get(getattr(function, "__module__", None) or "")
    if module is not None:
        home = getattr(hooks.namespace, module)
        return ADAPTED.get(f"{module}.{name}") or getattr(home, name, None)
    special = sys.modules.get("scipy.special")
    if special is not None and getattr(special, name, None) is function:
        home = hooks.namespace.special
        return getattr(home, name, None) or getattr(functions, _SPECIAL.get(name, name), None)
    if getattr(np, name, None) is not function or name in _HOST:
        return None
    ours = ADAPTED.get(name) or getattr(functions, NAMES.get(name, name), None)
    if ours is None and name in _SPECIAL_OF_NUMPY:
        return getattr(hooks.namespace.special, name, None)
    if ours is None and name in _OF_NAMESPACE:
        return getattr(hooks.namespace, name)
    return ours


_signature_of = functools.cache(inspect.signature)


def _bind_numpy_call(
    function: Function, ours: Function, args: tuple, kwargs: dict[str, Any]
) -> inspect.BoundArguments | None:
    """Bind the arguments of a NumPy call to our function, or return None if it lacks an option.

    Operands go by position, options by name. Defaults of NumPy are left out.
    """
    signature = _signature_of(ours)
    try:
        given = _signature_of(function).bind(*args, **kwargs)
    except ValueError:  # NumPy does not know its signature: the arguments must fit as they are
        return _bound_numpy_call(signature, args, kwargs)
    operands: list[Any] = []
    options: dict[str, Any] = {}
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        called = name if name in signature.parameters else _PARAMETERS.get(name, name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            operands.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            options.update({_PARAMETERS.get(k, k): v for k, v in value.items()})
        elif parameter.default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            operands.append(value)
        elif value is parameter.default or called in _NO_EFFECT - signature.parameters.keys():
            continue
        elif called in signature.parameters:
            options[called] = value
        elif value is not None:
            return None
    if any(map(_is_object_for_numpy, operands)):
        return None
    return _bound_numpy_call(signature, operands, options)


def _is_object_for_numpy(x: Any) -> bool:
    """Whether NumPy would make an array of objects of an operand, as `plt.bar` lets it do."""
    return x is None or (isinstance(x, np.ndarray) and x.dtype == object)


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
    if lost and any(read_cuts_derivative(x) or read_cuts_backward(x) for x in found):
        what = "NumPy would compute on the values of a tensor that is being differentiated"
        hint = "Use a pullback function, or x.detach() to make the tensor a constant."
        raise GradientCut(f"np.{name}: {what}, and its derivative would be lost", hint=hint)
    return result


def _values_for_numpy(x: Any, found: list[Tensor]) -> Any:
    """Replace tensors among arguments by their values, and collect them in `found`."""
    if isinstance(x, Tensor):
        found.append(x)
        return read_on_host(x)
    if isinstance(x, (list, tuple)):
        return type(x)([_values_for_numpy(part, found) for part in x])
    if isinstance(x, dict):
        return {key: _values_for_numpy(part, found) for key, part in x.items()}
    return x


def _numpy_call_holds_floats(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_numpy_call_holds_floats, x))
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fcV"


hooks.call_ufunc, hooks.call_function = call_numpy_ufunc, call_numpy_function
