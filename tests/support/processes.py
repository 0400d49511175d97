"""Python processes of tests, for what would end the test run, or must not be imported twice."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from paths import ROOT


def ended_python(
    code: str, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess:
    """Run code in a new process, on the CPU and without a disk cache unless told otherwise."""
    fixed = {"PYTHONPATH": str(ROOT), "PULLBACK_CACHE": "0", "PULLBACK_PLATFORM": "cpu"}
    given = {**os.environ, **fixed, **environment}
    # A file, because errors name lines of it
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "user_code.py")
        with open(path, "w") as file:
            file.write(code)
        command = [sys.executable, path]
        return subprocess.run(command, env=given, capture_output=True, text=True, timeout=seconds)


def run_python(code: str, **environment: str) -> str:
    """Run code in a new process, which must succeed, and return what it prints."""
    ended = ended_python(code, **environment)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout.strip()
