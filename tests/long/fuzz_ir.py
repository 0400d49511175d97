"""100,000 broken texts: the parser and the verifier answer each with a module or a placed error.

python tests/long/fuzz_ir.py [count] [seed]
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections import Counter

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))

from ir_fuzz import corpus, mutations, survives


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    for i, data in enumerate(mutations(corpus(), count, seed)):
        start = time.perf_counter()
        try:
            outcomes[survives(data)] += 1
        except BaseException:
            print(f"text {i} of seed {seed}: {data!r}")
            raise
        slowest = max(slowest, time.perf_counter() - start)
    for outcome, times in sorted(outcomes.items()):
        print(f"{outcome:>8} {times}")
    print(f"{count} texts, the slowest took {1e3 * slowest:.0f} ms")


if __name__ == "__main__":
    main()
