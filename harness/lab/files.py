"""The files of a lab: keys, ssh and sshd configuration, hosts, passwd, homes. All lie in the lab's
directory."""

from __future__ import annotations

import functools
import os
import pwd
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from busbw.errors import LabError
from busbw.lab import memlock, network, persona, persona_files, requirements, slurm
from busbw.lab.state import LabNode, LabState, Mode

NODE_DIRECTORY = "/run/node"
"""A node's own directory, as it sees it; in a lab of namespaces the same path on every node."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEX = "curve25519-sha256,curve25519-sha256@libssh.org"
"""OpenSSH 9.2 prefers sntrup761, which costs the client 63 ms of CPU per connection against 9 ms;
mpirun opens one per node."""
_OPTIONS_FOR_ALL = f"""\
    IdentitiesOnly yes
    BatchMode yes
    StrictHostKeyChecking yes
    GlobalKnownHostsFile /dev/null
    UpdateHostKeys no
    KexAlgorithms {_KEX}
    LogLevel ERROR
"""


def node_directory(state: LabState, node: LabNode) -> Path:
    """Where a node's files lie, seen from outside."""
    return state.path / "nodes" / node.name


def home(state: LabState, node: LabNode) -> str:
    """The node's home directory, as the node sees it."""
    return f"{_node_path(state, node)}/home"


def identity(state: LabState) -> Path:
    """The private key that opens every node."""
    return state.path / "id_ed25519"


def ssh_config(state: LabState) -> Path:
    """The ssh_config that reaches every node by name and verifies its host key."""
    return state.path / "ssh_config"


def write_all(state: LabState) -> None:
    """Write every file of the lab.

    Raises:
        LabError: a key could not be made.
    """
    for node in state.nodes:
        for name in ("home/.ssh", "bin", "tmp", "refused"):
            (node_directory(state, node) / name).mkdir(parents=True)
        os.chmod(node_directory(state, node) / "home/.ssh", 0o700)
        os.chmod(node_directory(state, node) / "tmp", 0o1777)
    _make_keys(state)
    known_hosts = known_hosts_text(state)
    (state.path / "known_hosts").write_text(known_hosts)
    ssh_config(state).write_text(
        _ssh_config(state, str(identity(state)), str(state.path / "known_hosts"))
    )
    (state.path / "hosts").write_text(_hosts(state))
    if state.mode is not Mode.LOOPBACK:
        _write_accounts(state)
    if state.persona is not None:
        preload = memlock.build(state.path)
        for node in state.nodes:
            persona_files.install(state, node, node_directory(state, node))
            if preload is not None:
                shutil.copy(preload, node_directory(state, node))
    for node in state.nodes:
        _write_node(state, node, known_hosts)


def make_host_key(state: LabState, node: LabNode) -> None:
    """Make the node's host key; the file must not exist.

    Raises:
        LabError: ssh-keygen failed.
    """
    _keygen(node_directory(state, node) / "host_key", node.name)


def known_hosts_text(state: LabState) -> str:
    """known_hosts with the host key of every node as it is now."""
    return "".join(_known_hosts(state, node) for node in state.nodes)


def _known_hosts(state: LabState, node: LabNode) -> str:
    key = " ".join((node_directory(state, node) / "host_key.pub").read_text().split()[:2])
    names: tuple[str, ...] = (node.name, node.address)
    if node.ssh_port != 22:
        names = tuple(f"[{name}]:{node.ssh_port}" for name in names)
    return f"{','.join(names)} {key}\n"


def _make_keys(state: LabState) -> None:
    def make(target: tuple[Path, str]) -> None:
        _keygen(*target)

    targets = [(identity(state), f"busbw lab {state.name}")]
    targets += [(node_directory(state, node) / "host_key", node.name) for node in state.nodes]
    if state.node_ssh:
        targets.append((state.path / "node_id_ed25519", f"busbw lab {state.name} nodes"))
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(make, targets))


def _keygen(path: Path, comment: str) -> None:
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise LabError(
            f"no key could be made for {comment}",
            seen=done.stdout + done.stderr,
            next_step=" ".join(argv[:-1]) + " /tmp/key",
        )


def _ssh_config(state: LabState, key: str, known_hosts: str) -> str:
    hosts = "".join(f"Host {node.name}\n    HostName {node.address}\n" for node in state.nodes)
    login = (
        f"    User {state.user}\n    Port {state.nodes[0].ssh_port}\n    IdentityFile {key}\n   "
        f" UserKnownHostsFile {known_hosts}\n"
    )
    return (
        f"# The lab {state.name}: ssh -F {ssh_config(state)} node1\n{hosts}Host"
        f" *\n{login}{_OPTIONS_FOR_ALL}"
    )


def _hosts(state: LabState) -> str:
    lines = ["127.0.0.1 localhost", f"{network.HEAD_ADDRESS} {network.HEAD}"]
    for node in state.nodes:
        lines.append(f"{node.address} {node.name}")
        lines += [f"{rail.address} {rail.port}" for rail in node.rails]
    return "\n".join(lines) + "\n"


def _write_accounts(state: LabState) -> None:
    """passwd (and shadow, for an sshd of root's) that give the lab's user the node's home and a
    shell: the first entry of a name counts."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    own = f"{state.user}:x:{os.geteuid()}:{os.getegid()}:busbw lab:{NODE_DIRECTORY}/home:{shell}\n"
    (state.path / "passwd").write_text(own + Path("/etc/passwd").read_text())
    shadow = state.path / "shadow"
    shadow.touch(mode=0o600)
    shadow.write_text(f"{state.user}:*:20000:0:99999:7:::\n")


def _write_node(state: LabState, node: LabNode, known_hosts: str) -> None:
    outside = node_directory(state, node)
    directory = _node_path(state, node)
    authorized = Path(f"{identity(state)}.pub").read_text()
    ssh = outside / "home/.ssh"
    if state.node_ssh:
        authorized += (state.path / "node_id_ed25519.pub").read_text()
        shutil.copy(state.path / "node_id_ed25519", ssh / "id_ed25519")
        (ssh / "known_hosts").write_text(known_hosts)
        (ssh / "config").write_text(
            _ssh_config(
                state, f"{directory}/home/.ssh/id_ed25519", f"{directory}/home/.ssh/known_hosts"
            )
        )
    (ssh / "authorized_keys").write_text(authorized)
    for path in ssh.iterdir():
        os.chmod(path, 0o600)
    (outside / "sshd-path").write_text(f"{requirements.find('sshd')}\n")
    (outside / "sshd_config").write_text(sshd_config(state, node))


def sshd_config(state: LabState, node: LabNode) -> str:
    """The node's sshd_config. Sessions get the node's own programs first on their PATH, its name,
    and its number of emulated GPUs."""
    directory = _node_path(state, node)
    environment = {
        "PATH": f"{directory}/bin:{_PATH}",
        "BUSBW_LAB": state.marker,
        "LAB_NODE": node.name,
        "LAB_NGPU": str(state.gpus),
    }
    if state.persona is not None and (node_directory(state, node) / memlock.LIBRARY).exists():
        environment["LD_PRELOAD"] = f"{directory}/{memlock.LIBRARY}"
    if state.persona is not None and state.persona.rocm:
        environment["ROCM_PATH"] = f"{directory}/{persona.ROCM}"
    if state.slurm:
        environment.update(slurm.ENVIRONMENT)
    listen = node.address if state.mode is Mode.LOOPBACK else "0.0.0.0"
    lines = [
        f"Port {node.ssh_port}",
        f"ListenAddress {listen}",
        f"HostKey {directory}/host_key",
        f"PidFile {directory}/sshd.pid",
        f"AuthorizedKeysFile {directory}/home/.ssh/authorized_keys",
        "AuthenticationMethods publickey",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        "UsePAM no",
        "UseDNS no",
        "PrintMotd no",
        "Subsystem sftp internal-sftp",
    ]
    if openssh_version() >= (9, 8):
        # Tests and the curious fail to log in many times from one address, which newer servers
        # answer with silence.
        lines.append("PerSourcePenalties no")
    if state.mode is Mode.LOOPBACK:
        environment["HOME"] = f"{directory}/home"
        # Open MPI's daemons make one directory for their job below it, named after the host: those of
        # nodes that share a host and /tmp race for it, and one that loses ends ("File exists", then
        # "does not know how to route a message"). Open MPI 4.1.4, three nodes at load 20: 7 of 100
        # starts failed so, with `routed direct` as often as without; with this none of 100.
        environment["TMPDIR"] = f"{directory}/tmp"
        lines.append(f"ForceCommand {directory}/bin/login")
    lines.append("SetEnv " + " ".join(f'{name}="{value}"' for name, value in environment.items()))
    return "\n".join(lines) + "\n"


@functools.cache
def openssh_version() -> tuple[int, int]:
    """Version of the OpenSSH installed; (0, 0) = it does not say."""
    done = subprocess.run(
        ("ssh", "-V"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    match = re.search(r"OpenSSH_(\d+)\.(\d+)", done.stdout + done.stderr)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def login_name() -> str:
    """The name of the user who makes the lab, under which it is logged in to.

    Raises:
        LabError: the system knows no name for that user; neither ssh nor ssh-keygen would run.
    """
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise LabError(
            "the lab needs a user with a name",
            seen=f"no user exists for uid {os.geteuid()}",
            next_step="run as another user",
        ) from None


def _node_path(state: LabState, node: LabNode) -> str:
    return str(node_directory(state, node)) if state.mode is Mode.LOOPBACK else NODE_DIRECTORY
