"""What several test files need."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest

from pullback import testing, tree
from pullback.api.placeholders import stage_on_placeholders
from pullback.errors import PullbackError
from pullback.graph.graph import Graph, graph_ancestors, graphs_in_parameters
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.ops.prelude import Op, ones
from pullback.ops.sources import Input
from pullback.ops.traits import trait_communicates
from pullback.transforms.call_rules import start_called_rule_log
from pullback.transforms.reverse import gradients


class Opaque(Op, abstract=True):
    """An op without derivative rules; kept out of the table."""

    name: ClassVar[str] = "Opaque"
    differentiable: ClassVar[bool] = False

    def infer(self, x: Type) -> Type:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return x


# -- graphs ---------------------------------------------------------------------------------------


def array(*values: Any, dtype: Any = np.float64) -> np.ndarray:
    return np.array(values, dtype)


def vjp_graph(f: Callable, *arrays: np.ndarray) -> Graph:
    """From the arrays and the cotangents of f's results to the cotangents of the arrays."""
    return testing.linear_map(f, arrays)[1]


def pulled(f: Callable, *arrays: np.ndarray, g: Any = 1.0) -> list[np.ndarray]:
    """The gradients of f by each float array, with one cotangent `g` for the result."""
    graph = vjp_graph(f, *arrays)
    (seed,) = graph.inputs[len(arrays) :]
    g = np.broadcast_to(np.asarray(g, seed.type.dtype.numpy), seed.type.shape)
    with np.errstate(all="ignore"):
        return testing.run(graph, [*arrays, g])


def emitted(f: Callable, *arrays: np.ndarray) -> list[Node]:
    """The nodes that f's reverse-mode rules emitted and that its gradients need."""
    return [n for n in vjp_graph(f, *arrays).nodes if n.backward]


def names(nodes: Sequence[Node]) -> list[str]:
    return [n.op.name for n in nodes]


def gradient(y: Node, *xs: Node) -> list[Node | None]:
    """Gradients of the sum of `y`, under a fresh log of rules."""
    start_called_rule_log()
    return gradients([y], [ones(y.type)], xs)


def backward_nodes(found: Sequence[Node]) -> list[Node]:
    return [n for n in graph_ancestors(found) if n.backward]


def source(*shape: int, dtype: Any = None, name: str = "x") -> Node:
    from pullback.graph.dtypes import float64

    return Input(name, shape, dtype or float64)()


def random_dag(seed: int, ops: Sequence[Callable], depth: int = 30, width: int = 3) -> tuple:
    """Some inputs and one result; every node is used, many more than once."""
    rng = np.random.default_rng(seed)
    inputs = [source(3, name=f"x{i}") for i in range(width)]
    nodes = list(inputs)
    for _ in range(depth):
        a, b = (nodes[max(0, len(nodes) - 1 - int(k))] for k in rng.integers(0, 5, 2))
        nodes.append(ops[int(rng.integers(len(ops)))](a, b))
    out = nodes[-1]
    for n in nodes[:-1]:
        out = out + n
    return inputs, out


# -- counting -------------------------------------------------------------------------------------


def count_calls(monkeypatch: Any, owner: Any, name: str) -> list[tuple]:
    """The arguments of every call of `owner.name` from now on."""
    calls: list[tuple] = []
    original = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


# -- errors ---------------------------------------------------------------------------------------


def line(offset: int = 0) -> str:
    """`file:line` of the caller, as messages show it."""
    frame = sys._getframe(1)
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno + offset}"


@contextmanager
def told(error: type, builtin: type, *words: str, at: str | None = None) -> Iterator[Any]:
    """The block raises an error that is a PullbackError and a builtin, and says `words`.

    It names the innermost line of the test that was running when it was raised, or `at`.
    """
    with pytest.raises(error) as info:
        yield info
    raised: Any = info.value
    assert isinstance(raised, PullbackError), type(raised)
    assert isinstance(raised, builtin), f"{type(raised).__name__} is no {builtin.__name__}"
    text = str(raised)
    for word in words:
        assert word in text, f"{word!r} is not said in: {text}"
    wanted = at or _innermost(raised.__traceback__, sys._getframe(2).f_code.co_filename)
    assert str(raised.where) == wanted, f"told at {raised.where}, but written at {wanted}"
    assert f"({wanted})" in text, f"{wanted} is not in: {text}"


def _innermost(traceback: Any, file: str) -> str:
    """The last line of `file` on a traceback."""
    found = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            found = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{os.path.basename(file)}:{found}"


# -- programs on meshes ---------------------------------------------------------------------------


def staged(f: Callable, types: Sequence[Type]) -> Graph:
    """A function of tensors as a program; it may name numbers, but no tensors from outside."""
    leaves, in_tree = tree.flatten((tuple(types), {}))
    made = stage_on_placeholders("staged", f, leaves, in_tree)
    assert not made.captured
    return made.graph


def collectives(graph: Graph) -> Counter[str]:
    """How often a program for one device communicates, by name; a loop's body counts once."""
    found: Counter[str] = Counter()
    for node in graph.nodes:
        inner = graphs_in_parameters(node.op.parameters())
        for held in inner:
            found += collectives(held)
        if not inner and trait_communicates(node.op):
            found[node.op.name] += 1
    return found
