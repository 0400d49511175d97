"""Loops that are part of the program: `scan`, `map`, `fori_loop` and `while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.carry import Carry, JoinedCarry, carry_leaf, is_carried_number, returned_carry
from pullback.api.placeholders import stage_placeholder_types
from pullback.api.signatures import Result, State, Tree
from pullback.errors import ArgumentError
from pullback.functions.arguments import converted_argument
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import bool_, promote_dtypes
from pullback.graph.types import Type
from pullback.lazy.operators import node_of, operator_number, weak_operator_operand
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.control.holder import canonical_holder_graph, held_row
from pullback.ops.control.scan import Scan
from pullback.ops.control.varying import varying_scan_body, varying_while_graphs
from pullback.ops.control.while_loop import While
from pullback.sharding.spec import entry


@with_argument_checks
def scan(
    f: Callable[[Tree, Tree], tuple[State, Result]], init: Tree, xs: Tree = None,
    length: int | None = None, reverse: bool = False, unroll: int = 1,
) -> tuple[State, Result]:  # fmt: skip
    """Run `state, y = f(state, x)` for each row `x` of `xs`; return the last state and all `y`.

    `xs` is a tree of tensors of the same length, or `None` with `length`. The state starts as the
    tree `init` and keeps its types; the `y` are stacked. `f` may use tensors from outside, which
    get gradients. The program contains `f` once, for any length; `unroll` is the number of
    iterations that are written out at a time.

    >>> total, partial = pb.scan(lambda s, x: (s + x, s + x), 0.0, pb.tensor([1.0, 2.0, 3.0]))
    >>> total.item(), partial.tolist()
    (6.0, [1.0, 3.0, 6.0])
    >>> power = lambda w: pb.scan(lambda s, _: (s * w, None), 1.0, length=3)[0]
    >>> w = pb.tensor(2.0)
    >>> power(w).item(), pb.grad(power)(w).item()
    (8.0, 12.0)
    """
    return _record_scan_loop("scan", f, Carry("scan", init), xs, length, reverse, unroll)


@with_argument_checks
def map(f: Callable[[Tree], Result], xs: Tree) -> Result:
    """Apply `f` to the rows of `xs` (a tree of tensors), one after the other; stack the results.

    The result is that of `pb.vmap(f)`, in the memory of one row.

    >>> pb.map(lambda x: x * x, pb.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]
    """
    return _record_scan_loop("map", lambda _, x: (None, f(x)), Carry("map", None), xs)[1]


@with_argument_checks
def fori_loop(
    lo: Tensor | int, hi: Tensor | int, body: Callable[[Tensor, Tree], State], init: Tree
) -> State:
    """Run `state = body(i, state)` for each `i` from `lo` to `hi - 1`; return the last state.

    With Python ints as bounds it is a scan, which supports reverse mode, else a `while_loop`.

    >>> pb.fori_loop(1, 5, lambda i, s: s * i, 1).item()
    24
    """
    low, high = operator_number(lo), operator_number(hi)
    if type(low) is int and type(high) is int:
        state = Carry("fori_loop", (low, init), counted=True)

        def step(counted: Any, _: None) -> Any:
            i, s = counted
            return (i + 1, body(i, s)), None

        (_, last), _ = _record_scan_loop("fori_loop", step, state, None, max(0, high - low))
        return last
    first, limit = _loop_bounds(lo, hi)
    state = Carry("fori_loop", (first, init), counted=True)
    return _record_while_loop(state, lambda s: s[0] < limit, lambda s: (s[0] + 1, body(*s)))[1]


@with_argument_checks
def while_loop(
    cond: Callable[[Tree], Tensor | bool], body: Callable[[Tree], State], init: Tree
) -> State:
    """Run `state = body(state)`, starting with `init`, while `cond(state)` is true.

    It supports forward mode only, since the number of iterations is not known in advance.

    >>> pb.while_loop(lambda x: x < 100, lambda x: x * 3, pb.tensor(2)).item()
    162
    """
    return _record_while_loop(Carry("while_loop", init), cond, body)


def _record_scan_loop(
    name: str, f: Callable, state: Carry, xs: Any, length: Any = None, reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:  # fmt: skip
    leaves, rows_tree = tree.flatten(xs)
    rows = [carry_leaf(name, "xs", x) for x in leaves]
    count, length = len(state.leaves), _loop_length(name, rows, xs, operator_number(length))
    unroll = operator_number(unroll)
    if type(unroll) is not int or unroll < 1:
        raise ArgumentError(f"{name}: unroll must be a positive int, got {unroll!r}")
    emitted: Any = None

    def step(*values: Any) -> Any:
        nonlocal emitted
        result = f(state.unflatten(values[:count]), tree.unflatten(rows_tree, values[count:]))
        if not isinstance(result, tuple) or len(result) != 2:
            got, hint = type(result).__name__, "Return `state, None` if there is no result."
            what = f"the body must return a pair (state, result), got {got}"
            raise ArgumentError(f"{name}: {what}", hint=hint)
        ys, emitted = tree.flatten(returned_carry(name, result[1]))
        return (*state.returned(result[0]), *ys)

    whole = [x._node.type for x in rows]
    types = [
        held_row(t).sharded(entry(t.sharding, t.rank, 0)) for t in whole
    ]  # rows keep their layout
    staged = state.settle(lambda given: stage_placeholder_types(name, step, [*given, *types]))
    joined = JoinedCarry([staged], count + len(rows))
    body = canonical_holder_graph(varying_scan_body(joined.graphs[0], joined.axes, count))
    op = Scan(body, count, len(rows), length, bool(reverse), unroll)
    made = joined.apply(op, [*state.nodes(), *[node_of(x) for x in rows]])
    return state.unflatten(made[:count]), tree.unflatten(emitted, made[count:])


def _record_while_loop(state: Carry, cond: Callable, body: Callable) -> Any:
    name, count = state.name, len(state.leaves)

    def test(*values: Any) -> Any:
        return returned_carry(name, cond(state.unflatten(values)))

    def step(*values: Any) -> Any:
        return tuple(state.returned(body(state.unflatten(values))))

    work = state.settle(lambda given: stage_placeholder_types(name, step, given))
    ends = stage_placeholder_types(name, test, state.types)
    answer = [y.type.plain for y in ends.graph.outputs]
    if answer != [Type((), bool_)]:
        got = tree.unflatten(ends.structure, answer)
        message = f"{name}: the condition must return one scalar bool, got {got!r}"
        hint = "Write a comparison; reduce several with pb.all or pb.any."
        raise ArgumentError(message, hint=hint)
    joined = JoinedCarry([ends, work], count)
    first, second = joined.graphs
    first, second = varying_while_graphs(first, second, joined.axes, count)
    op = While(canonical_holder_graph(first), canonical_holder_graph(second), count)
    return state.unflatten(joined.apply(op, state.nodes()))


def _loop_length(name: str, rows: Sequence[Tensor], xs: Any, length: Any) -> int:
    """The number of iterations: the common length of all of `xs`."""
    if length is not None and (type(length) is not int or length < 0):
        raise ArgumentError(f"{name}: length must be an int of at least 0, got {length!r}")
    found = {} if length is None else {length: "length"}
    for x, path in zip(rows, tree.paths(xs), strict=True):
        if not x.shape:
            message = f"{name}: xs{path} must have rows, got the scalar {x._node.type}"
            hint = "Use a value that is the same in every iteration in the body directly."
            raise ArgumentError(message, hint=hint)
        found.setdefault(x.shape[0], f"xs{path}")
    if len(found) > 1:
        lengths = ", ".join([f"{n} ({where})" for n, where in found.items()])
        raise ArgumentError(f"{name}: everything in xs must have the same length, got {lengths}")
    if not found:
        raise ArgumentError(f"{name}: length must be given if there are no xs")
    return next(iter(found))


def _loop_bounds(lo: Any, hi: Any) -> tuple[Tensor, Tensor]:
    """The bounds of a loop, in their common dtype."""
    first, last = (carry_leaf("fori_loop", "a bound", x) for x in (lo, hi))
    for x in (first, last):
        if x.shape or not x.dtype.is_integer:
            raise ArgumentError(f"fori_loop: bounds must be scalar integers, got {x._node.type}")
    low, high = operator_number(lo), operator_number(hi)
    if is_carried_number(low):
        first = wrap(converted_argument("fori_loop", weak_operator_operand, low, last.dtype))
    elif is_carried_number(high):
        last = wrap(converted_argument("fori_loop", weak_operator_operand, high, first.dtype))
    dtype = promote_dtypes(first.dtype, last.dtype)
    return first.astype(dtype), last.astype(dtype)
