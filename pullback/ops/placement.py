"""Where values lie on a mesh of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.ops.base import Axis, Node, Type, laid_out
from pullback.ops.identity import _Identity
from pullback.sharding.spec import P, Sharding


class Reshard(_Identity):
    """The same value, laid out on a mesh as `sharding` says."""

    sharding: Sharding
    linear: ClassVar[bool] = True

    def infer(self, x: Type) -> Type:
        self.sharding.check(x.shape, self.title)
        return x

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        return self.infer(types[0]).sharded(self.sharding)

    def partition(self, to: Any, xs: Sequence[Any], type: Type) -> Any:  # type: ignore[override]
        return to.ask(xs[0], self.sharding.dims(type.rank))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [laid_out(g, xs[0].type)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        spec = self.sharding.spec
        priority = (0, *spec.priority)
        behind = P(None, *spec.dims, replicated=spec.replicated, priority=priority)
        return Reshard(Sharding(self.sharding.mesh, behind))(xs[0])

    @classmethod
    def samples(cls) -> Any:
        return ()
