"""Printing values while a program runs.

A program has no statements, only values. A print therefore takes a number and returns it, so that
prints form a chain in their order, and a result of the function is tied to the end of the chain.
"""

from __future__ import annotations

import itertools
import string
import sys
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, VerificationError
from pullback.graph.ambient import thread
from pullback.graph.dtypes import int32
from pullback.ops.factor_rules import factor_rule
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type
from pullback.ops.samples import real

BEGIN = Type((), int32)  # of the number that prints pass on


class DebugPrint(Op):
    """Returns its first operand, an i32; prints the others each time that it is computed.

    `template` has a replacement field for each of them, `{0}`, `{1:.3f}`. `levels` says for each
    axis of vmap, the outermost first, which operands have it: each example prints a line.
    """

    template: str
    levels: tuple[tuple[bool, ...], ...] = ()
    title = "debug.print"
    differentiable: ClassVar[bool] = False

    def infer(self, before: Type, *values: Type) -> Type:
        if before != BEGIN:
            raise DTypeError(f"the first operand must be {BEGIN}, got {before}")
        numbers = [str(i) for i in range(len(values))]
        for _, name, spec, conversion in string.Formatter().parse(self.template):
            # Texts come from files: no attributes, no nested fields
            if name is not None and (name not in numbers or conversion or "{" in (spec or "")):
                what = f"fields of the template must be numbers of operands, got {self.template!r}"
                raise VerificationError(what, code="E2007")
        return before

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs  # what is printed does not change the result

    def _derive_type(self, types: tuple[Type, ...]) -> Type:
        return self.infer(*[t.plain for t in types])

    def numpy(self, before: np.ndarray, *values: np.ndarray) -> np.ndarray:
        if thread.watch is None:  # a run for inspection says nothing
            self.write(*values)
        return before

    def hlo(self, b: Any, out: Type, before: Any, *values: Any) -> Any:
        if b.mesh is None:
            b.callback(self.write, *values)
        else:  # inside shard_map, each device has its own values
            node = b.inner or b.current
            apart = any(x.type.varying for x in node.inputs)
            b.callback(self.write_each if apart else self.write_once, *values)
        return before

    def write(self, *values: np.ndarray) -> None:
        """Print the values, of each example in turn."""
        lines = [written_debug_print(self.template, example) for example in self._examples(values)]
        sys.stdout.write("".join([f"{line}\n" for line in lines]))
        sys.stdout.flush()

    def write_once(self, position: np.ndarray, *values: np.ndarray) -> None:
        """Print the values, which all devices of a mesh have."""
        if int(position) == 0:
            self.write(*values)

    def write_each(self, position: np.ndarray, *values: np.ndarray) -> None:
        """Print the values of one device of a mesh."""
        mark = f"device {int(position)}: "
        DebugPrint(mark + self.template, self.levels).write(*values)

    def _examples(self, values: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
        sizes = []
        for depth, flags in enumerate(self.levels):
            # Axes of outer levels come first; an operand has those of the levels that map it
            k = flags.index(True)
            axis = sum([level[k] for level in self.levels[:depth]])
            sizes.append(values[k].shape[axis])
        for index in itertools.product(*map(range, sizes)):
            yield [
                value[tuple([i for i, level in zip(index, self.levels, strict=True) if level[k]])]
                for k, value in enumerate(values)
            ]

    def factors(self, before: Type, *values: Type) -> str:
        return factor_rule([[], *[["_"] * v.rank for v in values]], [[]])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        flags = tuple(mapped[1:])
        levels = (flags, *self.levels) if any(flags) else self.levels
        return DebugPrint(self.template, levels)(_one_debug_print(xs[0], mapped[0]), *xs[1:])

    @classmethod
    def samples(cls) -> Any:
        yield cls("{0} {1:.2f}"), (np.int32(0), real(2), real(salt=1))
        yield cls("{0}", ((True,),)), (np.int32(0), real(2))


def _one_debug_print(before: Node, mapped: bool) -> Node:
    """The number that prints pass on, which is the same for all examples: it is 0."""
    return TABLE["Sum"]((0,), False)(before) if mapped else before


def written_debug_print(template: str, values: Sequence[Any]) -> str:
    """The template with its fields filled in."""
    return template.format(*[_DebugPrintedArray(np.asarray(v)) for v in values])


class _DebugPrintedArray:
    """An array that formats each of its elements with a given specification."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self.array)
        if self.array.ndim == 0:
            return format(self.array.item(), spec)
        each: Any = {"all": lambda element: format(element.item(), spec)}
        return np.array2string(self.array, formatter=each)
