"""Specializations: the program of a compiled function for one kind of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.compiled.arguments import STATIC, WIDE, CompiledNumberArgument
from pullback.compiled.compile_trace import CompileTrace
from pullback.compiled.donation import donated_seen_by_others
from pullback.compiled.executor import Executor
from pullback.compiled.fast_call import MISSED
from pullback.compiled.flatten_fast import make_fast_reader
from pullback.compiled.guards.guard_checks import GuardCheckRef
from pullback.compiled.guards.guard_walk import GuardSnapshot
from pullback.compiled.guards.value_traits import same_plain_values
from pullback.compiled.program import CompiledProgram
from pullback.errors import ArgumentError
from pullback.graph.ambient import thread
from pullback.graph.node import Node
from pullback.lazy.launch import state
from pullback.lazy.operators import node_of, operator_number, scalar_operator_operand
from pullback.lazy.record import record_several
from pullback.lazy.settings import Settings, current
from pullback.lazy.state_writes import write_state
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.wrap.call import Call

if TYPE_CHECKING:
    from pullback.compiled.function import CompiledFunctionCall


class Specialization(Executor):
    """One trace of a function, with its program; `wanted` has the kind or value of each leaf."""

    attempts = 0  # that succeeded since it became the recent one of its function

    def __init__(self, call: CompiledFunctionCall, traced: CompileTrace) -> None:
        super().__init__(CompiledProgram(call, traced), call.kinds, traced.structure)
        self.mode: Settings = call.mode
        self.cache = state.cache  # replaced by `clear_cache`, which makes this invalid
        self.in_tree = call.in_tree
        kinds = zip(call.leaves, call.kinds)
        self.wanted = [SpecializationStatic(x) if k is STATIC else k for x, k in kinds]
        self.static = [SpecializationStatic(x) for x in call.static]
        # The number of arguments if each is a single tensor: there is no tree to flatten.
        self.flat = len(self.kinds) if call.flat else -1
        self._reader = make_fast_reader(call.in_tree)
        self.traced = traced
        # Numbers of captured tensors in the snapshot: another may be there at the next call.
        known = {t: i for i, t in enumerate(call.snapshot.tensors)}
        self.numbers = [known.get(t) for t in traced.captured]
        self.state_numbers = [known.get(t) for t in traced.states]
        self.trust(call.snapshot)
        self._call: Call | None = None
        self.key, self.paths, self.axes = call.key, call.paths, call.key[1]

    def trust(self, snapshot: GuardSnapshot) -> None:
        """Use the captured tensors of a snapshot with an equal key from now on."""
        self.captured = _specialization_tensors(self.traced.captured, self.numbers, snapshot)
        self.states = _specialization_tensors(self.traced.states, self.state_numbers, snapshot)
        self.snapshot, self.same = snapshot, snapshot.same

    def read(self, args: tuple, kwargs: dict, static: Sequence[Any] = ()) -> list[Any] | None:
        """Return the leaves if the tree and the named `static` arguments fit; otherwise None."""
        if static or self.static:
            names = tuple([name for name, _ in static])
            if names != self.key[4] or not all(e(x) for e, (_, x) in zip(self.static, static)):
                return None
        if self._reader is not None:
            leaves: list[Any] = []
            return leaves if self._reader((args, kwargs), leaves) else None
        leaves, in_tree = tree.flatten((args, kwargs))
        return leaves if in_tree == self.in_tree else None

    def attempt(self, leaves: Sequence[Any]) -> Any:
        """Run the program if nothing has changed and all inputs are computed."""
        mode, program = current(), self.program
        if (mode is not self.mode and not self.fits(mode)) or thread.tracing_from:
            return MISSED
        if self.cache is not state.cache or not self.same():
            return MISSED
        shared = donated_seen_by_others(leaves, program.donors) if self.donates else ()
        buffers: list[Any] = []
        numbers: list[Any] = []
        for x, kind in zip(leaves, self.wanted):
            if type(x) is Tensor:
                node = x._node
                if node.type is not kind or node.tokens or x._token is not None:
                    return MISSED
                buffers.append(node.value)
            elif type(kind) is SpecializationStatic:
                if not kind(x):
                    return MISSED
            elif type(kind) is CompiledNumberArgument and type(x) is kind[0] and kind[1] is None:
                numbers.append(x)
            else:
                return MISSED
        for x in self.captured:
            node = x._node
            if node.tokens or x._token is not None:
                return MISSED
            buffers.append(node.value)
        if program.run is None or not program.owns_all(buffers):
            return MISSED
        if numbers or shared or self.donates:
            return self.finish(leaves, buffers, numbers, shared, True)
        return self.run(leaves, buffers)

    def fits(self, mode: Settings) -> bool:
        """Whether the function was traced under such settings."""
        if specialization_mode_key(mode) != specialization_mode_key(self.mode):
            return False
        self.mode = mode
        return True

    def expects(self, static: Sequence[Any], leaves: Sequence[Any]) -> bool:
        """Whether these are the static values that the function was traced for."""
        mine = [(x, e) for x, e in zip(leaves, self.wanted) if type(e) is SpecializationStatic]
        return all(e(x) for x, e in [*mine, *zip(static, self.static)])

    def record(self, leaves: Sequence[Any]) -> Any:
        """Record the call as one node."""
        nodes = [_specialization_node(x) for x, k in zip(leaves, self.kinds) if k is not STATIC]
        nodes += [node_of(x) for x in self.captured]
        results: tuple = ()
        if self.program.computed:
            if self._call is None:
                self._call = Call(self.program.name, self.program.graph)
            results = record_several(self._call, tuple(nodes))
        return self.arrange(leaves, results)

    def arrange(self, leaves: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        result = super().arrange(leaves, tensors)
        if not self.states:
            return result
        result, new = result
        for written, value in zip(self.states, new, strict=True):
            write_state(written, value)
        return result


def _specialization_tensors(
    tensors: list[Tensor], numbers: list[int | None], snapshot: GuardSnapshot
) -> list[Tensor]:
    """Return the tensors of a snapshot by their numbers, or those of the trace."""
    found = zip(tensors, numbers, strict=True)
    return [h if i is None else snapshot.tensors[i] for h, i in found]


class SpecializationStatic:
    """The static value of an argument: the same object, or an equal plain value, is accepted."""

    __slots__ = ("ref", "value")

    def __init__(self, value: Any) -> None:
        self.ref, self.value = None, value
        if not same_plain_values(value, value):
            self.ref, self.value = GuardCheckRef(value), None

    @property
    def given(self) -> Any:
        """The value; an error if it is an object that nothing else keeps alive."""
        value = self.value if self.ref is None else self.ref()
        if value is None and self.ref is not None:
            what = "a static argument of the program no longer exists"
            raise ArgumentError(f"save: {what}", hint="Pass the arguments: f.save(path, *args).")
        return value

    def __call__(self, x: Any) -> bool:
        if self.ref is not None:
            return self.ref() is x
        return x is self.value or same_plain_values(x, self.value)


def specialization_mode_key(mode: Settings) -> tuple:
    """The settings that a trace depends on."""
    return (
        mode.engine, mode.device, mode.place, mode.default_dtype, mode.grad_enabled, mode.kernels,
        mode.matmul_precision, mode.profiled,
    )  # fmt: skip


def _specialization_node(x: Any) -> Node:
    """Return the node of a tensor or a number among the arguments."""
    if isinstance(x, Tensor):
        return node_of(x)
    if isinstance(x, TracedNumber):
        return x.node
    x = operator_number(x)
    return scalar_operator_operand(x, WIDE[type(x)])
