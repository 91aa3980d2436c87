"""Nodes whose sshd, shell or disk misbehaves, all in one lab: each is named by itself, in three
lines, and the others are checked and measured within a bounded time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import test_partial_cluster as partial

from busbw.lab import enter, files, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab
Make = Callable[[LabState, str], None]


def configured(*lines: str) -> Make:
    """The node's sshd with these lines first in its configuration, where they win."""

    def make(lab: LabState, node: str) -> None:
        config = files.node_directory(lab, lab.node(node)) / "sshd_config"
        default = config.read_text()
        if any(line.startswith("Port ") for line in lines):
            default = default.replace("Port 22\n", "")
        config.write_text("\n".join((*lines, default)))
        first = lab.node(node).init
        assert first is not None
        processes.send(first, signal.SIGHUP)

    return make


def written(name: str, text: str) -> Make:
    """A file below the node's home."""

    def make(lab: LabState, node: str) -> None:
        path = files.node_directory(lab, lab.node(node)) / "home" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return make


def shell(text: str) -> Make:
    """Commands on the node, with the rights of the lab's maker."""

    def make(lab: LabState, node: str) -> None:
        argv = enter.node_argv(lab, lab.node(node), ("sh", "-c", text))
        subprocess.run(argv, check=True, timeout=400)

    return make


SERVER = r"""
import os, socket, sys, time
kind, until = sys.argv[1], time.monotonic() + 110
while True:
    try:
        server = socket.create_server(("0.0.0.0", 22))
        break
    except OSError:  # the sshd that was there ends just now
        if time.monotonic() > until:
            raise
        time.sleep(0.1)
open(os.path.expanduser("~/listening"), "w").close()
while True:
    peer, _ = server.accept()
    if kind == "flood":
        try:
            peer.sendall(b"Welcome to the cluster, please wait\r\n" * 30000)
        except OSError:
            pass
    elif kind == "version":
        peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    elif kind == "web":
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n")
        peer.close()
    kept = globals().setdefault("kept", [])
    kept.append(peer)
"""


def served(kind: str) -> Make:
    """Another program on the node's port 22, and sshd on one where nobody looks for it."""

    def make(lab: LabState, node: str) -> None:
        configured("Port 2022")(lab, node)
        home = files.node_directory(lab, lab.node(node)) / "home"
        (home / "server.py").write_text(SERVER)
        text = f"{sys.executable} ~/server.py {kind} >/dev/null 2>&1 </dev/null &"
        shell(f"export HOME=/run/node/home; {text}")(lab, node)
        deadline = time.monotonic() + 120
        again = time.monotonic() + 10
        while not (home / "listening").exists():
            assert time.monotonic() < deadline, f"{node}: nothing listens on port 22"
            if time.monotonic() > again:  # the first signal came before the sshd was ready for it
                first = lab.node(node).init
                assert first is not None
                processes.send(first, signal.SIGHUP)
                again += 10
            time.sleep(0.1)

    return make


_NOT_BEGUN = "before the command began"
_RESTRICTED = """\
sed 's,:[^:]*$,:/bin/rbash,' /etc/passwd > /run/node/home/passwd
mount --bind /run/node/home/passwd /etc/passwd
"""
_YEAR_OFF = """\
cat > /run/node/bin/date <<'END'
#!/bin/sh
exec /bin/date -d 'now - 1 year' "$@"
END
chmod 755 /run/node/bin/date
"""
_NOEXEC = """\
mount --bind /run/node/home /run/node/home
mount -o remount,bind,noexec /run/node/home
"""


def half_open(lab: LabState, node: str) -> None:
    """An sshd that takes one log-in at a time, and somebody who began one and does not go on."""
    configured("MaxStartups 1", "LoginGraceTime 0")(lab, node)
    text = """
    sleep 2
    until exec 3<>/dev/tcp/127.0.0.1/22; do sleep 0.2; done 2>/dev/null
    read -r -u 3 version
    sleep 900 >/dev/null 2>&1 </dev/null &
    """
    argv = enter.node_argv(lab, lab.node(node), ("bash", "-c", text))
    subprocess.run(argv, check=True, timeout=60)


SOUND: dict[str, Make] = {
    "a banner of 1 MB": configured("Banner /run/node/home/banner"),
    "one session at a time": configured("MaxSessions 1"),
    "rc files that print": written(".ssh/rc", "echo welcome; echo GPU 0: from rc\n"),
    "a message of 2 MB": written(
        ".bashrc", "yes 'message of the day' | head -c 1000000\nyes warning | head -c 1000000 >&2\n"
    ),
    "a clock a year off": shell(_YEAR_OFF),
    "/tmp mounted noexec": shell("mount -t tmpfs -o noexec,mode=1777 none /tmp"),
}
"""What a node may do and still be checked and measured."""
BAD: dict[str, tuple[Make, str, str]] = {
    "1 MB before its version": (served("flood"), *2 * ("Indecipherable protocol version",)),
    "a version and nothing more": (served("version"), *2 * ("does not finish the SSH handshake",)),
    "a web server": (served("web"), *2 * ("ended the connection during the SSH handshake",)),
    "closes after the log-in": (
        configured("ForceCommand kill -KILL $PPID"),
        *2 * ("connection lost",),
    ),
    "no sessions": (configured("MaxSessions 0"), *2 * ("opens no session",)),
    "a forced command": (configured("ForceCommand echo restricted"), *2 * (_NOT_BEGUN,)),
    "a chroot without a shell": (configured("ChrootDirectory /srv"), *2 * (_NOT_BEGUN,)),
    "a restricted shell": (shell(_RESTRICTED), *2 * (_NOT_BEGUN,)),
    "too many log-ins begun": (half_open, *2 * ("ended the connection",)),
    "/tmp read-only": (shell("mount -t tmpfs -o ro none /tmp"), *2 * ("cannot be written: /tmp",)),
    "a home mounted noexec": (shell(_NOEXEC), "", "can be executed: mounted noexec?"),
}
"""{what is wrong: (how it is made, what `busbw check` says of it, what `busbw run` says)}; empty =
it cannot be told without executing something."""


@dataclass(frozen=True)
class Seen:
    """One lab with a node of each kind, checked and measured."""

    lab: LabState
    sound: dict[str, str]
    """{node: kind}; two have none."""
    bad: dict[str, str]
    checked: partial.Ended
    ran: partial.Ended


@pytest.fixture(scope="module")
def seen(
    needs_lab: None, make_labs: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    """Two nodes without anything, one of each sound kind, one of each bad one."""
    home = tmp_path_factory.mktemp("sshd")
    book = home / "part.yaml"
    book.write_text(partial.BOOK)
    names = [f"node{number}" for number in range(1, 3 + len(SOUND) + len(BAD))]
    sound = dict(zip(names, ("", "", *SOUND), strict=False))
    bad = dict(zip(names[len(sound) :], BAD, strict=True))
    with make_labs(home / "labs") as up:
        lab = up(built=True, nodes=len(names), gpus=1)
        for node, kind in sound.items():
            written("banner", "Authorised use only.\n" * 50000)(lab, node)
            SOUND.get(kind, lambda *_: None)(lab, node)
        for node, kind in bad.items():
            BAD[kind][0](lab, node)
        checked = partial.command(lab, home / "checks", "check", "-p", "lab")
        yield Seen(lab, sound, bad, checked, partial.command(lab, home / "runs", "run", str(book)))


@pytest.mark.parametrize("kind", BAD)
def test_each_bad_node_is_named_with_what_it_did(seen: Seen, kind: str) -> None:
    (node,) = [name for name, own in seen.bad.items() if own == kind]
    _, by_check, by_run = BAD[kind]
    assert by_check in seen.checked.told.get(node, ""), seen.checked.told.get(node)
    assert by_run in seen.ran.told.get(node, ""), seen.ran.told.get(node)


@pytest.mark.parametrize("kind", SOUND)
def test_what_a_node_prints_or_limits_keeps_it_from_nothing(seen: Seen, kind: str) -> None:
    (node,) = [name for name, own in seen.sound.items() if own == kind]
    (connected,) = [
        each["status"]
        for each in seen.checked.result["checks"]
        if (each["check_id"], each["node"]) == ("ssh.connect", node)
    ]
    assert connected == "PASS"
    assert [node in case["nodes"] for case in seen.ran.result["cases"]] == [True, True]


def test_a_clock_a_year_off_is_named_by_itself(seen: Seen) -> None:
    """Faked in `date`: the time of day is one for all namespaces of a kernel."""
    (node,) = [name for name, kind in seen.sound.items() if kind == "a clock a year off"]
    wrong = [
        (each["node"], each["seen"])
        for each in seen.checked.result["checks"]
        if each["check_id"] == "cross.clock" and each["status"] == "WARN"
    ]
    assert wrong in ([(node, f"{days} days behind this machine")] for days in (365, 366))


def test_the_others_are_measured_and_nobody_else_is_accused(seen: Seen) -> None:
    cases = [(case["status"], case["nodes"]) for case in seen.ran.result["cases"]]
    assert cases == [("PASS", list(seen.sound))] * 2, seen.ran
    where = {n for f in seen.ran.result["findings"] if f["required"] for n in f["where"]}
    assert where == set(seen.bad), seen.ran.result["findings"]
    assert (seen.checked.exit_status, seen.ran.exit_status) == (3, 3)
    assert seen.ran.result["verdict"] == "UNKNOWN"


def test_such_a_node_alone_ends_the_run_with_what_failed_what_was_seen_and_what_to_try(
    seen: Seen, tmp_path: Path
) -> None:
    (node,) = [name for name, kind in seen.bad.items() if kind == "a version and nothing more"]
    argv = (sys.executable, "-m", "busbw", "run", "quick", "-i", f"lab:{seen.lab.name}", "-w", node)
    done = subprocess.run(
        (*argv, "--out", str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 3, done
    failed, _, seen_line, next_line, *_ = done.stdout.splitlines()
    assert failed == f"UNKNOWN  {node} could not be reached"
    assert seen_line.startswith(f"NOT REACHED  {node}: connect to "), done
    assert next_line.strip().startswith("try: "), done


@pytest.mark.long
def test_of_64_nodes_ten_bad_ones_of_different_kinds_are_named_and_nobody_else(
    make_labs: Callable[..., Any], needs_lab: None, tmp_path: Path
) -> None:
    kinds = {kind: (make, words) for kind, (make, words, _) in partial.KINDS.items()}
    kinds["no sessions"] = (BAD["no sessions"][0], BAD["no sessions"][1])
    bad = {f"node{4 + 6 * position}": kind for position, kind in enumerate(kinds)}
    with make_labs(tmp_path / "labs") as up:
        lab = up(nodes=64, gpus=1)
        for node, kind in sorted(bad.items(), key=lambda item: item[1] in ("dead", "hung")):
            kinds[kind][0](lab, node)
        checked = partial.command(lab, tmp_path / "checks", "check", "-p", "lab")
    unnamed = {node for node, kind in bad.items() if kinds[kind][1] not in checked.told[node]}
    assert not unnamed, {node: checked.told[node] for node in unnamed}
    wrong = [
        each
        for each in checked.result["checks"]
        if each["required"] and each["node"] not in bad and each["status"] in ("FAIL", "UNKNOWN")
    ]
    assert not wrong
    # An mpirun that prints garbage is a FAIL of that node; what did not answer would be UNKNOWN.
    assert checked.exit_status == 1, checked.told
