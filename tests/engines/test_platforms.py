"""Which devices there are: a plugin without a GPU, platforms that are not there."""

from __future__ import annotations

import pathlib

import pytest

from pullback.engines.xla import client
from pullback.errors import EngineError


@pytest.fixture
def blind(monkeypatch):
    """CUDA's plugin is installed, and sees no GPU."""

    def refuse(*_):
        raise RuntimeError("FAILED_PRECONDITION: No visible GPU devices.\nand more")

    monkeypatch.setattr(client, "_cuda_plugin", lambda: pathlib.Path("plugin.so"))
    monkeypatch.setattr(client, "_make_cuda_client", refuse)
    monkeypatch.delenv("PULLBACK_PLATFORM", raising=False)


def test_without_a_gpu_the_plugin_leaves_the_cpu(blind):
    with pytest.warns(UserWarning, match=r"no GPU can be used \(.*No visible GPU.*on the CPU"):
        made = client.Client()
    assert made.platform == "cpu"


def test_a_gpu_that_was_asked_for_must_be_there(blind):
    with pytest.raises(EngineError, match=r"no GPU can be used: .*No visible GPU devices") as told:
        client.Client("cuda")
    assert told.value.code == "E6002" and "and more" not in str(told.value)


def test_the_cpu_that_was_asked_for_needs_no_plugin(blind, monkeypatch):
    monkeypatch.setenv("PULLBACK_PLATFORM", "cpu")
    assert client.Client().platform == "cpu"


def test_a_platform_without_a_plugin_is_told(monkeypatch):
    monkeypatch.setattr(client, "_cuda_plugin", lambda: None)
    with pytest.raises(EngineError, match="plugin is not installed"):
        client.Client("cuda")
