"""A process as a member of a group: how it joins the others, and how it leaves them."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from pullback.distributed.environment import LAUNCHER
from pullback.distributed.heartbeat import ENDED, FAILED, LEFT, Heartbeat
from pullback.distributed.membership import compare
from pullback.distributed.proxy import Proxy
from pullback.distributed.rendezvous import Rendezvous, join
from pullback.distributed.synchronize import gather
from pullback.engines.environment import variable
from pullback.engines.processes import ProcessGroup
from pullback.engines.xla.cluster import Cluster, Service
from pullback.engines.xla.sharded import DeviceGroup
from pullback.errors import EngineError, PullbackError, WorkerLost
from pullback.graph.graph import Graph
from pullback.graph.where import user_line
from pullback.static.fingerprints import fingerprint


def connect(address: str, count: int, index: int, timeout: float) -> Connection:
    """Return when all processes are connected to the coordinator at `address`."""
    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    patience = variable("PULLBACK_PATIENCE", 8.0)
    local = host if host == "127.0.0.1" else None
    service = proxy = None
    if index == 0:
        rendezvous = Rendezvous(host, int(port), count, timeout)
        names = rendezvous.names()
        # The service has no password: on a single machine, nobody else may reach it.
        service = Service(f"{local or '[::]'}:{port}", count)
        rendezvous.dismiss(names)
        coordinator = f"127.0.0.1:{port}"
    else:
        names = join(host, int(port), count, index, timeout)
        proxy = Proxy((host, int(port)))
        coordinator = proxy.address
    cluster = Cluster(coordinator, index, count, patience, local)
    try:
        cluster.connect(timeout)
    except EngineError as error:
        if service is not None:
            service.abandon()
        raise error.at("initialize", user_line()) from None
    return Connection(cluster, Heartbeat(cluster, proxy, names), service)


class Connection(ProcessGroup):
    """The group of processes that this one has joined; process 0 has the `service`."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, heartbeat: Heartbeat, service: Service | None) -> None:
        self.index, self.count = cluster.process, cluster.count
        self.cluster, self.heartbeat, self._service = cluster, heartbeat, service
        cluster.heartbeat = heartbeat
        self._agreed: set[tuple[str, str]] = set()  # devices and programs started on them

    def agree_on_program(self, whole: Graph, local: Graph, devices: DeviceGroup) -> None:
        # A program that was agreed on before and then dropped here may still be kept elsewhere.
        found = fingerprint(local)[:16]
        if (devices.name, found) not in self._agreed:
            tag, word = f"the next program on {devices.name}", f"{_described(whole)}, {found}"
            compare(tag, gather(self.cluster, self.heartbeat, tag, word, 600.0, devices))
            self._agreed.add((devices.name, found))

    def exchange(self, tag: str, word: str, timeout: float) -> list[str]:
        return list(gather(self.cluster, self.heartbeat, tag, word, timeout).values())

    def shutdown(self) -> None:
        cluster, heartbeat, service = self.cluster, self.heartbeat, self._service
        if heartbeat.over:
            return
        heartbeat.over = True
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if error is None:
            lost = self._wait_for_others()
        else:
            lost = error.process if isinstance(error, WorkerLost) else self.index
        if lost is None:
            cluster.leave()
            heartbeat.stop()
            if service is not None:
                service.stop()
            return
        heartbeat.say(FAILED, lost, one_line(error))
        if lost != self.index:
            with contextlib.suppress(KeyError, OSError):
                os.write(int(os.environ[LAUNCHER]), f"{lost}\n".encode())
        cluster.abandon()
        if service is not None:
            service.abandon()
            time.sleep(2.0)  # the others hear of it through this process
        heartbeat.stop(lost)

    def _wait_for_others(self) -> int | None:
        """Wait until all end, process 0 last: the others leave through it; or return a lost one."""
        heartbeat = self.heartbeat
        others = [k for k in range(self.count) if k != self.index]
        heartbeat.poll_faster()
        for state in (ENDED, LEFT):
            if heartbeat.trouble(others) is None:
                heartbeat.say(state)
            while not all(heartbeat.states().get(k) in (state, LEFT) for k in others):
                if (error := heartbeat.trouble(others)) is not None:
                    return error.process
                if state == LEFT and self.index != 0:
                    return None
                time.sleep(0.02)
        time.sleep(0.2)
        return None


def one_line(error: BaseException | None) -> str:
    """Return the first line of an error, to append to a sentence."""
    if error is None:
        return ""
    said = error.message if isinstance(error, PullbackError) else str(error)
    text = said.strip().partition("\n")[0]
    return f": {type(error).__name__}{': ' if text else ''}{text[:300]}"


def _described(graph: Graph) -> str:
    """Describe a program in the same words on every process."""
    last = next((n for n in reversed(graph.nodes) if n.where is not None), graph.nodes[-1])
    where = "" if last.where is None else f" ({last.where})"
    return f"{len(graph.nodes)} ops up to {last.op.title}{where}"
