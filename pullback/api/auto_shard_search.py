"""The search for a plan among candidates from the integer program and from common patterns.

Candidates are compared by the expected cost of their per-device programs.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pullback import tree
from pullback.api.placeholders import stage_on_placeholders
from pullback.engines.byte_sizes import show_bytes
from pullback.errors import ArgumentError, PullbackError
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.ops.wrap.call import inline_call_nodes
from pullback.sharding.auto.composite_expansion import expand_composites
from pullback.sharding.auto.groups import Groups
from pullback.sharding.auto.integer_program import choose_by_integer_program, integer_program_solver
from pullback.sharding.auto.layouts import possible_layouts
from pullback.sharding.cost import Machine
from pullback.sharding.explain import Explanation, explain_sharding
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, P, Sharding, layout

if TYPE_CHECKING:
    from pullback.api.auto_shard import AutoShardArguments

BATCHES = 3  # leading sizes to try as a batch
DESCENT = 10.0  # the most seconds to look for layouts that need less memory
TRIES = 3  # memory limits to try, if a program needs more than the integer program estimates

Specs = tuple[P | None, ...]  # one for each leaf; `None` for one that is not a tensor


class AutoShardSearch:
    """The search for the specs of one call's arguments."""

    def __init__(
        self,
        f: Callable,
        mesh: DeviceMesh,
        call: AutoShardArguments,
        fixed: Sequence[P | None],
        machine: Machine,
    ) -> None:
        integer_program_solver()  # raises early if scipy is missing
        self.f, self.mesh, self.call, self.machine = f, mesh, call, machine
        self.types, self.fixed = call.types, fixed
        self.places = [i for i, t in enumerate(call.types) if isinstance(t, Type)]
        self._explained: dict[Specs, Explanation] = {}

    def best(self, memory: float | None, seconds: float) -> tuple[Specs, Explanation]:
        """Return the specs with the least expected time, of those that fit into memory."""
        patterns = self._patterns()
        found = dict.fromkeys([*self._solved(patterns, memory, seconds), *patterns])

        def cost(specs: Specs) -> tuple:
            expected = self.explain(specs)
            over = 0 if memory is None else max(0, expected.memory - memory)
            split = sum([len(axes) for s in specs if s is not None for axes in s.dims])
            return over, float(f"{expected.seconds:.9e}"), split

        chosen = min(found, key=cost)
        if cost(chosen)[0] > 0:  # what is fastest may need less than what was found
            chosen = min([chosen, *self._solved(patterns, None, seconds)], key=cost)
            chosen = self._smaller(chosen, memory, min(seconds, DESCENT))
        expected = self.explain(chosen)
        if memory is not None and expected.memory > memory:
            raise ArgumentError(
                f"auto_shard: no layout fits into {show_bytes(int(memory))} on each device, the "
                f"smallest that was found needs {show_bytes(expected.memory)}",
                hint="Raise memory=, use a larger mesh, or fix fewer arguments with in_specs or "
                "whole.",
            )
        return chosen, expected

    def _smaller(self, specs: Specs, memory: float | None, seconds: float) -> Specs:
        """Change the layout of one leaf at a time until the program fits, while that helps.

        The integer program only estimates the memory of programs.
        """
        until = time.monotonic() + seconds
        best, before = specs, None
        while best != before and self.explain(best).memory > (memory or 0):
            before = best
            for i in self.places:
                for dims in self._layouts(i):
                    other = (
                        *best[:i],
                        P(*dims) if self.fixed[i] is None else best[i],
                        *best[i + 1 :],
                    )
                    if time.monotonic() > until:
                        return best
                    best = min(best, other, key=lambda s: self.explain(s).memory)
        return best

    def explain(self, specs: Specs) -> Explanation:
        """Return the communication and cost of the function for the layouts `specs`."""
        if specs not in self._explained:
            leaves = [t if s is None else t.sharded(Sharding(self.mesh, s))
                      for t, s in zip(self.types, specs, strict=True)]  # fmt: skip
            args, kwargs = tree.unflatten(self.call.structure, leaves)
            self._explained[specs] = explain_sharding(self.f, self.machine)(*args, **kwargs)
        return self._explained[specs]

    def _patterns(self) -> list[Specs]:
        """Return usual choices: all whole, a batch along one axis or all axes, all split."""
        found = [self._specs({})]
        split = self.mesh.several
        for axes in dict.fromkeys([split, *[(a,) for a in split]]):
            found += [self._specs(dict.fromkeys(batch, axes)) for batch in self._batches()]
        smallest = [min(self._layouts(i), key=functools.partial(self._bytes, i))
                    for i in self.places]  # fmt: skip
        return list(dict.fromkeys([*found, self._specs_of(smallest)]))

    def _batches(self) -> list[list[int]]:
        """Return possible batches: all leaves of the arguments with the same leading size."""
        batches: dict[int, list[int]] = {}
        at = 0
        for _, x in self.call.entries:
            mine = range(at, at := at + len(tree.leaves(x)))
            ranked = [i for i in mine if i in self.places and self.types[i].rank]
            leading = {self.types[i].shape[0] for i in ranked}
            if len(leading) == 1:
                batches.setdefault(leading.pop(), []).extend(ranked)

        def nbytes(leaves: list[int]) -> int:
            return sum([self.types[i].nbytes for i in leaves])

        return sorted(batches.values(), key=nbytes, reverse=True)[:BATCHES]

    def _specs(self, split: dict[int, tuple[str, ...]]) -> Specs:
        """Split the first dimension of some leaves, if it divides evenly; the others are whole."""
        wanted = [_all_dims_searched(P(split.get(i, ())), self.types[i]) for i in self.places]
        pairs = zip(self.places, wanted, strict=True)
        return self._specs_of([dims if dims in self._layouts(i) else () for i, dims in pairs])

    def _solved(self, starts: list[Specs], memory: float | None, seconds: float) -> list[Specs]:
        graph, like_input = self._program()
        inputs = [self._layouts(i) for i in self.places]
        inputs += [[layout(x.type)] for x in graph.inputs[len(inputs) :]]  # captured tensors
        dims = [self._dims(graph, s) for s in starts]
        found: dict[Specs, None] = {}
        until = time.monotonic() + seconds
        # Bucketed sums pay the latency once: the best layout without latency is tried too.
        for machine in (self.machine, replace(self.machine, latency=0.0)):
            limit, first = memory, machine is self.machine
            for _ in range(TRIES):
                groups = Groups(graph, inputs, self.mesh, machine)
                left = max(1.0, until - time.monotonic())
                solved = choose_by_integer_program(
                    groups, like_input, dims, limit, left, thorough=first
                )
                specs = [self._specs_of(layouts) for layouts in solved]
                found |= dict.fromkeys(specs)
                dims = [*solved[:1], *dims] if first else dims
                needs = min([self.explain(s).memory for s in specs], default=0)
                if memory is None or limit is None or needs <= memory:
                    break
                limit *= memory / needs
        return list(found)

    def _specs_of(self, layouts: list[Dims]) -> Specs:
        """Return the specs of the leaves, from the layouts of tensors that are not fixed."""
        specs: list[P | None] = [None] * len(self.types)
        for i, dims in zip(self.places, layouts, strict=False):
            fixed = self.fixed[i]
            specs[i] = P(*dims) if fixed is None else fixed
        return tuple(specs)

    def _layouts(self, i: int) -> list[Dims]:
        spec, type = self.fixed[i], self.types[i]
        return (
            possible_layouts(type, self.mesh) if spec is None else [_all_dims_searched(spec, type)]
        )

    def _bytes(self, i: int, dims: Dims) -> int:
        """Return the bytes of a leaf on each device."""
        shape = Sharding(self.mesh, P(*dims)).local_shape(self.types[i].shape)
        return self.types[i].with_shape(shape).nbytes

    def _dims(self, graph: Graph, specs: Specs) -> list[Dims]:
        mine = [_all_dims_searched(specs[i], self.types[i]) for i in self.places]
        return mine + [layout(x.type) for x in graph.inputs[len(mine) :]]

    def _program(self) -> tuple[Graph, dict[int, int]]:
        """Return the function's program, and the inputs whose layouts its outputs have."""
        graph = stage_on_placeholders("auto_shard", self.f, self.types, self.call.structure).graph
        return expand_composites(canonicalise(inline_call_nodes(graph))), self._like_input()

    def _like_input(self) -> dict[int, int]:
        """Return which outputs have the layout of an input, as gradients and new parameters do.

        Each dimension of the inputs gets its own axis of a mesh of one device; propagation then
        shows which outputs are split along the axes of one input.
        """
        leaves = self.types
        names = [[f"{i}.{d}" for d in range(leaves[i].rank)] for i in self.places]
        every = [a for axes in names for a in axes]
        probe = DeviceMesh((1,) * len(every), every)
        owners = {P(*axes): k for k, axes in enumerate(names) if axes}
        marked = list(leaves)
        for spec, k in owners.items():
            i = self.places[k]
            marked[i] = leaves[i].sharded(Sharding(probe, spec))
        try:
            outputs = stage_on_placeholders(
                "auto_shard", self.f, marked, self.call.structure
            ).graph.outputs
        except PullbackError:  # the function uses another mesh, so nothing is known
            return {}
        shardings = [y.type.sharding for y in outputs]
        return {i: owners[s.spec] for i, s in enumerate(shardings) if s and s.spec in owners}


def _all_dims_searched(spec: P | None, type: Type) -> Dims:
    dims = () if spec is None else spec.dims
    return (*dims, *[()] * (type.rank - len(dims)))
