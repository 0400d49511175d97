"""Partition specs and shardings: which mesh axes split each dimension of a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.html import html_table
from pullback.graph.interned import Interned
from pullback.sharding.mesh import DeviceMesh

Dims = tuple[tuple[str, ...], ...]  # the axes of each dimension, major first


class P(metaclass=Interned):
    """A partition spec: an axis name, `None`, or a tuple of names for each dimension.

    Dimensions that are left out are whole. The value stays whole along `replicated` axes.
    `priority` is one number, or one per dimension: where operands disagree, the lower number wins.

    >>> import pullback as pb
    >>> pb.P("dp", None, ("tp", "sp"))
    P('dp', None, ('tp', 'sp'))
    """

    def __init__(
        self, *dims: Any, replicated: Iterable[str] = (), priority: int | Sequence[int] = 0
    ) -> None:
        self.dims: Dims = tuple(map(_spec_axes, dims))
        while self.dims and not self.dims[-1]:
            self.dims = self.dims[:-1]
        whole = (replicated,) if isinstance(replicated, str) else replicated
        if not (isinstance(whole, Iterable) and all(isinstance(a, str) for a in whole)):
            _refuse_spec(f"replicated must be an axis name or several, got {replicated!r}")
        self.replicated = tuple(sorted(whole))
        each = isinstance(priority, (tuple, list))
        given: tuple = tuple(priority) if each else (priority,) * max(1, len(self.dims))  # type: ignore[arg-type]
        if not all(type(n) is int for n in given):
            _refuse_spec(f"priority must be an integer, or one per dimension, got {priority!r}")
        self.priority = given[: len(self.dims)] + (0,) * (len(self.dims) - len(given))
        seen: set[str] = set(self.replicated)
        for a in [a for axes in self.dims for a in axes]:
            if a in seen:
                what = "is named twice" if a not in self.replicated else "is split and replicated"
                _refuse_spec(f"axis {a!r} {what} in {self}")
            seen.add(a)

    def parameters(self) -> tuple:
        return self.dims, self.replicated, self.priority

    def __reduce__(self) -> tuple:
        return _as_spec, self.parameters()

    def __len__(self) -> int:
        return len(self.dims)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the entries of the dimensions, as the user writes them."""
        return iter([_spec_entry(axes) for axes in self.dims])

    def __getitem__(self, i: int) -> Any:
        return list(self)[i]

    def __repr__(self) -> str:
        words = [repr(_spec_entry(axes)) for axes in self.dims]
        if self.replicated:
            words.append(f"replicated={self.replicated}")
        if any(self.priority):
            words.append(f"priority={self.priority}")
        return f"P({', '.join(words)})"


def _as_spec(dims: Dims, replicated: tuple[str, ...], priority: tuple[int, ...]) -> P:
    return P(*dims, replicated=replicated, priority=priority)


def _spec_axes(entry: Any) -> tuple[str, ...]:
    """Return the axes of one dimension; tuples may be nested."""
    if entry is None:
        return ()
    if isinstance(entry, str):
        return (entry,)
    if isinstance(entry, (tuple, list)):
        return tuple([a for e in entry for a in _spec_axes(e)])
    return _refuse_spec(
        f"a dimension must be None, an axis name or a tuple of names, got {entry!r}"
    )


def _refuse_spec(what: str) -> Any:
    raise ArgumentError(what, op="P")


def _spec_entry(axes: tuple[str, ...]) -> Any:
    return None if not axes else axes[0] if len(axes) == 1 else axes


class Sharding(metaclass=Interned):
    """A layout on a mesh: which axes split the dimensions of a value."""

    equal_is_same = True

    def __init__(self, mesh: DeviceMesh, spec: P) -> None:
        for value, kind, what in ((mesh, DeviceMesh, "mesh"), (spec, P, "spec")):
            if not isinstance(value, kind):
                message = f"{what} must be a {kind.__name__}, got {shown_argument(value)}"
                raise ArgumentError(message, op="Sharding")
        self.mesh, self.spec = mesh, spec

    def parameters(self) -> tuple:
        return self.mesh, self.spec

    def __reduce__(self) -> tuple:
        return Sharding, self.parameters()

    @property
    def plain(self) -> tuple:
        """The mesh and the spec as numbers and names, for program text."""
        return (*self.mesh.parameters(), *self.spec.parameters())

    @classmethod
    def from_plain(
        cls, shape: Any, axis_names: Any, devices: Any, dims: Any, replicated: Any, priority: Any
    ) -> Sharding:
        spec = P(*dims, replicated=replicated, priority=priority)
        return cls(DeviceMesh(shape, axis_names, devices), spec)

    @property
    def short(self) -> dict[str, tuple]:
        """The mesh and the spec as the fields of a type in program text, without defaults."""
        mesh, spec = self.mesh, self.spec
        dims = tuple([axes[0] if len(axes) == 1 else axes for axes in spec.dims])
        fields: dict[str, tuple] = {"mesh": tuple(mesh.sizes.items()), "spec": dims}
        if mesh.devices != tuple(range(mesh.size)):
            fields["devices"] = mesh.devices
        if spec.replicated:
            fields["replicated"] = spec.replicated
        if any(spec.priority):
            fields["priority"] = spec.priority
        return fields

    @classmethod
    def from_short(
        cls, mesh: Any, spec: Any = (), devices: Any = None, replicated: Any = (), priority: Any = 0
    ) -> Sharding:
        names, sizes = [name for name, _ in mesh], [size for _, size in mesh]
        return cls(
            DeviceMesh(sizes, names, devices), P(*spec, replicated=replicated, priority=priority)
        )

    def dims(self, rank: int) -> Dims:
        """Return the axes of each of `rank` dimensions."""
        return (*self.spec.dims, *[()] * (rank - len(self.spec)))

    def parts(self, dim: int) -> int:
        """Return the number of shards along a dimension."""
        return self.mesh.extent(self.spec.dims[dim]) if dim < len(self.spec) else 1

    def local_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one shard, with padding where a dimension does not divide."""
        return tuple([-(-n // self.parts(i)) for i, n in enumerate(shape)])

    def check(self, shape: Sequence[int], op: str) -> None:
        """Raise if a value of this shape cannot have this sharding."""
        if len(self.spec) > len(shape):
            raise ShapeError(
                f"{self.spec} names {len(self.spec)} dimensions, the value has {len(shape)}",
                op=op,
            )  # fmt: skip
        named = [a for axes in self.spec.dims for a in axes]
        for a in [*named, *self.spec.replicated]:
            if a not in self.mesh.sizes:
                raise ArgumentError(
                    f"{self.mesh} has no axis {a!r}", op=op,
                    hint=f"Its axes are {', '.join(self.mesh.axis_names)}.",
                )  # fmt: skip

    def __repr__(self) -> str:
        return f"Sharding({self.mesh}, {self.spec})"

    def _repr_html_(self) -> str:
        dims = [(f"dimension {i}", " ".join(a) or "whole") for i, a in enumerate(self.spec.dims)]
        return html_table("Sharding", [("mesh", self.mesh), ("spec", self.spec), *dims])


def entry(sharding: Sharding | None, rank: int, dim: int, spent: Sequence[str] = ()) -> Any:
    """Return the sharding of one entry along dimension `dim`, without the axes in `spent`."""
    if sharding is None:
        return None
    spec = sharding.spec
    dims = [tuple([a for a in axes if a not in spent]) for axes in sharding.dims(rank)]
    ranks = [*spec.priority, *[0] * (rank - len(spec))]
    del dims[dim], ranks[dim]
    whole = [a for a in spec.replicated if a not in spent]
    return Sharding(sharding.mesh, P(*dims, replicated=whole, priority=ranks))


def layout(type: Any) -> Dims:
    """Return the axes of each dimension of a value of this type."""
    return ((),) * type.rank if type.sharding is None else type.sharding.dims(type.rank)


@lru_cache(maxsize=4096)  # partitioning needs the same few at every op
def spec_on_mesh(mesh: DeviceMesh, dims: Dims, priority: tuple[int, ...] = ()) -> Sharding:
    return Sharding(mesh, P(*dims, priority=priority))
