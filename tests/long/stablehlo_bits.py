"""Every sample of the op table through StableHLO and back: the same bits on XLA."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))

from test_stablehlo import OPS, round_trip, same_bits, samples


def main() -> None:
    for name in OPS:
        for op, arrays, graph in samples([name]):
            assert same_bits(graph, round_trip(graph), arrays), op
        print(name, flush=True)


if __name__ == "__main__":
    main()
