"""Processes find each other; strangers and malformed messages change nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pullback.distributed import handshake
from pullback.distributed.gate import Gate, one_gate_address
from pullback.distributed.handshake import MEET, WORK, handshake_respond
from pullback.distributed.launcher import free_launcher_port
from pullback.distributed.rendezvous import Rendezvous, join_rendezvous, rendezvous_introduction
from pullback.errors import ArgumentError, EngineError

HERE = "127.0.0.1"
SECRET = b"only the processes of this job know it"


@contextlib.contextmanager
def waiting(count, timeout=20.0):
    """Process 0 of `count` and the port at which it waits."""
    with free_launcher_port() as port, contextlib.closing(Gate(HERE, port, SECRET)) as gate:
        yield Rendezvous(gate, count, timeout), port


def outcome(f):
    try:
        return f()
    except EngineError as error:
        return re.sub(r" \(pid.*?\)", "", error.message)


def meet(count, *others, timeout=20.0):
    """Return what process 0 of `count` learns when others come, and what they learn.

    Each is given as its idea of (count, index).
    """
    with waiting(count, timeout) as (first, port), ThreadPoolExecutor() as pool:
        told = [
            pool.submit(outcome, lambda c=c: join_rendezvous(HERE, port, *c, timeout, SECRET).names)
            for c in others
        ]
        found = outcome(first.names)
        if isinstance(found, list):
            first.dismiss(found)
        return found, [t.result() for t in told]


def test_processes_meet():
    names, told = meet(3, (3, 2), (3, 1))
    assert told == [names, names] and len(names) == 3
    assert all(f"pid {os.getpid()}" in name for name in names)


def test_processes_that_never_come():
    wrong = "processes 1, 3 did not come within 1 s"
    assert meet(4, timeout=0.1)[0] == "processes 1, 2, 3 did not come within 0.1 s"
    assert meet(4, (4, 2), timeout=1.0) == (wrong, [wrong])


def test_a_process_that_leaves_again_is_awaited_again():
    with waiting(2) as (first, port), ThreadPoolExecutor() as pool:
        with socket.create_connection((HERE, port)) as connection:
            handshake_respond(connection, SECRET, MEET)
            connection.sendall(message(rendezvous_introduction(2, 1)))
            while first._missing:
                time.sleep(0.01)
        while not first._missing:
            time.sleep(0.01)
        told = pool.submit(join_rendezvous, HERE, port, 2, 1, 20.0, SECRET)
        names = first.names()
        first.dismiss(names)
        assert told.result() == (names, HERE)


def test_processes_with_different_settings_raise():
    wrong, told = meet(3, (2, 1))
    assert wrong.startswith("num_processes must be the same for all processes, got 3 on process 0")
    assert told == [wrong]
    assert meet(3, (3, 1), (3, 1))[0] == "two processes have process_id 1, and"
    assert {"pullback", "jaxlib", "PULLBACK_EAGER"} < set(rendezvous_introduction(2, 0)["same"])


def test_a_process_with_another_secret_raises_at_once():
    with waiting(2) as (_, port):
        with pytest.raises(EngineError, match="has another secret than this process") as caught:
            join_rendezvous(HERE, port, 2, 1, 20.0, b"some other secret of some other job")
        assert caught.value.hint == "PULLBACK_SECRET must be the same for all processes."


def test_the_secret_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv("PULLBACK_SECRET", raising=False)
    with pytest.raises(ArgumentError, match="initialize: PULLBACK_SECRET is not set") as caught:
        handshake.handshake_secret()
    assert "the same random text for all" in caught.value.hint
    monkeypatch.setenv("PULLBACK_SECRET", "too short")
    with pytest.raises(ArgumentError, match="PULLBACK_SECRET must have at least 16 characters"):
        handshake.handshake_secret()
    made = handshake.new_handshake_secret()
    monkeypatch.setenv("PULLBACK_SECRET", made)
    assert (
        handshake.handshake_secret() == made.encode() and made != handshake.new_handshake_secret()
    )


def message(content):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack(">I", len(text)) + text


GOOD = rendezvous_introduction(2, 1)
STRANGERS = [
    b"",
    b"\n",
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    json.dumps(GOOD).encode() + b"\n",
    message(GOOD),
    b"meet" + bytes(64),
    bytes(100_000),
    bytes(range(256)) * 100,
]
MALFORMED = [
    bytes(4),
    b"\xff" * 200,
    message(b"{"),
    message(b"\xff\xfe"),
    message(b"[" * 60_000),
    message(b"1" * 60_000),
    message([]),
    message("text"),
    message({}),
    message({"index": 1}),
    message(GOOD | {"index": "1"}),
    message(GOOD | {"index": True}),
    message(GOOD | {"index": -1}),
    message(GOOD | {"name": 3}),
    message(GOOD | {"same": None}),
    message(GOOD | {"same": []}),
]


def refused(port, data, secret=None, purpose=MEET):
    """Send something to process 0, and return when it has closed the connection."""
    with socket.create_connection((HERE, port), timeout=20) as connection:
        if secret is not None:
            handshake_respond(connection, secret, purpose)
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass


def test_strangers_and_malformed_messages_are_refused_and_logged(caplog):
    with waiting(2) as (first, port), ThreadPoolExecutor() as pool:
        for data in STRANGERS:
            refused(port, data)
        for data in MALFORMED:
            refused(port, data, SECRET)
        refused(port, b"", SECRET, WORK)  # there is no service yet
        logged = [r.getMessage() for r in caplog.records if r.name == "pullback.distributed"]
        told = pool.submit(join_rendezvous, HERE, port, 2, 1, 20.0, SECRET)
        names = first.names()
        first.dismiss(names)
        assert told.result().names == names
    assert len(logged) == len(STRANGERS) + len(MALFORMED) + 1
    assert all(line.startswith("refused a connection from 127.0.0.1: ") for line in logged)
    assert sum("does not know the secret" in line for line in logged) >= 2
    assert sum("cannot be understood" in line for line in logged) >= 12


def test_connections_that_say_nothing_keep_nobody_out():
    """Many strangers hold connections open: the oldest are closed."""
    with waiting(2) as (first, port), contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        held = [
            stack.enter_context(socket.create_connection((HERE, port), timeout=20))
            for _ in range(270)
        ]
        told = pool.submit(join_rendezvous, HERE, port, 2, 1, 20.0, SECRET)
        first.dismiss(first.names())
        assert len(told.result().names) == 2
        assert len(held[0].recv(48)) == 48 and held[0].recv(1) == b""


def test_a_proof_is_not_valid_for_another_connection():
    """An eavesdropper who repeats the words of a process gets nothing."""
    with waiting(2) as (first, port), socket.socket() as tap:
        tap.bind((HERE, 0))
        tap.listen()
        with ThreadPoolExecutor() as pool:
            caller = pool.submit(
                outcome, lambda: join_rendezvous(HERE, tap.getsockname()[1], 2, 1, 1.0, SECRET)
            )
            with tap.accept()[0] as theirs, socket.create_connection((HERE, port)) as mine:
                theirs.sendall(mine.recv(48))
                proof = theirs.recv(68)
                tap.close()
            with socket.create_connection((HERE, port)) as again:
                assert len(again.recv(48)) == 48
                again.sendall(proof)
                assert again.recv(32) == bytes(32) and again.recv(1) == b""
            assert caller.result().startswith("no coordinator at")
        assert first._missing == {1}


def test_a_coordinator_that_does_not_know_the_secret_is_not_believed():
    with socket.create_server((HERE, 0)) as impostor, ThreadPoolExecutor() as pool:
        port = impostor.getsockname()[1]
        told = pool.submit(outcome, lambda: join_rendezvous(HERE, port, 2, 1, 1.0, SECRET))
        with impostor.accept()[0] as connection:
            connection.sendall(b"pullback meet 1\n" + bytes(32))
            assert len(connection.recv(68)) == 68
            connection.sendall(b"x" * 32)
            impostor.close()
        assert told.result().startswith(f"no coordinator at 127.0.0.1:{port} within 1 s")


def test_no_coordinator():
    with pytest.raises(EngineError, match=r"no coordinator at 127.0.0.1:1 within 0.1 s"):
        join_rendezvous(HERE, 1, 2, 1, 0.1, SECRET)


def test_a_port_that_is_taken():
    with (
        socket.create_server((HERE, 0)) as server,
        pytest.raises(EngineError, match=r"another program listens at 127.0.0.1:\d+"),
    ):
        Gate(HERE, server.getsockname()[1], SECRET)


def test_process_0_listens_at_one_address_only():
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ArgumentError, match=f"must listen at one address, got {host}"):
            one_gate_address(host)
    assert one_gate_address("train-1.example") == "train-1.example"
    with (
        pytest.raises(EngineError, match=r"cannot listen at 203.0.113.1:\d+ .*"),
        free_launcher_port() as port,
    ):
        Gate("203.0.113.1", port, SECRET)
    with waiting(2) as (first, port):
        assert first._gate.address == f"127.0.0.1:{port}"
