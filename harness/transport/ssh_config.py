"""What OpenSSH itself would do for a host: `ssh -G` is asked, its answer becomes a record.

Every SSH configuration is read by the only program that reads all of it (`Include`, `Match exec`,
canonical names, ProxyJump). What this module adds is what `ssh -G` leaves to its reader: file names
with `~` and %-tokens, and which options a Python client cannot follow.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from dataclasses import dataclass, field

from busbw.model import Node, Unreachable
from busbw.text import whole_number
from busbw.transport import Refused

_HOST = re.compile(r"(?!-)[A-Za-z0-9._:%-]{1,255}")
_USER = re.compile(r"(?!-)[A-Za-z0-9._@+$\\-]{1,255}")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class LocalUser:
    """Who connects, as far as file names in an ssh_config depend on it."""

    name: str
    uid: int
    home: str
    host: str

    @classmethod
    def here(cls) -> LocalUser:
        """The user of this process, with the home directory of the password database, which is the
        one OpenSSH takes."""
        entry = pwd.getpwuid(os.getuid())
        return cls(
            name=entry.pw_name, uid=entry.pw_uid, home=entry.pw_dir, host=socket.gethostname()
        )


@dataclass(frozen=True, slots=True)
class ResolvedHost:
    """How a host is reached, as `ssh -G` says; file names are expanded."""

    destination: str
    """The name given to ssh."""
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None
    """Socket of the agent; None = the one in SSH_AUTH_SOCK; `none` = no agent."""
    proxy_jump: str | None = None
    proxy_command: str | None = None
    user_known_hosts: tuple[str, ...] = ()
    global_known_hosts: tuple[str, ...] = ()
    host_key_alias: str | None = None
    strict_host_key_checking: str = "ask"
    """`yes`, `no`, `ask` or `accept-new`."""
    hash_known_hosts: bool = False
    address_family: str = "any"
    connect_timeout_s: float | None = None
    control_path: str | None = None
    key_exchanges: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    host_key_algorithms: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Every other line of `ssh -G`, as (lower-case name, value)."""

    def setting(self, name: str) -> str:
        """The value of another option (lower case), "" where `ssh -G` does not print it."""
        return next((value for key, value in self.settings if key == name), "")

    def is_on(self, name: str) -> bool:
        """Whether a yes/no option is on."""
        return self.setting(name) in {"yes", "true"}

    @property
    def host_key_names(self) -> tuple[str, ...]:
        """Names under which known_hosts files may list the host, the most specific first."""
        if self.host_key_alias:
            return (self.host_key_alias.lower(),)
        plain = self.hostname.lower()
        return (plain,) if self.port == 22 else (f"[{plain}]:{self.port}", plain)

    @property
    def endpoint(self) -> str:
        """`host port n`, as messages name it."""
        return f"{self.hostname} port {self.port}"


def resolve(node: Node, *, config_file: str | None, timeout_s: float) -> ResolvedHost | Unreachable:
    """Ask `ssh -G` how to reach `node`, within `timeout_s`."""
    host = node.address or node.name
    refused = _refused(node, host)
    if refused is not None:
        return refused
    argv = (*ssh_command(node, config_file), "-G", "--", host)
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return Unreachable(
            node.name,
            "the program ssh was not found on this machine",
            "install the OpenSSH client (openssh-client)",
        )
    except subprocess.TimeoutExpired:
        step = "look for a slow `Match exec` or CanonicalizeHostname in the ssh configuration"
        return Unreachable(
            node.name, f"ssh -G {host}: no answer within {round(timeout_s, 1):g} s", step
        )
    except OSError as error:
        return Unreachable(
            node.name,
            f"ssh -G {host}: cannot be started: {error.strerror}",
            "raise this machine's limits: ulimit -n, ulimit -u",
        )
    if done.returncode != 0:
        seen = (
            done.stderr.decode("utf-8", "replace").strip()
            or f"exit status {done.returncode}, nothing on stderr"
        )
        return Unreachable(
            node.name,
            f"ssh -G {host}: {seen}",
            "correct the ssh configuration that the message names",
        )
    try:
        return parse(
            done.stdout.decode("utf-8", "replace"), destination=host, local=LocalUser.here()
        )
    except ValueError as error:
        return Unreachable(
            node.name, f"ssh -G {host}: {error}", "correct the port in the ssh configuration"
        )


def ssh_command(
    node: Node, config_file: str | None, *, first: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """`ssh` with the options that the inventory gives for this node, without the host; options in
    `first` win over them."""
    argv = ["ssh", *first]
    argv += ["-F", config_file] if config_file else []
    argv += ["-p", str(node.port)] if node.port is not None else []
    argv += ["-l", node.user] if node.user is not None else []
    argv += ["-i", node.identity_file] if node.identity_file is not None else []
    for name, value in node.ssh_options:
        argv += ["-o", f"{name}={value}"]
    return tuple(argv)


def hops(proxy_jump: str) -> tuple[Node, ...]:
    """The machines of a ProxyJump value in the order they are passed.

    >>> [(hop.user, hop.address, hop.port) for hop in hops("me@bastion:2200,[fe80::1]:22,ssh://inner:23")]
    [('me', 'bastion', 2200), (None, 'fe80::1', 22), (None, 'inner', 23)]

    Raises:
        Refused: the value cannot be read.
    """
    found = []
    for text in proxy_jump.split(","):
        user, _, place = text.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
        match = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+)(?::(\d+))?", place)
        if match is None:
            raise Refused(
                f"ProxyJump {proxy_jump}: cannot read {text!r} as [user@]host[:port]",
                "correct it in the ssh configuration",
            )
        port = match[2] or match[4]
        found.append(
            Node(
                name=text.strip(),
                address=match[1] or match[3],
                user=user or None,
                port=int(port) if port else None,
            )
        )
    return tuple(found)


def parse(text: str, *, destination: str, local: LocalUser) -> ResolvedHost:
    """Read what `ssh -G` printed.

    Raises:
        ValueError: the port is no number.
    """
    lines = [line.partition(" ") for line in text.splitlines()]
    pairs = [(name.lower(), value) for name, _, value in lines if name]
    given = dict(reversed(pairs))
    host = given.get("hostname", destination)
    user = given.get("user", local.name)
    port = int(given.get("port", "22"))
    alias = given.get("hostkeyalias")
    tokens = _tokens(local, destination, host, user, port, alias)

    def files(name: str) -> tuple[str, ...]:
        return tuple(
            _expand(value, tokens, local.home)
            for key, value in pairs
            if key == name and value != "none"
        )

    def known_hosts(name: str) -> tuple[str, ...]:
        return tuple(
            _expand(path, tokens, local.home)
            for path in _paths(given.get(name, ""))
            if path != "none"
        )

    agent = given.get("identityagent")
    timeout = given.get("connecttimeout", "none")
    return ResolvedHost(
        destination=destination,
        hostname=host,
        port=port,
        user=user,
        identity_files=files("identityfile"),
        certificate_files=files("certificatefile"),
        identities_only=given.get("identitiesonly") in {"yes", "true"},
        identity_agent=(
            None
            if agent in {None, "SSH_AUTH_SOCK"}
            else _agent_socket(str(agent), tokens, local.home)
        ),
        proxy_jump=_unless_none(given.get("proxyjump")),
        proxy_command=_unless_none(given.get("proxycommand")),
        user_known_hosts=known_hosts("userknownhostsfile"),
        global_known_hosts=known_hosts("globalknownhostsfile"),
        host_key_alias=alias,
        strict_host_key_checking=_strictness(given.get("stricthostkeychecking", "ask")),
        hash_known_hosts=given.get("hashknownhosts") in {"yes", "true"},
        address_family=given.get("addressfamily", "any"),
        connect_timeout_s=float(seconds) if (seconds := whole_number(timeout)) else None,
        control_path=_unless_none(given.get("controlpath")),
        key_exchanges=_names(given.get("kexalgorithms", "")),
        ciphers=_names(given.get("ciphers", "")),
        macs=_names(given.get("macs", "")),
        host_key_algorithms=_names(given.get("hostkeyalgorithms", "")),
        settings=tuple(pairs),
    )


def _tokens(
    local: LocalUser, destination: str, host: str, user: str, port: int, alias: str | None
) -> dict[str, str]:
    """What `%h` and the like stand for in file names (ssh_config(5), TOKENS)."""
    return {
        "%": "%",
        "d": local.home,
        "u": local.name,
        "i": str(local.uid),
        "l": local.host,
        "L": local.host.partition(".")[0],
        "h": host,
        "k": alias or destination,
        "n": destination,
        "p": str(port),
        "r": user,
    }


def beyond_python(host: ResolvedHost, *, jumped: bool = False) -> str | None:
    """The option of this host that only OpenSSH itself can follow, in words; None = there is none.
    `jumped` = its way is given already.

    CheckHostIP is passed over: a host that is known by its name with this key is the right one,
    which is why OpenSSH gave it up as its default.
    """
    if host.proxy_command and not host.proxy_jump and not jumped:
        return f"ProxyCommand {host.proxy_command}"
    if host.certificate_files:
        return f"CertificateFile {host.certificate_files[0]}"
    if host.control_path and os.path.exists(host.control_path):
        return f"ControlPath {host.control_path}: a connection of yours is open there"
    for name, keyword in (
        ("pkcs11provider", "PKCS11Provider"),
        ("knownhostscommand", "KnownHostsCommand"),
        ("revokedhostkeys", "RevokedHostKeys"),
        ("bindaddress", "BindAddress"),
        ("bindinterface", "BindInterface"),
    ):
        if _unless_none(host.setting(name)):
            return f"{keyword} {host.setting(name)}"
    for name, keyword in (
        ("verifyhostkeydns", "VerifyHostKeyDNS"),
        ("nohostauthenticationforlocalhost", "NoHostAuthenticationForLocalhost"),
        ("gssapikeyexchange", "GSSAPIKeyExchange"),
    ):
        if host.is_on(name):
            return f"{keyword} yes"
    if host.setting("pubkeyauthentication") in {"no", "false"}:
        return "PubkeyAuthentication no"
    return None


def _refused(node: Node, host: str) -> Unreachable | None:
    """The node as unreachable where a word of it must not reach a command line."""
    if not _HOST.fullmatch(host):
        step = (
            "correct it in the inventory: letters, digits and . _ : % - only, and no '-' at the"
            " start"
        )
        return Unreachable(node.name, f"host name {host!r} is not given to ssh", step)
    if node.user is not None and not _USER.fullmatch(node.user):
        step = (
            "correct it in the inventory: letters, digits and . _ @ + $ \\ - only, and no '-' at"
            " the start"
        )
        return Unreachable(node.name, f"user name {node.user!r} is not given to ssh", step)
    for name, value in node.ssh_options:
        if not _OPTION.fullmatch(name) or "\n" in value:
            return Unreachable(
                node.name,
                f"ssh option {name!r} = {value!r} is not given to ssh",
                "correct ssh_options in the inventory",
            )
    return None


def _expand(path: str, tokens: dict[str, str], home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), path)


def _agent_socket(value: str, tokens: dict[str, str], home: str) -> str:
    if value.startswith("$"):
        return os.environ.get(value[1:].strip("{}"), "none")
    return _expand(value, tokens, home)


def _paths(value: str) -> tuple[str, ...]:
    """File names of a line that prints them joined by spaces: a word that does not begin a path
    belongs to the one before it."""
    paths: list[str] = []
    for word in value.split(" "):
        if paths and not word.startswith(("/", "~", "%")) and word != "none":
            paths[-1] += f" {word}"
        elif word:
            paths.append(word)
    return tuple(paths)


def _strictness(value: str) -> str:
    return {"true": "yes", "false": "no", "off": "no"}.get(value, value)


def _names(value: str) -> tuple[str, ...]:
    return tuple(name for name in value.split(",") if name)


def _unless_none(value: str | None) -> str | None:
    return None if value is None or value in {"", "none"} else value
