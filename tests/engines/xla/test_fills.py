"""Arrays of one number: a GPU is given a large one once, and copies it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla import client as xla_client
from pullback.graph.dtypes import bfloat16, float32
from pullback.graph.types import Type


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The types of what is transferred to a client that is treated like a GPU's."""
    xla: Any = registered_engine("xla")
    made: list[Any] = []
    put = xla.client.put

    def counted(array: np.ndarray, type: Type) -> Any:
        made.append(type)
        return put(array, type)

    monkeypatch.setattr(xla.client, "platform", "cuda")
    monkeypatch.setattr(xla.client, "put", counted)
    monkeypatch.setattr(xla_client, "_LARGE", 1024)
    return made


def fill(number: Any, type: Type) -> Any:
    xla: Any = registered_engine("xla")
    return xla.fill(number, type, lambda: np.full(type.shape, number))


def read(buffer: Any) -> np.ndarray:
    xla: Any = registered_engine("xla")
    return xla.get(buffer)


def test_a_large_array_is_transferred_once(transfers: list[Any]) -> None:
    large, small = Type((32, 32), float32), Type((2, 2), float32)
    kept = [fill(np.float32(2), t) for t in (large, small, large, small)]
    assert transfers == [large, small, small]
    for buffer in kept:
        assert (read(buffer) == 2).all()
    # Another number or dtype, also one with the same bits
    fill(np.float32(-0.0), large)
    fill(np.float32(0.0), large)
    fill(np.zeros((), bfloat16.numpy), Type((32, 32), bfloat16))
    assert len(transfers) == 6


def test_what_was_donated_or_freed_is_no_source(transfers: list[Any]) -> None:
    type = Type((32, 32), float32)
    first = fill(np.float32(3), type)
    first.delete()
    second = fill(np.float32(3), type)
    assert len(transfers) == 2 and (read(second) == 3).all()
    del first, second
    assert (read(fill(np.float32(3), type)) == 3).all()
    assert len(transfers) == 3


def test_states_of_optimizers_are_filled(transfers: list[Any]) -> None:
    params = [pb.ones((40, 40)) for _ in range(3)]
    state = pb.optim.adam(1e-3).init(params)
    pb.wait(pb.tree.map(lambda x: x + 1, (params, state)))
    assert transfers.count(Type((40, 40), float32)) == 2  # ones and zeros
