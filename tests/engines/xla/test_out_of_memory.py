"""Lack of memory is an error that programs can handle: the process goes on, every time.

Each case runs in a process of its own, because what is tested once ended the process.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from processes import run_python

import pullback as pb
from pullback.engines.xla.executable import executable_error
from pullback.errors import EngineError, OutOfMemory

# 2**49 bytes, which is more than an address space
START = """
import numpy as np
import pullback as pb
from pullback.errors import OutOfMemory
column, row = pb.ones((2**23, 1)), pb.ones((1, 2**24))

def fails(read):
    try:
        read()
    except OutOfMemory as error:
        assert error.where is not None, error
        return 1
    return 0
"""


def test_100_of_100_reads_raise_and_the_process_goes_on():
    code = """
ways = [
    lambda: (column @ row).numpy(),
    lambda: (column @ row).tolist(),
    lambda: repr(column @ row),
    lambda: np.asarray(column * row),
    lambda: pb.sort(column @ row, axis=0)[3, 2].item(),
    lambda: pb.evaluate(column @ row),
    lambda: pb.vmap(lambda x: x * row[0])(column).numpy(),
    lambda: pb.compile(lambda x, y: x @ y)(column, row).numpy(),
    lambda: pb.grad(lambda x: pb.sort(x @ row, axis=0)[3, 3])(column).numpy(),
    lambda: (column.astype("bfloat16") * row.astype("bfloat16")).numpy(),
]
print(sum(fails(way) for _ in range(10) for way in ways), pb.ones((3,)).sum().item())
"""
    assert run_python(START + code) == "100 3.0"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ignore the limit")
def test_memory_that_runs_out_while_a_program_runs():
    # Small programs are not awaited: if memory is short, their buffers, and those of programs that
    # use them, hold an error when they are read. Here every program counts as small.
    code = """
import resource
from pullback.engines.xla import executable
executable.physical_memory = lambda: 2**63
x = pb.ones((2**15, 1))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 9 * 2**27, used + 9 * 2**27))

def once(k):
    y = pb.sin(x + k) @ pb.ones((1, 2**15))
    pb.evaluate(y)
    return fails(lambda: y[5, 5].item()) and fails(y.numpy) and fails(y.sum().item)

def product(k):
    return fails((x * pb.full((1, 2**15), k, "float32")).numpy)

print(sum(once(k) for k in range(100)), sum(product(k) for k in range(10)), x.sum().item())
"""
    # The limit is one of addresses, of which malloc reserves many for each thread.
    found = run_python(START + code, PULLBACK_THREADS="1", MALLOC_ARENA_MAX="1")
    assert found == "100 10 32768.0"


def test_lack_of_memory_for_other_tensors_does_not_harm_a_read():
    # `large` is pending, shares an input with what is read, and so is computed with it
    code = """
large = column @ row
print(column.sum().item(), (column + 1)[0, 0].item(), fails(large.numpy), fails(large.numpy))
"""
    assert run_python(START + code) == "8388608.0 2.0 1 1"


def test_on_a_mesh():
    code = """
mesh = pb.DeviceMesh((2,), ("x",))
sharded = column.shard(mesh, pb.P("x"))
print(sum(fails((sharded @ row).numpy) for _ in range(10)), sharded.sum().item())
"""
    assert run_python(START + code, PULLBACK_CPU_DEVICES="2") == "10 8388608.0"


def test_data_of_the_host_that_cannot_be_copied():
    much = np.broadcast_to(np.float32(1), (2**24, 2**24))
    with pytest.raises(OutOfMemory, match=r"tensor: .*ndarray of shape \[16777216, 16777216\]"):
        pb.tensor(much)


def test_the_message_says_how_much_is_needed():
    error = executable_error(
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 2048 bytes."), "run"
    )
    assert isinstance(error, OutOfMemory) and "it needs 2.0 KiB" in error.message
    assert isinstance(executable_error(MemoryError(), "run"), OutOfMemory)
    assert type(executable_error(RuntimeError("INTERNAL: broken"), "run")) is EngineError
