"""Methods of Tensor that are public functions, with the tensor as their first argument."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from pullback.errors import ShapeError
from pullback.graph.boundary import boundary, public, public_methods
from pullback.lazy.hooks import hooks

if TYPE_CHECKING:
    from pullback import functions
    from pullback.lazy.indexing import At
    from pullback.lazy.tensor import Tensor
    from pullback.typing import Shape


class FunctionName(str):
    """Stands for a public function until `bind`: the functions themselves need Tensor."""


class _FunctionNames:
    def __getattr__(self, name: str) -> FunctionName:
        return FunctionName(name)


if not TYPE_CHECKING:
    functions = _FunctionNames()


@public_methods
class Methods:
    """Everything that can be written as `x.f(...)` as well as `pb.f(x, ...)`."""

    __slots__ = ()

    # elements
    abs = functions.abs
    astype = functions.astype
    ceil = functions.ceil
    clip = functions.clip
    conj = functions.conj
    copy = functions.positive
    cos = functions.cos
    erf = functions.erf
    exp = functions.exp
    floor = functions.floor
    isfinite = functions.isfinite
    isinf = functions.isinf
    isnan = functions.isnan
    log = functions.log
    log1p = functions.log1p
    reciprocal = functions.reciprocal
    relu = functions.relu
    round = functions.round
    rsqrt = functions.rsqrt
    sigmoid = functions.sigmoid
    sign = functions.sign
    sin = functions.sin
    sqrt = functions.sqrt
    square = functions.square
    tanh = functions.tanh
    trunc = functions.trunc

    # reductions and products
    all = functions.all
    any = functions.any
    argmax = functions.argmax
    argmin = functions.argmin
    dot = functions.matmul
    logsumexp = functions.logsumexp
    max = functions.max
    mean = functions.mean
    min = functions.min
    norm = functions.norm
    prod = functions.prod
    std = functions.std
    sum = functions.sum
    var = functions.var

    # along an axis
    argsort = functions.argsort
    cumprod = functions.cumulative_prod
    cumsum = functions.cumulative_sum
    log_softmax = functions.log_softmax
    softmax = functions.softmax
    sort = functions.sort

    # indices
    diagonal = functions.diagonal
    nonzero = functions.nonzero
    take = functions.take

    # shapes and layouts
    expand_dims = functions.expand_dims
    flatten = functions.flatten
    flip = functions.flip
    ravel = functions.flatten
    repeat = functions.repeat
    shard = functions.shard
    to = functions.to_device
    to_device = functions.to_device
    squeeze = functions.squeeze
    swapaxes = functions.swapaxes

    def reshape(self, *shape: Shape) -> Tensor:
        """Return the elements in another shape, given as a tuple or as several ints."""
        return hooks.functions.reshape(self, _one_or_many_for_method(shape))

    def broadcast_to(self, *shape: Shape) -> Tensor:
        """Broadcast to a shape, given as a tuple or as several ints."""
        return hooks.functions.broadcast_to(self, _one_or_many_for_method(shape))

    def transpose(self, *axes: Shape) -> Tensor:
        """Reverse the order of the dimensions, or reorder them by `axes`."""
        return hooks.functions.transpose(self, _one_or_many_for_method(axes) if axes else None)

    def permute(self, *axes: Shape) -> Tensor:
        """Reorder the dimensions."""
        return hooks.functions.permute_dims(self, _one_or_many_for_method(axes))

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        type = self._node.type  # type: ignore[attr-defined]
        if type.rank != 2:
            hint = "Use .mT for the last two dimensions, or .transpose() to reverse all."
            raise ShapeError(f"T: needs rank 2, got {type}", code="E3002", hint=hint)
        return hooks.functions.matrix_transpose(self)

    @property
    @boundary
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions swapped."""
        return hooks.functions.matrix_transpose(self)

    @property
    @boundary
    def real(self) -> Tensor:
        """The real part of each element."""
        return hooks.functions.real(self)

    @property
    @boundary
    def imag(self) -> Tensor:
        """The imaginary part of each element."""
        return hooks.functions.imag(self)

    @property
    def at(self) -> At:
        """Updates that return a new tensor: `x.at[index].set(value)`, `.add`, `.multiply`, `.min`,
        `.max`; and `.get()`."""
        return hooks.indexing.At(self)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return hooks.namespace


def bind_methods(module: ModuleType) -> None:
    """Set the methods that are functions of `module`."""
    for name, value in list(vars(Methods).items()):
        if isinstance(value, FunctionName):
            setattr(Methods, name, public(getattr(module, value)))


def _one_or_many_for_method(values: tuple[Shape, ...]) -> Shape:
    """`f((2, 3))` and `f(2, 3)` mean the same."""
    first = values[0] if len(values) == 1 else None
    return first if isinstance(first, (tuple, list)) else values  # type: ignore[return-value]
