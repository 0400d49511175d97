"""StableHLO's broadcast_in_dim."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.errors import ShapeError
from pullback.ops.prelude import Composite, Imported, Node, Op, Text, Type
from pullback.ops.samples import real
from pullback.ops.shape.movement import Broadcast, Reshape, Transpose


class BroadcastInDim(Composite):
    """Broadcasts to `shape`: dimension i of the operand becomes dimension `dims[i]`."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    text = Text(("shape", "dims"))
    kinds: ClassVar[str] = "biufc"
    imported = Imported(("broadcast_in_dim",), last=True)
    int_fields = ("shape", "dims")

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.types[0].shape, i["broadcast_dimensions"])

    def infer(self, x: Type) -> Type:
        rank = len(self.shape)
        fits = len(set(self.dims)) == len(self.dims) == x.rank
        fits = fits and all(0 <= d < rank for d in self.dims)
        if not fits or any(n not in (1, self.shape[d]) for n, d in zip(x.shape, self.dims)):
            raise ShapeError(
                f"dims must be {x.rank} different dimensions of {list(self.shape)} with the "
                f"operand's sizes, or size 1 in the operand, got {list(self.dims)} for {x}",
                code="E3001",
            )
        return x.with_shape(self.shape)

    def expand(self, x: Node) -> Node:
        order = tuple(sorted(range(len(self.dims)), key=self.dims.__getitem__))
        if order != tuple(range(len(order))):
            x = Transpose(order)(x)
        extents = iter(x.type.shape)
        aligned = [next(extents) if d in self.dims else 1 for d in range(len(self.shape))]
        return Broadcast(self.shape)(Reshape(tuple(aligned))(x))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.broadcast_in_dim(x, self.shape, self.dims)

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 3, 4), (0, 2)), (real(2, 4),)
        yield cls((3, 2, 2), (2, 0)), (real(2, 3),)
        yield cls((2, 3), (0, 1)), (real(2, 1),)
        yield cls((2, 0), ()), (real(),)
