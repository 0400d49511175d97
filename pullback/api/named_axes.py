"""Named axes: the axes that a vmap or shard_map binds, with their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from pullback.errors import ArgumentError
from pullback.graph.ambient import thread
from pullback.ops.prelude import Axis
from pullback.sharding.mesh import DeviceMesh

Names = str | tuple[str, ...]


def bound_axes() -> tuple:
    """The axes bound here as pairs of name and size; inside a shard_map also `(None, mesh)`."""
    axes: tuple = tuple(thread.axis_sizes.items())
    return axes if thread.mesh is None else (*axes, (None, thread.mesh))


def mesh_of_named_axes() -> DeviceMesh | None:
    """The mesh of the shard_map whose function is running."""
    return thread.mesh


class bind:
    """Bind named axes while a function runs for one example of a vmap or one device of a mesh."""

    def __init__(self, *axes: Axis, mesh: DeviceMesh | None = None) -> None:
        self.sizes = {axis.name: axis.size for axis in axes if axis.name is not None}
        self.mesh = mesh
        for name in self.sizes:
            if name in thread.axis_sizes:
                what = f"the axis name {name!r} is already bound by an enclosing function"
                hint = "Choose another name, so that collectives can tell the axes apart."
                function = "vmap" if mesh is None else "shard_map"
                raise ArgumentError(f"{function}: {what}", hint=hint)

    def __enter__(self) -> None:
        thread.axis_sizes |= self.sizes
        thread.mesh = self.mesh or thread.mesh

    def __exit__(self, *exception: object) -> None:
        for name in self.sizes:
            del thread.axis_sizes[name]
        if self.mesh is not None:
            thread.mesh = None


def bind_named_mesh(mesh: DeviceMesh) -> bind:
    return bind(*[Axis(size, name) for name, size in mesh.sizes.items()], mesh=mesh)


@contextmanager
def rebind_axes(axes: tuple) -> Iterator[None]:
    """Bind the axes that `bound_axes` returned at a call, while a rule of the call runs."""
    before = thread.axis_sizes, thread.mesh
    sizes = {**before[0], **dict(axes)}
    thread.mesh, thread.axis_sizes = sizes.pop(None, before[1]), sizes
    try:
        yield
    finally:
        thread.axis_sizes, thread.mesh = before


def named_axis_size(*names: str) -> int:
    """The number of examples or devices along bound axes."""
    return math.prod([thread.axis_sizes[name] for name in names])


def one_axis_name(what: str, axis_name: str) -> str:
    """Check the name of one axis, which must be bound."""
    if not isinstance(axis_name, str):
        raise ArgumentError(f"{what}: axis_name must be one name, got {axis_name!r}")
    return bound_axis_names(what, axis_name)[0]


def bound_axis_names(what: str, axis_name: Names) -> tuple[str, ...]:
    """Check one or several names of axes, which must be bound."""
    given = (axis_name,) if isinstance(axis_name, str) else axis_name
    if not isinstance(given, (tuple, list)) or not all(isinstance(n, str) for n in given):
        message = f"{what}: axis_name must be a name or a tuple of names, got {axis_name!r}"
        raise ArgumentError(message)
    names = tuple(given)
    if len(set(names)) != len(names):
        raise ArgumentError(f"{what}: {axis_name!r} names an axis twice")
    for name in names:
        if name not in thread.axis_sizes:
            known = ", ".join(map(repr, thread.axis_sizes)) or "none"
            raise ArgumentError(
                f"{what}: no axis named {name!r} is bound here; bound axes: {known}",
                hint='Bind it with pb.vmap(f, axis_name="..."), or call this in a pb.shard_map on '
                "a mesh that has it.",
            )
    return names
