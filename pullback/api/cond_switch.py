"""Conditionals that are part of the program: `cond` and `switch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.carry import (
    JoinedCarry,
    carry_leaf,
    carry_types,
    is_carried_number,
    returned_carry,
)
from pullback.api.placeholders import StagedPlaceholders, stage_on_placeholders
from pullback.api.signatures import Args, Result
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import (
    checked_function_argument,
    checked_sequence_argument,
    with_argument_checks,
)
from pullback.graph.dtypes import DType, bool_, int64
from pullback.graph.graph import Graph
from pullback.graph.node import Node, apply_op_to_nodes
from pullback.graph.source_lines import user_line
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import (
    NUMBERS,
    node_of,
    operator_number,
    scalar_operator_dtype,
    scalar_operator_operand,
)
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.control.cond import Cond, Switch, no_branch_of_cond
from pullback.ops.control.holder import canonical_holder_graph
from pullback.ops.control.varying import varying_alike_branches
from pullback.ops.elementwise.cast import Cast
from pullback.ops.prelude import Op
from pullback.ops.sources import placeholder

_KINDS = "biufc"  # kinds of dtypes; each can represent the numbers of those before it


@with_argument_checks
def cond(
    pred: Tensor | bool, true_fun: Callable[[*Args], Result], false_fun: Callable[[*Args], Result],
    *args: *Args,
) -> Result:  # fmt: skip
    """Return `true_fun(*args)` if the bool `pred` is true, else `false_fun(*args)`.

    Only one is executed. Both must return the same tree of types, and may use tensors from outside.

    >>> f = lambda x: pb.cond(x > 0, pb.sqrt, lambda x: -x, x)
    >>> f(pb.tensor(9.0)).item(), f(pb.tensor(-2.0)).item(), pb.grad(f)(pb.tensor(-2.0)).item()
    (3.0, 2.0, -1.0)
    """
    index = _cond_switch_operand("cond", "the predicate", pred, bool_)
    if index.type.dtype is not bool_:
        message = f"cond: the predicate must be a bool, got {index.type}"
        raise ArgumentError(message, hint="Write a comparison: `x != 0` for a number x.")
    return _record_cond_switch(
        "cond", lambda graphs: Cond(graphs[::-1]), index, (true_fun, false_fun), args
    )


def switch(
    index: Tensor | int, branches: Sequence[Callable[[*Args], Result]], *args: *Args
) -> Result:
    """Return `branches[index](*args)`; only that branch is executed.

    An index out of range is an error.

    >>> branches = [pb.sin, pb.exp, lambda x: x * x]
    >>> pb.switch(pb.tensor(2), branches, pb.tensor(3.0)).item()
    9.0
    """
    given = checked_sequence_argument("switch", branches, "branches")
    functions = tuple(
        [checked_function_argument("switch", f, "each of the branches") for f in given]
    )
    if not functions:
        raise ArgumentError("switch: branches must contain at least one function")
    at = operator_number(index)
    if type(at) is int and not 0 <= at < len(functions):
        raise no_branch_of_cond(len(functions), at).at("switch", user_line())
    node = _cond_switch_operand("switch", "the index", index, int64)
    if not node.type.dtype.is_integer:
        raise ArgumentError(f"switch: the index must be an integer, got {node.type}")
    return _record_cond_switch("switch", Switch, node, functions, args)


def _cond_switch_operand(name: str, what: str, value: Any, dtype: DType) -> Node:
    """The scalar that selects a branch. A number becomes an operand, so that it may change."""
    value = operator_number(value)
    if type(value) in NUMBERS and asarray(value)._node.type.dtype is dtype:
        return scalar_operator_operand(value, dtype)
    node = node_of(carry_leaf(name, what, value))
    if node.type.shape:
        hint = "Use pb.where to select by element, or pb.vmap to select for each example."
        raise ArgumentError(f"{name}: {what} must be a scalar, got {node.type}", hint=hint)
    return node


def _record_cond_switch(
    name: str, op: Callable[[tuple], Op], index: Node, functions: Sequence[Callable], args: Any
) -> Any:
    leaves, in_tree = tree.flatten((args, {}))
    # A number stays a number: it has no dtype of its own inside either.
    operands = {i: asarray(x) for i, x in enumerate(leaves) if hasattr(x, "__array__")}
    types = [operands[i]._node.type if i in operands else x for i, x in enumerate(leaves)]
    branches = [_CondSwitchBranch(name, f, types, in_tree) for f in functions]
    structure = _cond_branches_agree(name, branches)
    joined = JoinedCarry([b.staged for b in branches], len(operands))
    graphs = varying_alike_branches(joined.graphs, joined.axes, index.type.varying)
    nodes = [index, *map(node_of, operands.values())]
    return tree.unflatten(
        structure, joined.apply(op(tuple(map(canonical_holder_graph, graphs))), nodes)
    )


class _CondSwitchBranch:
    """The program of a branch. `numbers` are the results that have no dtype of their own."""

    def __init__(self, name: str, f: Callable, types: Sequence[Any], in_tree: Any) -> None:
        def branch(*args: Any) -> Any:
            self.result = returned_carry(name, f(*args))
            return self.result

        self.staged = stage_on_placeholders(name, branch, types, in_tree, numbers=True)
        leaves = tree.leaves(self.result)
        self.numbers = {i: x for i, x in enumerate(leaves) if is_carried_number(x)}

    @property
    def types(self) -> list[Type]:
        return [y.type.plain for y in self.staged.graph.outputs]

    def adopt(self, i: int, dtype: DType) -> None:
        """Give the number that is result `i` a dtype, if it can have it."""
        value = self.numbers[i]
        if scalar_operator_dtype(value, dtype) is not dtype:
            return
        graph, captured = self.staged.graph, self.staged.captured
        inputs, outputs = list(graph.inputs), list(graph.outputs)
        if isinstance(value, TracedNumber):  # a 64-bit value, which was cast to become a tensor
            y = outputs[i]
            outputs[i] = apply_op_to_nodes(Cast(dtype), (y.inputs[0] if type(y.op) is Cast else y,))
        else:
            outputs[i] = placeholder("number", Type((), dtype))
            inputs.append(outputs[i])
            captured = [*captured, scalar_operator_operand(value, dtype)]
        self.staged = StagedPlaceholders(Graph(inputs, outputs), self.staged.structure, captured)


def _cond_branches_agree(name: str, branches: Sequence[_CondSwitchBranch]) -> Any:
    """The structure that all branches return; numbers take the dtypes of the other branches."""
    first = branches[0]
    same = all(b.staged.structure == first.staged.structure for b in branches)
    for i in range(len(first.types)) if same else ():
        typed = [b.types[i].dtype for b in branches if i not in b.numbers]
        numbers = [b.types[i].dtype for b in branches if i in b.numbers]
        for b in branches:
            if i in b.numbers:
                b.adopt(i, typed[0] if typed else max(numbers, key=lambda d: _KINDS.index(d.kind)))
    for b in branches[1:]:
        if not same or b.types != first.types:
            raise ArgumentError(
                f"{name}: branches must return the same tree of types, got\n  "
                f"{carry_types(first.result)!r}\nand\n  {carry_types(b.result)!r}\n"
            )
    return first.staged.structure
