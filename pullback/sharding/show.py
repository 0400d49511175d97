"""show_sharding: a picture of the layout of a tensor on a mesh."""

from __future__ import annotations

import sys

from pullback.errors import ArgumentError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.types import Type
from pullback.lazy.tensor import Tensor
from pullback.sharding.spec import Sharding

BOX = "─│┌┬┐├┼┤└┴┘…"
ASCII = "-|+++++++++~"
MANY = 12  # the largest number of shards of a dimension, or devices of a shard, that are shown


class Picture(str):
    """Text whose repr is the text itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@with_argument_checks
def show_sharding(x: Tensor | Type, ascii: bool | None = None) -> Picture:
    """Return a picture, for a terminal, of which device has which shard of a tensor.

    `x` is a tensor, or a type with a sharding. Vectors and matrices are drawn as a grid of shards
    with the numbers of their devices; for other ranks only the split of each dimension is listed.
    `ascii` restricts it to ASCII characters; by default, if the terminal needs that.

    >>> mesh = pb.DeviceMesh((2, 2), ("dp", "tp"))
    >>> sharding = pb.Sharding(mesh, pb.P("dp"))
    >>> pb.debug.show_sharding(pb.Type((5, 4), pb.float32, sharding))
    f32[5,4] on DeviceMesh(dp=2, tp=2) as P('dp')
      dimension 0: 5 in 2 parts of 3 along dp, the last of 2
      dimension 1: 4, whole
      copies along tp
             0:4
          ┌─────┐
      0:3 │ 0 1 │
          ├─────┤
      3:5 │ 2 3 │
          └─────┘
    """
    type = x._node.type if isinstance(x, Tensor) else x
    if not isinstance(type, Type):
        raise ArgumentError(f"show_sharding: x must be a tensor or a type, got {x!r}")
    if type.sharding is None:
        return Picture(f"{type} on no mesh")
    box = ASCII if (_show_needs_ascii() if ascii is None else ascii) else BOX
    lines = [f"{type} on {type.sharding.mesh} as {type.sharding.spec}", *_show_dimensions(type)]
    if type.rank in (1, 2):
        lines += _show_grid(type, box)
    return Picture("\n".join(lines))


def _show_needs_ascii() -> bool:
    """Whether the output cannot show box-drawing characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        BOX.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def _show_dimensions(type: Type) -> list[str]:
    """How each dimension is split, one line each."""
    sharding: Sharding = type.sharding
    made = []
    local = sharding.local_shape(type.shape)
    for i, (n, axes) in enumerate(zip(type.shape, sharding.dims(type.rank), strict=True)):
        count, along = sharding.parts(i), ", ".join(axes)
        how = (
            f" in {count} parts of {local[i]} along {along}{_show_last_shards(n, count)}"
            if axes
            else ", whole"
        )
        made.append(f"  dimension {i}: {n}{how}")
    used = {a for axes in sharding.spec.dims for a in axes}
    rest = [a for a in sharding.mesh.axis_names if a not in used]
    return [*made, f"  copies along {', '.join(rest)}"] if rest else made


def _show_last_shards(n: int, count: int) -> str:
    """The sizes of the last shards, if the dimension does not divide evenly."""
    part = -(-n // count)
    if part * count == n:
        return ""
    full, left = divmod(n, part) if part else (0, 0)
    empty = count - full - (left > 0)
    text = f", then {left}" if left and empty else f", the last of {left}" if left else ""
    return f"{text}, {empty} empty" if empty else text


def _show_grid(type: Type, box: str) -> list[str]:
    """The shards in rows and columns, with their devices; a vector is one row."""
    sharding, mesh = type.sharding, type.sharding.mesh
    along = ((), *sharding.dims(type.rank))[-2:]
    devices: dict[tuple[int, int], list[str]] = {}
    for k in range(mesh.size):
        at = mesh.index(k, along[0]), mesh.index(k, along[1])
        devices.setdefault(at, []).append(str(mesh.devices[k]))
    shape = (1, *type.shape)[-2:]
    rows, columns = (_shards_to_show(mesh.extent(axes)) for axes in along)
    sides, heads = (
        [_show_range(n, mesh.extent(axes), i, box) for i in few]
        for n, axes, few in zip(shape, along, (rows, columns), strict=True)
    )
    if type.rank == 1:
        sides = [""]
    cells = [[_show_device_names(devices.get((r, c), []), box) for c in columns] for r in rows]
    return _show_table(sides, heads, cells, box)


def _shards_to_show(count: int) -> list[int]:
    """The indices of the shards that are shown; -1 stands for those left out."""
    return list(range(count)) if count <= MANY else [*range(MANY - 2), -1, count - 1]


def _show_device_names(devices: list[str], box: str) -> str:
    """The devices of a shard; if there are many, the first and the last."""
    if not devices or len(devices) > MANY:
        devices = [*devices[: MANY - 2], box[-1], *devices[-1:]]
    return " ".join(devices)


def _show_range(n: int, count: int, i: int, box: str) -> str:
    """The range of shard `i` of `count`."""
    part = -(-n // count)
    start, stop = min(n, part * i), min(n, part * (i + 1))
    return box[-1] if i < 0 else f"{start}:{stop}" if start < stop else "none"


def _show_table(sides: list[str], heads: list[str], cells: list[list[str]], box: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    margin = 2 + max(map(len, sides))

    def line(side: str, texts: list[str], bar: str) -> str:
        inside = f" {bar} ".join(map(str.center, texts, widths))
        return f"{side.rjust(margin)} {bar} {inside} {bar}".rstrip()

    def rule(left: str, between: str, right: str) -> str:
        inside = between.join(box[0] * (w + 2) for w in widths)
        return f"{' ' * margin} {left}{inside}{right}"

    made = [line("", heads, " "), rule(*box[2:5])]
    for i, (side, row) in enumerate(zip(sides, cells, strict=True)):
        made += [rule(*box[5:8])] if i else []
        made.append(line(side, row, box[1]))
    return [*made, rule(*box[8:11])]
