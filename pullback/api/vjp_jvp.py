"""Linear maps at a point: pullbacks, pushforwards and Hessian products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.grad import grad, split_aux
from pullback.api.recording import Recording, Transform, deliver, outputs
from pullback.errors import ArgumentError
from pullback.graph.node import Node
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.ops.prelude import zeros_like
from pullback.transforms.forward import tangents
from pullback.transforms.reverse import gradients


def vjp(f: Callable, *xs: Any, has_aux: bool = False, **kwargs: Any) -> Any:
    """`f(*xs)` and its pullback: a function from cotangents of the result to those of `xs`.

    >>> import pullback as pb
    >>> y, pull = pb.vjp(lambda x: x * x, pb.tensor([1.0, 2.0]))
    >>> pull(pb.tensor([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    with Transform():
        recording = Recording("vjp", f, xs, kwargs, range(len(xs)))
    result, aux = split_aux("vjp", recording.result) if has_aux else (recording.result, None)
    ys, structure = outputs("vjp", result)
    nodes = [y._node for y in ys]  # the handles are the user's from now on

    def pull(cotangent: Any) -> tuple:
        with Transform():
            gs = _matching("pull", cotangent, structure, ys)
            found = gradients(nodes, gs, recording.inputs)
            return tuple(recording.gradients(found))

    value, aux = recording.hand_out((tree.unflatten(structure, ys), aux))
    return (value, pull, aux) if has_aux else (value, pull)


def jvp(f: Callable, xs: Sequence[Any], ts: Sequence[Any], **kwargs: Any) -> tuple[Any, Any]:
    """`f(*xs)` and the tangent of its result along `ts`.

    >>> import pullback as pb
    >>> y, t = pb.jvp(lambda x: x * x, (pb.tensor(3.0),), (pb.tensor(1.0),))
    >>> y.item(), t.item()
    (9.0, 6.0)
    """
    with Transform():
        y, push = _linearize("jvp", f, _arguments("jvp", xs), kwargs)
        return y, push(*_arguments("jvp", ts))


def linearize(f: Callable, *xs: Any, **kwargs: Any) -> tuple[Any, Callable]:
    """`f(*xs)` and its derivative there, a linear function of tangents.

    >>> import pullback as pb
    >>> y, lin = pb.linearize(lambda x: x * x, pb.tensor(3.0))
    >>> lin(pb.tensor(2.0)).item()
    12.0
    """
    return _linearize("linearize", f, xs, kwargs)


def _linearize(name: str, f: Callable, xs: Sequence[Any], kwargs: dict) -> tuple[Any, Callable]:
    with Transform():
        recording = Recording(name, f, xs, kwargs, range(len(xs)))
    ys, structure = outputs(name, recording.result)
    nodes = [y._node for y in ys]

    def push(*ts: Any) -> Any:
        with Transform():
            given = _matching(name, list(ts), recording.in_tree, recording.tensors)
            found = tangents(nodes, recording.inputs, given)
            made = [
                deliver(zeros_like(y.type) if t is None else t)
                for y, t in zip(nodes, found, strict=True)
            ]
            return tree.unflatten(structure, made)

    return recording.hand_out(tree.unflatten(structure, ys)), push


def hvp(f: Callable, xs: Sequence[Any], vs: Sequence[Any], **kwargs: Any) -> tuple:
    """The Hessian of a scalar function times a vector: forward over reverse.

    >>> import pullback as pb
    >>> x, v = pb.tensor([1.0, 2.0]), pb.tensor([1.0, 1.0])
    >>> pb.hvp(lambda x: (x ** 3).sum(), (x,), (v,))[0].tolist()
    [6.0, 12.0]
    """
    xs = _arguments("hvp", xs)
    gradient = grad(f, tuple(range(len(xs))))
    return jvp(lambda *args: gradient(*args, **kwargs), xs, _arguments("hvp", vs))[1]


def _arguments(name: str, xs: Any) -> tuple:
    if not isinstance(xs, (tuple, list)):
        raise ArgumentError(
            f"{name}: arguments come as a tuple, one entry per argument of the function, got "
            f"{type(xs).__name__}",
            hint=f"Write pb.{name}(f, (x,), (t,)) for a function of one argument.",
        )
    return tuple(xs)


def _matching(name: str, given: Any, structure: Any, like: Sequence[Any]) -> list[Node]:
    """The leaves of `given`, which must have the tree, shapes and dtypes of `like`."""
    leaves, got = tree.flatten(given)
    if got != structure:
        shown = f"expected {tree.show(structure)}, got {tree.show(got)}"
        raise ArgumentError(f"{name}: trees must agree, {shown}")
    nodes = []
    for leaf, want in zip(leaves, like, strict=True):
        made = asarray(leaf)
        if made.shape != want.shape:
            raise ArgumentError(
                f"{name}: shapes must agree, expected {want._node.type}, got {made._node.type}",
            )
        if made.dtype.is_complex and not want.dtype.is_complex:
            raise ArgumentError(
                f"{name}: a real value needs a real one beside it, expected {want._node.type}, got "
                f"{made._node.type}",
            )
        nodes.append(node_of(asarray(made, dtype=want.dtype)))
    return nodes
