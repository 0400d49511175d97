"""auto_shard: run a function on a mesh, with layouts of its arguments from the cost model."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn

from pullback import tree
from pullback.api.custom_arguments import comparable_custom_argument, is_custom_array_argument
from pullback.api.signatures import Params, Result, Tree
from pullback.errors import ArgumentError
from pullback.functions import shard
from pullback.graph.argument_checks import (
    checked_sequence_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.sharding.cost import Machine
from pullback.sharding.mesh import DeviceMesh, as_mesh
from pullback.sharding.plan import ShardingPlan, ShardingPlanArgument
from pullback.sharding.spec import P, Sharding


@with_argument_checks
def auto_shard(
    f: Callable[Params, Result], mesh: DeviceMesh, *, in_specs: Tree = None,
    whole: int | str | Sequence[int | str] = (), memory: float | None = None,
    plan: ShardingPlan | str | os.PathLike | None = None, machine: Machine | None = None,
    time_limit: float = 60.0,
) -> AutoSharded[Params, Result]:  # fmt: skip
    """Return a function that lays its arguments out on a mesh for the least expected time.

    The result is that of `f`, on the mesh. `in_specs` fixes some layouts: a tuple with an entry
    for each argument, or a dict by name; `None` is free. Arguments in `whole`, by position or
    name, are not split. `memory` is the bytes of a device for arguments, results and the largest
    intermediate value. `plan` is an earlier plan, or its file. `machine` describes the speed of
    devices. After `time_limit` seconds the solver returns the best solution so far.

    `f` is run on placeholders a few times to make a plan. Needs scipy.

    >>> mesh = pb.DeviceMesh(4, "dp")
    >>> x, w = pb.Type((65536, 1024), pb.float32), pb.Type((1024, 1024), pb.float32)
    >>> pb.auto_shard(lambda x, w: pb.tanh(x @ w), mesh).plan(x, w).specs
    {'x': P('dp'), 'w': P()}
    """
    mesh = as_mesh(mesh, "auto_shard")
    if isinstance(plan, (str, os.PathLike)):
        plan = ShardingPlan.load(plan)
    if not (plan is None or isinstance(plan, ShardingPlan)):
        raise ArgumentError(f"auto_shard: plan must be a ShardingPlan or its file, got {plan!r}")
    if memory is not None and not memory > 0:
        raise ArgumentError(f"auto_shard: memory must be a positive number, got {memory!r}")
    given = (
        (whole,)
        if isinstance(whole, (int, str))
        else checked_sequence_argument("auto_shard", whole, "whole")
    )
    machine = machine or Machine()
    return AutoSharded(f, mesh, in_specs, tuple(given), memory, plan, machine, time_limit)


class AutoSharded(Generic[Params, Result]):
    """A function that lays its arguments out on a mesh before it runs."""

    def __init__(
        self, f: Callable[Params, Result], mesh: DeviceMesh, in_specs: Tree,
        whole: tuple[int | str, ...], memory: float | None, given: ShardingPlan | None,
        machine: Machine, time_limit: float,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, f)  # first: it copies the attributes of `f`
        self.f, self.mesh, self.in_specs, self.whole = f, mesh, in_specs, whole
        self.memory, self.given = memory, given
        self.machine, self.time_limit = machine, time_limit
        self._plans: dict[tuple, ShardingPlan] = {}

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        call = AutoShardArguments(self.f, args, kwargs)
        specs = self._plan(call).specs
        leaves = [
            shard(x, self.mesh, specs[path]) if isinstance(t, Type) else x
            for x, t, path in zip(call.leaves, call.types, call.paths, strict=True)
        ]
        args, kwargs = tree.unflatten(call.structure, leaves)
        return self.f(*args, **kwargs)

    def plan(self, *args: Tree, **kwargs: Tree) -> ShardingPlan:
        """Return the layouts for arguments that are tensors, or types made with `pb.Type`."""
        return self._plan(AutoShardArguments(self.f, args, kwargs))

    def _plan(self, call: AutoShardArguments) -> ShardingPlan:
        if self.given is not None:
            self.given.check(self.mesh, call.tensors)
            return self.given
        if call.key not in self._plans:
            self._plans[call.key] = self._search(call)
        return self._plans[call.key]

    def _search(self, call: AutoShardArguments) -> ShardingPlan:
        from pullback.api.auto_shard_search import AutoShardSearch  # heavy, and rarely needed

        if not call.tensors:
            _refuse_auto_shard("no argument is a tensor, so there is nothing to lay out")
        search = AutoShardSearch(self.f, self.mesh, call, self._fixed(call), self.machine)
        specs, found = search.best(self.memory, self.time_limit)
        planned = [
            ShardingPlanArgument(path, t, P() if spec is None else spec)
            for path, t, spec in zip(call.paths, call.types, specs, strict=True)
            if isinstance(t, Type)
        ]
        return ShardingPlan.of(self.mesh, planned, found)

    def _fixed(self, call: AutoShardArguments) -> list[P | None]:
        """Return the spec of each leaf that the user fixed, `None` for the others."""
        specs = call.by_name(self.in_specs)
        whole = call.by_name(dict.fromkeys([call.name(n) for n in self.whole], P()))
        fixed = [a if a is not None else b for a, b in zip(whole, specs, strict=True)]
        for spec, t in zip(fixed, call.types, strict=True):
            if spec is not None and isinstance(t, Type):
                if not isinstance(spec, P):
                    _refuse_auto_shard(
                        f"in_specs must contain specs such as pb.P('dp') or None, got {spec!r}"
                    )
                Sharding(self.mesh, spec).check(t.shape, "auto_shard")
        return fixed


class AutoShardArguments:
    """The arguments of one call: their leaves, and the paths of these."""

    def __init__(self, f: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        self.leaves, self.structure = tree.flatten((args, kwargs))
        self.types = [_auto_shard_type(x) for x in self.leaves]
        keywords = [(name, kwargs[name]) for name in sorted(kwargs)]
        self.entries = [*zip(_auto_shard_names(f, len(args)), args, strict=True), *keywords]
        self.paths = [name + path for name, x in self.entries for path in tree.paths(x)]
        keys = [t if isinstance(t, Type) else comparable_custom_argument(t) for t in self.types]
        self.key = (self.structure, tuple(keys))

    @property
    def tensors(self) -> list[tuple[str, Type]]:
        pairs = zip(self.paths, self.types, strict=True)
        return [(path, t) for path, t in pairs if isinstance(t, Type)]

    def name(self, which: int | str) -> str:
        """Return the name of an argument, given its position or name."""
        names = [name for name, _ in self.entries]
        if isinstance(which, str) and which in names:
            return which
        if isinstance(which, int) and -len(names) <= which < len(names):
            return names[which]
        return _refuse_auto_shard(
            f"{which!r} names no argument; the arguments are {', '.join(names)}"
        )

    def by_name(self, specs: Any) -> list[Any]:
        """Return the entry or `None` for each leaf, from a tuple by position or a dict by name."""
        if not isinstance(specs, Mapping):
            specs = (specs,) * len(self.entries) if isinstance(specs, (P, type(None))) else specs
            if not isinstance(specs, (tuple, list)):
                _refuse_auto_shard(
                    f"in_specs must be a tuple, a dict or a spec, got {shown_argument(specs)}"
                )
            if len(specs) > len(self.entries):
                _refuse_auto_shard(
                    f"in_specs has {len(specs)} entries for {len(self.entries)} arguments"
                )
            specs = {self.entries[i][0]: spec for i, spec in enumerate(specs)}
        specs = {self.name(n): spec for n, spec in specs.items()}
        entries: list[Any] = []
        for name, x in self.entries:
            found = tree.broadcast_prefix(specs.get(name), x)
            if found is None:
                _refuse_auto_shard(
                    f"the entry of in_specs for {name} must be a prefix of its tree, got "
                    f"{specs[name]!r}"
                )
            entries += found
        return entries


def _auto_shard_type(x: Any) -> Any:
    """Return the type of a tensor without its layout, and any other value unchanged."""
    if isinstance(x, Type):
        return x.plain
    return asarray(x)._node.type.plain if is_custom_array_argument(x) else x


def _auto_shard_names(f: Callable, count: int) -> list[str]:
    """Return the names of the first `count` positional arguments of a function."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    single = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p.name for p in parameters if p.kind in single][:count]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    return named + [f"{rest}[{i}]" for i in range(count - len(named))]


def _refuse_auto_shard(what: str) -> NoReturn:
    raise ArgumentError(f"auto_shard: {what}")
