"""The op base class: one class states everything that is known about an op.

A subclass gives `infer`, `numpy` and `hlo`, and `vjp` and `jvp` or `differentiable = False`.
Families (`Elementwise`, `Composite`) derive what they can. Parameters are the fields of a frozen
dataclass; ops are interned, so two equal ops are the same object.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from pullback.ir import table
from pullback.ir.errors import (
    ArgumentError,
    EngineError,
    OutOfMemory,
    PullbackError,
    ShapeError,
    TimeLimit,
    UnsupportedOp,
    VerificationError,
)
from pullback.ir.graph import graphs_within
from pullback.ir.interned import Interned
from pullback.ir.node import Node, constant, emit, results, vary_alike, vary_over
from pullback.ir.table import TABLE
from pullback.ir.types import Type, show
from pullback.ir.where import user_line

_INFERRED_LIMIT = 1024


def _has_fields(namespace: dict) -> bool:
    if "__annotations__" not in namespace:  # from Python 3.14 on they are made when asked for
        return any(name.startswith("__annotate") for name in namespace)
    return any("ClassVar" not in str(a) for a in namespace["__annotations__"].values())


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name!r}: ops are frozen")


@dataclasses.dataclass(frozen=True)
class Axis:
    """The axis that vmap maps over: its size, the name that collectives know it by, and the axes
    of a mesh that the examples are split along."""

    size: int
    name: str | None = None
    spmd: tuple[str, ...] = ()


@dataclass_transform(frozen_default=True)
class OpMeta(Interned):
    """Makes every op class a frozen dataclass, and enters it into the table."""

    def __new__(meta, name: str, bases: tuple, namespace: dict, abstract: bool = False) -> Any:
        cls = super().__new__(meta, name, bases, namespace)
        if bases and not _has_fields(namespace):
            # It is its base's dataclass, and making it one again takes a millisecond.
            type.__setattr__(cls, "__setattr__", _refuse)
            type.__setattr__(cls, "__delattr__", _refuse)
            return cls
        return dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)

    def __init__(cls, name: str, bases: tuple, namespace: dict, abstract: bool = False) -> None:
        super().__init__(name, bases, namespace)
        cls.name = namespace.get("name", name)
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.name)
        cls.title = namespace.get("title", words.lower())
        # A rule from elsewhere may look at anything, unless its author says otherwise.
        cls.pure = namespace.get("pure", cls.__module__.startswith("pullback."))
        cls._left_open = _missing(cls, bases, namespace)
        if not abstract:
            _enter(cls)

    def __setattr__(cls, name: str, value: Any) -> None:
        """Whoever remembers what rules gave must learn that one was replaced."""
        super().__setattr__(name, value)
        if name not in ("_plain", "_canonical", "_quick"):
            table.changed()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        table.changed()


def _missing(cls: Any, bases: tuple, namespace: dict) -> tuple[str, ...]:
    """The methods that a family leaves to its members, and that this one does not define."""
    asked = [name for base in bases for name in getattr(base, "_left_open", ())]
    asked += [n for n, v in namespace.items() if getattr(v, "__isabstractmethod__", False)]
    still = [n for n in asked if getattr(getattr(cls, n), "__isabstractmethod__", False)]
    return tuple(dict.fromkeys(still))


def _enter(cls: Any) -> None:
    """Put a class into the table; its module may define it again, as in a notebook."""
    if cls._left_open:
        raise ArgumentError(
            f"{cls.name}: an op of its family must define {', '.join(cls._left_open)}",
            where=user_line(),
        )
    known = TABLE.get(cls.name)
    if known is not None and known.__module__ != cls.__module__:
        raise ArgumentError(
            f"{cls.name}: there is an op of this name already, in {known.__module__}",
            where=user_line(),
            hint="An op's name is what programs print: give the class another one.",
        )
    TABLE[cls.name] = cls


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
        from pullback.ops.control.examples import one_after_the_other

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

    # How to apply it to parts, where factors cannot say it: partition(pass, operands, type)
    partition: ClassVar[Any] = None
    # The ops that it may be written as, for operands of given types: expansion(types)
    expansion: ClassVar[Any] = None

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        """How the results lie on the mesh."""
        from pullback.sharding.propagate import by_factors

        return by_factors(self, mesh, xs, ys)

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

    # -- what follows from it -----------------------------------------------------------------

    def __call__(self, *xs: Node) -> Node:
        """Apply the op to nodes, inside a rule or a pass."""
        return emit(self, xs)

    def type_of(self, *types: Type) -> Any:
        """`infer`, remembered: the same types come again at every step of a loop."""
        found = self.inferred.get(types)
        if found is None:
            if len(self.inferred) > _INFERRED_LIMIT:
                self.inferred.clear()
            try:
                found = self.inferred[types] = self._derive_type(types)
            except PullbackError as error:
                raise error.at(self.title, None) from None
        return found

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        """`infer` knows neither named axes nor meshes: they are laid over its result."""
        several = bool(types) and isinstance(types[0], tuple)  # it is one of an op's results
        axes = types[0].varying if types and not several else ()
        plain = types if several else tuple([t.plain for t in types])
        made = self.over_axes(axes, self._checked_type(plain))
        if not several:
            for t in types:
                if t.sharding is not None:
                    from pullback.sharding.propagate import lay_out

                    return lay_out(self, types, made)
        return made

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


class Composite(Op, abstract=True):
    """An op that is written as other ops; it inherits every rule that it does not state."""

    def expand(self, *xs: Node) -> Any:
        """The same value as nodes over `xs`: a node, or a tuple of nodes for several results."""
        raise UnsupportedOp("has no expansion", op=self.title)

    def expansion(self, types: Sequence[Type]) -> Any:  # type: ignore[override]
        """The expansion as a Graph over inputs of the given types."""
        from pullback.ir.graph import Graph

        inputs = [TABLE["Input"](f"x{i}", t.shape, t.dtype)() for i, t in enumerate(types)]
        made = self.expand(*inputs)
        return Graph(inputs, made if isinstance(made, tuple) else (made,))

    def infer(self, *xs: Type) -> Any:
        types = tuple(y.type for y in self.expansion(xs).outputs)
        return types if len(types) > 1 else types[0]

    def numpy(self, *xs: np.ndarray) -> Any:
        from pullback.ir.dtypes import dtype

        graph = self.expansion([Type(x.shape, dtype(x.dtype)) for x in map(np.asarray, xs)])
        made = interpret(graph, xs)
        return tuple(made) if len(made) > 1 else made[0]

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        made = b.inline(self.expansion([x.type for x in xs]), xs)
        return made if len(made) > 1 else made[0]

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        if type(self).factors is not Op.factors:
            return super().shardings(mesh, xs, ys)
        made = self.expand(*[TABLE["Input"].of_type(f"x{i}", t) for i, t in enumerate(xs)])
        return [y.type.sharding for y in (made if isinstance(made, tuple) else (made,))]

    # Transforms look at these: without a rule of its own the expansion is used.
    vjp = None  # type: ignore[assignment]
    jvp = None  # type: ignore[assignment]
    batch: ClassVar[Any] = None


class Deadline(threading.local):
    """When this thread must have finished what it interprets."""

    at: float | None = None


deadline = Deadline()


def interpret(graph: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A graph's outputs by each op's NumPy meaning, which must have the inferred type."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes[len(graph.inputs) :]:
        if deadline.at is not None and time.monotonic() > deadline.at:
            raise TimeLimit("the time limit is over", op=node.op.title, where=node.where)
        xs = [values[x] for x in node.inputs]
        if xs and isinstance(node.inputs[0].type, tuple):
            values[node] = xs[0][node.op.index]  # type: ignore[attr-defined]
            continue
        try:
            values[node] = node.op.numpy(*xs)
        except PullbackError as error:
            error.values["node"] = node  # whoever runs the graph knows its line
            raise error.at(node.op.title, None) from None
        except MemoryError:
            message = f"there is not enough memory for {show(node.type)}"
            raise OutOfMemory(message, op=node.op.title, where=node.where) from None
        _check_value(node, values[node])
    return [np.asarray(values[y]) for y in graph.outputs]


def _check_value(node: Node, made: Any) -> None:
    several = isinstance(node.type, tuple)
    types = node.type if several else (node.type,)
    if several and (not isinstance(made, (tuple, list)) or len(made) != len(types)):
        raise EngineError(
            f"numpy must return a tuple of {len(types)} arrays", op=node.op.title, where=node.where
        )
    for value, type in zip(made if several else (made,), types, strict=True):
        array = np.asarray(value)
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            got = f"{array.dtype}{list(array.shape)}"
            raise EngineError(
                f"inferred type {type} differs from the engine's {got}",
                op=node.op.title, where=node.where,
            )  # fmt: skip


# -- words that rules are written with ----------------------------------------------------------


def zeros(type: Type) -> Node:
    """Explicit zeros: a constant, spread over the type's shape."""
    return full(type, 0)


def zeros_like(type: Type) -> Node:
    """Zeros that lie on the mesh as values of the type do."""
    return laid_out(zeros(type), type)


def ones(type: Type) -> Node:
    return full(type, 1)


def full(type: Type, value: Any) -> Node:
    scalar = constant(value, type.dtype)
    return scalar if not type.shape else TABLE["Broadcast"](type.shape)(scalar)


def spread(x: Node, axis: Axis) -> Node:
    """A value that is one for all examples, repeated for each: the axis comes first."""
    return TABLE["Broadcast"]((axis.size, *x.type.shape))(x)


def spread_all(axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]) -> list[Node]:
    """Operands that all have the axis: those that are one for all examples are repeated."""
    return [x if has else spread(x, axis) for x, has in zip(xs, mapped, strict=True)]


def batch_along(op: Op, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
    """The batching rule of an op whose `axis` or `axes` are dimensions of all its operands:
    they are one further behind."""
    moved: dict[str, Any] = {}
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        if field.name == "axis":
            moved["axis"] = value + 1
        elif field.name == "axes":
            moved["axes"] = tuple([i + 1 for i in value])
    return dataclasses.replace(op, **moved)(*spread_all(axis, xs, mapped))


def conjugate(x: Node) -> Node:
    """The complex conjugate; a real number is its own."""
    return TABLE["Conj"]()(x) if x.type.dtype.is_complex else x


def sum_to(g: Node, type: Type) -> Node:
    """Undo broadcasting: sum `g` over every dimension that `type` does not have, or has as 1."""
    g = vary_over(g, type.varying)  # a rule's constant is the same everywhere
    if g.type.shape == type.shape:
        return g
    extra = g.type.rank - type.rank
    if extra:
        g = TABLE["Sum"](tuple(range(extra)), False)(g)
    wide = tuple(i for i, n in enumerate(type.shape) if n == 1 and g.type.shape[i] != 1)
    return TABLE["Sum"](wide, True)(g) if wide else g


def laid_out(x: Node, like: Type) -> Node:
    """A value, laid out on the mesh as another one is."""
    wanted = like.sharding
    return x if wanted is None or x.type.sharding is wanted else TABLE["Reshard"].to(wanted)(x)


def broadcast_types(*types: Type) -> tuple[int, ...]:
    """The shape that operands of these types broadcast to."""
    try:
        return broadcast_shapes(*[t.shape for t in types])
    except ShapeError as error:
        error.message += f", got {show(types)}"
        raise


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that NumPy broadcasting gives; names the failing dimension."""
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if n != 1 and n != out[i]:
                if out[i] != 1:
                    raise ShapeError(
                        f"shapes must broadcast, dimension {i} is {out[i]} and {n}",
                        code="E3001", dimension=i, extents=(out[i], n),
                    )  # fmt: skip
                out[i] = n
    return tuple(out)


def counted(axes: Any, rank: int) -> Any:
    """Axes, or one, with those that count from the end as they count from 0."""
    if isinstance(axes, tuple):
        return tuple([counted(a, rank) for a in axes])
    return axes + rank if type(axes) is int and -rank <= axes < 0 else axes


def same_dtype(op: str, *xs: Type) -> Any:
    """The one element type of all operands: the IR never promotes."""
    from pullback.ir.errors import DTypeError

    first = xs[0].dtype
    for x in xs:
        if x.dtype is not first:
            what = f"operands must have one element type, got {show(xs)}"
            raise DTypeError(what, code="E2004", dtypes=tuple([x.dtype.name for x in xs]))
    return first


__all__ = [
    "TABLE",
    "Axis",
    "Composite",
    "Node",
    "Op",
    "Type",
    "batch_along",
    "broadcast_shapes",
    "broadcast_types",
    "conjugate",
    "constant",
    "counted",
    "full",
    "interpret",
    "laid_out",
    "ones",
    "results",
    "same_dtype",
    "spread",
    "spread_all",
    "sum_to",
    "zeros",
    "zeros_like",
]  # fmt: skip
