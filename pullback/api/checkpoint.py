"""checkpoint: recompute values in the backward pass instead of keeping them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from pullback import tree
from pullback.api.checkpoint_policies import CheckpointPolicy, nothing_saved
from pullback.api.custom_arguments import is_custom_array_argument
from pullback.api.placeholders import stage_on_placeholders
from pullback.api.signatures import ArrayLike, Params, Result
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.record import record, record_several
from pullback.lazy.tensor import Tensor
from pullback.ops.wrap.call import inline_call_nodes
from pullback.ops.wrap.checkpoint import Checkpoint, Named


@overload
def checkpoint(
    f: Callable[Params, Result], policy: CheckpointPolicy = nothing_saved
) -> Callable[Params, Result]: ...
@overload
def checkpoint(
    f: None = None, policy: CheckpointPolicy = nothing_saved
) -> Callable[[Callable[Params, Result]], Callable[Params, Result]]: ...
@with_argument_checks
def checkpoint(f: Callable | None = None, policy: CheckpointPolicy = nothing_saved) -> Callable:
    """Return a function that recomputes its intermediate values in the backward pass.

    Until then only arguments and results are kept, and the values that the policy selects:
    `pb.checkpoint_policies.dots_saved` keeps the results of products, `names_saved("a", "b")` the
    values marked with `pb.checkpoint_name`. The function runs on placeholders; tensors from
    outside that it uses get gradients. Also a decorator: `@pb.checkpoint`, or
    `@pb.checkpoint(policy=...)`.

    >>> block = pb.checkpoint(lambda x: pb.sin(pb.sin(x)))
    >>> pb.grad(lambda x: block(x).sum())(pb.tensor([0.0])).tolist()
    [1.0]
    """
    if f is None:
        return functools.partial(checkpoint, policy=policy)
    if not isinstance(policy, CheckpointPolicy):
        message = f"checkpoint: policy must be from pb.checkpoint_policies, got {policy!r}"
        hint = "Write pb.checkpoint(f)(x)." if isinstance(policy, Tensor) else None
        raise ArgumentError(message, hint=hint)
    name = getattr(f, "__name__", "function")

    @boundary
    @functools.wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        nodes = [node_of(asarray(x)) if is_custom_array_argument(x) else None for x in leaves]
        given = [x if n is None else n.type for x, n in zip(leaves, nodes, strict=True)]
        staged = stage_on_placeholders("checkpoint", f, given, in_tree, numbers=True, frozen=False)
        op = Checkpoint(name, inline_call_nodes(staged.graph), policy.dots, policy.names)
        operands = (*[n for n in nodes if n is not None], *staged.captured)
        return tree.unflatten(staged.structure, record_several(op, operands))

    return checkpointed


@with_argument_checks
def checkpoint_name(x: ArrayLike, name: str) -> Tensor:
    """Return `x` under a name for `checkpoint_policies.names_saved`.

    >>> pb.checkpoint_name(pb.tensor([1.0]), "hidden").tolist()
    [1.0]
    """
    if not isinstance(name, str):
        raise ArgumentError(f"checkpoint_name: name must be a string, got {type(name).__name__}")
    return record(Named(name), (node_of(asarray(x)),))
