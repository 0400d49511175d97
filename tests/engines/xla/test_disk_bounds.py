"""The cache directory stays within its bound; keys include all that code depends on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from pullback.engines import byte_sizes as sizes
from pullback.engines.environment import environment_variable
from pullback.engines.xla import client, machine
from pullback.engines.xla import disk_cache as disk
from pullback.engines.xla.disk_cache import DiskCache, disk_key
from pullback.engines.xla.engine import XlaEngine
from pullback.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("cold_disk")

HEADER = 84  # bytes of a file before its content


# -- the bound ------------------------------------------------------------------------------------


def filled(folder: Path, count: int, limit: int) -> tuple[DiskCache, list[bytes]]:
    """A cache of entries of 1,000 bytes, each used an hour later than the one before."""
    cache, keys = DiskCache(str(folder), limit), [disk_key([b"%d" % i]) for i in range(count)]
    begin = time.time() - (count + 2) * 3600
    for i, key in enumerate(keys):
        cache.write(key, bytes(1000 - HEADER))
        if (path := Path(cache._path(key))).exists():
            os.utime(path, (begin + 3600 * i,) * 2)
    return cache, keys


def kept(cache: DiskCache, keys: list[bytes]) -> list[int]:
    return [i for i, key in enumerate(keys) if Path(cache._path(key)).exists()]


def test_the_least_recently_used_are_removed(tmp_path):
    cache, keys = filled(tmp_path, 5, limit=5000)
    assert kept(cache, keys) == [0, 1, 2, 3, 4] and cache.used() == 5000
    assert cache.read(keys[0]) is not None  # it is now the last used
    for i in (5, 6):
        cache.write(disk_key([b"%d" % i]), bytes(1000 - HEADER))
    assert kept(cache, keys) == [0, 3, 4] and cache.used() == 5000
    cache.write(disk_key([b"large"]), bytes(3500))
    assert kept(cache, keys) == [] or kept(cache, keys) == [0]
    assert cache.used() <= 5000
    cache.write(disk_key([b"too large"]), bytes(5000))
    assert cache.used() > 0, "what can never fit pushes nothing out"


def test_a_use_is_recorded_once_an_hour(tmp_path):
    cache, keys = filled(tmp_path, 1, limit=5000)
    path = Path(cache._path(keys[0]))
    cache.read(keys[0])
    noted = path.stat().st_mtime
    assert noted > time.time() - 60
    os.utime(path, (noted - 1000,) * 2)
    cache.read(keys[0])
    assert path.stat().st_mtime == noted - 1000


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_bytes(bytes(100_000))
    os.utime(tmp_path / "notes.txt", (0, 0))
    cache, keys = filled(tmp_path, 6, limit=3000)
    assert cache.used() == 3000 and kept(cache, keys) == [3, 4, 5]
    cache.clear()
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_large_directory_is_scanned_rarely(tmp_path, monkeypatch):
    """On average once for each 64th of the bound that is written."""
    cache = DiskCache(str(tmp_path), limit=6400 * 1000)
    looks: list[int] = []
    monkeypatch.setattr(cache, "make_room", lambda: looks.append(1))
    for i in range(1000):
        cache.write(disk_key([b"%d" % i]), bytes(1000 - HEADER))
    assert 4 <= len(looks) <= 20  # ten are expected


def test_the_bound_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PULLBACK_CACHE_SIZE", "3K")
    disk.use_disk_cache(None)
    assert disk.disk_cache().limit == 3072
    assert disk.disk_cache().directory == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("500M", 500 * 2**20), (" 2 GiB ", 2**31), ("1.5kb", 1536), (7, 7)],
)
def test_sizes_with_units(text, size):
    assert sizes.bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "nan", "inf", "1X", True])
def test_an_invalid_size_is_refused(text, monkeypatch):
    with pytest.raises(ValueError):  # noqa: PT011  (one error, many reasons)
        sizes.bytes_of(text)
    if text and isinstance(text, str):
        monkeypatch.setenv("PULLBACK_CACHE_SIZE", text)
        with pytest.raises(ArgumentError, match=f"PULLBACK_CACHE_SIZE must be .* got '{text}'"):
            environment_variable("PULLBACK_CACHE_SIZE", 5)


# -- the key --------------------------------------------------------------------------------------


def identity() -> bytes:
    return XlaEngine("cpu")._identity


CHANGES = {
    "jaxlib's version": (client.version, "__version__", "0.0.1"),
    "jaxlib's build": (client.version, "_git_hash", "0123"),
    "threads": (client, "THREADS", client.THREADS + 1),
    "the processor": (machine, "machine_processor", lambda: b"another"),
    "the library": (machine, "machine_library", lambda path: b"another"),
    "options": (client.compiler_options, "compile_options", lambda platform: _other_options()),
}


def _other_options() -> Any:
    options = client.xla_client.CompileOptions()
    options.executable_build_options.optimization_level = 1
    return options


@pytest.mark.parametrize("what", CHANGES)
def test_the_key_includes(what, monkeypatch):
    before = identity()
    assert identity() == before
    monkeypatch.setattr(*CHANGES[what])
    assert identity() != before


def test_the_key_includes_compiler_flags(monkeypatch):
    before = identity()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert identity() != before


def test_parts_of_a_key_are_separated():
    assert disk_key([b"ab", b"c"]) != disk_key([b"a", b"bc"]) != disk_key([b"abc"])


def test_a_rebuilt_library_changes_the_key(tmp_path):
    path = tmp_path / "library.so"
    seen = set()
    for content in (b"a" * 200_000, b"a" * 200_001, b"b" + b"a" * 199_999, b"a" * 199_999 + b"b"):
        path.write_bytes(content)
        seen.add(machine.machine_library(path))
    assert len(seen) == 4
    assert machine.machine_library(client._LIBRARY) not in seen | {
        machine.machine_library(tmp_path / "none")
    }


def test_the_processor_is_identified_by_its_instructions():
    known = machine.machine_processor()
    assert known == machine.machine_processor()
    if os.path.exists("/proc/cpuinfo"):
        assert b"flags" in known or b"Features" in known
