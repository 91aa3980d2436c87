"""A result with every host, address, GUID, serial and user name replaced by a stable alias, for
reports that travel to vendors.

Judging comes first and is never repeated on aliases: the verdict, the numbers and the order of
findings stay what they were. The same name gets the same alias everywhere in one report.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

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
_COMMON_USERS = frozenset(
    {"root", "admin", "ubuntu", "debian", "centos", "rocky", "ec2-user", "azureuser", "opc", "user"}
)
"""Accounts that are everywhere: they name nobody, and "needs root" stays readable."""
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


_PATTERNS = (
    ("folded", _FOLDED),
    ("uuid", _UUID),
    ("serial", _SERIAL),
    ("mac", _MAC),
    ("guid", _GUID),
    ("ipv4", _IPV4),
    ("ipv6", _IPV6),
    ("home", _HOME),
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
        for host in hosts:
            self._alias("node", host)
        for user in users:
            if user not in _COMMON_USERS:
                self._alias("user", user)
        for address in addresses:
            if not _is_address(address) and address not in self._aliases:
                self._alias("host", address)
        for name in tuple(self._aliases):
            domain = name.partition(".")[2]
            if domain and not _is_address(name):
                self._alias("domain", domain)
        self._patterns = (*_PATTERNS, ("known", _any_of(self._aliases)))
        self._any = re.compile(
            "|".join(f"(?P<{name}>{pattern.pattern})" for name, pattern in self._patterns)
        )

    @property
    def aliases(self) -> tuple[tuple[str, str], ...]:
        """(name, alias), in the order in which they were seen: to be kept, never to travel."""
        return tuple(self._aliases.items())

    def text(self, text: str) -> str:
        """The text with aliases in the place of names. One pass: an alias that is another host's
        name is not taken for it."""
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
            changed = tuple(self.record(item) for item in value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                field.name: self.record(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if field.init
            }
            changed = dataclasses.replace(value, **fields)
        return changed  # type: ignore[return-value]  # of the same type by construction

    def _swap(self, match: re.Match[str]) -> str:
        kind = next(name for name, _ in self._patterns if match[name] is not None)
        matched = match[0]
        if kind == "folded":
            return self._unfolded(matched)
        if kind == "known":
            return self._aliases[matched]
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
            return self._alias("ip", bare)
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
        return self._patterns[-1][1].sub(lambda match: self._aliases[match[0]], folded)


def for_cluster(cluster: Cluster, host_names: Iterable[str]) -> Redactor:
    """The redactor of a run: the inventory's names, addresses and users, and the names that the
    hosts give themselves."""
    users = [node.user for node in cluster.nodes if node.user]
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
    return re.compile(rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])")
