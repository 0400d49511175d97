"""Methods of Tensor that change the dtype or the device, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pullback.errors import ArgumentError, DTypeError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import boundary_methods
from pullback.graph.dtypes import DType
from pullback.graph.dtypes import dtype as dtype_of
from pullback.lazy.hooks import hooks

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.typing import DTypeLike


def _cast_method(name: str, dtype: str, shown_dtype: str) -> Callable[[Any], Tensor]:
    def cast(self: Any) -> Tensor:
        return hooks.functions.astype(self, dtype)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"""Return the elements as {dtype}.

    >>> pb.tensor([0, 1]).{name}().dtype
    {shown_dtype}
    """
    return cast


@boundary_methods
class CastMethods:
    """Conversions to a dtype or a device."""

    __slots__ = ()

    bfloat16 = _cast_method("bfloat16", "bfloat16", "bf16")
    bool = _cast_method("bool", "bool", "bool")
    byte = _cast_method("byte", "uint8", "u8")
    cdouble = _cast_method("cdouble", "complex128", "complex128")
    cfloat = _cast_method("cfloat", "complex64", "complex64")
    char = _cast_method("char", "int8", "i8")
    double = _cast_method("double", "float64", "f64")
    float = _cast_method("float", "float32", "f32")
    half = _cast_method("half", "float16", "f16")
    int = _cast_method("int", "int32", "i32")
    long = _cast_method("long", "int64", "i64")
    short = _cast_method("short", "int16", "i16")

    def type_as(self, other: Tensor) -> Tensor:
        """Return the elements in the dtype of another tensor.

        >>> pb.tensor([1, 2]).type_as(pb.tensor(0.5)).tolist()
        [1.0, 2.0]
        """
        return hooks.functions.astype(self, hooks.functions.asarray(other).dtype)

    def to(
        self, *args: Any, device: str | None = None, dtype: DTypeLike | None = None, **options: Any
    ) -> Tensor:
        """Return the tensor on another device, in another dtype, or in both like another tensor.

        >>> x = pb.tensor([1, 2])
        >>> x.to("float32").dtype, x.to("cpu:0").device, x.to(pb.tensor(0.5)).tolist()
        (f32, 'cpu:0', [1.0, 2.0])
        """
        wanted = {"device": device, "dtype": dtype}
        wrong = options.keys() - {"copy", "non_blocking"}  # a tensor has no memory to share
        if wrong:
            message = f"takes a device, a dtype or a tensor, got {sorted(wrong)}"
            raise ArgumentError(message, op="to")
        for name, value in _cast_method_targets(args, type(self)):
            if wanted[name] is not None:
                got = f"{shown_argument(value)} and {shown_argument(wanted[name])}"
                raise ArgumentError(f"the {name} is given twice, as {got}", op="to")
            wanted[name] = value
        made: Any = self
        if wanted["dtype"] is not None:
            made = hooks.functions.astype(self, wanted["dtype"])
        if wanted["device"] is not None:
            return hooks.functions.to_device(made, wanted["device"])
        return hooks.functions.positive(made) if made is self else made

    def cpu(self) -> Tensor:
        """Return the tensor on the first CPU.

        >>> pb.ones(2).cpu().device
        'cpu:0'
        """
        return hooks.functions.to_device(self, "cpu:0")

    def cuda(self, device: Any = None) -> Tensor:
        """Return the tensor on a GPU, given by its index or name; the first one by default.

        >>> pb.ones(2).cpu().device  # and x.cuda(1) for the second GPU
        'cpu:0'
        """
        name = device if isinstance(device, str) else f"cuda:{0 if device is None else device}"
        return hooks.functions.to_device(self, name)


def _cast_method_targets(args: tuple[Any, ...], tensor: type) -> Iterator[tuple[str, Any]]:
    """What the arguments of `to` say about the device and the dtype."""
    for given in args:
        if isinstance(given, tensor):
            other: Any = given
            yield from (("device", other.device), ("dtype", other.dtype))
        elif _cast_method_to_dtype(given):
            yield "dtype", given
        elif isinstance(given, str):
            yield "device", given
        else:
            message = f"takes a device, a dtype or a tensor, got {shown_argument(given)}"
            raise ArgumentError(message, op="to")


def _cast_method_to_dtype(value: Any) -> Any:
    """Whether `to` was given a dtype, rather than the name of a device."""
    if isinstance(value, str):
        try:
            dtype_of(value)
        except DTypeError:
            return False
        return True
    return isinstance(value, (DType, type)) or hasattr(value, "itemsize")
