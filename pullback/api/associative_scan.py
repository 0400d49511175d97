"""All prefixes of a sequence under an associative function, in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.carry import carry_leaf
from pullback.api.signatures import Tree
from pullback.errors import ArgumentError
from pullback.functions.arguments import axis_argument, axis_slice_argument
from pullback.functions.flip_roll_resize import flip
from pullback.functions.joining import concat
from pullback.functions.shape import reshaped_to
from pullback.functions.stacking import stack
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor

Combine = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


@with_argument_checks
def associative_scan(
    fn: Callable[[Tree, Tree], Tree], elems: Tree, reverse: bool = False, axis: int = 0
) -> Tree:
    """Return y with y[i] = fn(y[i - 1], x[i]) along an axis, for an associative function.

    `elems` is a tensor or a tree of tensors that have the same size along the axis; so is the
    result. `fn(a, b)` combines many pairs at once: it gets two such trees with fewer elements along
    the axis, and returns one like them. It runs about 2 log2(n) times. With `reverse`, the scan
    begins at the end: y[i] = fn(y[i + 1], x[i]).

    >>> pb.associative_scan(pb.add, pb.tensor([1, 2, 3, 4])).tolist()
    [1, 3, 6, 10]
    >>> linear = lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1])  # h = a h + b, one after the other
    >>> a, b = pb.full(4, 0.5), pb.ones(4)
    >>> pb.associative_scan(linear, (a, b))[1].tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    leaves, structure = tree.flatten(elems)
    if not leaves:
        raise ArgumentError("needs at least one tensor", op="associative_scan")
    xs = [carry_leaf("associative_scan", "elems", x) for x in leaves]
    axes = [axis_argument("associative_scan", axis, x.ndim) for x in xs]
    sizes = {x.shape[i] for x, i in zip(xs, axes)}
    if len(sizes) > 1:
        got = ", ".join(str(x._node.type) for x in xs)
        message = f"all of elems must have the same size along axis {axis}, got {got}"
        raise ArgumentError(message, op="associative_scan")

    def combine(before: list[Tensor], after: list[Tensor]) -> list[Tensor]:
        pair = (tree.unflatten(structure, part) for part in (before, after))
        return _associative_combined(fn(*pair), structure, before)

    if reverse:
        xs = [flip(x, i) for x, i in zip(xs, axes)]
    made = _associative_prefixes(combine, xs, axes)
    if reverse:
        made = [flip(x, i) for x, i in zip(made, axes)]
    return tree.unflatten(structure, made)


def _associative_combined(result: Any, structure: Any, like: Sequence[Tensor]) -> list[Tensor]:
    """The leaves of what the function returned, which must be like those it was given."""
    leaves, found = tree.flatten(result)
    if found != structure:
        given = tree.unflatten(structure, [x._node.type for x in like])
        message = f"fn must return a tree like those it is given, {given!r}"
        raise ArgumentError(message, op="associative_scan")
    made = [as_tensor(x) for x in leaves]
    for x, y in zip(like, made):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            what = f"fn must return what it is given, {x._node.type}, got {y._node.type}"
            hint = "It combines many pairs at once: the axis of the scan stays, and the dtype too."
            raise ArgumentError(what, op="associative_scan", hint=hint)
    return made


def _associative_prefixes(combine: Combine, xs: list[Tensor], axes: list[int]) -> list[Tensor]:
    """Combine neighbours, scan the half as many pairs, and fill in the elements between them."""
    n = xs[0].shape[axes[0]]
    if n < 2:
        return xs
    pairs = combine(_associative_strided(xs, axes, 0, n - 1), _associative_strided(xs, axes, 1, n))
    odd = _associative_prefixes(combine, pairs, axes)  # the prefixes that end at 1, 3, 5 ...
    first = _associative_strided(xs, axes, 0, 1)
    if n == 2:
        return _associative_joined(first, odd, axes)
    count = (n - 1) // 2  # of the elements at 2, 4, 6 ...
    even = combine(
        [_associative_part(x, i, 0, count) for x, i in zip(odd, axes)],
        _associative_strided(xs, axes, 2, n),
    )
    return _associative_interleaved(_associative_joined(first, even, axes), odd, axes)


def _associative_part(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    return x[axis_slice_argument(axis, slice(start, stop, step))]


def _associative_strided(xs: list[Tensor], axes: list[int], start: int, stop: int) -> list[Tensor]:
    """Every other element, from `start` to before `stop`."""
    return [_associative_part(x, i, start, stop, 2) for x, i in zip(xs, axes)]


def _associative_joined(a: list[Tensor], b: list[Tensor], axes: list[int]) -> list[Tensor]:
    return [concat([x, y], axis=i) for x, y, i in zip(a, b, axes)]


def _associative_interleaved(
    even: list[Tensor], odd: list[Tensor], axes: list[int]
) -> list[Tensor]:
    """One element of each in turn; there may be one more of the first."""
    made = []
    for x, y, axis in zip(even, odd, axes):
        n = y.shape[axis]
        pairs = stack([_associative_part(x, axis, 0, n), y], axis=axis + 1)
        whole = reshaped_to(pairs, (*y.shape[:axis], 2 * n, *y.shape[axis + 1 :]))
        rest = _associative_part(x, axis, n, x.shape[axis])
        made.append(concat([whole, rest], axis=axis) if rest.shape[axis] else whole)
    return made
