"""Whole Jacobians and Hessians, one basis vector after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pullback.api.function import differentiable, normal_argnums
from pullback.api.linear import linearize, vjp
from pullback.ir.dtypes import DType
from pullback.tensor import tree
from pullback.tensor.creation import from_host
from pullback.tensor.tensor import Tensor


def jacrev(f: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """The Jacobian by reverse mode: good when `f` has few results.

    A leaf of the result and a leaf of an argument give a block of shape result + argument.

    >>> import pullback as pb
    >>> pb.jacrev(lambda x: x * x)(pb.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        g, xs, put = _by_chosen("jacrev", f, argnums, args, kwargs)
        y, pull = vjp(g, *xs)
        ys, structure = tree.flatten(y)
        blocks = []
        for i, leaf in enumerate(ys):
            rows = []
            for e in basis(leaf):
                gs = [e if j == i else _zeros(z) for j, z in enumerate(ys)]
                rows.append(pull(tree.unflatten(structure, gs)))
            blocks.append(put(_stack(rows, xs, lambda x, leaf=leaf: leaf.shape + x.shape)))
        return tree.unflatten(structure, blocks)

    return jacobian


def jacfwd(
    f: Callable, argnums: int | Sequence[int] = 0, _name: str = "jacfwd"
) -> Callable:
    """The Jacobian by forward mode: good when `f` has few arguments.

    >>> import pullback as pb
    >>> pb.jacfwd(lambda x: x * x)(pb.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        g, xs, put = _by_chosen(_name, f, argnums, args, kwargs)
        y, push = linearize(g, *xs)
        leaves, in_tree = tree.flatten(list(xs))
        columns = []  # for each input leaf, the tangents of all results
        for i, leaf in enumerate(leaves):
            found = []
            for e in basis(leaf):
                ts = [e if j == i else _zeros(x) for j, x in enumerate(leaves)]
                found.append(push(*tree.unflatten(in_tree, ts)))
            columns.append(found)
        ys, structure = tree.flatten(y)
        blocks = []
        for k, out in enumerate(ys):
            per_input = [
                _stacked([tree.leaves(t)[k] for t in found], -1, out.shape + leaf.shape, out.dtype)
                for leaf, found in zip(leaves, columns, strict=True)
            ]
            blocks.append(put(tree.unflatten(in_tree, per_input)))
        return tree.unflatten(structure, blocks)

    return jacobian


def jacobian(f: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """The Jacobian of `f`, by reverse mode.

    >>> import pullback as pb
    >>> pb.jacobian(lambda x: x.sum())(pb.tensor([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return jacrev(f, argnums)


def hessian(f: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """The matrix of second derivatives: forward over reverse.

    >>> import pullback as pb
    >>> pb.hessian(lambda x: (x ** 3).sum())(pb.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(f, argnums), argnums, _name="hessian")


def basis(x: Tensor) -> Iterator[Tensor]:
    """The unit vectors of the space that `x` lives in."""
    for i in range(x.size):
        e = np.zeros(x.size, x.dtype.numpy)
        e[i] = 1
        yield from_host(e.reshape(x.shape))


def _zeros(x: Tensor) -> Tensor:
    return from_host(np.zeros(x.shape, x.dtype.numpy))


def _by_chosen(
    name: str, f: Callable, argnums: int | Sequence[int], args: Sequence[Any], kwargs: dict
) -> tuple[Callable, list, Callable]:
    """`f` as a function of the chosen arguments alone, and how results for them are laid out."""
    chosen = normal_argnums(name, argnums, len(args))

    def g(*xs: Any) -> Any:
        new = list(args)
        for i, x in zip(chosen, xs, strict=True):
            new[i] = x
        return f(*new, **kwargs)

    def put(per_argument: Sequence[Any]) -> Any:
        return per_argument[0] if isinstance(argnums, int) else tuple(per_argument)

    xs = [args[i] for i in chosen]
    leaves, structure = tree.flatten(xs)
    checked = [differentiable(name, x, i, xs) for i, x in enumerate(leaves)]
    return g, tree.unflatten(structure, checked), put


def _stack(rows: list[Any], xs: Sequence[Any], shape: Callable) -> list[Any]:
    """Rows (one tree per basis vector) as one tree of stacked leaves."""
    leaves, structure = tree.flatten(list(xs))
    per_leaf = zip(*[tree.leaves(row) for row in rows], strict=True)
    if not rows:
        per_leaf = iter([()] * len(leaves))  # type: ignore[assignment]
    made = [_stacked(list(r), 0, shape(x), x.dtype) for r, x in zip(per_leaf, leaves, strict=True)]
    return tree.unflatten(structure, made)


def _stacked(parts: list[Tensor], axis: int, shape: tuple[int, ...], dtype: DType) -> Tensor:
    from pullback.tensor.functions import reshape, stack, zeros

    return reshape(stack(parts, axis=axis), shape) if parts else zeros(shape, dtype=dtype)
