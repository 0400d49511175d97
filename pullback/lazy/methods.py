"""Methods of Tensor that are public functions, with the tensor as their first argument."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from pullback.errors import ArgumentError, AxisError, ShapeError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import boundary, boundary_methods, public
from pullback.lazy.hooks import hooks

if TYPE_CHECKING:
    from pullback import functions
    from pullback.lazy.indexing import AtIndexing
    from pullback.lazy.tensor import Tensor
    from pullback.typing import ArrayLike, DTypeLike, Shape


# The versions of the array API standard; each extends the one before
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class MethodFunctionName(str):
    """Stands for a public function until `bind`: the functions themselves need Tensor."""


class _MethodFunctionNames:
    def __getattr__(self, name: str) -> MethodFunctionName:
        return MethodFunctionName(name)


if not TYPE_CHECKING:
    functions = _MethodFunctionNames()


@boundary_methods
class Methods:
    """Everything that can be written as `x.f(...)` as well as `pb.f(x, ...)`."""

    __slots__ = ()

    # elements
    abs = functions.abs
    acos = functions.acos
    acosh = functions.acosh
    asin = functions.asin
    asinh = functions.asinh
    astype = functions.astype
    atan = functions.atan
    atan2 = functions.atan2
    atanh = functions.atanh
    ceil = functions.ceil
    clip = functions.clip
    conj = functions.conj
    conjugate = functions.conj
    copy = functions.positive
    cos = functions.cos
    cosh = functions.cosh
    erf = functions.erf
    exp = functions.exp
    exp2 = functions.exp2
    expm1 = functions.expm1
    floor = functions.floor
    isclose = functions.isclose
    isfinite = functions.isfinite
    isinf = functions.isinf
    isnan = functions.isnan
    log = functions.log
    log10 = functions.log10
    log1p = functions.log1p
    log2 = functions.log2
    logical_and = functions.logical_and
    logical_not = functions.logical_not
    logical_or = functions.logical_or
    logical_xor = functions.logical_xor
    maximum = functions.maximum
    minimum = functions.minimum
    pow = functions.pow
    reciprocal = functions.reciprocal
    relu = functions.relu
    remainder = functions.remainder
    round = functions.round
    rsqrt = functions.rsqrt
    sigmoid = functions.sigmoid
    sign = functions.sign
    sin = functions.sin
    sinh = functions.sinh
    sqrt = functions.sqrt
    square = functions.square
    tan = functions.tan
    tanh = functions.tanh
    trunc = functions.trunc

    # reductions and products
    all = functions.all
    amax = functions.max
    amin = functions.min
    any = functions.any
    argmax = functions.argmax
    argmin = functions.argmin
    count_nonzero = functions.count_nonzero
    dot = functions.dot
    logsumexp = functions.logsumexp
    matmul = functions.matmul
    max = functions.max
    mean = functions.mean
    min = functions.min
    norm = functions.norm
    outer = functions.outer
    prod = functions.prod
    std = functions.std
    sum = functions.sum
    var = functions.var

    # along an axis
    argpartition = functions.argpartition
    argsort = functions.argsort
    cummax = functions.cummax
    cummin = functions.cummin
    cumprod = functions.cumprod
    cumsum = functions.cumsum
    log_softmax = functions.log_softmax
    logcumsumexp = functions.cumlogsumexp
    partition = functions.partition
    searchsorted = functions.searchsorted
    softmax = functions.softmax
    sort = functions.sort

    # indices
    choose = functions.choose
    diagonal = functions.diagonal
    nonzero = functions.nonzero
    take = functions.take
    take_along_axis = functions.take_along_axis
    tril = functions.tril
    triu = functions.triu

    # shapes and layouts
    expand_dims = functions.expand_dims
    flatten = functions.flatten
    flip = functions.flip
    moveaxis = functions.moveaxis
    ravel = functions.ravel
    roll = functions.roll
    shard = functions.shard
    to_device = functions.to_device
    squeeze = functions.squeeze
    swapaxes = functions.swapaxes

    def compress(self, condition: ArrayLike, axis: int | None = None) -> Tensor:
        """Return the slices along an axis where a vector is true; without an axis, elements of the
        flattened tensor.

        >>> pb.tensor([10, 20, 30]).compress([False, True, True]).tolist()
        [20, 30]
        """
        return hooks.functions.compress(condition, self, axis)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the sum of the diagonal in the plane of two axes, the first two by default.

        >>> pb.tensor([[1, 2], [3, 4]]).trace().item()
        5
        """
        return hooks.functions.matrix_trace(self, offset, axis1, axis2, dtype)

    def reshape(self, *shape: Shape, order: str = "C", copy: bool | None = None) -> Tensor:
        """Return the elements in another shape, given as a tuple or as several ints.

        They are read and placed in row-major order, or in column-major order if `order` is "F".

        >>> pb.arange(4).reshape(2, -1).tolist(), pb.arange(4).reshape(2, 2, order="F").tolist()
        ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
        """
        return hooks.functions.reshape(self, method_one_or_many(shape), order, copy=copy)

    def put_along_axis(
        self, indices: ArrayLike, values: ArrayLike, axis: int | None = -1, mode: str = "set"
    ) -> Tensor:
        """Return a tensor with values at indices along an axis; the function of this name writes.

        >>> pb.tensor([[1, 2], [3, 4]]).put_along_axis([[1], [0]], 9, axis=1).tolist()
        [[1, 9], [9, 4]]
        """
        put = hooks.functions.put_along_axis
        return put(self, indices, values, axis, mode, inplace=False)

    def broadcast_to(self, *shape: Shape) -> Tensor:
        """Broadcast to a shape, given as a tuple or as several ints.

        >>> pb.tensor([1, 2]).broadcast_to(2, 2).tolist()
        [[1, 2], [1, 2]]
        """
        return hooks.functions.broadcast_to(self, method_one_or_many(shape))

    def transpose(self, *axes: Shape) -> Tensor:
        """Reverse the order of the dimensions, or reorder them by `axes`.

        >>> pb.ones((2, 3, 4)).transpose().shape, pb.ones((2, 3, 4)).transpose(0, 2, 1).shape
        ((4, 3, 2), (2, 4, 3))
        """
        if len(axes) == 2 and self._node.type.rank > 2:  # type: ignore[attr-defined]
            what = f"needs {self._node.type.rank} axes, got {axes}"  # type: ignore[attr-defined]
            hint = "Write x.swapaxes(a, b) to swap two dimensions."
            raise AxisError(what, op="transpose", hint=hint)
        return hooks.functions.transpose(self, method_one_or_many(axes) if axes else None)

    def permute(self, *axes: Shape) -> Tensor:
        """Reorder the dimensions: dimension i of the result is dimension `axes[i]`.

        >>> pb.ones((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return hooks.functions.permute_dims(self, method_one_or_many(axes))

    def repeat(self, repeats: ArrayLike, axis: int | None = None, *more: int) -> Tensor:
        """Repeat each element along an axis, as in NumPy; `tile` repeats the whole tensor.

        >>> pb.tensor([1, 2]).repeat(2).tolist(), pb.tensor([1, 2]).tile(2).tolist()
        ([1, 1, 2, 2], [1, 2, 1, 2])
        """
        counts = (repeats, axis, *more)
        try:
            if not more:
                return hooks.functions.repeat(self, repeats, axis)
            raise AxisError("takes the number of repetitions and an axis", op="repeat")
        except AxisError as error:
            given = ", ".join(map(str, counts))
            error.hint = f"PyTorch's x.repeat({given}) is x.tile({given}) here."
            raise

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix.

        >>> pb.tensor([[1, 2]]).T.tolist()
        [[1], [2]]
        """
        type = self._node.type  # type: ignore[attr-defined]
        if type.rank != 2:
            hint = "Use .mT for the last two dimensions, or .transpose() to reverse all."
            raise ShapeError(f"T: needs rank 2, got {type}", code="E3002", hint=hint)
        return hooks.functions.matrix_transpose(self)

    @property
    @boundary
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions swapped.

        >>> pb.ones((4, 2, 3)).mT.shape
        (4, 3, 2)
        """
        return hooks.functions.matrix_transpose(self)

    @property
    @boundary
    def real(self) -> Tensor:
        """The real part of each element.

        >>> pb.tensor([1 + 2j]).real.tolist()
        [1.0]
        """
        return hooks.functions.real(self)

    @property
    @boundary
    def imag(self) -> Tensor:
        """The imaginary part of each element.

        >>> pb.tensor([1 + 2j]).imag.tolist()
        [2.0]
        """
        return hooks.functions.imag(self)

    @property
    def at(self) -> AtIndexing:
        """Updates that return a new tensor: `x.at[index].set(value)`, `.add`, `.multiply`, `.min`,
        `.max`; and `.get()`.

        >>> pb.zeros(3).at[1].set(5.0).tolist()
        [0.0, 5.0, 0.0]
        """
        return hooks.indexing.AtIndexing(self)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in API_VERSIONS:
            known = ", ".join(API_VERSIONS)
            what = f"api_version must be one of {known}, got {shown_argument(api_version)}"
            raise ArgumentError(what, op="__array_namespace__")
        return hooks.namespace


def bind_methods(module: ModuleType, *classes: type) -> None:
    """Set the methods of classes that are functions of `module`."""
    for cls in classes:
        for name, value in list(vars(cls).items()):
            if isinstance(value, MethodFunctionName):
                setattr(cls, name, public(getattr(module, value)))


def method_one_or_many(values: tuple[Shape, ...]) -> Shape:
    """`f((2, 3))` and `f(2, 3)` mean the same."""
    first = values[0] if len(values) == 1 else None
    return first if isinstance(first, (tuple, list)) else values  # type: ignore[return-value]
