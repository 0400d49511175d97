"""Run Triton IR with NumPy: what kernels for GPUs compute can be tested without one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from scipy import special

KINDS: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x y + z, rounded once if these are f32."""
    return x.astype(np.float64) * y + z


BINARY: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.maxsi": np.maximum, "arith.minsi": np.minimum, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.shli": np.left_shift,
    "arith.negf": np.negative, "math.absf": np.abs, "math.floor": np.floor, "math.ceil": np.ceil,
    "math.fma": fma, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "math.exp2": np.exp2,
    "arith.remsi": np.fmod,
}  # fmt: skip
COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal}  # fmt: skip
LIBRARY: dict[str, Callable[..., Any]] = {
    "__nv_expf": np.exp, "__nv_logf": np.log, "__nv_tanhf": np.tanh, "__nv_sinf": np.sin,
    "__nv_cosf": np.cos, "__nv_rsqrtf": lambda x: 1 / np.sqrt(x), "__nv_sqrtf": np.sqrt,
    "__nv_log1pf": np.log1p, "__nv_expm1f": np.expm1, "__nv_powf": np.power,
    "__nv_rintf": np.rint, "__nv_erff": special.erf, "__nv_fsqrt_rn": np.sqrt,
    "__nv_dsqrt_rn": np.sqrt, "__nv_fdiv_rn": np.divide,
    "__nv_ddiv_rn": np.divide,
}  # fmt: skip


INSTRUCTIONS = {"ex2.approx.ftz.f32": np.exp2, "rcp.approx.ftz.f32": lambda x: 1 / x}


class Pointers(NamedTuple):
    """Places in an array that is stored by rows."""

    array: np.ndarray
    offset: np.ndarray


class KernelProgram:
    """One kernel; `run` computes it for all programs of a grid."""

    def __init__(self, text: str, memory: Mapping[int, np.ndarray] | None = None) -> None:
        """`memory` maps addresses that the kernel receives to arrays."""
        self.memory = memory or {}
        self.branches: list[bool] = []  # whether each branch took its first region
        self.lines = [line.strip() for line in text.splitlines()]
        head = next(n for n, line in enumerate(self.lines) if line.startswith("tt.func"))
        self.arguments = re.findall(r"(%p\d+): !tt\.ptr<(\w+)>", self.lines[head])
        self.body = self.lines[head + 1 : -2]

    def run(self, grid: tuple[int, int], arrays: Sequence[np.ndarray]) -> None:
        assert len(arrays) == len(self.arguments)
        for array, (_, kind) in zip(arrays, self.arguments, strict=True):
            stored = np.int8 if array.dtype == np.bool_ else array.dtype
            assert stored == KINDS[kind]
        for x in range(grid[0]):
            for y in range(grid[1]):
                self.place = {"x": x, "y": y}
                flat = [a.reshape(-1).view(np.int8 if a.dtype == np.bool_ else a.dtype)
                        for a in arrays]  # fmt: skip
                values = {name: Pointers(a, np.int64(0))
                          for (name, _), a in zip(self.arguments, flat, strict=True)}  # fmt: skip
                with np.errstate(all="ignore"):
                    self.block(self.body, values)

    def block(self, lines: list[str], values: dict[str, Any]) -> list[Any]:
        """Run lines; return the operands of the `yield` at the end of a loop's body."""
        n = 0
        while n < len(lines):
            line = lines[n]
            n += 1
            if "scf.for" in line or '"tt.reduce"' in line:
                depth, start = 1, n
                while depth:
                    depth += lines[n].count("{") - lines[n].count("}")
                    n += 1
                last = lines[n - 1]
                (self.loop if "scf.for" in line else self.reduce)(
                    line, lines[start : n - 1], last, values
                )
            elif "scf.if" in line:
                n = self.branch(line, lines, n, values)
            elif line.startswith("scf.yield"):
                return [values[x] for x in re.findall(r"%[\w#]+", line)]
            elif line.startswith("tt.store"):
                self.store(line, values)
            elif line != "tt.return":
                name, text = line.split(" = ", 1)
                values[name] = self.one(text, values)
        return []

    def loop(self, line: str, body: list[str], last: str, values: dict[str, Any]) -> None:
        head = re.search(r"scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)", line)
        assert head is not None
        counter, *limits = head.groups()
        pairs = re.findall(r"(%c\d+_\d+) = (%[\w#]+)", line)
        carried = [values[x] for _, x in pairs]
        for i in range(*[int(values[x]) for x in limits]):
            inner = dict(values)
            inner[counter] = np.int32(i)
            inner.update(zip([name for name, _ in pairs], carried, strict=True))
            carried = self.block(body, inner)
        found = re.match(r"(%r\d+):", line)
        for k, x in enumerate(carried):
            assert found is not None
            values[f"{found[1]}#{k}"] = x

    def branch(self, line: str, lines: list[str], n: int, values: dict[str, Any]) -> int:
        """Run one of the regions that begin at a line; return the number of the line after them."""
        regions: list[list[str]] = [[]]
        depth = 1
        while depth:
            opened, closed = lines[n].count("{"), lines[n].count("}")
            if depth == 1 and lines[n].startswith("} else"):
                regions.append([])
            else:
                depth += opened - closed
                if depth:
                    regions[-1].append(lines[n])
            n += 1
        condition = re.findall(r"%[\w#]+", line)[0]
        self.branches.append(bool(values[condition]))
        self.block(regions[0 if values[condition] else 1], dict(values))
        return n

    def reduce(self, line: str, body: list[str], last: str, values: dict[str, Any]) -> None:
        name, x = re.match(r'(%\w+) = "tt.reduce"\((%[\w#]+)\)', line).groups()  # type: ignore[union-attr]
        axis = int(re.search(r"axis = (\d+)", line)[1])  # type: ignore[index]
        combine = BINARY[body[1].split(" = ")[1].split()[0]]
        x = values[x]
        values[name] = combine.reduce(x, axis=axis, dtype=x.dtype)  # type: ignore[attr-defined]

    def store(self, line: str, values: dict[str, Any]) -> None:
        at, x, *mask = [values[v] for v in re.findall(r"%[\w#]+", line.split(" : ")[0])]
        at, x, m = self.alike(at, x, mask)
        assert at.array.dtype == x.dtype
        assert (at.offset[m] < at.array.size).all() and (at.offset[m] >= 0).all()
        at.array[at.offset[m]] = x[m]

    def alike(self, at: Pointers, x: np.ndarray, mask: list[np.ndarray]) -> Any:
        m = np.broadcast_to(mask[0] if mask else np.True_, at.offset.shape)
        assert x.shape == at.offset.shape
        return at, x, m

    def one(self, text: str, values: dict[str, Any]) -> Any:
        op = text.split()[0]
        xs = [values[v] for v in re.findall(r"%[\w#]+", text)]
        shape, kind = _type(text)
        if op in BINARY:
            made = BINARY[op](*xs)
            assert all(np.shape(x) == np.shape(xs[0]) and x.dtype == xs[0].dtype for x in xs)
            return np.asarray(made).astype(xs[0].dtype)
        if op == "arith.constant":
            return _constant(text, shape, kind)
        if op.startswith("arith.cmp"):
            name = re.match(r"arith\.cmp[if] (\w+),", text)[1]  # type: ignore[index]
            assert xs[0].shape == xs[1].shape and xs[0].dtype == xs[1].dtype
            return COMPARED[name[-2:]](*xs)
        if op == "arith.select":
            assert xs[0].shape == xs[1].shape == xs[2].shape
            return np.where(*xs)
        if op == "tt.bitcast":
            return np.ascontiguousarray(xs[0]).view(KINDS[kind])
        if op == "arith.extui":
            return xs[0].view(f"u{xs[0].itemsize}").astype(KINDS[kind])
        if " to " in text:  # a conversion
            return xs[0].astype(KINDS[kind])
        return self.tile(op, text, xs, shape)

    def tile(self, op: str, text: str, xs: list[Any], shape: tuple[int, ...]) -> Any:
        if op == "tt.get_program_id":
            return np.int32(self.place[text.split()[1]])
        if op == "tt.make_range":
            return np.arange(shape[0], dtype=np.int32)
        if op == "tt.elementwise_inline_asm":
            name = re.search(r'asm "([\w.]+) ', text)[1]  # type: ignore[index]
            return INSTRUCTIONS[name](xs[0].astype(np.float64)).astype(xs[0].dtype)
        if op == "tt.int_to_ptr":
            return Pointers(self.memory[int(xs[0])], np.int64(0))
        if op == "tt.extern_elementwise":
            name = re.search(r'symbol = "(\w+)"', text)[1]  # type: ignore[index]
            return LIBRARY[name](*[x.astype(np.float64) for x in xs]).astype(xs[0].dtype)
        if op == "tt.expand_dims":
            return np.expand_dims(xs[0], int(re.search(r"axis = (\d+)", text)[1]))  # type: ignore[index]
        if op == "tt.addptr":
            assert np.shape(xs[0].offset) == np.shape(xs[1])
            return Pointers(xs[0].array, xs[0].offset + xs[1].astype(np.int64))
        if op in ("tt.splat", "tt.broadcast"):
            if isinstance(xs[0], Pointers):
                return Pointers(xs[0].array, np.broadcast_to(xs[0].offset, shape))
            return np.broadcast_to(xs[0], shape)
        assert op == "tt.load"
        at, *rest = xs
        mask = rest[0] if rest else np.ones(at.offset.shape, bool)
        assert (at.offset[mask] < at.array.size).all() and (at.offset[mask] >= 0).all()
        found = at.array[np.where(mask, at.offset, 0)]
        return np.where(mask, found, np.zeros((), found.dtype)).astype(found.dtype)


def _type(text: str) -> tuple[tuple[int, ...], str]:
    """The shape and kind of the last type in a line."""
    last = re.split(r" to | -> |: ", text)[-1].strip()
    found = re.match(r"tensor<([\dx]*)x([^>]*)", last)
    if found is None:
        return (), last
    return tuple(map(int, found[1].split("x"))), found[2]


def _constant(text: str, shape: tuple[int, ...], kind: str) -> Any:
    number = re.search(r"constant (?:dense<)?([^>:]+?)>? : ", text)[1]  # type: ignore[index]
    if number in ("true", "false"):
        value: Any = number == "true"
    elif number.startswith("0x"):
        value = np.frombuffer(bytes.fromhex(number[2:])[::-1], KINDS[kind])[0]
    else:
        value = float(number) if "." in number else int(number)
    made = np.asarray(value).astype(KINDS[kind])
    return np.broadcast_to(made, shape) if shape else made[()]
