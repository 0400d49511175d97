"""Methods of Tensor: each is the public function of the same name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pullback.errors import ShapeError

if TYPE_CHECKING:
    from pullback.lazy.indexing import At
    from pullback.lazy.tensor import Tensor


@cache
def _functions() -> Any:
    """The public functions, which themselves need Tensor."""
    from pullback import functions

    return functions


def _elementwise(name: str) -> Any:
    """A method without arguments."""

    def method(self: Any) -> Tensor:
        return getattr(_functions(), name)(self)

    method.__name__ = name
    method.__doc__ = f"The same as `pb.{name}(x)`."
    return method


class Methods:
    """What can be written as `x.f(...)` as well as `pb.f(x, ...)`."""

    __slots__ = ()

    abs = _elementwise("abs")
    ceil = _elementwise("ceil")
    conj = _elementwise("conj")
    cos = _elementwise("cos")
    erf = _elementwise("erf")
    exp = _elementwise("exp")
    floor = _elementwise("floor")
    isfinite = _elementwise("isfinite")
    isinf = _elementwise("isinf")
    isnan = _elementwise("isnan")
    log = _elementwise("log")
    log1p = _elementwise("log1p")
    nonzero = _elementwise("nonzero")
    reciprocal = _elementwise("reciprocal")
    relu = _elementwise("relu")
    round = _elementwise("round")
    rsqrt = _elementwise("rsqrt")
    sigmoid = _elementwise("sigmoid")
    sign = _elementwise("sign")
    sin = _elementwise("sin")
    sqrt = _elementwise("sqrt")
    square = _elementwise("square")
    tanh = _elementwise("tanh")
    trunc = _elementwise("trunc")
    flatten = _elementwise("flatten")
    ravel = _elementwise("flatten")
    copy = _elementwise("positive")

    # -- on a mesh of devices ----------------------------------------------------------------

    def shard(self, mesh: Any, spec: Any = None) -> Tensor:
        return _functions().shard(self, mesh, spec)

    # -- element types -----------------------------------------------------------------------

    def astype(self, dtype: Any) -> Tensor:
        return _functions().astype(self, dtype)

    @property
    def real(self) -> Tensor:
        return _functions().real(self)

    @property
    def imag(self) -> Tensor:
        return _functions().imag(self)

    # -- reductions --------------------------------------------------------------------------

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().mean(self, axis, keepdims)

    def var(self, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        return _functions().var(self, axis, correction, keepdims)

    def std(self, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        return _functions().std(self, axis, correction, keepdims)

    def norm(self, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
        return _functions().norm(self, axis, keepdims, ord)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().max(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().min(self, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().any(self, axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().all(self, axis, keepdims)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().argmax(self, axis, keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().argmin(self, axis, keepdims)

    def logsumexp(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return _functions().logsumexp(self, axis, keepdims)

    def softmax(self, axis: Any = -1) -> Tensor:
        return _functions().softmax(self, axis)

    def log_softmax(self, axis: Any = -1) -> Tensor:
        return _functions().log_softmax(self, axis)

    # -- scans and order ---------------------------------------------------------------------

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Tensor:
        return _functions().cumulative_sum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Tensor:
        return _functions().cumulative_prod(self, axis, dtype)

    def sort(self, axis: int = -1, descending: bool = False) -> Tensor:
        return _functions().sort(self, axis, descending)

    def argsort(self, axis: int = -1, descending: bool = False) -> Tensor:
        return _functions().argsort(self, axis, descending)

    # -- arrangement -------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        """In another shape, given as a tuple or as several ints."""
        return _functions().reshape(self, _one_or_many(shape))

    def transpose(self, *axes: Any) -> Tensor:
        """The dimensions reversed, or in the order given."""
        return _functions().transpose(self, _one_or_many(axes) if axes else None)

    def permute(self, *axes: Any) -> Tensor:
        """The dimensions in the order given."""
        return _functions().permute_dims(self, _one_or_many(axes))

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        if self._node.type.rank != 2:  # type: ignore[attr-defined]
            raise ShapeError(
                f"T: needs rank 2, got {self._node.type}",  # type: ignore[attr-defined]
                code="E3002",
                hint="Use .mT for the last two dimensions, or .transpose() to reverse all.",
            )  # fmt: skip
        return _functions().matrix_transpose(self)

    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped."""
        return _functions().matrix_transpose(self)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        return _functions().swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Tensor:
        return _functions().squeeze(self, axis)

    def expand_dims(self, axis: Any = 0) -> Tensor:
        return _functions().expand_dims(self, axis)

    def broadcast_to(self, *shape: Any) -> Tensor:
        return _functions().broadcast_to(self, _one_or_many(shape))

    def flip(self, axis: Any = None) -> Tensor:
        return _functions().flip(self, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        return _functions().repeat(self, repeats, axis)

    def diagonal(self, offset: int = 0) -> Tensor:
        return _functions().diagonal(self, offset)

    # -- elements ----------------------------------------------------------------------------

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        return _functions().clip(self, min, max)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        return _functions().take(self, indices, axis)

    @property
    def at(self) -> At:
        """Updates that make a new tensor: `x.at[index].set(value)`, `.add`, `.multiply`, `.min`,
        `.max`; and `.get()`."""
        from pullback.lazy.indexing import At

        return At(self)  # type: ignore[arg-type]

    def dot(self, other: Any) -> Tensor:
        return _functions().matmul(self, other)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        import pullback

        return pullback


def _one_or_many(values: tuple) -> Any:
    """`f((2, 3))` and `f(2, 3)` mean the same."""
    return values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values
