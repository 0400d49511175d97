"""Collectives: instructions through which the devices of a mesh communicate.

Devices are identified by their position in the mesh. `groups` are lists of positions that
communicate with each other, in the order of their parts; together they cover the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.engines.protocols import BuilderProtocol, Groups
from pullback.graph import dtypes
from pullback.graph.dtypes import DType, bool_, float32, float64, int32, int64, uint8, uint32
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.hlo_instructions import HloBlock, HloValue

_WIDER = {dtypes.int16: int32, dtypes.uint16: uint32}  # NCCL has no 16-bit integers


class Collectives(BuilderProtocol):
    """The part of `Builder` that writes collectives."""

    communicates: bool
    apart: bool
    combination: Callable[[DType, str], HloBlock]

    def all_reduce(self, xs: Sequence[HloValue], groups: Groups, kind: str) -> list[HloValue]:
        """Reduce operands over groups with add, multiply, maximum, minimum (NaN wins), and, or."""
        results: list[Any] = [None] * len(xs)
        coded: dict[tuple, list] = {}
        for i, x in enumerate(xs):
            if _hlo_collective_needs_gathering(x.dtype, kind):
                parts = self.all_gather(self.reshape(x, (1, *x.shape)), groups, 0)
                total = self._parts_reduced(parts, 0, len(groups[0]), kind)
                results[i] = self.reshape(total, x.shape)
            else:
                key, how = _encode_for_collective(self, x, kind)
                coded.setdefault((key.dtype, how), []).append((i, key))
        for (dtype, how), operands in coded.items():
            given, body = [x for _, x in operands], self.combination(dtype, how)
            types = [x.type for x in given]
            found = self._exchange("all_reduce", given, groups, types, regions=body)
            for (i, _), y in zip(operands, found, strict=True):
                results[i] = _decode_from_collective(self, y, xs[i].dtype, kind)
        return results

    def reduce_scatter(self, x: HloValue, groups: Groups, dim: int, kind: str) -> HloValue:
        """Reduce over each group; its k-th device gets the k-th part along `dim`."""
        if _hlo_collective_needs_gathering(x.dtype, kind):
            parts = self.all_to_all(x, groups, dim, dim)
            return self._parts_reduced(parts, dim, len(groups[0]), kind)
        key, how = _encode_for_collective(self, x, kind)
        out = _scaled_hlo_collective_type(key.type, dim, 1, len(groups[0]))
        body = self.combination(key.dtype, how)
        more = {"regions": body, "scatter_dimension": dim}
        found = self._exchange("reduce_scatter", [key], groups, [out], **more)
        return _decode_from_collective(self, found[0], x.dtype, kind)

    def all_gather(self, x: HloValue, groups: Groups, dim: int) -> HloValue:
        """Concatenate the operands of each group along `dim`, on every device."""
        out = _scaled_hlo_collective_type(x.type, dim, len(groups[0]), 1)
        return self._exchange("all_gather", [x], groups, [out], all_gather_dim=dim)[0]

    def all_to_all(self, x: HloValue, groups: Groups, split: int, concat: int) -> HloValue:
        """Send part k along `split` to device k of the group, which joins parts along `concat`."""
        n = len(groups[0])
        out = _scaled_hlo_collective_type(
            _scaled_hlo_collective_type(x.type, split, 1, n), concat, n, 1
        )
        return self._exchange(
            "all_to_all", [x], groups, [out],
            split_dimension=split, concat_dimension=concat, split_count=n,
        )[0]  # fmt: skip

    def collective_permute(self, x: HloValue, pairs: Sequence[tuple[int, int]]) -> HloValue:
        """Send operands along pairs (source, target) of positions; other positions get zeros."""
        if not pairs:
            return self.full(x.type, 0)
        self.communicates, table = True, _collective_groups(pairs)
        return self.op("stablehlo.collective_permute", x, out=x.type, source_target_pairs=table)

    def position(self) -> HloValue:
        """Return the position of the device that runs the program, u32[]."""
        return self.op("stablehlo.replica_id", out=Type((), uint32))

    def by_position(self, numbers: Sequence[int], dtype: DType = int64) -> HloValue:
        """Select from numbers, one for each position, that of the device that runs the program."""
        table = self.constant(np.array(numbers), dtype)
        start, one = self.convert(self.position(), int32), Type((1,), dtype)
        found = self.op("stablehlo.dynamic_slice", table, start, out=one, slice_sizes=(1,))
        return self.reshape(found, ())

    @property
    def has_ballast(self) -> bool:
        return self.apart and self.communicates

    def ballast(self) -> HloValue:
        """Return an extra result that takes some work.

        XLA's CPU client runs programs of less than 1,000 operations in the thread that starts them,
        which would then wait for the other processes.
        """
        here = self.convert(self.position(), float32)
        row = self.broadcast(here, (2048,))
        row = self.op("stablehlo.multiply", row, self.iota((2048,), float32, 0), out=row.type)
        return self.reduce("add", row, 0, (0,))

    def _parts_reduced(self, x: HloValue, dim: int, n: int, kind: str) -> HloValue:
        """Reduce `n` parts that are concatenated along `dim`."""
        shape = (*x.shape[:dim], n, x.shape[dim] // n, *x.shape[dim + 1 :])
        start = ~np.zeros((), x.dtype.numpy) if kind == "and" else kind == "multiply"
        return self.reduce(kind, self.reshape(x, shape), start, (dim,))

    def _exchange(
        self, name: str, xs: Sequence[HloValue], groups: Groups, outs: Sequence[Type], **rest: Any
    ) -> Sequence[HloValue]:
        self.communicates, table = True, _collective_groups(groups)
        return self.op(f"stablehlo.{name}", *xs, out=tuple(outs), replica_groups=table, **rest)


def _collective_groups(rows: Sequence[Sequence[int]]) -> str:
    text = ", ".join(f"[{', '.join(map(str, row))}]" for row in rows)
    return f"dense<[{text}]> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _scaled_hlo_collective_type(type: Type, dim: int, times: int, over: int) -> Type:
    shape = list(type.shape)
    shape[dim] = shape[dim] * times // over
    return Type(shape, type.dtype)


# Transports (threads, Gloo, NCCL) differ in the reductions and dtypes that they support. Only what
# all of them support is used.


def _hlo_collective_needs_gathering(dtype: DType, kind: str) -> bool:
    """Whether a transport lacks a reduction: then parts are gathered and reduced locally."""
    return (dtype.is_complex and kind == "multiply") or (dtype.is_integer and kind in ("and", "or"))


def _encode_for_collective(b: BuilderProtocol, x: HloValue, kind: str) -> tuple[HloValue, str]:
    """Return the operand in a supported dtype, and its reduction."""
    if x.dtype is bool_:
        return b.convert(x, uint8), {"and": "minimum", "or": "maximum"}.get(kind, kind)
    if x.dtype.is_integer:
        return b.convert(x, _WIDER.get(x.dtype, x.dtype)), kind
    if x.dtype.is_float and kind in ("maximum", "minimum"):
        return _ordered_collective(b, x, kind), kind
    return x, kind


def _decode_from_collective(b: BuilderProtocol, y: HloValue, dtype: DType, kind: str) -> HloValue:
    if dtype.is_float and y.dtype is not dtype:
        wide = float64 if dtype is float64 else float32
        y = b.op("stablehlo.bitcast_convert", _flip_collective_key(b, y), out=Type(y.shape, wide))
    return b.convert(y, dtype)


def _ordered_collective(b: BuilderProtocol, x: HloValue, kind: str) -> HloValue:
    """Return floats as integers of the same order; NaN wins, about which transports disagree."""
    x = b.convert(x, float64 if x.dtype is float64 else float32)
    code = int64 if x.dtype is float64 else int32
    key = _flip_collective_key(b, b.op("stablehlo.bitcast_convert", x, out=Type(x.shape, code)))
    limits = np.iinfo(code.numpy)
    wins = b.full(key.type, limits.max if kind == "maximum" else limits.min)
    return b.select(b.compare("NE", x, x), wins, key)


def _flip_collective_key(b: BuilderProtocol, key: HloValue) -> HloValue:
    """Reverse the order of negative floats, whose bits descend; an involution."""
    mask = b.full(key.type, np.iinfo(key.dtype.numpy).max)
    flipped = b.op("stablehlo.xor", key, mask, out=key.type)
    return b.select(b.compare("LT", key, b.full(key.type, 0)), flipped, key)
