"""Gradients of scalar functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.recording import Recording, Transform, normal_argnums, outputs
from pullback.errors import ArgumentError, NonDifferentiableInput, UnsupportedShape
from pullback.ops.prelude import ones
from pullback.transforms.reverse import gradients


def grad(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """The function that gives the gradient of `f` by the arguments that `argnums` names.

    `f` returns a scalar, or with `has_aux` a pair of a scalar and anything else.

    >>> import pullback as pb
    >>> pb.grad(lambda x: (x ** 3).sum())(pb.tensor([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    both = value_and_grad(f, argnums, has_aux, _name="grad")

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def value_and_grad(
    f: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    _name: str = "value_and_grad",
) -> Callable:
    """Like `grad`, but gives the value as well: both share one forward pass.

    >>> import pullback as pb
    >>> y, g = pb.value_and_grad(lambda x: x * x)(pb.tensor(3.0))
    >>> y.item(), g.item()
    (9.0, 6.0)
    """

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        chosen = normal_argnums(_name, argnums, len(args))
        with Transform():
            recording = Recording(_name, f, args, kwargs, chosen)
            with recording.derivative:
                value, aux = recording.result, None
                if has_aux:
                    value, aux = split_aux(_name, value)
                y = _scalar(_name, value)
                found = gradients([y._node], [ones(y._node.type)], recording.inputs)
                grads = recording.gradients(found)
        g = grads[0] if isinstance(argnums, int) else tuple(grads)
        y, aux = recording.hand_out((y, aux))
        return ((y, aux) if has_aux else y), g

    return both


def split_aux(name: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"{name}: with has_aux=True the function must return a pair (value, aux)",
        )
    return result


def _scalar(name: str, value: Any) -> Any:
    """The scalar that the function returned, as a tensor."""
    tensors, _ = outputs(name, value)
    if len(tensors) != 1 or tensors[0].shape != ():
        got = ", ".join(str(t._node.type) for t in tensors) or "nothing"
        raise UnsupportedShape(
            f"{name}: the function must return one scalar, got {got}",
            hint=_advice(tensors),
        )  # fmt: skip
    y = tensors[0]
    if not y.dtype.is_float:
        raise NonDifferentiableInput(
            f"{name}: the function must return a real float, got {y._node.type}",
            hint="Take the real part of a complex result; cast an integer one.",
        )  # fmt: skip
    return y


def _advice(tensors: list[Any]) -> str:
    """What to write instead of a function that does not return one scalar."""
    if not tensors:
        return "It returned None or an empty tree: is a `return` missing?"
    if len(tensors) > 1 and tensors[0].shape == ():
        return "Pass has_aux=True if the first is the value and the rest goes along with it."
    return (
        "Reduce the result with .sum() or .mean(), or use pb.vjp or pb.jacobian for results of "
        "any shape."
    )
