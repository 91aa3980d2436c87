"""Opening the TCP connection that a session runs on: names looked up in bounded time, no delay,
dead peers noticed, silence recognised.

TCP_NODELAY because paramiko does not set it: a command on a live connection takes 44 ms without
it and 2 ms with it (every second small write waits for the peer's delayed acknowledgement).
TCP_USER_TIMEOUT because a node that lost its power acknowledges nothing: the kernel then ends the
connection after half a minute instead of after a quarter of an hour.
"""

from __future__ import annotations

import queue
import select
import socket
import threading
import time

from busbw.transport import Refused, remaining_s

_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_DEAD_PEER_MS = 30_000

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


def dial(host: str, port: int, *, family: str, deadline: float) -> socket.socket:
    """A connected socket on which the peer has begun to speak.

    Raises:
        Refused: the name is not known, nothing answers, the connection is refused, or the peer
        stays silent.
    """
    whole_s = remaining_s(deadline)
    addresses = _look_up(host, port, family, whole_s)
    failure = Refused(f"connect to {host} port {port}: no address")
    for number, address in enumerate(addresses):
        share_s = remaining_s(deadline) / (len(addresses) - number)
        try:
            return _connect(address, host, port, share_s)
        except Refused as refused:
            failure = refused
    raise failure


def _connect(address: Address, host: str, port: int, timeout_s: float) -> socket.socket:
    family, place = address
    numeric = place[0] if place[0] == host else f"{place[0]!s} ({host})"
    where = f"connect to {numeric} port {port}"
    started = time.monotonic()
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(
            f"{where}: {error.strerror}", "raise this machine's limit: ulimit -n"
        ) from None
    try:
        connection.settimeout(timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_PEER_MS)
        connection.connect(place)
        if _speaks(connection, timeout_s - (time.monotonic() - started)):
            return connection
        step = (
            "look at sshd on the node (busy, out of processes, or another service on the port): nc"
            f" {host} {port}"
        )
        raise Refused(
            f"{where}: accepts TCP but never sends a banner (waited {round(timeout_s, 1):g} s)",
            step,
        )
    except TimeoutError:
        connection.close()
        step = f"look whether {host} is up, and for a firewall between: ping {host}"
        raise Refused(f"{where}: timed out after {round(timeout_s, 1):g} s", step) from None
    except OSError as error:
        connection.close()
        step = f"look whether sshd runs on {host} and listens on port {port}"
        raise Refused(f"{where}: {error.strerror or error}", step, again=True) from None
    except BaseException:
        connection.close()
        raise


def _speaks(connection: socket.socket, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(max(1.0, timeout_s * 1000)))


def _look_up(host: str, port: int, family: str, timeout_s: float) -> list[Address]:
    family_number = _FAMILIES.get(family, socket.AF_UNSPEC)
    try:
        numeric = socket.getaddrinfo(
            host, port, family_number, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        return [(info[0], info[4]) for info in numeric]
    except socket.gaierror:
        pass
    answer: queue.SimpleQueue[list[Address] | socket.gaierror] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(
                [
                    (info[0], info[4])
                    for info in socket.getaddrinfo(host, port, family_number, socket.SOCK_STREAM)
                ]
            )
        except socket.gaierror as error:
            answer.put(error)

    # The resolver has time limits of its own, longer than ours, and no way to be interrupted.
    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    try:
        result = answer.get(timeout=timeout_s)
    except queue.Empty:
        step = "look at the resolver of this machine: /etc/resolv.conf"
        raise Refused(
            f"look up {host}: no answer from the resolver within {round(timeout_s, 1):g} s", step
        ) from None
    if isinstance(result, socket.gaierror):
        step = (
            "correct the name, or give the node an address in the inventory or a HostName in"
            " ~/.ssh/config"
        )
        raise Refused(f"look up {host}: {result.strerror}", step)
    return result
