"""Where the elements of slices, transposes and reshapes are in the value they are taken from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pullback.engines.xla.hlo_instructions import HloInstruction, HloValue

Strides = tuple[int, ...]


def strided_view(x: HloValue) -> tuple[HloValue, int, Strides]:
    """Return a value, the position of the first element of `x` in it, and the distances along the
    dimensions of `x`."""
    steps: list[HloInstruction] = []
    while (made := x.made_by) is not None and made.name in _VIEWS:
        steps.append(made)
        x = made.operands[0]
    offset, strides = 0, row_strides(x.shape)
    for step in reversed(steps):
        found = _VIEWS[step.name](step, strides)
        if found is None:  # it needs a copy
            x = step.results[0]
            offset, strides = 0, row_strides(x.shape)
        else:
            offset, strides = offset + found[0], found[1]
    return x, offset, strides


def row_strides(shape: Sequence[int]) -> Strides:
    """Return the distances along the dimensions of a value that is stored by rows."""
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


def _sliced_view(i: HloInstruction, strides: Strides) -> tuple[int, Strides]:
    starts = zip(i["start_indices"], strides, strict=True)
    steps = zip(i["strides"], strides, strict=True)
    return sum([n * s for n, s in starts]), tuple([n * s for n, s in steps])


def _transposed_view(i: HloInstruction, strides: Strides) -> tuple[int, Strides]:
    return 0, tuple([strides[p] for p in i["permutation"]])


def _repeated_view(i: HloInstruction, strides: Strides) -> tuple[int, Strides]:
    shape = i.operands[0].shape
    found = [0] * len(i.results[0].shape)
    for n, s, d in zip(shape, strides, i.get("broadcast_dimensions", ()), strict=True):
        found[d] = s if n > 1 else 0
    return 0, tuple(found)


def _reshaped_view(i: HloInstruction, strides: Strides) -> tuple[int, Strides] | None:
    """Dimensions are grouped until both sides have equally many elements; those of the old side
    must follow each other in memory."""
    new = i.results[0].shape
    old = [(n, s) for n, s in zip(i.operands[0].shape, strides, strict=True) if n > 1]
    found = [0] * len(new)
    for d in reversed([d for d, n in enumerate(new) if n > 1]):
        if not old:
            return None
        n, s = old.pop()
        while n % new[d]:  # more of the old dimensions make up this one
            if not old or old[-1][1] != n * s:
                return None
            n *= old.pop()[0]
        found[d] = s
        if n > new[d]:
            old.append((n // new[d], s * new[d]))
    return (0, tuple(found)) if not old else None


_VIEWS = {
    "slice": _sliced_view,
    "transpose": _transposed_view,
    "broadcast_in_dim": _repeated_view,
    "reshape": _reshaped_view,
}
