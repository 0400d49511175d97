"""The same module gives the same bytes in every process."""

from __future__ import annotations

import random
import sys

from long.ir_determinism import COUNT, in_a_process, report


def test_M22_sixty_modules_in_other_processes():
    expected = report()
    assert len(set(expected)) == len(expected) == COUNT
    assert report() == expected
    for _ in range(2):
        seed = random.SystemRandom().randrange(2**32)
        assert in_a_process(sys.executable, seed) == expected, f"PYTHONHASHSEED={seed}"
