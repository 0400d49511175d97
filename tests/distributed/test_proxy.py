"""What connects processes to XLA's service: nobody else reaches it."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading

import pytest

from pullback.distributed.connection import connect_to_coordinator
from pullback.distributed.handshake import Refused
from pullback.distributed.proxy import ProxyRelay, proxy_directory
from pullback.errors import ArgumentError


def test_only_this_user_can_enter_the_directory_of_the_service():
    with proxy_directory() as path:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert not os.path.exists(path)


def test_the_path_of_a_socket_is_short_enough(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with proxy_directory() as path, socket.socket(socket.AF_UNIX) as service:
        service.bind(f"{path}/service")


def test_a_relay_forwards_and_notes_who_has_left():
    with proxy_directory() as folder, socket.socket(socket.AF_UNIX) as service:
        relay = ProxyRelay(f"{folder}/service", 3)
        service.bind(f"{folder}/service")
        service.listen()
        theirs, mine = socket.socketpair()
        serving = threading.Thread(target=relay.serve, args=(mine,))
        serving.start()
        theirs.sendall((2).to_bytes(4) + b"question")
        with service.accept()[0] as there:
            assert there.recv(100) == b"question"
            there.sendall(b"answer")
            assert theirs.recv(100) == b"answer" and relay.ended == set()
            theirs.close()
            serving.join(20)
            assert there.recv(100) == b""
    assert relay.ended == {2} and relay.changed.is_set()


@pytest.mark.parametrize("index", [0, 3, 2**31])
def test_a_relay_knows_the_processes(index):
    theirs, mine = socket.socketpair()
    theirs.sendall(index.to_bytes(4))
    with theirs, mine, pytest.raises(Refused, match=f"there is no process {index}"):
        ProxyRelay("nowhere", 3).serve(mine)


@pytest.mark.parametrize(("address", "listen"), [("0.0.0.0:1", ""), ("127.0.0.1:1", "::")])
def test_no_process_listens_at_all_addresses(monkeypatch, address, listen):
    monkeypatch.setenv("PULLBACK_LISTEN", listen)
    monkeypatch.setenv("PULLBACK_SECRET", "any secret of sixteen characters")
    with pytest.raises(ArgumentError, match="process 0 must listen at one address, got"):
        connect_to_coordinator(address, 2, 0, 1.0)
