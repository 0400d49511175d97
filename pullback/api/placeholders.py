"""Running a function once on placeholders, which have no values, to get its program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback import tree
from pullback.api.closure import close_over
from pullback.api.custom_arguments import is_custom_array_argument
from pullback.api.recording import recorded_outputs
from pullback.graph.ambient import ambient_tracing_state, thread
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph
from pullback.graph.node import Node, next_number
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.record import record_node
from pullback.lazy.tensor import wrap
from pullback.ops.sources import placeholder
from pullback.ops.wrap.call import inline_call_nodes
from pullback.ops.wrap.tied import Tied
from pullback.tree_writes import LostWrites


class StagedPlaceholders(NamedTuple):
    """A function's program over placeholders.

    `graph` has the leaves of the arguments as inputs, then one for each of `captured`: tensors
    from outside that the function used, in the order of their use. `structure` is the result's.
    """

    graph: Graph
    structure: Any
    captured: list[Node]


def stage_on_placeholders(
    name: str, f: Callable, leaves: Sequence[Any], in_tree: Any, numbers: bool = False,
    frozen: bool = True,
) -> StagedPlaceholders:  # fmt: skip
    """Run `f` on arguments with the structure `in_tree`; each `Type` leaf becomes a placeholder.

    Inside, reading a value or writing to a handle from outside raises at that line. Unless the
    program is `frozen`, to be run again later, tensors from outside may be read. Numbers that `f`
    uses are constants of the program or, with `numbers`, captured like tensors.
    """
    first = next_number()  # nodes with smaller numbers are from outside
    inputs = [placeholder(f"x{i}", x) for i, x in enumerate(leaves) if isinstance(x, Type)]
    handles = iter([wrap(x) for x in inputs])
    given = [next(handles) if isinstance(x, Type) else x for x in leaves]
    with ambient_tracing_state(first, frozen):
        args, kwargs = tree.unflatten(in_tree, given)
        writes = LostWrites((args, kwargs))
        result = f(*args, **kwargs)
        ys, structure = recorded_outputs(name, result)
        writes.refuse(name, result)
        made = _placeholders_tied_to_prints([y._node for y in ys])
    graph, captured = close_over(
        {x: x for x in inputs}, made, lambda n: n.value is not None or n.number < first, numbers
    )
    return StagedPlaceholders(graph, structure, captured)


def stage_placeholder_types(
    name: str, f: Callable, types: Sequence[Any], frozen: bool = True
) -> StagedPlaceholders:
    """`stage` for a function of positional arguments, with numbers captured."""
    return stage_on_placeholders(name, f, types, tree.flatten((tuple(types), {}))[1], True, frozen)


def program_on_placeholders(name: str, f: Callable, args: tuple, kwargs: dict[str, Any]) -> Graph:
    """The program that `f` would run on its arguments, which are tensors or types."""
    leaves, in_tree = tree.flatten((args, kwargs))
    types = [asarray(x)._node.type if is_custom_array_argument(x) else x for x in leaves]
    return canonicalise(inline_call_nodes(stage_on_placeholders(name, f, types, in_tree).graph))


def _placeholders_tied_to_prints(made: list[Node]) -> list[Node]:
    """The results of a function that was traced; computing the first also prints."""
    if thread.prints is not None and made:
        # A number may get another dtype later, so a computed value is better
        place = next((i for i, y in enumerate(made) if y.inputs), 0)
        made[place] = record_node(Tied(), made[place], thread.prints)
    return made
