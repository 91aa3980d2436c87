"""The head's session: a fabric Connection on real sshd processes, its files over SFTP or, without
it, through the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import fabric
import pytest

from busbw.model import Command, Node, Unreachable
from busbw.transport.choose import make
from busbw.transport.head import HeadSession, with_head

if TYPE_CHECKING:
    from .conftest import Site

pytestmark = pytest.mark.lab

Opener = Callable[[Site if TYPE_CHECKING else object, str], HeadSession]


@pytest.fixture
def head() -> Iterator[Opener]:
    sessions: list[HeadSession] = []

    def connect(site: Site, host: str) -> HeadSession:
        transport = with_head(make("ssh", ssh_config=str(site.config)), host)
        session = transport.connect(Node(host), 20)
        assert isinstance(session, HeadSession), session
        sessions.append(session)
        return session

    yield connect
    for session in sessions:
        session.close()


def read(path: Path | str) -> Command:
    return Command(("cat", str(path)), reads=str(path))


def write(path: Path, content: bytes) -> Command:
    argv = ("sh", "-c", 'umask 077; cat > "$1"', "busbw-write", str(path))
    return Command(argv, stdin=content, writes=str(path))


def commands_in(log: str) -> int:
    return log.count("Starting session: command")


def test_the_head_is_a_fabric_connection_and_other_nodes_are_not(
    shared: Site, head: Opener
) -> None:
    assert isinstance(head(shared, "good")._connection, fabric.Connection)

    transport = with_head(make("ssh", ssh_config=str(shared.config)), "another")
    session = transport.connect(Node("good"), 20)
    assert not isinstance(session, (HeadSession, Unreachable))
    session.close()
    local = make("local")
    assert with_head(local, "good") is local


def test_files_travel_whole_over_sftp_and_no_shell_is_started(
    site: Site, head: Opener, tmp_path: Path
) -> None:
    server = site.start("files", options="LogLevel VERBOSE")
    session = head(site, "files")
    content = bytes(range(256)) * 20_000

    wrote = session.run(write(tmp_path / "it", content))
    result = session.run(read(tmp_path / "it"))

    assert (wrote.exit_status, wrote.stdout, wrote.problem) == (0, b"", None)
    assert (result.exit_status, result.stdout == content, result.problem) == (0, True, None)
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("it")] == ["it"]
    assert (commands_in(server.log), server.log.count("Starting session: subsystem")) == (0, 1)


def test_a_file_that_is_not_there_is_what_cat_says(shared: Site, head: Opener) -> None:
    session = head(shared, "good")

    missing = session.run(read("/nowhere/file"))

    assert (missing.exit_status, missing.stdout) == (1, b"")
    assert b"No such file or directory" in missing.stderr
    assert session.run(read("/etc/hostname")).ok


def test_a_node_without_sftp_does_the_same_through_its_shell(
    site: Site, head: Opener, tmp_path: Path
) -> None:
    server = site.start("plain", options="Subsystem sftp /bin/false\nLogLevel VERBOSE")
    session = head(site, "plain")

    assert session.run(write(tmp_path / "it", b"content")).ok
    assert session.run(read(tmp_path / "it")).stdout == b"content"
    assert commands_in(server.log) == 2


def test_a_file_beyond_the_byte_limit_is_cut_as_any_output_is(
    shared: Site, head: Opener, tmp_path: Path
) -> None:
    session = head(shared, "good")
    session._limit_bytes = 1 << 20
    (tmp_path / "long").write_bytes(b"x" * (3 << 20))

    result = session.run(read(tmp_path / "long"))

    assert result.exit_status is None
    assert (1 << 20) - 100 < len(result.stdout) <= 1 << 20
    assert result.problem == "output over 1 MiB, cut"


def test_a_head_with_another_host_key_is_never_connected_to(site: Site, head: Opener) -> None:
    site.start("known")
    site.start("stranger", known=False)
    site.known_hosts.write_text(site.servers["stranger"].known(site.servers["known"].host_key))

    transport = with_head(make("ssh", ssh_config=str(site.config)), "stranger")
    refused = transport.connect(Node("stranger"), 20)

    assert isinstance(refused, Unreachable)
    assert refused.host_key_mismatch
