"""Methods of tensors that read the value on the host: conversions, and how a tensor is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.graph.boundary import boundary_methods
from pullback.graph.html import html_array
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import (
    has_value,
    read_on_host,
    refuse_host_read_cut,
    require_host_values,
    warn_of_cut,
)

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


@boundary_methods
class HostValueMethods:
    """Conversions of the value to NumPy, Python numbers and text."""

    __slots__ = ()

    def numpy(self: Any) -> np.ndarray[Any, Any]:
        """Return the value as a read-only NumPy array.

        Inside a function that is being differentiated, write `x.detach().numpy()`: the array is a
        constant of the derivative.

        >>> pb.tensor([1, 2]).numpy()
        array([1, 2])
        """
        refuse_host_read_cut(self, "numpy")
        return read_on_host(self)

    def wait(self: Any) -> Tensor:
        """Return this tensor when its value has been computed, without copying it to the host.

        >>> import pullback as pb
        >>> pb.ones(3).sum().wait().item()
        3.0
        """
        return hooks.wait(self)

    def tobytes(self: Any) -> bytes:
        """Return the bytes of the elements, in row-major order.

        >>> pb.tensor([1, 2], dtype="int8").tobytes()
        b'\\x01\\x02'
        """
        refuse_host_read_cut(self, "tobytes")
        return read_on_host(self).tobytes()

    def item(self: Any, *index: int) -> Any:
        """Return the value of a tensor with one element, or of the one at an index, as a Python
        number. One index counts the elements in row-major order.

        >>> pb.tensor([[1.5]]).item(), pb.tensor([[1, 2], [3, 4]]).item(2)
        (1.5, 3)
        """
        if index:
            place: Any = index[0] if len(index) == 1 else index
            if isinstance(place, (tuple, list)):
                return self[tuple(place)].item()
            return hooks.functions.flatten(self)[place].item()
        if self.size != 1:
            raise ArgumentError(f"item: needs one element, got {self._node.type}")
        return read_on_host(self).item()

    def tolist(self: Any) -> Any:
        """Return the value as a nested list of Python numbers.

        >>> pb.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        refuse_host_read_cut(self, "tolist")
        return read_on_host(self).tolist()

    def _scalar(self: Any, what: str) -> Any:
        if self.size != 1:
            raise ArgumentError(
                f"{what}: needs one element, got {self._node.type}",
                hint="Reduce it first, with .any(), .all() or .sum()." if what == "bool" else None,
            )  # fmt: skip
        if what in ("int", "float") and self.dtype.is_complex:
            hint = f"Write {what}(x.real), or complex(x)."
            raise DTypeError(f"{what}: needs a real number, got {self._node.type}", hint=hint)
        require_host_values(what, [self._node])
        return read_on_host(self).reshape(())[()]

    def __bool__(self: Any) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self: Any) -> int:
        warn_of_cut(self, "int()")
        return int(self._scalar("int"))

    def __float__(self: Any) -> float:
        warn_of_cut(self, "float()")  # also called by `math.exp(x)`
        return float(self._scalar("float"))

    def __complex__(self: Any) -> complex:
        warn_of_cut(self, "complex()")
        return complex(self._scalar("complex"))

    def __index__(self: Any) -> int:
        if not self.dtype.is_integer or self.shape:
            raise ArgumentError(f"index: needs an integer tensor of rank 0, got {self._node.type}")
        return int(self._scalar("index"))

    def __repr__(self: Any) -> str:
        layout = "" if self.sharding is None else f", {self.sharding.spec}"
        if not has_value(self):
            return f"Tensor({self._node.type}{layout})"
        body = np.array2string(read_on_host(self), separator=", ", prefix="Tensor(")
        grad = ", requires_grad=True" if self.requires_grad else ""
        hidden = not self.size or self.size > np.get_printoptions()["threshold"]
        shape = f", shape={self.shape}" if hidden and self.shape != (0,) else ""
        return f"Tensor({body}, {self.dtype}{shape}{layout}{grad})"

    def _repr_html_(self: Any) -> str:
        """Show the type and a small table of the values in a notebook."""
        layout = "" if self.sharding is None else f", {self.sharding.spec} on {self.sharding.mesh}"
        grad = ", requires_grad=True" if self.requires_grad else ""
        title = f"Tensor {self._node.type.plain}{layout}{grad}"
        return html_array(title, read_on_host(self) if has_value(self) else None)

    def __str__(self: Any) -> str:
        return str(read_on_host(self)) if has_value(self) else repr(self)

    def __format__(self: Any, spec: str) -> str:
        if not has_value(self):
            return repr(self)  # formats for numbers do not apply
        return format(self.item() if spec else str(self), spec)
