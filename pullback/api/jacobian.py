"""Jacobians and Hessians: a linear map, applied to all unit vectors at once with vmap."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback import tree
from pullback.api.grad import split_grad_aux
from pullback.api.loops import map as map_rows
from pullback.api.recording import (
    Recording,
    RecordingTransform,
    deliver_from_recording,
    recorded_argnums,
    recorded_outputs,
)
from pullback.api.signatures import Argnums, Params, Tree
from pullback.api.vmap import vmap
from pullback.errors import ArgumentError
from pullback.functions import concat, moveaxis, reshape
from pullback.functions import zeros as zero_tensor
from pullback.graph.ambient import thread
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.dtypes import int64
from pullback.graph.node import Node, node_varying_over
from pullback.lazy.evaluate import evaluate
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import ones, zeros_like
from pullback.ops.shape.iota import Iota
from pullback.transforms.forward import forward_tangents
from pullback.transforms.reverse import gradients

# Up to this many leaves are mapped one by one, so that zeros of the others cost nothing. More are
# taken in this many groups, so that the program does not grow with the number of leaves.
GROUPS = 8


@with_argument_checks
def jacrev(
    f: Callable[Params, Tree], argnums: Argnums = 0, chunk_size: int | None = None, *,
    has_aux: bool = False,
) -> Callable[Params, Tree]:  # fmt: skip
    """Return a function that computes the Jacobian of `f` in reverse mode.

    This suits functions with few result elements. Each pair of a leaf of the result and a leaf of
    the selected arguments gives a block of shape `result.shape + argument.shape`. `chunk_size` is
    the number of rows that are computed at a time; it bounds the memory for intermediate values.
    With `has_aux`, `f` returns a pair of the result and auxiliary data, and so does the new
    function.

    >>> pb.jacrev(lambda x: x * x)(pb.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return _jacobian("jacrev", _jacobian_by_rows, f, argnums, chunk_size, has_aux)


@with_argument_checks
def jacfwd(
    f: Callable[Params, Tree], argnums: Argnums = 0, chunk_size: int | None = None, *,
    has_aux: bool = False,
) -> Callable[Params, Tree]:  # fmt: skip
    """Return a function that computes the Jacobian of `f` in forward mode.

    This suits functions with few argument elements. `chunk_size` columns are computed at a time.
    `has_aux` is that of `jacrev`.

    >>> pb.jacfwd(lambda x: x * x)(pb.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return _jacobian("jacfwd", _jacobian_by_columns, f, argnums, chunk_size, has_aux)


@with_argument_checks
def jacobian(
    f: Callable[Params, Tree], argnums: Argnums = 0, chunk_size: int | None = None, *,
    has_aux: bool = False,
) -> Callable[Params, Tree]:  # fmt: skip
    """Return a function that computes the Jacobian of `f`, in reverse mode.

    >>> pb.jacobian(lambda x: x.sum())(pb.tensor([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return jacrev(f, argnums, chunk_size, has_aux=has_aux)


@with_argument_checks
def hessian(
    f: Callable[Params, Tree], argnums: Argnums = 0, chunk_size: int | None = None, *,
    has_aux: bool = False,
) -> Callable[Params, Tree]:  # fmt: skip
    """Return a function that computes the Hessian of `f`, forward over reverse.

    >>> pb.hessian(lambda x: (x ** 3).sum())(pb.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    gradient = jacrev(f, argnums, has_aux=has_aux)
    return _jacobian("hessian", _jacobian_by_columns, gradient, argnums, chunk_size, has_aux)


def _jacobian(
    name: str, blocks_of: Callable[[Recording, list[Tensor], int | None], list[list[Tensor]]],
    f: Callable[Params, Tree], argnums: Argnums, chunk_size: int | None, has_aux: bool,
) -> Callable[Params, Tree]:  # fmt: skip
    @boundary
    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Tree:
        with RecordingTransform(args, kwargs):
            selected = recorded_argnums(name, argnums, len(args))
            recording = Recording(name, f, args, kwargs, selected)
            with recording.derivative:
                result, aux = split_grad_aux(name, recording.result, has_aux)
                ys, structure = recorded_outputs(name, result)
                blocks = []
                for y, row in zip(ys, blocks_of(recording, ys, chunk_size), strict=True):
                    pairs = zip(row, recording.tensors, strict=True)
                    made = [reshape(block, y.shape + x.shape) for block, x in pairs]
                    own = recording.arguments(made)
                    blocks.append(own[0] if isinstance(argnums, int) else tuple(own))
                derivative = tree.unflatten(structure, blocks)
        return (derivative, recording.hand_out(aux)) if has_aux else derivative

    return jacobian


def _jacobian_by_rows(
    recording: Recording, ys: list[Tensor], chunk_size: int | None
) -> list[list[Tensor]]:
    """For each result the blocks of all arguments, in reverse mode."""
    nodes = [y._node for y in ys]

    def pull(selected: Sequence[int], gs: Sequence[Node]) -> Sequence[Node | None]:
        return gradients([nodes[i] for i in selected], gs, recording.inputs)

    return _JacobianMap(pull, ys, recording.tensors, 0).matrix(chunk_size)


def _jacobian_by_columns(
    recording: Recording, ys: list[Tensor], chunk_size: int | None
) -> list[list[Tensor]]:
    """For each result the blocks of all arguments, in forward mode."""
    nodes = [y._node for y in ys]

    def push(selected: Sequence[int], ts: Sequence[Node]) -> Sequence[Node | None]:
        return forward_tangents(nodes, [recording.inputs[i] for i in selected], ts)

    columns = _JacobianMap(push, recording.tensors, ys, -1).matrix(chunk_size)
    return [[column[k] for column in columns] for k in range(len(ys))]


@dataclass
class _JacobianMap:
    """A linear map between lists of tensors, to be applied to all unit vectors.

    `apply` is given the positions of some tensors and a vector for each; the others are zero.
    `axis` is where the results for the unit vectors are stacked.
    """

    apply: Callable[[Sequence[int], Sequence[Node]], Sequence[Node | None]]
    domain: Sequence[Tensor]
    range: Sequence[Tensor]
    axis: int

    def matrix(self, chunk_size: int | None) -> list[list[Tensor]]:
        """The stacked results for each tensor of the domain."""
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
                cut = slice(low, high) if self.axis == 0 else (..., slice(low, high))
                made.append([y if len(ends) == 1 else y[cut] for y in stacked])
        return made

    def _of_group(self, group: Sequence[int], chunk_size: int | None) -> list[Tensor]:
        """The results for the unit vectors of some tensors, `chunk_size` of them at a time."""
        total = sum(self.domain[i].size for i in group)
        if not total:
            return [zero_tensor(self._shape(y, 0), dtype=y.dtype) for y in self.range]

        def one(*vectors: Tensor) -> list[Tensor]:
            return self._apply(group, [node_of(v) for v in vectors])

        if total == 1:  # the only unit vector is 1
            made = self._apply(group, [ones(self.domain[i]._node.type) for i in group])
            return [reshape(y, self._shape(y, 1)) for y in made]

        def chunk(start: Any, count: int) -> list[Tensor]:
            return vmap(one, out_axes=self.axis)(*self._unit_vectors(group, start, count))

        step = min(chunk_size or total, total)
        starts = range(0, total - step + 1, step)
        parts = []
        if len(starts) > 1 and thread.tracing_from:  # one program with a loop
            made = map_rows(lambda start: chunk(start, step), np.array(starts))
            parts.append([self._joined(y) for y in made])
        else:
            for start in starts:
                parts.append(chunk(start, step))
                if step < total and not thread.tracing_from:
                    evaluate(parts[-1])  # frees the memory that this chunk needed
        if total % step:
            parts.append(chunk(total - total % step, total % step))
        if len(parts) == 1:
            return parts[0]
        return [concat(p, axis=self.axis) for p in zip(*parts, strict=True)]

    def _joined(self, chunks: Tensor) -> Tensor:
        """Join the results of several chunks, which are stacked along the first axis."""
        if self.axis == 0:
            return reshape(chunks, (chunks.shape[0] * chunks.shape[1], *chunks.shape[2:]))
        *shape, count, size = (chunks := moveaxis(chunks, 0, -2)).shape
        return reshape(chunks, (*shape, count * size))

    def _apply(self, group: Sequence[int], vectors: Sequence[Node]) -> list[Tensor]:
        axes = [self.domain[i]._node.type.varying for i in group]
        vectors = [node_varying_over(v, a) for v, a in zip(vectors, axes, strict=True)]
        found = zip(self.apply(group, vectors), self.range, strict=True)
        return [
            deliver_from_recording(zeros_like(like._node.type) if y is None else y)
            for y, like in found
        ]

    def _unit_vectors(self, group: Sequence[int], start: Any, count: int) -> list[Tensor]:
        """Rows of the identity over all elements of some tensors, from row `start` on.

        `start` is an operand of the program, so that all chunks share one program.
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
