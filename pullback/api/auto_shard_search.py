"""The search for a plan: candidates from the integer program and from common patterns, compared by
the expected cost of their per-device programs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.api.memory_plan import readable
from pullback.api.placeholders import stage
from pullback.errors import ArgumentError, PullbackError
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.ops.wrap.call import inline_calls
from pullback.sharding.auto.flatten import flat
from pullback.sharding.auto.groups import Groups
from pullback.sharding.auto.integer_program import choose, solver
from pullback.sharding.auto.layouts import layouts
from pullback.sharding.cost import Machine
from pullback.sharding.explain import Explanation, explain_sharding
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import layout
from pullback.sharding.spec import Dims, P, Sharding

if TYPE_CHECKING:
    from pullback.api.auto_shard import ShardedArguments

BATCHES = 3  # leading sizes that are tried as a batch
TRIES = 3  # tighter memory limits, if a program needs more than the integer program estimates

Specs = tuple[P | None, ...]  # one for each leaf; `None` for one that is not a tensor


class Search:
    """The search for the specs of one call's arguments."""

    def __init__(
        self, f: Callable, mesh: DeviceMesh, call: ShardedArguments, fixed: Sequence[P | None],
        machine: Machine,
    ) -> None:  # fmt: skip
        solver()  # raises early if scipy is missing
        self.f, self.mesh, self.call, self.machine = f, mesh, call, machine
        self.types, self.fixed = call.types, fixed
        self.places = [i for i, t in enumerate(call.types) if isinstance(t, Type)]
        self._known: dict[Specs, Explanation] = {}

    def best(self, memory: float | None, seconds: float) -> tuple[Specs, Explanation]:
        """The specs with the least expected time, of those that fit into memory."""
        patterns = self._patterns()
        found = [*self._solved(patterns, memory, seconds), *patterns]
        order = {specs: i for i, specs in reversed(list(enumerate(found)))}

        def cost(specs: Specs) -> tuple:
            made = self.explain(specs)
            over = 0 if memory is None else max(0, made.memory - memory)
            split = sum([len(axes) for s in specs if s is not None for axes in s.dims])
            return over, float(f"{made.seconds:.9e}"), split, order[specs]

        chosen = min(order, key=cost)
        made = self.explain(chosen)
        if memory is not None and made.memory > memory:
            raise ArgumentError(
                f"auto_shard: no layout fits into {readable(int(memory))} on each device, the "
                f"smallest needs {readable(made.memory)}",
                hint="Raise memory=, use a larger mesh, or fix fewer arguments with in_specs or "
                "whole.",
            )
        return chosen, made

    def explain(self, specs: Specs) -> Explanation:
        """The communication and cost of the function with its arguments laid out by `specs`."""
        if specs not in self._known:
            leaves = [t if s is None else t.sharded(Sharding(self.mesh, s))
                      for t, s in zip(self.types, specs, strict=True)]  # fmt: skip
            args, kwargs = tree.unflatten(self.call.structure, leaves)
            self._known[specs] = explain_sharding(self.f, self.machine)(*args, **kwargs)
        return self._known[specs]

    def _patterns(self) -> list[Specs]:
        """The usual choices: all whole, a batch along one axis or all axes, everything split."""
        found = [self._batch_split([], ())]
        split = self.mesh.several
        for axes in dict.fromkeys([split, *[(a,) for a in split]]):
            found += [self._batch_split(batch, axes) for batch in self._batches()]
        smallest = [
            min(self._layouts(i), key=functools.partial(self._bytes, i)) for i in self.places
        ]
        return list(dict.fromkeys([*found, self._specs(smallest)]))

    def _batches(self) -> list[list[int]]:
        """Leaves that may be a batch: all leaves of some arguments with the same leading size."""
        extents: dict[int, list[int]] = {}
        at = 0
        for _, x in self.call.entries:
            mine = range(at, at := at + len(tree.leaves(x)))
            ranked = [i for i in mine if i in self.places and self.types[i].rank]
            leading = {self.types[i].shape[0] for i in ranked}
            if len(leading) == 1:
                extents.setdefault(leading.pop(), []).extend(ranked)
        size = {n: sum([self.types[i].nbytes for i in leaves]) for n, leaves in extents.items()}
        return [extents[n] for n in sorted(extents, key=lambda n: -size[n])[:BATCHES]]

    def _batch_split(self, batch: Sequence[int], axes: tuple[str, ...]) -> Specs:
        """Split the first dimension of a batch, if it divides evenly; other leaves are whole."""
        dims = [_all_dims(P(axes if i in batch else ()), self.types[i]) for i in self.places]
        pairs = zip(self.places, dims, strict=True)
        return self._specs([d if d in self._layouts(i) else () for i, d in pairs])

    def _solved(self, starts: list[Specs], memory: float | None, seconds: float) -> list[Specs]:
        leaves, structure = self.call.types, self.call.structure
        graph = stage("auto_shard", self.f, leaves, structure).graph
        graph, alike = flat(canonicalise(inline_calls(graph))), self._alike(leaves, structure)
        inputs = [self._layouts(i) for i in self.places]
        inputs += [[layout(x.type)] for x in graph.inputs[len(inputs) :]]  # captured
        dims = [self._dims(graph, s) for s in starts]
        found: dict[Specs, None] = {}
        until = time.monotonic() + seconds
        # Bucketed sums pay the latency once: the best layout without latency is tried too.
        for machine in (self.machine, replace(self.machine, latency=0.0)):
            limit, first = memory, machine is self.machine
            for _ in range(TRIES):
                groups = Groups(graph, inputs, self.mesh, machine)
                left = max(1.0, until - time.monotonic())
                solved = choose(groups, alike, dims, limit, left, thorough=first)
                made = [self._specs(dims) for dims in solved]
                found.update(dict.fromkeys(made))
                dims = [*solved[:1], *dims] if first else dims
                needs = min([self.explain(specs).memory for specs in made], default=0)
                if memory is None or limit is None or needs <= memory:
                    break
                limit *= memory / needs
        return list(found)

    def _specs(self, layouts: list[Dims]) -> Specs:
        """The specs of all leaves: fixed, or from the layout of each tensor."""
        specs: list[P | None] = [None] * len(self.types)
        for i, dims in zip(self.places, layouts, strict=False):
            fixed = self.fixed[i]
            specs[i] = P(*dims) if fixed is None else fixed
        return tuple(specs)

    def _layouts(self, i: int) -> list[Dims]:
        spec, type = self.fixed[i], self.types[i]
        return layouts(type, self.mesh) if spec is None else [_all_dims(spec, type)]

    def _bytes(self, i: int, dims: Dims) -> int:
        """The bytes of a leaf on each device."""
        shape = Sharding(self.mesh, P(*dims)).local_shape(self.types[i].shape)
        return self.types[i].with_shape(shape).nbytes

    def _dims(self, graph: Graph, specs: Specs) -> list[Dims]:
        mine = [_all_dims(specs[i], self.types[i]) for i in self.places]
        return mine + [layout(x.type) for x in graph.inputs[len(mine) :]]

    def _alike(self, leaves: Sequence[Any], structure: Any) -> dict[int, int]:
        """Which results have the layout of an argument, as gradients and updated parameters do.

        Each dimension of the arguments gets its own axis of a mesh of one device; propagation then
        tells which results are laid out along the axes of one argument.
        """
        names = [[f"{i}.{d}" for d in range(leaves[i].rank)] for i in self.places]
        every = [a for axes in names for a in axes]
        probe = DeviceMesh((1,) * len(every), every)
        owners = {P(*axes): k for k, axes in enumerate(names) if axes}
        marked = list(leaves)
        for spec, k in owners.items():
            i = self.places[k]
            marked[i] = leaves[i].sharded(Sharding(probe, spec))
        try:
            outputs = stage("auto_shard", self.f, marked, structure).graph.outputs
        except PullbackError:  # the function uses another mesh, so nothing is known
            return {}
        made = [y.type.sharding for y in outputs]
        return {i: owners[s.spec] for i, s in enumerate(made) if s is not None and s.spec in owners}


def _all_dims(spec: P | None, type: Type) -> Dims:
    dims = () if spec is None else spec.dims
    return (*dims, *[()] * (type.rank - len(dims)))
