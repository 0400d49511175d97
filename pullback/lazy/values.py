"""Values of nodes: buffers of an engine, or marks while a program computes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.engines import fork
from pullback.engines.engine_registry import registered_engine
from pullback.engines.mesh import ValueOnMesh
from pullback.errors import EngineError
from pullback.graph.node import Node
from pullback.lazy import runtime_checks


class ValueInFlight:
    """The value of a node whose program was started or is being compiled."""

    def __init__(self) -> None:
        self.over = False
        self._depth = fork.depth
        self._running = threading.Lock()  # created ten times as fast as an Event
        self._running.acquire()

    def finish(self) -> None:
        self.over = True
        self._running.release()

    def wait(self) -> None:
        """Wait until the program was started, or failed to start."""
        if self._depth != fork.depth:
            fork.refuse_after_fork("reading a value that another thread was computing")
        with self._running:
            pass


class DeferredValue:
    """The value of a leaf that NumPy computes when it is first needed.

    An engine may make it itself if all elements are one number, `fill`.
    """

    __slots__ = ("_array", "_make", "fill")

    def __init__(self, make: Callable[[], np.ndarray], fill: np.ndarray | None = None) -> None:
        self._make, self.fill = make, fill
        self._array: np.ndarray | None = None

    def array(self) -> np.ndarray:
        """Return the array, which nothing may write to; the same one each time."""
        if self._array is None:
            array = np.require(self._make(), requirements=["C", "A"])
            array.flags.writeable = False
            self._array = array
        return self._array


def leaf_value_buffer(on: Any, leaf: Node) -> Any:
    """Return the value of a leaf as a buffer of an engine, copied there if necessary."""
    value = leaf.value
    if isinstance(value, DeferredValue) and value.fill is not None and hasattr(on, "fill"):
        filled = leaf.value = on.fill(value.fill, leaf.type, value.array)
        return filled
    value = settled_value(leaf)
    if on.owns(value):
        return value
    if leaf.type.sharding is not None or not hasattr(on, "copies"):
        value = leaf.value = on.put(value_to_host(valid_value(leaf)), leaf.type)
        return value
    # A value on no mesh stays where it is; the mesh keeps copies of it
    copy = on.copies.get(leaf)
    if copy is None:
        copy = on.copies[leaf] = on.put(value_to_host(valid_value(leaf)), leaf.type)
    return copy


def awaited_value(node: Node) -> Any:
    """Return the value of a node, after waiting while another thread computes it."""
    while isinstance(value := node.value, ValueInFlight):
        value.wait()
    if isinstance(value, DeferredValue):
        value = node.value = value.array()
    return value


def settled_value(node: Node) -> Any:
    """Return the buffer of a node. Wait while another thread computes it, raise if that failed."""
    value = awaited_value(node)
    if isinstance(value, runtime_checks.RuntimeFailure):
        raise value.error()
    if value is None:
        raise EngineError("a value that it depends on could not be computed", where=node.where)
    return value


def valid_value(node: Node) -> Any:
    """Return the buffer of a node for the host; raise if a check that it depends on failed."""
    value = settled_value(node)
    if not runtime_checks.any_suspects():
        return value
    runtime_checks.examine_runtime_checks(node)
    return settled_value(node)


def wait_for_value(node: Node) -> None:
    """Return when the devices have computed a node; raise if a check that it depends on failed."""
    value = valid_value(node)
    if isinstance(value, np.ndarray):
        return
    if isinstance(value, ValueOnMesh):
        value.wait()
    else:
        registered_engine("xla").client.wait(value)


def value_to_host(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    gathered = getattr(value, "gathered", None)
    return registered_engine("xla").get(value) if gathered is None else gathered()
