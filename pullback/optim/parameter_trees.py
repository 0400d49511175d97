"""Trees of parameters: which leaves an optimizer changes, and what belongs to each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError
from pullback.functions.creation import full
from pullback.functions.sharding import reshard
from pullback.functions.where_take import where
from pullback.graph.argument_checks import shown_argument
from pullback.graph.derivative_tokens import LeafDerivativeToken
from pullback.graph.dtypes import DType, float32
from pullback.lazy.host_data import asarray
from pullback.lazy.record import record_as_constant, register, wrap
from pullback.lazy.tensor import Tensor
from pullback.sharding.spec import P, Sharding
from pullback.tree_constants import constant_leaves
from pullback.tree_nodes import is_node, register_node_hint

# A tree of booleans, or of one for each subtree of the parameters; or a function of a path
Mask = Any
_CONSTANTS = (bool, int, str, bytes, np.generic)  # leaves that no derivative reaches


def parameter_leaf_types(values: object) -> str:
    """The types of the tensors in a tree, those of many in short."""
    types = [str(x._node.type) if isinstance(x, Tensor) else "?" for x in tree.leaves(values)]
    return ", ".join(types) if len(types) <= 4 else f"{len(types)} tensors, {types[0]} ..."


def is_tree_parameter(leaf: Any, path: str = "") -> bool:
    """Whether a leaf is changed by optimizers; the others come back as they are.

    Refuse numbers and arrays that were probably meant to be tensors.
    """
    if isinstance(leaf, Tensor):
        return leaf.dtype.is_inexact
    kind = getattr(getattr(leaf, "dtype", None), "kind", "")
    if (kind and kind in "biu") or isinstance(leaf, _CONSTANTS) or callable(leaf):
        return False
    message = (
        f"optim: a parameter must be a tensor, got {type(leaf).__name__} at {path or 'the root'}"
    )
    raise ArgumentError(message, hint=register_node_hint(leaf))


def which_tree_parameters(params: object) -> list[bool]:
    """Return for each leaf of a tree whether it is a parameter."""
    leaves = tree.leaves(params)
    if all(isinstance(x, Tensor) for x in leaves):
        found = [x.dtype.is_inexact for x in leaves]
    else:
        found = [
            is_tree_parameter(x, path) for x, path in zip(leaves, tree.paths(params), strict=True)
        ]
    return [f and not c for f, c in zip(found, constant_leaves(params), strict=True)]


def require_parameters(params: object, rule: str) -> None:
    """Refuse a tree whose leaves no optimizer would change."""
    found = which_tree_parameters(params)
    if found and not any(found):
        raise ArgumentError(
            f"{rule}: params must hold at least one float or complex tensor, got "
            f"{parameter_leaf_types(params)}"
        )


def parameter_tree_parts(structure: Any, other: object, name: str) -> list[Any]:
    """Return what a tree has at each leaf of the parameters: a leaf, or None."""
    leaves, found = tree.flatten(other)
    if found == structure:
        return leaves
    try:
        parts = structure.flatten_up_to(other)
    except ValueError:
        parts = []
        if not _add_parameter_tree_parts(structure, found, iter(leaves), parts):
            parts = None
    if parts is None or not all(p is None or tree.structure(p).is_leaf() for p in parts):
        wanted, got = tree.show_tree_structure(structure), tree.show_tree_structure(found)
        message = f"update: {name} must have the tree structure of params, {wanted}, got {got}"
        frozen = "If parameters were frozen or released since `init`, call it again."
        raise ArgumentError(message, hint=frozen if "Constant(" in wanted + got else None)
    return parts


def _add_parameter_tree_parts(
    wanted: Any, found: Any, leaves: Iterator[Any], parts: list[Any]
) -> bool:
    """Add the parts of a tree whose static data differ, such as a module's mode of training.

    Return whether there are no other differences.
    """
    if wanted.type is None:
        fits = found.type in (None, type(None))
        parts.append(next(leaves) if fits and found.type is None else None)
        return fits
    if found.type is not wanted.type or found.entries() != wanted.entries():
        return False
    children = zip(wanted.children(), found.children(), strict=True)
    return all(_add_parameter_tree_parts(a, b, leaves, parts) for a, b in children)


def parameter_tree_gradients(
    structure: Any, grads: object, leaves: Sequence[Any]
) -> list[Tensor | None]:
    """Return the gradient of each leaf, None where there is none."""
    found: list[Tensor | None] = []
    for leaf, grad in zip(leaves, parameter_tree_parts(structure, grads, "grads"), strict=True):
        if grad is None or not is_tree_parameter(leaf):
            found.append(None)
            continue
        grad = grad if isinstance(grad, Tensor) else asarray(grad)
        if grad.shape != leaf.shape:
            path = parameter_tree_paths(structure)[len(found)] or "the root"
            raise ArgumentError(
                f"update: the gradient of a parameter must have its shape, {list(leaf.shape)}, "
                f"got {list(grad.shape)} at {path}"
            )
        found.append(grad)
    return found


def parameter_tree_paths(structure: Any) -> list[str]:
    return tree.paths(tree.unflatten(structure, range(structure.num_leaves)))


def parameter_tree_values(given: Any, params: object, name: str) -> list[Any]:
    """Return the value for each leaf: from a function of its path, or from a tree above it."""
    if callable(given) and not is_node(type(given)):  # a module is a tree
        return [given(path) for path in tree.paths(params)]
    found = tree.broadcast_prefix(given, params)
    if found is None:
        wanted, got = (
            tree.show_tree_structure(tree.structure(params)),
            tree.show_tree_structure(tree.structure(given)),
        )
        raise ArgumentError(
            f"{name} must be a function of the path, or a tree like params, {wanted}, got {got}",
            hint="A value may also stand for a whole subtree of the parameters.",
        )
    return found


def decayed_tree_parameters(mask: Mask, params: object, count: int) -> list[bool]:
    """Return for each leaf whether its weights decay."""
    if mask is None:
        return [True] * count
    found = parameter_tree_values(mask, params, "optim: mask")
    for value in found:
        if not isinstance(value, (bool, np.bool_)):
            raise ArgumentError(
                f"optim: a value of mask must be True or False, got {shown_argument(value)}"
            )
    return [bool(value) for value in found]


def parameter_tree_dtype(dtype: DType) -> DType:
    """Return the dtype of a step's computation and slots: f32 for half precision."""
    return float32 if dtype.is_float and dtype.bits < 32 else dtype


def cast_tree_parameter(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else x.astype(dtype)


def parameter_tree_slot(
    p: Tensor, is_real: bool = False, fill: float = 0.0, whole: int | None = None
) -> Any:
    """Return a slot that is filled with a number, sharded like the parameter.

    Its size along the axis `whole` is 1. It is a computed value, not a pending one, so that steps
    1 and 2 run the same program.
    """
    dtype, shape = parameter_tree_dtype(p.dtype), list(p.shape)
    if whole is not None:
        shape[whole] = 1
    with np.errstate(over="ignore"):
        slot = full(shape, fill, dtype.real if is_real else dtype)
    if p.sharding is None:
        return slot
    axes = list(p.sharding.spec) + [None] * (len(shape) - len(p.sharding.spec))
    if whole is None:
        return reshard(slot, p.sharding)
    axes[whole] = None
    return reshard(slot, Sharding(p.sharding.mesh, P(*axes)))


def parameter_tree_count(params: Sequence[Any]) -> Tensor:
    """Return a count of 0 on the parameters' mesh, so that a step is one program."""
    tensors = [p for p in params if isinstance(p, Tensor)]
    meshes = {p.sharding.mesh for p in tensors if p.sharding is not None}
    count = asarray(np.int32(0))
    return reshard(count, meshes.pop(), P()) if len(meshes) == 1 else count


def parameter_tree_requires_leaves(leaves: Sequence[Any]) -> bool:
    """Whether some of the parameters are leaves that require a gradient."""
    return any(isinstance(x, Tensor) and x._token is not None for x in leaves)


def renewed_parameter_leaf(old: Any, new: Any) -> Any:
    """Return the new value as a leaf that requires a gradient, if the old one was such a leaf.

    It stays pending: it is computed when it is used.
    """
    if new is old or not isinstance(old, Tensor) or old._token is None:
        return new
    made = wrap(record_as_constant(new._node))
    made._token = LeafDerivativeToken(made)
    if made._node.value is None:
        register(made)
    return made


def select_parameter_tree(condition: Tensor, new: Any, old: Any) -> Any:
    """Return the tensors of `new` if a condition holds, else those of `old`."""
    leaves, structure = tree.flatten(new)
    chosen = [
        a if a is b or not isinstance(a, Tensor) else where(condition, a, b)
        for a, b in zip(leaves, parameter_tree_parts(structure, old, "state"), strict=True)
    ]
    return tree.unflatten(structure, chosen)
