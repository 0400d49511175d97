"""Methods of Tensor that change it: those of PyTorch that end in an underscore.

They bind the handle to the new value, as `x += y` does: there are no views, so nothing else
changes, and shape and dtype must stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.graph.boundary import boundary_methods
from pullback.lazy.hooks import hooks

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.typing import ArrayLike


def _in_place_method(name: str, example: str, result: str) -> Callable[..., Tensor]:
    """The method `name_`, which sets the tensor to the result of its method `name`."""

    def update(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        return self._update(getattr(self, name)(*args, **kwargs), f"{name}_")

    update.__name__ = update.__qualname__ = f"{name}_"
    update.__doc__ = f"""Set the tensor to the result of `{name}`, and return it.

    >>> {example}.tolist()
    {result}
    """
    return update


_X = "pb.tensor([1.0, 4.0])"


@boundary_methods
class InPlaceMethods:
    """Changes of a tensor."""

    __slots__ = ()

    abs_ = _in_place_method("abs", "pb.tensor([-1.0, 4.0]).abs_()", "[1.0, 4.0]")
    add_ = _in_place_method("add", f"{_X}.add_(2, alpha=3)", "[7.0, 10.0]")
    ceil_ = _in_place_method("ceil", "pb.tensor([0.5]).ceil_()", "[1.0]")
    clamp_ = _in_place_method("clamp", f"{_X}.clamp_(2, 3)", "[2.0, 3.0]")
    clip_ = _in_place_method("clip", f"{_X}.clip_(2, 3)", "[2.0, 3.0]")
    cos_ = _in_place_method("cos", "pb.tensor([0.0]).cos_()", "[1.0]")
    div_ = _in_place_method("div", f"{_X}.div_(2)", "[0.5, 2.0]")
    exp_ = _in_place_method("exp", "pb.tensor([0.0]).exp_()", "[1.0]")
    floor_ = _in_place_method("floor", "pb.tensor([0.5]).floor_()", "[0.0]")
    index_add_ = _in_place_method(
        "index_add", f"{_X}.index_add_(0, [1, 1], [1.0, 2.0])", "[1.0, 7.0]"
    )
    log_ = _in_place_method("log", "pb.tensor([1.0]).log_()", "[0.0]")
    masked_fill_ = _in_place_method(
        "masked_fill", f"{_X}.masked_fill_([True, False], 0)", "[0.0, 4.0]"
    )
    mul_ = _in_place_method("mul", f"{_X}.mul_(2)", "[2.0, 8.0]")
    neg_ = _in_place_method("neg", f"{_X}.neg_()", "[-1.0, -4.0]")
    pow_ = _in_place_method("pow", f"{_X}.pow_(2)", "[1.0, 16.0]")
    reciprocal_ = _in_place_method("reciprocal", f"{_X}.reciprocal_()", "[1.0, 0.25]")
    relu_ = _in_place_method("relu", "pb.tensor([-1.0, 4.0]).relu_()", "[0.0, 4.0]")
    remainder_ = _in_place_method("remainder", f"{_X}.remainder_(3)", "[1.0, 1.0]")
    round_ = _in_place_method("round", "pb.tensor([1.5]).round_()", "[2.0]")
    rsqrt_ = _in_place_method("rsqrt", f"{_X}.rsqrt_()", "[1.0, 0.5]")
    sigmoid_ = _in_place_method("sigmoid", "pb.tensor([0.0]).sigmoid_()", "[0.5]")
    sign_ = _in_place_method("sign", "pb.tensor([-3.0]).sign_()", "[-1.0]")
    sin_ = _in_place_method("sin", "pb.tensor([0.0]).sin_()", "[0.0]")
    sqrt_ = _in_place_method("sqrt", f"{_X}.sqrt_()", "[1.0, 2.0]")
    square_ = _in_place_method("square", f"{_X}.square_()", "[1.0, 16.0]")
    sub_ = _in_place_method("sub", f"{_X}.sub_(1)", "[0.0, 3.0]")
    tanh_ = _in_place_method("tanh", "pb.tensor([0.0]).tanh_()", "[0.0]")
    tril_ = _in_place_method("tril", "pb.ones((2, 2)).tril_()", "[[1.0, 0.0], [1.0, 1.0]]")
    triu_ = _in_place_method("triu", "pb.ones((2, 2)).triu_()", "[[1.0, 1.0], [0.0, 1.0]]")
    trunc_ = _in_place_method("trunc", "pb.tensor([1.5]).trunc_()", "[1.0]")

    def fill(self, value: ArrayLike) -> None:
        """Set all elements to a value, as in NumPy.

        >>> x = pb.zeros(2)
        >>> x.fill(7)
        >>> x.tolist()
        [7.0, 7.0]
        """
        self[...] = value  # type: ignore[index]

    def fill_(self, value: ArrayLike) -> Tensor:
        """Set all elements to a value, and return the tensor.

        >>> pb.zeros(2).fill_(7).tolist()
        [7.0, 7.0]
        """
        self[...] = value  # type: ignore[index]
        return self  # type: ignore[return-value]

    def zero_(self) -> Tensor:
        """Set all elements to 0, and return the tensor.

        >>> pb.ones(2).zero_().tolist()
        [0.0, 0.0]
        """
        return self.fill_(0)

    def copy_(self, src: ArrayLike) -> Tensor:
        """Set the elements to those of another tensor, which may broadcast, and return the tensor.

        >>> pb.zeros(2).copy_(pb.tensor([1, 2])).tolist()
        [1.0, 2.0]
        """
        new = hooks.functions.astype(src, self.dtype)  # type: ignore[attr-defined]
        return self.fill_(new)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad`, and return the tensor.

        >>> pb.ones(2).requires_grad_().requires_grad
        True
        """
        setattr(self, "requires_grad", requires_grad)  # noqa: B010
        return self  # type: ignore[return-value]
