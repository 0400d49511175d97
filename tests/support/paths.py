"""Where the project keeps what tests read and run."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
EXAMPLES = ROOT / "examples"
# For processes that tests start.
PYTHONPATH = os.pathsep.join(map(str, (ROOT, TESTS, SUPPORT)))
# For those that need several devices: virtual ones, also where there is one GPU.
VIRTUAL_DEVICES = {"PYTHONPATH": PYTHONPATH, "PULLBACK_PLATFORM": "cpu"}
