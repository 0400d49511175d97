"""Methods of Tensor that PyTorch has, where they can mean the same.

Their parameters have PyTorch's names. A method that NumPy or the array API standard has too keeps
the meaning that it has there (`methods.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import checked_flag_argument, checked_integer_argument
from pullback.graph.boundary import boundary_methods
from pullback.lazy.hooks import hooks
from pullback.lazy.methods import method_one_or_many
from pullback.lazy.settings import user_dtype

if TYPE_CHECKING:
    from pullback.functions.sorting import TopKResult
    from pullback.lazy.tensor import Tensor
    from pullback.typing import ArrayLike, DTypeLike, Number, Shape


@boundary_methods
class TorchMethods:
    """What PyTorch's users write after a tensor and a point."""

    __slots__ = ()

    def dim(self) -> int:
        """Return the number of dimensions.

        >>> pb.ones((2, 3)).dim()
        2
        """
        return self._node.type.rank  # type: ignore[attr-defined]

    def numel(self) -> int:
        """Return the number of elements. (`x.size` is this number; the sizes are `x.shape`.)

        >>> pb.ones((2, 3)).numel()
        6
        """
        return self._node.type.size  # type: ignore[attr-defined]

    def add(self, other: ArrayLike, *, alpha: Number | Tensor = 1) -> Tensor:
        """Return the sum with `alpha * other`.

        >>> pb.tensor([1, 2]).add(3, alpha=2).tolist()
        [7, 8]
        """
        return hooks.functions.add(self, _torch_times(other, alpha))

    def sub(self, other: ArrayLike, *, alpha: Number | Tensor = 1) -> Tensor:
        """Return the difference to `alpha * other`.

        >>> pb.tensor([1, 2]).sub(3).tolist()
        [-2, -1]
        """
        return hooks.functions.subtract(self, _torch_times(other, alpha))

    def div(self, other: ArrayLike, *, rounding_mode: str | None = None) -> Tensor:
        """Return the quotient, rounded down for "floor" and towards 0 for "trunc".

        >>> pb.tensor([7, -7]).div(2, rounding_mode="floor").tolist()
        [3, -4]
        """
        if rounding_mode == "floor":
            return hooks.functions.floor_divide(self, other)
        if rounding_mode not in (None, "trunc"):
            message = f'rounding_mode must be None, "floor" or "trunc", got {rounding_mode!r}'
            raise ArgumentError(message, op="div")
        quotient = hooks.functions.divide(self, other)
        if rounding_mode is None:
            return quotient
        dtype = hooks.functions.result_type(self, other)
        return hooks.functions.trunc(quotient).astype(dtype)

    def clamp_min(self, min: ArrayLike) -> Tensor:
        """Return the elements, or `min` where they are less.

        >>> pb.tensor([1, 5]).clamp_min(3).tolist()
        [3, 5]
        """
        return hooks.functions.clip(self, _torch_clamp_bound("clamp_min", min))

    def clamp_max(self, max: ArrayLike) -> Tensor:
        """Return the elements, or `max` where they are greater.

        >>> pb.tensor([1, 5]).clamp_max(3).tolist()
        [1, 3]
        """
        return hooks.functions.clip(self, None, _torch_clamp_bound("clamp_max", max))

    def where(self, condition: ArrayLike, other: ArrayLike) -> Tensor:
        """Return the elements where a condition is true, else those of `other`.

        >>> pb.tensor([1, 2]).where([True, False], 0).tolist()
        [1, 0]
        """
        return hooks.functions.where(condition, self, other)

    # shapes

    def view(self, *shape: Any) -> Tensor:
        """Return the elements in another shape, or their bits as another dtype of the same width.

        Complex numbers can also be viewed as numbers twice as many: their parts. Tensors do not
        share memory: writing to the result leaves this tensor as it is.

        >>> pb.arange(6).view(2, -1).shape, pb.tensor(1.0).view(pb.int32).item()
        ((2, 3), 1065353216)
        """
        first = shape[0] if len(shape) == 1 else ()
        if isinstance(first, type) or not (
            isinstance(first, (tuple, list)) or hasattr(first, "__index__")
        ):
            return _torch_view_dtype(self, first)
        return hooks.functions.reshape(self, method_one_or_many(shape))

    def view_as(self, other: Tensor) -> Tensor:
        """Return the elements in the shape of another tensor.

        >>> pb.arange(4).view_as(pb.ones((2, 2))).tolist()
        [[0, 1], [2, 3]]
        """
        return hooks.functions.reshape(self, hooks.functions.asarray(other).shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return the elements in the shape of another tensor.

        >>> pb.arange(4).reshape_as(pb.ones((2, 2))).tolist()
        [[0, 1], [2, 3]]
        """
        return hooks.functions.reshape(self, hooks.functions.asarray(other).shape)

    def unsqueeze(self, dim: int) -> Tensor:
        """Insert a dimension of size 1.

        >>> pb.tensor([1, 2]).unsqueeze(-1).tolist()
        [[1], [2]]
        """
        return hooks.functions.expand_dims(self, checked_integer_argument("unsqueeze", dim, "dim"))

    def unflatten(self, dim: int, sizes: Shape) -> Tensor:
        """Split a dimension into several; one size may be -1.

        >>> pb.arange(6).unflatten(0, (2, -1)).tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        shape = self._node.type.shape  # type: ignore[attr-defined]
        i = hooks.functions.arguments.axis_argument("unflatten", dim, len(shape))
        new = method_one_or_many((sizes,))
        return hooks.functions.reshape(self, (*shape[:i], *new, *shape[i + 1 :]))  # type: ignore[misc]

    def expand(self, *sizes: Any) -> Tensor:
        """Broadcast to sizes, of which -1 keeps that of a dimension.

        >>> pb.tensor([[1], [2]]).expand(-1, 2).tolist()
        [[1, 1], [2, 2]]
        """
        old = self._node.type.shape  # type: ignore[attr-defined]
        given = method_one_or_many(sizes)
        new = [checked_integer_argument("expand", n, "a size") for n in given]  # type: ignore[union-attr]
        extra = len(new) - len(old)
        for i, n in enumerate(new):
            if n == -1 and i >= extra:
                new[i] = old[i - extra]
        if min(new, default=0) < 0:
            message = f"-1 stands for the size of an existing dimension, got {list(given)}"  # type: ignore[arg-type]
            raise ShapeError(message, op="expand", code="E3006")
        return hooks.functions.broadcast_to(self, tuple(new))

    def expand_as(self, other: Tensor) -> Tensor:
        """Broadcast to the shape of another tensor.

        >>> pb.tensor([1, 2]).expand_as(pb.ones((2, 2))).tolist()
        [[1, 2], [1, 2]]
        """
        return hooks.functions.broadcast_to(self, hooks.functions.asarray(other).shape)

    def t(self) -> Tensor:
        """Return the transpose of a matrix; a vector stays as it is.

        >>> pb.tensor([[1, 2]]).t().tolist()
        [[1], [2]]
        """
        rank = self._node.type.rank  # type: ignore[attr-defined]
        if rank > 2:
            hint = "Use .mT for the last two dimensions, or .transpose() to reverse all."
            message = f"needs rank 2 or less, got {self._node.type}"  # type: ignore[attr-defined]
            raise ShapeError(message, op="t", code="E3002", hint=hint)
        return hooks.functions.transpose(self)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix.

        >>> pb.tensor([[1, 2j]]).H.tolist()
        [[(1-0j)], [-2j]]
        """
        return self.T.conj()  # type: ignore[attr-defined]

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the last two dimensions.

        >>> pb.ones((4, 2, 3)).mH.shape
        (4, 3, 2)
        """
        return self.mT.conj()  # type: ignore[attr-defined]

    def tile(self, *dims: Any) -> Tensor:
        """Repeat the whole tensor along each dimension.

        >>> pb.tensor([1, 2]).tile(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        return hooks.functions.tile(self, method_one_or_many(dims))

    # parts

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Split along a dimension into parts of the same size, the last of which may be smaller.

        There are `chunks` of them, or fewer if the size does not suffice.

        >>> [part.tolist() for part in pb.arange(5).chunk(3)]
        [[0, 1], [2, 3], [4]]
        """
        axis, size = _torch_axis_and_size("chunk", self, dim)
        count = checked_integer_argument("chunk", chunks, "the number of parts")
        if count < 1:
            raise ArgumentError(f"the number of parts must be at least 1, got {count}", op="chunk")
        step = max(-(-size // count), 1)
        return tuple(hooks.functions.split(self, list(range(step, size, step)), axis))

    def split(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raise an error: NumPy's function and PyTorch's method mean different things.

        >>> [part.tolist() for part in pb.split(pb.arange(4), 2)]  # the number of parts
        [[0, 1], [2, 3]]
        """
        raise ArgumentError(
            "PyTorch splits into parts of a size, NumPy into a number of parts", op="split",
            hint="Write x.chunk(n) or pb.split(x, n) for n parts, and pb.split(x, [2, 4]) to cut "
            "before\nthe indices 2 and 4.",
        )  # fmt: skip

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Return `length` elements along a dimension, from `start` on.

        >>> pb.arange(5).narrow(0, 1, 3).tolist()
        [1, 2, 3]
        """
        axis, size = _torch_axis_and_size("narrow", self, dim)
        begin, count = (
            checked_integer_argument("narrow", start, "start"),
            checked_integer_argument("narrow", length, "length"),
        )
        begin = begin + size if begin < 0 else begin
        if not 0 <= begin <= begin + count <= size:
            message = f"{count} elements from {start} on are not in a dimension of size {size}"
            raise ShapeError(message, op="narrow")
        return self[(*(slice(None),) * axis, slice(begin, begin + count))]  # type: ignore[index]

    def select(self, dim: int, index: int) -> Tensor:
        """Return the slice at an index of a dimension, without that dimension.

        >>> pb.tensor([[1, 2], [3, 4]]).select(1, 0).tolist()
        [1, 3]
        """
        axis, _ = _torch_axis_and_size("select", self, dim)
        return self[(*(slice(None),) * axis, checked_integer_argument("select", index, "index"))]  # type: ignore[index]

    def index_select(self, dim: int, index: ArrayLike) -> Tensor:
        """Return the slices at the indices of a vector along a dimension.

        >>> pb.tensor([[1, 2], [3, 4]]).index_select(1, [1, 1]).tolist()
        [[2, 2], [4, 4]]
        """
        return hooks.functions.take(self, index, _torch_axis_and_size("index_select", self, dim)[0])

    def index_add(
        self, dim: int, index: ArrayLike, source: ArrayLike, *, alpha: Number | Tensor = 1
    ) -> Tensor:
        """Return the tensor with `alpha * source` added at indices along a dimension.

        >>> pb.zeros(3).index_add(0, [2, 2], [1.0, 2.0]).tolist()
        [0.0, 0.0, 3.0]
        """
        axis, _ = _torch_axis_and_size("index_add", self, dim)
        place = (*(slice(None),) * axis, index)
        return hooks.indexing.updated_by_indexing(self, place, _torch_times(source, alpha), "add")

    def masked_fill(self, mask: ArrayLike, value: ArrayLike) -> Tensor:
        """Return the tensor with a value where a mask is true.

        >>> pb.tensor([1, 2]).masked_fill([True, False], 0).tolist()
        [0, 2]
        """
        new = hooks.functions.astype(value, self.dtype)  # type: ignore[attr-defined]
        return hooks.functions.where(mask, new, self)

    def masked_select(self, mask: ArrayLike) -> Tensor:
        """Return the elements where a mask is true as a vector; the mask is read.

        >>> pb.tensor([[1, 2], [3, 4]]).masked_select([True, False]).tolist()
        [1, 3]
        """
        x, where = hooks.functions.broadcast_arrays(self, mask)
        return x[where]

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> TopKResult:
        """Return the `k` largest elements along a dimension, or the smallest, and their indices.

        >>> pb.tensor([3, 1, 2]).topk(2, largest=False).values.tolist()
        [1, 2]
        """
        checked_flag_argument("topk", sorted, "sorted")  # they always are
        mode = "largest" if checked_flag_argument("topk", largest, "largest") else "smallest"
        return hooks.functions.top_k(self, k, dim, mode=mode)

    # new tensors

    def new_zeros(self, *size: Any, dtype: DTypeLike | None = None) -> Tensor:
        """Return zeros of the same dtype, unless another one is given.

        >>> pb.tensor([1, 2]).new_zeros(2, 2).tolist()
        [[0, 0], [0, 0]]
        """
        return _torch_new("zeros", self, size, dtype)

    def new_ones(self, *size: Any, dtype: DTypeLike | None = None) -> Tensor:
        """Return ones of the same dtype, unless another one is given.

        >>> pb.tensor([1.0]).new_ones(2).tolist()
        [1.0, 1.0]
        """
        return _torch_new("ones", self, size, dtype)

    def new_full(
        self, size: Shape, fill_value: Number | Tensor, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return a tensor of one value, of the same dtype unless another one is given.

        >>> pb.tensor([1.0]).new_full((2,), 7).tolist()
        [7.0, 7.0]
        """
        return hooks.functions.full(size, fill_value, dtype=_torch_dtype_like(self, dtype))

    def new_tensor(self, data: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
        """Return a new tensor with a copy of data, of the same dtype unless another one is given.

        >>> pb.tensor([1.0]).new_tensor([2, 3]).tolist()
        [2.0, 3.0]
        """
        return hooks.functions.tensor(data, dtype=_torch_dtype_like(self, dtype))


def _torch_clamp_bound(op: str, value: ArrayLike) -> ArrayLike:
    """Return a bound; a number is left as it is, because it takes the tensor's dtype."""
    if value is None:
        raise ArgumentError("needs a bound, got None", op=op)
    return value


def _torch_view_dtype(x: Any, dtype: Any) -> Tensor:
    """The bits of a tensor as another dtype; `float` is one of the width of `x` or of its parts."""
    own = x._node.type.dtype
    part = own.real if own.is_complex else None
    if dtype is float and own.bits > 8:
        dtype = part or f"float{own.bits}"
    if part is None or not x.ndim or user_dtype("view", dtype) is not part:
        return hooks.functions.bitcast(x, dtype)
    return hooks.functions.reshape(
        hooks.functions.view_as_real(x), (*x.shape[:-1], 2 * x.shape[-1])
    )


def _torch_times(value: ArrayLike, alpha: Any) -> ArrayLike:
    if isinstance(value, (int, float, complex)) and isinstance(alpha, (int, float, complex)):
        return value * alpha  # a number, which takes the tensor's dtype
    return value if type(alpha) is int and alpha == 1 else hooks.functions.multiply(value, alpha)


def _torch_new(name: str, x: Any, size: Sequence[Any], dtype: DTypeLike | None) -> Tensor:
    make = getattr(hooks.functions, name)
    return make(method_one_or_many(tuple(size)), dtype=_torch_dtype_like(x, dtype))


def _torch_dtype_like(x: Any, dtype: DTypeLike | None) -> DTypeLike:
    return x.dtype if dtype is None else dtype


def _torch_axis_and_size(op: str, x: Any, dim: int) -> tuple[int, int]:
    axis = hooks.functions.arguments.axis_argument(op, dim, x.ndim)
    return axis, x.shape[axis]
