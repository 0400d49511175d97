"""Running a program on its arguments, for all kinds of compiled functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import tree
from pullback.compiled.arguments import STATIC, WIDE, CompiledNumberArgument, Kind
from pullback.compiled.donation import donated_seen_by_others, mark_donated, protect_from_donation
from pullback.errors import ArgumentError, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.node import Node
from pullback.graph.source_lines import user_line
from pullback.graph.types import Type
from pullback.lazy import runtime_checks
from pullback.lazy.launch import lock, state
from pullback.lazy.operators import node_of, operator_number, scalar_operator_operand
from pullback.lazy.pending import compute_pending
from pullback.lazy.program import pack_lazy_program_scalars
from pullback.lazy.runtime_checks import RuntimeFailure, any_suspects
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.values import leaf_value_buffer, value_to_host
from pullback.ops.sources import LEAF


class Executor(ABC):
    """A program with all that a call needs: kinds of leaves, captured tensors, a result tree."""

    def __init__(self, program: Any, kinds: Sequence[Kind], out_tree: Any) -> None:
        self.program, self.kinds, self.out_tree = program, kinds, out_tree
        self.captured: list[Tensor] = []
        self.single = out_tree == _LEAF and program.plain
        self.donates = any(program.donated)

    def call(self, leaves: Sequence[Any], hit: bool = True) -> Any:
        """Run on leaves of the right kinds, or record one node under a transform."""
        handles = [x for x in leaves if type(x) is Tensor] + self.captured
        if any(isinstance(x, Type) for x in leaves):
            hint = "Only `lower` takes types instead of tensors."
            raise ArgumentError(f"{self.program.name}: a type has no value to run on", hint=hint)
        if thread.tracing_from or _executor_under_derivative(handles):
            return self.record(leaves)
        program = self.program.ready()
        waiting = [x._node for x in handles if x._node.value is None]
        if waiting:
            compute_pending(waiting)
        shared = donated_seen_by_others(leaves, program.donors)
        buffers = [leaf_value_buffer(program.engine, x._node) for x in handles]
        numbers = [x for x, k in zip(leaves, self.kinds) if isinstance(k, CompiledNumberArgument)]
        return self.finish(leaves, buffers, numbers, shared, hit)

    @abstractmethod
    def record(self, leaves: Sequence[Any]) -> Any:
        """Record the call as a node."""

    def finish(
        self, leaves: Sequence[Any], buffers: list[Any], numbers: list[Any], shared: Any, hit: bool
    ) -> Any:
        """Run with numbers packed into one input; donated tensors cannot be used afterwards."""
        program = self.program
        if program.donors:
            protect_from_donation(buffers, program.donors, shared, program.engine)
        if program.numbers:
            buffers.append(self._packed([operator_number(x) for x in numbers]))
        result = self.run(leaves, buffers, hit)
        if self.donates:
            mark_donated(leaves, program.donated, program.name, user_line())
        return result

    def _packed(self, numbers: list[Any]) -> Any:
        """Pack numbers into one input, or reuse that of the last run."""
        words = [word for x in numbers for word in scalar_operator_operand(x, WIDE[type(x)]).value]
        program = self.program
        last = program.packed
        if last is None or last[0] != words:
            last = program.packed = (
                words,
                pack_lazy_program_scalars(words, program.engine, program.compiled),
            )
        return last[1]

    def run(self, leaves: Sequence[Any], buffers: list[Any], hit: bool = True) -> Any:
        """Run on buffers, one for each input, and return the results."""
        program = self.program
        execute = program.run or program.ready().run  # another thread may have evicted it
        check = self._finite_check(buffers) if current().check_nan else None
        try:
            values = execute(buffers)
        except PullbackError as error:
            values = program.failed(error, buffers)
        if check is not None:
            check(values)
        with lock:
            state.programs_run += 1
            state.cache.used(program.compiled, hit)
        tensors = _executor_handles(values, program.outs)
        if program.has_checks or any_suspects():
            self._record_checks(leaves, values, tensors)
        return tensors[0] if self.single else self.arrange(leaves, tensors)

    def _finite_check(self, buffers: list[Any]) -> Callable[[list[Any]], None]:
        """Return a function of the results that raises if one is not finite, at the op that made
        it so."""
        from pullback.lazy.nonfinite_origins import nonfinite_errors  # only this mode needs it

        arrays = list(map(value_to_host, buffers))  # before the run: some may be donated

        def check(values: list[Any]) -> None:
            pairs = zip(values, self.program.outs)
            # A result that failed a check raises its own error when it is read
            outputs = [
                _NOTHING if isinstance(v, RuntimeFailure) else value_to_host(v) for v, _ in pairs
            ]
            errors = nonfinite_errors(outputs, lambda: (self.program.executed, arrays))
            for error in errors.values():
                raise error

        return check

    def _record_checks(
        self, leaves: Sequence[Any], values: list[Any], tensors: Sequence[Tensor]
    ) -> None:
        inputs = [x._node for x in [*leaves, *self.captured] if isinstance(x, Tensor)]
        outputs = [t._node for t in tensors]
        with lock:
            word = values[-1] if self.program.has_checks else None
            lines = self.program.lines
            runtime_checks.runtime_checks_started(
                self.program.compiled, word, lines, inputs, outputs
            )

    def arrange(self, leaves: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        """Return the results in the function's tree; some may be inputs."""
        if self.program.plain:
            return tree.unflatten(self.out_tree, tensors)
        inputs = [x for x, k in zip(leaves, self.kinds) if k is not STATIC] + self.captured
        found = [
            wrap(node_of(inputs[i])) if is_input else wrap(tensors[i]._node)
            for is_input, i in self.program.plan
        ]
        return tree.unflatten(self.out_tree, found)


def _executor_handles(values: Sequence[Any], outs: Sequence[tuple[Any, Any]]) -> list[Tensor]:
    """Return a tensor for each value that a program returned, of a type and from a line."""
    tensors = []
    new, tensor_class, node_class = object.__new__, Tensor, Node
    for value, (type, where) in zip(values, outs):
        # an inlined constructor: a call may have hundreds of results
        tensor = new(tensor_class)
        tensor._node = node_class(LEAF, (), type, where, (), "", value)
        tensor._token = tensor._grad = None
        tensors.append(tensor)
    return tensors


def _executor_under_derivative(handles: Sequence[Tensor]) -> bool:
    """Whether a derivative in progress may depend on the call."""
    enabled = current().grad_enabled
    for x in handles:
        if x._token is not None and enabled:
            return True
        if any(t.alive and (enabled or t.traces) for t in x._node.tokens):
            return True
    return False


_LEAF = tree.flatten(0)[1]
_NOTHING = np.zeros(0, bool)
