"""Python numbers with unknown values: arguments of a function that is being traced.

Like a Python number, one has no dtype and takes that of the tensor it is combined with. Arithmetic
between them is in 64 bits.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from pullback.errors import HostReadError
from pullback.graph.dtypes import DType, complex64, complex128, float64, int64
from pullback.graph.node import Node
from pullback.lazy.record import record_node, wrap
from pullback.lazy.settings import current
from pullback.ops.elementwise.cast import Cast

_NODES: weakref.WeakSet[Node] = weakref.WeakSet()  # of all unknown numbers


class TracedNumber:
    """An unknown number: `node` holds it in 64 bits, `given` is its own dtype, if it has one."""

    __slots__ = ("given", "node")
    __array_priority__ = 900  # NumPy scalars defer to its operators
    __array_ufunc__ = None
    kind: ClassVar[type]
    dtype: ClassVar[DType]

    def __init__(self, node: Node, given: DType | None = None) -> None:
        self.node, self.given = node, given
        _NODES.add(node)

    def cast(self, dtype: DType) -> Node:
        """Return the number as a node of a dtype."""
        if dtype is self.node.type.dtype:
            return self.node
        return record_node(Cast(dtype), self.node)

    def strong(self) -> DType:
        """Return the dtype of a tensor made from it."""
        if self.given is not None:
            return self.given
        default = current().default_dtype
        if self.kind is complex:
            return complex128 if default is float64 else complex64
        return default if self.kind is float else int64

    def _wide(self, dtype: DType) -> Any:
        return wrap(self.cast(dtype))

    def _with(self, other: Any, f: Callable, swap: bool = False) -> Any:
        """Apply `f` to both in 64 bits; the result is of the wider kind."""
        if isinstance(other, np.generic):
            other = other.item()
        kind = other.kind if isinstance(other, TracedNumber) else type(other)
        if kind not in _ORDER:
            return NotImplemented
        rank = max(_ORDER[self.kind], _ORDER[kind])
        if f in _INEXACT and not (f is operator.pow and type(other) is int and other >= 0):
            rank = max(rank, _ORDER[float])
        dtype = _KINDS[rank].dtype
        x = self._wide(dtype)
        y = other._wide(dtype) if isinstance(other, TracedNumber) else other
        return traced_number(f(y, x) if swap else f(x, y))

    def __neg__(self) -> Any:
        return traced_number(-self._wide(self.dtype))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return traced_number(abs(self._wide(self.dtype)))

    def _unknown(self) -> NoReturn:
        raise HostReadError(
            f"the value of a number was read ({self.kind.__name__}), but the function is being "
            "traced: it runs once for all values of its arguments",
            hint="Name the argument in static_argnums or static_argnames: the function is then "
            "traced\nagain for each of its values. Or choose with pb.where or pb.cond.",
        )

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __round__ = _unknown  # type: ignore
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<unknown {self.kind.__name__}>"

    def __format__(self, spec: str) -> str:
        return repr(self)  # formats for numbers do not apply


class TracedInt(TracedNumber):
    __slots__ = ()
    kind, dtype = int, int64


class TracedFloat(TracedNumber):
    __slots__ = ()
    kind, dtype = float, float64


class TracedComplex(TracedNumber):
    __slots__ = ()
    kind, dtype = complex, complex128


_ORDER = {bool: 0, int: 0, float: 1, complex: 2}
_KINDS = (TracedInt, TracedFloat, TracedComplex)
_INEXACT = (operator.truediv, operator.pow)  # give floats for integers


def unknown_traced_number(kind: type, node: Node, given: DType | None = None) -> TracedNumber:
    return _KINDS[_ORDER[kind]](node, given)


def is_traced_number(node: Node) -> bool:
    """Whether a node holds an unknown number, whose 64 bits are not a dtype that a user chose."""
    return node in _NODES


def traced_number(x: Any) -> Any:
    """Return a 64-bit result as an unknown number; the result of a comparison stays a tensor."""
    for kind in _KINDS:
        if x.dtype is kind.dtype:
            return kind(x._node)
    return x


def _traced_number_operator(f: Callable, swap: bool = False) -> Any:
    def apply(self: TracedNumber, other: Any) -> Any:
        return self._with(other, f, swap)

    apply.__name__ = f.__name__
    return apply


for _f in (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow,
):  # fmt: skip
    _name = _f.__name__.strip("_")
    setattr(TracedNumber, f"__{_name}__", _traced_number_operator(_f))
    setattr(TracedNumber, f"__r{_name}__", _traced_number_operator(_f, swap=True))
for _f in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
    setattr(TracedNumber, f"__{_f.__name__.strip('_')}__", _traced_number_operator(_f))
