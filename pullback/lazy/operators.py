"""Python's operators on tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, PullbackError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import handles_boundary_errors, leave_boundary
from pullback.graph.dtypes import (
    ALL,
    DType,
    complex64,
    complex128,
    float32,
    float64,
    int64,
    promote_dtypes,
)
from pullback.graph.native import bind_native
from pullback.graph.node import Node
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.lazy.hooks import hooks
from pullback.lazy.numpy_precision import (
    WIDE,
    mark_number_precision,
    numbers_of_user,
    warn_of_widening,
)
from pullback.lazy.record import record, record_gradient_leaf
from pullback.lazy.settings import current
from pullback.lazy.traced_number import TracedComplex, TracedFloat, TracedInt, TracedNumber
from pullback.lazy.weak_compare import FLIPPED, beyond_weak_limits, weak_limits
from pullback.ops.sources import SCALAR, pack_source_bits

if TYPE_CHECKING:
    from pullback.graph.derivative_tokens import LeafDerivativeToken
    from pullback.lazy.tensor import Tensor
    from pullback.ops.op import Op
    from pullback.typing import ArrayLike, Index

NUMBERS = (bool, int, float, complex)
_SCALAR_TYPE = {d: Type((), d) for d in ALL}
_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_NUMBER_RANK: dict[type, int] = {
    bool: 0, int: 1, float: 2, complex: 3, TracedInt: 1, TracedFloat: 2, TracedComplex: 3,
}  # fmt: skip


def node_of(x: Tensor) -> Node:
    """Return the node of a tensor, with its token if it requires a gradient."""
    return x._node if x._token is None else record_gradient_leaf(x)


def scalar_operator_operand(value: Any, dtype: DType) -> Node:
    """A number of the user: an input of the program that uses it, not a constant."""
    if type(value) is int and dtype.is_integer:
        low, high = weak_limits(dtype)
        if not low <= value <= high:
            raise DTypeError(f"{value} does not fit into {dtype}")
    try:
        bits = pack_source_bits(value, dtype)
    except OverflowError:
        digits = len(str(abs(value)))
        raise DTypeError(f"an integer of {digits} digits does not fit into {dtype}") from None
    return Node(SCALAR, (), _SCALAR_TYPE[dtype], None, (), "", bits)


def weak_operator_operand(value: Any, dtype: DType) -> Node:
    """A Python number or a traced number in the dtype of the tensor it is combined with."""
    return (
        value.cast(dtype)
        if isinstance(value, TracedNumber)
        else scalar_operator_operand(value, dtype)
    )


def scalar_operator_dtype(value: Any, dtype: DType) -> DType:
    """The dtype of a tensor with a number, which takes the tensor's unless of a higher kind."""
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


def operator_number(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def cast_node(x: Node, dtype: DType) -> Node:
    """Convert a node to a dtype."""
    return x if x.type.dtype is dtype else cast_tensor(x, dtype)._node


def cast_tensor(x: Node, dtype: DType) -> Tensor:
    """Convert a node to another dtype; numbers of the user are read again, with all digits."""
    if dtype in WIDE and (exact := numbers_of_user.get(x)) is not None:
        return hooks.asarray(exact, dtype)
    return record(TABLE["Cast"](dtype), (x,))


def operator_operands(*values: Any) -> list[Node]:
    """Return the operands of one operation as nodes of the same dtype."""
    nodes: list[Any] = []
    dtype = None
    for value in values:
        value = operator_number(value)
        if type(value) in NUMBERS or isinstance(value, TracedNumber):
            nodes.append(value)
            continue
        node = node_of(as_tensor(value))
        dtype = node.type.dtype if dtype is None else promote_dtypes(dtype, node.type.dtype)
        nodes.append(node)
    if dtype is None:
        nodes[0] = node_of(as_tensor(nodes[0]))
        dtype = nodes[0].type.dtype
    for value in nodes:
        if not isinstance(value, Node):
            dtype = scalar_operator_dtype(value, dtype)
    if dtype in WIDE:
        warn_of_widening(nodes, dtype)
    return [
        cast_node(n, dtype) if isinstance(n, Node) else weak_operator_operand(n, dtype)
        for n in nodes
    ]


def as_tensor(value: ArrayLike | TracedNumber) -> Tensor:
    """Return `value` as a tensor; a tensor is returned as it is."""
    if isinstance(value, Operators):
        return value  # type: ignore[return-value]  # Tensor is the only subclass
    made = hooks.asarray(value)
    if isinstance(value, (list, tuple, float, complex)):
        mark_number_precision(made._node, value)
    return made


def binary_operator(op: Op, x: Tensor, y: object, swap: bool = False) -> Any:
    """Record `x op y`, or return `NotImplemented` for foreign objects; the hot cases come first."""
    a = x._node if x._token is None else record_gradient_leaf(x)
    if isinstance(y, Operators):
        b = y._node if y._token is None else record_gradient_leaf(y)  # type: ignore[arg-type]
        if a.type.dtype is not b.type.dtype:
            dtype = promote_dtypes(a.type.dtype, b.type.dtype)
            if dtype in WIDE:
                warn_of_widening((a, b), dtype)
            a, b = cast_node(a, dtype), cast_node(b, dtype)
    else:
        if type(y) not in NUMBERS:
            y = operator_number(y)
        if type(y) in NUMBERS:
            dtype = scalar_operator_dtype(y, a.type.dtype)
            if a.type.dtype is not dtype:
                a = cast_node(a, dtype)
            b = scalar_operator_operand(y, dtype)
        elif isinstance(y, (np.ndarray, list, tuple)):
            a, b = operator_operands(x, y)
        elif isinstance(y, TracedNumber):
            dtype = scalar_operator_dtype(y, a.type.dtype)
            a, b = cast_node(a, dtype), y.cast(dtype)
        else:
            return _leave_to_foreign_operator(op, y)
    return record(op, (b, a) if swap else (a, b))


def _has_foreign_operator(y: object) -> bool:
    """Whether the class of an operand may itself know how to combine it with a tensor."""
    ours = (Operators, np.ndarray, np.generic, TracedNumber)
    return not isinstance(y, ours) and type(y).__module__ != "builtins"


def _leave_to_foreign_operator(op: Op, y: object) -> Any:
    """Leave an operation to the class of the other operand, unless that is one of Python's."""
    if _has_foreign_operator(y) or op.title in ("equal", "not_equal"):
        return NotImplemented
    raise ArgumentError(f"needs tensors or numbers, got {shown_argument(y)}", op=op.title)


Operator = Callable[["Operators", "ArrayLike"], "Tensor"]


def _make_operator(symbol: str, name: str, swap: bool = False) -> Operator:
    """An operator that applies one op; comparisons take integers of any size."""
    op: Any = None
    compares = name in FLIPPED

    def apply(self: Any, other: Any) -> Any:
        nonlocal op
        if op is None:
            op = TABLE[name]()
        if compares and not isinstance(other, Operators):
            result = beyond_weak_limits(name, node_of(self), operator_number(other))
            if result is not None:
                return result
        try:
            return binary_operator(op, self, other, swap)
        except BaseException as error:
            leave_operator(error, symbol, op.title)
            raise

    return handles_boundary_errors(apply)


def _unary_operator(symbol: str, name: str) -> Callable[[Operators], Tensor]:
    op: Any = None

    def apply(self: Any) -> Tensor:
        nonlocal op
        if op is None:
            op = TABLE[name]()
        try:
            return record(op, (self._node if self._token is None else record_gradient_leaf(self),))
        except BaseException as error:
            leave_operator(error, symbol, op.title)
            raise

    return handles_boundary_errors(apply)


def _function_operator(symbol: str, name: str, swap: bool = False) -> Operator:
    """An operator that is a public function."""

    def apply(self: Any, other: Any) -> Any:
        if _has_foreign_operator(other):
            return NotImplemented
        function = getattr(hooks.functions, name)
        try:
            return function(other, self) if swap else function(self, other)
        except BaseException as error:
            leave_operator(error, symbol, name)
            raise

    return handles_boundary_errors(apply)


def renamed_for_operator(error: PullbackError, name: str, *titles: str) -> PullbackError:
    """The error with the name or symbol that the user wrote instead of the op's title."""
    if error.op in titles:
        error.op = name
    return error


def leave_operator(error: BaseException, name: str, *titles: str) -> None:
    """Like `leave`, for an error that shows what the user wrote instead of the op's title."""
    if isinstance(error, PullbackError):
        renamed_for_operator(error, name, *titles)
    leave_boundary(error)


def _augmented_operator(symbol: str, function: Callable[[Any, Any], Any]) -> Operator:
    """An operator that rebinds the handle to the result of another operator."""

    def update(self: Any, other: Any) -> Any:
        try:
            return self._update(function(self, other), symbol)
        except BaseException as error:
            leave_boundary(error)
            raise

    return handles_boundary_errors(update)


class Operators:
    """The operators of Tensor."""

    __slots__ = ()
    _node: Node
    _token: LeafDerivativeToken | None

    __add__ = _make_operator("+", "Add")
    __radd__ = _make_operator("+", "Add", swap=True)
    __sub__ = _make_operator("-", "Sub")
    __rsub__ = _make_operator("-", "Sub", swap=True)
    __mul__ = _make_operator("*", "Mul")
    __rmul__ = _make_operator("*", "Mul", swap=True)
    __eq__ = _make_operator("==", "Equal")  # type: ignore[assignment]
    __ne__ = _make_operator("!=", "NotEqual")  # type: ignore[assignment]
    __lt__ = _make_operator("<", "Less")
    __le__ = _make_operator("<=", "LessEqual")
    __gt__ = _make_operator(">", "Greater")
    __ge__ = _make_operator(">=", "GreaterEqual")
    __and__ = _make_operator("&", "BitwiseAnd")
    __rand__ = _make_operator("&", "BitwiseAnd", swap=True)
    __or__ = _make_operator("|", "BitwiseOr")
    __ror__ = _make_operator("|", "BitwiseOr", swap=True)
    __xor__ = _make_operator("^", "BitwiseXor")
    __rxor__ = _make_operator("^", "BitwiseXor", swap=True)
    __lshift__ = _make_operator("<<", "ShiftLeft")
    __rlshift__ = _make_operator("<<", "ShiftLeft", swap=True)
    __rshift__ = _make_operator(">>", "ShiftRight")
    __rrshift__ = _make_operator(">>", "ShiftRight", swap=True)
    __mod__ = _make_operator("%", "Mod")
    __rmod__ = _make_operator("%", "Mod", swap=True)
    __floordiv__ = _make_operator("//", "FloorDiv")
    __rfloordiv__ = _make_operator("//", "FloorDiv", swap=True)

    __pow__ = _function_operator("**", "pow")
    __rpow__ = _function_operator("**", "pow", swap=True)
    __divmod__ = _function_operator("divmod", "divmod")
    __rdivmod__ = _function_operator("divmod", "divmod", swap=True)
    __matmul__ = _function_operator("matmul", "matmul")
    __rmatmul__ = _function_operator("matmul", "matmul", swap=True)

    @handles_boundary_errors
    def __truediv__(self, other: ArrayLike) -> Tensor:
        try:
            return _divide_operator(self, other)
        except BaseException as error:
            leave_operator(error, "/", "div")
            raise

    @handles_boundary_errors
    def __rtruediv__(self, other: ArrayLike) -> Tensor:
        try:
            return _divide_operator(self, other, swap=True)
        except BaseException as error:
            leave_operator(error, "/", "div")
            raise

    def __pos__(self) -> Tensor:
        return hooks.functions.positive(self)

    __neg__ = _unary_operator("-", "Neg")
    __abs__ = _unary_operator("abs", "Abs")
    __invert__ = _unary_operator("~", "BitwiseNot")

    # In place: the handle is bound to the new value. There are no views, so nothing else changes.
    __iadd__ = _augmented_operator("+=", operator.add)
    __isub__ = _augmented_operator("-=", operator.sub)
    __imul__ = _augmented_operator("*=", operator.mul)
    __itruediv__ = _augmented_operator("/=", operator.truediv)
    __ifloordiv__ = _augmented_operator("//=", operator.floordiv)
    __imod__ = _augmented_operator("%=", operator.mod)
    __ipow__ = _augmented_operator("**=", operator.pow)
    __imatmul__ = _augmented_operator("@=", operator.matmul)
    __iand__ = _augmented_operator("&=", operator.and_)
    __ior__ = _augmented_operator("|=", operator.or_)
    __ixor__ = _augmented_operator("^=", operator.xor)
    __ilshift__ = _augmented_operator("<<=", operator.lshift)
    __irshift__ = _augmented_operator(">>=", operator.rshift)

    def _update(self, new: Tensor, symbol: str) -> Tensor:
        type = self._node.type
        if new.dtype is not type.dtype and _augmented_operator_casts(new.dtype, type.dtype):
            new = new.astype(type.dtype)
        if new.shape != type.shape or new.dtype is not type.dtype:
            what = f"{symbol}: the result is {new._node.type}, but the tensor is {type}"
            hint = "Write it as `x = x + ...` to get a tensor of the new type."
            raise ArgumentError(what, hint=hint)
        return self._rebind(new._node, symbol)  # type: ignore[attr-defined]

    def __contains__(self, value: ArrayLike) -> bool:
        return bool((self == value).any())

    @handles_boundary_errors
    def __getitem__(self, index: Index) -> Tensor:
        try:
            return hooks.indexing.get_indexed(self, index)
        except BaseException as error:
            leave_boundary(error)
            raise

    @handles_boundary_errors
    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        try:
            self._rebind(hooks.indexing.updated_by_indexing(self, index, value)._node, "x[...] = ")  # type: ignore[attr-defined]
        except BaseException as error:
            leave_boundary(error)
            raise


bind_native(
    operators=Operators, float32=float32, float64=float64, f32=_SCALAR_TYPE[float32],
    f64=_SCALAR_TYPE[float64],
)  # fmt: skip


def _augmented_operator_casts(source: DType, target: DType) -> bool:
    """Whether `x += y` converts its result: as in NumPy, to the same or a higher kind."""
    return "buifc".index(source.kind) <= "buifc".index(target.kind)


def _divide_operator(x: Any, y: Any, swap: bool = False) -> Tensor:
    """True division: integers are converted to floats first."""
    if isinstance(y, (np.ndarray, list, tuple)):
        y = as_tensor(y)
    if not x._node.type.dtype.is_inexact:
        dtype = current().default_dtype
        if isinstance(y, Operators) and y._node.type.dtype.is_inexact:
            dtype = y._node.type.dtype
        x = x.astype(dtype)
    if isinstance(y, Operators) and not y._node.type.dtype.is_inexact:
        y = hooks.functions.astype(y, x._node.type.dtype)
    return binary_operator(TABLE["Div"](), x, y, swap)
