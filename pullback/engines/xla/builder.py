"""Graph to StableHLO text. Ops write their own lowering with the words of `Builder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines.xla.collectives import Collectives
from pullback.errors import EngineError, PullbackError
from pullback.graph.dtypes import DType, bool_, float32, int64
from pullback.graph.graph import Graph
from pullback.graph.types import Type

COMPARISONS = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED", "f": "FLOAT", "c": "FLOAT"}


class HloValue:
    """An SSA value of the program that is being written."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: Type) -> None:
        self.name, self.type = name, type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype


class Builder(Collectives):
    """Writes StableHLO, one instruction a line; with a `mesh`, for each of its devices."""

    def __init__(self, mesh: Any = None) -> None:
        self.mesh = mesh
        self.communicates = False  # whether a collective was written
        self.spans = False  # whether the devices belong to several processes
        self.apart = False  # whether XLA must run what communicates in a thread of its own
        self.guards = False  # whether what is behind a barrier is chosen, and not handed on
        self.lines: list[str] = []
        self._outermost = self.lines  # those of the program itself, not of a region in it
        self.checks: list[
            tuple[HloValue, Any]
        ] = []  # conditions that must hold, and whose they are
        self.current: Any = None  # the program's node that is being lowered
        self.inner: Any = None  # the node of a graph that an op holds, if it is one's
        self._count = 0
        self._constants: dict[Any, HloValue] = {}

    # -- instructions -------------------------------------------------------------------------

    def op(
        self, mnemonic: str, *xs: HloValue, out: Any, regions: str = "", **attributes: Any
    ) -> Any:
        """One instruction in generic form; `out` is its type, or a tuple of types.

        Attributes are written by kind: a tuple of ints is a dense i64 array, an int is i64, a
        bool is a bool, a string is taken as it stands.
        """
        several = isinstance(out, tuple)
        outs = out if several else (out,)
        names = [self._fresh() for _ in outs]
        operands = ", ".join(x.name for x in xs)
        attrs = ", ".join(f"{k} = {attribute(v)}" for k, v in attributes.items())
        ins = ", ".join(mlir_type(x.type) for x in xs)
        results = ", ".join(map(mlir_type, outs))
        results = f"({results})" if len(outs) != 1 else results
        self.lines.append(
            f'{", ".join(names)} = "{mnemonic}"({operands})'
            f"{f' ({regions})' if regions else ''}{f' {{{attrs}}}' if attrs else ''}"
            f" : ({ins}) -> {results}"
        )
        made = tuple(HloValue(n, t) for n, t in zip(names, outs, strict=True))
        return made if several else made[0]

    def constant(self, value: Any, dtype: DType) -> HloValue:
        """A constant from a number or an array, exact to the bit."""
        array = np.asarray(value, dtype.numpy)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            made = HloValue(self._fresh(), Type(array.shape, dtype))
            value = f"{dense(array, dtype)} : {mlir_type(made.type)}"
            self.lines.append(f"{made.name} = stablehlo.constant {value}")
            self._constants[key] = made
        return self._constants[key]

    def once(self, key: Any, make: Callable[[], HloValue]) -> HloValue:
        """The value that `make` writes, written once for all who ask for it in one region."""
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def full(self, type: Type, value: Any) -> HloValue:
        """A number, spread over a type's shape."""
        return self.broadcast(self.constant(value, type.dtype), type.shape)

    def broadcast(self, x: HloValue, shape: Sequence[int]) -> HloValue:
        """NumPy broadcasting of one operand to `shape`."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        offset = len(shape) - len(x.shape)
        kept = [i for i, n in enumerate(x.shape) if n != 1 or shape[i + offset] == 1]
        if len(kept) < len(x.shape):
            x = self.reshape(x, [x.shape[i] for i in kept])
        return self.broadcast_in_dim(x, shape, [i + offset for i in kept])

    def broadcast_all(self, xs: Sequence[HloValue], shape: Sequence[int]) -> list[HloValue]:
        return [self.broadcast(x, shape) for x in xs]

    def broadcast_in_dim(self, x: HloValue, shape: Sequence[int], dims: Sequence[int]) -> HloValue:
        """Place dimension i of `x` at `dims[i]` of `shape`, and repeat along the others."""
        return self.op(
            "stablehlo.broadcast_in_dim", x,
            out=Type(tuple(shape), x.dtype), broadcast_dimensions=tuple(dims),
        )  # fmt: skip

    def reshape(self, x: HloValue, shape: Sequence[int]) -> HloValue:
        shape = tuple(shape)
        return x if x.shape == shape else self.op("stablehlo.reshape", x, out=Type(shape, x.dtype))

    def transpose(self, x: HloValue, perm: Sequence[int]) -> HloValue:
        out = Type(tuple(x.shape[p] for p in perm), x.dtype)
        return self.op("stablehlo.transpose", x, out=out, permutation=tuple(perm))

    def convert(self, x: HloValue, dtype: DType) -> HloValue:
        if x.dtype is dtype:
            return x
        return self.op("stablehlo.convert", x, out=Type(x.shape, dtype))

    def compare(self, direction: str, x: HloValue, y: HloValue) -> HloValue:
        """`direction` is EQ, NE, LT, LE, GT or GE; operands have one shape."""
        return self.op(
            "stablehlo.compare", x, y, out=Type(x.shape, bool_),
            comparison_direction=f"#stablehlo<comparison_direction {direction}>",
            compare_type=f"#stablehlo<comparison_type {COMPARISONS[x.dtype.kind]}>",
        )  # fmt: skip

    def select(self, condition: HloValue, x: HloValue, y: HloValue) -> HloValue:
        return self.op("stablehlo.select", condition, x, y, out=x.type)

    def barrier(self, *xs: HloValue) -> tuple[HloValue, ...]:
        """The same values, behind an optimization barrier.

        None is written into regions: XLA's CPU compiler ends the process over one in a loop whose
        body it writes in one go. Elsewhere it takes what comes out of a barrier for the very
        memory that went in, and may write over it where both are read by one fused loop. So only
        a bit passes the barrier there (`guards`), and chooses the values, which no pass foresees.
        """
        if self.lines is not self._outermost:
            return xs
        held = (self.constant(True, bool_), *xs) if self.guards else xs
        made = self.op("stablehlo.optimization_barrier", *held, out=tuple([x.type for x in held]))
        if not self.guards:
            return made
        return tuple([self.select(made[0], x, self.full(x.type, 0)) for x in xs])

    def iota(self, shape: Sequence[int], dtype: DType, dimension: int) -> HloValue:
        out = Type(tuple(shape), dtype)
        return self.op("stablehlo.iota", out=out, iota_dimension=dimension)

    def reduce(self, mnemonic: str, x: HloValue, init: Any, axes: Sequence[int]) -> HloValue:
        """Reduce over `axes` (they are removed) with a binary instruction such as `add`."""
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        body = self.region(
            [Type((), x.dtype)] * 2,
            lambda a, b: [self.op(f"stablehlo.{mnemonic}", a, b, out=a.type)],
        )
        start = self.constant(init, x.dtype)
        return self.op(
            "stablehlo.reduce", x, start,
            out=Type(shape, x.dtype), regions=body, dimensions=tuple(axes),
        )  # fmt: skip

    def region(self, types: Sequence[Type], body: Callable[..., Sequence[HloValue]]) -> str:
        """A region with arguments of the given types: its text, for `op(regions=...)`."""
        region = regions.Region(self, types)
        with region:
            region.results = list(body(*region.arguments))
        assert not region.checks, "nothing hands the outcome of a check out of this region"
        return str(region)

    def case(
        self, index: HloValue, branches: Sequence[Callable[[], Sequence[HloValue]]]
    ) -> tuple[HloValue, ...]:
        """The results of the branch that `index` (i32[], in range) names."""
        return regions.case(self, index, branches)

    def loop(
        self,
        init: Sequence[HloValue],
        condition: Callable[..., HloValue],
        body: Callable[..., Sequence[HloValue]],
        stops: bool = True,
        axes: Sequence[str] = (),
    ) -> tuple[HloValue, ...]:
        """The state after the last round; it `stops` when a check has failed, on all devices along
        the mesh's `axes` alike."""
        return regions.loop(self, init, condition, body, stops, axes)

    # -- programs -----------------------------------------------------------------------------

    def check(self, holds: HloValue, error: Callable[[], PullbackError]) -> None:
        """Require `holds` (bool[]) at run time; `error` makes the exception when it does not."""
        inner = self.inner
        if inner is not None:
            self.checks.append(
                (holds, (lambda: error().at(inner.op.title, inner.where), self.current))
            )
        else:
            self.checks.append((holds, (error, self.current)))

    def inline(
        self, graph: Graph, xs: Sequence[HloValue], held: bool = False
    ) -> tuple[HloValue, ...]:
        """The values of a graph's outputs over `xs`.

        A failed check belongs to the node that is lowered; the nodes of a graph that the user
        wrote and an op holds (`held`) have lines of their own, which its error names.
        """
        values: dict[Any, Any] = dict(zip(graph.inputs, xs, strict=True))
        outer, inner = self.current, self.inner
        for node in graph.nodes[len(graph.inputs) :]:
            self.current = outer or node
            self.inner = node if held else inner
            values[node] = self._lower(node, [values[x] for x in node.inputs])
        self.current, self.inner = outer, inner
        return tuple(values[y] for y in graph.outputs)

    def _lower(self, node: Any, xs: list[Any]) -> Any:
        if node.op.name == "Result":
            return xs[0][node.op.index]
        out = _plain(node.type)
        try:
            made = node.op.hlo(self, out, *xs)
        except PullbackError as error:
            raise error.at(node.op.title, node.where) from None
        values = made if isinstance(made, tuple) else (made,)
        if not all(isinstance(v, HloValue) for v in values):
            raise EngineError(
                "hlo must return a value that the builder made, or a tuple of them for several "
                f"results, got {made!r}",
                op=node.op.title, where=node.where,
            )  # fmt: skip
        got = tuple(v.type for v in made) if isinstance(made, tuple) else made.type
        if got != out:
            raise EngineError(
                f"inferred type {node.type} differs from the engine's {got}",
                op=node.op.title, where=node.where,
            )  # fmt: skip
        return made

    def _fresh(self) -> str:
        self._count += 1
        return f"%{self._count}"


def module(graph: Graph, builder: Builder | None = None, donated: Sequence[int] = ()) -> str:
    """A graph as a StableHLO module; checks add one result that says which of them held.

    XLA may write results into the buffers of `donated` inputs.
    """
    b = builder or Builder()
    args = [HloValue(b._fresh(), _plain(x.type)) for x in graph.inputs]
    outs = list(b.inline(graph, args))
    if b.checks:
        outs.append(_error_word(b))
    if b.has_ballast:
        outs.append(b.ballast())
    marks = [" {jax.buffer_donor = true}" if i in donated else "" for i in range(len(args))]
    header = ", ".join(f"{a.name}: {mlir_type(a.type)}{m}" for a, m in zip(args, marks))
    kinds = ", ".join(mlir_type(o.type) for o in outs)
    names = ", ".join(o.name for o in outs)
    b.lines.append(f"return {names} : {kinds}" if outs else "return")
    body = "\n".join(b.lines)
    main = f"func.func public @main({header}) -> ({kinds}) {{\n{body}\n}}"
    count = "" if b.mesh is None else f" attributes {{mhlo.num_replicas = {b.mesh.size} : i32}}"
    return f"module @pullback{count} {{\n{main}\n}}\n"


def result_types(graph: Graph, b: Builder) -> list[Type]:
    """The types of what a graph's module returns."""
    outs = [_plain(y.type) for y in graph.outputs]
    if b.checks:
        outs.append(Type(_word_shape(b), bool_))
    return [*outs, Type((), float32)] if b.has_ballast else outs


def _plain(type: Any) -> Any:
    """Shape and element type alone: a program of one device knows nothing of the others."""
    if isinstance(type, tuple):
        return tuple([_plain(t) for t in type])
    return Type(type.shape, type.dtype) if type.varying or type.sharding else type


def _error_word(b: Builder) -> HloValue:
    """Which checks held, as one vector of bools.

    If the devices belong to several processes, every one gets a table with a row of each: a check
    that failed on one process must not go unnoticed on the others.
    """
    columns = [b.reshape(holds, (1, 1)) for holds, _ in b.checks]
    row = b.op("stablehlo.concatenate", *columns, out=Type((1, len(columns)), bool_), dimension=1)
    if b.spans:
        row = b.all_gather(row, [range(b.mesh.size)], 0)
    return b.reshape(row, _word_shape(b))


def _word_shape(b: Builder) -> tuple[int, ...]:
    return (b.mesh.size, len(b.checks)) if b.spans else (len(b.checks),)


def mlir_type(type: Type) -> str:
    return f"tensor<{''.join(f'{n}x' for n in type.shape)}{type.dtype.hlo}>"


def attribute(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return f"{int(value)} : {int64.hlo}"
    return f"array<i64{': ' if value else ''}{', '.join(str(int(v)) for v in value)}>"


def dense(array: np.ndarray, dtype: DType) -> str:
    """A dense attribute: raw bytes in hexadecimal, so nothing is lost in print."""
    if array.size == 0:
        return "dense<>"
    if dtype is bool_:
        if array.size == 1:
            return f"dense<{'true' if array.reshape(-1)[0] else 'false'}>"
        # bools are packed into bits only in newer encodings: the list form is read by all
        return f"dense<{_nested(array)}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}">'


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return "true" if array else "false"
    return "[" + ", ".join(_nested(row) for row in array) + "]"


from pullback.engines.xla import regions  # noqa: E402  (it is written with the words above)
