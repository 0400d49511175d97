"""vmap: from a function of one example to a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.named_axes import bind
from pullback.api.placeholders import stage_on_placeholders
from pullback.api.recording import (
    deliver_from_recording,
    is_recorded_value,
    recording_prefix_entries,
)
from pullback.api.signatures import Params, Result, Tree
from pullback.errors import ArgumentError, AxisError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.node import Node
from pullback.graph.source_lines import user_line
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import Axis, laid_out, spread
from pullback.ops.shape.movement import Transpose
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import P, Sharding, entry
from pullback.transforms.batch import batched
from pullback.transforms.call_rules import calling_rules
from pullback.tree_nodes import register_node_hint


@with_argument_checks
def vmap(
    f: Callable[Params, Result], in_axes: Tree = 0, out_axes: Tree = 0,
    axis_size: int | None = None, axis_name: str | None = None,
    spmd_axis_name: str | tuple[str, ...] | None = None,
) -> Callable[Params, Result]:  # fmt: skip
    """Return a function that applies `f` to all examples along an axis of its arguments at once.

    `in_axes` is the axis of each argument to map over, `None` for an argument that all examples
    share; `out_axes` is where the axis goes in the results. Both may be trees that are a prefix of
    the tree of the arguments or results. Keyword arguments are mapped over their first axis.
    `axis_size` is needed only if no argument is mapped.

    With `axis_name`, collectives such as `pb.psum(x, axis_name)` combine the examples, which are
    then parts of one computation: a gradient inside, with respect to a value that all examples
    share, is the sum over the examples.

    With `spmd_axis_name`, the examples are split along axes of the mesh that values are on.

    >>> dot = lambda x, y: (x * y).sum()
    >>> x, y = pb.tensor([[1.0, 2.0], [3.0, 4.0]]), pb.tensor([10.0, 1.0])
    >>> pb.vmap(dot, in_axes=(0, None))(x, y).tolist()
    [12.0, 34.0]
    """
    if axis_size is not None and (type(axis_size) is not int or axis_size < 0):
        raise ArgumentError(f"vmap: axis_size must be an int of at least 0, got {axis_size!r}")
    spmd = _spmd_vmap_axes(spmd_axis_name)

    @boundary
    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        axes = [*_vmap_axes("in_axes", in_axes, args), *[0] * len(tree.leaves(kwargs))]
        examples = _VmapExamples(leaves, axes, (args, kwargs), axis_size)
        axis = Axis(examples.size, axis_name, spmd)
        with calling_rules(user_line()):
            xs = examples.nodes()
            with bind(axis):
                staged = stage_on_placeholders(
                    "vmap", f, examples.types(axis), in_tree, True, frozen=False
                )
            flags = [*examples.flags, *[False] * len(staged.captured)]
            operands = [*xs, *staged.captured]
            mesh = _vmap_mesh(operands, axis)
            operands = [
                _split_vmap_axes(x, has, axis, mesh) for x, has in zip(operands, flags, strict=True)
            ]
            found = batched(staged.graph, axis, operands, flags)
            mesh = mesh or _vmap_mesh([y for y, _ in found], axis)
            found = [(_split_vmap_axes(y, has, axis, mesh), has) for y, has in found]
            made = tree.unflatten(staged.structure, [y for y, _ in found])
            positions = _vmap_axes("out_axes", out_axes, made)
            pairs = zip(found, positions, strict=True)
            results = [
                deliver_from_recording(_move_vmap_axis(y, has, to, axis)) for (y, has), to in pairs
            ]
        return tree.unflatten(staged.structure, results)

    return mapped


class _VmapExamples:
    """The leaves of the arguments, with the mapped axis of each."""

    def __init__(
        self, leaves: list[Any], axes: list[Any], arguments: Any, size: int | None
    ) -> None:
        self.leaves, self.arguments = leaves, arguments
        self.axes = [self._normal(i, x, a) for i, (x, a) in enumerate(zip(leaves, axes))]
        self.size = self._size(size)
        self.flags = [a is not None for x, a in zip(leaves, self.axes) if isinstance(x, Tensor)]

    def _normal(self, i: int, x: Any, axis: Any) -> int | None:
        if axis is None:  # arrays become tensors; other shared values stay as they are
            if hasattr(x, "__array__"):
                self.leaves[i] = asarray(x)
            return None
        hint = "Use None in in_axes for an argument that all examples share."
        if not is_recorded_value(x):
            what = f"only tensors and arrays can be mapped, got {type(x).__name__}"
            more = register_node_hint(x)
            hint = f"{hint}\n{more}" if more else hint
            raise ArgumentError(f"vmap: {what} at {self._path(i)}", hint=hint)
        made = self.leaves[i] = asarray(x)
        rank = len(made.shape)
        if not -rank <= axis < rank:
            what = f"in_axes {axis} is out of range for {made._node.type}"
            raise AxisError(f"vmap: {what} at {self._path(i)}", hint=hint)
        return axis % rank

    def _size(self, given: int | None) -> int:
        found: dict[int, int] = {}  # from a size to the first leaf that has it
        for i, (x, a) in enumerate(zip(self.leaves, self.axes)):
            if a is not None:
                found.setdefault(x.shape[a], i)
        if given is not None:
            found.setdefault(given, -1)
        if len(found) > 1:
            places = [(n, self._path(i) if i >= 0 else "axis_size") for n, i in found.items()]
            sizes = ", ".join(f"{n} ({place})" for n, place in places)
            raise ArgumentError(f"vmap: the mapped axes must have the same size, got {sizes}")
        if not found:
            message = "vmap: no argument is mapped, so the number of examples is unknown"
            raise ArgumentError(message, hint="Map an argument with in_axes, or pass axis_size.")
        return next(iter(found))

    def _path(self, i: int) -> str:
        """The place of a leaf as a user would write it: `argument[0]['w']`, `argument['scale']`."""
        args, kwargs = self.arguments
        return f"argument{[*tree.paths(args), *tree.paths(kwargs)][i]}"

    def nodes(self) -> list[Node]:
        """The tensors among the leaves; those that are mapped have the axis first."""
        pairs = zip(self.leaves, self.axes)
        return [_vmap_axis_to_front(node_of(x), a) for x, a in pairs if isinstance(x, Tensor)]

    def types(self, axis: Axis) -> list[Any]:
        """The arguments for one example: types of the tensors, other leaves as they are."""
        return [
            _vmap_example_type(x._node.type, a, axis) if isinstance(x, Tensor) else x
            for x, a in zip(self.leaves, self.axes)
        ]


def _vmap_example_type(type: Type, a: int | None, axis: Axis) -> Type:
    if a is None:
        return type
    shape = (*type.shape[:a], *type.shape[a + 1 :])
    axes = type.varying if axis.name is None else (*type.varying, axis.name)
    sharding = entry(type.sharding, type.rank, a, axis.spmd)
    return Type(shape, type.dtype, sharding, tuple(sorted(axes)))


def _vmap_axis_to_front(x: Node, axis: int | None) -> Node:
    if not axis:
        return x
    return Transpose((axis, *[i for i in range(x.type.rank) if i != axis]))(x)


def _move_vmap_axis(y: Node, has: bool, to: int | None, axis: Axis) -> Node:
    """A result with its axis at the position that `out_axes` gives."""
    if to is None and has:
        message = f"vmap: out_axes is None for a result {y.type} that differs between examples"
        hint = "Give it an axis, or reduce it over the examples, for example with pb.psum."
        raise ArgumentError(message, hint=hint)
    if to is None:
        return y
    y = y if has else spread(y, axis)
    rank = y.type.rank
    if not -rank <= to < rank:
        raise AxisError(f"vmap: out_axes {to} is out of range for a result {y.type}")
    to %= rank
    return Transpose((*range(1, to + 1), 0, *range(to + 1, rank)))(y) if to else y


def _spmd_vmap_axes(names: str | tuple[str, ...] | None) -> tuple[str, ...]:
    made = () if names is None else (names,) if isinstance(names, str) else names
    if not isinstance(made, tuple) or not all(isinstance(a, str) for a in made):
        message = f"vmap: spmd_axis_name must be a mesh axis or a tuple of mesh axes, got {names!r}"
        raise ArgumentError(message)
    return made


def _vmap_mesh(xs: Sequence[Node], axis: Axis) -> DeviceMesh | None:
    """The mesh that examples are split on, if any."""
    found = [x.type.sharding.mesh for x in xs if x.type.sharding is not None]
    if not axis.spmd or not found:
        return None
    for a in axis.spmd:
        if a not in found[0].sizes:
            message = f"vmap: {found[0]} has no axis {a!r}, which spmd_axis_name names"
            raise ArgumentError(message, hint=f"Its axes are {', '.join(found[0].axis_names)}.")
    return found[0]


def _split_vmap_axes(x: Node, has_axis: bool, axis: Axis, mesh: DeviceMesh | None) -> Node:
    """A value for all examples, with the examples split along `axis.spmd`."""
    if mesh is None or not has_axis:
        return x
    before = () if x.type.sharding is None else x.type.sharding.dims(x.type.rank)[1:]
    rest = [tuple([a for a in axes if a not in axis.spmd]) for axes in before]
    return laid_out(x, x.type.sharded(Sharding(mesh, P(axis.spmd, *rest))))


def _vmap_axes(name: str, axes: Tree, like: Tree) -> list[int | None]:
    """The axis of each leaf of the arguments or results."""
    found = recording_prefix_entries("vmap", name, "an int, None", axes, like)
    for a in found:
        if a is not None and type(a) is not int:
            raise ArgumentError(f"vmap: {name} must contain ints or None, got {a!r}")
    return found
