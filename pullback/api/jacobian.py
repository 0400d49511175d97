"""Whole Jacobians and Hessians: a linear map, applied to all unit vectors at once by vmap."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import tree
from pullback.api.loops import map as map_rows
from pullback.api.recording import Recording, Transform, deliver, normal_argnums, outputs
from pullback.api.vmap import vmap
from pullback.errors import ArgumentError
from pullback.functions import concat, moveaxis, reshape
from pullback.functions import zeros as zero_tensor
from pullback.graph.ambient import thread
from pullback.graph.dtypes import int64
from pullback.graph.node import Node, vary_over
from pullback.lazy.evaluate import evaluate
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import ones, zeros_like
from pullback.ops.shape.iota import Iota
from pullback.transforms.forward import tangents
from pullback.transforms.reverse import gradients

# Up to this many leaves each are mapped by themselves: the zeros of the others cost nothing then.
# More are taken in this many groups, so that programs do not grow with the number of leaves.
GROUPS = 8


def jacrev(
    f: Callable, argnums: int | Sequence[int] = 0, chunk_size: int | None = None
) -> Callable:
    """The Jacobian by reverse mode: good when `f` has few results.

    A leaf of the result and a leaf of an argument give a block of shape result + argument. With
    `chunk_size`, so many rows are computed at a time: memory for intermediate values is bounded.

    >>> import pullback as pb
    >>> pb.jacrev(lambda x: x * x)(pb.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with Transform():
            recording = _record("jacrev", f, argnums, args, kwargs)
            with recording.derivative:
                ys, structure = outputs("jacrev", recording.result)

                nodes, xs = [y._node for y in ys], recording.tensors

                def pull(chosen: Sequence[int], gs: Sequence[Node]) -> Sequence[Node | None]:
                    return gradients([nodes[i] for i in chosen], gs, recording.inputs)

                blocks = []
                rows = _Linear(pull, ys, xs, 0).matrix(chunk_size)
                for y, row in zip(ys, rows, strict=True):
                    made = [reshape(r, y.shape + x.shape) for r, x in zip(row, xs, strict=True)]
                    blocks.append(_of_arguments(argnums, recording, made))
                return tree.unflatten(structure, blocks)

    return jacobian


def jacfwd(
    f: Callable,
    argnums: int | Sequence[int] = 0,
    chunk_size: int | None = None,
    _name: str = "jacfwd",
) -> Callable:
    """The Jacobian by forward mode: good when `f` has few arguments.

    With `chunk_size`, so many columns are computed at a time.

    >>> import pullback as pb
    >>> pb.jacfwd(lambda x: x * x)(pb.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with Transform():
            recording = _record(_name, f, argnums, args, kwargs)
            with recording.derivative:
                ys, structure = outputs(_name, recording.result)
                nodes, xs = [y._node for y in ys], recording.tensors

                def push(chosen: Sequence[int], ts: Sequence[Node]) -> Sequence[Node | None]:
                    return tangents(nodes, [recording.inputs[i] for i in chosen], ts)

                columns = _Linear(push, xs, ys, -1).matrix(chunk_size)
                blocks = []
                for k, y in enumerate(ys):
                    made = [reshape(c[k], y.shape + x.shape) for c, x in zip(columns, xs)]
                    blocks.append(_of_arguments(argnums, recording, made))
                return tree.unflatten(structure, blocks)

    return jacobian


def jacobian(
    f: Callable, argnums: int | Sequence[int] = 0, chunk_size: int | None = None
) -> Callable:
    """The Jacobian of `f`, by reverse mode.

    >>> import pullback as pb
    >>> pb.jacobian(lambda x: x.sum())(pb.tensor([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return jacrev(f, argnums, chunk_size)


def hessian(
    f: Callable, argnums: int | Sequence[int] = 0, chunk_size: int | None = None
) -> Callable:
    """The matrix of second derivatives: forward over reverse.

    >>> import pullback as pb
    >>> pb.hessian(lambda x: (x ** 3).sum())(pb.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(f, argnums), argnums, chunk_size, _name="hessian")


def _record(
    name: str, f: Callable, argnums: int | Sequence[int], args: Sequence[Any], kwargs: dict
) -> Recording:
    return Recording(name, f, args, kwargs, normal_argnums(name, argnums, len(args)))


def _of_arguments(argnums: Any, recording: Recording, made: Sequence[Tensor]) -> Any:
    """A block for each leaf of the arguments, in the tree of those that were chosen."""
    per_argument = tree.unflatten(recording.in_tree, made)
    return per_argument[0] if isinstance(argnums, int) else tuple(per_argument)


# -- all unit vectors -----------------------------------------------------------------------------


class _Linear:
    """A linear map between spaces that are lists of tensors, applied to all unit vectors."""

    def __init__(
        self,
        apply: Callable[[Sequence[int], Sequence[Node]], Sequence[Node | None]],
        domain: Sequence[Tensor],
        range_: Sequence[Tensor],
        axis: int,
    ) -> None:
        """`apply` is given the numbers of some tensors and a vector for each; others are zero.

        `axis` is where the results for the unit vectors are stacked.
        """
        self.apply, self.domain, self.range, self.axis = apply, domain, range_, axis

    def matrix(self, chunk_size: int | None) -> list[list[Tensor]]:
        """For each tensor of the domain, a list of stacked results."""
        if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
            raise ArgumentError(f"chunk_size must be a positive int, got {chunk_size!r}")
        count = len(self.domain)
        size = -(-count // GROUPS)
        made = []
        for start in range(0, count, max(size, 1)):
            group = range(start, min(start + size, count))
            stacked = self._of_group(group, chunk_size)
            ends = list(itertools.accumulate(self.domain[i].size for i in group))
            for low, high in zip([0, *ends], ends, strict=False):
                made.append([self._cut(y, low, high) for y in stacked])
        return made

    def _of_group(self, group: Sequence[int], chunk_size: int | None) -> list[Tensor]:
        """The results for the unit vectors of some tensors, `chunk_size` of them at a time."""
        total = sum(self.domain[i].size for i in group)
        if not total:
            return [zero_tensor(self._shape(y, 0), dtype=y.dtype) for y in self.range]

        def one(*vectors: Tensor) -> list[Tensor]:
            return self._apply(group, [node_of(v) for v in vectors])

        if total == 1:  # nothing to map: the only unit vector is 1
            made = self._apply(group, [ones(self.domain[i]._node.type) for i in group])
            return [reshape(y, self._shape(y, 1)) for y in made]

        def chunk(start: Any, count: int) -> list[Tensor]:
            return vmap(one, out_axes=self.axis)(*self._unit_vectors(group, start, count))

        step = min(chunk_size or total, total)
        starts = range(0, total - step + 1, step)
        parts = []
        if len(starts) > 1 and thread.tracing_from:  # one program does them all, in turns
            made = map_rows(lambda start: chunk(start, step), np.array(starts))
            parts.append([self._joined(y) for y in made])
        else:
            for start in starts:
                parts.append(chunk(start, step))
                if step < total and not thread.tracing_from:
                    evaluate(parts[-1])  # what this chunk needed is free again
        if total % step:
            parts.append(chunk(total - total % step, total % step))
        if len(parts) == 1:
            return parts[0]
        return [concat(p, axis=self.axis) for p in zip(*parts, strict=True)]

    def _joined(self, chunks: Tensor) -> Tensor:
        """Results of several chunks, which are stacked in front, as one."""
        if self.axis == 0:
            return reshape(chunks, (chunks.shape[0] * chunks.shape[1], *chunks.shape[2:]))
        *shape, count, size = (chunks := moveaxis(chunks, 0, -2)).shape
        return reshape(chunks, (*shape, count * size))

    def _apply(self, group: Sequence[int], vectors: Sequence[Node]) -> list[Tensor]:
        axes = [self.domain[i]._node.type.varying for i in group]
        vectors = [vary_over(v, a) for v, a in zip(vectors, axes, strict=True)]
        found = zip(self.apply(group, vectors), self.range, strict=True)
        return [deliver(zeros_like(like._node.type) if y is None else y) for y, like in found]

    def _unit_vectors(self, group: Sequence[int], start: Any, count: int) -> list[Tensor]:
        """Rows of the identity over all elements of some tensors.

        Where they begin is a number of the program, not part of it: chunks share one program.
        """
        made = []
        row = record(Iota((count, 1), 0, int64), ())
        for i in group:
            x = self.domain[i]
            column = record(Iota((1, x.size), 1, int64), ())
            made.append((row + start == column).astype(x.dtype).reshape((count, *x.shape)))
            start -= x.size
        return made

    def _shape(self, y: Tensor, count: int) -> tuple[int, ...]:
        return (count, *y.shape) if self.axis == 0 else (*y.shape, count)

    def _cut(self, y: Tensor, low: int, high: int) -> Tensor:
        if y.shape[self.axis] == high - low:
            return y
        return y[low:high] if self.axis == 0 else y[..., low:high]
