"""Real sshd processes of this user on 127.0.0.x, one configuration file for all of them, and what
they are reached with."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SSHD = "/usr/sbin/sshd"


def wait_until(true: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Poll, with a deadline."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_s} s")
        time.sleep(0.01)


@dataclass
class Server:
    """One sshd; `process` is its listener."""

    name: str
    address: str
    port: int
    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def host_key(self) -> str:
        return (self.directory / "host.pub").read_text()

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def known(self, host_key: str | None = None) -> str:
        """Its line for a known_hosts file."""
        kind, key = (host_key or self.host_key).split()[:2]
        return f"[{self.address}]:{self.port} {kind} {key}\n"

    def children(self) -> list[int]:
        """Process ids below the listener, the whole tree."""
        found, todo = [], [self.process.pid]
        while todo:
            text = Path(f"/proc/{todo[0]}/task/{todo[0]}/children")
            try:
                todo = todo[1:] + [int(pid) for pid in text.read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                todo = todo[1:]  # it ended while it was looked at
            found += [pid for pid in todo if pid not in found]
        return found

    def signal_connections(self, number: int) -> None:
        """Send a signal to every sshd that serves a connection; one that has just ended is no
        error."""
        for pid in self.children():
            try:
                if Path(f"/proc/{pid}/comm").read_text() == "sshd\n":
                    os.kill(pid, number)
            except (FileNotFoundError, ProcessLookupError):
                pass


@dataclass
class Site:
    """A directory with a user key, a configuration file, a known_hosts file, and the servers
    started in it."""

    directory: Path
    servers: dict[str, Server] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.directory / "config"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def key(self) -> Path:
        return self.directory / "key"

    def start(
        self,
        name: str,
        *,
        address: str = "127.0.0.1",
        options: str = "",
        known: bool = True,
        host_options: str = "",
    ) -> Server:
        """Start an sshd and name it in the configuration."""
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        if not (directory / "host").exists():
            keygen("-t", "ed25519", "-f", str(directory / "host"))
        home = directory / "home"
        home.mkdir()
        port = free_port(address)
        (directory / "sshd_config").write_text(
            f"{options}\nListenAddress {address}:{port}\nHostKey"
            f" {directory}/host\nAuthorizedKeysFile {self.key}.pub\nPidFile {directory}/pid\nUsePAM"
            " no\nStrictModes no\nUseDNS no\nPermitRootLogin yes\nPasswordAuthentication"
            f" no\nKbdInteractiveAuthentication no\nMaxSessions 10\nSetEnv HOME={home}"
            f" NODE={name}\n"
            + ("" if "MaxStartups" in options else "MaxStartups 1000\n")
            + ("" if "Subsystem" in options else "Subsystem sftp internal-sftp\n")
        )
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                (SSHD, "-D", "-e", "-f", str(directory / "sshd_config")),
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        server = Server(name, address, port, directory, process)
        self.servers[name] = server
        wait_until(
            lambda: (directory / "pid").exists() or process.poll() is not None, f"sshd {name}"
        )
        assert process.poll() is None, server.log
        if known:
            with self.known_hosts.open("a") as file:
                file.write(server.known())
        self.host(name, f"HostName {address}", f"Port {port}", *host_options.splitlines())
        return server

    def host(self, name: str, *options: str) -> None:
        """Add a host to the configuration, in front of what is for all."""
        lines = [f"Host {name}", *(f"  {option}" for option in options), ""]
        rest = self.config.read_text() if self.config.exists() else ""
        self.config.write_text("\n".join(lines) + rest)

    def stop(self) -> None:
        """End every process that was started."""
        for server in self.servers.values():
            for pid in server.children():
                kill(pid)
            server.process.kill()
            server.process.wait()


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def keygen(*arguments: str) -> None:
    subprocess.run(("ssh-keygen", "-q", "-N", "", *arguments), check=True, stdin=subprocess.DEVNULL)


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as listener:
        return int(listener.getsockname()[1])


def make_site(directory: Path) -> Site:
    directory.mkdir(parents=True, exist_ok=True)
    site = Site(directory)
    keygen("-t", "ed25519", "-f", str(site.key))
    site.known_hosts.write_text("")
    site.host(
        "*",
        f"IdentityFile {site.key}",
        "IdentitiesOnly yes",
        "IdentityAgent none",
        f"UserKnownHostsFile {site.known_hosts}",
        "GlobalKnownHostsFile none",
        "KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org",
    )
    return site


@pytest.fixture(scope="session")
def _sshd_can_run() -> None:
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        pytest.skip("needs openssh-server and openssh-client")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


@pytest.fixture
def site(tmp_path: Path, _sshd_can_run: None) -> Iterator[Site]:
    """A site of its own for one test."""
    site = make_site(tmp_path / "site")
    yield site
    site.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, _sshd_can_run: None) -> Iterator[Site]:
    """A site with one good server, `good`, for tests that leave it as it is."""
    site = make_site(tmp_path_factory.mktemp("shared") / "site")
    site.start("good")
    yield site
    site.stop()
