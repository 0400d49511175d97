"""`pb.evaluate`: compute tensors now."""

from __future__ import annotations

from typing import Any

from pullback import tree
from pullback.lazy.host_reads import require_values
from pullback.lazy.pending import compute_pending
from pullback.lazy.tensor import Tensor


def evaluate(*tensors: Any) -> None:
    """Start computing tensors (or trees of them) now, in one program where they are related.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0])
    >>> y, z = x + 1, x * 2
    >>> pb.evaluate(y, z)
    """
    nodes = [t._node for t in tree.leaves(tensors) if isinstance(t, Tensor)]
    require_values("evaluate", nodes)
    compute_pending(nodes)
