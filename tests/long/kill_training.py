"""Training that is killed 20 times ends with the bits of a run that was left alone.

Run as a script (`make long`). examples/gpt.py is killed at random moments after it has saved, as
one process and as two, of which one or the other is killed; then it is continued to its end.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from killed_training import OneProcess, TwoProcesses, bits, finished, kill_and_resume


def check(start, kills: int, name: str) -> None:
    chance = random.Random(0)

    class Delayed:
        """A run that is killed some time after it has saved, perhaps while it saves again."""

        def __init__(self, out: Path, steps: int) -> None:
            self._run = start(out, steps)
            self.is_running, self.finish = self._run.is_running, self._run.finish

        def kill(self) -> None:
            time.sleep(chance.random() * 0.1)
            self._run.kill()

    with tempfile.TemporaryDirectory() as folder:
        killed, alone = Path(folder, "killed"), Path(folder, "alone")
        steps, _ = kill_and_resume(Delayed, killed, kills)
        finished(start(alone, steps))
        assert bits(killed) == bits(alone)
    print(f"{name}: {kills} kills, {steps} steps, the same bits", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", type=int, nargs="?", default=20)
    kills = parser.parse_args().kills
    check(OneProcess, kills, "one process")
    for victim in (0, 1):
        start = functools.partial(TwoProcesses, victim=victim)
        check(start, kills // 2, f"two processes, of which process {victim} is killed")


if __name__ == "__main__":
    sys.exit(main())
