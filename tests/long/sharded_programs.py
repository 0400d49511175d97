"""20,000 random programs, meshes and specs: sharded equals unsharded, forward and gradient."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from sharded import Case

PROGRAMS, LAYOUTS = 4_000, 5


def main() -> None:
    for number in range(PROGRAMS):
        Case(1_000 + number).check(LAYOUTS)
        if (number + 1) % 100 == 0:
            print(f"{LAYOUTS * (number + 1):,} of {LAYOUTS * PROGRAMS:,} cases agree", flush=True)


if __name__ == "__main__":
    main()
