"""Memory that large values have freed is kept for the next ones."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc",
    reason="memory is kept through mallopt, which only glibc has with these parameters",
)

# Prints the page faults of ten large results, and the megabytes that are left when all are freed.
PROGRAM = """
import resource, time
import pullback as pb

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

x = pb.wait(pb.ones(12_000_000))  # 48 MB
f = pb.compile(lambda x: x[::-1] + 1)
for _ in range(50):
    pb.wait(f(x))
before = faults()
for _ in range(10):
    pb.wait(f(x))
made = faults() - before
del x
time.sleep(0.2)  # XLA's threads may still hold a result
with open("/proc/self/statm") as file:
    left = int(file.read().split()[1]) * resource.getpagesize() // 10**6
print(made, left)
"""


def faults_and_rest(kept: str) -> list[int]:
    environment = {**os.environ, "PULLBACK_KEEP_MEMORY": kept, "PULLBACK_PLATFORM": "cpu"}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
        timeout=120, check=True,
    )  # fmt: skip
    return [int(word) for word in found.stdout.split()]


def test_results_take_memory_that_was_kept() -> None:
    pages = 48_000_000 // os.sysconf("SC_PAGE_SIZE")
    kept, rest = faults_and_rest("512M")
    returned, least = faults_and_rest("0")
    assert kept < 2 * pages  # of ten results
    assert returned > 9 * pages
    assert rest < least + 1024


def test_blocks_beyond_the_limit_are_returned() -> None:
    _, least = faults_and_rest("0")
    _, rest = faults_and_rest("40M")
    assert rest < least + 60
