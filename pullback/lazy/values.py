"""Values of nodes: buffers of an engine, on their way while a program computes them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from pullback.engines.registry import engine
from pullback.errors import EngineError
from pullback.graph.node import Node
from pullback.lazy import runtime_checks


class InFlight:
    """In place of a value: a program that computes it was started, or is being compiled."""

    def __init__(self) -> None:
        self.over = False
        self._running = threading.Lock()  # which is made ten times as fast as an Event
        self._running.acquire()

    def finish(self) -> None:
        self.over = True
        self._running.release()

    def wait(self) -> None:
        """Until the program was started, or could not be."""
        with self._running:
            pass


def argument(on: Any, leaf: Node) -> Any:
    """The value of a leaf as a buffer of an engine's; one that is elsewhere is brought there."""
    value = settled(leaf)
    if on.owns(value):
        return value
    if leaf.type.sharding is not None or not hasattr(on, "copies"):
        value = leaf.value = on.put(to_host(checked(leaf)), leaf.type)
        return value
    # A value that is on no mesh stays where it is: it has a copy on every device beside.
    copy = on.copies.get(leaf)
    if copy is None:
        copy = on.copies[leaf] = on.put(to_host(checked(leaf)), leaf.type)
    return copy


def arrived(node: Node) -> None:
    """Wait while another thread computes the node."""
    while isinstance(value := node.value, InFlight):
        value.wait()


def settled(node: Node) -> Any:
    """The node's buffer; waits while another thread computes it, raises if computing failed."""
    value = node.value
    while isinstance(value, InFlight):
        value.wait()
        value = node.value
    if isinstance(value, runtime_checks.Failed):
        raise value.error
    if value is None:
        raise EngineError("a value this one depends on could not be computed", where=node.where)
    return value


def checked(node: Node) -> Any:
    """The node's buffer, for the host to read: raises if a check that it depends on failed."""
    value = settled(node)
    if not runtime_checks.any_unchecked():
        return value
    runtime_checks.examine(node)
    return settled(node)


def to_host(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    gathered = getattr(value, "gathered", None)
    return engine("xla").get(value) if gathered is None else gathered()
