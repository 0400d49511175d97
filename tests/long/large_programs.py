"""Every sample of the op table, compiled with the flags of programs of large arrays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
sys.path.insert(0, str(Path(__file__).parents[1] / "engines/xla"))

from test_op_table import CALLS, OPS
from test_small_programs import check_as_large


def main() -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in OPS:
            if name not in CALLS:
                check_as_large(name, patch)
                print(name, flush=True)


if __name__ == "__main__":
    main()
