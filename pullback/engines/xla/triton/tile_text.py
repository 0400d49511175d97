"""Write Triton IR: the text of a kernel that works on tiles, arrays of two dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Tile(NamedTuple):
    """A value of a kernel: its name, its shape (none for a single number), its element type."""

    name: str
    shape: Shape
    kind: str

    @property
    def type(self) -> str:
        return tile_type(self.shape, self.kind)


def tile_type(shape: Shape, kind: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), kind])}>" if shape else kind


class KernelText:
    """The text of one kernel, written operation by operation."""

    def __init__(self, name: str, pointers: Sequence[str]) -> None:
        """`pointers` are the element types of what the arguments point to."""
        self.name = name
        self.arguments = [Tile(f"%p{i}", (), f"!tt.ptr<{k}>") for i, k in enumerate(pointers)]
        self._lines: list[str] = []
        self._count = 0
        self._products: dict[Tile, tuple[Tile, Tile]] = {}  # the factors of each

    def module(self) -> str:
        """The whole module. XLA aligns all its arrays to 16 bytes, which widens the accesses."""
        aligned = "{tt.divisibility = 16 : i32}"
        arguments = ", ".join([f"{a.name}: {a.kind} {aligned}" for a in self.arguments])
        body = "\n".join([*self._lines, "tt.return"])
        return f"module {{\ntt.func public @{self.name}({arguments}) {{\n{body}\n}}\n}}\n"

    def op(self, text: str, shape: Shape, kind: str) -> Tile:
        """Add an operation, written without its result."""
        self._count += 1
        made = Tile(f"%v{self._count}", shape, kind)
        self._lines.append(f"{made.name} = {text}")
        return made

    def same(self, name: str, *xs: Tile) -> Tile:
        """Add an operation whose operands and result have one type."""
        made = self.op(f"{name} {_tile_names(xs)} : {xs[0].type}", xs[0].shape, xs[0].kind)
        if name == "arith.mulf":
            self._products[made] = (xs[0], xs[1])
        return made

    def add(self, x: Tile, y: Tile) -> Tile:
        """A sum; with a product it is rounded once, in one instruction, as in XLA's own code."""
        for a, b in ((x, y), (y, x)):
            if (factors := self._products.get(a)) is not None:
                return self.same("math.fma", *factors, b)
        return self.same("arith.addf", x, y)

    def subtract(self, x: Tile, y: Tile) -> Tile:
        """A difference, rounded as a sum is."""
        if (factors := self._products.get(x)) is not None:
            return self.same("math.fma", *factors, self.same("arith.negf", y))
        if (factors := self._products.get(y)) is not None:
            a, b = factors
            return self.same("math.fma", self.same("arith.negf", a), b, x)
        return self.same("arith.subf", x, y)

    def bitcast(self, x: Tile, kind: str) -> Tile:
        text = f"tt.bitcast {x.name} : {x.type} -> {tile_type(x.shape, kind)}"
        return self.op(text, x.shape, kind)

    def convert(self, name: str, x: Tile, kind: str) -> Tile:
        return self.op(f"{name} {x.name} : {x.type} to {tile_type(x.shape, kind)}", x.shape, kind)

    def compare(self, name: str, x: Tile, y: Tile) -> Tile:
        return self.op(f"{name}, {x.name}, {y.name} : {x.type}", x.shape, "i1")

    def select(self, condition: Tile, x: Tile, y: Tile) -> Tile:
        names, types = _tile_names((condition, x, y)), f"{condition.type}, {x.type}"
        return self.op(f"arith.select {names} : {types}", x.shape, x.kind)

    def library(self, symbol: str, *xs: Tile) -> Tile:
        """Call a function of CUDA's library of mathematical functions."""
        types = ", ".join([x.type for x in xs])
        how = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
        text = f"tt.extern_elementwise {_tile_names(xs)} {how} : ({types}) -> {xs[0].type}"
        return self.op(text, xs[0].shape, xs[0].kind)

    def instruction(self, name: str, x: Tile) -> Tile:
        """Apply an instruction of the GPU to each f32."""
        how = '{constraints = "=f,f", packed_element = 1 : i32, pure = true}'
        text = f'tt.elementwise_inline_asm "{name} $0, $1;" {how} {x.name} : {x.type} -> {x.type}'
        return self.op(text, x.shape, x.kind)

    def constant(self, value: int, kind: str) -> Tile:
        return self.op(f"arith.constant {value} : {kind}", (), kind)

    def full(self, shape: Shape, value: np.ndarray | np.generic, kind: str) -> Tile:
        """A tile of one number, exact to the bit."""
        if kind == "i1":
            text = "true" if value else "false"
        elif kind.startswith("i"):
            text = str(int(value))
        else:
            text = f"0x{value.tobytes()[::-1].hex().upper()}"
        return self.op(f"arith.constant dense<{text}> : {tile_type(shape, kind)}", shape, kind)

    def splat(self, x: Tile, shape: Shape) -> Tile:
        return self.op(f"tt.splat {x.name} : {x.type} -> {tile_type(shape, x.kind)}", shape, x.kind)

    def broadcast(self, x: Tile, shape: Shape) -> Tile:
        if x.shape == shape:
            return x
        text = f"tt.broadcast {x.name} : {x.type} -> {tile_type(shape, x.kind)}"
        return self.op(text, shape, x.kind)

    def positions(self, count: int, axis: int) -> Tile:
        """The numbers from 0 to `count`, along an axis of a tile."""
        end = f"{{end = {count} : i32, start = 0 : i32}}"
        line = self.op(f"tt.make_range {end} : {tile_type((count,), 'i32')}", (count,), "i32")
        return self.expand(line, 1 - axis)

    def expand(self, x: Tile, axis: int) -> Tile:
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        how = f"{{axis = {axis} : i32}}"
        text = f"tt.expand_dims {x.name} {how} : {x.type} -> {tile_type(shape, x.kind)}"
        return self.op(text, shape, x.kind)

    def program_id(self, axis: str) -> Tile:
        return self.op(f"tt.get_program_id {axis} : i32", (), "i32")

    def add_pointer(self, pointer: Tile, offset: Tile) -> Tile:
        types = f"{pointer.type}, {offset.type}"
        return self.op(
            f"tt.addptr {pointer.name}, {offset.name} : {types}", pointer.shape, pointer.kind
        )

    def load(self, pointers: Tile, mask: Tile | None) -> Tile:
        """What a tile of pointers points to, and 0 where the mask is false."""
        kind = pointers.kind.removeprefix("!tt.ptr<").removesuffix(">")
        operands = [pointers]
        if mask is not None:
            zero = "0" if kind.startswith("i") else "0.0"
            zeros = f"arith.constant dense<{zero}> : {tile_type(pointers.shape, kind)}"
            operands += [mask, self.op(zeros, pointers.shape, kind)]
        return self.op(f"tt.load {_tile_names(operands)} : {pointers.type}", pointers.shape, kind)

    def store(self, pointers: Tile, x: Tile, mask: Tile | None) -> None:
        operands = (pointers, x) if mask is None else (pointers, x, mask)
        self._lines.append(f"tt.store {_tile_names(operands)} : {pointers.type}")

    def reduce(self, combine: str, x: Tile, axis: int) -> Tile:
        """Combine the elements along an axis, which stays with size 1."""
        return self.expand(self._reduced(combine, x, axis), axis)

    def reduce_all(self, combine: str, x: Tile) -> Tile:
        """Combine all elements to one number."""
        while x.shape:
            x = self._reduced(combine, x, len(x.shape) - 1)
        return x

    def _reduced(self, combine: str, x: Tile, axis: int) -> Tile:
        self._count += 1
        a, b, c = (f"%{letter}{self._count}" for letter in "abc")
        rest = tuple([n for i, n in enumerate(x.shape) if i != axis])
        region = (
            f"({{\n^bb0({a}: {x.kind}, {b}: {x.kind}):\n{c} = {combine} {a}, {b} : {x.kind}\n"
            f"tt.reduce.return {c} : {x.kind}\n}})"
        )
        types = f"({x.type}) -> {tile_type(rest, x.kind)}"
        return self.op(f'"tt.reduce"({x.name}) <{{axis = {axis} : i32}}> {region} : {types}',
                       rest, x.kind)  # fmt: skip

    def branch(
        self, condition: Tile, then: Callable[[], None], otherwise: Callable[[], None]
    ) -> None:
        """Do one of two things."""
        texts = []
        for write in (then, otherwise):
            with self._region() as lines:
                write()
            texts.append("\n".join(lines))
        self._lines.append(f"scf.if {condition.name} {{\n{texts[0]}\n}} else {{\n{texts[1]}\n}}")

    @contextmanager
    def _region(self) -> Iterator[list[str]]:
        """Write lines elsewhere."""
        lines, self._lines = self._lines, []
        yield self._lines
        self._lines = lines

    @contextmanager
    def loop(
        self, start: Tile, stop: Tile, step: Tile, carried: Sequence[Tile], done: list[Tile]
    ) -> Iterator[tuple[Tile, list[Tile], Callable[[Sequence[Tile]], None]]]:
        """A loop over integers. Its body gets the counter, the carried tiles, and a function to
        call with their next values; `done` receives those after the loop."""
        self._count += 1
        n = self._count
        counter = Tile(f"%i{n}", (), start.kind)
        inner = [x._replace(name=f"%c{n}_{k}") for k, x in enumerate(carried)]
        following: list[Tile] = []
        with self._region() as body:
            yield counter, inner, following.extend
        head = f"scf.for {counter.name} = {start.name} to {stop.name} step {step.name}"
        if not carried:
            self._lines.append(f"{head} : i32 {{\n" + "\n".join(body) + "\n}")
            return
        types = ", ".join([x.type for x in carried])
        pairs = [f"{i.name} = {x.name}" for i, x in zip(inner, carried, strict=True)]
        body.append(f"scf.yield {_tile_names(following)} : {types}")
        text = f"{head} iter_args({', '.join(pairs)}) -> ({types}) : i32 {{\n"
        self._lines.append(f"%r{n}:{len(carried)} = {text}" + "\n".join(body) + "\n}")
        done += [x._replace(name=f"%r{n}#{k}") for k, x in enumerate(carried)]


def _tile_names(xs: Sequence[Tile]) -> str:
    return ", ".join([x.name for x in xs])
