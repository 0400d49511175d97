"""Per-device programs: every device of a mesh runs the same graph on its shards of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from pullback.errors import ArgumentError, EngineError, ShapeError
from pullback.graph.graph import Graph
from pullback.graph.node import node_varying_over
from pullback.graph.op_kinds import PerDeviceKind
from pullback.ops.control.dependence import dependence_positions
from pullback.ops.control.holder import (
    Holder,
    held_captured_values,
    hold,
    holder_at_positions,
    holder_derivative,
)
from pullback.ops.control.varying import Axes, graph_varying_over, varying_axes_of, varying_union
from pullback.ops.prelude import TABLE, Axis, Node, Type, result_nodes
from pullback.ops.sources import placeholder
from pullback.ops.wrap.call import check_call_operands
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, Sharding, spec_on_mesh

WithSpecs = Sequence[tuple[Node, Dims]]
Transformed = tuple["ShardMap", list[int], list[Node]]  # positions of its results, captured values


class ShardMap(Holder, PerDeviceKind):
    """Runs `body` on every device of a mesh, on its shards of the operands.

    `in_specs` and `out_specs` are the mesh axes of every dimension of each operand and result. In
    the body, inputs and outputs vary along the mesh axes of their specs. Operands may also vary
    along axes of an enclosing vmap.
    """

    body: Graph
    grid: tuple[int, ...]
    axis_names: tuple[str, ...]
    devices: tuple[int, ...]
    in_specs: tuple[tuple[tuple[str, ...], ...], ...]
    out_specs: tuple[tuple[tuple[str, ...], ...], ...]

    @classmethod
    def on(cls, mesh: DeviceMesh, inputs: WithSpecs, outputs: WithSpecs) -> ShardMap:
        """Return the op whose body computes `outputs` from `inputs`, each with its spec."""
        ys = [
            node_varying_over(y, tuple([a for axes in dims for a in axes])) for y, dims in outputs
        ]
        body = hold([x for x, _ in inputs], ys)
        specs = [tuple([dims for _, dims in side]) for side in (inputs, outputs)]
        return cls(body, *mesh.parameters(), *specs)

    @cached_property
    def mesh(self) -> DeviceMesh:  # type: ignore[override]
        return DeviceMesh(self.grid, self.axis_names, self.devices)

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        pairs = zip(xs, self.in_specs, strict=True)
        check_call_operands(
            self.body, [shard_map_local_type(x, dims, self.mesh) for x, dims in pairs]
        )
        whole = []
        for y, dims in zip(self.body.outputs, self.out_specs, strict=True):
            sides = zip(y.type.shape, dims, strict=True)
            whole.append(Type([n * self.mesh.extent(axes) for n, axes in sides], y.type.dtype))
        return tuple(whole)

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        """Results are on the mesh, and vary along the vmap axes of the body's outputs."""
        for t in types:
            if t.sharding is not None and t.sharding.mesh is not self.mesh:
                what = f"operands must be on {self.mesh}, got one on {t.sharding.mesh}"
                raise ArgumentError(what, hint="Move it through the host: pb.tensor(x.numpy()).")
        whole = self.infer(*[t.plain for t in types])
        triples = zip(whole, self.body.outputs, self.out_specs, strict=True)
        return tuple([
            t.over(self._vmap_axes(y)).sharded(spec_on_mesh(self.mesh, dims))
            for t, y, dims in triples
        ])  # fmt: skip

    def _vmap_axes(self, x: Node) -> Axes:
        """Return the axes of enclosing vmaps along which a value of the body varies."""
        return tuple([a for a in x.type.varying if a not in self.axis_names])

    @property
    def operand_axes(self) -> list[Axes]:
        return [self._vmap_axes(x) for x in self.body.inputs]

    def over(self, axes: Sequence[Axes]) -> ShardMap:
        wider = zip(axes, varying_axes_of(self.body.inputs), strict=True)
        body = graph_varying_over(self.body, [varying_union(a, b) for a, b in wider])
        inputs = zip(body.inputs, self.in_specs, strict=True)
        outputs = zip(body.outputs, self.out_specs, strict=True)
        return ShardMap.on(self.mesh, list(inputs), list(outputs))

    def named_axes(self) -> tuple[str, ...]:
        """The axes of enclosing vmaps; those of the mesh are internal."""
        return tuple([a for a in self._named_axes if a not in self.axis_names])

    def communicates(self) -> tuple[str, ...]:
        return tuple([a for a in super().communicates() if a not in self.axis_names])

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> Any:
        if to.mesh is not self.mesh:
            raise EngineError(f"runs on {self.mesh}, but the enclosing program on {to.mesh}")
        parts = [to.ask(x, dims).node for x, dims in zip(xs, self.in_specs, strict=True)]
        inputs = zip(parts, self.body.inputs, strict=True)
        made = to.inline(self.body, [node_varying_over(x, i.type.varying) for x, i in inputs])
        return to.local_values(made, type, self.out_specs)

    def numpy(self, *xs: Any) -> Any:
        raise EngineError(f"runs on {self.mesh}, but the enclosing program is not on a mesh")

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        return self.numpy()

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> list[Sharding]:
        return [spec_on_mesh(self.mesh, dims) for dims in self.out_specs]

    def vjp(
        self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        live, needed = dependence_positions(ct is not None for ct in g), dependence_positions(need)
        key = ("vjp", tuple(live), tuple(needed))
        op, reached, extra = self.derived(key, lambda: self._pulled(live, needed, gradients))
        made = result_nodes(op(*xs, *[g[i] for i in live], *extra)) if reached else ()
        return holder_at_positions(len(xs), reached, made)

    def _pulled(self, live: list[int], needed: list[int], gradients: Callable) -> Transformed:
        """Return the op from operands and cotangents of results to cotangents of operands. It
        contains the body again. Where both are inlined, common work is merged."""
        outputs = [self.body.outputs[i] for i in live]
        seeds = [placeholder("g", y.type) for y in outputs]
        targets = [self.body.inputs[i] for i in needed]
        found = dict(zip(needed, gradients(outputs, seeds, targets), strict=True))
        reached = [i for i, ct in found.items() if ct is not None]
        made = [
            (holder_derivative(self.body.inputs[i], found[i]), self.in_specs[i]) for i in reached
        ]
        given = [(g, self.out_specs[i]) for i, g in zip(live, seeds, strict=True)]
        op, extra = self._transformed(given, made)
        return op, reached, extra

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence, tangents: Callable) -> Any:
        active = dependence_positions(t is not None for t in ts)
        key = ("jvp", tuple(active))
        op, moving, extra = self.derived(key, lambda: self._pushed(active, tangents))
        made = result_nodes(op(*xs, *[ts[i] for i in active], *extra)) if moving else ()
        return tuple(holder_at_positions(len(out), moving, made))

    def _pushed(self, active: list[int], tangents: Callable) -> Transformed:
        inputs = [self.body.inputs[i] for i in active]
        ts = [placeholder("t", x.type) for x in inputs]
        pushed = tangents(self.body.outputs, inputs, ts)
        moving = dependence_positions(t is not None for t in pushed)
        made = [
            (holder_derivative(self.body.outputs[i], pushed[i]), self.out_specs[i]) for i in moving
        ]
        given = [(t, self.in_specs[i]) for i, t in zip(active, ts, strict=True)]
        op, extra = self._transformed(given, made)
        return op, moving, extra

    def _transformed(self, given: WithSpecs, made: WithSpecs) -> tuple[ShardMap, list[Node]]:
        """Return the op of a body with more inputs and other outputs, and captured values."""
        inputs = [*zip(self.body.inputs, self.in_specs, strict=True), *given]
        extra = held_captured_values([y for y, _ in made], [x for x, _ in inputs])
        inputs += [(x, ((),) * x.type.rank) for x in extra]
        return ShardMap.on(self.mesh, inputs, made), extra

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> tuple[Node, ...]:
        key = ("batch", axis, tuple(mapped))
        return result_nodes(
            self.derived(key, lambda: self._batched(axis, mapped, batched_graph))(*xs)
        )

    def _batched(self, axis: Axis, mapped: Sequence[bool], batched_graph: Callable) -> ShardMap:
        """Examples are one more dimension in the body; `axis.spmd` shards it over devices."""
        split = () if axis.name in self.named_axes() else axis.spmd
        body, size = self.body, axis.size
        if split:
            self._check_split(split, axis)
            size //= self.mesh.extent(split)
            pairs = zip(varying_axes_of(body.inputs), mapped, strict=True)
            body = graph_varying_over(
                body, [varying_union(a, split) if has else a for a, has in pairs]
            )
        graph, flags = batched_graph(body, Axis(size, axis.name), mapped)

        def specs(dims: Sequence[Dims], has_axis: Sequence[bool]) -> list[Dims]:
            return [(split, *d) if has else d for d, has in zip(dims, has_axis, strict=True)]

        inputs = zip(graph.inputs, specs(self.in_specs, mapped), strict=True)
        outputs = zip(graph.outputs, specs(self.out_specs, flags), strict=True)
        return ShardMap.on(self.mesh, list(inputs), list(outputs))

    def _check_split(self, split: tuple[str, ...], axis: Axis) -> None:
        specs = (*self.in_specs, *self.out_specs)
        used = {a for dims in specs for axes in dims for a in axes}.union(self._named_axes)
        for a in split:
            if a not in self.axis_names or a in used:
                why = "uses this axis" if a in used else f"is on {self.mesh}"
                what = f"the examples of the enclosing vmap cannot be sharded along {a!r}: it {why}"
                raise ArgumentError(what, hint="Choose another axis of the mesh as spmd_axis_name.")
        if axis.size % self.mesh.extent(split):
            devices = f"the {self.mesh.extent(split)} devices along {split}"
            what = f"the number of examples of the enclosing vmap must be divisible by {devices}"
            raise ShapeError(f"{what}, got {axis.size}")


def shard_map_local_type(x: Type, dims: Dims, mesh: DeviceMesh) -> Type:
    """Return the type of a shard, which is the same on all devices."""
    shape = []
    for i, (n, axes) in enumerate(zip(x.shape, dims, strict=True)):
        count = mesh.extent(axes)
        if n % count:
            along = " and ".join(map(repr, axes))
            what = f"dimension {i} must be divisible by the {count} devices along {along}, got {x}"
            raise ShapeError(what)
        shape.append(n // count)
    return Type(shape, x.dtype)


def take_shard_map_part(x: Node, dims: Dims, mesh: DeviceMesh) -> Node:
    """Return, in a per-device program, this device's shard of a replicated value."""
    for dim, axes in enumerate(dims):
        for a in axes:
            n, shape = mesh.sizes[a], x.type.shape
            x = TABLE["Reshape"]((*shape[:dim], n, shape[dim] // n, *shape[dim + 1 :]))(x)
            x = TABLE["PSlice"](a, n, dim)(x)
    return x


def join_shard_map_parts(y: Node, dims: Dims, mesh: DeviceMesh) -> Node:
    """Return, in a per-device program, the whole value from the shards of all devices."""
    for dim, axes in enumerate(dims):
        for a in reversed(axes):
            y = TABLE["AllGather"](a, mesh.sizes[a], dim)(node_varying_over(y, (a,)))
            shape = y.type.shape
            y = TABLE["Reshape"]((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))(y)
    return y
