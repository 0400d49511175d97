"""Linear maps at a point: vector-Jacobian, Jacobian-vector and Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from pullback import tree
from pullback.api.grad import grad, split_grad_aux
from pullback.api.recording import (
    Recording,
    RecordingTransform,
    deliver_from_recording,
    recorded_outputs,
)
from pullback.api.signatures import Aux, Params, Result, Scalar, Tree
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_function_argument,
    with_argument_checks,
)
from pullback.graph.boundary import boundary
from pullback.graph.node import Node
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import zeros_like
from pullback.transforms.forward import forward_tangents
from pullback.transforms.reverse import gradients

Pullback = Callable[[Tree], tuple[Tree, ...]]


@overload
def vjp(  # type: ignore[overload-overlap]
    f: Callable[..., tuple[Result, Aux]], *xs: Tree, has_aux: Literal[True], **kwargs: Any
) -> tuple[Result, Pullback, Aux]: ...
@overload
def vjp(
    f: Callable[Params, Result], *xs: Params.args, **kwargs: Params.kwargs
) -> tuple[Result, Pullback]: ...
def vjp(f: Callable, *xs: Tree, has_aux: bool = False, **kwargs: Any) -> tuple:  # type: ignore[misc]
    """Return `f(*xs)` and its pullback, which maps a cotangent of the result to those of `xs`.

    With `has_aux`, `f` returns a pair of the result and auxiliary data, which is returned third.

    >>> y, pull = pb.vjp(lambda x: x * x, pb.tensor([1.0, 2.0]))
    >>> pull(pb.tensor([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    has_aux = checked_flag_argument("vjp", has_aux, "has_aux")
    checked_function_argument("vjp", f, "f")
    with RecordingTransform(xs, kwargs):
        recording = Recording("vjp", f, xs, kwargs, range(len(xs)))
    result, aux = split_grad_aux("vjp", recording.result, has_aux)
    ys, structure = recorded_outputs("vjp", result)
    nodes = [y._node for y in ys]  # now: the user may write to the handles later

    @boundary
    def pull(cotangent: Tree) -> tuple[Tree, ...]:
        with RecordingTransform(cotangent):
            gs = matching_vjp_jvp_derivatives("pull", cotangent, structure, ys)
            found = gradients(nodes, gs, recording.inputs)
            return tuple(recording.gradients(found))

    value, aux = recording.hand_out((tree.unflatten(structure, ys), aux))
    return (value, pull, aux) if has_aux else (value, pull)


@overload
def jvp(  # type: ignore[overload-overlap]
    f: Callable[..., tuple[Result, Aux]], xs: Sequence[Tree], ts: Sequence[Tree], *,
    has_aux: Literal[True], **kwargs: Any,
) -> tuple[Result, Result, Aux]: ...  # fmt: skip
@overload
def jvp(
    f: Callable[..., Result], xs: Sequence[Tree], ts: Sequence[Tree], **kwargs: Any
) -> tuple[Result, Result]: ...
@with_argument_checks
def jvp(
    f: Callable, xs: Sequence[Tree], ts: Sequence[Tree], *, has_aux: bool = False, **kwargs: Any
) -> tuple:
    """Return `f(*xs)` and the tangent of the result for the tangents `ts` of `xs`.

    Tangents of leaves inside trees that are not float or complex are `None`. With `has_aux`, `f`
    returns a pair of the result and auxiliary data, which is returned third.

    >>> y, t = pb.jvp(lambda x: x * x, (pb.tensor(3.0),), (pb.tensor(1.0),))
    >>> y.item(), t.item()
    (9.0, 6.0)
    """
    with RecordingTransform(xs, ts, kwargs):
        y, push, *aux = _linearize("jvp", f, _vjp_arguments("jvp", xs), kwargs, has_aux)
        return y, push(*_vjp_arguments("jvp", ts)), *aux


@overload
def linearize(  # type: ignore[overload-overlap]
    f: Callable[..., tuple[Result, Aux]], *xs: Tree, has_aux: Literal[True], **kwargs: Any
) -> tuple[Result, Callable[..., Result], Aux]: ...
@overload
def linearize(
    f: Callable[Params, Result], *xs: Params.args, **kwargs: Params.kwargs
) -> tuple[Result, Callable[..., Result]]: ...
@with_argument_checks  # type: ignore[misc]
def linearize(f: Callable, *xs: Tree, has_aux: bool = False, **kwargs: Any) -> tuple:
    """Return `f(*xs)` and the derivative of `f` there, a linear function of tangents.

    With `has_aux`, `f` returns a pair of the result and auxiliary data, which is returned third.

    >>> y, lin = pb.linearize(lambda x: x * x, pb.tensor(3.0))
    >>> lin(pb.tensor(2.0)).item()
    12.0
    """
    return _linearize("linearize", f, xs, kwargs, has_aux)


def _linearize(
    name: str, f: Callable, xs: Sequence[Tree], kwargs: dict[str, Any], has_aux: bool
) -> tuple:
    with RecordingTransform(xs, kwargs):
        recording = Recording(name, f, xs, kwargs, range(len(xs)))
    result, aux = split_grad_aux(name, recording.result, has_aux)
    ys, structure = recorded_outputs(name, result)
    nodes = [y._node for y in ys]

    @boundary
    def push(*ts: Tree) -> Any:
        with RecordingTransform(ts):
            given = matching_vjp_jvp_derivatives(
                name, list(ts), recording.in_tree, recording.leaves
            )
            found = forward_tangents(nodes, recording.inputs, [t for t in given if t is not None])
            pairs = zip(nodes, found, strict=True)
            made = [
                deliver_from_recording(zeros_like(y.type) if t is None else t) for y, t in pairs
            ]
            return tree.unflatten(structure, made)

    value, aux = recording.hand_out((tree.unflatten(structure, ys), aux))
    return (value, push, aux) if has_aux else (value, push)


@with_argument_checks
def hvp(
    f: Callable[..., Scalar], xs: Sequence[Tree], vs: Sequence[Tree], **kwargs: Any
) -> tuple[Tree, ...]:
    """Return the product of the Hessian of a scalar function with a vector.

    It is computed forward over reverse, without forming the Hessian.

    >>> x, v = pb.tensor([1.0, 2.0]), pb.tensor([1.0, 1.0])
    >>> pb.hvp(lambda x: (x ** 3).sum(), (x,), (v,))[0].tolist()
    [6.0, 12.0]
    """
    xs = _vjp_arguments("hvp", xs)
    gradient = grad(f, tuple(range(len(xs))))
    return jvp(lambda *args: gradient(*args, **kwargs), xs, _vjp_arguments("hvp", vs))[1]


def _vjp_arguments(name: str, xs: Any) -> tuple:
    if not isinstance(xs, (tuple, list)):
        must = "arguments must be a tuple with one entry per argument of the function"
        hint = f"Write pb.{name}(f, (x,), (t,)) for a function of one argument."
        raise ArgumentError(f"{name}: {must}, got {type(xs).__name__}", hint=hint)
    return tuple(xs)


def matching_vjp_jvp_derivatives(
    name: str, given: Tree, structure: Any, like: Sequence[Tensor | None]
) -> list[Node | None]:
    """The tangents or cotangents of `like`, the leaves of a tree.

    Those of leaves that are not float or complex count for nothing: `None` may stand for them.
    """
    wanted = [x for x in like if x is not None and x.dtype.is_inexact]
    carries = [x is not None and x.dtype.is_inexact for x in like]
    if len(wanted) == len(like):
        return list(matching_jvp_tangents(name, given, structure, wanted))
    needed = tree.flatten(tree.unflatten(structure, [0 if c else None for c in carries]))[1]
    leaves, got = tree.flatten(given)
    if got == structure:
        given = tree.unflatten(needed, [x for x, c in zip(leaves, carries, strict=True) if c])
    nodes = iter(matching_jvp_tangents(name, given, needed, wanted))
    return [next(nodes) if c else None for c in carries]


def matching_jvp_tangents(
    name: str, given: Tree, structure: Any, like: Sequence[Tensor]
) -> list[Node]:
    """The leaves of `given`, which must have the tree, shapes and dtypes of `like`."""
    leaves, got = tree.flatten(given)
    if got != structure:
        shown = (
            f"expected {tree.show_tree_structure(structure)}, got {tree.show_tree_structure(got)}"
        )
        raise ArgumentError(f"{name}: trees must agree, {shown}", hint="* stands for a leaf.")
    nodes = []
    for leaf, want in zip(leaves, like, strict=True):
        made = asarray(leaf)
        expected = f"expected {want._node.type}, got {made._node.type}"
        if made.shape != want.shape:
            raise ArgumentError(f"{name}: shapes must agree, {expected}")
        if made.dtype.is_complex and not want.dtype.is_complex:
            raise ArgumentError(f"{name}: a real value needs a real derivative, {expected}")
        nodes.append(node_of(asarray(made, dtype=want.dtype)))
    return nodes
