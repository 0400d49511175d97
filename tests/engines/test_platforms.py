"""Which devices there are: a plugin without a GPU, platforms that are not there."""

from __future__ import annotations

import pathlib

import pytest

from pullback.engines.xla import client
from pullback.errors import EngineError


@pytest.fixture
def blind(monkeypatch):
    """The CUDA plugin is installed but finds no GPU."""

    def refuse(*_):
        raise RuntimeError("FAILED_PRECONDITION: No visible GPU devices.\nand more")

    monkeypatch.setattr(client, "_cuda_client_plugin", lambda: pathlib.Path("plugin.so"))
    monkeypatch.setattr(client, "_make_cuda_client", refuse)
    monkeypatch.delenv("PULLBACK_PLATFORM", raising=False)


def test_without_a_gpu_the_plugin_falls_back_to_the_cpu(blind):
    with pytest.warns(UserWarning, match=r"no GPU can be used \(.*No visible GPU.*on the CPU"):
        made = client.Client()
    assert made.platform == "cpu"


def test_a_requested_gpu_must_exist(blind):
    with pytest.raises(EngineError, match=r"no GPU can be used: .*No visible GPU devices") as told:
        client.Client("cuda")
    assert told.value.code == "E6002" and "and more" not in str(told.value)


def test_a_requested_cpu_needs_no_plugin(blind, monkeypatch):
    monkeypatch.setenv("PULLBACK_PLATFORM", "cpu")
    assert client.Client().platform == "cpu"


def test_a_platform_without_a_plugin_raises(monkeypatch):
    monkeypatch.setattr(client, "_cuda_client_plugin", lambda: None)
    with pytest.raises(EngineError, match="plugin is not installed"):
        client.Client("cuda")
