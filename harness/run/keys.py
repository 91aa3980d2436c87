"""How the launcher on the head node reaches the other nodes: checked first; with the user's
consent, a temporary key, removed again.

Host keys of the other nodes come from the nodes themselves, over the connections that busbw
verified; the launcher's ssh then verifies them too. Nobody's own key or agent is ever copied to a
node.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw import shell
from busbw.errors import LaunchError
from busbw.inventory.hostlist import fold
from busbw.launch.choose import choose
from busbw.launch.mpirun import ssh_agent
from busbw.model import Command, CommandResult
from busbw.run.context import Context
from busbw.run.launching import Place
from busbw.store import artefacts
from busbw.store.artefacts import Excluded, ExcludedNodes
from busbw.text import whole_number
from busbw.units import counted

CHECK_TIMEOUT_S = 90.0

_ADDRESSES = 64
"""Of the head in `from=`: the line stays below 4 KiB."""
_AUTHORIZED = "authorized_keys.sh"


@dataclass(frozen=True, slots=True)
class Peer:
    """A node as the head reaches it."""

    node: str
    user: str
    address: str
    port: str
    host_keys: tuple[str, ...]
    """`TYPE BASE64` each."""

    @property
    def loopback(self) -> bool:
        """It is reached on the machine that it shares with the head."""
        return self.address.startswith("127.") or self.address == "::1"


@contextlib.contextmanager
def access(
    context: Context, place: Place, nodes: tuple[str, ...]
) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """A place from which the launcher reaches the nodes that are given with it: all, or all but a
    few (a quarter at most) that are told.

    Whatever was made for that is gone afterwards. Only mpirun needs ssh for that.

    Raises:
        LaunchError: the head cannot log in to more nodes than that, and there is no consent to a
        temporary key, or it did not help.
    """
    by_ssh = choose(context.plan.cluster.launcher).over_ssh
    done = artefacts.load(context.run, "excluded-nodes.json", ExcludedNodes)
    nodes = (
        tuple(node for node in nodes if node not in {each.node for each in done.nodes})
        if done
        else nodes
    )
    others = tuple(node for node in nodes if node != place.head) if by_ssh else ()
    refused = _refused(context, place, others) if others else {}
    if not context.plan.temporary_keys and _few(refused, others):
        nodes, refused = _without(context, nodes, refused), {}
    if not refused:
        yield place, nodes
        return
    if not context.plan.temporary_keys:
        raise _no_login(
            f"{place.head} cannot log in to {fold(refused)} by ssh, which mpirun needs",
            refused,
            "allow it yourself, or run again with --temporary-keys (a key for this run only, removed"
            " at the end)",
        )
    directory = f"{place.directory}/{context.plan.job_directory}/keys"
    mark = mark_of(context.plan.run_id)
    allowed: list[str] = []
    try:
        config = _install(context, place, others, directory, mark, allowed)
        context.progress(
            "keys", f"temporary key for {counted(len(others), 'node')}, removed at the end"
        )
        ready = dataclasses.replace(place, ssh_config=config)
        still = _refused(context, ready, others)
        if still and not _few(still, others):
            raise _no_login(
                f"{place.head} cannot log in to {fold(still)} even with a temporary key",
                still,
                "the nodes may forbid keys or this path: ask their administrator for ssh between"
                " nodes",
            )
        yield ready, _without(context, nodes, still) if still else nodes
    finally:
        _remove(context, place.head, directory, mark, allowed)


def _no_login(what: str, refused: dict[str, str], next_step: str) -> LaunchError:
    node, reason = next(iter(refused.items()))
    return LaunchError(what, seen=f"{node}: {reason}", next_step=next_step)


def _few(refused: dict[str, str], others: tuple[str, ...]) -> bool:
    """So few that it is these nodes, and not the way nodes of this cluster log in to each other."""
    return 0 < len(refused) <= len(others) // 4


def _without(context: Context, nodes: tuple[str, ...], refused: dict[str, str]) -> tuple[str, ...]:
    """The others, after what is wrong with these was kept and told."""
    before = artefacts.load(context.run, "excluded-nodes.json", ExcludedNodes)
    if before is None:
        why = "the head node cannot log in to it by ssh, which mpirun needs"
        artefacts.keep(
            context.run,
            "excluded-nodes.json",
            ExcludedNodes(
                tuple(Excluded(node, f"{why}: {reason}") for node, reason in refused.items())
            ),
        )
    for node, reason in refused.items():
        context.progress(
            "keys", f"{node} is excluded: the head node cannot log in to it by ssh: {reason}"
        )
    return tuple(node for node in nodes if node not in refused)


def _refused(context: Context, place: Place, others: tuple[str, ...]) -> dict[str, str]:
    """Nodes that the head cannot log in to, with the last thing ssh said."""
    command = Command(
        ("sh", "-c", _script("login.sh"), "busbw-login", ssh_agent(place.ssh_config), *others),
        timeout_s=CHECK_TIMEOUT_S,
        label="login",
    )
    result = context.fleet.sessions[place.head].run(command)
    reasons = dict(re.findall(r"^no (\S+) ?(.*)$", result.out(), re.M))
    fine = set(re.findall(r"^ok (\S+)$", result.out(), re.M))
    unanswered = result.problem or result.err().strip() or "no answer"
    return {node: reasons.get(node, unanswered) for node in others if node not in fine}


def _install(
    context: Context,
    place: Place,
    others: tuple[str, ...],
    directory: str,
    mark: str,
    allowed: list[str],
) -> str:
    """Make the key on the head, allow it on the others, write what its ssh must know; returns the
    path of that ssh_config."""
    head = context.fleet.sessions[place.head]
    created = head.run(
        Command(
            ("sh", "-c", _script("make_key.sh"), "busbw-key", directory, mark),
            timeout_s=30,
            label="key",
        )
    )
    if not created.ok:
        raise LaunchError(
            f"no temporary key could be made on {place.head}",
            seen=created.problem or created.err().strip(),
        )
    peers = [
        peer(answer.node, answer.out())
        for answer in context.fleet.run(
            dict.fromkeys(others, _command("peer.sh", "who")), deadline_s=40
        )
        if isinstance(answer, CommandResult)
    ]
    # Noted before it is done: what may have been installed is removed, also when the answer never
    # came.
    allowed += others
    line = key_line(created.out(), loopback=any(peer.loopback for peer in peers))
    if line is None:
        raise LaunchError(
            f"{place.head} reports no address, so that no key can be bound to it",
            seen=created.out().strip(),
            next_step="install iproute2 (`ip`) on it, or name another head in the inventory",
        )
    context.fleet.run(dict.fromkeys(others, allow(mark, line)), deadline_s=40)
    files = {
        "config": _ssh_config(peers, directory),
        "known_hosts": "".join(f"{p.node} {key}\n" for p in peers for key in p.host_keys),
    }
    for name, text in files.items():
        path = f"{directory}/{name}"
        write = Command(
            ("sh", "-c", 'umask 077; cat > "$1"', "busbw-write", path),
            stdin=text.encode(),
            label="key",
            writes=path,
        )
        head.run(write)
    return f"{directory}/config"


def _script(*files: str) -> str:
    return shell.load("busbw.run", *files)


def _command(file: str, label: str) -> Command:
    return Command(("sh", "-c", _script(file), f"busbw-{label}"), timeout_s=30, label=label)


def peer(node: str, answer: str) -> Peer:
    """How a node says that it is reached. What is no account, address or port does not count: it
    would stand in the ssh_config of the head.

    >>> peer("n1", "user ana\\naddress 10.0.0.1\\nport 2222\\n10.0.0.1 ssh-ed25519 AAAA")
    Peer(node='n1', user='ana', address='10.0.0.1', port='2222', host_keys=('ssh-ed25519 AAAA',))
    >>> peer("n1", "user -oX\\naddress $(id)\\nport 99999")
    Peer(node='n1', user='root', address='n1', port='22', host_keys=())
    """
    fields = dict(re.findall(r"^(user|address|port) (\S+)$", answer, re.M))
    keys = tuple(re.findall(r"^[^#\s]\S* ((?:ssh|ecdsa)-[\w@.-]+ [A-Za-z0-9+/=]+)$", answer, re.M))
    user, address, port = (fields.get(name, "") for name in ("user", "address", "port"))
    if not re.fullmatch(r"[A-Za-z0-9_][\w.@+-]{0,63}\$?", user, re.ASCII):
        user = "root"
    try:
        ipaddress.ip_address(address)
    except ValueError:
        address = node
    number = whole_number(port)
    if number is None or not 0 < number < 65536:
        port = "22"
    return Peer(node, user, address, port, keys)


def _ssh_config(peers: list[Peer], directory: str) -> str:
    blocks = [
        f"Host {p.node}\n  HostName {p.address}\n  Port {p.port}\n  User {p.user}\n  HostKeyAlias"
        f" {p.node}\n"
        for p in sorted(peers, key=lambda p: p.node)
    ]
    common = (
        f"Host *\n  IdentityFile {directory}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile"
        f" {directory}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
        "  BatchMode yes\n"
    )
    return "".join(blocks) + common


def key_line(created: str, *, loopback: bool = False) -> bytes | None:
    """The line for authorized_keys, good only from the addresses that the head has; None = it has
    none. `loopback` = the nodes are reached at loopback addresses, as those of a lab may be.

    >>> key_line("ssh-ed25519 AAAA busbw-x\\naddress 10.0.0.1\\naddress 10.0.0.1\\naddress fe80::1")
    b'restrict,from="10.0.0.1" ssh-ed25519 AAAA busbw-x'
    """
    key, _, rest = created.partition("\n")
    addresses = []
    for word in dict.fromkeys(re.findall(r"^address (\S+)$", rest, re.M)):
        with contextlib.suppress(ValueError):
            address = ipaddress.ip_address(word)
            if not address.is_link_local and (loopback or not address.is_loopback):
                addresses.append(str(address))
    if not addresses:
        return None
    return f'restrict,from="{",".join(addresses[:_ADDRESSES])}" {key}'.encode()


def mark_of(run_id: str) -> str:
    """What the line of a run's temporary key ends in."""
    return f"busbw-{run_id}"


def allow(mark: str, line: bytes) -> Command:
    """Adds the line, which ends in a blank and the mark, to authorized_keys: whole or, with exit
    status 73, not at all. Nodes that share a home change its file one after the other, once."""
    return Command(
        ("sh", "-c", _script(_AUTHORIZED, "allow_key.sh"), "busbw-allow", mark, _lines_of(mark)),
        stdin=line,
        timeout_s=30,
        label="allow",
    )


def forget(mark: str) -> Command:
    """Removes what `allow` added, the file and its folder too where they were made for it; whoever
    did that."""
    return Command(
        ("sh", "-c", _script(_AUTHORIZED, "forget_key.sh"), "busbw-forget", mark, _lines_of(mark)),
        timeout_s=30,
        label="forget",
    )


def _lines_of(mark: str) -> str:
    """For grep: of this run, not of one whose name begins with this one's."""
    return f" {mark.replace('.', chr(92) + '.')}$"


def _remove(context: Context, head: str, directory: str, mark: str, allowed: list[str]) -> None:
    commands = dict.fromkeys(allowed, forget(mark))
    answers = context.fleet.run(commands, deadline_s=40) if commands else ()
    remaining = [
        answer.node for answer in answers if not (isinstance(answer, CommandResult) and answer.ok)
    ]
    if remaining:
        context.progress(
            "keys",
            f"the temporary key may remain on {fold(remaining)}: remove the line ending in {mark} from"
            " ~/.ssh/authorized_keys",
        )
    context.fleet.run(
        {head: Command(("rm", "-rf", "--", directory), timeout_s=30, label="forget")}, deadline_s=40
    )
