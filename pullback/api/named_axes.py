"""Named axes: which are bound where, with their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.ambient import thread
from pullback.ops.prelude import Axis
from pullback.sharding.mesh import DeviceMesh

Names = str | tuple[str, ...]


def bound_axes() -> tuple[Any, ...]:
    """The named axes that are known here, with their sizes; inside a shard_map also its mesh,
    which has no name."""
    axes: tuple = tuple(thread.axis_sizes.items())
    return axes if thread.mesh is None else (*axes, (None, thread.mesh))


def bound_mesh() -> DeviceMesh | None:
    """The mesh of the shard_map whose function is running."""
    return thread.mesh


class bind:
    """While a function runs for one example along an axis, or for one device of a mesh, the names
    of its axes are known."""

    def __init__(self, *axes: Axis, mesh: DeviceMesh | None = None) -> None:
        self.sizes = {axis.name: axis.size for axis in axes if axis.name is not None}
        self.mesh = mesh
        for name in self.sizes:
            if name in thread.axis_sizes:
                raise ArgumentError(
                    f"{'vmap' if mesh is None else 'shard_map'}: the axis name {name!r} is in use "
                    "further out",
                    hint="A collective could not tell the two axes apart: choose another name.",
                )

    def __enter__(self) -> None:
        thread.axis_sizes |= self.sizes
        thread.mesh = self.mesh or thread.mesh

    def __exit__(self, *exception: object) -> None:
        for name in self.sizes:
            del thread.axis_sizes[name]
        if self.mesh is not None:
            thread.mesh = None


def bind_mesh(mesh: DeviceMesh) -> bind:
    return bind(*[Axis(size, name) for name, size in mesh.sizes.items()], mesh=mesh)


@contextmanager
def rebind(axes: tuple[Any, ...]) -> Iterator[None]:
    """The axes that were bound where a function was called, for a rule of it that runs later."""
    before = thread.axis_sizes, thread.mesh
    sizes = {**before[0], **dict(axes)}
    mesh = sizes.pop(None, before[1])
    thread.axis_sizes, thread.mesh = sizes, mesh
    try:
        yield
    finally:
        thread.axis_sizes, thread.mesh = before


def size_of(*names: str) -> int:
    """How many examples or devices there are along named axes that are bound."""
    return math.prod([thread.axis_sizes[name] for name in names])


def one_name(what: str, axis_name: str) -> str:
    """The name of one axis that is bound."""
    if not isinstance(axis_name, str):
        raise ArgumentError(f"{what}: axis_name must be one name, got {axis_name!r}")
    return bound_names(what, axis_name)[0]


def bound_names(what: str, axis_name: Names) -> tuple[str, ...]:
    """One or several names of axes that are bound."""
    given = (axis_name,) if isinstance(axis_name, str) else axis_name
    if not isinstance(given, (tuple, list)) or not all(isinstance(n, str) for n in given):
        raise ArgumentError(
            f"{what}: axis_name must be a name or a tuple of names, got {axis_name!r}",
        )
    names = tuple(given)
    if len(set(names)) != len(names):
        raise ArgumentError(f"{what}: {axis_name!r} names an axis twice")
    for name in names:
        if name not in thread.axis_sizes:
            known = ", ".join(map(repr, thread.axis_sizes)) or "none"
            raise ArgumentError(
                f"{what}: no axis is named {name!r} here; bound are: {known}",
                hint='Name it where it is mapped: pb.vmap(f, axis_name="..."), or call this inside '
                "pb.shard_map on a mesh that has it.",
            )  # fmt: skip
    return names
