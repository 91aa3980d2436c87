"""Connecting: what is reached as ssh reaches it, and what is said of a node that is not."""

from __future__ import annotations

import getpass
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import HANG_S, not_held_up, wait_until

from busbw.model import Cluster, Command, Node, Unreachable
from busbw.transport import Transport, openssh, ssh
from busbw.transport.choose import make
from busbw.transport.fanout import EventKind, FleetEvent, open_fleet
from busbw.transport.openssh import OpenSshSession
from busbw.transport.ssh_session import SshSession

if TYPE_CHECKING:
    from .conftest import Site

pytestmark = pytest.mark.lab

RealSession = SshSession | OpenSshSession
Reach = Callable[..., RealSession | Unreachable]
BOTH = pytest.mark.parametrize("kind", ["ssh", "openssh"])
ME = getpass.getuser()


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Connects to a host of a site: `reach(site, "name", kind="ssh", timeout_s=…, accept=…)`."""
    sessions: list[RealSession] = []
    transports: list[Transport] = []

    def connect(
        site: Site,
        host: str | Node,
        *,
        kind: str = "ssh",
        timeout_s: float = 20.0,
        accept: bool = False,
    ) -> RealSession | Unreachable:
        transport = make(kind, ssh_config=str(site.config), accept_new_host_keys=accept)
        transports.append(transport)
        outcome = transport.connect(host if isinstance(host, Node) else Node(host), timeout_s)
        assert isinstance(outcome, (SshSession, OpenSshSession, Unreachable))
        if not isinstance(outcome, Unreachable):
            sessions.append(outcome)
        return outcome

    yield connect
    for session in sessions:
        session.close()
    for transport in transports:
        transport.close()


def node_of(outcome: RealSession | Unreachable) -> str:
    """Which server answers."""
    assert not isinstance(outcome, Unreachable), outcome
    return outcome.run(Command(("printenv", "NODE"))).out().strip()


def keygen(*arguments: str) -> None:
    subprocess.run(("ssh-keygen", "-q", *arguments), check=True, stdin=subprocess.DEVNULL)


def fingerprint(public_key: Path) -> str:
    return subprocess.run(
        ("ssh-keygen", "-lf", public_key), capture_output=True, text=True, check=True
    ).stdout.split()[1]


# --- reached -----------------------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_good_node_is_reached_and_nothing_is_noted(shared: Site, reach: Reach, kind: str) -> None:
    session = reach(shared, "good", kind=kind)

    assert node_of(session) == "good"
    assert not isinstance(session, Unreachable)
    assert (session.node, session.notes) == ("good", ())


def test_what_the_inventory_says_of_a_node_is_enough(
    shared: Site, reach: Reach, tmp_path: Path
) -> None:
    server = shared.servers["good"]
    bare = tmp_path / "config"
    bare.write_text(f"Host *\n UserKnownHostsFile {shared.known_hosts}\n IdentityAgent none\n")
    node = Node(
        "n1", address=server.address, port=server.port, user=ME, identity_file=str(shared.key)
    )
    transport = make("ssh", ssh_config=str(bare))

    session = transport.connect(node, 20)

    assert not isinstance(session, Unreachable), session
    assert session.run(Command(("printenv", "NODE"))).out() == "good\n"
    session.close()


@BOTH
def test_included_files_and_match_exec_count(site: Site, reach: Reach, kind: str) -> None:
    server = site.start("plain")
    (site.directory / "more").write_text(
        f"Match originalhost gpu-7 exec true\n HostName {server.address}\n Port {server.port}\n"
    )
    site.config.write_text(f"Include {site.directory}/more\n{site.config.read_text()}")

    assert node_of(reach(site, "gpu-7", kind=kind)) == "plain"


@BOTH
def test_a_jump_host_is_passed(site: Site, reach: Reach, kind: str) -> None:
    site.start("bastion")
    site.start("inner", host_options="ProxyJump bastion")

    assert node_of(reach(site, "inner", kind=kind)) == "inner"


def test_several_jump_hosts_are_passed_in_order(site: Site, reach: Reach) -> None:
    outer, middle = site.start("outer"), site.start("middle")
    site.start("inner", host_options=f"ProxyJump {ME}@outer,middle")

    assert node_of(reach(site, "inner")) == "inner"
    assert "Accepted publickey" in outer.log
    assert "Accepted publickey" in middle.log


def test_a_jump_host_with_a_jump_of_its_own_is_reached_through_it(site: Site, reach: Reach) -> None:
    outer = site.start("outer")
    site.start("middle", host_options="ProxyJump outer")
    site.start("inner", host_options="ProxyJump middle")

    assert node_of(reach(site, "inner")) == "inner"
    assert "Accepted publickey" in outer.log


def test_all_nodes_behind_a_jump_host_share_one_connection_to_it(site: Site) -> None:
    bastion = site.start("bastion")
    inner = site.start("inner")
    for number in range(8):
        site.host(
            f"n{number}", f"HostName {inner.address}", f"Port {inner.port}", "ProxyJump bastion"
        )
    cluster = Cluster(
        tuple(Node(f"n{number}") for number in range(8)), "n0", "test", ssh_config=str(site.config)
    )

    with open_fleet(cluster, make("ssh", ssh_config=str(site.config)), deadline_s=30) as fleet:
        answers = fleet.run(Command(("printenv", "NODE")), deadline_s=30)

    assert fleet.unreachable == ()
    assert [getattr(answer, "stdout", answer) for answer in answers] == [b"inner\n"] * 8
    assert bastion.log.count("Accepted publickey") == 1
    assert inner.log.count("Accepted publickey") == 8


@pytest.mark.parametrize(("kind", "logins", "at_once"), [("ssh", 3, 1000), ("openssh", 8, 1)])
def test_a_jump_host_is_never_given_more_than_it_can_carry(
    site: Site, monkeypatch: pytest.MonkeyPatch, kind: str, logins: int, at_once: int
) -> None:
    """Over paramiko three nodes to a connection; over OpenSSH each node's own login, one at a time
    where a second would be dropped."""
    monkeypatch.setattr(ssh, "NODES_PER_JUMP", 3)
    monkeypatch.setattr(openssh, "_AT_A_JUMP", 1)
    bastion, inner = (
        site.start("bastion", options=f"MaxStartups {at_once}:100:{at_once}"),
        site.start("inner"),
    )
    for number in range(8):
        site.host(
            f"n{number}", f"HostName {inner.address}", f"Port {inner.port}", "ProxyJump bastion"
        )
    cluster = Cluster(
        tuple(Node(f"n{number}") for number in range(8)), "n0", "test", ssh_config=str(site.config)
    )

    with open_fleet(
        cluster, make(kind, ssh_config=str(site.config)), connect_timeout_s=30, deadline_s=60
    ) as fleet:
        assert fleet.unreachable == ()
        assert len(fleet.sessions) == 8

    assert bastion.log.count("Accepted publickey") == logins
    assert inner.log.count("Accepted publickey") == 8


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_a_host_known_by_one_type_of_key_is_asked_for_that_one(
    site: Site, reach: Reach, kind: str
) -> None:
    extra = site.directory / "other"
    keygen("-N", "", "-t", kind, "-f", str(extra))
    server = site.start("two-keys", options=f"HostKey {extra}", known=False)
    site.known_hosts.write_text(server.known((site.directory / "other.pub").read_text()))

    assert node_of(reach(site, "two-keys")) == "two-keys"


def test_a_hashed_line_under_an_alias_is_found(site: Site, reach: Reach) -> None:
    server = site.start("hidden", known=False, host_options="HostKeyAlias gpu-hidden")
    site.known_hosts.write_text("gpu-hidden " + server.host_key)
    keygen("-H", "-f", str(site.known_hosts))
    assert "gpu-hidden" not in site.known_hosts.read_text()

    assert node_of(reach(site, "hidden")) == "hidden"


def test_a_first_connection_that_is_dropped_is_tried_again(site: Site, reach: Reach) -> None:
    server = site.start("behind", known=False)
    with socket.create_server(("127.0.0.1", 0)) as front:
        port = front.getsockname()[1]
        site.known_hosts.write_text(f"[127.0.0.1]:{port} {server.host_key}")
        site.host("flaky", "HostName 127.0.0.1", f"Port {port}")

        def serve() -> None:
            front.accept()[0].close()
            client, _ = front.accept()
            with client, socket.create_connection((server.address, server.port)) as inner:
                back = threading.Thread(target=relay, args=(inner, client))
                back.start()
                relay(client, inner)
                back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        session = reach(site, "flaky")
        assert node_of(session) == "behind"
        assert isinstance(session, SshSession)
        session.close()
        thread.join(10)


def relay(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


# --- keys of the user --------------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_wrong_key_is_refused_and_the_keys_tried_are_named(
    site: Site, reach: Reach, kind: str
) -> None:
    server = site.start("strict", host_options=f"IdentityFile {site.directory}/other")
    keygen("-N", "", "-t", "ed25519", "-f", str(site.directory / "other"))
    (site.directory / "config").write_text(
        site.config.read_text().replace(f"IdentityFile {site.key}\n", "IdentityFile /nonexistent\n")
    )

    outcome = reach(site, "strict", kind=kind)

    assert isinstance(outcome, Unreachable)
    assert "Permission denied (publickey" in outcome.reason
    if kind == "ssh":
        assert (
            outcome.reason
            == f"log in as {ME} on 127.0.0.1 port {server.port}: Permission denied (publickey);"
            f" tried {site.directory}/other"
        )
        assert outcome.next_step.startswith(f"ssh-copy-id -p {server.port} {ME}@127.0.0.1")
    assert not outcome.host_key_mismatch


def test_keys_that_cannot_be_used_are_named_with_what_to_do(site: Site, reach: Reach) -> None:
    server = site.start("strict")
    keygen("-N", "secret", "-t", "ed25519", "-f", str(site.directory / "locked"))
    keygen("-N", "", "-t", "ed25519", "-f", str(site.directory / "open"))
    (site.directory / "open").chmod(0o644)
    lines = f"IdentityFile {site.directory}/locked\n  IdentityFile {site.directory}/open\n"
    site.config.write_text(site.config.read_text().replace(f"IdentityFile {site.key}\n", lines))

    outcome = reach(site, "strict")

    assert isinstance(outcome, Unreachable)
    assert (
        outcome.reason
        == f"log in as {ME} on 127.0.0.1 port {server.port}: Permission denied (publickey); no key"
        f" to try; not used: {site.directory}/locked is encrypted: ssh-add it,"
        f" {site.directory}/open has permissions 0644, which ssh refuses: chmod 600"
    )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """An ssh-agent of its own; its socket."""
    path = tmp_path / "agent"
    process = subprocess.Popen(("ssh-agent", "-D", "-a", path), stdout=subprocess.DEVNULL)
    wait_until(path.exists, "the agent's socket")
    yield path
    process.terminate()
    process.wait()


@BOTH
@pytest.mark.parametrize("only", ["yes", "no"])
def test_a_key_of_the_agent_is_used_by_its_public_half(
    site: Site, reach: Reach, agent: Path, kind: str, only: str
) -> None:
    site.start("good")
    decoy = site.directory / "decoy"
    keygen("-N", "", "-t", "ed25519", "-f", str(decoy))
    subprocess.run(
        ("ssh-add", "-q", decoy, site.key), env={"SSH_AUTH_SOCK": str(agent)}, check=True
    )
    (site.directory / "held.pub").write_text((site.directory / "key.pub").read_text())
    text = site.config.read_text().replace(
        f"IdentityFile {site.key}", f"IdentityFile {site.directory}/held.pub"
    )
    site.config.write_text(
        text.replace("IdentityAgent none", f"IdentityAgent {agent}").replace(
            "IdentitiesOnly yes", f"IdentitiesOnly {only}"
        )
    )

    assert node_of(reach(site, "good", kind=kind)) == "good"


def test_an_agent_that_hangs_is_not_waited_for(site: Site, reach: Reach, agent: Path) -> None:
    site.start("good")
    with socket.socket(socket.AF_UNIX) as deaf:
        path = site.directory / "deaf"
        deaf.bind(str(path))
        deaf.listen()
        site.config.write_text(
            site.config.read_text().replace("IdentityAgent none", f"IdentityAgent {path}")
        )
        with not_held_up():
            assert node_of(reach(site, "good", timeout_s=HANG_S)) == "good"


def test_a_certificate_beside_the_key_is_shown(site: Site, reach: Reach) -> None:
    authority = site.directory / "authority"
    keygen("-N", "", "-t", "ed25519", "-f", str(authority))
    site.start("signed", options=f"TrustedUserCAKeys {authority}.pub\nAuthorizedKeysFile none")
    assert isinstance(reach(site, "signed"), Unreachable)

    keygen("-s", str(authority), "-I", "me", "-n", ME, f"{site.key}.pub")

    session = reach(site, "signed")
    assert node_of(session) == "signed"
    assert isinstance(session, SshSession)


def test_a_node_that_asks_for_more_than_a_key_says_so(site: Site, reach: Reach) -> None:
    server = site.start(
        "two-factors",
        options=(
            "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive"
        ),
    )
    if "without PAM" in server.log:
        pytest.skip("this sshd has no keyboard-interactive")

    outcome = reach(site, "two-factors")

    assert isinstance(outcome, Unreachable)
    assert (
        outcome.reason
        == f"log in as {ME} on 127.0.0.1 port {server.port}: {site.key} is taken, but the node also"
        " asks for keyboard-interactive"
    )


# --- keys of the node --------------------------------------------------------------------------------------------------------------------


@BOTH
def test_an_unknown_host_key_is_refused_with_its_fingerprint(
    site: Site, reach: Reach, kind: str
) -> None:
    server = site.start("new", known=False)

    outcome = reach(site, "new", kind=kind)

    assert isinstance(outcome, Unreachable)
    assert not outcome.host_key_mismatch
    assert site.known_hosts.read_text() == ""
    if kind == "ssh":
        shown = fingerprint(server.directory / "host.pub")
        assert (
            outcome.reason
            == f"host key of [127.0.0.1]:{server.port} is not known: it shows ssh-ed25519 {shown},"
            f" no line in {site.known_hosts}"
        )
        assert (
            f"ssh-keyscan -p {server.port} -t ed25519 127.0.0.1 >> {site.known_hosts}"
            in outcome.next_step
        )
        assert "--accept-new-host-keys" in outcome.next_step
    else:
        assert "Host key verification failed" in outcome.reason


@BOTH
def test_a_new_host_key_is_accepted_and_noted_when_the_user_says_so(
    site: Site, reach: Reach, kind: str
) -> None:
    server = site.start("new", known=False)

    session = reach(site, "new", kind=kind, accept=True)

    assert node_of(session) == "new"
    assert not isinstance(session, Unreachable)
    assert server.host_key.split()[1] in site.known_hosts.read_text()
    assert len(session.notes) == 1
    assert node_of(reach(site, "new", kind=kind)) == "new"


@BOTH
@pytest.mark.parametrize("strict", ["ask", "no"])
def test_a_changed_host_key_is_never_connected_to(
    site: Site, reach: Reach, kind: str, strict: str
) -> None:
    keygen("-N", "", "-t", "ed25519", "-f", str(site.directory / "old"))
    server = site.start("changed", known=False, host_options=f"StrictHostKeyChecking {strict}")
    before = "# kept\n" + server.known((site.directory / "old.pub").read_text())
    site.known_hosts.write_text(before)

    outcome = reach(site, "changed", kind=kind, accept=True)

    assert isinstance(outcome, Unreachable)
    assert outcome.host_key_mismatch
    assert "Accepted" not in server.log
    assert site.known_hosts.read_text() == before
    if kind == "ssh":
        shown, had = (
            fingerprint(server.directory / "host.pub"),
            fingerprint(site.directory / "old.pub"),
        )
        assert (
            outcome.reason
            == f"host key of [127.0.0.1]:{server.port} has changed: it shows ssh-ed25519 {shown}, "
            f"but {site.known_hosts}:2 has ssh-ed25519 {had}"
        )


@BOTH
def test_a_jump_host_with_another_key_is_never_passed(site: Site, reach: Reach, kind: str) -> None:
    keygen("-N", "", "-t", "ed25519", "-f", str(site.directory / "old"))
    bastion = site.start("bastion", known=False)
    site.start("inner", host_options="ProxyJump bastion")
    with site.known_hosts.open("a") as file:
        file.write(bastion.known((site.directory / "old.pub").read_text()))

    outcome = reach(site, "inner", kind=kind)

    assert isinstance(outcome, Unreachable)
    assert outcome.host_key_mismatch
    if kind == "ssh":
        assert outcome.reason.startswith(
            f"jump host bastion: host key of [127.0.0.1]:{bastion.port} has changed: "
        )


# --- not reached -------------------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_node_that_accepts_and_never_speaks_ends_with_the_time(
    site: Site, reach: Reach, kind: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        site.host("silent", "HostName 127.0.0.1", f"Port {port}")
        with not_held_up():
            outcome = reach(site, "silent", kind=kind, timeout_s=2)

    assert isinstance(outcome, Unreachable)
    if kind == "ssh":
        assert (
            f"connect to 127.0.0.1 port {port}: accepts TCP but never sends a banner (waited "
            in outcome.reason
        )
    else:
        assert "banner exchange" in outcome.reason or "no session within " in outcome.reason


def test_a_node_that_stops_in_the_middle_of_the_handshake_ends_with_the_time(
    site: Site, reach: Reach
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as half:
        port = half.getsockname()[1]
        site.host("half", "HostName 127.0.0.1", f"Port {port}")
        peers: list[socket.socket] = []

        def greet() -> None:
            peers.append(half.accept()[0])
            peers[0].sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        outcome = reach(site, "half", timeout_s=2)
        thread.join(5)
        for peer in peers:
            peer.close()

    assert isinstance(outcome, Unreachable)
    assert (
        f"connect to 127.0.0.1 port {port}: accepts the connection but does not finish the SSH"
        " handshake in time" in outcome.reason
    )


@BOTH
def test_a_refused_port_says_so_quickly(site: Site, reach: Reach, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    site.host("closed", "HostName 127.0.0.1", f"Port {port}")

    with not_held_up():
        outcome = reach(site, "closed", kind=kind, timeout_s=HANG_S)

    assert isinstance(outcome, Unreachable)
    assert "Connection refused" in outcome.reason
    if kind == "ssh":
        assert outcome == Unreachable(
            "closed",
            f"connect to 127.0.0.1 port {port}: Connection refused (2 tries)",
            f"look whether sshd runs on 127.0.0.1 and listens on port {port}",
        )


@BOTH
def test_a_name_nobody_knows_says_so(site: Site, reach: Reach, kind: str) -> None:
    outcome = reach(site, "no-such-node.invalid", kind=kind)

    assert isinstance(outcome, Unreachable)
    assert "no-such-node.invalid" in outcome.reason


@BOTH
@pytest.mark.parametrize("name", ["-oProxyCommand=touch {0}", "$(touch {0})", "n1;touch {0}"])
def test_a_hostile_host_name_runs_nothing(site: Site, reach: Reach, kind: str, name: str) -> None:
    hostile = name.format(site.directory / "owned")

    outcome = reach(site, Node("n1", address=hostile), kind=kind)

    assert isinstance(outcome, Unreachable)
    assert outcome.reason == f"host name {hostile!r} is not given to ssh"
    assert not (site.directory / "owned").exists()


def test_a_jump_host_that_is_down_is_named(site: Site, reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    site.host("bastion", "HostName 127.0.0.1", f"Port {port}")
    site.host("inner", "HostName 10.9.9.9", "ProxyJump bastion")

    outcome = reach(site, "inner")

    assert isinstance(outcome, Unreachable)
    assert (
        outcome.reason
        == f"jump host bastion: connect to 127.0.0.1 port {port}: Connection refused (2 tries)"
    )


def test_a_node_that_the_jump_host_cannot_reach_is_distinguished_from_the_jump_host(
    site: Site, reach: Reach
) -> None:
    site.start("bastion")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    site.host("inner", "HostName 127.0.0.1", f"Port {port}", "ProxyJump bastion")

    outcome = reach(site, "inner")

    assert isinstance(outcome, Unreachable)
    assert outcome.reason.startswith(f"connect to 127.0.0.1 port {port} through bastion: ")


def test_jump_hosts_in_a_circle_are_noticed(site: Site, reach: Reach) -> None:
    site.host("a", "ProxyJump b")
    site.host("b", "ProxyJump a")

    outcome = reach(site, "a")

    assert isinstance(outcome, Unreachable)
    assert "ProxyJump loop via a" in outcome.reason


# --- what only OpenSSH can do ------------------------------------------------------------------------------------------------------------


def test_a_proxy_command_goes_through_openssh_and_says_so(site: Site, reach: Reach) -> None:
    server = site.start("bastion")
    command = f"ssh -F {site.config} -W %h:%p bastion"
    site.start("inner", host_options=f"ProxyCommand {command}")

    session = reach(site, "inner")

    assert node_of(session) == "inner"
    assert isinstance(session, OpenSshSession)
    assert session.fallback_reason == f"ProxyCommand {command}"
    assert session.notes[0] == f"reached through the OpenSSH program: {session.fallback_reason}"
    assert server.log.count("Accepted publickey") == 1


def test_algorithms_that_paramiko_lacks_go_through_openssh(site: Site, reach: Reach) -> None:
    site.start("modern", options="Ciphers chacha20-poly1305@openssh.com")

    session = reach(site, "modern")

    assert node_of(session) == "modern"
    assert isinstance(session, OpenSshSession)
    assert (session.fallback_reason or "").startswith("algorithms: ")


def test_a_host_certificate_goes_through_openssh(site: Site, reach: Reach) -> None:
    authority = site.directory / "authority"
    keygen("-N", "", "-t", "ed25519", "-f", str(authority))
    directory = site.directory / "certified"
    directory.mkdir()
    keygen("-N", "", "-t", "ed25519", "-f", str(directory / "host"))
    keygen("-s", str(authority), "-h", "-I", "node", "-n", "127.0.0.1", f"{directory}/host.pub")
    site.start("certified", known=False, options=f"HostCertificate {directory}/host-cert.pub")
    site.known_hosts.write_text(
        f"@cert-authority *,[*]:* {authority.with_suffix('.pub').read_text()}"
    )

    session = reach(site, "certified")

    assert node_of(session) == "certified"
    assert isinstance(session, OpenSshSession)
    assert session.fallback_reason == f"host certificates, @cert-authority in {site.known_hosts}:1"


def test_a_connection_the_user_has_open_is_used_and_left_open(site: Site, reach: Reach) -> None:
    server = site.start("open", host_options=f"ControlPath {site.directory}/mine")
    mine = subprocess.Popen(
        ("ssh", "-F", site.config, "-M", "-N", "open"), stdin=subprocess.DEVNULL
    )
    wait_until((site.directory / "mine").exists, "the user's own connection")

    session = reach(site, "open")
    assert node_of(session) == "open"
    assert isinstance(session, OpenSshSession)
    session.close()

    assert session.notes[1] == f"over the connection you have open at {site.directory}/mine"
    assert server.log.count("Accepted publickey") == 1
    assert mine.poll() is None
    # Not SIGTERM: OpenSSH 9.2 can miss one that comes right before it waits, and stay.
    mine.kill()
    mine.wait(timeout=400)


# --- fleets ------------------------------------------------------------------------------------------------------------------------------


def test_a_fleet_reaches_what_it_can_and_says_the_rest(site: Site) -> None:
    good = site.start("good")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.host("silent", "HostName 127.0.0.1", f"Port {silent.getsockname()[1]}")
        for number in range(16):
            site.host(f"n{number:02d}", f"HostName {good.address}", f"Port {good.port}")
        names = (*(f"n{number:02d}" for number in range(16)), "silent", "no-such-node.invalid")
        cluster = Cluster(
            tuple(Node(name) for name in names), "n00", "test", ssh_config=str(site.config)
        )
        events: list[FleetEvent] = []
        with open_fleet(
            cluster,
            make("ssh", ssh_config=str(site.config)),
            connect_timeout_s=10,
            deadline_s=60,
            on_event=events.append,
        ) as fleet:
            answers = fleet.run(Command(("printenv", "NODE")), deadline_s=60)

    assert [missing.node for missing in fleet.unreachable] == ["silent", "no-such-node.invalid"]
    assert [
        answer.stdout if not isinstance(answer, Unreachable) else answer.node for answer in answers
    ] == [
        *([b"good\n"] * 16),
        "silent",
        "no-such-node.invalid",
    ]
    assert sorted(event.node for event in events) == sorted(names)
    assert {event.kind for event in events} == {EventKind.CONNECTED, EventKind.UNREACHABLE}
