"""The arguments of one call of a function with a rule: which are tensors, and what rules return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError, GradientVerification
from pullback.graph.interned import exact
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.graph.where import SourceLine, user_line
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import Tensor


class RuleArguments:
    """The arguments of one call: tensors, and everything else as it is."""

    def __init__(self, custom: Any, args: Sequence[Any], kwargs: dict) -> None:
        try:
            bound = custom.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{custom.name}: {error}") from None
        bound.apply_defaults()
        self.keywords, values = bound.kwargs, bound.args
        self.places = _static_places(custom, len(values))
        self.static = tuple([values[i] for i in sorted(self.places)])
        given = [x for i, x in enumerate(values) if i not in self.places]
        leaves, self.in_tree = tree.flatten(given)
        self.template = [None if is_array(x) else (x,) for x in leaves]
        self.tensors = [asarray(x) for x in leaves if is_array(x)]
        held = [x if x is None else comparable(x[0]) for x in self.template]
        fixed = [*map(comparable, self.static), *map(comparable, self.keywords.items())]
        self.key = (self.in_tree, tuple(held), tuple(fixed))

    def arguments(self, tensors: Sequence[Any], **replaced: Any) -> list[Any]:
        """The arguments that are not static; with `static=v`, what is no tensor becomes `v`."""
        rest = iter(tensors)
        leaves = [next(rest) if x is None else replaced.get("static", x[0]) for x in self.template]
        return tree.unflatten(self.in_tree, leaves)

    def __call__(self, f: Callable, tensors: Sequence[Any]) -> Any:
        """`f` on the arguments, with these tensors among them."""
        rest, fixed = iter(self.arguments(tensors)), iter(self.static)
        count = len(self.places) + self.in_tree.num_children
        args = [next(fixed) if i in self.places else next(rest) for i in range(count)]
        return f(*args, **self.keywords)

    def cotangents(
        self, name: str, bwd: Callable, found: Any, xs: Sequence[Node]
    ) -> list[Node | None]:
        """What `bwd` returned, one node for each tensor; `None` for zero."""
        given = self.arguments(xs)
        if not isinstance(found, (tuple, list)) or len(found) != len(given):
            several = isinstance(found, (tuple, list))
            raise ArgumentError(
                f"{name}: bwd must return a tuple of {len(given)} cotangents, one for each "
                f"argument that is not static, got "
                f"{len(found) if several else type(found).__name__}",
                where=line_of(bwd),
                hint="None stands for a zero cotangent; (g,) is a tuple of one.",
            )
        made: list[Node | None] = []
        for i, (argument, c) in enumerate(zip(given, found, strict=True)):
            what = f"the cotangent of argument {i}"
            for x, g in zip(tree.leaves(argument), _entries(name, what, bwd, c, argument)):
                if isinstance(x, Node):
                    made.append(None if g is None else fitting(name, what, bwd, g, x.type))
        return made


def _entries(name: str, what: str, bwd: Callable, c: Any, argument: Any) -> list[Any]:
    """The cotangent of each leaf of an argument; `None` stands for zero, of any part of it."""
    found = tree.broadcast_prefix(c, argument)
    if found is None or len([g for g in found if g is not None]) != len(tree.leaves(c)):
        raise ArgumentError(
            f"{name}: {what} must be a tree like the argument, "
            f"{tree.show(tree.flatten(argument)[1])}, got {tree.show(tree.flatten(c)[1])}",
            where=line_of(bwd),
            hint="None stands for a zero cotangent, of any part.",
        )
    return found


def _static_places(custom: Any, count: int) -> set[int]:
    """The positions of static arguments; keyword-only ones are static anyway."""
    places = set()
    for i in custom.static:
        if not isinstance(i, int) or i < -count:
            raise ArgumentError(
                f"{custom.kind}: nondiff_argnums {i!r} does not name an argument of {custom.name}, "
                f"which was called with {count}",
            )
        if i < count:
            places.add(i % count)
    return places


def is_array(x: Any) -> bool:
    return isinstance(x, Tensor) or hasattr(x, "__array__")


def comparable(value: Any) -> Any:
    """Something that is equal for static values of equal type and bits, or for the same object."""
    key = exact(value)
    try:
        hash(key)
    except TypeError:
        return ("object", id(value))  # the rule holds it, so the number stays its own
    return key


# -- what rules must return -----------------------------------------------------------------------


def expect(
    name: str, what: str, f: Callable, given: Any, structure: Any, like: Sequence[Node]
) -> list[Node | None]:
    """The leaves of `given` as nodes, which must have the tree and the types of `like`."""
    leaves, got = tree.flatten(given)
    if got != structure:
        raise ArgumentError(
            f"{name}: {what} must be a tree like the function's result, {tree.show(structure)}, "
            f"got {tree.show(got)}",
            where=line_of(f),
        )
    return [fitting(name, what, f, x, y.type) for x, y in zip(leaves, like, strict=True)]


def fitting(name: str, what: str, f: Callable, x: Any, type: Type) -> Node | None:
    """A leaf that a rule returned, as a node of the given type; `None` where it cannot matter."""
    if not type.inexact:
        return None
    made = asarray(x) if isinstance(x, Tensor) else asarray(x, dtype=type.dtype)
    if made.shape != type.shape or made.dtype is not type.dtype:
        raise GradientVerification(
            f"{name}: {what} must be {type}, got {made._node.type}", where=line_of(f)
        )
    return node_of(made)


def line_of(f: Callable) -> Any:
    """Where a function was written; for other callables the line that is running."""
    while hasattr(f, "func") or hasattr(f, "__wrapped__"):
        f = getattr(f, "func", None) or f.__wrapped__  # type: ignore[attr-defined]
    code = getattr(f, "__code__", None)
    return user_line() if code is None else SourceLine(code, 0)
