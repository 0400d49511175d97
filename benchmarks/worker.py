"""A process that checks or measures one workload with one library, and answers in JSON."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import numpy as np

from benchmarks.workload import Workload, as_array, leaves
from benchmarks.workloads import WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("library")
    parser.add_argument("--check", metavar="FILE", help="write results instead of measuring")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the libraries must not mix with the answer
    workload = WORKLOADS[options.name]
    arrays = workload.inputs(options.quick)
    if options.check:
        answer: Any = check(workload, options.library, arrays, options.check)
    else:
        clock = time.process_time if options.cpu_time else time.perf_counter
        answer = workload.measure(
            lambda: workload.case(options.library, arrays), options.library, options.seconds, clock
        )
    print(json.dumps(answer), file=answers, flush=True)


def check(workload: Workload, library: str, arrays: Any, path: str) -> float:
    """Write results to a file; return the seconds they took, with compiling."""
    start = time.perf_counter()
    results = workload.case(library, arrays).results()
    np.savez(path, **{name or "value": as_array(x) for name, x in leaves(results)})
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
