"""Tensor: a small mutable handle on an immutable node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pullback.errors import ArgumentError, InPlaceError
from pullback.graph.boundary import boundary, boundary_methods
from pullback.graph.derivative_tokens import LeafDerivativeToken
from pullback.graph.dtypes import DType
from pullback.graph.node import Node
from pullback.lazy import settings
from pullback.lazy.cast_methods import CastMethods
from pullback.lazy.devices import device_of, devices_of
from pullback.lazy.foreign_names import ForeignNames
from pullback.lazy.gradient_methods import GradientMethods
from pullback.lazy.hooks import hooks
from pullback.lazy.host_value_methods import HostValueMethods
from pullback.lazy.in_place_methods import InPlaceMethods
from pullback.lazy.info import ShardInfo, shards_info
from pullback.lazy.methods import Methods
from pullback.lazy.operators import Operators, node_of
from pullback.lazy.protocol_methods import ProtocolMethods
from pullback.lazy.record import (
    bind_record_tensor,
    record_as_constant,
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
    TensorFields, HostValueMethods, GradientMethods, Operators, Methods, TorchMethods, TorchNames,
    CastMethods, InPlaceMethods, ProtocolMethods, ForeignNames,
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


bind_record_tensor(Tensor)
