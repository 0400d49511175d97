"""StableHLO's elementwise instructions as operations of Triton IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback.engines.xla.hlo_instructions import HloInstruction
from pullback.engines.xla.triton.tile_text import KernelText, Tile
from pullback.engines.xla.triton.triton_functions import write_triton_tanh
from pullback.graph.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
)  # fmt: skip

KINDS: dict[DType, str] = {
    float32: "f32", bfloat16: "bf16", float16: "f16",
    int8: "i8", int16: "i16", int32: "i32", int64: "i64", bool_: "i1",
}  # fmt: skip
STORED = {**KINDS, bool_: "i8"}  # in memory
_SIGNS = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}
_ORDERED = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}

_OF_FLOATS = {
    "multiply": "arith.mulf", "divide": "arith.divf", "maximum": "arith.maximumf",
    "minimum": "arith.minimumf", "negate": "arith.negf", "abs": "math.absf",
    "floor": "math.floor", "ceil": "math.ceil",
}  # fmt: skip
_OF_INTEGERS = {
    "add": "arith.addi", "subtract": "arith.subi", "multiply": "arith.muli",
    "maximum": "arith.maxsi", "minimum": "arith.minsi", "and": "arith.andi", "or": "arith.ori",
    "xor": "arith.xori",
}  # fmt: skip
_OF_BOOLS = {"and": "arith.andi", "or": "arith.ori", "xor": "arith.xori"}
_LIBRARY = {
    "exponential": "__nv_expf", "log": "__nv_logf", "sine": "__nv_sinf", "cosine": "__nv_cosf",
    "rsqrt": "__nv_rsqrtf", "sqrt": "__nv_sqrtf",
    "log_plus_one": "__nv_log1pf", "exponential_minus_one": "__nv_expm1f", "power": "__nv_powf",
    "round_nearest_even": "__nv_rintf",
}  # fmt: skip


class TritonCombination(NamedTuple):
    """How a reduction combines elements: the operation, on tiles of `kind`, and its identity."""

    operation: str
    kind: str
    identity: Any
    dtype: DType = float32


COMBINATIONS = {
    "add": TritonCombination("arith.addf", "f32", np.float32(0)),
    "maximum": TritonCombination("arith.maximumf", "f32", np.float32(-np.inf)),
    "minimum": TritonCombination("arith.minimumf", "f32", np.float32(np.inf)),
    "or": TritonCombination("arith.maxsi", "i32", np.int32(0), bool_),
    "and": TritonCombination("arith.minsi", "i32", np.int32(1), bool_),
}


def triton_writes_elementwise(i: HloInstruction) -> bool:
    """Whether `write_triton_elementwise` knows the instruction, for its types."""
    dtypes = [x.type.dtype for x in (*i.operands, *i.results)]
    if not all(d in KINDS for d in dtypes):
        return False
    dtype = dtypes[0]
    if i.name == "convert":
        return _triton_converts(dtype, dtypes[1])
    if i.name in ("select", "compare"):
        return True
    if dtype is bool_:
        return i.name in _OF_BOOLS or i.name == "not"
    if dtype.is_float:
        return i.name in _OF_FLOATS or i.name in _LIBRARY or i.name in _OTHERS
    return i.name in _OF_INTEGERS


def _triton_converts(old: DType, new: DType) -> bool:
    """Whether a conversion rounds at most once, and needs no rule for numbers out of range."""
    if old is bool_ or old.is_float:
        return old is bool_ or new.is_float
    return new.is_integer or new is float32


def write_triton_elementwise(k: KernelText, i: HloInstruction, xs: list[Tile]) -> Tile:
    """Write an instruction. Floats of 16 bits are computed in f32 and rounded, as XLA does."""
    kind = KINDS[i.results[0].dtype]
    if i.name == "select":
        return k.select(*xs)
    if i.name == "convert":
        return write_triton_convert(k, xs[0], kind)
    if i.name == "compare":
        return _triton_compare(k, i["comparison_direction"], *xs)
    if i.name == "not":
        return k.same("arith.xori", xs[0], k.full(xs[0].shape, np.True_, "i1"))
    if xs[0].kind == "i1":
        return k.same(_OF_BOOLS[i.name], *xs)
    if xs[0].kind.startswith("i"):
        return k.same(_OF_INTEGERS[i.name], *xs)
    wide = [write_triton_convert(k, x, "f32") for x in xs]
    if i.name in _OF_FLOATS:
        made = k.same(_OF_FLOATS[i.name], *wide)
    elif i.name in _LIBRARY:
        made = k.library(_LIBRARY[i.name], *wide)
    else:
        made = _OTHERS[i.name](k, *wide)
    return write_triton_convert(k, made, kind)


def write_triton_convert(k: KernelText, x: Tile, kind: str) -> Tile:
    """Convert between floats, from integers, and from bools; floats go through f32."""
    if x.kind == kind:
        return x
    was, now = x.kind.startswith("i"), kind.startswith("i")
    if was and now:
        if x.kind == "i1":
            return k.convert("arith.extui", x, kind)
        wider = int(kind[1:]) > int(x.kind[1:])
        return k.convert("arith.extsi" if wider else "arith.trunci", x, kind)
    if was:
        made = k.convert("arith.uitofp" if x.kind == "i1" else "arith.sitofp", x, "f32")
        return write_triton_convert(k, made, kind)
    if x.kind != "f32":
        return write_triton_convert(k, k.convert("arith.extf", x, "f32"), kind)
    return k.convert("arith.truncf", x, kind)


def _triton_compare(k: KernelText, direction: str, x: Tile, y: Tile) -> Tile:
    if x.kind.startswith("i"):
        return k.compare(f"arith.cmpi {_SIGNS[direction]}", x, y)
    wide = [write_triton_convert(k, t, "f32") for t in (x, y)]
    return k.compare(f"arith.cmpf {_ORDERED[direction]}", *wide)


def _triton_elementwise_number(k: KernelText, x: Tile, value: float) -> Tile:
    return k.full(x.shape, np.float32(value), "f32")


def _triton_logistic(k: KernelText, x: Tile) -> Tile:
    one = _triton_elementwise_number(k, x, 1)
    return k.same("arith.divf", one, k.same(
        "arith.addf", one, k.library("__nv_expf", k.same("arith.negf", x))
    ))  # fmt: skip


def _triton_is_finite(k: KernelText, x: Tile) -> Tile:
    return k.compare(
        "arith.cmpf olt", k.same("math.absf", x), _triton_elementwise_number(k, x, np.inf)
    )


def _triton_clamp(k: KernelText, low: Tile, x: Tile, high: Tile) -> Tile:
    return k.same("arith.minimumf", k.same("arith.maximumf", x, low), high)


_OTHERS: dict[str, Callable[..., Tile]] = {
    "add": KernelText.add, "subtract": KernelText.subtract,
    "tanh": write_triton_tanh,
    "logistic": _triton_logistic, "is_finite": _triton_is_finite, "clamp": _triton_clamp,
}  # fmt: skip
