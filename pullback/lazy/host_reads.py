"""Host reads: what may be read on the host, and which reads cut a derivative.

A value that is read is a constant from then on. Reads that mean one number or none (`x.item()`,
`bool(x)`, `print(x)`) are free. While a derivative runs, others are refused or warned about, and
so are conversions that the user did not write, such as those of `math` and NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.engines.engine_registry import engine_spans_processes
from pullback.engines.mesh import mesh_for_engine
from pullback.errors import GradientCut, GradientCutWarning, HostReadError
from pullback.graph.ambient import thread
from pullback.graph.node import Node
from pullback.graph.source_lines import stack_level, user_line
from pullback.lazy.collect import collect_pending_ancestors
from pullback.lazy.pending import compute_pending
from pullback.lazy.settings import current
from pullback.lazy.values import valid_value, value_to_host
from pullback.ops.sources import Input

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


def read_on_host(tensor: Tensor) -> np.ndarray:
    """Return the value of a tensor on the host, read-only, whatever derivative it cuts."""
    array = value_to_host(buffer_for_host_read(tensor))
    array.setflags(write=False)
    return array


def buffer_for_host_read(tensor: Tensor) -> Any:
    """Return the buffer of a tensor, computed and checked."""
    node = tensor._node
    require_host_values("reading a value", [node])
    for token in node.tokens:
        if token.alive and not token.leaf and token.running:
            token.reads.append(user_line())
    if node.value is None:
        _forbid_reading_alone(node)
        compute_pending([node])
    return valid_value(node)


def has_value(tensor: Tensor) -> bool:
    """Whether the value can be shown: a placeholder, and what depends on one, has none."""
    node = tensor._node
    return not thread.frozen and (node.value is not None or not unknown_to_host(node))


_CHOICES = (
    "Choose between values with pb.where(p, x, y), between computations with pb.cond(p, f, g, x),\n"
    "and repeat one with pb.while_loop."
)
_COUNTS = "Loop with pb.fori_loop or pb.scan; sizes and shapes must be known numbers."
_OUTSIDE = "Return the tensor and read it outside, or compute the value before the trace."
_CUT_HINTS = {
    "conversion to a NumPy array": " A list of tensors is joined by pb.array([x, y])\nor "
    "pb.r_[x, y]; NumPy's array, r_ and c_, and its functions of lists, read the values."
}
_HINTS = {"bool": _CHOICES, "int": _COUNTS, "index": _COUNTS}


def require_host_values(what: str, nodes: Sequence[Node]) -> None:
    """Raise if a function runs on placeholders and the values are unknown or would be frozen."""
    if not thread.tracing_from:
        return
    if any(n.value is None and unknown_to_host(n) for n in nodes):
        raise HostReadError(
            f"{what}: a function is being traced on placeholders, whose values do not exist yet",
            hint=_HINTS.get(what, _OUTSIDE),
        )
    if thread.frozen:
        raise HostReadError(
            f"{what}: a function is being traced on placeholders, and a value that is read now "
            "would stay the same whenever its program runs",
            hint="Use the tensor itself, pass it as an argument, or read it before the trace.",
        )


def unknown_to_host(node: Node) -> bool:
    """Whether a pending node depends on a placeholder."""
    return any(type(n.op) is Input for n in collect_pending_ancestors([node]))


def _forbid_reading_alone(node: Node) -> None:
    """Raise if the program of a node must be started by several processes."""
    if engine_spans_processes(current(), mesh_for_engine([node.type])):
        raise HostReadError(
            f"reading a value: {node.type} is not computed yet, and its devices belong to several "
            "processes",
            hint="Call pb.evaluate(x) on every process first: `if rank == 0: print(x)` would wait "
            "for the other processes forever.",
        )


def refuse_host_read_cut(tensor: Tensor, what: str) -> None:
    """Raise if a derivative runs and would be lost where the value of the tensor is used."""
    if tensor._node.tokens:
        require_host_values(what, [tensor._node])  # the better error inside a trace
        if read_cuts_derivative(tensor):
            raise GradientCut(
                f"{what}: {tensor._node.type} depends on an argument of a derivative in progress, "
                "and what is computed from its value would have no derivative",
                hint="Use pullback functions on the tensor itself. Write x.detach() first if the "
                "value is meant to\nbe a constant, or x.item() to read one number."
                + _CUT_HINTS.get(what, ""),
            )


def warn_of_cut(tensor: Tensor, what: str) -> None:
    """Warn if a tensor is converted and its derivative, or a later `backward()`, is lost there."""
    if tensor._node.tokens and tensor._token is None:
        require_host_values(what, [tensor._node])
        if read_cuts_derivative(tensor) or read_cuts_backward(tensor):
            warnings.warn(
                f"{what} reads the value of a tensor that is being differentiated: what is "
                "computed from it has no derivative. Use a pullback function, or write x.item() "
                "or x.detach() if a constant is meant.",
                GradientCutWarning,
                stacklevel=stack_level(),
            )


def read_cuts_derivative(tensor: Tensor) -> bool:
    """Whether a derivative runs that is lost where the value is used.

    A trace only notes the read, since it may never be differentiated.
    """
    node = tensor._node
    if not node.type.inexact or not current().grad_enabled:
        return False
    running = [t for t in node.tokens if t.alive and not t.leaf and t.running]
    for token in running:
        if token.traces:
            token.cuts.append((user_line(), node))
    return any(not t.traces for t in running)


def read_cuts_backward(tensor: Tensor) -> bool:
    """Whether a leaf that requires a gradient is lost where the value is used.

    The gradients that a `backward()` computes are constants, so its rules may read anything.
    """
    if not tensor._node.type.inexact or not current().grad_enabled or not thread.leaf_tokens:
        return False
    return tensor._token is not None or any(t.leaf and t.alive for t in tensor._node.tokens)
