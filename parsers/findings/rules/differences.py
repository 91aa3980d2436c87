"""Facts of one kind side by side: what a process, a host or a channel states that the others state
otherwise, state less of, or do not state.

One table: what to look for, whose fact it is, how its value is read, and what a difference means.
Truncated pastes imitate absence: only who states something else is taken as silent on this.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import DIFFERENCE, Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_Statement = tuple[str | int, Sighting]
"""A value, and the line that states it."""

AGREE = (
    "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_PROTO", "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE",
    "NCCL_COLLNET_ENABLE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_MNNVL_ENABLE", "NCCL_CROSS_NIC", "NCCL_PXN_DISABLE", "NCCL_P2P_DISABLE",
)  # fmt: skip
"""Variables whose value decides how two ranks talk: they must be equal."""


class Kind(Enum):
    """Which difference counts."""

    OTHER = auto()
    """Any two values: the first line of each is evidence."""
    LESS = auto()
    """A number below the greatest: each line with one is."""
    MIXED = auto()
    """Two values on subjects of one process: the lines with the lower one are."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of fact."""

    watch: Watch
    value: Callable[[str], str | int | None]
    """Of a line; None = it states none."""
    kind: Kind
    clues: tuple[tuple[str, Weight], ...]
    """Entries that a difference speaks for."""
    absent: tuple[tuple[str, Weight], ...] = ()
    """Entries that it speaks for if a host prints `others` and not this."""


def _group(pattern: str) -> Callable[[str], str | None]:
    """Reads the pattern's first group."""
    compiled = re.compile(pattern)

    def value(line: str) -> str | None:
        match = compiled.search(line)
        return match[1] if match else None

    return value


def _devices(line: str) -> int:
    return len(re.findall(r"\[\d+\][\w.+-]+:\d+", line))


def _uses_gdr(line: str) -> int:
    return int("/GDRDMA" in line)


_START = Watch("start", r"rank \d+ nranks \d+ .*- ?Init START")
_COMMUNICATOR = re.compile(r"\bcommId (0x[0-9a-f]+)")
_OTHERS = Watch("others", r"\bNCCL_[A-Z0-9_]+ set (?:by environment )?to ", keep=1)
_SETTING = _group(r" set (?:by environment )?to (.*?)\.?\s*$")
VERSION = Comparison(
    Watch(
        "version",
        r"^.{0,200}?:\d+:\d+ \[-?\d+\] NCCL INFO (?:NCCL|RCCL) version ?:? ?\d+\.\d+",
    ),
    _group(r"version ?:? ?(\d+\.\d+(?:\.\d+)?)"),
    Kind.OTHER,
    (("nccl-version-mismatch", Weight.STRONG),),
)
_BARE_VERSION = Watch("bare version", r"^(?:NCCL|RCCL) version ?:? ?\d+\.\d+")
"""As rank 0 prints it to its output, with no word of who it is."""
COMPARISONS = (
    VERSION,
    Comparison(
        Watch("using", r"NET/IB ?: Using +\[0\]"),
        _devices,
        Kind.LESS,
        (("nic-count-differs", Weight.STRONG),),
    ),
    Comparison(
        Watch(
            "channel",
            r"Channel \d+(?:/\d+)? : .* via NET/(?:IB|IBext\w*)/\d+(?:\(\d+\))?(?:/GDRDMA|/Shared)*\s*$",
            distinct=True,
        ),
        _uses_gdr,
        Kind.MIXED,
        (("gdr-level-too-strict", Weight.STRONG),),
    ),
    *(
        Comparison(
            Watch(name, rf"\b{name} set (?:by environment )?to "),
            _SETTING,
            Kind.OTHER,
            (("env-differs-between-ranks", Weight.STRONG),),
            (("env-differs-between-ranks", Weight.WEAK), ("env-not-forwarded", Weight.WEAK)),
        )
        for name in AGREE
    ),
)


def _judge(view: View) -> Iterator[Clue]:
    speaking = {line.host for line in view.each(_OTHERS.name)} - {None}
    for each in COMPARISONS:
        stated = _Stated(functools.partial(_lines, view, each))
        different = stated.different(each.kind)
        yield from _clues(each, different, stated)
        silent = speaking - stated.by_host.keys()
        if each.absent and stated.first and silent and not different:
            for _, line in itertools.islice(_lines(view, each), 2):
                yield from (line.clue(*clue, "nccl-log", line.hosts) for clue in each.absent)
    for versions in _bare_versions(view):
        stated = _Stated(versions.__iter__)
        yield from _clues(VERSION, stated.different(VERSION.kind), stated)


def _lines(view: View, comparison: Comparison) -> Iterator[_Statement]:
    """The lines of known hosts that state a value."""
    for line in view.each(comparison.watch.name):
        value = comparison.value(line.text)
        if line.host is not None and value is not None:
            yield value, line


def _bare_versions(view: View) -> Iterator[list[_Statement]]:
    """The releases that the texts of one communicator state without a process: each is of the process
    that starts in its text."""
    if not view.has(_BARE_VERSION.name):
        return
    processes: dict[str, str | None] = {}
    texts: dict[str, set[str]] = {}
    """Of each communicator."""
    for line in view.each(_START.name):
        processes.setdefault(line.artefact, line.process)
        comm = _COMMUNICATOR.search(line.text)
        if comm is not None:
            texts.setdefault(comm[1], set()).add(line.artefact)
    versions = [
        (value, line._replace(process=processes[line.artefact]))
        for line in view.each(_BARE_VERSION.name)
        if line.artefact in processes and (value := VERSION.value(line.text)) is not None
    ]
    for own in texts.values():
        yield [(value, line) for value, line in versions if line.artefact in own]


class _Stated:
    """What the lines of one kind state, without the lines themselves: a thousand ranks print a hundred
    each."""

    def __init__(self, lines: Callable[[], Iterator[_Statement]]) -> None:
        """lines: gives them once more, in order, each time."""
        self._lines = lines
        self.first: dict[str | int, Sighting] = {}
        """The first line with each value."""
        self.by_host: dict[str | None, _Statement] = {}
        """The first of each host."""
        self.hosts: dict[str | int | None, set[str]] = {}
        """Of each value."""
        self.values: dict[str | None, set[str | int]] = {}
        """Of each process."""
        for value, line in lines():
            self.first.setdefault(value, line)
            self.by_host.setdefault(line.host, (value, line))
            self.hosts.setdefault(value, set()).update(line.hosts)
            self.values.setdefault(line.process, set()).add(value)

    def different(self, kind: Kind) -> list[Sighting]:
        """The lines that show the difference; [] = there is none, or only one process speaks."""
        if len(self.first) < 2:
            return []
        if kind is Kind.MIXED:
            return self._mixed()
        if len(self.values) < 2:
            return []
        if kind is Kind.OTHER:
            return list(self.first.values())
        return self._fewer()

    def _fewer(self) -> list[Sighting]:
        """The lines of hosts all of whose processes state less than others' do."""
        most_of: dict[str | None, tuple[int, Sighting]] = {}
        for value, line in self._lines():
            if line.host not in most_of or int(value) > most_of[line.host][0]:
                most_of[line.host] = int(value), line
        most = max(value for value, _ in most_of.values())
        return [line for value, line in most_of.values() if value < most]

    def _mixed(self) -> list[Sighting]:
        """The lines with the lower value of processes that have both."""
        both = {process for process, values in self.values.items() if len(values) > 1}
        if not both:
            return []
        return [line for value, line in self._lines() if not value and line.process in both]


def _clues(comparison: Comparison, lines: list[Sighting], stated: _Stated) -> Iterator[Clue]:
    """The lines, each with its host; what most hosts state places nothing."""
    total = sum(map(len, stated.hosts.values()))
    for line in lines:
        own = stated.hosts[comparison.value(line.text)]
        where = tuple(sorted(own))
        if comparison.kind is not Kind.OTHER:
            where = line.hosts
        elif len(own) * 2 > total:
            where = ()
        for entry, weight in comparison.clues:
            yield line.clue(entry, weight, DIFFERENCE, where)


def _line(host: str, text: str) -> str:
    return f"{host}:1:2 [0] NCCL INFO {text}\n"


def _channel(number: int, end: str) -> str:
    return _line("a", f"Channel {number:02}/0 : 7[3] -> 0[0] [receive] via NET/IB/{end}")


_TWO_NICS = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
_ONE_NIC = "NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.2<0>"
_SIMPLE = "NCCL_PROTO set by environment to Simple"

RULE = Rule(
    name="differences",
    conclusion=(
        "Processes differ in their NCCL release or in a variable that must agree; a host has fewer"
        " NICs; a process has channels with GPUDirect RDMA and without."
    ),
    watches=(*(each.watch for each in COMPARISONS), _OTHERS, _BARE_VERSION, _START),
    judge=_judge,
    fires=(
        Fires(
            _line("a", "NCCL version 2.27.3+cuda12.9") + _line("b", "NCCL version 2.29.7+cuda12.9"),
            (("nccl-version-mismatch", "strong"),),
        ),
        Fires(_line("a", _TWO_NICS) + _line("b", _ONE_NIC), (("nic-count-differs", "strong"),)),
        Fires(
            _line("a", _SIMPLE) + _line("b", "NCCL_PROTO set by environment to LL128"),
            (("env-differs-between-ranks", "strong"),),
        ),
        Fires(
            _line("a", "NCCL_IB_DISABLE set by environment to 1.")
            + _line("b", "NCCL_DEBUG_SUBSYS set by environment to INIT"),
            (("env-not-forwarded", "weak"), ("env-differs-between-ranks", "weak")),
        ),
        Fires(
            _channel(0, "0/GDRDMA") + _channel(1, "1"),
            (("gdr-level-too-strict", "strong"),),
        ),
    ),
    silent=(
        _line("a", "NCCL version 2.27.3+cuda12.9") + _line("b", "NCCL version 2.27.3+cuda12.9"),
        _line("a", _ONE_NIC) + _line("b", _ONE_NIC),
        _line("a", _ONE_NIC)
        + _line("a", _TWO_NICS).replace(":1:2", ":3:4")
        + _line("b", _TWO_NICS)
        + _line("b", _ONE_NIC).replace(":1:2", ":3:4"),
        _line("a", _SIMPLE) + _line("b", _SIMPLE),
        _line("a", _SIMPLE),
        _channel(0, "0/GDRDMA") + _channel(1, "1/GDRDMA"),
        _channel(0, "0") + _channel(1, "1"),
    ),
)
