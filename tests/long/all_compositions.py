"""Every composition of transforms three deep, on both engines; the suite runs a part on XLA."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from compositions import TRANSFORMS, check


def main() -> None:
    compositions = list(itertools.product(TRANSFORMS, repeat=3))
    for number, names in enumerate(compositions):
        check(names, 200 + number, ["reference", "xla"])
        print(f"{number + 1} of {len(compositions)}: {', '.join(names)}", flush=True)


if __name__ == "__main__":
    main()
