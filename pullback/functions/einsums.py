"""Einstein summation, and the order in which it multiplies many operands."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pullback.errors import ArgumentError
from pullback.functions.arguments import checked_integer_argument, converted_argument
from pullback.functions.products import product_operands
from pullback.graph.argument_checks import shown_argument
from pullback.graph.node import Node
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.linalg.einsum_expansion import Einsum, Labels, einsum_sizes, parse_einsum
from pullback.typing import ArrayLike

# In the order of characters, so that a result without labels has them in the order of numbers.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_METHODS = (
    "auto", "auto-hq", "branch-1", "branch-2", "branch-all", "dp", "dynamic-programming", "eager",
    "greedy", "opportunistic", "optimal",
)  # fmt: skip

Path = tuple[tuple[int, ...], ...]
Optimize = bool | str | Sequence[Any]


def einsum(
    subscripts: str | ArrayLike, *xs: ArrayLike | Sequence[Any], optimize: Optimize = "auto"
) -> Tensor:
    """Return the sum of products that the subscripts describe, as in NumPy.

    Instead of a string, a list of integers and `...` may follow each operand, and one more for the
    result may come last. More than two operands are multiplied in the order that takes the fewest
    operations, as `optimize` says: a method of opt_einsum ("auto", "greedy", "optimal", "dp" ...),
    a path that `einsum_path` returned, or False for the order that takes the least memory at each
    step.

    >>> pb.einsum("ij,j->i", [[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    >>> pb.einsum([[1, 2], [3, 4]], [0, 1], [1, 1], [1], [0]).tolist()
    [3, 7]
    """
    spec, arrays = _einsum_call("einsum", subscripts, xs)
    nodes = product_operands(*arrays)
    return record(Einsum(spec, _einsum_path("einsum", spec, nodes, optimize)), tuple(nodes))


def einsum_path(
    subscripts: str | ArrayLike, *xs: ArrayLike | Sequence[Any], optimize: Optimize = "auto"
) -> tuple[list[Any], str]:
    """Return the order in which `einsum` multiplies operands, and a description of its cost.

    Each step of the path names the operands of a product by their positions in the list that is
    left; the result is appended to it. The path can be given to `einsum` as `optimize`.

    >>> a, b, c = pb.ones((2, 9)), pb.ones((9, 9)), pb.ones(9)
    >>> path, report = pb.einsum_path("ij,jk,k->i", a, b, c)
    >>> path
    ['einsum_path', (1, 2), (0, 1)]
    """
    import opt_einsum

    spec, arrays = _einsum_call("einsum_path", subscripts, xs)
    nodes = product_operands(*arrays)
    path = _einsum_path("einsum_path", spec, nodes, optimize)
    converted_argument("einsum_path", Einsum(spec, path).infer, *[x.type for x in nodes])
    steps = path or (tuple(range(len(nodes))),)
    shapes = [x.type.shape for x in nodes]
    _, report = opt_einsum.contract_path(spec, *shapes, shapes=True, optimize=list(steps))
    return ["einsum_path", *steps], str(report)


def _einsum_call(op: str, first: Any, rest: Sequence[Any]) -> tuple[str, list[Any]]:
    """The subscripts as a string, and the operands."""
    if isinstance(first, str):
        if not rest:
            raise ArgumentError("needs at least one operand", op=op)
        return first, list(rest)
    given = [first, *rest]
    if len(given) < 2 or not isinstance(given[1], (list, tuple)):
        message = (
            "subscripts must be a string, or follow each operand as a list, "
            f"got {shown_argument(first)}"
        )
        raise ArgumentError(message, op=op)
    result = _einsum_letters(op, given.pop()) if len(given) % 2 else None
    parts = ",".join(_einsum_letters(op, labels) for labels in given[1::2])
    return parts if result is None else f"{parts}->{result}", given[::2]


def _einsum_letters(op: str, labels: Any) -> str:
    if not isinstance(labels, (list, tuple)):
        message = (
            f"the subscripts of an operand must be a list of integers, got {shown_argument(labels)}"
        )
        raise ArgumentError(message, op=op)
    letters = []
    for label in labels:
        number = -1 if label is Ellipsis else checked_integer_argument(op, label, "a subscript")
        if label is not Ellipsis and not 0 <= number < len(_LETTERS):
            message = f"a subscript must be at least 0 and less than {len(_LETTERS)}, got {number}"
            raise ArgumentError(message, op=op)
        letters.append("..." if label is Ellipsis else _LETTERS[number])
    return "".join(letters)


def _einsum_path(op: str, spec: str, nodes: Sequence[Node], optimize: Any) -> Path:
    """The steps by which operands are multiplied; none if there is no choice."""
    method, limit = optimize, None
    if isinstance(optimize, (list, tuple)):
        steps = optimize[1:] if optimize and optimize[0] == "einsum_path" else optimize
        if all(isinstance(step, (list, tuple)) for step in steps):
            what = "a position in the path"
            return tuple(
                tuple(checked_integer_argument(op, i, what) for i in step) for step in steps
            )
        if len(optimize) == 2:  # as in NumPy: a method and the largest intermediate value
            method, limit = (
                optimize[0],
                checked_integer_argument(op, optimize[1], "the largest size"),
            )
    if method is False:
        return ()
    method = "auto" if method is True else method
    if not isinstance(method, str) or method not in _METHODS:
        message = f"optimize must be True, False, a path or one of {', '.join(_METHODS)}"
        raise ArgumentError(f"{message}, got {shown_argument(optimize)}", op=op)
    if len(nodes) < 3:
        return ()
    types = [x.type for x in nodes]
    terms, output = converted_argument(op, parse_einsum, spec, types)
    sizes = converted_argument(op, einsum_sizes, spec, terms, types)
    real = [  # a dimension of size 1 that broadcasts is no part of a product
        tuple(i for i, n in zip(labels, t.shape) if n == sizes[i])
        for labels, t in zip(terms, types)
    ]
    return _searched_einsum_path(tuple(real), output, tuple(sizes.items()), method, limit)


@lru_cache(maxsize=256)
def _searched_einsum_path(
    terms: tuple[Labels, ...], output: Labels, sizes: tuple[tuple[str, int], ...], method: str,
    limit: int | None,
) -> Path:  # fmt: skip
    from opt_einsum import paths

    inputs = [frozenset(labels) for labels in terms]
    found = paths.get_path_fn(method)(inputs, frozenset(output), dict(sizes), limit)
    return tuple(tuple(sorted(map(int, step))) for step in found)


__all__ = ["einsum", "einsum_path"]
