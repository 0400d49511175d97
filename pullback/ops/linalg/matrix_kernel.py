"""The base of ops that call a compiled kernel for matrices, such as a routine of LAPACK."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import complex64, complex128, float32, float64, int32
from pullback.ops.linalg.contraction import dot_general
from pullback.ops.prelude import (
    Axis,
    Imported,
    Node,
    Op,
    Type,
    result_nodes,
    same_dtype,
    spread_all,
)
from pullback.ops.traits import HasKernel

DTYPES = (float32, float64, complex64, complex128)
PREFIX = "pullback."  # of the names under which neutral programs call ops


class RealMatrixKernel(HasKernel):
    """An op on stacks of matrices with one of pullback's own kernels, if they are real."""

    @abstractmethod
    def real_kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        """Write the call for matrices of f32 or f64, with `b.matrix_kernel`."""

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        return None if xs[0].dtype.is_complex else self.real_kernel(b, out, *xs)


class MatrixKernel(Op, abstract=True):
    """An op on stacks of matrices that a kernel of the platform computes.

    In programs for any platform, it is a single call of its own name; `on_cpu` and `on_cuda` write
    the calls of kernels. A matrix on which the computation fails has NaN in all its results.
    """

    imported = Imported(("custom_call",))

    @abstractmethod
    def on_cpu(self, b: Any, out: Any, *xs: Any) -> Any:
        """Write the lowering for CPUs; no operand is empty."""

    @abstractmethod
    def on_cuda(self, b: Any, out: Any, *xs: Any) -> Any:
        """Write the lowering for GPUs; no operand is empty."""

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        if b.neutral:
            words = " ".join([str(p) for p in self.parameters()])
            return b.op(
                "stablehlo.custom_call", *xs, out=out, call_target_name=f'"{PREFIX}{self.name}"',
                backend_config=f'"{words}"',
            )  # fmt: skip
        if any(0 in x.shape for x in xs):
            made = self.numpy(*[np.zeros(x.shape, x.dtype.numpy) for x in xs])
            if isinstance(out, tuple):
                return tuple([b.constant(y, t.dtype) for y, t in zip(made, out, strict=True)])
            return b.constant(made, out.dtype)
        return (self.on_cpu if b.platform == "cpu" else self.on_cuda)(b, out, *xs)

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        if i.attributes["call_target_name"] != f'"{PREFIX}{cls.name}"':
            return None
        words = i.attributes.get("backend_config", '""').strip('"').split()
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        if len(words) != len(fields):
            return None
        pairs = zip(fields, words, strict=True)
        op = cls(*[w == "True" if f.type in ("bool", bool) else w for f, w in pairs])
        return op if [str(p) for p in op.parameters()] == words else None

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        made = self(*spread_all(axis, xs, mapped))
        return result_nodes(made) if isinstance(made.type, tuple) else made


def check_matrix_kernel_operands(op: Op, *xs: Type, square: bool = False) -> None:
    """Raise unless all operands are matrices, or stacks of them, of one dtype that kernels take;
    the first may have to be square."""
    for x in xs:
        if x.dtype not in DTYPES:
            what = f"needs matrices of f32, f64, complex64 or complex128, got {x}"
            hint = "Convert the operand: x.astype(pb.float32)."
            raise DTypeError(what, code="E2005", hint=hint)
        if x.rank < 2:
            what = f"needs matrices, so a rank of 2 or more, got {x}"
            raise ShapeError(what, code="E3002", ranks=(x.rank,))
    same_dtype(op.title, *xs)
    if square and xs[0].shape[-1] != xs[0].shape[-2]:
        what = f"needs square matrices, got {xs[0]}"
        raise ShapeError(what, code="E3003", extents=xs[0].shape[-2:])


def each_matrix(f: Callable[[np.ndarray], Any], x: np.ndarray, finite: bool = False) -> Any:
    """Apply a function of NumPy to a stack of matrices; those on which it fails give NaN, and with
    `finite` those that contain NaN or infinities."""
    bad = ~np.isfinite(x).all((-2, -1)) if finite else np.zeros(x.shape[:-2], bool)
    if not bad.any():
        try:
            return f(x)
        except np.linalg.LinAlgError:
            pass
    made = f(np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape))
    several = isinstance(made, tuple)
    results = [np.array(y) for y in (made if several else (made,))]
    for i in np.ndindex(x.shape[:-2]):
        try:
            found = None if bad[i] else f(x[i])
        except np.linalg.LinAlgError:
            found = None
        for k, y in enumerate(results):
            y[i] = np.nan if found is None else found[k] if several else found
    return tuple(results) if several else results[0]


def matrix_kernel_transpose(b: Any, x: Any) -> Any:
    """Write the transpose of matrices. It costs nothing before or after a kernel, which takes
    matrices by columns: XLA only reads the same memory in another order."""
    rank = len(x.shape)
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def matrix_kernel_transposed_type(x: Type) -> Type:
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def matrix_kernel_lower_part(b: Any, x: Any) -> Any:
    """Write the lower triangle of square matrices, with zeros above."""
    n = x.shape[-1]
    rows, columns = (b.iota((n, n), int32, d) for d in (0, 1))
    keep = b.broadcast(b.compare("GE", rows, columns), x.shape)
    return b.select(keep, x, b.full(x.type, 0))


def matrix_or_nan(b: Any, info: Any, *xs: Any) -> Any:
    """Write the values, or NaN for the matrices whose `info` (a number for each) is not 0."""
    failed = b.compare("NE", info, b.full(info.type, 0))
    dims = tuple(range(len(info.shape)))
    made = tuple(
        [b.select(b.broadcast_in_dim(failed, x.shape, dims), b.full(x.type, np.nan), x) for x in xs]
    )
    return made if len(made) > 1 else made[0]


def matrix_or_zero(b: Any, x: Any, read: Any = None) -> tuple[Any, Any]:
    """Write the matrices, with zeros in place of those that are not finite, and 1 for each of
    these: iterations that get NaN may not end. If `read` is given, only it has to be finite."""
    # The difference is 0 or NaN. Products with ones add up a row much faster than reductions do.
    read = x if read is None else read
    rank = len(x.shape)
    zeros = b.op("stablehlo.subtract", read, read, out=read.type)
    ones = b.full(Type(x.shape[-1:], x.dtype), 1)
    sums = dot_general(b, zeros, ones, ((rank - 1,), (0,)), ((), ()))
    total = b.reduce("add", sums, 0, (rank - 2,))
    mask = b.compare("NE", total, b.full(total.type, 0))
    bad = b.convert(mask, int32)
    mask = b.broadcast_in_dim(mask, x.shape, tuple(range(rank - 2)))
    return b.select(mask, b.full(x.type, 0), x), bad


def either_kernel_failed(b: Any, info: Any, bad: Any) -> Any:
    """Write a number for each matrix that is not 0 if one of two is not."""
    return b.op("stablehlo.or", info, bad, out=info.type)
