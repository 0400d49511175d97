"""Arguments of functions with custom rules, and checks of what the rules return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.api.custom_results import fitting_custom_result, line_of_custom_result
from pullback.errors import ArgumentError
from pullback.graph.interned import exact_key
from pullback.graph.node import Node
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor

if TYPE_CHECKING:
    from pullback.api.custom_vjp_jvp import CustomFunction


class CustomArguments:
    """The arguments of one call, separated into tensors and everything else."""

    def __init__(self, custom: CustomFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        try:
            bound = custom.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{custom.name}: {error}") from None
        bound.apply_defaults()
        self.keywords, values = bound.kwargs, bound.args
        self.static_positions = _static_custom_arguments(custom, len(values))
        self.static = tuple([values[i] for i in sorted(self.static_positions)])
        given = [x for i, x in enumerate(values) if i not in self.static_positions]
        leaves, self.in_tree = tree.flatten(given)
        self.template = [None if is_custom_array_argument(x) else (x,) for x in leaves]
        self.tensors = [asarray(x) for x in leaves if is_custom_array_argument(x)]
        leaf_keys = [x if x is None else comparable_custom_argument(x[0]) for x in self.template]
        static_keys = [
            *map(comparable_custom_argument, self.static),
            *map(comparable_custom_argument, self.keywords.items()),
        ]
        self.key = (self.in_tree, tuple(leaf_keys), tuple(static_keys))

    def arguments(self, tensors: Sequence[Any], others: float | None = None) -> list[Any]:
        """The arguments that are not static, with these tensors.

        Leaves that are not tensors are those of the call, or `others` if it is given.
        """
        rest = iter(tensors)
        own = [x if x is None or others is None else (others,) for x in self.template]
        return tree.unflatten(self.in_tree, [next(rest) if x is None else x[0] for x in own])

    def __call__(self, f: Callable, tensors: Sequence[Any]) -> Any:
        """Call `f` on the arguments, with these tensors."""
        rest, static = iter(self.arguments(tensors)), iter(self.static)
        count = len(self.static_positions) + self.in_tree.num_children
        args = [next(static) if i in self.static_positions else next(rest) for i in range(count)]
        return f(*args, **self.keywords)

    def cotangents(
        self, name: str, bwd: Callable, found: Any, xs: Sequence[Node]
    ) -> list[Node | None]:
        """The cotangents that `bwd` returned, one for each tensor; `None` for zero."""
        given = self.arguments(xs)
        count = len(found) if isinstance(found, (tuple, list)) else type(found).__name__
        if count != len(given):
            wanted = f"{len(given)} cotangents, one for each argument that is not static"
            message = f"{name}: bwd must return a tuple of {wanted}, got {count}"
            hint = "None stands for a zero cotangent; (g,) is a tuple of one."
            raise ArgumentError(message, where=line_of_custom_result(bwd), hint=hint)
        made: list[Node | None] = []
        for i, (argument, c) in enumerate(zip(given, found, strict=True)):
            what = f"the cotangent of argument {i}"
            for x, g in zip(
                tree.leaves(argument), _custom_argument_entries(name, what, bwd, c, argument)
            ):
                if isinstance(x, Node):
                    made.append(
                        None if g is None else fitting_custom_result(name, what, bwd, g, x.type)
                    )
        return made


def _custom_argument_entries(
    name: str, what: str, bwd: Callable, c: Any, argument: Any
) -> list[Any]:
    """The cotangent of each leaf of an argument; `None` is zero, for any subtree."""
    found = tree.broadcast_prefix(c, argument)
    if found is None or len([g for g in found if g is not None]) != len(tree.leaves(c)):
        like, got = (tree.show_tree_structure(tree.flatten(x)[1]) for x in (argument, c))
        message = f"{name}: {what} must be a tree like the argument, {like}, got {got}"
        hint = "None stands for a zero cotangent of any subtree, * for a leaf."
        raise ArgumentError(message, where=line_of_custom_result(bwd), hint=hint)
    return found


def _static_custom_arguments(custom: CustomFunction, count: int) -> set[int]:
    """The positions of static arguments among `count` positional ones."""
    positions = set()
    for i in custom.static:
        if not isinstance(i, int) or i < -count:
            raise ArgumentError(
                f"{custom.kind}: nondiff_argnums {i!r} does not name an argument of {custom.name}, "
                f"which was called with {count}"
            )
        if i < count:
            positions.add(i % count)
    return positions


def is_custom_array_argument(x: object) -> bool:
    return isinstance(x, Tensor) or hasattr(x, "__array__")


def comparable_custom_argument(value: Any) -> Any:
    """A hashable key that is equal for static values of equal type and bits, or the same object."""
    key = exact_key(value)
    try:
        hash(key)
    except TypeError:
        return ("object", id(value))  # the rule keeps it alive, so the id stays unique
    return key
