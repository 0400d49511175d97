"""Create tensors from data on the host."""

from __future__ import annotations

from array import array as BufferArray
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.engines.engine_registry import engine_for
from pullback.engines.limits import physical_memory
from pullback.errors import ArgumentError, DTypeError, OutOfMemory
from pullback.graph.argument_checks import checked_copy_argument
from pullback.graph.dtypes import BY_NUMPY, DType, complex64, complex128, float64, int64, uint64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.devices import layout_on_named_device
from pullback.lazy.hooks import hooks
from pullback.lazy.numpy_precision import mark_numpy_precision
from pullback.lazy.operators import node_of
from pullback.lazy.settings import current, user_dtype
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.sources import leaf_source

if TYPE_CHECKING:
    from pullback.sharding.spec import Sharding
    from pullback.typing import ArrayLike, DTypeLike


def tensor(
    data: ArrayLike, dtype: DTypeLike | None = None, requires_grad: bool = False,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Return a new tensor with a copy of `data`: a number, a nested list, an array or a tensor.

    A Python float gives f32, an int i64, a complex complex64; arrays keep their dtype. `device` is
    a name such as `cpu:1`; by default that of `default_device`.

    >>> import pullback as pb
    >>> pb.tensor([[1, 2], [3, 4]]).dtype
    i64
    """
    made = asarray(data, dtype, device)
    if made is data:
        made = wrap(node_of(made))
    if requires_grad is not False:
        made.requires_grad = requires_grad
    return made


def asarray(
    data: ArrayLike, dtype: DTypeLike | None = None, device: str | None = None, *,
    copy: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return `data` as a tensor; a tensor with the right dtype is returned unchanged.

    Other data is copied. With `copy=False` the tensor shares memory with `data`, which must not be
    written to any more; if it cannot be shared, that is an error. With `copy=True` the result is a
    tensor of its own.

    >>> import pullback as pb
    >>> import numpy as np
    >>> pb.asarray(np.float32(2)).dtype
    f32
    """
    if copy is not None:
        copy = checked_copy_argument("asarray", copy)
    if device is not None:
        return _host_data_on_device(data, dtype, device, copy)
    wanted = None if dtype is None else user_dtype("tensor", dtype)
    if isinstance(data, Tensor):
        if wanted is None or data.dtype is wanted:
            return wrap(node_of(data)) if copy else data
        if copy is False:
            raise _must_copy_host(f"the tensor is {data._node.type}, not {wanted}")
        return data.astype(wanted)
    if hasattr(data, "__dlpack__") and not isinstance(data, (np.ndarray, np.generic)):
        return asarray(hooks.dlpack.imported_dlpack(data, None, copy), dtype, copy=copy)
    if copy is False:
        return from_host(_shared_host_data(data, wanted))
    if isinstance(data, TracedNumber):
        return wrap(data.cast(data.strong() if wanted is None else wanted))
    if isinstance(data, (list, tuple)) and _host_data_holds_tensors(data):
        return hooks.stack(data if wanted is None else [asarray(row, wanted) for row in data])
    try:
        made = from_host(_host_array(data, wanted))
    except MemoryError:
        what = f"there is not enough memory to copy {_shown_host_data(data)}"
        raise OutOfMemory(what, op="tensor") from None
    if wanted is None and isinstance(data, np.ndarray):
        mark_numpy_precision(made._node)
    return made


def _host_data_on_device(
    data: ArrayLike, dtype: DTypeLike | None, device: str, copy: bool | None
) -> Tensor:
    place = layout_on_named_device("tensor", device)  # raises if there is none
    made = asarray(data, dtype, copy=copy)
    if copy is False and made.sharding is place:
        return made
    if copy is False:
        raise _must_copy_host(f"the data is on {made.device}, not on {device}")
    return hooks.functions.to_device(made, device)


def _must_copy_host(why: str) -> ArgumentError:
    hint = "Leave out copy=False to allow a copy."
    return ArgumentError(f"copy=False, but {why}", op="asarray", hint=hint)


def _shared_host_data(data: Any, wanted: DType | None) -> np.ndarray:
    """Return an array with the memory of another one."""
    if not isinstance(data, np.ndarray):
        raise _must_copy_host(f"a {type(data).__name__} has no memory to share")
    if data.dtype not in BY_NUMPY or (wanted is not None and data.dtype != wanted.numpy):
        raise _must_copy_host(f"the data is {data.dtype}" + (f", not {wanted}" if wanted else ""))
    if not (data.flags.c_contiguous and data.flags.aligned):
        raise _must_copy_host("the elements are not contiguous in row-major order")
    return data.view(np.ndarray)


def from_host(array: np.ndarray) -> Tensor:
    """Return a tensor with the memory of an array, which nothing else may write to."""
    place = current().place
    if place is not None:
        return host_data_on_mesh(array, place)
    array.flags.writeable = False
    return wrap(leaf_source(Type(array.shape, dtype_of(array.dtype)), array))


def length_of_host_data(data: Any) -> int | None:
    """Return the length of a sequence, None of something else; refuse one that no memory holds."""
    try:
        count = len(data)
    except TypeError:  # a number, or an iterator
        return None
    except OverflowError:
        count = 2**63
    if 8 * count > physical_memory() and not hasattr(data, "dtype"):
        raise OutOfMemory(f"a {type(data).__name__} with {count} elements does not fit into memory")
    return count


def host_data_on_mesh(array: np.ndarray, place: Sharding) -> Tensor:
    """Return a tensor with a copy of an array on the devices of a mesh."""
    type = Type(array.shape, dtype_of(array.dtype)).sharded(place)
    return wrap(leaf_source(type, engine_for(current(), place.mesh).put(array, type)))


def _refused_host_data(data: Any, dtype: np.dtype) -> DTypeError:
    """The error for data that is no array of numbers."""
    if isinstance(data, Node):
        what = "tensor: got a node of a program, not a tensor"
        hint = 'Rules of ops are formulas on nodes: x * y, or pb.op("Sin")(x) instead of pb.sin(x).'
        return DTypeError(what, hint=hint)
    return DTypeError(f"tensor: cannot hold {type(data).__name__} data of dtype {dtype}")


def _host_array(data: Any, wanted: DType | None) -> np.ndarray:
    length_of_host_data(data)  # NumPy reads objects with a length element by element
    buffers = (np.ndarray, np.generic, memoryview, bytearray, BufferArray)
    has_dtype = isinstance(data, buffers) or hasattr(data, "__array__")
    try:
        array = np.array(data, order="C", copy=True)
    except ValueError:
        raise ArgumentError("tensor: nested lists must have equal lengths at each depth") from None
    if not has_dtype and array.dtype.kind == "f":
        array = _exact_host_data_integers(data, array, wanted)
    if array.dtype == object and all(isinstance(v, int) for v in array.flat):
        raise DTypeError(f"tensor: an integer does not fit into {wanted or int64}")
    if array.dtype.kind in "OUSmMV" and array.dtype.newbyteorder("=") not in BY_NUMPY:
        raise _refused_host_data(data, array.dtype)
    if wanted is None and not has_dtype:
        wanted = _default_host_dtype(array.dtype)
    if wanted is not None and array.dtype != wanted.numpy:
        if wanted.is_integer and array.dtype.kind in "iu" and array.size:
            _check_host_data_range(array, wanted)
        with np.errstate(all="ignore"):
            array = array.astype(wanted.numpy)
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _exact_host_data_integers(data: Any, array: np.ndarray, wanted: DType | None) -> np.ndarray:
    """Return integers as they are; NumPy makes floats of them if only some are beyond i64."""
    if not array.size or not (np.abs(array) >= 2.0**63).any():
        return array
    exact = np.array(data, dtype=object)
    if not all(isinstance(v, int) for v in exact.flat) or (wanted and not wanted.is_integer):
        return array
    if wanted is uint64 and all(0 <= v < 2**64 for v in exact.flat):
        return exact.astype(np.uint64)
    return exact


def _shown_host_data(data: Any) -> str:
    shape = getattr(data, "shape", None)
    return f"a {type(data).__name__}" + ("" if shape is None else f" of shape {list(shape)}")


def _default_host_dtype(found: np.dtype) -> DType | None:
    """Return the dtype of Python numbers of a kind; that of floats is a setting."""
    wide = current().default_dtype is float64
    if found.kind == "f":
        return current().default_dtype
    if found.kind == "c":
        return complex128 if wide else complex64
    return int64 if found.kind in "iu" else None


def _check_host_data_range(array: np.ndarray, wanted: DType) -> None:
    limits = np.iinfo(wanted.numpy)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        value = low if low < limits.min else high
        raise DTypeError(f"tensor: {value} does not fit into {wanted}")


def _host_data_holds_tensors(data: Any) -> bool:
    return any(
        isinstance(x, (Tensor, TracedNumber))
        or (isinstance(x, (list, tuple)) and _host_data_holds_tensors(x))
        for x in data
    )


hooks.asarray = asarray
