"""Python's operators on tensors."""

from __future__ import annotations

import operator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.graph.dtypes import ALL, DType, complex64, complex128, float64, int64, promote
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.graph.types import Type
from pullback.lazy.record import record, root
from pullback.lazy.settings import current
from pullback.lazy.traced_number import Unknown, UnknownComplex, UnknownFloat, UnknownInt
from pullback.lazy.weak_compare import FLIPPED, beyond, limits
from pullback.ops.sources import SCALAR, pack_bits

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor

NUMBERS = (bool, int, float, complex)
_SCALAR_TYPE = {d: Type((), d) for d in ALL}
_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_NUMBER_RANK: dict[type, int] = {
    bool: 0, int: 1, float: 2, complex: 3, UnknownInt: 1, UnknownFloat: 2, UnknownComplex: 3,
}  # fmt: skip


def node_of(x: Tensor) -> Node:
    return x._node if x._token is None else root(x)


def scalar(value: Any, dtype: DType) -> Node:
    """A number that the user wrote: an input of the program it is used in."""
    if dtype.is_integer and type(value) is int:
        low, high = limits(dtype)
        if not low <= value <= high:
            raise DTypeError(f"{value} does not fit into {dtype}")
    try:
        bits = pack_bits(value, dtype)
    except OverflowError:
        digits = len(str(abs(value)))
        raise DTypeError(f"an integer of {digits} digits does not fit into {dtype}") from None
    return Node(SCALAR, (), _SCALAR_TYPE[dtype], None, (), False, bits)


def weak(value: Any, dtype: DType) -> Node:
    """A number in the element type of what it meets, whether its value is known or not."""
    return value.cast(dtype) if isinstance(value, Unknown) else scalar(value, dtype)


def scalar_dtype(value: Any, dtype: DType) -> DType:
    """The element type of a tensor of `dtype` combined with a Python number.

    A number has no type of its own: it takes the tensor's, unless it is of a higher kind.
    """
    wanted = _NUMBER_RANK[type(value)]
    if wanted <= _RANK[dtype.kind]:
        return dtype
    if wanted == 1:
        return int64
    if wanted == 2:
        return current().default_dtype
    if dtype.is_float:
        return complex128 if dtype is float64 else complex64
    return complex128 if current().default_dtype is float64 else complex64


def number(value: Any) -> Any:
    """A Python number, also from a NumPy scalar; anything else is returned as it is."""
    return value.item() if isinstance(value, np.generic) else value


def cast_node(x: Node, dtype: DType) -> Node:
    if x.type.dtype is dtype:
        return x
    return record(TABLE["Cast"](dtype), (x,))._node


def operands(*values: Any) -> list[Node]:
    """Values of one operation as nodes of one element type; at least one is an array."""
    nodes: list[Any] = []
    dtype = None
    for value in values:
        value = number(value)
        if type(value) in NUMBERS or isinstance(value, Unknown):
            nodes.append(value)
            continue
        node = node_of(as_tensor(value))
        dtype = node.type.dtype if dtype is None else promote(dtype, node.type.dtype)
        nodes.append(node)
    if dtype is None:
        nodes[0] = node_of(as_tensor(nodes[0]))
        dtype = nodes[0].type.dtype
    for value in nodes:
        if not isinstance(value, Node):
            dtype = scalar_dtype(value, dtype)
    return [cast_node(n, dtype) if isinstance(n, Node) else weak(n, dtype) for n in nodes]


def as_tensor(value: Any) -> Tensor:
    if isinstance(value, Operators):
        return value  # type: ignore[return-value]
    from pullback.lazy.host_data import asarray

    return asarray(value)


@cache
def _functions() -> Any:
    """The public functions, which are defined in terms of the operators."""
    from pullback import functions

    return functions


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Operators)


def binary(op: Any, x: Tensor, y: Any, swap: bool = False) -> Any:
    """x op y for operators: the common cases first, `NotImplemented` for foreign objects."""
    a = x._node if x._token is None else root(x)
    if isinstance(y, Operators):
        b = y._node if y._token is None else root(y)  # type: ignore[attr-defined, arg-type]
        if a.type.dtype is not b.type.dtype:
            dtype = promote(a.type.dtype, b.type.dtype)
            a, b = cast_node(a, dtype), cast_node(b, dtype)
    else:
        if type(y) not in NUMBERS:
            y = number(y)
        if type(y) in NUMBERS:
            dtype = scalar_dtype(y, a.type.dtype)
            a, b = cast_node(a, dtype), scalar(y, dtype)
        elif isinstance(y, (np.ndarray, list, tuple)):
            a, b = operands(x, y)
        elif isinstance(y, Unknown):
            dtype = scalar_dtype(y, a.type.dtype)
            a, b = cast_node(a, dtype), y.cast(dtype)
        else:
            return NotImplemented
    return record(op, (b, a) if swap else (a, b))


def _arithmetic(name: str, swap: bool = False) -> Any:
    """An operator that is one op of the table; comparisons take integers of any size."""
    op: Any = None
    compares = name in FLIPPED

    def apply(self: Any, other: Any) -> Any:
        nonlocal op
        if op is None:
            op = TABLE[name]()
        if compares and not isinstance(other, Operators):
            made = beyond(name, node_of(self), number(other))
            if made is not None:
                return made
        return binary(op, self, other, swap)

    apply.__name__ = name.lower()
    return apply


def _in_place(symbol: str, function: Any) -> Any:
    """An operator that binds the handle to the result of another one."""

    def update(self: Any, other: Any) -> Any:
        return self._update(function(self, other), symbol)

    update.__name__ = f"in_place_{function.__name__}"
    return update


class Operators:
    """Every operator of Tensor."""

    __slots__ = ()
    _node: Node
    _token: Any

    __add__ = _arithmetic("Add")
    __radd__ = _arithmetic("Add", swap=True)
    __sub__ = _arithmetic("Sub")
    __rsub__ = _arithmetic("Sub", swap=True)
    __mul__ = _arithmetic("Mul")
    __rmul__ = _arithmetic("Mul", swap=True)
    __eq__ = _arithmetic("Equal")
    __ne__ = _arithmetic("NotEqual")
    __lt__ = _arithmetic("Less")
    __le__ = _arithmetic("LessEqual")
    __gt__ = _arithmetic("Greater")
    __ge__ = _arithmetic("GreaterEqual")
    __and__ = _arithmetic("BitwiseAnd")
    __rand__ = _arithmetic("BitwiseAnd", swap=True)
    __or__ = _arithmetic("BitwiseOr")
    __ror__ = _arithmetic("BitwiseOr", swap=True)
    __xor__ = _arithmetic("BitwiseXor")
    __rxor__ = _arithmetic("BitwiseXor", swap=True)
    __lshift__ = _arithmetic("ShiftLeft")
    __rlshift__ = _arithmetic("ShiftLeft", swap=True)
    __rshift__ = _arithmetic("ShiftRight")
    __rrshift__ = _arithmetic("ShiftRight", swap=True)
    __mod__ = _arithmetic("Mod")
    __rmod__ = _arithmetic("Mod", swap=True)
    __floordiv__ = _arithmetic("FloorDiv")
    __rfloordiv__ = _arithmetic("FloorDiv", swap=True)

    def __truediv__(self, other: Any) -> Any:
        return _divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _divide(self, other, swap=True)

    def __pow__(self, other: Any) -> Any:
        return _functions().pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _functions().pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return _functions().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _functions().matmul(other, self)

    def __neg__(self) -> Any:
        return record(TABLE["Neg"](), (node_of(self),))  # type: ignore[arg-type]

    def __pos__(self) -> Any:
        return _functions().positive(self)

    def __abs__(self) -> Any:
        return record(TABLE["Abs"](), (node_of(self),))  # type: ignore[arg-type]

    def __invert__(self) -> Any:
        return record(TABLE["BitwiseNot"](), (node_of(self),))  # type: ignore[arg-type]

    # In place: the handle is bound to the new value; there are no views, so no one else sees it.
    __iadd__ = _in_place("+=", operator.add)
    __isub__ = _in_place("-=", operator.sub)
    __imul__ = _in_place("*=", operator.mul)
    __itruediv__ = _in_place("/=", operator.truediv)
    __ifloordiv__ = _in_place("//=", operator.floordiv)
    __imod__ = _in_place("%=", operator.mod)
    __ipow__ = _in_place("**=", operator.pow)
    __imatmul__ = _in_place("@=", operator.matmul)
    __iand__ = _in_place("&=", operator.and_)
    __ior__ = _in_place("|=", operator.or_)
    __ixor__ = _in_place("^=", operator.xor)

    def _update(self, new: Any, what: str) -> Any:
        if new.shape != self._node.type.shape or new.dtype is not self._node.type.dtype:
            raise ArgumentError(
                f"{what}: the result is {new._node.type}, but the tensor is {self._node.type}",
                hint="Write it as `x = x + ...` to get a tensor of the new type.",
            )
        return self._rebind(new._node, what)  # type: ignore[attr-defined]

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __getitem__(self, index: Any) -> Any:
        from pullback.lazy.indexing import get

        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        from pullback.lazy.indexing import updated

        self._rebind(updated(self, index, value)._node, "x[...] = ")  # type: ignore[attr-defined]


def _divide(x: Any, y: Any, swap: bool = False) -> Any:
    """True division: integers become floats first."""
    if isinstance(y, (np.ndarray, list, tuple)):
        y = as_tensor(y)
    if not x._node.type.dtype.is_inexact:
        dtype = current().default_dtype
        if _is_tensor(y) and y._node.type.dtype.is_inexact:
            dtype = y._node.type.dtype
        x = x.astype(dtype)
    if _is_tensor(y) and not y._node.type.dtype.is_inexact:
        y = y.astype(x._node.type.dtype)
    return binary(TABLE["Div"](), x, y, swap)


__all__ = ["Operators", "as_tensor", "cast_node", "node_of", "operands", "scalar"]
