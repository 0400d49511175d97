"""Gradients of scalar functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from pullback.api.recording import Recording, RecordingTransform, recorded_argnums, recorded_outputs
from pullback.api.signatures import Argnums, Aux, Params, Scalar, Tree
from pullback.errors import ArgumentError, NonDifferentiableInput, UnsupportedShape
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import ones
from pullback.transforms.reverse import gradients


@overload
def grad(
    f: Callable[Params, Scalar], argnums: Argnums = 0, has_aux: Literal[False] = False
) -> Callable[Params, Tree]: ...
@overload
def grad(
    f: Callable[Params, tuple[Scalar, Aux]], argnums: Argnums = 0, *, has_aux: Literal[True]
) -> Callable[Params, tuple[Tree, Aux]]: ...
@with_argument_checks
def grad(f: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes the gradient of `f` with respect to selected arguments.

    `f` returns a scalar or, with `has_aux`, a pair of a scalar and auxiliary data. `argnums`
    selects positional arguments: an int gives one gradient, a sequence gives a tuple. Arguments may
    be trees; a leaf inside one that is not float or complex has the gradient `None`.

    >>> pb.grad(lambda x: (x ** 3).sum())(pb.tensor([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """

    @boundary
    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        _, aux, g = _grad_of_scalar("grad", f, argnums, has_aux, args, kwargs)
        return (g, aux) if has_aux else g

    return gradient


@overload
def value_and_grad(
    f: Callable[Params, Scalar], argnums: Argnums = 0, has_aux: Literal[False] = False
) -> Callable[Params, tuple[Tensor, Tree]]: ...
@overload
def value_and_grad(
    f: Callable[Params, tuple[Scalar, Aux]], argnums: Argnums = 0, *, has_aux: Literal[True]
) -> Callable[Params, tuple[tuple[Tensor, Aux], Tree]]: ...
@with_argument_checks
def value_and_grad(f: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes the value of `f` and its gradient in one forward pass.

    The arguments are those of `grad`. With `has_aux`, the value is the pair that `f` returns.

    >>> y, g = pb.value_and_grad(lambda x: x * x)(pb.tensor(3.0))
    >>> y.item(), g.item()
    (9.0, 6.0)
    """

    @boundary
    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        y, aux, g = _grad_of_scalar("value_and_grad", f, argnums, has_aux, args, kwargs)
        return ((y, aux) if has_aux else y), g

    return both


def _grad_of_scalar(
    name: str, f: Callable, argnums: Argnums, has_aux: bool, args: tuple, kwargs: dict[str, Any]
) -> tuple[Tensor, Any, Tree]:
    """The value of `f`, its auxiliary data and the gradient."""
    selected = recorded_argnums(name, argnums, len(args))
    with RecordingTransform(args, kwargs):
        recording = Recording(name, f, args, kwargs, selected)
        with recording.derivative:
            value, aux = split_grad_aux(name, recording.result, has_aux)
            y = _grad_loss(name, value)
            found = gradients([y._node], [ones(y._node.type)], recording.inputs)
            grads = recording.gradients(found)
    y, aux = recording.hand_out((y, aux))
    return y, aux, grads[0] if isinstance(argnums, int) else tuple(grads)


def split_grad_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """The value and the auxiliary data that a function returned."""
    if has_aux and (not isinstance(result, tuple) or len(result) != 2):
        what = "with has_aux=True the function must return a pair (value, aux)"
        raise ArgumentError(f"{name}: {what}")
    return result if has_aux else (result, None)


def _grad_loss(name: str, value: Tree) -> Tensor:
    """The scalar that the function returned, as a tensor."""
    tensors, _ = recorded_outputs(name, value)
    if len(tensors) != 1 or tensors[0].shape != ():
        got = ", ".join(str(t._node.type) for t in tensors) or "nothing"
        message = f"{name}: the function must return one scalar, got {got}"
        raise UnsupportedShape(message, hint=_grad_result_hint(tensors))
    y = tensors[0]
    if not y.dtype.is_float:
        message = f"{name}: the function must return a real float, got {y._node.type}"
        hint = "Take the real part of a complex result; cast an integer result."
        raise NonDifferentiableInput(message, hint=hint)
    return y


def _grad_result_hint(tensors: Sequence[Tensor]) -> str:
    """What to write instead of a function that does not return one scalar."""
    if not tensors:
        return "It returned None or an empty tree: is a `return` missing?"
    if len(tensors) > 1 and tensors[0].shape == ():
        return "Pass has_aux=True if the first is the value and the rest is auxiliary data."
    return "Reduce the result with .sum() or .mean(), or use pb.vjp or pb.jacobian for any shape."
