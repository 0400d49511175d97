"""Sharding plans: layouts of a function's arguments on a mesh, to print, save and reuse."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pullback.engines.byte_sizes import show_bytes
from pullback.errors import ArgumentError
from pullback.graph.dtypes import dtype
from pullback.graph.types import Type
from pullback.sharding.explain import Explanation
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import P

FORMAT = "pullback sharding plan 1"
COSTS = ("computing", "communicating", "nbytes", "memory")


@dataclass(frozen=True)
class ShardingPlanArgument:
    """A tensor among the arguments: its path, its type when planned, and its layout."""

    path: str
    type: Type
    spec: P


@dataclass(frozen=True, repr=False)
class ShardingPlan:
    """Layouts for the arguments of a function on a mesh with given `axes`, and the expected costs.

    For each device: seconds of computation and communication, bytes sent (`nbytes`), and bytes of
    arguments, results and the largest intermediate value (`memory`).
    """

    axes: dict[str, int]
    arguments: tuple[ShardingPlanArgument, ...]
    computing: float
    communicating: float
    nbytes: int
    memory: int
    collectives: tuple[str, ...]

    @classmethod
    def of(
        cls, mesh: DeviceMesh, arguments: Sequence[ShardingPlanArgument], found: Explanation
    ) -> ShardingPlan:
        costs: dict[str, Any] = {k: getattr(found, k) for k in COSTS}
        texts = tuple(map(str, found.exchanges))
        return cls(dict(mesh.sizes), tuple(arguments), **costs, collectives=texts)

    @property
    def seconds(self) -> float:
        return self.computing + self.communicating

    @property
    def specs(self) -> dict[str, P]:
        """The layout of each argument, by its path."""
        return {a.path: a.spec for a in self.arguments}

    def __str__(self) -> str:
        mesh = ", ".join(f"{a}={n}" for a, n in self.axes.items())
        width = max([len(a.path) for a in self.arguments], default=0)
        kind = max([len(str(a.type)) for a in self.arguments], default=0)
        lines = [f"{a.path:{width}}  {a.type!s:{kind}}  {a.spec}" for a in self.arguments]
        computing, communicating = (
            _sharding_plan_time(self.computing),
            _sharding_plan_time(self.communicating),
        )
        time = f"{computing} computing, {communicating} communicating"
        sent = f"{len(self.collectives)} collectives, each device sends {show_bytes(self.nbytes)}"
        return "\n".join([
            f"on {mesh}: {_sharding_plan_time(self.seconds)} ({time})",
            f"{show_bytes(self.memory)} on each device; {sent}", *lines, *self.collectives,
        ])  # fmt: skip

    __repr__ = __str__

    def save(self, path: str | os.PathLike) -> None:
        """Write the plan to a file, as JSON."""
        arguments = [
            {"path": a.path, "shape": a.type.shape, "dtype": a.type.dtype.name,
             "spec": a.spec.parameters()} for a in self.arguments
        ]  # fmt: skip
        costs = {k: getattr(self, k) for k in COSTS}
        data = {"format": FORMAT, "mesh": self.axes, "arguments": arguments, **costs,
                "collectives": self.collectives}  # fmt: skip
        Path(path).write_text(json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> ShardingPlan:
        """Read a plan from a file."""
        try:
            data = json.loads(Path(path).read_text())
            if data["format"] != FORMAT:
                raise ValueError(f"its format is {data['format']!r}, not {FORMAT!r}")
            arguments = [
                ShardingPlanArgument(a["path"], Type(tuple(a["shape"]), dtype(a["dtype"])),
                                _plan_spec(*a["spec"])) for a in data["arguments"]
            ]  # fmt: skip
            costs, texts = {k: data[k] for k in COSTS}, tuple(data["collectives"])
            return cls(data["mesh"], tuple(arguments), **costs, collectives=texts)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"ShardingPlan.load: {os.fspath(path)} is not a plan: {error}"
            raise ArgumentError(message) from None

    def check(self, mesh: DeviceMesh, arguments: Sequence[tuple[str, Type]]) -> None:
        """Raise if the plan is for another mesh, or for other arguments.

        Sizes of dimensions may differ: a spec fits all of them.
        """
        if self.axes != mesh.sizes:
            sizes = ", ".join(f"{a}={n}" for a, n in self.axes.items())
            _refuse_plan(f"the plan is for a mesh of {sizes}, got {mesh}")
        given = dict(arguments)
        missing = [p for p in self.specs if p not in given]
        more = [p for p in given if p not in self.specs]
        reasons = [f"the plan has {p}, which is not an argument" for p in missing[:1]]
        reasons += [f"the argument {p} is not in the plan" for p in more[:1]]
        if reasons:
            _refuse_plan("; ".join(reasons))
        for a in self.arguments:
            if (a.type.rank, a.type.dtype) != (given[a.path].rank, given[a.path].dtype):
                _refuse_plan(f"{a.path} was planned as {a.type}, got {given[a.path]}")


def _refuse_plan(what: str) -> NoReturn:
    message = f"auto_shard: {what}"
    raise ArgumentError(message, hint="Make a new plan: pb.auto_shard(f, mesh).plan(*args).")


def _plan_spec(dims: Any, replicated: Any, priority: Any) -> P:
    return P(*dims, replicated=tuple(replicated), priority=tuple(priority))


def _sharding_plan_time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.2f} {name}"
    return f"{seconds * 1e6:.1f} us"
