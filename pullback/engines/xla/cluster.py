"""Several processes as one client: XLA's coordination service, seen from one of them."""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from pullback.engines.xla.bindings import _jax, xla_client
from pullback.engines.xla.executable import explain
from pullback.engines.xla.program_log import Ledger, LoggedFailure
from pullback.errors import EngineError, OutOfMemory

# XLA's own watch over processes ends those that are left, so it never finds anything out:
# `pullback.distributed.heartbeat` does.
_NEVER = 10_000_000
_LONG = 600  # a thread that waits for words must not wake up while Python ends
_POLL, _SLOWEST_POLL = 2e-5, 1e-3  # seconds between two looks at a result


class Cluster:
    """The processes that compute together, seen from one of them; the first has the `Service`.

    `host` is the name by which the others reach this one; None finds it out.
    """

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
        self._ledgers: dict[str, Ledger] = {}
        self.pulse: Any = None  # what is known about the others, once all are connected
        self._kept: list[Any] = [self._runtime]
        self._starting, self._telling = Aside(), Aside()

    def connect(self, timeout: float) -> None:
        """Return when all processes are there. XLA's own limit would end the process."""
        answer, end = self._starting.ask(self._runtime.connect), time.monotonic() + timeout
        while not answer:
            if time.monotonic() > end:
                self.abandon()
                raise EngineError(f"not all {self.count} processes came within {timeout:g} s")
            time.sleep(0.01)
        if isinstance(answer[0], Exception):
            raise explain(answer[0], "connect") from None

    def make_cpu_client(self, devices: int) -> Any:
        named = {} if self._host is None else {"hostname": self._host}
        collectives = _jax.make_gloo_tcp_collectives(distributed_client=self._runtime, **named)
        made = xla_client.make_cpu_client(
            distributed_client=self._runtime, node_id=self.process, num_nodes=self.count,
            collectives=collectives, num_devices=devices,
        )  # fmt: skip
        self._kept += [collectives, made]
        return made

    def make_plugin_client(self, plugin: str, options: dict) -> Any:
        options = {**options, "node_id": self.process, "num_nodes": self.count}
        made = xla_client.make_c_api_client(plugin, options, self._runtime)
        self._kept.append(made)
        return made

    # -- programs -------------------------------------------------------------------------------

    def ledger(self, group: Any) -> Ledger:
        """The programs that this process started on a group of devices."""
        return self._ledgers.setdefault(group.name, Ledger())

    def ledgers(self) -> dict[str, Any]:
        """All of them, in words."""
        return {name: ledger.words() for name, ledger in list(self._ledgers.items())}

    def start(self, program: Any, args: list[Any]) -> list[Any]:
        """Start a program that communicates, as all processes of its group do."""
        group = program.group
        self.pulse.admit(group, program.mark, zlib.crc32(array("I", [x.mark for x in args])))
        try:
            made = self.attempt(lambda: program.start(args), group)
        except EngineError as error:
            self._failed(error, group)
            raise
        self.ledger(group).results = set(map(id, made))
        return made

    def attempt(self, action: Callable[[], Any], group: Any, aside: Aside | None = None) -> Any:
        """Do what may wait in XLA for other processes, such as to start a program: on CPU, some
        run in the thread that starts them. So it is a thread of its own."""
        answer = (aside or self._starting).ask(action)
        self._poll(lambda: bool(answer), group)
        made = answer[0]
        if isinstance(made, EngineError):
            self._blame(made, group)
        if isinstance(made, BaseException):
            raise made
        return made

    def wait(self, buffer: Any, group: Any) -> None:
        """Return when a buffer has been computed; raise if that will never be."""
        self._poll(buffer.is_ready, group)
        problem = None
        try:
            buffer.block_until_ready()
        except Exception as error:
            problem = explain(error, "run")
        if problem is not None:  # told here, without what XLA said before
            self._blame(problem, group)
            if id(buffer) in self.ledger(group).results:
                self._failed(problem, group)
            raise problem

    def _poll(self, is_over: Callable[[], bool], group: Any) -> None:
        """Blocking in XLA would be for ever when a process is lost."""
        pause = _POLL
        while not is_over():
            time.sleep(pause)
            pause = min(1.2 * pause, _SLOWEST_POLL)
            self.pulse.check(group)

    def _blame(self, error: EngineError, group: Any) -> None:
        """A program failed. If that is for a lost process, raise that: transports notice first.

        If it is not, all processes give another sign of life.
        """
        if not isinstance(error, OutOfMemory):
            before = self.attempt(self.pulse.hear, group, self._telling)
            self._poll(lambda: self.pulse.heard_again(group, before), group)

    def _failed(self, error: EngineError, group: Any) -> None:
        """The last program failed. If it lacked memory, it had not begun: all may go on after it,
        if it failed on all. Else nobody knows how far the others came in it."""
        ledger = self.ledger(group)
        final = not isinstance(error, OutOfMemory)
        ledger.fail(LoggedFailure(ledger.count, self.process, error.message, final))
        self.pulse.say()

    # -- words for all to read --------------------------------------------------------------------

    def tell(self, key: str, value: str) -> None:
        self._runtime.key_value_set(key, value, allow_overwrite=True)

    def told(self, directory: str) -> dict[str, str]:
        """All that was told under a directory, whose name ends with a slash."""
        return dict(self._runtime.key_value_dir_get(directory))

    def exchange(self, key: str, value: str, directory: str, group: Any) -> dict[str, str]:
        """Tell something, and hear what was told under a directory; raise if that never comes."""

        def both() -> dict[str, str]:
            self.tell(key, value)
            return self.told(directory)

        return self.attempt(both, group, self._telling)

    def forget(self, key: str) -> None:
        self._telling.ask(lambda: self._runtime.key_value_delete(key))

    def telling(self) -> bool:
        """Whether something is being told or heard."""
        return self._telling.busy

    # -- the end ----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Leave in order: all processes do."""
        with contextlib.suppress(Exception):
            self._runtime.shutdown()

    def abandon(self) -> None:
        """Never free what waits for a lost process: that would wait for it too."""
        if self._kept:
            _keep_for_ever(self._kept)
            _end_without_destructors()
            self._kept = []


def _keep_for_ever(objects: Sequence[Any]) -> None:
    for kept in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def _end_without_destructors() -> None:
    """When Python is over, end with its exit status; destructors of C++ would end it otherwise,
    for threads are left behind in XLA."""
    with contextlib.suppress(AttributeError, OSError):  # where the C library has it
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)


class Aside:
    """A thread that does one thing after the other, and may be left behind in one."""

    def __init__(self) -> None:
        self._actions: queue.SimpleQueue = queue.SimpleQueue()
        self._last: list[Any] | None = None
        threading.Thread(target=self._run, daemon=True, name="pullback-aside").start()

    def ask(self, action: Callable[[], Any]) -> list[Any]:
        """A list that will hold the result, or the exception."""
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


class Service:
    """The coordination service, which listens at an address of this machine."""

    def __init__(self, address: str, count: int) -> None:
        self._service = _jax.get_distributed_runtime_service(
            address, count, heartbeat_timeout=_NEVER, cluster_register_timeout=_NEVER,
            shutdown_timeout=10,
        )  # fmt: skip

    def stop(self) -> None:
        self._service.shutdown()

    def abandon(self) -> None:
        _keep_for_ever([self._service])


current: Cluster | None = None  # what a client that is made from now on belongs to
