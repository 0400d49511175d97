"""Where tensors lie on a mesh of devices."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, as_tensor, node_of
from pullback.graph.ambient import thread
from pullback.lazy.record import record
from pullback.lazy.settings import current
from pullback.lazy.tensor import wrap
from pullback.ops.collective.reshard import Reshard
from pullback.ops.sources import leaf
from pullback.sharding.mesh import as_mesh
from pullback.sharding.spec import P, Sharding


def shard(x: Any, mesh: Any, spec: Any = None) -> Tensor:
    """The same values, laid out on a mesh: each dimension is split along the axes of `spec`.

    >>> import pullback as pb
    >>> mesh = pb.DeviceMesh((1, 1), ("dp", "tp"))
    >>> pb.shard(pb.ones((4, 6)), mesh, pb.P("dp", None)).sharding
    Sharding(DeviceMesh(dp=1, tp=1), P('dp'))
    """
    return _reshard("shard", as_tensor(x), Sharding(as_mesh(mesh, "shard"), _spec("shard", spec)))


def reshard(x: Any, sharding: Any, spec: Any = None) -> Tensor:
    """The same values in another layout, given as a `Sharding`, or as a mesh and a spec, or as a
    spec alone for a tensor that is on a mesh.

    >>> import pullback as pb
    >>> x = pb.shard(pb.ones((4, 6)), pb.DeviceMesh(1, "dp"), pb.P("dp"))
    >>> pb.reshard(x, pb.P(None, "dp")).sharding.spec
    P(None, 'dp')
    """
    return _reshard("reshard", x := as_tensor(x), _sharding("reshard", x, sharding, spec))


def with_sharding_constraint(x: Any, sharding: Any, spec: Any = None) -> Tensor:
    """The same as `reshard`: inside a program, a value that lies as is said."""
    name = "with_sharding_constraint"
    return _reshard(name, x := as_tensor(x), _sharding(name, x, sharding, spec))


def _sharding(name: str, x: Tensor, given: Any, spec: Any) -> Sharding:
    if isinstance(given, Sharding):
        return given
    if spec is not None or not isinstance(given, (P, str, tuple, type(None))):
        return Sharding(as_mesh(given, name), _spec(name, spec))
    if x.sharding is None:
        raise ArgumentError(
            f"{name}: the tensor is on no mesh",
            hint="Name one: pb.shard(x, mesh, spec).",
        )  # fmt: skip
    return Sharding(x.sharding.mesh, _spec(name, given))


def _spec(name: str, spec: Any) -> P:
    if isinstance(spec, P):
        return spec
    if spec is None:
        return P()
    raise ArgumentError(f"{name}: needs a spec such as pb.P('dp', None), got {spec!r}")


def _reshard(name: str, x: Tensor, sharding: Sharding) -> Tensor:
    node = node_of(x)
    sharding.check(node.type.shape, name)
    if node.type.sharding is not None and node.type.sharding.mesh is not sharding.mesh:
        raise ArgumentError(
            f"{name}: the tensor is on {node.type.sharding.mesh}, not on {sharding.mesh}",
            hint="Move it through the host: pb.tensor(x.numpy()).shard(mesh, spec).",
        )
    if node.type.sharding is sharding:
        return wrap(node)
    there = node.type.sharding is None and node.value is not None and not node.tokens
    if there and not thread.tracing_from:
        return _put(node, sharding)
    return record(Reshard.to(sharding), (node,))


def _put(node: Any, sharding: Sharding) -> Tensor:
    """A value that is there goes to the devices part by part: none of them gets the whole."""
    from pullback.lazy.program import engine_for
    from pullback.lazy.values import checked, to_host

    type = node.type.sharded(sharding)
    on = engine_for(current(), sharding.mesh)
    return wrap(leaf(type, on.put(to_host(checked(node)), type)))
