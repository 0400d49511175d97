"""Where the project keeps what tests read and run."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
EXAMPLES = ROOT / "examples"
# for processes that tests start
PYTHONPATH = os.pathsep.join(map(str, (ROOT, TESTS, SUPPORT)))
