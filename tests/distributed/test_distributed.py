"""Several processes compute together, and notice when one of them is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from launching import Launched
from paths import VIRTUAL_DEVICES

import pullback as pb
from pullback import distributed
from pullback.distributed.barriers import compare_at_barrier
from pullback.distributed.connection import connection_error_line
from pullback.distributed.launcher import launcher_output
from pullback.engines.xla.program_log import ProgramLog
from pullback.errors import ArgumentError, EngineError, ProcessMismatch


def start(count, *case, devices=1, **variables):
    return Launched("distributed_cases.py", count, *case, devices=devices, **variables)


def run(count, *case, devices=1):
    return start(count, *case, devices=devices).finish()


def test_processes_compute_together():
    status, lines, errors = run(2, "together", devices=2)
    assert status == 0, errors
    assert lines == [["disagreed", "ended in order"]] * 2
    assert errors == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[Gloo] Rank 1 is connected to 3 peer ranks. "
         b"Expected number of connected peer ranks is : 3\n", None),
        (b"Expected number of connected peer ranks is : 3\n", None),
        (b"5 is connected to 7\n", b"5 is connected to 7\n"),
        (b"17 peer ranks. ok\n", b"17 peer ranks. ok\n"),
        (b"[Gloo] Rank 2 is connected to [Gloo] Rank 3 peer ranks. 3Expected number of connected "
         b"peer ranks is :  is connected to 33 peer ranks. \n", None),
        (b"[Gloo] Rank 2 is connected to loss 0.5\n", b"loss 0.5\n"),
        (b"3\n", b"3\n"),
        (b"\n", b"\n"),
    ],
)  # fmt: skip
def test_only_the_noise_of_connections_is_removed(line, said):
    assert launcher_output(line) == said


# Process 0 coordinates; the others have equal roles.
LOSSES = [(3, 1, "SIGKILL"), (3, 0, "SIGKILL"), (2, 1, "SIGSTOP"), (2, 0, "SIGSTOP")]
PATIENCE = {"PULLBACK_PATIENCE": "4"}


@pytest.fixture(scope="module")
def losses():
    """Run all cases at once: they mostly wait for a sign of life."""
    with ThreadPoolExecutor(len(LOSSES)) as pool:
        runs = [start(n, "lose", k, how, **PATIENCE) for n, k, how in LOSSES]
        ended = [pool.submit(run.finish) for run in runs]
        yield {case: e.result() for case, e in zip(LOSSES, ended, strict=True)}


@pytest.mark.parametrize("case", LOSSES)
def test_a_lost_process_is_named_on_the_others(losses, case):
    count, victim, how = case
    status, lines, errors = losses[case]
    for k in range(count):
        assert len(lines[k]) == (k != victim), (lines, errors)
        for line in lines[k]:
            assert line.startswith(f"process {k} lost {victim}, and again {victim}:"), errors
            assert f"process {victim} (pid " in line
            broke = re.search("connection to (it|process 0) broke", line)
            assert bool(broke) == (how == "SIGKILL"), line
    assert status == (128 + signal.SIGKILL if how == "SIGKILL" else 1)
    assert errors == ""


def test_a_process_that_fails_is_named_at_once():
    status, lines, errors = run(2, "fail")
    assert status == 1 and lines == [[], []]
    assert "[1] ValueError: something else went wrong" in errors
    assert "[0] pullback.errors.WorkerLost: process 1 (pid " in errors
    assert "ended with an error" in errors


def test_a_program_started_by_one_process_alone_raises():
    status, ((first, second), none), errors = run(2, "only_one")
    assert status == 0 and none == [], errors
    assert first == "process 1 did not come to alone before the end"
    assert "has ended, and started 1 programs on devices 0, 1, where process 0 started 2" in second


def test_a_failed_program_raises_on_all_processes():
    status, lines, errors = run(2, "faults", devices=2)
    assert status == 0, errors
    for mine in lines:
        assert mine.count("sum 3") == 2, lines
        assert {"ProcessMismatch ran another", "ProcessMismatch put other"} < set(mine), lines
        assert {"ProcessMismatch waits for all", "ProcessMismatch did not come"} & set(mine), lines
        assert sum(line.startswith("OutOfMemory") for line in mine) == 2
        stuck = [line for line in mine if line.startswith("EngineError")]
        assert len(stuck) == 2 and all(line.endswith("no luck") for line in stuck)
    assert "OutOfMemory process 1 could not run a program on devices 1, 3: no memory" in lines[0]
    assert "EngineError process 1 could not run a program on devices 0, 3: no luck" in lines[0]


def test_values_that_differ_between_processes_raise():
    status, lines, errors = run(2, "replicas", devices=2)
    assert status == 1
    both = "process 0 and process 1 have different values of"
    said = {
        "pending": f"{both} u32[2], an operand of random_normal",
        "computed": f"{both} f32[4,3], an operand of sum",
        "number": f"{both} the numbers in the program",
        "argument": f"{both} params['w'], f64[3], of model",
        "numbers": f"{both} the numbers rate of model",
        "equal": "24.0",
        "split": "36.0",
        "whole": f"{both} f64[4,3], an operand of sum",
        "shared": f"{both} f64[4,3], an operand of sum",
        "first": "12.0",
        "later": f"{both} x, f64[4,3], of <lambda>",
    }
    for k in range(2):
        mine = dict(line.split(" ", 1) for line in lines[k])
        shown = {name: re.sub(r" \(distributed_cases.py:\d+\)$", "", mine[name]) for name in mine}
        assert shown == said
        assert sum("distributed_cases.py:" in text for text in mine.values()) == 8
        last = f"[{k}] pullback.errors.ProcessMismatch: process {1 - k} "
        assert last in errors and "put other values into a program" in errors


def test_the_launcher_forwards_signals(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('started')\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "pullback.distributed", str(script)],
        env=os.environ | VIRTUAL_DEVICES,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(2):
        assert process.stdout.readline() in ("[0] started\n", "[1] started\n")
    watch = threading.Timer(60, process.kill)
    watch.start()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    watch.cancel()
    assert process.returncode == 128 + signal.SIGTERM and errors == ""


def test_one_process_alone():
    assert (distributed.process_index(), distributed.process_count()) == (0, 1)
    distributed.initialize("localhost:1", 1, 0)
    distributed.barrier()
    distributed.agree("anything", "abc")
    assert distributed.exchange("word", "mine") == ["mine"]
    distributed.shutdown()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "PULLBACK_COORDINATOR is not set"),
        (("here", 2, 0), "coordinator_address must be host:port, got 'here'"),
        (("here:1", 2, 2), "process_id must be in 0 .. num_processes - 1, got 2 of 2"),
        (("here:1", 2, 1), "must be called before anything is computed"),
    ],
)
def test_initialize_checks_its_arguments(arguments, message):
    (pb.tensor(1.0) + 1).item()
    with pytest.raises(ArgumentError, match=f"initialize: {message}.*test_distributed.py"):
        distributed.initialize(*arguments)


def test_a_disagreement_names_the_processes():
    compare_at_barrier("program 3", {0: "a", 1: "a", 2: "a"})
    with pytest.raises(ProcessMismatch, match=r"program 3:\n  processes 0, 2: a\n  process 1: b"):
        compare_at_barrier("program 3", {0: "a", 1: "b", 2: "a"})


def test_a_script_is_launched_from_python(tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "print(os.environ['PULLBACK_PROCESS_ID'], os.environ['PULLBACK_NUM_PROCESSES'],"
        " os.environ['PULLBACK_CPU_DEVICES'], sys.argv[1])\n"
        "sys.exit(int(os.environ['PULLBACK_PROCESS_ID']) * int(sys.argv[2]))\n"
    )
    assert distributed.launch(script, "word", 0, nproc=2, devices=3) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] 0 2 3 word", "[1] 1 2 3 word"]
    assert distributed.launch(script, "word", 7, nproc=2, devices=3) == 7
    with ThreadPoolExecutor(1) as aside:  # where signals are none of its business
        assert aside.submit(distributed.launch, script, "word", 0, nproc=1, devices=1).result() == 0


def test_only_process_0_reads_and_all_may_write_any_bytes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "print(sys.stdin.read().strip() or 'nothing')\n"
        "sys.stdout.buffer.write(b'\\xff and no more')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "pullback.distributed", str(script)],
        input="word", capture_output=True, text=True, check=True, timeout=60,
        env=os.environ | VIRTUAL_DEVICES | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    said = ["[0] ? and no more", "[0] word", "[1] ? and no more", "[1] nothing"]
    assert sorted(ended.stdout.splitlines()) == said


@pytest.mark.parametrize("wrong", [{"nproc": 0}, {"nproc": "two"}, {"devices": 0}])
def test_launch_checks_its_arguments(wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=f"launch: {name} must be a positive integer"):
        distributed.launch("script.py", **wrong)


def test_a_program_log_is_shared_by_threads():
    """One starts programs, another compares what was started: it never sees half an entry."""
    mine, theirs = ProgramLog(), ProgramLog()
    for k in range(5):
        mine.begin(k, k)
        theirs.begin(k, k)
    summary, wrong, ended = theirs.summary(), [], threading.Event()

    def compares():
        while not ended.is_set():
            wrong.append(mine.difference(summary) + theirs.difference(mine.summary()))

    other = threading.Thread(target=compares)
    other.start()
    for _ in range(30_000):
        mine.begin(1, 1)
    ended.set()
    other.join()
    assert set(wrong) == {""}


def test_any_error_is_shown_in_one_line():
    class Odd(Exception):
        message = 3

    assert connection_error_line(Odd("x\ny")) == ": Odd: x"
    assert connection_error_line(EngineError("first\nsecond")) == ": EngineError: first"
    assert connection_error_line(None) == ""
