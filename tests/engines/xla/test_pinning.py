"""The threads of XLA's pool are pinned to cores of the process, if the environment says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import pullback as pb
from pullback.engines.xla import pinning

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such masks")

# Confined to the cores given as an argument, it prints the masks of the pool and of this thread.
PROGRAM = """
import json, os, sys
os.sched_setaffinity(0, json.loads(sys.argv[1]))
import pullback as pb
from pullback.engines.xla.pinning import threads_to_pin
(pb.ones((4, 4)) @ pb.ones((4, 4))).wait()
masks = [sorted(os.sched_getaffinity(t)) for t in threads_to_pin()]
print(json.dumps([masks, sorted(os.sched_getaffinity(0))]))
"""


@pytest.mark.parametrize("confined", [False, True])
def test_one_core_for_each_thread(confined: bool) -> None:
    cores = sorted(os.sched_getaffinity(0))
    cores = cores[-1:] if confined else cores
    pinned = {"PULLBACK_PIN_THREADS": "1", "PULLBACK_THREADS": "2", "PULLBACK_PLATFORM": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(cores)],
        env={**os.environ, **pinned}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    masks, own = json.loads(run.stdout)
    assert own == cores  # Python's own threads may run everywhere
    assert len(masks) == 2 and all(len(mask) == 1 for mask in masks)
    assert {mask[0] for mask in masks} == set(pinning.cores_to_pin(cores)[:2])


@pytest.mark.usefixtures("on_cpu")
def test_threads_are_not_pinned_by_default() -> None:
    (pb.ones(2) + 1).wait()
    threads = pinning.threads_to_pin()
    assert threads
    if "PULLBACK_PIN_THREADS" not in os.environ:
        masks = {frozenset(os.sched_getaffinity(t)) for t in threads}
        assert masks == {frozenset(os.sched_getaffinity(0))}


def test_physical_cores_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "_pinned_core_siblings", lambda core: str(core // 2))
    assert pinning.cores_to_pin([0, 1, 2, 3, 5]) == [0, 2, 5, 1, 3]
