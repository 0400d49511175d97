"""Methods of tensors about their gradient: leaves, `backward()`, `.grad`, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import ArgumentError, NonDifferentiableInput
from pullback.graph.argument_checks import checked_flag_argument
from pullback.graph.boundary import boundary_methods
from pullback.graph.derivative_tokens import LeafDerivativeToken, tokens_require_gradient
from pullback.lazy.backward import backward
from pullback.lazy.frozen import is_frozen, note_frozen
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import read_on_host, refuse_host_read_cut, require_host_values
from pullback.lazy.pending import compute_pending
from pullback.lazy.record import record_as_leaf, wrap

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.sharding.spec import Sharding


@boundary_methods
class GradientMethods:
    """Leaves that require a gradient, and what they keep."""

    __slots__ = ()

    @property
    def requires_grad(self: Any) -> bool:
        """Whether `backward()` finds gradients for this tensor, or through it.

        >>> x = pb.tensor([1.0, 2.0])
        >>> x.requires_grad = True
        >>> (x * 2).requires_grad
        True
        """
        return self._token is not None or tokens_require_gradient(self._node.tokens)

    @requires_grad.setter
    def requires_grad(self: Any, on: bool) -> None:
        on = checked_flag_argument("requires_grad", on, "the value")
        if not self.is_leaf:
            raise ArgumentError(
                "requires_grad: can only be set on a leaf, this tensor was computed from one that "
                "requires a gradient",
                hint="Write x.detach() first to make a new leaf with its value.",
            )
        if on and not self.dtype.is_inexact:
            what = f"needs float or complex elements, got {self._node.type}"
            raise NonDifferentiableInput(f"requires_grad: {what}")
        if any(t.alive and not t.leaf for t in self._node.tokens):
            raise ArgumentError(
                "requires_grad: this tensor depends on the argument of a derivative in progress, "
                "which would be cut here",
                hint="Write x.detach() first to make it a constant of that derivative.",
            )
        _compute_tensor(self)
        if self._token is not None:
            self._token.released = not on
        token = LeafDerivativeToken(self) if on else None
        self._node = record_as_leaf(self._node, (token,) if on else ())
        self._token = token
        note_frozen(self, on)

    @property
    def is_leaf(self: Any) -> bool:
        """Whether this tensor was not computed from tensors that require a gradient.

        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self._token is not None or not self.requires_grad

    @property
    def grad(self: Any) -> Tensor | None:
        """The gradient that `backward()` accumulated. Only leaves have one.

        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        if not self.is_leaf:
            raise ArgumentError(
                "grad: only leaves keep a gradient, this tensor was computed",
                hint="Differentiate with respect to intermediate values with pb.grad or pb.vjp.",
            )
        return self._grad

    @grad.setter
    def grad(self: Any, value: Tensor | None) -> None:
        if value is not None and (value.shape, value.dtype) != (self.shape, self.dtype):
            what = f"a gradient of {self._node.type} must have that type, got {value._node.type}"
            raise ArgumentError(f"grad: {what}")
        self._grad = value

    def zero_grad(self: Any) -> None:
        """Set `grad` to None.

        >>> x = pb.tensor(3.0, requires_grad=True)
        >>> (x * x).backward()
        >>> x.zero_grad()
        >>> x.grad is None
        True
        """
        self._grad = None

    def backward(self: Any) -> None:
        """Accumulate the gradient of this scalar into `.grad` of every leaf that requires one.

        >>> import pullback as pb
        >>> w = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> w.grad.tolist()
        [2.0, 4.0]
        """
        backward(self)

    def detach(self: Any) -> Tensor:
        """Return the same value as a constant of every derivative.

        >>> pb.grad(lambda x: x * x.detach())(pb.tensor(3.0)).item()
        3.0
        """
        return hooks.stop_gradient(self)

    def __copy__(self: Any) -> Tensor:
        return self.__deepcopy__({})

    def __deepcopy__(self: Any, memo: dict) -> Tensor:
        """Return a copy; that of a leaf that requires a gradient has its own gradient."""
        memo[id(self)] = copy = wrap(self._node)
        if self._token is not None:
            _compute_tensor(self)
            copy._node = record_as_leaf(self._node, ())
            copy.requires_grad = True
            copy._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        elif is_frozen(self):
            note_frozen(copy, False)
        return copy

    def __reduce__(self: Any) -> tuple:
        refuse_host_read_cut(self, "pickling")
        requires_grad = None if is_frozen(self) else self._token is not None
        return _unpickled_tensor, (read_on_host(self), requires_grad, self.sharding)


def _compute_tensor(tensor: Tensor) -> None:
    """Compute a tensor that becomes a leaf."""
    if tensor._node.value is None:
        require_host_values("requires_grad", [tensor._node])
        compute_pending([tensor._node])


def _unpickled_tensor(
    array: np.ndarray, requires_grad: bool | None, sharding: Sharding | None = None
) -> Tensor:
    """Return a tensor; `requires_grad` is None if it was frozen."""
    made = hooks.asarray(array)
    if sharding is not None:
        made = hooks.reshard(made, sharding)
    if requires_grad is None or requires_grad:
        made.requires_grad = bool(requires_grad)
    return made
