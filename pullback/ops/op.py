"""The op base class: one class states everything that is known about an op.

A subclass gives `infer`, `numpy` and `hlo`, and `vjp` and `jvp` or `differentiable = False`.
Families (`Elementwise`, `Composite`) derive what they can. Parameters are the fields of a frozen
dataclass; ops are interned, so two equal ops are the same object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pullback.errors import PullbackError, UnsupportedOp, VerificationError
from pullback.graph.graph import graphs_within
from pullback.graph.memo import remember
from pullback.graph.node import Node, emit, results, vary_alike
from pullback.graph.types import Type
from pullback.ops.helpers import Axis, counted, zeros
from pullback.ops.registration import OpMeta
from pullback.sharding.propagate import lay_out, plan


class Op(metaclass=OpMeta, abstract=True):
    """One kind of computation, with all its rules."""

    name: ClassVar[str]
    title: ClassVar[str] = "op"  # the name that messages use: `top_k` for TopK
    differentiable: ClassVar[bool] = True
    linear: ClassVar[bool] = False  # jointly in all inputs: its jvp is the op on the tangents
    commutative: ClassVar[bool] = False
    transparent: ClassVar[bool] = False  # the value is its first input's; keys look through it
    singular: ClassVar[bool] = False  # the value or its derivative is infinite somewhere
    detaches: ClassVar[bool] = False  # no derivative passes: its operand counts as a constant
    mergeable: ClassVar[bool] = True  # two applications to the same inputs are the same value
    positional: ClassVar[tuple[str, ...]] = ()  # parameters that the text writes as arguments
    spellings: ClassVar[dict[str, str]] = {}  # other names that a text may give to parameters
    profile: ClassVar[str] = "extended"  # the smallest that has it; empty: no text names it
    higher: ClassVar[bool] = False  # it holds graphs: rules are handed the transform to apply
    sparse: ClassVar[bool] = False  # of several results, `vjp` gets None for one without cotangent
    pure: ClassVar[bool]  # rules look only at its parameters and the ops and types of operands
    product: ClassVar[bool] = False  # sums of products: what `dots_saved` keeps
    hands_on: ClassVar[bool] = False  # of several results, each is the operand in its place
    executed: ClassVar[Any] = None  # the op that programs run in its place, which has no rules
    together: ClassVar[Any] = None  # the op that does for many operands what this does for one
    fallible: ClassVar[bool] = False  # it may fail when it runs: an index may be out of range
    cheap: ClassVar[bool] = False  # computing it again costs no more than having kept it
    # How devices that split a contracted factor join their results: sum, max, min, or `again`, by
    # the op itself over a stack of them; and what counts for nothing in it (not of extremes).
    combine: ClassVar[str] = "sum"
    neutral: ClassVar[Any] = 0
    linear_in: ClassVar[tuple[int, ...]] = ()  # operands in each of which alone it is linear
    counted_once: ClassVar[tuple[int, ...]] = ()  # operands that one of these devices adds, not all
    positions: ClassVar[int | None] = None  # operands from this one on are positions: 0 is valid
    instructions: ClassVar[tuple[str, ...]] = ()  # of StableHLO, that it may be lowered to alone
    implied: ClassVar[int] = 0  # last operands of that instruction that are the op's own constants
    taken: ClassVar[tuple[int, ...]] = ()  # where its operands are in that instruction, if turned
    reads_last: ClassVar[bool] = False  # an op that says more reads the instruction first

    # -- what an op says about itself ---------------------------------------------------------

    def infer(self, *xs: Type) -> Any:
        """The result's type (a tuple of types for several results); raises on bad operands."""
        raise UnsupportedOp("has no type rule", op=self.title)

    def numpy(self, *xs: np.ndarray) -> Any:
        """The meaning, in NumPy: an array, or a tuple of arrays for several results."""
        raise UnsupportedOp("has no NumPy meaning", op=self.title)

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        """The StableHLO that computes it, written with the builder `b`."""
        raise UnsupportedOp("has no StableHLO lowering", op=self.title)

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        """The op that is lowered to the instruction `i`, one of `instructions`; None: none is.

        Whoever asks lowers it and compares, so it may leave out what it does not express.
        """
        return None if dataclasses.fields(cls) else cls()

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        """Cotangents of the inputs from the result's; `None` where there is none."""
        raise UnsupportedOp("has no reverse-mode rule", op=self.title)

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        """The result's tangent from the inputs'; `None` for zero."""
        if self.linear:
            pairs = zip(xs, ts, strict=True)
            made = self(*[zeros(x.type) if t is None else t for x, t in pairs])
            return results(made) if isinstance(made.type, tuple) else made
        raise UnsupportedOp("has no forward-mode rule", op=self.title)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        """The op on `axis.size` examples at once: a node, or a tuple for several results.

        Operands that are `mapped` (at least one is) have the axis as their first dimension, and
        so must the result; a result without it is one for all examples. Without a rule of its
        own, an op is applied to one example after the other.
        """
        from pullback.ops.control.masked import one_after_the_other

        return one_after_the_other(self, axis, xs, mapped)

    def unguarded(self) -> Op:
        """The op to the letter: a product or quotient without its guard against 0 * infinity."""
        return self

    def named_axes(self) -> tuple[str, ...]:
        """The named axes that it means something along."""
        return ()

    def communicates(self) -> tuple[str, ...]:
        """The named axes along which it waits for others, which must come to it too."""
        return ()

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The named axes over which the result varies, given those of the operands."""
        return axes

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        """The op and its operands as they fit together along named axes."""
        return self, vary_alike(xs)

    def factors(self, *xs: Type) -> str:
        """Which dimensions of operands and results go together (`pullback.sharding.factors`);
        without a rule of its own, an op runs on whole operands."""
        made = self.infer(*xs)
        ys = made if isinstance(made, tuple) else (made,)
        sides = [", ".join([" ".join("_" * t.rank) for t in side]) for side in (xs, ys)]
        return " -> ".join(sides)

    def local(self, xs: Sequence[Type], out: Any) -> Op:
        """The op for one device's part: operands and result have these local types."""
        return self

    def part(self, xs: Sequence[Node], out: Any, whole: Any, begin: Callable[[int], Node]) -> Node:
        """What one device makes of its parts of the operands: a result of local type `out`, whose
        dimension i begins at `begin(i)` of the whole one; `local` does where that is no matter."""
        return self.local([x.type.plain for x in xs], out)(*xs)

    # How to apply it to parts, where factors cannot say it: partition(pass, operands, type)
    partition: ClassVar[Any] = None
    # The ops that it may be written as, for operands of given types: expansion(types)
    expansion: ClassVar[Any] = None

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        """How the results lie on the mesh."""
        return plan(self, xs, ys, mesh).shardings

    def within(self, xs: Sequence[Node], other: Op, ys: Sequence[Node]) -> Sequence[int] | None:
        """Which results of `other` on `ys` are this op's results on `xs`; `None`: not all are."""
        return None

    def written(self, xs: Sequence[Type]) -> dict[str, Any]:
        """The parameters as the text states them, on operands of these types."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @classmethod
    def read(cls, xs: Sequence[Type], **stated: Any) -> Op:
        """The op that a text states, on operands of these types: the inverse of `written`.

        One that is stated otherwise than by its fields names the parameters as keywords. An axis
        may count from the end.
        """
        for name in ("axis", "axes"):
            if xs and name in stated:
                stated[name] = counted(stated[name], xs[0].rank)
        return cls(**stated)

    def least_profile(self, xs: Sequence[Type]) -> str:
        """The smallest profile that has the op with its parameters, on operands of these types."""
        return type(self).profile

    @classmethod
    def samples(cls) -> Iterable[tuple[Op, tuple]]:
        """Applications to try in tests: pairs of an op and its operands."""
        return ()

    @property
    def position(self) -> tuple[int, ...]:
        """Where it reads or writes, if it does the same at any other place; else nothing."""
        return ()

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        """The same at a position that is known only when it runs."""
        raise UnsupportedOp("has no position", op=self.title)

    # -- what follows from it -----------------------------------------------------------------

    def __call__(self, *xs: Node) -> Node:
        """Apply the op to nodes, inside a rule or a pass."""
        return emit(self, xs)

    def type_of(self, *types: Type) -> Any:
        """`infer`, remembered: the same types come again at every step of a loop."""
        found = self.inferred.get(types)
        if found is None:
            try:
                found = self._derive_type(types)
            except PullbackError as error:
                raise error.at(self.title, None) from None
            remember(self.inferred, types, found, bound=1024)
        return found

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        """`infer` knows neither named axes nor meshes: they are laid over its result."""
        several = bool(types) and isinstance(types[0], tuple)  # it is one of an op's results
        axes = types[0].varying if types and not several else ()
        plain = types if several else tuple([t.plain for t in types])
        made = self.over_axes(axes, self._checked_type(plain))
        return made if plain == types else lay_out(self, types, made)

    def _checked_type(self, types: tuple) -> Any:
        made = self.infer(*types)
        if not all(isinstance(t, Type) for t in (made if isinstance(made, tuple) else (made,))):
            raise VerificationError(
                f"infer must return a Type, or a tuple of them, got {made!r}", code="E2001"
            )
        return made

    def over_axes(self, axes: tuple[str, ...], made: Any) -> Any:
        """The results' types with the named axes along which they vary, from the operands'."""
        axes = self.varies(axes)
        if not axes:
            return made
        several = isinstance(made, tuple)
        return tuple([t.over(axes) for t in made]) if several else made.over(axes)

    @cached_property
    def predictable(self) -> bool:
        """Whether its rules give the same again: they are pure, also of the ops that it holds."""
        return type(self).pure and _predictable(self.parameters())

    @cached_property
    def graphs(self) -> list:
        """The graphs among its parameters: bodies of loops, branches, calls."""
        return graphs_within(self.parameters())

    @cached_property
    def inferred(self) -> dict[tuple[Type, ...], Any]:
        """Results of the type rule, by operand types; recording looks here first."""
        return {}

    def parameters(self) -> tuple:
        return tuple([getattr(self, f.name) for f in dataclasses.fields(self)])

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{self.name}({fields})"

    def __reduce__(self) -> tuple:
        return type(self), self.parameters()

    def set(self, field: str, value: Any) -> None:
        """For `__post_init__`: put a parameter into its normal form."""
        object.__setattr__(self, field, value)


def _predictable(parameters: Iterable[Any]) -> bool:
    for p in parameters:
        if isinstance(p, tuple):
            held = _predictable(p)
        elif hasattr(p, "structure"):  # a graph
            held = all(n.op.predictable for n in p.nodes)
        else:
            held = p.predictable if isinstance(p, Op) else True
        if not held:
            return False
    return True
