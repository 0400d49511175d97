"""The disk cache: later processes compile nothing, and bad files cannot harm them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT

import pullback as pb
from pullback.engines.xla import disk_cache as disk
from pullback.engines.xla.disk_cache import DiskCache

pytestmark = pytest.mark.usefixtures("cold_disk")

HEADER = 84
AT_HEADER = {"magic": 0, "format": 8, "key": 12, "length": 44, "checksum": 52}

# A gradient; a sort, which XLA cannot serialise after a run; a compiled loop with donated state.
PROGRAM = """
import json, sys
import numpy as np
import pullback as pb
def loss(w, x):
    return (pb.tanh(x @ w) ** 2).mean()
x = pb.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
w = pb.tensor(np.linspace(2, 3, 8, dtype=np.float32).reshape(4, 2))
value, gradient = pb.value_and_grad(loss)(w, x)
values = [value.numpy(), gradient.numpy(), pb.sort(x * -1, axis=0).numpy()]
loop = pb.compile(lambda s, xs: pb.scan(lambda s, x: (pb.sin(s + x), s), s, xs), donate_argnums=0)
values += [v.numpy() for v in loop(pb.tensor([0.5, 1, 2, 3]), x)]
info = pb.cache_info()
print(json.dumps({
    "compiles": info.compiles, "hits": info.disk_hits, "misses": info.disk_misses,
    "bits": [v.tobytes().hex() for v in values],
}))
"""
PROGRAMS = 3


def start(code: str, folder: Any = None, **environment: str) -> subprocess.Popen:
    """Start a Python process with its cache in `folder`, or as `environment` says."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PULLBACK_CACHE")}
    kept.pop("TF_CPP_MIN_LOG_LEVEL", None)  # our own choice, made again in the new process
    kept["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's threads, which Python warns of when it forks
    if folder is not None:
        kept["PULLBACK_CACHE_DIR"] = str(folder)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdout=pipe, stderr=pipe, text=True,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def finish(process: subprocess.Popen) -> tuple[dict, str]:
    """Return what a process printed as JSON, and its log."""
    out, log = process.communicate(timeout=300)
    assert process.returncode == 0, log
    return json.loads(out), log


def run(code: str, folder: Any = None, **environment: str) -> tuple[dict, str]:
    return finish(start(code, folder, **environment))


def counts(result: dict) -> tuple[int, int, int]:
    return result["compiles"], result["hits"], result["misses"]


def entries(folder: Any) -> list[Path]:
    return sorted(Path(folder).glob("*.xla"))


COLD, WARM = (PROGRAMS, 0, PROGRAMS), (0, PROGRAMS, 0)


# -- processes ------------------------------------------------------------------------------------


def test_a_warm_process_compiles_nothing(tmp_path):
    cold, log = run(PROGRAM, tmp_path, PYTHONHASHSEED="1")
    assert counts(cold) == COLD and log == ""
    assert len(entries(tmp_path)) == PROGRAMS

    warm, log = run(PROGRAM, tmp_path, PYTHONHASHSEED="2")
    assert counts(warm) == WARM and log == ""
    assert warm["bits"] == cold["bits"]

    renamed = PROGRAM.replace("loss", "error").replace("x @ w", "x @ w  # a comment\n   ")
    warm, _ = run(f"# other lines\n\n{renamed}", tmp_path)
    assert counts(warm) == WARM and warm["bits"] == cold["bits"]

    changed, _ = run(PROGRAM.replace("tanh", "sin"), tmp_path)
    assert counts(changed) == (1, PROGRAMS - 1, 1)


def test_four_processes_at_once_lose_nothing(tmp_path):
    together = [finish(p) for p in [start(PROGRAM, tmp_path) for _ in range(4)]]
    for result, log in together:
        assert log == "" and result["compiles"] + result["hits"] == PROGRAMS
        assert result["bits"] == together[0][0]["bits"]
    assert [p.suffix for p in tmp_path.iterdir()] == [".xla"] * PROGRAMS
    assert counts(run(PROGRAM, tmp_path)[0]) == WARM


def test_the_cache_can_be_turned_off(tmp_path):
    result, log = run(PROGRAM, tmp_path / "none", PULLBACK_CACHE="0")
    assert counts(result) == (PROGRAMS, 0, 0) and log == ""
    assert not (tmp_path / "none").exists()


def test_size_zero_turns_the_cache_off(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PULLBACK_CACHE_SIZE", "0")
    disk.use_disk_cache(None)
    assert compute().compiles == 1 and compute().disk_hits == 0
    assert not (tmp_path / "none").exists()


def test_the_default_is_the_users_cache_directory(tmp_path):
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    code = "import os; os.umask(0)\n" + PROGRAM
    assert counts(run(code, **home)[0]) == COLD
    folder = tmp_path / ".cache" / "pullback"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(p.stat().st_mode) for p in entries(folder)] == [0o600] * PROGRAMS

    home["XDG_CACHE_HOME"] = str(tmp_path / "elsewhere")
    assert counts(run(PROGRAM, **home)[0]) == COLD
    assert len(entries(tmp_path / "elsewhere" / "pullback")) == PROGRAMS


def test_importing_does_not_touch_the_cache(tmp_path):
    code = (
        "import json, sys, pullback\n"
        "names = ['pullback.engines.xla.disk_cache', 'pullback.engines.xla.machine', 'jaxlib']\n"
        "print(json.dumps([n for n in names if n in sys.modules]))"
    )
    assert run(code, tmp_path / "none")[0] == []
    assert not (tmp_path / "none").exists()


FEATURES = """
import json
from pullback.engines.xla.client import Client
client = Client("cpu")
sine = "%y = stablehlo.sine %x : tensor<2xf32> return %y : tensor<2xf32>"
main = f"func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ {sine} }}"
code = client.compile(f"module @m {{ {main} }}", []).serialise()
other = code.replace(b"+sse4.2", b"+sse9.9")
print(json.dumps([other != code, client.load(other, []) is not None]))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="changes the name of a feature of x86")
def test_xlas_errors_about_the_processor_are_not_printed():
    """XLA logs false errors about features of the processor."""
    assert run(FEATURES) == ([True, True], "")
    _, log = run(FEATURES, TF_CPP_MIN_LOG_LEVEL="2")
    assert "+sse9.9" in log, "there is something to hide"


# -- files that cannot be trusted -----------------------------------------------------------------


def compute() -> Any:
    """Run a program that is not in memory."""
    pb.clear_cache()
    value = (pb.tensor([1.0, 2.0, 4.0]) * 3 + 1).numpy()
    np.testing.assert_array_equal(value, [4.0, 7.0, 13.0])
    return pb.cache_info()


def only_entry(cache: DiskCache) -> Path:
    (path,) = entries(cache.directory)
    return path


def healed(cache: DiskCache, path: Path, bad: bytes) -> None:
    """Check that the program is compiled once, and its file replaced."""
    info = compute()
    assert (info.compiles, info.disk_hits, info.disk_misses) == (1, 0, 1)
    assert only_entry(cache) == path and path.read_bytes() != bad
    info = compute()
    assert (info.compiles, info.disk_hits, info.disk_misses) == (0, 1, 0)


def flipped(content: bytes, at: int) -> bytes:
    at %= len(content)
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


@pytest.mark.parametrize(
    "at", [*AT_HEADER.values(), HEADER - 1, HEADER, HEADER + 1, 1000, -1], ids=str
)
def test_one_flipped_bit_is_repaired(cold_disk, at, caplog):
    compute()
    path = only_entry(cold_disk)
    bad = flipped(path.read_bytes(), at)
    path.write_bytes(bad)
    healed(cold_disk, path, bad)
    assert caplog.records == []


@pytest.mark.parametrize("length", [0, 1, HEADER - 1, HEADER, HEADER + 1, 2000, -1])
def test_a_truncated_file_is_repaired(cold_disk, length):
    compute()
    path = only_entry(cold_disk)
    bad = path.read_bytes()[:length]
    path.write_bytes(bad)
    healed(cold_disk, path, bad)


def test_extra_bytes_are_repaired(cold_disk):
    compute()
    path = only_entry(cold_disk)
    bad = path.read_bytes() + b"\0"
    path.write_bytes(bad)
    healed(cold_disk, path, bad)


def test_the_file_of_another_program_is_refused(cold_disk):
    compute()
    path = only_entry(cold_disk)
    pb.clear_cache(disk=True)
    assert entries(cold_disk.directory) == []
    (pb.tensor([1.0, 2.0, 4.0]) * 3 - 1).numpy()  # the same types, another program
    bad = only_entry(cold_disk).read_bytes()
    only_entry(cold_disk).rename(path)
    healed(cold_disk, path, bad)


def test_another_format_is_refused(cold_disk):
    compute()
    path = only_entry(cold_disk)
    good = path.read_bytes()
    bad = good[:8] + struct.pack("<I", disk.FORMAT + 1) + good[12:]
    path.write_bytes(bad)
    healed(cold_disk, path, bad)


def test_a_file_that_xla_rejects_is_repaired(cold_disk):
    compute()
    path = only_entry(cold_disk)
    cold_disk.write(bytes.fromhex(path.stem), b"not an executable")
    healed(cold_disk, path, path.read_bytes())


def test_a_link_is_not_followed(cold_disk, tmp_path):
    compute()
    path = only_entry(cold_disk)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    healed(cold_disk, path, b"")
    assert not path.is_symlink()


# -- who may write to it --------------------------------------------------------------------------


def the_only_line(log: str, *words: str) -> None:
    assert len(log.splitlines()) == 1, log
    for word in (*words, "PULLBACK_CACHE_DIR", "PULLBACK_CACHE=0"):
        assert word in log


def test_a_directory_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o770)
    result, log = run(PROGRAM, tmp_path)
    assert counts(result)[:2] == (PROGRAMS, 0)
    the_only_line(log, str(tmp_path), "written to by others", "chmod go-w")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
def test_every_way_for_others_to_write_is_refused(tmp_path, caplog, mode):
    tmp_path.chmod(mode)
    disk.use_disk_cache(DiskCache(str(tmp_path)))
    assert compute().compiles == compute().compiles == 1
    the_only_line(caplog.text, str(tmp_path), "written to by others")
    assert list(tmp_path.iterdir()) == []


def test_an_entry_that_others_can_write_to_turns_the_cache_off(cold_disk, caplog):
    compute()
    only_entry(cold_disk).chmod(0o620)
    assert compute().compiles == 1 and not cold_disk.on
    the_only_line(caplog.text, "written to by others")
    assert compute().compiles == 1
    the_only_line(caplog.text, "written to by others")


@pytest.mark.parametrize("place", ["directory", "entry"])
def test_files_of_another_user_are_refused(cold_disk, monkeypatch, caplog, place):
    compute()
    if place == "directory":
        cold_disk.checked = False
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    info = compute()
    assert (info.compiles, info.disk_hits) == (1, 0) and not cold_disk.on
    the_only_line(caplog.text, "belongs to another user")


# -- disks that fail ------------------------------------------------------------------------------


def test_a_full_disk_does_not_fail_the_program(tmp_path):
    """The system refuses to write files larger than 1,000 bytes."""
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    )
    # A GPU's driver writes files of its own.
    result, log = run(code + PROGRAM, tmp_path, PULLBACK_PLATFORM="cpu")
    assert counts(result) == COLD
    the_only_line(log, "writing", str(tmp_path))
    assert list(tmp_path.iterdir()) == [], "no unfinished file stays"


# Modules that Python loads late must be loaded before: another user cannot read root's files.
READ_ONLY = """
import os, logging
from pullback.engines.xla import disk_cache as disk
if os.geteuid() == 0:  # nothing is read-only to the superuser
    disk.use_disk_cache(disk.DiskCache(None))
    pb.value_and_grad(lambda x: pb.sort(x).sum())(pb.tensor([1.0]))[0].numpy()
    pb.clear_cache()
    disk.use_disk_cache(None)
    os.seteuid(65534)
def loss"""


def test_a_read_only_directory_can_still_be_read():
    folder = Path(tempfile.mkdtemp(prefix="pullback-read-only-"))
    try:
        assert counts(run(PROGRAM, folder)[0]) == COLD
        if os.geteuid() == 0:
            for path in (folder, *folder.iterdir()):
                os.chown(path, 65534, -1)
        folder.chmod(0o500)
        result, log = run(PROGRAM.replace("def loss", READ_ONLY), folder)
        assert counts(result) == WARM and log == ""

        changed = PROGRAM.replace("tanh", "sin").replace("def loss", READ_ONLY)
        result, log = run(changed, folder)
        assert counts(result) == (1, PROGRAMS - 1, 1)
        the_only_line(log, "writing", str(folder))
        assert len(list(folder.iterdir())) == PROGRAMS
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_directory_that_cannot_be_created_is_logged_once(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result, log = run(PROGRAM, tmp_path / "file" / "cache")
    assert counts(result)[:2] == (PROGRAMS, 0)
    the_only_line(log, str(tmp_path / "file" / "cache"))


def test_a_removed_directory_is_created_again(cold_disk):
    compute()
    shutil.rmtree(cold_disk.directory)
    assert compute().compiles == 1
    assert compute().disk_hits == 1


# -- many writers ---------------------------------------------------------------------------------

KILLED = """
import json, os, random, signal, time
from pullback.engines.xla.disk_cache import DiskCache, disk_key

cache = DiskCache(os.environ["PULLBACK_CACHE_DIR"])
keys = [disk_key([b"%d" % i]) for i in range(4)]

def payload(i):
    return b"%d" % i * 200_000

def write_for_ever():
    while True:
        for i, key in enumerate(keys):
            cache.write(key, payload(i))

found = lost = 0
chance = random.Random(0)
for trial in range(200):
    for key in keys[:trial % 5]:
        cache.forget(key)  # some trials write where nothing is, some over what is there
    child = os.fork()
    if child == 0:
        write_for_ever()
    time.sleep(chance.uniform(0, 0.006))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for i, key in enumerate(keys):
        there = os.path.exists(cache._path(key))
        read = cache.read(key)
        found += read == payload(i)
        lost += there and read != payload(i)
unfinished = sum(name.endswith(".tmp") for name in os.listdir(cache.directory))
print(json.dumps({"found": found, "lost": lost, "unfinished": unfinished}))
"""


def test_killed_while_writing_200_times_loses_nothing(tmp_path):
    result, log = run(KILLED, tmp_path)
    assert log == "" and result["lost"] == 0
    assert result["found"] > 100 and result["unfinished"] > 0, "some were killed while writing"
    cache = DiskCache(str(tmp_path))
    cache.make_room()
    unfinished = list(tmp_path.glob("*.tmp"))
    assert len(unfinished) == result["unfinished"], "a writer may still be at work"
    for path in unfinished:
        os.utime(path, (0, time.time() - 2 * 3600))
    cache.make_room()
    assert list(tmp_path.glob("*.tmp")) == []


TOGETHER = """
import json, os
from pullback.engines.xla.disk_cache import DiskCache, disk_key

cache = DiskCache(os.environ["PULLBACK_CACHE_DIR"])
key, good = disk_key([b"one"]), (b"a" * 300_000, b"b" * 100_000)
wrong = 0
for i in range(500):
    cache.write(key, good[i % 2])
    wrong += cache.read(key) not in good
print(json.dumps({"wrong": wrong}))
"""


def test_two_versions_share_a_directory(cold_disk, monkeypatch):
    for turn in range(3):
        for version in (1, 2):
            monkeypatch.setattr(disk, "FORMAT", version)
            pb.clear_cache()
            assert (pb.tensor([1.0, 2.0]) * 3 + 1).tolist() == [4.0, 7.0]
            assert pb.cache_info().disk_hits == (turn > 0), "each finds its own, and only that"
    assert len(list(Path(cold_disk.directory).iterdir())) == 2


def test_two_processes_writing_one_key_never_disturb_each_other(tmp_path):
    for result, log in [finish(p) for p in [start(TOGETHER, tmp_path) for _ in range(2)]]:
        assert log == "" and result["wrong"] == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_threads_share_the_cache(cold_disk):
    results: list[Any] = []

    def work(n: int) -> None:
        for size in range(1, 6):
            x = pb.tensor(np.arange(size, dtype=np.float32))
            results.append((np.arange(size) + n == (x + n).numpy()).all())

    with pb.config(cache_bytes=1):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert results == [True] * 20 and len(entries(cold_disk.directory)) == 5


# -- information ----------------------------------------------------------------------------------


def test_cache_info_counts_disk_hits(cold_disk):
    info = compute()
    assert (info.misses, info.compiles, info.disk_hits, info.disk_misses) == (1, 1, 0, 1)
    assert info.disk_bytes == only_entry(cold_disk).stat().st_size
    assert info.memory_bytes >= info.disk_bytes
    info = compute()
    assert (info.misses, info.compiles, info.disk_hits, info.disk_misses) == (1, 0, 1, 0)
    pb.clear_cache(disk=True)
    assert pb.cache_info().disk_bytes == pb.cache_info().memory_bytes == 0


def test_the_reference_engine_leaves_the_disk_alone(cold_disk):
    with pb.config(engine="reference"):
        info = compute()
    assert (info.compiles, info.disk_hits, info.disk_misses, info.disk_bytes) == (1, 0, 0, 0)
