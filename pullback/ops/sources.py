"""Ops without operands of their own: inputs, leaves, scalars, constants, and results of an op."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError, ShapeError, VerificationError
from pullback.graph import dtypes, op_kinds
from pullback.graph.dtypes import DType
from pullback.graph.native import bind_native, plain_values
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type, constant_node
from pullback.ops.text import UNWRITTEN


class SourceOp(Op, abstract=True):
    """A value that a program gets from outside: never written as an instruction."""

    differentiable = False
    text = UNWRITTEN


class Input(SourceOp, op_kinds.InputSourceKind):
    """An input of a program."""

    label: str
    shape: tuple[int, ...]
    dtype: DType

    def infer(self) -> Type:
        return Type(self.shape, self.dtype)

    @classmethod
    def of_type(cls, label: str, type: Type) -> Node:
        """Return a new input of a type, with its layout and the named axes it varies along."""
        made = cls(label, type.shape, type.dtype)()
        made.type = type
        return made


placeholder = Input.of_type


class Leaf(SourceOp, op_kinds.LeafSourceKind):
    """A tensor whose value is known; `Node.value` holds it. Programs see it as an input.

    `of` is the name of the op that computed it, if any; the inputs of that op are gone.
    """

    of: str = ""

    @property
    def title(self) -> str:
        return TABLE[self.of].title if self.of in TABLE else "leaf"

    @property
    def singular(self) -> bool:
        """That of the op that computed it: rules must not depend on when it was evaluated."""
        return getattr(TABLE.get(self.of), "singular", False)


class Scalar(SourceOp, op_kinds.ScalarSourceKind):
    """A Python number that the user wrote; a program gets all of them packed in one input."""


class Const(SourceOp, op_kinds.ConstSourceKind):
    """A constant; its data are bytes, so that constants compare bit by bit."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        expected = self.dtype.numpy.itemsize * int(np.prod(self.shape, dtype=np.int64))
        if len(self.data) != expected:
            what = f"constant data must be {expected} bytes for {self.dtype}{list(self.shape)}"
            raise VerificationError(f"{what}, got {len(self.data)}", code="E4005")

    @property
    def array(self) -> np.ndarray:
        return np.frombuffer(self.data, self.dtype.numpy).reshape(self.shape)

    def infer(self) -> Type:
        return Type(self.shape, self.dtype)

    def numpy(self) -> np.ndarray:
        return self.array

    def hlo(self, b: Any, out: Type) -> Any:
        return b.constant(self.array, self.dtype)

    @classmethod
    def samples(cls) -> Any:
        for dtype in dtypes.ALL:
            data = np.array([[1, 0, 3]]).astype(dtype.numpy)
            yield cls(dtype, data.shape, data.tobytes()), ()


class Unpack(Op, op_kinds.UnpackedScalarKind):
    """One of the packed scalars of a program (64-bit words; a complex128 takes two)."""

    word: int
    dtype: DType
    differentiable = False

    @property
    def words(self) -> range:
        """The positions of its words."""
        return range(self.word, self.word + (2 if self.dtype is dtypes.complex128 else 1))

    def infer(self, words: Type) -> Type:
        if words.dtype is not dtypes.uint64 or words.rank != 1:
            raise DTypeError(f"packed scalars must be u64[n], got {words}", code="E2005")
        if self.word < 0 or self.words.stop > words.shape[0]:
            raise ShapeError(f"word {self.word} is not in {words}", code="E6001", word=self.word)
        return Type((), self.dtype)

    def numpy(self, words: np.ndarray) -> np.ndarray:
        size = self.dtype.numpy.itemsize
        return np.frombuffer(words[self.word :].tobytes()[:size], self.dtype.numpy)[0]

    def hlo(self, b: Any, out: Type, words: Any) -> Any:
        if not self.dtype.is_complex:
            return self._word(b, words, self.word, self.dtype)
        parts = [self._word(b, words, *place) for place in self._parts()]
        return b.op("stablehlo.complex", *parts, out=out)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if self.dtype is dtypes.bool_:
            return TABLE["Cast"](self.dtype)(_source_words(xs[0], self.word, dtypes.uint64))
        if not self.dtype.is_complex:
            return _source_words(xs[0], self.word, self.dtype)
        return TABLE["Complex"]()(*[_source_words(xs[0], *place) for place in self._parts()])

    def _parts(self) -> tuple[tuple[int, DType, int], tuple[int, DType, int]]:
        """Return the word, dtype and shift of both parts; those of f32 are halves of one word."""
        part, wide = self.dtype.real, self.dtype is dtypes.complex128
        return (self.word, part, 0), (self.word + wide, part, 0 if wide else 32)

    @staticmethod
    def _word(b: Any, words: Any, index: int, dtype: DType, shift: int = 0) -> Any:
        """Return the low bits of word `index`, read as `dtype`. All words are converted at once,
        the first time that a dtype is needed."""
        vector = b.once(
            ("words", dtype, shift), lambda: _converted_source_words(b, words, dtype, shift)
        )
        return b.reshape(hlo_slice_instruction(b, vector, (index,), (index + 1,)), ())

    @classmethod
    def samples(cls) -> Any:
        words = np.array([0x3F80000040490FDB, 0x400921FB54442D18, 7], np.uint64)
        for dtype in dtypes.ALL:
            yield cls(1, dtype), (words,)


def _source_words(words: Node, index: int, dtype: DType, shift: int = 0) -> Node:
    """Return the low bits of word `index` of each example, after a shift, read as `dtype`."""
    n = words.type.shape[0]
    made = TABLE["Slice"]((0, index), (n, index + 1), (1, 1))(words)
    made = TABLE["Reshape"]((n,))(made)
    if shift:
        made = TABLE["ShiftRight"]()(made, constant_node(shift, words.type.dtype))
    return TABLE["Bitcast"](dtype)(TABLE["Cast"](dtypes.dtype(f"u{dtype.bits}"))(made))


def _converted_source_words(b: Any, words: Any, dtype: DType, shift: int) -> Any:
    """Return the words, after a shift, as a vector of `dtype`."""
    u64, unsigned = dtypes.uint64, dtypes.dtype(f"u{max(dtype.bits, 8)}")
    if shift:
        by = b.full(words.type, np.uint64(shift))
        words = b.op("stablehlo.shift_right_logical", words, by, out=words.type)
    if dtype is dtypes.bool_:
        return b.compare("NE", words, b.full(words.type, np.uint64(0)))
    narrow = words if unsigned is u64 else b.convert(words, unsigned)
    if unsigned is dtype:
        return narrow
    return b.op("stablehlo.bitcast_convert", narrow, out=narrow.type.with_dtype(dtype))


class Result(SourceOp, op_kinds.ResultSourceKind):
    """Result `index` of an op with several results; derivatives treat all of them as one."""

    index: int

    def infer(self, types: Any) -> Type:
        return types[self.index]


def pack_source_bits(value: Any, dtype: DType) -> tuple[int, ...]:
    """Return the 64-bit words that hold a scalar."""
    # the common cases, without NumPy
    if dtype is dtypes.float32 and type(value) in (float, int) and abs(value) < _EXACT[type(value)]:
        return _F32.unpack(_F32_FLOAT.pack(value))
    if dtype is dtypes.float64 and type(value) is float:
        return _F64.unpack(_F64_FLOAT.pack(value))
    if dtype.is_integer and type(value) is int and abs(value) < 1 << (dtype.bits - 1):
        return (value & ((1 << dtype.bits) - 1),)
    with np.errstate(all="ignore"):  # too large for a short float: infinity, as in an array
        data = np.asarray(value, dtype.numpy).tobytes()
    data += b"\0" * (-len(data) % 8)
    return tuple(np.frombuffer(data, np.uint64).tolist())


_F32, _F32_FLOAT = struct.Struct("<I"), struct.Struct("<f")
_F64, _F64_FLOAT = struct.Struct("<Q"), struct.Struct("<d")
_EXACT = {float: 1e38, int: 1 << 53}  # below this a number becomes an f32 in one rounding
LEAF, SCALAR = Leaf(), Scalar()
bind_native(leaf=LEAF, scalar=SCALAR, Input=Input)
plain_values(np.ndarray, tuple)  # the latter of numbers


def leaf_source(type: Type, value: Any, tokens: tuple = (), where: Any = None) -> Node:
    """Return the node of a known value."""
    return Node(LEAF, (), type, where, tokens, "", value)
