"""shard_map: from a function of one device's shards to a function of whole tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.custom_arguments import is_custom_array_argument
from pullback.api.named_axes import bind_named_mesh, mesh_of_named_axes
from pullback.api.placeholders import stage_on_placeholders
from pullback.api.recording import (
    deliver_from_recording,
    recorded_outputs,
    recording_prefix_entries,
)
from pullback.api.signatures import Params, Result, Tree
from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.graph import graph_ancestors
from pullback.graph.node import Node
from pullback.graph.source_lines import user_line
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.record import record_several
from pullback.ops.collective.shard_map import (
    ShardMap,
    join_shard_map_parts,
    shard_map_local_type,
    take_shard_map_part,
)
from pullback.ops.control.varying import varying_union
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh, as_mesh
from pullback.sharding.spec import Dims, P
from pullback.transforms.call_rules import calling_rules


@with_argument_checks
def shard_map(
    f: Callable[Params, Result], mesh: DeviceMesh, in_specs: Tree, out_specs: Tree
) -> Callable[Params, Result]:
    """Return a function of whole tensors that runs `f` on every device of a mesh, on its shards.

    `in_specs` says how arguments are split, `out_specs` how results are assembled from what `f`
    returns: a `pb.P` for all, or a tree of them that is a prefix of the arguments or results.
    Dimensions must divide evenly. Inside, the mesh's axes are bound: `pb.psum(x, "dp")` and the
    other collectives communicate between devices. Tensors from outside that `f` uses are whole on
    every device, and get gradients.

    A result whose spec omits an axis must be the same on all devices along it, as the result of
    `pb.psum` is. Inside another shard_map on the same mesh, shards are split further.

    >>> mesh = pb.DeviceMesh(1, "dp")
    >>> def mean(x):
    ...     return pb.psum(x.sum(), "dp") / (x.size * pb.axis_size("dp"))
    >>> total = pb.shard_map(mean, mesh, in_specs=pb.P("dp"), out_specs=pb.P())
    >>> total(pb.tensor([1.0, 2.0, 3.0, 6.0])).item()
    3.0
    """
    mesh = as_mesh(mesh, "shard_map")
    for name, specs in (("in_specs", in_specs), ("out_specs", out_specs)):
        _check_shard_map_specs(name, specs, mesh)

    @boundary
    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            what = f"arguments must be positional, as in_specs is, got {list(kwargs)}"
            raise ArgumentError(f"shard_map: {what}")
        call = _ShardMapCall(f, mesh, in_specs, out_specs, args)
        inside = mesh_of_named_axes()
        if inside is None:
            return call.recorded()
        if inside is not mesh:
            what = f"inside a shard_map on {inside}, the mesh must be the same, got {mesh}"
            raise ArgumentError(f"shard_map: {what}", hint="Make one mesh with the axes of both.")
        return call.inlined()

    return mapped


class _ShardMapCall:
    """One call: the leaves of the arguments, and how each is split."""

    def __init__(
        self, f: Callable, mesh: DeviceMesh, in_specs: Any, out_specs: Any, args: tuple
    ) -> None:
        self.f, self.mesh = f, mesh
        self.in_specs, self.out_specs = in_specs, out_specs
        leaves, self.in_tree = tree.flatten((args, {}))
        self.leaves = [asarray(x) if is_custom_array_argument(x) else x for x in leaves]
        specs = _shard_map_specs("in_specs", in_specs, args)
        self.nodes: list[Node] = []
        self.dims: list[Dims] = []  # of each of the nodes
        self.given: list[Any] = []  # the leaves, with the type of a shard for each tensor
        for x, spec, path in zip(self.leaves, specs, tree.paths(args), strict=True):
            self.given.append(self._enter(x, spec, f"argument{path}"))

    def _enter(self, x: Any, spec: P, place: str) -> Any:
        if not is_custom_array_argument(x):
            if len(spec):
                what = f"{place} is a {type(x).__name__} with the spec {spec}"
                raise ArgumentError(f"shard_map: only tensors can be split, {what}")
            return x
        node = node_of(x)
        dims = _shard_map_spec_dims("in_specs", spec, node.type, place)
        try:
            local = shard_map_local_type(node.type.plain, dims, self.mesh)
        except ShapeError as error:
            error.message = f"{place}: {error.message}"
            raise error.at("shard_map", user_line()) from None
        self.nodes.append(node)
        self.dims.append(dims)
        return local.over(varying_union(node.type.varying, _shard_map_axes(dims)))

    def recorded(self) -> Any:
        with bind_named_mesh(self.mesh):
            staged = stage_on_placeholders(
                "shard_map", self.f, self.given, self.in_tree, True, frozen=False
            )
        operands = [*self.nodes, *staged.captured]
        dims = [*self.dims, *[((),) * c.type.rank for c in staged.captured]]
        types = [x.type for x in staged.graph.inputs]
        inputs = [placeholder("x", t.plain.over(t.varying)) for t in types]
        # Over inputs that are on no mesh: tensors from outside may be on one.
        made = staged.graph(*inputs)
        _refuse_shard_map_layouts(made)
        outs = self._outs(made, staged.structure)
        op = ShardMap.on(self.mesh, list(zip(inputs, dims)), list(zip(made, outs)))
        return tree.unflatten(staged.structure, record_several(op, tuple(operands)))

    def _outs(self, made: Sequence[Node], structure: Any, free: Sequence[str] = ()) -> list[Dims]:
        """How each result is split. Its spec must name all axes it varies along but for `free`."""
        result = tree.unflatten(structure, made)
        specs = _shard_map_specs("out_specs", self.out_specs, result)
        found = []
        for y, spec, path in zip(made, specs, tree.paths(result), strict=True):
            dims = _shard_map_spec_dims("out_specs", spec, y.type, f"result{path}")
            varying = [a for a in y.type.varying if a in self.mesh.sizes]
            missing = [a for a in varying if a not in _shard_map_axes(dims) and a not in free]
            if missing:
                along = " and ".join(map(repr, missing))
                raise ArgumentError(
                    f"shard_map: result{path} differs between devices along {along}, which its "
                    f"spec {spec} does not name",
                    hint=f"Reduce it, for example with pb.psum(x, {missing[0]!r}), or name the "
                    "axis in out_specs to concatenate the values of the devices.",
                )
            found.append(dims)
        return found

    def inlined(self) -> Any:
        for x, dims in zip(self.nodes, self.dims, strict=True):
            for a in [a for a in _shard_map_axes(dims) if a in x.type.varying]:
                what = f"a value that is already split along {a!r} cannot be split along it again"
                raise ArgumentError(f"shard_map: {what}, got {x.type} with the spec {P(*dims)}")
        with calling_rules(user_line()):
            pairs = zip(self.nodes, self.dims, strict=True)
            parts = iter(
                [
                    deliver_from_recording(take_shard_map_part(x, dims, self.mesh))
                    for x, dims in pairs
                ]
            )
        given = [next(parts) if isinstance(x, Type) else x for x in self.given]
        args, _ = tree.unflatten(self.in_tree, given)
        ys, structure = recorded_outputs("shard_map", self.f(*args))
        made = [node_of(y) for y in ys]
        specs = tree.leaves((self.in_specs, self.out_specs))
        mine = {a for spec in specs for a in _shard_map_axes(spec.dims)}
        free = [a for a in self.mesh.axis_names if a not in mine]
        found = zip(made, self._outs(made, structure, free), strict=True)
        with calling_rules(user_line()):
            whole = [
                deliver_from_recording(join_shard_map_parts(y, dims, self.mesh))
                for y, dims in found
            ]
        return tree.unflatten(structure, whole)


def _shard_map_axes(dims: Dims) -> tuple[str, ...]:
    return tuple([a for axes in dims for a in axes])


def _check_shard_map_specs(name: str, specs: Any, mesh: DeviceMesh) -> None:
    for spec in tree.leaves(specs):
        if not isinstance(spec, P):
            raise ArgumentError(f"shard_map: {name} must be a pb.P or a tree of them, got {spec!r}")
        for a in _shard_map_axes(spec.dims):
            if a not in mesh.sizes:
                message = f"shard_map: {mesh} has no axis {a!r}, which {name} names in {spec}"
                raise ArgumentError(message, hint=f"Its axes are {', '.join(mesh.axis_names)}.")


def _shard_map_specs(name: str, specs: Tree, like: Tree) -> list[P]:
    """The spec of each leaf of the arguments or results."""
    found = recording_prefix_entries("shard_map", name, "a pb.P", specs, like)
    return [P() if spec is None else spec for spec in found]


def _shard_map_spec_dims(name: str, spec: P, type: Type, place: str) -> Dims:
    if len(spec) > type.rank:
        what = f"{place} is {type}, but {name} names {len(spec)} dimensions in {spec}"
        raise ShapeError(f"shard_map: {what}")
    return (*spec.dims, *[()] * (type.rank - len(spec)))


def _refuse_shard_map_layouts(made: Sequence[Node]) -> None:
    """Raise if a value inside is laid out on a mesh: inside, a value is one device's shard."""
    for node in graph_ancestors(made):
        types = node.type if isinstance(node.type, tuple) else (node.type,)
        if any(t.sharding is not None for t in types):
            why = "lays a value out on a mesh, but inside a value is one device's shard"
            hint = "Lay tensors out before or after, or use another pb.shard_map."
            raise ArgumentError(f"shard_map: {node.op.title} {why}", where=node.where, hint=hint)
