"""Placing tensors on a mesh of devices."""

from __future__ import annotations

from pullback.engines.engine_registry import engine_for
from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, as_tensor, fresh_argument, node_of
from pullback.graph.ambient import thread
from pullback.graph.argument_checks import shown_argument
from pullback.graph.node import Node
from pullback.lazy.devices import layout_on_named_device
from pullback.lazy.host_data import host_data_on_mesh
from pullback.lazy.host_reads import buffer_for_host_read
from pullback.lazy.record import record
from pullback.lazy.settings import current
from pullback.lazy.tensor import wrap
from pullback.lazy.values import valid_value, value_to_host
from pullback.ops.collective.reshard import Reshard
from pullback.ops.sources import leaf_source
from pullback.sharding.mesh import DeviceMesh, as_mesh
from pullback.sharding.spec import P, Sharding
from pullback.typing import ArrayLike


def shard(x: ArrayLike, mesh: DeviceMesh, spec: P | None = None) -> Tensor:
    """Distribute a tensor over a mesh: each dimension is split along the mesh axes in `spec`.

    >>> mesh = pb.DeviceMesh((1, 1), ("dp", "tp"))
    >>> pb.shard(pb.ones((4, 6)), mesh, pb.P("dp", None)).sharding
    Sharding(DeviceMesh(dp=1, tp=1), P('dp'))
    """
    return _reshard_function(
        "shard", as_tensor(x), Sharding(as_mesh(mesh, "shard"), _sharding_spec("shard", spec))
    )


def reshard(
    x: ArrayLike, sharding: Sharding | DeviceMesh | P | None, spec: P | None = None
) -> Tensor:
    """Change a tensor's layout to a `Sharding`, a mesh and a spec, or a spec on its present mesh.

    >>> x = pb.shard(pb.ones((4, 6)), pb.DeviceMesh(1, "dp"), pb.P("dp"))
    >>> pb.reshard(x, pb.P(None, "dp")).sharding.spec
    P(None, 'dp')
    """
    return _reshard_function(
        "reshard", x := as_tensor(x), _sharding_argument("reshard", x, sharding, spec)
    )


def with_sharding_constraint(
    x: ArrayLike, sharding: Sharding | DeviceMesh | P | None, spec: P | None = None
) -> Tensor:
    """Return `reshard(x, sharding, spec)`; inside a program it fixes the layout of a value.

    >>> mesh = pb.DeviceMesh(1, "dp")
    >>> pb.with_sharding_constraint(pb.ones(4), mesh, pb.P("dp")).sharding.spec
    P('dp')
    """
    op = "with_sharding_constraint"
    return _reshard_function(op, x := as_tensor(x), _sharding_argument(op, x, sharding, spec))


def _sharding_argument(op: str, x: Tensor, given: object, spec: P | None) -> Sharding:
    if isinstance(given, Sharding):
        if spec is not None:
            message = f"spec must not be given together with a Sharding, got {shown_argument(spec)}"
            raise ArgumentError(message, op=op)
        return given
    if spec is not None or not isinstance(given, (P, str, tuple, type(None))):
        return Sharding(as_mesh(given, op), _sharding_spec(op, spec))
    if x.sharding is None:
        hint = "Name a mesh: pb.shard(x, mesh, spec)."
        raise ArgumentError("the tensor is on no mesh", op=op, hint=hint)
    return Sharding(x.sharding.mesh, _sharding_spec(op, given))


def _sharding_spec(op: str, spec: object) -> P:
    if spec is None:
        return P()
    if isinstance(spec, P):
        return spec
    raise ArgumentError(f"needs a spec such as pb.P('dp', None), got {spec!r}", op=op)


def _reshard_function(op: str, x: Tensor, sharding: Sharding) -> Tensor:
    node = node_of(x)
    sharding.check(node.type.shape, op)
    old = node.type.sharding
    if old is not None and old.mesh is not sharding.mesh:
        message = f"the tensor is on {old.mesh}, not on {sharding.mesh}"
        hint = "Move it through the host: pb.tensor(x.numpy()).shard(mesh, spec)."
        raise ArgumentError(message, op=op, hint=hint)
    if old is sharding:
        return wrap(node)
    if old is None and node.value is not None and not node.tokens and not thread.tracing_from:
        return _put_with_sharding(node, sharding)
    return record(Reshard.to(sharding), (node,))


def _put_with_sharding(node: Node, sharding: Sharding) -> Tensor:
    """Copy a computed value to the devices shard by shard: none of them gets all of it."""
    type = node.type.sharded(sharding)
    engine = engine_for(current(), sharding.mesh)
    return wrap(leaf_source(type, engine.put(value_to_host(valid_value(node)), type)))


def to_device(x: ArrayLike, device: str, *, stream: int | None = None) -> Tensor:
    """Return a tensor on a device of this process, such as `cpu:1`; results of it are there too.

    The derivative is that of the identity, if the tensor was on the default device. Copies are
    ordered by what they depend on, so `stream` must be None.

    >>> pb.to_device(pb.ones(3), "cpu:0").device
    'cpu:0'
    """
    if stream is not None:
        raise ArgumentError(f"stream must be None, got {shown_argument(stream)}", op="to_device")
    x, place = as_tensor(x), layout_on_named_device("to_device", device)
    if x.sharding is place:
        return fresh_argument(x)
    if x.sharding is None and place is not None:
        return _reshard_function("to_device", x, place)
    _refuse_sharding_move(x)
    array = value_to_host(buffer_for_host_read(x))
    if place is not None:
        return host_data_on_mesh(array, place)
    return wrap(leaf_source(x._node.type.plain, array))


def _refuse_sharding_move(x: Tensor) -> None:
    """Raise unless the value can be read now, to be copied to devices of another program."""
    what = "a tensor cannot move from a device to another one"
    hint = "Move it before, or start on the default device, from which a program can move values."
    if thread.tracing_from:
        raise ArgumentError(f"{what} inside a function that is traced", op="to_device", hint=hint)
    if any(token.alive for token in x._node.tokens):
        raise ArgumentError(f"{what} while a derivative needs it", op="to_device", hint=hint)


__all__ = ["reshard", "shard", "to_device", "with_sharding_constraint"]
