"""Every op with a kernel computes the same with it and without, on all processors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import WITH_KERNEL, KernelProgram, calls_kernel, cases, large_cases
from paths import ROOT, SUPPORT

from pullback.engines.xla.kernels import SETS, kernel_library

pytestmark = [
    pytest.mark.usefixtures("on_cpu"),
    pytest.mark.skipif(kernel_library() is None, reason="the kernels were not compiled"),
]


@pytest.mark.parametrize("name", WITH_KERNEL)
def test_kernels_compute_what_is_lowered_without_them(name):
    program = KernelProgram(list(cases(name)))
    program.check(program.run(kernels=True), program.reference())


@pytest.mark.parametrize("name", ["LayerNormalization", "LogSumExp", "SoftmaxGradient"])
def test_the_reference_is_what_xla_computes_without_kernels(name):
    program = KernelProgram([c for c in cases(name) if "special" in c[0]])
    program.check(program.run(kernels=False), program.reference())


# Runs kernel_cases on some of the cores.
ON_CORES = """
import os, runpy, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[2])])
runpy.run_path(sys.argv[3], run_name="__main__")
"""


def started(instructions: str, cores: int, path: Path) -> subprocess.Popen:
    """A process that writes what these instructions compute on some of the cores."""
    environment = {**os.environ, "PULLBACK_KERNELS": instructions, "PULLBACK_CACHE": "0"}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # the bits of operands that NumPy computes
    script = [str(path), str(cores), str(SUPPORT / "kernel_cases.py")]
    given = [sys.executable, "-W", "ignore", "-c", ON_CORES, *script]
    return subprocess.Popen(given, env=environment, cwd=ROOT)


def test_instruction_sets_agree_and_bits_do_not_depend_on_cores(tmp_path):
    library = kernel_library()
    assert library is not None
    best = library.instructions
    wanted = [*[(s, 2) for s in SETS[: SETS.index(best)]], (best, 1), (best, 2)]
    paths = [tmp_path / f"{i}.npz" for i in range(len(wanted))]
    running = [started(*case, path) for case, path in zip(wanted, paths, strict=True)]
    program = KernelProgram(large_cases())
    values = {}
    for case, path, process in zip(wanted, paths, running, strict=True):
        assert process.wait(timeout=300) == 0
        with np.load(path) as found:
            values[case] = list(found.values())
    # Those of the best set are compared with the reference above, of these cases and others
    for case in wanted[:-2]:
        program.check(values[case], values[best, 2])
    one, two = ([x.tobytes() for x in values[best, cores]] for cores in (1, 2))
    assert one == two


@pytest.mark.parametrize("name", WITH_KERNEL)
def test_the_kernels_are_called(name):
    """The comparisons above are not of two programs without kernels."""
    assert any(calls_kernel(graph) for _, graph, _ in cases(name))
