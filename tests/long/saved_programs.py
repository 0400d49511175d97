"""Damaged and crafted saved programs never end the process: every one loads, or raises an error.

Run as a script for 5,000 changes of a file (`make long`), in slices, each in a process of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pullback as pb
from pullback.compiled.saved_program import MAGIC, VERSION

NUMBERS = [b"-1", b"0", b"1", b"7", b"1000000000", b"9223372036854775807", b"99999999999999999999"]


def example(path: Path) -> bytes:
    """The body of a file with loops, sorts, windows, checks, numbers and captured values."""
    w = pb.tensor([1.0, 2.0, 3.0])

    def f(x, i, k):
        carry, rows = pb.scan(lambda s, r: (s + r, s * r), w, x)
        pooled = pb.max_pool(pb.reshape(x, (1, 4, 3)), 2)
        return pb.sort(pb.tanh(x) * k, axis=0), x[i], carry, rows, pooled, pb.cumulative_sum(w)

    pb.compile(f).lower(pb.ones((4, 3)), pb.tensor(1), 0.5).save(path)
    return path.read_bytes()[len(MAGIC) + 32 :]


def changed(body: bytes, rng: random.Random) -> bytes:
    """A body with some bytes or words replaced, removed or repeated; its lengths still fit."""
    _, length = struct.unpack_from("<IQ", body)
    header, rest = body[12 : 12 + length], body[12 + length :]
    size = json.loads(header)["sizes"][0]
    parts = [header, rest[:size], rest[size:]]
    which = rng.choice([0, 1, 1, 1])
    words = re.findall(rb"[\w.]+|\W", parts[which])
    for _ in range(rng.choice([1, 1, 2, 4])):
        i, way = rng.randrange(len(words)), rng.random()
        if way < 0.4:
            words[i] = rng.choice(words)
        elif way < 0.6:
            numbers = [n for n, w in enumerate(words) if w.isdigit()]
            words[rng.choice(numbers)] = rng.choice(NUMBERS)
        elif way < 0.8:
            del words[i]
        else:
            j = rng.randrange(len(words))
            words[i:i] = words[j : j + rng.randrange(8)]
    parts[which] = b"".join(words)
    if which == 1:
        made = json.loads(parts[0])
        made["sizes"][0] = len(parts[1])
        parts[0] = json.dumps(made).encode()
    return struct.pack("<IQ", VERSION, len(parts[0])) + b"".join(parts)


def attempt(seed: int, count: int) -> Counter:
    """Load changed files; count what happened. An error that is not pullback's ends the run."""
    rng, found = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.pullback"
        body = example(path)
        for _ in range(count):
            data = changed(body, rng)
            path.write_bytes(MAGIC + hashlib.sha256(data).digest() + data)
            try:
                pb.load_compiled(path).program.ready()
                found["compiled"] += 1
            except pb.errors.PullbackError as error:
                found[type(error).__name__] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--slice", type=int, default=250)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    if args.seed is not None:
        print(json.dumps(attempt(args.seed, args.count)))
        return 0
    total: Counter = Counter()
    for seed in range(-(-args.count // args.slice)):
        command = [sys.executable, __file__, "--seed", str(seed), "--count", str(args.slice)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if ended.returncode:
            print(f"seed {seed} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
            return 1
        total.update(json.loads(ended.stdout))
    print(f"{sum(total.values())} changed files, none ended the process: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
