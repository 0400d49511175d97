"""Random programs in every scenario, on both engines: they agree, and so do their derivatives.

`--first 0 --count 500` selects programs by seed. Every program runs in all scenarios on the
reference engine; on XLA each takes part in one program of a batch, in the mode of that batch and a
scenario of its own, or in all of them with `--every`. Exits with 1 after an unexplained
disagreement, which is printed with a short program that shows it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from mixed_programs import MixedProgram
from oracle import Oracle, shrunk
from scenario_functions import MODES

BATCH, EAGER = 16, 2  # eager execution compiles every op by itself: fewer programs
SHOWN = 10


def check(oracle: Oracle, seeds: range, args: argparse.Namespace) -> None:
    """One batch of programs, on the engines that were asked for."""
    programs = [MixedProgram(seed) for seed in seeds]
    if "reference" in args.engines:
        for program in programs:
            oracle.check_reference(program)
    if "xla" not in args.engines:
        return
    failed = {id(f.program) for f in oracle.failures if f.scenario == "reference, values"}
    programs = [p for p in programs if id(p) not in failed]
    number = seeds.start // BATCH
    names = [name for name in MODES if name != "eager"]
    for mode in MODES if args.every else (names[number % len(names)], "eager"):
        count = EAGER if mode == "eager" and not args.every else BATCH
        if mode != "eager" or args.every or number % 4 == 0:
            oracle.check_xla(programs[:count], mode, args.every)


def report(oracle: Oracle) -> None:
    total = sum(oracle.compared.values())
    print(
        f"{len(oracle.seeds):,} programs, {total:,} comparisons in {len(oracle.compared)} scenarios"
    )
    if oracle.rounding:
        print(f"{len(oracle.rounding)} differ by rounding alone, or in derivatives at infinity:")
        for failure in oracle.rounding[:SHOWN]:
            print(f"  seed {failure.program.seed}: {failure.scenario}: {failure.text}")
    print(f"{len(oracle.failures)} unexplained disagreements")
    for name, count in Counter([f.scenario for f in oracle.failures]).most_common():
        print(f"  {count} x {name}")
    seen: set[int] = set()
    for failure in oracle.failures:
        if failure.program.seed not in seen and len(seen) < SHOWN:
            seen.add(failure.program.seed)
            short = shrunk(failure)
            print(f"{short.scenario}: {short.text}\n  {short.program}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--engines", nargs="+", default=["reference", "xla"])
    parser.add_argument("--every", action="store_true", help="every scenario and mode on XLA")
    args = parser.parse_args()
    os.environ.setdefault("PULLBACK_CPU_DEVICES", "4")
    os.environ.setdefault("PULLBACK_CACHE", "0")
    oracle, last = Oracle(), args.first + args.count
    for start in range(args.first, last, BATCH):
        check(oracle, range(start, min(start + BATCH, last)), args)
        if start // BATCH % 10 == 9:
            print(f"{len(oracle.seeds):,} programs, {len(oracle.failures)} disagree", flush=True)
    report(oracle)
    return bool(oracle.failures)


if __name__ == "__main__":
    sys.exit(main())
