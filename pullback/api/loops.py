"""Loops that are part of the program, not of the Python around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.carry import Carry, Joined, array_leaf, is_number, returned_values
from pullback.api.placeholders import Staged, stage
from pullback.errors import ArgumentError
from pullback.functions.arguments import placed
from pullback.graph.dtypes import bool_, promote
from pullback.graph.types import Type
from pullback.lazy.operators import node_of, number, weak
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.control.holder import canonical, row
from pullback.ops.control.scan import Scan
from pullback.ops.control.varying import scan_body, while_graphs
from pullback.ops.control.while_loop import While
from pullback.sharding.spec import entry


def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """Runs `state, y = f(state, x)` over the rows `x` of `xs`; gives the last state, and all `y`
    stacked.

    `xs` is a tree of tensors of one length, or `None` with `length`. The state, a tree that begins
    as `init`, keeps its types. Tensors from outside may be used in `f`, and get their gradients.
    The program holds `f` once, whatever the length; `unroll` rounds are written out at a time.

    >>> import pullback as pb
    >>> total, partial = pb.scan(lambda s, x: (s + x, s + x), 0.0, pb.tensor([1.0, 2.0, 3.0]))
    >>> total.item(), partial.tolist()
    (6.0, [1.0, 3.0, 6.0])
    >>> power = lambda w: pb.scan(lambda s, _: (s * w, None), 1.0, length=3)[0]
    >>> w = pb.tensor(2.0)
    >>> power(w).item(), pb.grad(power)(w).item()
    (8.0, 12.0)
    """
    return _scan("scan", f, Carry("scan", init), xs, length, reverse, unroll)


def map(f: Callable, xs: Any) -> Any:
    """`f` of each row of `xs` (a tree of tensors of one length), one after the other, stacked.

    It gives what `pb.vmap(f)` gives, in the memory of one row.

    >>> import pullback as pb
    >>> pb.map(lambda x: x * x, pb.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]
    """
    return _scan("map", lambda _, x: (None, f(x)), Carry("map", None), xs)[1]


def fori_loop(lo: Any, hi: Any, body: Callable, init: Any) -> Any:
    """The state after `state = body(i, state)` for each `i` from `lo` to `hi - 1`.

    With bounds that are Python ints it is a scan, which differentiates in reverse mode too; with
    tensors it is a `while_loop`.

    >>> import pullback as pb
    >>> pb.fori_loop(1, 5, lambda i, s: s * i, 1).item()
    24
    """
    low, high = number(lo), number(hi)
    if type(low) is int and type(high) is int:
        state = Carry("fori_loop", (low, init), counted=True)

        def step(counted: Any, _: None) -> Any:
            i, s = counted
            return (i + 1, body(i, s)), None

        (_, last), _ = _scan("fori_loop", step, state, None, max(0, high - low))
        return last
    first, limit = _bounds(lo, hi)
    state = Carry("fori_loop", (first, init), counted=True)
    return _while(state, lambda s: s[0] < limit, lambda s: (s[0] + 1, body(*s)))[1]


def while_loop(cond: Callable, body: Callable, init: Any) -> Any:
    """The first state, from `init` on by `body(state)`, of which `cond(state)` does not hold.

    It differentiates in forward mode only, for how often it runs is not known before.

    >>> import pullback as pb
    >>> pb.while_loop(lambda x: x < 100, lambda x: x * 3, pb.tensor(2)).item()
    162
    """
    return _while(Carry("while_loop", init), cond, body)


def _scan(
    name: str,
    f: Callable,
    state: Carry,
    xs: Any,
    length: Any = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    leaves, rows_tree = tree.flatten(xs)
    rows = [array_leaf(name, "xs", x) for x in leaves]
    count, length = len(state.leaves), _length(name, rows, xs, number(length))
    unroll = number(unroll)
    if type(unroll) is not int or unroll < 1:
        raise ArgumentError(f"{name}: unroll must be a positive int, got {unroll!r}")
    emitted: Any = None

    def step(*values: Any) -> Any:
        nonlocal emitted
        result = f(state.given(values[:count]), tree.unflatten(rows_tree, values[count:]))
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(
                f"{name}: the body must return a pair of the state and a result, got "
                f"{type(result).__name__}", hint="Return `state, None` if there is no result.",
            )  # fmt: skip
        ys, emitted = tree.flatten(returned_values(name, result[1]))
        return (*state.returned(result[0]), *ys)

    types = [_row(x._node.type) for x in rows]
    staged = state.settle(lambda given: _stage(name, step, [*given, *types]))
    joined = Joined([staged], count + len(rows))
    body = canonical(scan_body(joined.graphs[0], joined.axes, count))
    op = Scan(body, count, len(rows), length, bool(reverse), unroll)
    made = joined.apply(op, [*state.nodes(), *[node_of(x) for x in rows]])
    return state.given(made[:count]), tree.unflatten(emitted, made[count:])


def _row(type: Type) -> Type:
    """The type of one row, which lies as all of them do."""
    return row(type).sharded(entry(type.sharding, type.rank, 0))


def _while(state: Carry, cond: Callable, body: Callable) -> Any:
    name, count = state.name, len(state.leaves)

    def test(*values: Any) -> Any:
        return returned_values(name, cond(state.given(values)))

    def step(*values: Any) -> Any:
        return tuple(state.returned(body(state.given(values))))

    work = state.settle(lambda given: _stage(name, step, given))
    ends = _stage(name, test, state.types)
    answer = [y.type.plain for y in ends.graph.outputs]
    if answer != [Type((), bool_)]:
        raise ArgumentError(
            f"{name}: the condition must return one scalar bool, got "
            f"{tree.unflatten(ends.structure, answer)!r}",
            hint="Write a comparison; reduce several with pb.all or pb.any.",
        )
    joined = Joined([ends, work], count)
    first, second = joined.graphs
    first, second = while_graphs(first, second, joined.axes, count)
    op = While(canonical(first), canonical(second), count)
    return state.given(joined.apply(op, state.nodes()))


def _stage(name: str, f: Callable, types: Sequence[Any]) -> Staged:
    in_tree = tree.flatten((tuple(types), {}))[1]
    return stage(name, f, types, in_tree, numbers=True)


def _length(name: str, rows: Sequence[Tensor], xs: Any, length: Any) -> int:
    """How many rounds there are: the one length of all rows."""
    if length is not None and (type(length) is not int or length < 0):
        raise ArgumentError(f"{name}: length must be an int that is not negative, got {length!r}")
    found = {} if length is None else {length: "length"}
    for x, path in zip(rows, tree.paths(xs), strict=True):
        if not x.shape:
            raise ArgumentError(
                f"{name}: xs{path} has no rows, it is a scalar {x._node.type}",
                hint="What is the same in every round needs no place in xs: use it in the body.",
            )  # fmt: skip
        found.setdefault(x.shape[0], f"xs{path}")
    if len(found) > 1:
        lengths = ", ".join([f"{n} ({where})" for n, where in found.items()])
        raise ArgumentError(f"{name}: everything in xs must have one length, got {lengths}")
    if not found:
        raise ArgumentError(f"{name}: without xs, length must say how many rounds there are")
    return next(iter(found))


def _bounds(lo: Any, hi: Any) -> tuple[Tensor, Tensor]:
    """The bounds of a loop, in one type that counts to both."""
    first, last = (array_leaf("fori_loop", "a bound", x) for x in (lo, hi))
    for x in (first, last):
        if x.shape or not x.dtype.is_integer:
            raise ArgumentError(f"fori_loop: bounds must be scalar integers, got {x._node.type}")
    low, high = number(lo), number(hi)
    if is_number(low):
        first = wrap(placed("fori_loop", weak, low, last.dtype))
    elif is_number(high):
        last = wrap(placed("fori_loop", weak, high, first.dtype))
    dtype = promote(first.dtype, last.dtype)
    return first.astype(dtype), last.astype(dtype)
