"""A process as a member of a group: how it joins the others, and how it leaves them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

from pullback.distributed.barriers import compare_at_barrier
from pullback.distributed.environment import LAUNCHER, LISTEN
from pullback.distributed.gate import Gate, one_gate_address
from pullback.distributed.handshake import WORK, handshake_secret
from pullback.distributed.heartbeat import ENDED, FAILED, LEFT, Heartbeat
from pullback.distributed.proxy import Proxy, ProxyRelay, proxy_directory
from pullback.distributed.rendezvous import Rendezvous, RendezvousResult, join_rendezvous
from pullback.distributed.synchronize import synchronize_words
from pullback.engines.environment import environment_variable
from pullback.engines.processes import ProcessGroup, processes_in_words
from pullback.engines.xla.process_cluster import ClusterService, ProcessCluster
from pullback.engines.xla.replicas import ReplicatedProgram, differing_replicas
from pullback.errors import EngineError, ProcessMismatch, PullbackError, WorkerLost
from pullback.graph.graph import Graph
from pullback.graph.source_lines import user_line
from pullback.static.fingerprints import fingerprint


def connect_to_coordinator(address: str, count: int, index: int, timeout: float) -> Connection:
    """Return when all processes are connected to the coordinator at `address`."""
    host, _, port = address.rpartition(":")
    host = one_gate_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    listens = one_gate_address(environment_variable(LISTEN, host))
    secret = handshake_secret()
    patience = environment_variable("PULLBACK_PATIENCE", 8.0)
    service = relay = proxy = None
    # Connections last as long as the job: once they are there, nothing listens any more.
    with contextlib.ExitStack() as until_connected:
        path = f"{until_connected.enter_context(proxy_directory())}/service"
        if index == 0:
            gate = Gate(listens, int(port), secret)
            until_connected.callback(gate.close)
            rendezvous = Rendezvous(gate, count, timeout)
            joined = RendezvousResult(rendezvous.names(), gate.host)
            service = ClusterService(f"unix:{path}", count)
            relay = ProxyRelay(path, count)
            gate.open(WORK, relay.serve)
            rendezvous.dismiss(joined.names)
        else:
            joined = join_rendezvous(host, int(port), count, index, timeout, secret)
            proxy = Proxy((host, int(port)), secret, index, path)
            until_connected.callback(proxy.close)
        cluster = ProcessCluster(f"unix:{path}", index, count, patience, joined.host)
        try:
            cluster.connect(timeout)
        except EngineError as error:
            if service is not None:
                service.abandon()
            raise error.at("initialize", user_line()) from None
    return Connection(cluster, Heartbeat(cluster, proxy or relay, joined.names), service)


class Connection(ProcessGroup):
    """The group of processes that this one has joined; process 0 has the `service`."""

    cluster: ProcessCluster

    def __init__(
        self, cluster: ProcessCluster, heartbeat: Heartbeat, service: ClusterService | None
    ) -> None:
        self.index, self.count = cluster.process, cluster.count
        self.cluster, self.heartbeat, self._service = cluster, heartbeat, service
        cluster.heartbeat = heartbeat
        self._pid = os.getpid()
        self._agreed: set[tuple[str, str]] = set()  # devices and programs started on them

    def agree_on_launch(self, program: ReplicatedProgram, args: list[Any], always: bool) -> None:
        devices, whole = program.devices, program.whole
        program.identity = program.identity or fingerprint(program.local)[:16]
        # A program that was agreed on before and then dropped here may still be kept elsewhere.
        if always or (devices.name, program.identity) not in self._agreed:
            tag = f"the next program on {devices.name}"
            checksums = json.dumps(program.checksums(args))
            mine = f"{_described_on_connection(whole)}, {program.identity}\n{checksums}"
            words = synchronize_words(self.cluster, self.heartbeat, tag, mine, 600.0, devices)
            said = {k: word.split("\n") for k, word in words.items()}
            compare_at_barrier(tag, {k: described for k, (described, _) in said.items()})
            _check_connection_inputs({k: json.loads(sums) for k, (_, sums) in said.items()})
            self._agreed.add((devices.name, program.identity))

    def exchange(self, tag: str, word: str, timeout: float) -> list[str]:
        return list(synchronize_words(self.cluster, self.heartbeat, tag, word, timeout).values())

    def shutdown(self) -> None:
        cluster, heartbeat, service = self.cluster, self.heartbeat, self._service
        if heartbeat.over or os.getpid() != self._pid:  # a forked child is not a member
            return
        heartbeat.over = True
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if error is None:
            lost = self._wait_for_others()
        else:
            lost = error.process if isinstance(error, WorkerLost) else self.index
        if lost is None:
            different = heartbeat.last_difference() if error is None else None
            cluster.leave()
            heartbeat.stop()
            if service is not None:
                service.stop()
            if different is not None:
                raise different
            return
        heartbeat.say(FAILED, lost, connection_error_line(error))
        if lost != self.index:
            with contextlib.suppress(KeyError, OSError):
                os.write(int(os.environ[LAUNCHER]), f"{lost}\n".encode())
        cluster.abandon()
        if service is not None:
            service.abandon()
            time.sleep(2 * heartbeat.interval)  # the others hear of it through this process
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


def _check_connection_inputs(found: dict[int, list[dict[str, int]]]) -> None:
    """Raise if processes have different values of an input, according to their checksums."""
    differing = differing_replicas(found)
    for i, groups in differing.items():
        more = f", and of {len(differing) - 1} more inputs" if len(differing) > 1 else ""
        names = " and ".join(map(processes_in_words, groups.values()))
        raise ProcessMismatch(
            f"{names} have different values of input {i}{more}",
            hint="Numbers and whole tensors must have the same values on all processes: use the "
            "same seed and\nthe same data. If each process has its own part of the data, combine "
            "them with\npb.distributed.shard_local.",
            input=i,
        )


def connection_error_line(error: BaseException | None) -> str:
    """Return the first line of an error, to append to a sentence."""
    if error is None:
        return ""
    said = error.message if isinstance(error, PullbackError) else str(error)
    text = said.strip().partition("\n")[0]
    return f": {type(error).__name__}{': ' if text else ''}{text[:300]}"


def _described_on_connection(graph: Graph) -> str:
    """Describe a program in the same words on every process."""
    last = next((n for n in reversed(graph.nodes) if n.where is not None), graph.nodes[-1])
    where = "" if last.where is None else f" ({last.where})"
    return f"{len(graph.nodes)} ops up to {last.op.title}{where}"
