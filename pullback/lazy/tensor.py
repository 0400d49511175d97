"""Tensor: a small mutable handle on an immutable node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, InPlaceError, NonDifferentiableInput
from pullback.graph.argument_checks import checked_flag_argument
from pullback.graph.boundary import boundary, boundary_methods
from pullback.graph.derivative_tokens import LeafDerivativeToken, tokens_require_gradient
from pullback.graph.dtypes import DType
from pullback.graph.html import html_array
from pullback.graph.node import Node
from pullback.lazy import settings
from pullback.lazy.backward import backward
from pullback.lazy.cast_methods import CastMethods
from pullback.lazy.devices import device_of, devices_of
from pullback.lazy.foreign_names import ForeignNames
from pullback.lazy.frozen import is_frozen, note_frozen
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import (
    has_value,
    read_on_host,
    refuse_host_read_cut,
    require_host_values,
    warn_of_cut,
)
from pullback.lazy.in_place_methods import InPlaceMethods
from pullback.lazy.info import ShardInfo, shards_info
from pullback.lazy.methods import Methods
from pullback.lazy.operators import Operators, node_of
from pullback.lazy.pending import compute_pending
from pullback.lazy.protocol_methods import ProtocolMethods
from pullback.lazy.record import (
    bind_record_tensor,
    record_as_constant,
    record_as_leaf,
    refuse_write_of_recorded,
    register,
    wrap,
)
from pullback.lazy.tensor_fields import TensorFields
from pullback.lazy.torch_methods import TorchMethods
from pullback.lazy.torch_names import TorchNames

if TYPE_CHECKING:
    from pullback.sharding.spec import Sharding
    from pullback.typing import ArrayLike


@boundary_methods
class Tensor(
    TensorFields, Operators, Methods, TorchMethods, TorchNames, CastMethods, InPlaceMethods,
    ProtocolMethods, ForeignNames,
):  # fmt: skip
    """An n-dimensional array with a known shape and dtype, whose value is computed when needed.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0, 3.0])
    >>> y = (x * x).sum()
    >>> y.shape, y.dtype
    ((), f32)
    >>> y.item()
    14.0
    """

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = object.__hash__

    _node: Node
    _token: LeafDerivativeToken | None  # of a leaf that requires a gradient
    _grad: Tensor | None

    def __init__(self) -> None:
        raise ArgumentError("Tensor: create one with pb.tensor(data) or pb.asarray(data)")

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension.

        >>> pb.ones((2, 3)).shape
        (2, 3)
        """
        return self._node.type.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements.

        >>> pb.tensor([1, 2]).dtype
        i64
        """
        return self._node.type.dtype

    @property
    def sharding(self) -> Sharding | None:
        """The layout on a mesh of devices, or None if the tensor is on no mesh.

        >>> pb.ones(4).shard(pb.DeviceMesh(1, "dp"), pb.P("dp")).sharding.spec
        P('dp')
        """
        return self._node.type.sharding

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of the shard on each device; the shape itself if the tensor is on no mesh.

        >>> pb.ones(4).shard(pb.DeviceMesh(1, "dp"), pb.P("dp")).local_shape
        (4,)
        """
        sharding = self._node.type.sharding
        return self.shape if sharding is None else sharding.local_shape(self.shape)

    def shards(self) -> list[ShardInfo]:
        """Return the shards on the devices of this process as a list of
        `Shard(position, device, index, data)`, in the order of the mesh, without padding.

        >>> [s.data.tolist() for s in pb.ones(2).shard(pb.DeviceMesh(1, "dp"), pb.P("dp")).shards()]
        [[1.0, 1.0]]
        """
        return shards_info(self)

    @property
    @boundary
    def device(self) -> str:
        """The device of the tensor, such as `cpu:0`; an error if it is on several.

        >>> pb.ones(2).to_device("cpu:0").device
        'cpu:0'
        """
        return device_of(self)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that have the value or shards of it, in the order of the mesh.

        >>> pb.ones(2).to_device("cpu:0").devices
        ('cpu:0',)
        """
        return devices_of(self)

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> pb.ones((2, 3)).ndim
        2
        """
        return len(self._node.type.shape)

    @property
    def size(self) -> int:
        """The number of elements. (The sizes of the dimensions are `shape`.)

        >>> pb.ones((2, 3)).size
        6
        """
        return self._node.type.size

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements.

        >>> pb.ones((2, 3)).nbytes
        24
        """
        return self.size * self.dtype.numpy.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len: a rank-0 tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise ArgumentError("iteration over a rank-0 tensor")
        return (self[i] for i in range(self.shape[0]))

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the value as a read-only NumPy array.

        Inside a function that is being differentiated, write `x.detach().numpy()`: the array is a
        constant of the derivative.

        >>> pb.tensor([1, 2]).numpy()
        array([1, 2])
        """
        refuse_host_read_cut(self, "numpy")
        return read_on_host(self)

    def wait(self) -> Tensor:
        """Return this tensor when its value has been computed, without copying it to the host.

        >>> import pullback as pb
        >>> pb.ones(3).sum().wait().item()
        3.0
        """
        return hooks.wait(self)

    def tobytes(self) -> bytes:
        """Return the bytes of the elements, in row-major order.

        >>> pb.tensor([1, 2], dtype="int8").tobytes()
        b'\\x01\\x02'
        """
        refuse_host_read_cut(self, "tobytes")
        return read_on_host(self).tobytes()

    def item(self, *index: int) -> Any:
        """Return the value of a tensor with one element, or of the one at an index, as a Python
        number. One index counts the elements in row-major order.

        >>> pb.tensor([[1.5]]).item(), pb.tensor([[1, 2], [3, 4]]).item(2)
        (1.5, 3)
        """
        if index:
            place: Any = index[0] if len(index) == 1 else index
            if isinstance(place, (tuple, list)):
                return self[tuple(place)].item()
            return hooks.functions.flatten(self)[place].item()
        if self.size != 1:
            raise ArgumentError(f"item: needs one element, got {self._node.type}")
        return read_on_host(self).item()

    def tolist(self) -> Any:
        """Return the value as a nested list of Python numbers.

        >>> pb.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        refuse_host_read_cut(self, "tolist")
        return read_on_host(self).tolist()

    def _scalar(self, what: str) -> Any:
        if self.size != 1:
            raise ArgumentError(
                f"{what}: needs one element, got {self._node.type}",
                hint="Reduce it first, with .any(), .all() or .sum()." if what == "bool" else None,
            )  # fmt: skip
        if what in ("int", "float") and self.dtype.is_complex:
            hint = f"Write {what}(x.real), or complex(x)."
            raise DTypeError(f"{what}: needs a real number, got {self._node.type}", hint=hint)
        require_host_values(what, [self._node])
        return read_on_host(self).reshape(())[()]

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        warn_of_cut(self, "int()")
        return int(self._scalar("int"))

    def __float__(self) -> float:
        warn_of_cut(self, "float()")  # also called by `math.exp(x)`
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        warn_of_cut(self, "complex()")
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer or self.shape:
            raise ArgumentError(f"index: needs an integer tensor of rank 0, got {self._node.type}")
        return int(self._scalar("index"))

    def __repr__(self) -> str:
        layout = "" if self.sharding is None else f", {self.sharding.spec}"
        if not has_value(self):
            return f"Tensor({self._node.type}{layout})"
        body = np.array2string(read_on_host(self), separator=", ", prefix="Tensor(")
        grad = ", requires_grad=True" if self.requires_grad else ""
        hidden = not self.size or self.size > np.get_printoptions()["threshold"]
        shape = f", shape={self.shape}" if hidden and self.shape != (0,) else ""
        return f"Tensor({body}, {self.dtype}{shape}{layout}{grad})"

    def _repr_html_(self) -> str:
        """Show the type and a small table of the values in a notebook."""
        layout = "" if self.sharding is None else f", {self.sharding.spec} on {self.sharding.mesh}"
        grad = ", requires_grad=True" if self.requires_grad else ""
        title = f"Tensor {self._node.type.plain}{layout}{grad}"
        return html_array(title, read_on_host(self) if has_value(self) else None)

    def __str__(self) -> str:
        return str(read_on_host(self)) if has_value(self) else repr(self)

    def __format__(self, spec: str) -> str:
        if not has_value(self):
            return repr(self)  # formats for numbers do not apply
        return format(self.item() if spec else str(self), spec)

    @property
    def requires_grad(self) -> bool:
        """Whether `backward()` finds gradients for this tensor, or through it.

        >>> x = pb.tensor([1.0, 2.0])
        >>> x.requires_grad = True
        >>> (x * 2).requires_grad
        True
        """
        return self._token is not None or tokens_require_gradient(self._node.tokens)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        on = checked_flag_argument("requires_grad", on, "the value")
        if not self.is_leaf:
            raise ArgumentError(
                "requires_grad: can only be set on a leaf, this tensor was computed from one that "
                "requires a gradient",
                hint="Write x.detach() first to make a new leaf with its value.",
            )
        if on and not self.dtype.is_inexact:
            what = f"needs float or complex elements, got {self._node.type}"
            raise NonDifferentiableInput(f"requires_grad: {what}")
        if any(t.alive and not t.leaf for t in self._node.tokens):
            raise ArgumentError(
                "requires_grad: this tensor depends on the argument of a derivative in progress, "
                "which would be cut here",
                hint="Write x.detach() first to make it a constant of that derivative.",
            )
        _compute_tensor(self)
        if self._token is not None:
            self._token.released = not on
        token = LeafDerivativeToken(self) if on else None
        self._node = record_as_leaf(self._node, (token,) if on else ())
        self._token = token
        note_frozen(self, on)

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was not computed from tensors that require a gradient.

        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self._token is not None or not self.requires_grad

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` accumulated. Only leaves have one.

        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        if not self.is_leaf:
            raise ArgumentError(
                "grad: only leaves keep a gradient, this tensor was computed",
                hint="Differentiate with respect to intermediate values with pb.grad or pb.vjp.",
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and (value.shape, value.dtype) != (self.shape, self.dtype):
            what = f"a gradient of {self._node.type} must have that type, got {value._node.type}"
            raise ArgumentError(f"grad: {what}")
        self._grad = value

    def zero_grad(self) -> None:
        """Set `grad` to None.

        >>> x = pb.tensor(3.0, requires_grad=True)
        >>> (x * x).backward()
        >>> x.zero_grad()
        >>> x.grad is None
        True
        """
        self._grad = None

    def backward(self) -> None:
        """Accumulate the gradient of this scalar into `.grad` of every leaf that requires one.

        >>> import pullback as pb
        >>> w = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> w.grad.tolist()
        [2.0, 4.0]
        """
        backward(self)

    def detach(self) -> Tensor:
        """Return the same value as a constant of every derivative.

        >>> pb.grad(lambda x: x * x.detach())(pb.tensor(3.0)).item()
        3.0
        """
        return hooks.stop_gradient(self)

    def __copy__(self) -> Tensor:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict) -> Tensor:
        """Return a copy; that of a leaf that requires a gradient has its own gradient."""
        memo[id(self)] = copy = wrap(self._node)
        if self._token is not None:
            _compute_tensor(self)
            copy._node = record_as_leaf(self._node, ())
            copy.requires_grad = True
            copy._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        elif is_frozen(self):
            note_frozen(copy, False)
        return copy

    def __reduce__(self) -> tuple:
        refuse_host_read_cut(self, "pickling")
        requires_grad = None if is_frozen(self) else self._token is not None
        return _unpickled_tensor, (read_on_host(self), requires_grad, self.sharding)

    def assign(self, value: ArrayLike) -> Tensor:
        """Set the value of this tensor, keeping its shape, dtype and sharding.

        >>> pb.zeros(2).assign([1, 2]).tolist()
        [1.0, 2.0]
        """
        x = hooks.asarray(value, dtype=self.dtype)
        if x.shape != self.shape:
            raise ArgumentError(f"assign: the value must be {self._node.type}, got {x._node.type}")
        return self._rebind(node_of(x), "assign")

    def _rebind(self, node: Node, what: str) -> Tensor:
        refuse_write_of_recorded(self, what)
        if self._node.type.sharding is not None:  # a tensor keeps its sharding
            node = hooks.reshard(wrap(node), self._node.type.sharding)._node
        if self._token is not None:
            if settings.current().grad_enabled:
                raise InPlaceError(
                    f"{what}: {self._node.type} is a leaf that requires a gradient and cannot be "
                    "changed in place",
                    hint="A derivative may still need its old value. Write `x = x + ...` to make a "
                    "new tensor,\nor change it inside `with pb.no_grad():`.",
                )
            node = record_as_constant(node)
        self._node = node
        if node.value is None:
            register(self)
        return self


def _compute_tensor(tensor: Tensor) -> None:
    """Compute a tensor that becomes a leaf."""
    if tensor._node.value is None:
        require_host_values("requires_grad", [tensor._node])
        compute_pending([tensor._node])


def _unpickled_tensor(
    array: np.ndarray, requires_grad: bool | None, sharding: Sharding | None = None
) -> Tensor:
    """Return a tensor; `requires_grad` is None if it was frozen."""
    made = hooks.asarray(array)
    if sharding is not None:
        made = hooks.reshard(made, sharding)
    if requires_grad is None or requires_grad:
        made.requires_grad = bool(requires_grad)
    return made


bind_record_tensor(Tensor)
