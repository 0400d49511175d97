"""Scripts run as several processes; the launcher is in the process of the tests, to save time."""

from __future__ import annotations

import contextlib
import io
import re
import signal
from concurrent.futures import ThreadPoolExecutor

from paths import SUPPORT, VIRTUAL_DEVICES

from pullback.distributed.launcher import (
    NOISE,
    ProcessLauncher,
    free_launcher_port,
    launcher_settings,
)

# Pieces of what Gloo says can stand alone on a line, and could then be anybody's.
ALONE = re.compile(rf"\[\d\] \d*(?:{NOISE.pattern.decode()})?\s*")


class Launched:
    """A script of tests/support that runs as `count` processes of `devices` virtual devices."""

    def __init__(self, script, count, *case, devices=1, **variables):
        self._count, self._out, self._err = count, io.StringIO(), io.StringIO()
        self._reserved = contextlib.ExitStack()
        port = self._reserved.enter_context(free_launcher_port())
        settings = (
            launcher_settings(count, devices, f"127.0.0.1:{port}") | VIRTUAL_DEVICES | variables
        )
        command = [str(SUPPORT / script), *map(str, case)]
        with contextlib.redirect_stdout(self._out), contextlib.redirect_stderr(self._err):
            self._launcher = ProcessLauncher(command, count, settings)

    def finish(self):
        """Return the exit status, the lines that each process printed, and the errors."""
        with ThreadPoolExecutor(1) as pool, self._reserved:
            ended = pool.submit(self._launcher.run)
            try:
                status = ended.result(timeout=100)
            finally:
                if not ended.done():
                    self._launcher._send(signal.SIGKILL)
        lines = [[] for _ in range(self._count)]
        for line in self._out.getvalue().splitlines():
            if not ALONE.fullmatch(line):
                lines[int(line[1])].append(line[4:])
        return status, lines, self._err.getvalue()
