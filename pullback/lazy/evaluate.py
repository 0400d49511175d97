"""`pb.evaluate` and `pb.wait`: compute tensors now."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from pullback import tree
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import require_host_values
from pullback.lazy.pending import compute_pending
from pullback.lazy.tensor import Tensor
from pullback.lazy.values import wait_for_value

T = TypeVar("T")


@overload
def evaluate(x: T, /) -> T: ...
@overload
def evaluate(*tensors: Any) -> tuple[Any, ...]: ...
def evaluate(*tensors: Any) -> Any:
    """Start computing tensors (or trees of them) now, in one program where they are related.

    Devices may still be computing when it returns; `pb.wait` waits for them. The result is the
    argument itself, or the tuple of several.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0])
    >>> y, z = pb.evaluate(x + 1, x * 2)
    >>> z.tolist()
    [2.0, 4.0]
    """
    _start_evaluation("evaluate", tensors)
    return tensors[0] if len(tensors) == 1 else tensors


@overload
def wait(x: T, /) -> T: ...
@overload
def wait(*tensors: Any) -> tuple[Any, ...]: ...
def wait(*tensors: Any) -> Any:
    """Compute tensors (or trees of them), and return them when their values are there.

    Errors that a program reports, such as an index out of range, are raised here. No value is
    copied to the host, so this is how to measure the time that a computation takes.

    >>> import pullback as pb
    >>> params = {"w": pb.ones((2, 2)), "b": pb.zeros(2)}
    >>> pb.wait(params)["w"].sum().wait().item()
    4.0
    """
    for tensor in _start_evaluation("wait", tensors):
        wait_for_value(tensor._node)
    return tensors[0] if len(tensors) == 1 else tensors


def _start_evaluation(name: str, trees: tuple[Any, ...]) -> list[Tensor]:
    """Start computing the tensors in trees, and return them."""
    found = [x for x in tree.leaves(trees) if isinstance(x, Tensor)]
    nodes = [x._node for x in found]
    require_host_values(name, nodes)
    compute_pending(nodes)
    return found


hooks.wait = wait
