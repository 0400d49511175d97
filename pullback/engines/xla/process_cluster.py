"""Several processes as one XLA client, connected through its coordination service."""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pullback.engines.xla.bindings import _jax, xla_client
from pullback.engines.xla.executable import executable_error
from pullback.engines.xla.program_log import LoggedFailure, LogSummary, ProgramLog
from pullback.errors import EngineError, OutOfMemory

if TYPE_CHECKING:
    from pullback.distributed.heartbeat import Group, Heartbeat
    from pullback.engines.xla.sharded import ShardedDeviceGroup, ShardedExecutable, ShardedValue

# XLA's own heartbeats end the processes that are left, so they never time out:
# `pullback.distributed.heartbeat` finds lost processes.
_NEVER = 10_000_000
_LONG = 600  # a thread that waits for a message must not wake up while Python ends
_POLL, _SLOWEST_POLL = 2e-5, 1e-3  # seconds


class ProcessCluster:
    """The processes that compute together, seen from one of them; process 0 has the `Service`.

    The others reach this one under the name `host`; None lets Gloo find a name.
    """

    heartbeat: Heartbeat  # what is known about the others, once all are connected

    def __init__(
        self, address: str, process: int, count: int, patience: float, host: str | None = None
    ) -> None:
        self._host = host
        self.process, self.count, self.patience = process, count, patience
        self._runtime = _jax.get_distributed_runtime_client(
            address, process, init_timeout=_NEVER, heartbeat_timeout=_NEVER,
            rpc_timeout=_LONG, shutdown_timeout=10, shutdown_on_destruction=False,
            use_compression=False,
        )  # fmt: skip
        self._logs: dict[str, ProgramLog] = {}
        self._kept: list[Any] = [self._runtime]
        self._starting, self.exchanging = ClusterThread(), ClusterThread()

    def connect(self, timeout: float) -> None:
        """Return when all processes are connected. XLA's own timeout would end the process."""
        answer, end = self._starting.submit(self._runtime.connect), time.monotonic() + timeout
        while not answer:
            if time.monotonic() > end:
                self.abandon()
                raise EngineError(f"not all {self.count} processes came within {timeout:g} s")
            time.sleep(0.01)
        if isinstance(answer[0], Exception):
            raise executable_error(answer[0], "connect") from None

    def make_cpu_client(self, devices: int) -> Any:
        named = {} if self._host is None else {"hostname": self._host}
        collectives = _jax.make_gloo_tcp_collectives(distributed_client=self._runtime, **named)
        client = xla_client.make_cpu_client(
            distributed_client=self._runtime, node_id=self.process, num_nodes=self.count,
            collectives=collectives, num_devices=devices,
        )  # fmt: skip
        self._kept += [collectives, client]
        return client

    def make_plugin_client(self, plugin: str, options: dict) -> Any:
        options = {**options, "node_id": self.process, "num_nodes": self.count}
        client = xla_client.make_c_api_client(plugin, options, self._runtime)
        self._kept.append(client)
        return client

    def log(self, group: Group) -> ProgramLog:
        """The programs that this process started on a group of devices."""
        return self._logs.setdefault(group.name, ProgramLog())

    def logs(self) -> dict[str, LogSummary]:
        return {name: log.summary() for name, log in list(self._logs.items())}

    def start(self, program: ShardedExecutable, args: list[ShardedValue]) -> list[Any]:
        """Start a program that communicates, as all processes of its group do."""
        group, values = program.group, array("I", [x.checksum or 0 for x in args])
        self.heartbeat.admit(group, program.checksum, zlib.crc32(values))
        try:
            results = self.attempt(lambda: program.start(args), group)
        except EngineError as error:
            self._failed(error, group)
            raise
        self.log(group).results = set(map(id, results))
        return results

    def attempt(
        self, action: Callable[[], Any], group: Group, thread: ClusterThread | None = None
    ) -> Any:
        """Do what may wait in XLA for others, such as starting a program, in its own thread."""
        answer = (thread or self._starting).submit(action)
        self._poll(lambda: bool(answer), group)
        result = answer[0]
        if isinstance(result, EngineError):
            self._blame(result, group)
        if isinstance(result, BaseException):
            raise result
        return result

    def wait(self, buffer: Any, group: ShardedDeviceGroup) -> None:
        """Return when a buffer has been computed; raise if that will never be."""
        self._poll(buffer.is_ready, group)
        problem = None
        try:
            buffer.block_until_ready()
        except Exception as error:
            problem = executable_error(error, "run")
        if problem is not None:  # raised here, without XLA's error as its context
            self._blame(problem, group)
            if id(buffer) in self.log(group).results:
                self._failed(problem, group)
            raise problem

    def _poll(self, is_over: Callable[[], bool], group: Group) -> None:
        """Wait without blocking in XLA, which would never return when a process is lost."""
        pause = _POLL
        while not is_over():
            time.sleep(pause)
            pause = min(1.2 * pause, _SLOWEST_POLL)
            self.heartbeat.check(group)

    def _blame(self, error: EngineError, group: Group) -> None:
        """Raise `WorkerLost` if a program failed because a process is lost: XLA notices first."""
        if not isinstance(error, OutOfMemory):
            before = self.attempt(self.heartbeat.receive, group, self.exchanging)
            self._poll(lambda: self.heartbeat.heard_again(group, before), group)

    def _failed(self, error: EngineError, group: Group) -> None:
        """Log that the last program failed.

        A program that lacked memory had not begun: if it failed on all processes, they can go on.
        After other errors nobody knows how far the others came in it.
        """
        log = self.log(group)
        final = not isinstance(error, OutOfMemory)
        log.fail(LoggedFailure(log.count, self.process, error.message, final))
        self.heartbeat.say()

    def write(self, key: str, value: str) -> None:
        self._runtime.key_value_set(key, value, allow_overwrite=True)

    def read(self, directory: str) -> dict[str, str]:
        """All entries of a directory, whose name ends with a slash."""
        return dict(self._runtime.key_value_dir_get(directory))

    def exchange(self, key: str, value: str, directory: str, group: Group) -> dict[str, str]:
        """Write an entry and read a directory; raise if a process of the group is lost."""

        def write_and_read() -> dict[str, str]:
            self.write(key, value)
            return self.read(directory)

        return self.attempt(write_and_read, group, self.exchanging)

    def forget(self, key: str) -> None:
        self.exchanging.submit(lambda: self._runtime.key_value_delete(key))

    def leave(self) -> None:
        """Disconnect; all processes do."""
        with contextlib.suppress(Exception):
            self._runtime.shutdown()

    def abandon(self) -> None:
        """Never free objects that wait for a lost process: their destructors would wait, too."""
        if self._kept:
            _keep_cluster_forever(self._kept)
            self._kept = []
            # End with Python's status, without C++ destructors: they abort if threads are in XLA.
            with contextlib.suppress(AttributeError, OSError):  # where the C library has it
                library = ctypes.CDLL(None)
                library.on_exit(library._exit, None)


def _keep_cluster_forever(objects: Sequence[Any]) -> None:
    for kept in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


class ClusterThread:
    """A thread that runs one action after the other, and may never return from one."""

    def __init__(self) -> None:
        self._actions: queue.SimpleQueue = queue.SimpleQueue()
        self._last: list[Any] | None = None
        threading.Thread(target=self._run, daemon=True, name="pullback-worker").start()

    def submit(self, action: Callable[[], Any]) -> list[Any]:
        """Return a list that will hold the result, or the exception."""
        answer: list[Any] = []
        self._last = answer
        self._actions.put((action, answer))
        return answer

    @property
    def busy(self) -> bool:
        return self._last == []

    def _run(self) -> None:
        while True:
            action, answer = self._actions.get()
            try:
                answer.append(action())
            except BaseException as error:
                answer.append(error)


class ClusterService:
    """XLA's coordination service, which listens at an address of this machine."""

    def __init__(self, address: str, count: int) -> None:
        self._service = _jax.get_distributed_runtime_service(
            address, count, heartbeat_timeout=_NEVER, cluster_register_timeout=_NEVER,
            shutdown_timeout=10,
        )  # fmt: skip

    def stop(self) -> None:
        self._service.shutdown()

    def abandon(self) -> None:
        _keep_cluster_forever([self._service])
