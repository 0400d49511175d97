"""The types of results, without computing them."""

from __future__ import annotations

from collections.abc import Callable

from pullback import tree
from pullback.api.placeholders import stage_on_placeholders
from pullback.api.signatures import Tree
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.state_writes import collect_state_writes


@with_argument_checks
def eval_shape(f: Callable[..., Tree], *args: Tree, **kwargs: Tree) -> Tree:
    """Return the types of what `f` would return, without computing anything.

    Arguments are tensors, or types made with `pb.Type(shape, dtype)`.

    >>> pb.eval_shape(lambda x: x @ x, pb.Type((4, 4), pb.float32))
    f32[4,4]
    """
    leaves, in_tree = tree.flatten((args, kwargs))
    types = [x if isinstance(x, Type) else asarray(x)._node.type for x in leaves]

    def run(*args: Tree, **kwargs: Tree) -> Tree:
        with collect_state_writes():  # nothing is computed, so nothing is written
            return f(*args, **kwargs)

    staged = stage_on_placeholders("eval_shape", run, types, in_tree)
    return tree.unflatten(staged.structure, [y.type for y in staged.graph.outputs])
