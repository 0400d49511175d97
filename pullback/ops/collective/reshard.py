"""Reshard: the same value in another layout on a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from pullback.ops.collective.all_reduce import Collective
from pullback.ops.prelude import Axis, Node, Type, jvp_in_first, laid_out
from pullback.ops.samples import real
from pullback.ops.text import Text
from pullback.ops.wrap.identity import IdentityOp
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import P, Sharding, layout


class _ReshardText(Text):
    def written(self, op: Any, xs: Sequence[Type]) -> dict[str, Any]:
        return op.sharding.short

    def read(
        self, cls: Any, xs: Sequence[Type], *, mesh: Any, spec: Any, devices: Any = (),
        replicated: Any = (), priority: Any = (),
    ) -> Reshard:  # fmt: skip
        """Programs write a sharding as types do."""
        return cls.to(Sharding.from_short(mesh, spec, devices or None, replicated, priority))


class Reshard(IdentityOp, Collective):
    """The same value with the given sharding, stored as plain fields."""

    mesh: tuple[int, ...]
    axis_names: tuple[str, ...]
    devices: tuple[int, ...]
    dims: tuple[tuple[str, ...], ...]
    replicated: tuple[str, ...]
    priority: tuple[int, ...]
    linear: ClassVar[bool] = True
    text = _ReshardText()
    jvp = jvp_in_first

    @classmethod
    def to(cls, sharding: Sharding) -> Reshard:
        """Return the op that gives a value this sharding."""
        return cls(*sharding.plain)

    @cached_property
    def sharding(self) -> Sharding:
        return Sharding.from_plain(*self.parameters())

    def infer(self, x: Type) -> Type:
        self.sharding.check(x.shape, self.title)
        return x

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        return self.infer(types[0]).sharded(self.sharding)

    def partition(self, to: Any, xs: Sequence[Any], type: Type) -> Any:
        return to.ask(xs[0], self.sharding.dims(type.rank))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [laid_out(g, xs[0].type)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        spec = self.sharding.spec
        named = {*spec.replicated, *[a for axes in spec.dims for a in axes]}
        # The spec does not mention the examples: they keep their layout.
        kept = tuple([a for a in layout(xs[0].type)[0] if a not in named])
        dims = (axis.spmd or kept, *spec.dims)
        batched = P(*dims, replicated=spec.replicated, priority=(0, *spec.priority))
        return Reshard.to(Sharding(self.sharding.mesh, batched))(xs[0])

    @classmethod
    def samples(cls) -> Any:
        yield cls.to(Sharding(DeviceMesh(1, "x"), P(None, "x"))), (real(3, 4),)
