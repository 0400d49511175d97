"""The op base class: one class states everything that is known about an op.

A subclass gives `infer`, `numpy` and `hlo`, and `vjp` and `jvp` or `differentiable = False`.
Families (`Elementwise`, `Composite`) derive what they can. Parameters are the fields of a frozen
dataclass; ops are interned, so two equal ops are the same object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pullback.errors import PullbackError, UnsupportedOp, VerificationError
from pullback.graph.dtypes import DType
from pullback.graph.graph import graphs_in_parameters
from pullback.graph.memo import remember
from pullback.graph.node import Node, apply_op_to_nodes, nodes_varying_alike, result_nodes
from pullback.graph.types import Type
from pullback.ops.helpers import Axis, zeros
from pullback.ops.imported import Imported
from pullback.ops.op_constructor import op_text, refuse_op_change
from pullback.ops.parts import Parts
from pullback.ops.registration import OpMeta
from pullback.ops.text import Text
from pullback.sharding.propagate import plan_propagation, propagate_layout


class Op(metaclass=OpMeta, abstract=True):
    """One kind of computation, with all its rules."""

    name: ClassVar[str]  # the class's name, unless stated
    title: ClassVar[str] = "op"  # the name in messages: `top_k` for TopK, unless stated

    differentiable: ClassVar[bool] = True
    linear: ClassVar[bool] = False  # jointly in all operands: its jvp is the op on the tangents
    commutative: ClassVar[bool] = False
    fallible: ClassVar[bool] = False  # it may raise at run time: an index may be out of range
    cheap: ClassVar[bool] = False  # computing it again costs no more than keeping its value
    text: ClassVar[Text] = Text()  # how programs write it
    parts: ClassVar[Parts] = Parts()  # how it runs on parts of its operands
    imported: ClassVar[Imported] = Imported()  # how it is recognised in StableHLO

    def infer(self, *xs: Type) -> Any:
        """Return the result's type, or a tuple of types; raise on bad operands."""
        raise UnsupportedOp("has no type rule", op=self.title)

    def numpy(self, *xs: np.ndarray) -> Any:
        """Compute the result in NumPy: an array, or a tuple of arrays for several results."""
        raise UnsupportedOp("has no NumPy meaning", op=self.title)

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        """Write the StableHLO that computes it with the builder `b`."""
        raise UnsupportedOp("has no StableHLO lowering", op=self.title)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        """Return the operands' cotangents from the result's; `None` for zero."""
        raise UnsupportedOp("has no reverse-mode rule", op=self.title)

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        """Return the result's tangent from the operands'; `None` for zero."""
        if self.linear:
            pairs = zip(xs, ts, strict=True)
            made = self(*[zeros(x.type) if t is None else t for x, t in pairs])
            return result_nodes(made) if isinstance(made.type, tuple) else made
        raise UnsupportedOp("has no forward-mode rule", op=self.title)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        """Apply the op to `axis.size` examples at once: a node, or a tuple for several results.

        Operands that are `mapped` (at least one is) have the axis as their first dimension, and
        so must the result; a result without it is the same for all examples. By default, the op
        is applied to one example after the other.
        """
        from pullback.ops.control.masked_examples import masked_one_by_one  # which is made of ops

        return masked_one_by_one(self, axis, xs, mapped)

    def factors(self, *xs: Type) -> str:
        """Return which dimensions of operands and results are the same index, so that they can be
        split over devices (`pullback.sharding.factors`). By default, operands must be whole."""
        made = self.infer(*xs)
        ys = made if isinstance(made, tuple) else (made,)
        sides = [", ".join([" ".join("_" * t.rank) for t in side]) for side in (xs, ys)]
        return " -> ".join(sides)

    @classmethod
    def samples(cls) -> Iterable[tuple[Op, tuple]]:
        """Yield applications to try in tests: pairs of an op and its operands."""
        return ()

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        """Return the op and its operands as they fit together along named axes."""
        return self, nodes_varying_alike(xs)

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        """Return the layouts of the results on the mesh."""
        return plan_propagation(self, xs, ys, mesh).shardings

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        """Return the results' types with named axes and layouts, which `infer` does not see."""
        several = bool(types) and isinstance(types[0], tuple)  # it is one of an op's results
        plain = types if several else tuple([t.plain for t in types])
        made = self.infer(*plain)
        if not all(isinstance(t, Type) for t in (made if isinstance(made, tuple) else (made,))):
            what = f"infer must return a Type, or a tuple of them, got {made!r}"
            raise VerificationError(what, code="E2001")
        if several or plain == types:
            return made
        return propagate_layout(self, types, op_results_over_axes(made, types[0].varying))

    def __call__(self, *xs: Node) -> Node:
        """Apply the op to nodes, inside a rule or a pass."""
        return apply_op_to_nodes(self, xs)

    def type_of(self, *types: Type) -> Any:
        """Return `infer`'s result, cached: the same types come again at every step of a loop."""
        found = self.inferred.get(types)
        if found is None:
            try:
                found = self._derive_type(types)
            except PullbackError as error:
                raise error.at(self.title, None) from None
            remember(self.inferred, types, found, bound=1024)
        return found

    @cached_property
    def inferred(self) -> dict[tuple[Type, ...], Any]:
        """Results of the type rule by operand types; recording looks here first."""
        return {}

    @cached_property
    def predictable(self) -> bool:
        """Whether its rules always give the same: they are pure, also those of ops inside it."""
        return type(self).pure and _op_is_predictable(self.parameters())

    @cached_property
    def closed(self) -> bool:
        """Whether it refers to plain values alone, so that nothing leads from it to a node."""
        return _op_is_closed(self.parameters())

    @cached_property
    def graphs(self) -> list:
        """The graphs among its parameters: bodies of loops, branches, calls."""
        return graphs_in_parameters(self.parameters())

    def parameters(self) -> tuple:
        """Return the values of the fields."""
        return tuple([getattr(self, f.name) for f in dataclasses.fields(self)])

    __repr__ = op_text
    __setattr__ = __delattr__ = refuse_op_change

    def set(self, field: str, value: Any) -> None:
        """Replace a parameter by its normal form; for `__post_init__`."""
        object.__setattr__(self, field, value)

    def __reduce__(self) -> tuple:
        return type(self), self.parameters()


def op_results_over_axes(made: Any, axes: tuple[str, ...]) -> Any:
    """Return types of results that vary along the named axes."""
    if isinstance(made, tuple):
        return tuple([t.over(axes) for t in made])
    return made.over(axes)


def _op_is_closed(parameters: Iterable[Any]) -> bool:
    return all(
        _op_is_closed(p) if type(p) is tuple else p is None or isinstance(p, _PLAIN)
        for p in parameters
    )


_PLAIN = (bool, int, float, complex, str, bytes, DType, Type)


def _op_is_predictable(parameters: Iterable[Any]) -> bool:
    for p in parameters:
        if isinstance(p, tuple):
            held = _op_is_predictable(p)
        elif hasattr(p, "structure"):  # a graph
            held = all(n.op.predictable for n in p.nodes)
        else:
            held = p.predictable if isinstance(p, Op) else True
        if not held:
            return False
    return True
