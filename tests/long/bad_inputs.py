"""Bad calls of every public function: each must raise an error that helps, at the user's line.

python tests/long/bad_inputs.py [count] [seed]

Without arguments, all calls are made (more than 8,000); otherwise a random sample of them, each
in a random transform. The calls run in other processes, which are replaced when one crashes or
does not answer for ten seconds.
"""

from __future__ import annotations

import os
import pathlib
import queue
import resource
import subprocess
import sys
import threading
from collections import Counter

FOLDER = pathlib.Path(__file__).parents[1] / "support"
sys.path.insert(0, str(FOLDER))
SECONDS, STARTING = 10.0, 60.0  # without an answer: a hang; at first, pullback is imported
MEMORY = 6 * 2**30  # of a process: more is refused, as on a machine that has no more
SHARE = 0.95  # of the errors name the user's line and the argument
SHOWN = 100  # failures that are printed

# outcomes of a call, and what is wrong with it
GOOD_FAILED = "a good call failed"
FAILURES = ("crash", "hang", "accepted", GOOD_FAILED)


def work(count: int | None, seed: int, start: int) -> None:
    """Make the calls from `start` on and write one line about each."""
    from bad_calls import chosen, outcome

    import pullback as pb

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    pb.clear_cache()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a call prints is no answer
    for i, call in enumerate(chosen(count, seed)):
        if i >= start:
            print(f"{i}\t{outcome(call)}", file=answers, flush=True)


class Workers:
    """A process that makes the calls, replaced by another whenever it is lost."""

    def __init__(self, *arguments: int | str) -> None:
        self.arguments = [str(a) for a in arguments]

    def outcomes(self, total: int) -> list[str]:
        """Return what became of each call: a word, and details after a tab."""
        found: list[str] = []
        while len(found) < total:
            process = self._start(len(found))
            lines: queue.Queue[str] = queue.Queue()
            threading.Thread(target=_read, args=(process, lines), daemon=True).start()
            seconds = STARTING
            while len(found) < total:
                try:
                    line = lines.get(timeout=seconds)
                except queue.Empty:
                    found.append("hang\t")
                    break
                if not line:
                    found.append(f"crash\tstatus {process.wait()}")
                    break
                found.append(line.split("\t", 1)[1])
                seconds = SECONDS
            process.kill()
            process.wait()
        return found

    def _start(self, start: int) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--work", *self.arguments, str(start)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Pass on the lines of a process, then an empty one."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line.rstrip("\n"))
    lines.put("")


def report(calls: list, outcomes: list[str]) -> bool:
    """Print the figures; false if a bound is not met."""
    counts: Counter[str] = Counter()
    shown = 0
    for call, line in zip(calls, outcomes, strict=True):
        word, _, details = line.partition("\t")
        counts[word] += 1
        if word not in ("placed", "good", "passed") and shown < SHOWN:
            shown += 1
            print(f"{word:10} {call}: {details}")
    errors = counts["placed"] + counts["unplaced"] + counts["foreign"]
    share = counts["placed"] / max(errors, 1)
    bad = len(calls) - counts["good"] - counts[GOOD_FAILED]
    print(f"{bad} bad calls of {counts['good']} functions")
    for word in FAILURES:
        print(f"  {word}: {counts[word]}")
    print(f"  errors: {errors}, of which {100 * share:.1f} % name the line and the argument")
    print(
        f"  (not pullback's: {counts['foreign']}, without line or argument: {counts['unplaced']})"
    )
    return share >= SHARE and not any(counts[word] for word in FAILURES)


def main() -> int:
    if sys.argv[1:2] == ["--work"]:
        count, seed, start = sys.argv[2:]
        work(int(count) if count != "all" else None, int(seed), int(start))
        return 0
    from bad_calls import chosen

    count = int(sys.argv[1]) if len(sys.argv) > 1 else None
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    calls = chosen(count, seed)
    outcomes = Workers("all" if count is None else count, seed).outcomes(len(calls))
    return 0 if report(calls, outcomes) else 1


if __name__ == "__main__":
    os.environ["PULLBACK_CACHE"] = "0"
    sys.exit(main())
