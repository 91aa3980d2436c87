"""The TCP part of reaching a node, against listeners on the loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from waiting import HANG_S, PATIENCE_S, not_held_up

from busbw.transport import Refused
from busbw.transport import dial as dialling
from busbw.transport.dial import dial


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def refusal(host: str, port: int, timeout_s: float) -> Refused:
    with not_held_up(), pytest.raises(Refused) as refused:
        dial(host, port, family="any", deadline=time.monotonic() + timeout_s)
    return refused.value


def test_a_node_that_accepts_and_never_speaks_is_reported_as_such(
    listener: socket.socket,
) -> None:
    port = listener.getsockname()[1]

    refused = refusal("127.0.0.1", port, 0.3)

    assert (
        refused.reason
        == f"connect to 127.0.0.1 port {port}: accepts TCP but never sends a banner (waited 0.3 s)"
    )
    assert (
        refused.next_step
        == "look at sshd on the node (busy, out of processes, or another service on the port): nc"
        f" 127.0.0.1 {port}"
    )
    assert not refused.again


def test_a_refused_port_is_quick_and_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    refused = refusal("127.0.0.1", port, HANG_S)

    assert refused.reason == f"connect to 127.0.0.1 port {port}: Connection refused"
    assert refused.next_step == f"look whether sshd runs on 127.0.0.1 and listens on port {port}"
    assert refused.again


def test_a_name_nobody_knows_is_not_tried_again() -> None:
    refused = refusal("no-such-node.invalid", 22, HANG_S)

    assert refused.reason.startswith("look up no-such-node.invalid: ")
    assert refused.next_step.startswith("correct the name, or give the node an address")
    assert not refused.again


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(host: str, port: int, *_: int, flags: int = 0) -> list[object]:
        if not flags:
            release.wait(HANG_S)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(dialling.socket, "getaddrinfo", hang)
    refused = refusal("node1", 22, 0.2)
    release.set()

    assert refused.reason == "look up node1: no answer from the resolver within 0.2 s"


def test_the_connection_sends_small_packets_at_once_and_notices_a_dead_peer(
    listener: socket.socket,
) -> None:
    def greet() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"SSH-2.0-x\r\n")
            peer.recv(1)

    thread = threading.Thread(target=greet)
    thread.start()
    with dial(
        "127.0.0.1", listener.getsockname()[1], family="inet", deadline=time.monotonic() + HANG_S
    ) as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert connection.recv(64) == b"SSH-2.0-x\r\n"
    thread.join(PATIENCE_S)


def test_every_address_of_a_name_is_tried(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    with socket.create_server(("127.0.0.2", 0)) as other:
        closed = other.getsockname()[1]
    addresses = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", closed)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
    ]
    monkeypatch.setattr(dialling.socket, "getaddrinfo", lambda *_, **__: addresses)

    refused = refusal("node1", port, 0.3)

    assert "connect to 127.0.0.1 (node1) port" in refused.reason
    assert "never sends a banner" in refused.reason


def test_too_many_open_files_is_reported_as_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(dialling.socket, "socket", full)
    refused = refusal("127.0.0.1", 22, HANG_S)

    assert (refused.reason, refused.next_step) == (
        "connect to 127.0.0.1 port 22: Too many open files",
        "raise this machine's limit: ulimit -n",
    )
