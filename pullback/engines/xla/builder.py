"""Lower graphs to StableHLO. Each op writes its own lowering with the methods of `Builder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines.limits import physical_memory, refuse_types_beyond_limits
from pullback.engines.xla.callbacks import CallbackOrder
from pullback.engines.xla.donor_marks import donor_marks
from pullback.engines.xla.hlo_collectives import Collectives
from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
    is_view_hlo_instruction,
)
from pullback.engines.xla.hlo_printer import print_attribute, print_hlo_module
from pullback.engines.xla.join_kernel import with_join_kernels
from pullback.engines.xla.joins import with_joined_pads
from pullback.engines.xla.loop_constants import with_packed_constants
from pullback.engines.xla.loop_kernels import with_loop_kernels
from pullback.engines.xla.loop_rows import LoopRows
from pullback.engines.xla.merged_calls import with_merged_calls
from pullback.engines.xla.posted_results import PostedResults, with_posted_results
from pullback.engines.xla.regions import RegionInstructions
from pullback.engines.xla.triton.kernel_fusion import fuse_gpu_kernels
from pullback.engines.xla.value_ranges import Range, is_bounded_value, is_nan_wherever
from pullback.errors import EngineError, PullbackError
from pullback.graph.dtypes import DType, bfloat16, bool_, float16, float32, float64, uint64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type, show_types_apart
from pullback.ops.sources import Result
from pullback.ops.traits import HasKernel
from pullback.transforms.lowered_form import lowered_form

Locate = Callable[[Sequence[HloInstruction], Node], None]
COMPARISONS = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED", "f": "FLOAT", "c": "FLOAT"}
LOST = (1 << 29) - 1  # the bits of an f64 that an f32 does not have


class Builder(RegionInstructions, Collectives, LoopRows):
    """Collects a program's instructions; with a `mesh`, the program that each device runs."""

    def __init__(self, mesh: Any = None) -> None:
        self.mesh = mesh
        self.communicates = False  # whether a collective was written
        self.spans = False  # whether the devices belong to several processes
        self.apart = False  # whether XLA must run communicating programs in their own thread
        self.guards = False  # whether barriers select values instead of passing them on
        self.literal = True  # whether the program is read as it is, and not simplified by XLA
        self.results: tuple[HloValue, ...] = ()  # of the program
        self.platform = "cpu"  # that the program is compiled for
        self.kernels = False  # whether the program may call pullback's own kernels
        self.matmul_precision = "highest"  # of f32
        self.donated: frozenset[HloValue] = frozenset()
        self.neutral = True  # whether kernels are called by the names of ops, for any platform
        self.functions: list[Callable[..., Any]] = []  # of Python, that the program calls
        self.calls = CallbackOrder()
        self.instructions: list[HloInstruction] = []
        self._outermost = self.instructions  # those of the program, not of one of its regions
        self.checks: list[tuple[HloValue, Any]] = []  # conditions, with their errors and nodes
        self.awaited: Sequence[int] = ()  # results that a program for a GPU posts to the host
        self.posted = PostedResults()
        self.name = "pullback"  # of the module
        self.locate: Locate | None = None  # gives the instructions of a node their locations
        self.current: Any = None  # the program's node that is being lowered
        self.inner: Any = None  # the node that is being lowered of a graph held by an op
        self._count = 0
        self._constants: dict[Any, HloValue] = {}
        self._ranges: dict[HloValue, Range] = {}

    def op(
        self, mnemonic: str, *xs: HloValue, out: Any, regions: HloBlock | Sequence[HloBlock] = (),
        **attributes: Any,
    ) -> Any:  # fmt: skip
        """Add an instruction; `out` is its type, or a tuple; `attribute_text` writes attributes."""
        if mnemonic == "stablehlo.sort":  # XLA's compiler divides by zero on 2 ** 36 elements
            types = out if isinstance(out, tuple) else (out,)
            refuse_types_beyond_limits(types, physical_memory())
        several = isinstance(out, tuple)
        results = tuple([self.value(t) for t in out]) if several else (self.value(out),)
        blocks = (regions,) if isinstance(regions, HloBlock) else tuple(regions)
        texts = {k: print_attribute(v) for k, v in attributes.items()}
        made = HloInstruction(mnemonic, xs, results, texts, blocks)
        self.instructions.append(made)
        for y in results:
            y.made_by = made
        return results if several else results[0]

    def value(self, type: Type) -> HloValue:
        """A new value, for a result or an argument."""
        self._count += 1
        return HloValue(f"%{self._count}", type)

    def constant(self, value: Any, dtype: DType) -> HloValue:
        """A constant from a number or an array, exact to the bit."""
        array = np.asarray(value, dtype.numpy)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            made = self._constants[key] = self.value(Type(array.shape, dtype))
            made.made_by = HloInstruction("stablehlo.constant", (), (made,), {}, array=array)
            self.instructions.append(made.made_by)
        return self._constants[key]

    def is_zero(self, x: HloValue) -> bool:
        """Whether a value is known to be 0 everywhere, and not -0.0."""
        while (made := x.made_by) is not None and made.name in ("broadcast_in_dim", "reshape"):
            x = made.operands[0]
        return made is not None and made.array is not None and not any(made.array.tobytes())

    def once(self, key: Any, make: Callable[[], HloValue]) -> HloValue:
        """The value for `key` in the current region, made by `make` at the first use."""
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def full(self, type: Type, value: Any) -> HloValue:
        """A number, broadcast to a type's shape."""
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
        """Map dimension i of `x` to `dims[i]` of `shape`, and repeat along the others."""
        out, dims = Type(tuple(shape), x.dtype), tuple(dims)
        return self.op("stablehlo.broadcast_in_dim", x, out=out, broadcast_dimensions=dims)

    def reshape(self, x: HloValue, shape: Sequence[int]) -> HloValue:
        shape = tuple(shape)
        return x if x.shape == shape else self.op("stablehlo.reshape", x, out=Type(shape, x.dtype))

    def transpose(self, x: HloValue, perm: Sequence[int]) -> HloValue:
        out = Type(tuple(x.shape[p] for p in perm), x.dtype)
        return self.op("stablehlo.transpose", x, out=out, permutation=tuple(perm))

    def convert(self, x: HloValue, dtype: DType) -> HloValue:
        """The values in another dtype, with the bits that NumPy gives on every processor.

        Whether XLA rounds to 16 bits at once or first to f32 depends on the processor. NumPy rounds
        to f16 once, and to bf16 through f32. XLA's simplifier rewrites products with a converted
        bool to a select, in which 0 times NaN is 0; it does not look through a select of 1 or 0.
        """
        if x.dtype is dtype:
            return x
        if x.dtype is bool_ and dtype.is_inexact and not self.literal:
            out = Type(x.shape, dtype)
            return self.select(x, self.full(out, 1), self.full(out, 0))
        if dtype is bfloat16 and x.dtype is not float32:
            x = self.convert(x, float32)
        elif dtype is float16 and x.dtype is float64:
            x = self.convert(self._rounded_to_odd(x), float32)
        return self.op("stablehlo.convert", x, out=Type(x.shape, dtype))

    def _rounded_to_odd(self, x: HloValue) -> HloValue:
        """Numbers of f64 with the precision of f32, in whose last bit all lost bits are joined by
        `or`. The result is exact in f32, and on the same side of every tie of f16."""
        bits = self.op("stablehlo.bitcast_convert", x, out=Type(x.shape, uint64))
        lost, kept, last = (self.full(bits.type, n) for n in (LOST, ~LOST % 2**64, LOST + 1))
        low, high = (self.op("stablehlo.and", bits, m, out=bits.type) for m in (lost, kept))
        inexact = self.compare("NE", low, self.full(bits.type, 0))
        odd = self.op("stablehlo.or", high, last, out=bits.type)
        return self.op(
            "stablehlo.bitcast_convert", self.select(inexact, odd, high), out=Type(x.shape, float64)
        )

    def divide(self, x: HloValue, y: HloValue) -> HloValue:
        """The quotient of two values of the same type.

        XLA's simplifier multiplies by 1 / y where y is broadcast, and makes one quotient out of
        two: products in it overflow where the quotient does not. It does not look through selects;
        these choose the other operand where that is NaN, as the quotient is.
        """
        if x.dtype.is_float and not self.literal:
            x_is_nan, y_is_nan = self.compare("NE", x, x), self.compare("NE", y, y)
            x, y = self.select(y_is_nan, y, x), self.select(x_is_nan, x, y)
        return self.op("stablehlo.divide", x, y, out=x.type)

    def is_definite_product(self, x: HloValue, y: HloValue) -> bool:
        """Whether x * y is known to be 0 where x is 0, and where y is 0 unless x is NaN.

        Only on GPUs, where a kernel's arithmetic may take longer than its memory.
        """
        if self.platform == "cpu" or not x.dtype.is_float or x.shape != y.shape:
            return False
        bounded = all(is_bounded_value(z, self._ranges) for z in (x, y))
        return bounded and is_nan_wherever(x, y)

    def compare(self, direction: str, x: HloValue, y: HloValue) -> HloValue:
        """`direction` is EQ, NE, LT, LE, GT or GE; operands have the same shape."""
        return self.op(
            "stablehlo.compare", x, y, out=Type(x.shape, bool_),
            comparison_direction=f"#stablehlo<comparison_direction {direction}>",
            compare_type=f"#stablehlo<comparison_type {COMPARISONS[x.dtype.kind]}>",
        )  # fmt: skip

    def select(self, condition: HloValue, x: HloValue, y: HloValue) -> HloValue:
        return self.op("stablehlo.select", condition, x, y, out=x.type)

    def barrier(self, *xs: HloValue) -> tuple[HloValue, ...]:
        """The same values, behind an optimization barrier.

        Regions have no barriers: XLA's CPU compiler aborts on one in a loop whose body it fuses.
        Elsewhere it lets a barrier's results share memory with its operands, and may overwrite
        them where one fused loop reads both. With `guards`, only a bit passes the barrier and
        selects the values, which no pass can predict.
        """
        if self.instructions is not self._outermost:
            return xs
        held = (self.constant(True, bool_), *xs) if self.guards else xs
        made = self.op("stablehlo.optimization_barrier", *held, out=tuple([x.type for x in held]))
        if not self.guards:
            return made
        return tuple([self.select(made[0], x, self.full(x.type, 0)) for x in xs])

    def may_overlap(self, x: HloValue, updates: HloValue) -> bool:
        """Whether XLA might write `updates` over `x` while it still reads `x` to compute them.

        Its CPU compiler keeps such reads and writes apart, unless a reshape is between them: one
        of the program, or one that XLA put behind another instruction than an update.
        """
        made = {y: i for i in self.instructions for y in i.results}
        root = x
        while root in made and is_view_hlo_instruction(made[root]):
            root = made[root].operands[0]
        plain = root is x and (root not in made or made[root].name == "dynamic_update_slice")
        views = {root}
        dependent: set[HloValue] = set() if plain else {root}
        for i in self.instructions:
            if is_view_hlo_instruction(i) and i.operands[0] in views:
                views.update(i.results)
                dependent.update(i.results)
            elif not dependent.isdisjoint((*i.operands, *captured_by_hlo_instruction(i))):
                dependent.update(i.results)
        return updates in dependent

    def iota(self, shape: Sequence[int], dtype: DType, dimension: int) -> HloValue:
        return self.op("stablehlo.iota", out=Type(tuple(shape), dtype), iota_dimension=dimension)

    def reduce(self, mnemonic: str, x: HloValue, init: Any, axes: Sequence[int]) -> HloValue:
        """Reduce over `axes`, which are removed, with a binary instruction such as `add`."""
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        body = self.combination(x.dtype, mnemonic)
        start, out = self.constant(init, x.dtype), Type(shape, x.dtype)
        return self.op("stablehlo.reduce", x, start, out=out, regions=body, dimensions=tuple(axes))

    def check(self, holds: HloValue, error: Callable[[], PullbackError]) -> None:
        """Require `holds` (bool[]) at run time; `error` makes the exception if it is false."""
        inner = self.inner
        made = error if inner is None else lambda: error().at(inner.op.title, inner.where)
        self.checks.append((holds, (made, self.current)))

    def inline(
        self, graph: Graph, xs: Sequence[HloValue], held: bool = False
    ) -> tuple[HloValue, ...]:
        """The values of a graph's outputs for the inputs `xs`.

        A failed check belongs to the program's node that is being lowered. If an op holds a graph
        that the user wrote (`held`), its error names the line of the inner node.
        """
        if held and self.kernels:
            graph, _ = lowered_form(graph, self.platform)
        values: dict[Any, Any] = dict(zip(graph.inputs, xs, strict=True))
        outer, inner = self.current, self.inner
        for node in graph.nodes[len(graph.inputs) :]:
            self.current = outer or node
            self.inner = node if held else inner
            values[node] = self._lower(node, [values[x] for x in node.inputs])
        self.current, self.inner = outer, inner
        return tuple(values[y] for y in graph.outputs)

    def _lower(self, node: Node, xs: list[Any]) -> Any:
        if isinstance(node.op, Result):
            return xs[0][node.op.index]
        out, before = _plain_builder(node.type), len(self.instructions)
        try:
            made = self._kernel_call(node.op, out, xs) if self.kernels else None
            if made is None:
                made = node.op.hlo(self, out, *xs)
        except PullbackError as error:
            raise error.at(node.op.title, node.where) from None
        except Exception as error:  # a number too large for an attribute, for example
            what = f"XLA has no program for these operands and parameters ({error})"
            raise EngineError(what).at(node.op.title, node.where) from error
        if self.locate is not None:
            self.locate(self.instructions[before:], self.inner or self.current)
        values = made if isinstance(made, tuple) else (made,)
        problem = None
        if not all(isinstance(v, HloValue) for v in values):
            wanted = "a value made by the builder, or a tuple of values for several results"
            problem = f"hlo must return {wanted}, got {made!r}"
        elif (got := tuple(v.type for v in made) if values is made else made.type) != out:
            inferred, engine = show_types_apart(node.type, got)
            problem = f"inferred type {inferred} differs from the engine's {engine}"
        if problem is not None:
            raise EngineError(problem, op=node.op.title, where=node.where)
        return made

    def _kernel_call(self, op: Any, out: Any, xs: list[Any]) -> Any:
        """Call the op's kernel; None if it has none for these operands."""
        if not isinstance(op, HasKernel) or any(0 in x.shape for x in xs):
            return None
        return (op.kernel if self.platform == "cpu" else op.on_cuda)(self, out, *xs)


def build_xla_block(graph: Graph, b: Builder, donated: Sequence[int] = ()) -> HloBlock:
    """A graph's program; checks add one result that says which of them held."""
    arguments = tuple([b.value(_plain_builder(x.type)) for x in graph.inputs])
    b.donated = frozenset([arguments[i] for i in donated])
    results = b.inline(graph, arguments)
    if b.checks:
        results += (_builder_error_word(b),)
    if b.has_ballast:
        results += (b.ballast(),)
    b.results = results
    return HloBlock(arguments, b.instructions, results, graph.names)


def build_xla_module(
    graph: Graph, builder: Builder | None = None, donated: Sequence[int] = ()
) -> str:
    """A graph as the text of a StableHLO module; results may overwrite the `donated` inputs."""
    b = builder or Builder()
    main = build_xla_block(graph, b, donated)
    if b.kernels:
        main = with_joined_pads(main)
        if b.platform == "cpu":
            main = with_loop_kernels(with_join_kernels(main, b), b)
            main = with_merged_calls(with_packed_constants(main, b), b)
        else:
            main = fuse_gpu_kernels(main, b)
    if b.awaited:
        main, b.posted = with_posted_results(main, graph, b.awaited, b)
    count = "" if b.mesh is None else f" attributes {{mhlo.num_replicas = {b.mesh.size} : i32}}"
    return print_hlo_module(main, donor_marks(main, donated), count, name=b.name)


def _plain_builder(type: Any) -> Any:
    """Shape and dtype alone: the program of one device knows nothing of the others."""
    if isinstance(type, tuple):
        return tuple([_plain_builder(t) for t in type])
    return Type(type.shape, type.dtype) if type.varying or type.sharding else type


def _builder_error_word(b: Builder) -> HloValue:
    """One vector of bools that says which checks held.

    If the devices belong to several processes, each gets a table with a row for every device: a
    check that failed in one process must not go unnoticed in the others.
    """
    columns = [b.reshape(holds, (1, 1)) for holds, _ in b.checks]
    row = b.op("stablehlo.concatenate", *columns, out=Type((1, len(columns)), bool_), dimension=1)
    if b.spans:
        row = b.all_gather(row, [range(b.mesh.size)], 0)
    return row if b.spans else b.reshape(row, (len(columns),))
