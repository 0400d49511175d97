"""Processes that are killed while they save lose nothing: what was saved last is complete.

Run as a script for 200 kills (`make long`). A child saves files and checkpoints without pause, and
writes into a pipe what is complete; it is killed at a random moment, and everything is read again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from launching import Launched

import pullback as pb
from pullback.io.checkpointer import Checkpointer

SIZE = 50_000  # numbers in a tensor


def state(step: int, rng: np.random.Generator) -> dict:
    """A tree whose values all follow from the step and from each other."""
    noise = rng.integers(0, 2**63, SIZE)
    return {"noise": noise, "twice": noise ^ step, "step": step, "rows": [noise[:7] + step]}


def check(found: dict) -> int:
    noise, step = found["noise"], found["step"]
    assert (found["twice"] == noise ^ step).all() and (found["rows"][0] == noise[:7] + step).all()
    return step


def save_forever(folder: str, start: int, pipe: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    checkpoints = Checkpointer(f"{folder}/run", keep=2)
    if checkpoints.latest() is not None:
        checkpoints.restore()
    for step in range(start, start + 1_000_000):
        pb.save(f"{folder}/file.safetensors", state(step, rng))
        os.write(pipe, b"f%d\n" % step)
        checkpoints.save(step, state(step, rng))
        if step % 3 == 0:
            checkpoints.wait()
            os.write(pipe, b"c%d\n" % step)


def kill_once(folder: str, start: int, seed: int) -> int:
    """Kill a child while it saves; return the step for the next one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            save_forever(folder, start, writer, seed)
        finally:
            os._exit(1)
    os.close(writer)
    said = os.read(reader, 1)  # the first file is complete
    time.sleep(random.Random(seed).random() * 0.15)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reader, 65536):
        said += more
    os.close(reader)
    lines = said.split()
    done = {kind: [int(x[1:]) for x in lines if x[:1] == kind] for kind in (b"f", b"c")}
    last = check(pb.load(f"{folder}/file.safetensors"))
    assert last >= max(done[b"f"]), "a complete file was lost"
    checkpoints = Checkpointer(f"{folder}/run", keep=2)
    steps = checkpoints.steps()
    assert max(steps, default=0) >= max(done[b"c"], default=0), "a checkpoint was lost"
    for step in steps:
        assert check(checkpoints.restore(step=step)) == step
    return max([last, *steps]) + 1


def kill_one_of_two(folder: str, seed: int, complete: int) -> int:
    """Kill one of two processes that save together; return the last step that was complete."""
    job = Launched("saving_cases.py", 2, "until_killed", folder, seed, devices=2)
    _, lines, errors = job.finish()
    words = [line.split() for line in lines[0]]
    assert words and words[0][0] == "resumed", errors
    assert int(words[0][1]) >= complete, "a checkpoint was lost"
    return max([complete, *[int(step) for what, step in words if what == "complete"]])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--processes", type=int, default=10, help="kills of one of two processes")
    options = parser.parse_args()
    count = options.kills
    warnings.simplefilter("ignore", DeprecationWarning)  # children compute nothing
    with tempfile.TemporaryDirectory() as folder:
        step = 1
        for seed in range(count):
            step = kill_once(folder, step, seed)
        # The next save removes what the killed ones left behind.
        pb.save(f"{folder}/file.safetensors", 1)
        with Checkpointer(f"{folder}/run", keep=2) as checkpoints:
            checkpoints.save(step, 1)
        left = sorted(os.listdir(folder)) + sorted(os.listdir(f"{folder}/run"))
        assert len(left) == 4 and not any(name.startswith(".") for name in left), left
    print(f"{count} kills, nothing lost, up to step {step}")
    with tempfile.TemporaryDirectory() as folder:
        step = 0
        for seed in range(options.processes):
            step = kill_one_of_two(f"{folder}/run", seed, step)
    print(f"{options.processes} kills of one of two processes, nothing lost, up to step {step}")


if __name__ == "__main__":
    sys.exit(main())
