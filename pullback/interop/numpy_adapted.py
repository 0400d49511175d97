"""Functions as NumPy calls them, where pullback has other defaults, another name, or none.

Their parameters have NumPy's names. A function that pullback has with the same meaning under the
same name needs no entry here.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import functions
from pullback.functions.arguments import tensor_arguments
from pullback.lazy.hooks import hooks
from pullback.lazy.tensor import Tensor

Function = Callable[..., Any]


def _adapted_flat(x: Any) -> Tensor:
    return functions.reshape(x, (-1,))


def _adapted_axis_default(f: Function, default: int | None) -> Function:
    """`f` as NumPy has it: flattened for `axis=None`, and with another default for `axis`."""
    signature = inspect.signature(f)
    parameters = [
        p.replace(default=default) if name == "axis" else p
        for name, p in signature.parameters.items()
    ]
    signature = signature.replace(parameters=parameters)

    @functools.wraps(f)
    def apply(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments["axis"] is None:
            first = next(iter(bound.arguments))
            bound.arguments |= {first: _adapted_flat(bound.arguments[first]), "axis": 0}
        return f(*bound.args, **bound.kwargs)

    apply.__signature__ = signature  # type: ignore[attr-defined]
    return apply


def _adapted_size(a: Any, axis: Any = None) -> int:
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([a.shape[i] for i in axes], dtype=np.int64))


def _adapted_dot(a: Any, b: Any) -> Tensor:
    if not np.ndim(a) or not np.ndim(b):
        return functions.multiply(a, b)
    a, b = tensor_arguments(a, b)
    return functions.tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def _adapted_apply_along_axis(
    func1d: Function, axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Tensor:
    return hooks.namespace.apply_along_axis(func1d, axis, arr, *args, **kwargs)


def _adapted_linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    ends = zip((start, stop), tensor_arguments(start, stop), strict=True)
    first, last = [x if np.ndim(x) == 0 else made for x, made in ends]
    result = functions.linspace(first, last, num, dtype=dtype, endpoint=endpoint)
    result = functions.moveaxis(result, 0, axis)
    if not retstep:
        return result
    steps = num - 1 if endpoint else num
    return result, (last - first) / (steps if steps > 0 else math.nan)


def _adapted_nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    made = functions.nan_to_num(x, nan, posinf, neginf)
    return made if copy else x._update(made, "np.nan_to_num(copy=False)")


def _adapted_where(condition: Any, *branches: Any) -> Any:
    return functions.where(condition, *branches) if branches else functions.nonzero(condition)


def _adapted_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """NumPy gives the places of the cuts, pullback the sizes of the parts."""
    x = functions.asarray(ary)
    if np.ndim(indices_or_sections) == 0:
        return functions.split(x, indices_or_sections, axis=axis)
    around = (slice(None),) * (axis % x.ndim)
    places = [None, *[int(i) for i in indices_or_sections], None]
    return [x[(*around, slice(*pair))] for pair in itertools.pairwise(places)]


def _adapted_trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Tensor:
    return functions.matrix_trace(a, offset, axis1, axis2, dtype)


def _adapted_copyto(dst: Tensor, src: Any, where: Any = True) -> Tensor:
    new = functions.broadcast_to(tensor_arguments(dst, src)[1], dst.shape)
    return dst._update(functions.where(where, new, dst), "np.copyto")


def _adapted_result_type(*arrays_and_dtypes: Any) -> np.dtype:
    known = [x.dtype.numpy if isinstance(x, Tensor) else x for x in arrays_and_dtypes]
    return np.result_type(*known)


def _adapted_linalg_norm(
    x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Tensor:
    """The norm of a vector or of a matrix, by the number of axes."""
    x = functions.asarray(x)
    axes = tuple(axis) if isinstance(axis, Sequence) else () if axis is None else (axis,)
    if ord is None:
        return functions.norm(x, axis=axes or None, keepdims=keepdims)
    if len(axes) == 1 or (not axes and x.ndim == 1):
        return functions.norm(x, axis=axes or None, keepdims=keepdims, ord=ord)
    rows, columns = axes or (0, 1)
    moved = functions.moveaxis(x, (rows, columns), (-2, -1))
    found = hooks.namespace.linalg.matrix_norm(moved, ord=ord)
    kept = tuple(sorted(i % x.ndim for i in (rows, columns)))
    return functions.expand_dims(found, kept) if keepdims else found


def _adapted_svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    linalg = hooks.namespace.linalg
    if hermitian:  # as NumPy, which reads one triangle only
        a = functions.tril(a) + functions.conj(functions.tril(a, -1)).mT
    return linalg.svd(a, full_matrices=full_matrices) if compute_uv else linalg.svdvals(a)


def _adapted_qr(a: Any, mode: str = "reduced") -> Any:
    linalg = hooks.namespace.linalg
    return linalg.qr(a)[1] if mode == "r" else linalg.qr(a, mode=mode)


# By the name that NumPy has them under, with the module if that is not numpy itself
ADAPTED: dict[str, Function] = {
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": _adapted_size,
    "iscomplexobj": lambda x: x.dtype.is_complex,
    "isrealobj": lambda x: not x.dtype.is_complex,
    "result_type": _adapted_result_type,
    "copy": functions.positive,
    "copyto": _adapted_copyto,
    "nan_to_num": _adapted_nan_to_num,
    "dot": _adapted_dot,
    "outer": lambda a, b: functions.outer(_adapted_flat(a), _adapted_flat(b)),
    "linspace": _adapted_linspace,
    "apply_along_axis": _adapted_apply_along_axis,
    "apply_over_axes": lambda func, a, axes: hooks.namespace.apply_over_axes(func, a, axes),
    "where": _adapted_where,
    "split": _adapted_split,
    "trace": _adapted_trace,
    "divmod": lambda x1, x2: (functions.floor_divide(x1, x2), functions.remainder(x1, x2)),
    "cumsum": _adapted_axis_default(functions.cumulative_sum, None),
    "cumprod": _adapted_axis_default(functions.cumulative_prod, None),
    "sort": _adapted_axis_default(functions.sort, -1),
    "argsort": _adapted_axis_default(functions.argsort, -1),
    "take": _adapted_axis_default(functions.take, None),
    "linalg.norm": _adapted_linalg_norm,
    "linalg.svd": _adapted_svd,
    "linalg.qr": _adapted_qr,
}
