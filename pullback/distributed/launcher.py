"""Start a script as several processes on this machine, and end them together."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any, TextIO

from pullback.distributed.environment import COORDINATOR, COUNT, INDEX, LAUNCHER, SECRET
from pullback.distributed.handshake import new_handshake_secret

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL = 0.05
_GRACE = 20.0  # seconds for the others to notice a failure and to save their state
_LAST_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
# Gloo prints each connection to standard output, in pieces, from several threads at once.
_MARKS = (b"[Gloo] Rank ", b"Expected number of connected peer ranks")
NOISE = re.compile(
    rb"(?:\[Gloo\] Rank |\d* is connected to |\d* peer ranks\. "
    rb"|Expected number of connected peer ranks is : )+\d*"
)


def launcher_main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status of the first process that failed, or 0."""
    parser = argparse.ArgumentParser(
        prog="python -m pullback.distributed",
        description="Run a script as several processes that compute together.",
    )
    add = parser.add_argument
    add("--nproc", type=int, default=2, help="number of processes (default 2)")
    add("--devices", type=int, help="virtual CPU devices of each process (default 1)")
    add("--coordinator", help="host:port of process 0 (default: a free port of this host)")
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="arguments of the script")
    given = parser.parse_args(arguments)
    if given.nproc < 1 or (given.devices is not None and given.devices < 1):
        parser.error("--nproc and --devices must be at least 1")
    return run([given.script, *given.args], given.nproc, given.devices, given.coordinator)


def run(
    command: Sequence[str], count: int, devices: int | None = None, coordinator: str | None = None
) -> int:
    """Run a script with its arguments as `count` processes; return the exit status."""
    with free_launcher_port() as port:
        settings = launcher_settings(count, devices, coordinator or f"127.0.0.1:{port}")
        main = threading.current_thread() is threading.main_thread()  # it alone handles signals
        return ProcessLauncher(command, count, settings, forwards=main).run()


def launcher_settings(count: int, devices: int | None, coordinator: str) -> dict[str, str]:
    """Return the environment variables that all processes of a job share."""
    secret = os.environ.get(SECRET) or new_handshake_secret()
    settings = {COUNT: str(count), COORDINATOR: coordinator, SECRET: secret}
    if devices is not None:
        settings["PULLBACK_CPU_DEVICES"] = str(devices)
    return settings


@contextlib.contextmanager
def free_launcher_port() -> Iterator[int]:
    """Reserve a port: nobody else gets it, but a process that knows it can listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def launcher_output(line: bytes) -> bytes | None:
    """Remove Gloo's messages from a line of output; return None if nothing else is in it.

    Text that a user could print, too, is only removed next to text that only Gloo prints.
    """
    if not any(mark in line for mark in _MARKS):
        return line
    rest = NOISE.sub(b"", line)
    return rest if rest.strip(b"0123456789 \n") else None


class ProcessLauncher:
    """The processes of one run; if it `forwards`, they get the signals that this process gets."""

    def __init__(
        self, command: Sequence[str], count: int, settings: dict[str, str], forwards: bool = False
    ) -> None:
        # A process that leaves because another is lost reports that here, besides its exit status.
        self._lost: set[int] = set()
        self._reports, reports = os.pipe()
        os.set_blocking(self._reports, False)
        settings = {**settings, LAUNCHER: str(reports)}
        self._deadline = float("inf")
        self._writing = threading.Lock()
        self._readers: list[threading.Thread] = []
        self._processes: list[subprocess.Popen] = []
        # First, so that a signal does not end this process alone
        ours = _FORWARDED if forwards else ()
        self._before = {s: signal.signal(s, self._forward) for s in ours}
        for i in range(count):
            self._processes.append(self._start(command, i, settings, reports))
        os.close(reports)  # only the processes write

    def _start(
        self, command: Sequence[str], index: int, settings: dict[str, str], reports: int
    ) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-u", *command],
            env={**os.environ, **settings, INDEX: str(index)},
            stdin=None if index == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            pass_fds=(reports,),
        )  # fmt: skip
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            reader = threading.Thread(target=self._copy, args=(source, target, index), daemon=True)
            reader.start()
            self._readers.append(reader)
        return process

    def _copy(self, source: IO[bytes], target: TextIO, index: int) -> None:
        """Copy output line by line, with the number of its process in front."""
        known = getattr(target, "encoding", None) or "utf-8"
        # If nobody reads the output any more, as after `| head`, the process cannot write, either.
        with source, contextlib.suppress(BrokenPipeError):
            for line in source:
                if (kept := launcher_output(line)) is not None:
                    text = kept.decode(errors="replace").rstrip("\n")
                    text = text.encode(known, errors="replace").decode(known)
                    with self._writing:
                        target.write(f"[{index}] {text}\n")
                        target.flush()

    def run(self) -> int:
        """Wait until all have ended; when one fails, the others have some time to end, too."""
        try:
            status = self._wait()
        finally:
            self._end()
            for s, handler in self._before.items():
                signal.signal(s, handler)
        for reader in self._readers:
            reader.join(timeout=_LAST_GRACE)
        os.close(self._reports)
        return status

    def _wait(self) -> int:
        failed = 0
        while self._running() and time.monotonic() < self._deadline:
            failed = failed or self._first_failure()
            if failed or self._left():
                self._hurry()
            time.sleep(_POLL)
        return failed or self._first_failure() or self._left()

    def _running(self) -> bool:
        """Whether a process runs that is not lost to the others."""
        return any(p.poll() is None for k, p in enumerate(self._processes) if k not in self._lost)

    def _hurry(self) -> None:
        self._deadline = min(self._deadline, time.monotonic() + _GRACE)

    def _first_failure(self) -> int:
        """Return the exit status of a process that failed, or 0; 128 + n for signal n."""
        codes = [p.poll() for p in self._processes]
        return next((c if c > 0 else 128 - c for c in codes if c), 0)

    def _left(self) -> int:
        """Return 1 if a process left because another was lost."""
        with contextlib.suppress(BlockingIOError):
            self._lost |= set(map(int, os.read(self._reports, 4096).split()))
        return int(bool(self._lost))

    def _forward(self, number: int, frame: Any) -> None:
        self._send(number)
        self._hurry()

    def _send(self, number: int) -> None:
        for p in self._processes:
            if p.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    p.send_signal(number)

    def _end(self) -> None:
        """End processes that still run: with SIGTERM, unless they are lost."""
        for k in self._lost:
            self._processes[k].kill()
        self._send(signal.SIGTERM)
        end = time.monotonic() + _LAST_GRACE
        while any(p.poll() is None for p in self._processes) and time.monotonic() < end:
            time.sleep(_POLL)
        self._send(signal.SIGKILL)
        for p in self._processes:
            p.wait()
