"""A result with every host, address, GUID, serial, user and path replaced by a stable alias, and
every credential by a mark, for reports that travel to vendors.

Judging comes first and is never repeated on aliases: the verdict, the numbers and the order of
findings stay what they were. The same name gets the same alias everywhere in one report.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TypeVar

from busbw.credentials import MASK, credentials, masked, secret_name
from busbw.errors import InventoryError
from busbw.inventory.hostlist import expand, fold
from busbw.model import Cluster

_T = TypeVar("_T")

_MAC = re.compile(
    r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}[:-]){5}(?:[0-9A-Fa-f]{2}[:-]){0,14}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])"
)
"""Ethernet (6 bytes), EUI-64 (8) and IPoIB (20)."""
_GUID = re.compile(
    r"(?<![0-9A-Fa-f:])(?:0x[0-9A-Fa-f]{16}|[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}"
    r"|(?:(?<=\t)|(?<=[Gg][Uu][Ii][Dd][:= ])|(?<=[Gg][Uu][Ii][Dd]:"
    r" ))[0-9A-Fa-f]{16})(?![0-9A-Fa-f:])"
)
"""With colons, with 0x, and bare where `ibv_devices` (behind a tab) and others say that it is one:
sixteen digits alone may be a hash."""
_UUID = re.compile(
    r"\b(?:GPU-|MIG-)?[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\b"
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)")
_IPV6 = re.compile(
    r"(?<![0-9A-Fa-f:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:%\w+)?(?![0-9A-Fa-f:])"
)
_SERIAL = re.compile(
    r"(?:\b(?:Serial(?: Number)?|serial(?:_number)?|Board Part Number|Chassis Serial(?:"
    r" Number)?|System Image GUID|S/N|SN|Asset Tag)"
    r"\"?\s*[:=]\s*\"?)(?P<value>[A-Za-z0-9][\w./-]{3,})"
)
_HOME = re.compile(r"(?P<root>/(?:home|Users)/)(?P<owner>[A-Za-z_][\w.-]*)")
_FOLDED = re.compile(r"[A-Za-z0-9._-]*\[[0-9,-]+\][A-Za-z0-9._\[\],-]*")
_VERSION_BEFORE = re.compile(r"(?:OFED|DOCA|[Vv]ersion|driver)\S*[\s:=-]*[\d.]*-?$", re.IGNORECASE)
_PATH = re.compile(
    r"(?<![\w./:<>@~\\-])/(?!(?:home|Users|usr|opt|proc|sys|dev|etc|lib\w*|s?bin|run|tmp|var|boot|nix|snap|root)"
    r"(?![\w.-]))[A-Za-z_][\w.+-]*(?:/[\w.+@=-]+)*/(?P<name>[\w.+@=-]+)"
)
"""A file of the site: its folders name projects and people. What every system has stays."""
_CLOUD_NAME = re.compile(r"(?<![A-Za-z0-9])ip-(?P<quad>\d{1,3}(?:-\d{1,3}){3})(?![\d-])")
"""A cloud's host name is its address: `ip-10-0-0-1`."""
_ACCOUNT = re.compile(
    r"\b(?:USER|LOGNAME|SUDO_USER|user|uid|login)[ =:]{1,2}(?:\d{1,10}\()?(?P<owner>[A-Za-z_][\w.-]{2,30})"
    r"(?=[\s);,\"']|\Z)"
)
_AT = re.compile(r"(?<![\w.@/-])(?P<owner>[a-z_][\w.-]{1,30})@(?P<host>[\w.:-]+)")
_COMMON_USERS = frozenset({
    "root", "admin", "ubuntu", "debian", "centos", "rocky", "ec2-user", "azureuser", "opc",
    "user", "users", "nobody", "slurm", "munge", "mpi", "nccl", "test", "tests", "data",
    "shared", "work", "gpu", "hpc", "cluster", "busbw", "node", "none", "name", "names",
    "host", "login", "the", "and", "only", "for", "from", "git", "build", "not", "set", "unknown"
})  # fmt: skip
"""Accounts that are everywhere, and words that are more often no account: they name nobody, and
"needs root" stays readable."""
_COMMON_HOSTS = frozenset({
    "login", "head", "gpu", "node", "host", "master", "server", "rank", "worker", "mpi",
    "nccl", "test", "data", "cluster", "network", "net", "compute", "localhost", "local",
    "main", "admin", "bastion", "jump"
})  # fmt: skip
"""Short names that are words of every report: nobody is recognised by them."""
_DOMAIN = (
    r"(?:(?:\.[A-Za-z][A-Za-z0-9-]{0,40}){0,5}\.(?:com|org|net|edu|gov|mil|int|info|cloud|internal|local"
    r"|lan|corp|home|cluster|(?!gz|py|sh|md|so|cc|cu|ko|db|js)[a-z]{2})(?![\w.-]*\w))?"
)
"""Behind the name of a host; it may be none that the inventory states."""
_MAY_BE_CUT = 150
"""Characters from which on a text may have been cut anywhere, within a name too: evidence keeps 160
to 800."""
_LAST = re.compile(r"[\w.:-]+\Z")
_BEGUN = re.compile(
    r"(?:GPU-|MIG-)[0-9A-Fa-f-]*|[0-9A-Fa-f]{8}-[0-9A-Fa-f-]*|0x[0-9A-Fa-f]{6,}|[0-9A-Fa-f]{6,}|(?:[0-9A-Fa-f]{2,4}:+){2,}[0-9A-Fa-f]*"
    r"|(?:\d{1,3}\.){2,3}\d*"
)
"""The beginning of a UUID, GUID, serial number, MAC or address."""
_LEAST_BEGUN = 3
_TELLS_NOTHING = re.compile(r"unlimited|N/A|None|unknown|not\b", re.IGNORECASE)


_LEAST_SECRET = 8
_SHORT = 2
"""Letters of a user's name that are more often part of something else."""
_NAMES_NEXT = re.compile(r"-{0,2}[A-Za-z][\w-]*")

_PATTERNS = (
    ("folded", _FOLDED),
    ("cloud", _CLOUD_NAME),
    ("uuid", _UUID),
    ("serial", _SERIAL),
    ("mac", _MAC),
    ("guid", _GUID),
    ("ipv4", _IPV4),
    ("ipv6", _IPV6),
    ("home", _HOME),
    ("path", _PATH),
)


class Redactor:
    """Names seen so far and their aliases. One instance per report."""

    def __init__(
        self, hosts: Iterable[str], users: Iterable[str] = (), addresses: Iterable[str] = ()
    ) -> None:
        """`hosts` in their order: the first is `node-001`. `users` and `addresses` (names or
        numbers) are those that the inventory states."""
        self._aliases: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._secrets: frozenset[str] = frozenset()
        for host in hosts:
            self._alias("node", host)
        for user in users:
            if user not in _COMMON_USERS:
                self._alias("user", user)
        for address in addresses:
            if not _is_address(address) and address not in self._aliases:
                short = self._aliases.get(address.partition(".")[0])
                if short is None:
                    self._alias("host", address)
                else:
                    self._aliases[address] = short
        for name in tuple(self._aliases):
            domain = name.partition(".")[2]
            if domain and not _is_address(name):
                self._alias("domain", domain)
        for name in tuple(self._aliases):
            self._short(name)
        for address in addresses:
            if _identifies(address):
                self._alias("ip", _canonical(address))
        self._compile()

    def _short(self, name: str) -> None:
        """The name without its domain means the same host."""
        short, dot, _ = name.partition(".")
        known = self._aliases[name].startswith(("node-", "host-")) and not _is_address(name)
        if dot and known and len(short) > 1 and short.lower() not in _COMMON_HOSTS:
            self._aliases.setdefault(short, self._aliases[name])

    def _compile(self) -> None:
        self._folded_case = {name.lower(): alias for name, alias in self._aliases.items()}
        self._patterns = (*_PATTERNS, ("known", _any_of(self._aliases)))
        self._any = re.compile(
            "|".join(f"(?P<{name}>{pattern.pattern})" for name, pattern in self._patterns)
        )
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def learn(self, value: object) -> None:
        """Take in the users whom a record names and the credentials that it holds: each goes
        wherever it stands, also alone."""
        secrets, users = set(self._secrets), set()
        for text in _texts(value):
            secrets |= _secrets_of(text)
            users |= {match["owner"] for match in (*_HOME.finditer(text), *_ACCOUNT.finditer(text))}
            known = (match for match in _AT.finditer(text) if self._is_host(match["host"]))
            users |= {match["owner"] for match in known}
        self._secrets = frozenset(secrets)
        for user in sorted(users - _COMMON_USERS):
            if len(user) > _SHORT and user not in self._aliases:
                self._alias("user", user)
        self._compile()

    def _is_host(self, name: str) -> bool:
        return name.strip(".:").lower() in self._folded_case or _identifies(name.strip(".:"))

    @property
    def aliases(self) -> tuple[tuple[str, str], ...]:
        """(name, alias), in the order in which they were seen: to be kept, never to travel."""
        return tuple(self._aliases.items())

    def text(self, text: str) -> str:
        """The text with aliases in the place of names. One pass: an alias that is another host's
        name is not taken for it."""
        text = self._secret.sub(MASK, masked(text))
        swapped = self._any.sub(self._swap, text)
        return swapped if len(text) < _MAY_BE_CUT else self._without_begun(text, swapped)

    def _without_begun(self, text: str, swapped: str) -> str:
        """The redacted text without a last word that is the beginning of a name: a long text was
        cut somewhere."""
        last = _LAST.search(text)
        if last is None or not swapped.endswith(last[0]):
            return swapped  # nothing there, or replaced as a whole
        word = last[0]
        prefix = len(word) >= _LEAST_BEGUN and any(name.startswith(word) for name in self._aliases)
        return f"{swapped[: -len(word)]}…" if prefix or _BEGUN.fullmatch(word) else swapped

    def record(self, value: _T) -> _T:
        """A copy of a record in which every text, however deep, is redacted."""
        changed: object = value
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            changed = self.text(value)
        elif isinstance(value, tuple):
            changed = self._items(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                field.name: self.record(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if field.init
            }
            if secret_name(str(fields.get("name", ""))) and isinstance(fields.get("value"), str):
                fields["value"] = MASK
            changed = dataclasses.replace(value, **fields)
        return changed  # type: ignore[return-value]  # of the same type by construction

    def _items(self, items: tuple[object, ...]) -> tuple[object, ...]:
        """Item by item; what follows the name of a secret (`--password`, a pair's name) is one."""
        changed: list[object] = []
        for i, item in enumerate(items):
            before = items[i - 1] if i else None
            named = isinstance(before, str) and _NAMES_NEXT.fullmatch(before) is not None
            secret = named and secret_name(str(before)) and isinstance(item, str)
            changed.append(
                MASK if secret and (len(items) == 2 or _is_option(before)) else self.record(item)
            )
        return tuple(changed)

    def _swap(self, match: re.Match[str]) -> str:
        kind = next(name for name, _ in self._patterns if match[name] is not None)
        matched = match[0]
        if kind == "folded":
            return self._unfolded(matched)
        if kind == "known":
            return self._known(matched)
        if kind == "cloud":
            return self._alias("ip", match["quad"].replace("-", "."))
        if kind == "path":
            name = self._any.sub(self._swap, match["name"])
            return f"/{self._alias('path', matched[: -len(match['name']) - 1])}/{name}"
        if kind == "serial":
            label, value = matched[: match.start("value") - match.start()], match["value"]
            return matched if _TELLS_NOTHING.match(value) else label + self._alias("serial", value)
        if kind == "home":
            owner = match["owner"]
            return matched if owner in _COMMON_USERS else match["root"] + self._alias("user", owner)
        if kind in ("ipv4", "ipv6"):
            bare = matched.partition("%")[0]
            if not _identifies(bare) or _is_version(match):
                return matched
            return self._alias("ip", _canonical(bare))
        return self._alias(kind, matched)

    def _alias(self, kind: str, name: str) -> str:
        if name not in self._aliases:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._aliases[name] = f"{kind}-{self._counts[kind]:03d}"
        return self._aliases[name]

    def _unfolded(self, folded: str) -> str:
        """A folded list that names known hosts, folded again from their aliases; whatever else has
        brackets, name by name."""
        try:
            names = expand(folded)
        except InventoryError:
            names = ()
        if any(name in self._aliases for name in names):
            return fold(self._aliases.get(name, name) for name in names)
        return self._patterns[-1][1].sub(lambda match: self._known(match[0]), folded)

    def _known(self, name: str) -> str:
        """The alias of a name, or of the host before its domain."""
        host = name.lower()
        while host not in self._folded_case:
            host = host.rpartition(".")[0]
        return self._folded_case[host]


def for_cluster(
    cluster: Cluster, host_names: Iterable[str], other_users: Iterable[str] = ()
) -> Redactor:
    """The redactor of a run: the inventory's names, addresses and users, the names that the hosts
    give themselves, and the users who were seen there."""
    users = [node.user for node in cluster.nodes if node.user]
    users += sorted(user for user in set(other_users) - {*users} if len(user) > _SHORT)
    addresses = [node.address for node in cluster.nodes if node.address]
    return Redactor([node.name for node in cluster.nodes], users, (*addresses, *host_names))


def names_file(redactor: Redactor) -> bytes:
    """`redacted-names.csv`: who is who, to be kept at home."""
    rows = "".join(f"{alias},{name}\n" for name, alias in redactor.aliases)
    return f"alias,name\n{rows}".encode()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _identifies(text: str) -> bool:
    """An address that tells something of the site: not loopback, not "any", not a mask; and no time
    of day."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or text.startswith("255."))


def _is_version(match: re.Match[str]) -> bool:
    """Four-part version numbers look like addresses: `MLNX_OFED_LINUX-5.8-3.0.7.0`."""
    return bool(_VERSION_BEFORE.search(match.string[max(0, match.start() - 40) : match.start()]))


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names as a whole word, the longest first; a domain behind it goes with it only
    where it was named itself."""
    longest_first = sorted(names, key=len, reverse=True)
    if not longest_first:
        return re.compile(r"(?!)")
    alternatives = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?<![A-Za-z0-9])(?i:{alternatives})(?![A-Za-z0-9]){_DOMAIN}")


def _canonical(address: str) -> str:
    """All forms of an address as one: IPv6 short or long, in capitals, an IPv4 inside it."""
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)


def _texts(value: object) -> Iterator[str]:
    """Every text of a record, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | Enum):
        for field in dataclasses.fields(value):
            yield from _texts(getattr(value, field.name))


def _secrets_of(text: str) -> set[str]:
    """The credentials of a text that are long enough to be looked for alone."""
    return {each for each in credentials(text) if len(each) >= _LEAST_SECRET}


def _is_option(value: object) -> bool:
    return isinstance(value, str) and value.startswith("-")
