"""Network links that went down. While a machine starts, a link comes up so, once or twice; later, or
more often, it is a fault. A cable that was unplugged and not plugged again is a port that is down."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.named_places import NO_HOST, places
from busbw.parsers.findings.rules import Fires, Rule, Watch

_DOWN = Watch(
    "down",
    r"\blink (?:is )?down\b|(?:lost carrier|carrier lost)|link (?:has been )?disconnected"
    r"|UPDOWN: .*\bto (?:state )?down\b|IF_DOWN_LINK_FAILURE|oper(?:ational)? stat(?:e|us)\W+(?:is )?down"
    r"|oper state set from up to down|link status definitely down",
)
_NIC = re.compile(
    r"mlx[45]|bnxt|irdma|\bice \d|ionic|efa|NIC Link|\b(?:ib|mlx|ens|eno|enp|eth|rdma|roce|hsn|hsi|bond)\d",
    re.IGNORECASE,
)
_PLUG = Watch("plug", r"Port module event\W.*Cable (?:un)?plugged", keep=64)
_ADAPTER = re.compile(r"mlx[45]_core (\S+?):? ")
_BOOT = Watch("boot", r"Linux version \d|Command line: \S")
_UPTIME = re.compile(r"\[ *(\d+)\.\d{6}\]")
_CLOCK = re.compile(
    r"\b(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<day>\d+) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
)
"""The time of day, as dmesg -T and syslog write it."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_INTERFACE = re.compile(
    r"(\S+): (?:NIC )?(?:Link|lost)|(?:mlx5_core )(\S+(?: [a-z]\w+)?)[: ]|Interface (\S+?),|device \((\S+?)\)"
    r"|\b(Port Ethernet\d+) oper state|\(slave (\S+)\): link|link status definitely down for interface (\S+?),",
    re.IGNORECASE,
)
_STARTING_S = 300
"""Seconds after the start of the kernel in which links come up."""
_OFTEN = 3
"""Times that a link may go down then: drivers are reset once or twice."""


def _judge(view: View) -> Iterator[Clue]:
    yield from _unplugged(view.sightings(_PLUG.name))
    lines = view.sightings(_DOWN.name)
    boots = view.sightings(_BOOT.name)
    times: Counter[tuple[str, str]] = Counter()
    for line in lines:
        times[line.artefact, _interface(line)] += line.line_count
    for line in lines:
        interface = _interface(line)
        often = times[line.artefact, interface] >= _OFTEN
        if often or (_NIC.search(line.text) and not _is_starting(line, boots)):
            where = (*_switch(line.text), interface)
            yield line.clue("link-flaps", Weight.STRONG, "dmesg", where)


def _unplugged(lines: tuple[Sighting, ...]) -> Iterator[Clue]:
    """Adapters whose cable was unplugged at last: the link is down, and stays so."""
    last: dict[tuple[str, str], Sighting] = {}
    for line in lines:
        adapter = _ADAPTER.search(line.text)
        last[line.artefact, adapter[1] if adapter else ""] = line
    for line in last.values():
        if "unplugged" in line.text:
            yield line.clue("ib-port-down", Weight.STRONG, "dmesg", places(line.text))


def _is_starting(line: Sighting, boots: tuple[Sighting, ...]) -> bool:
    """The kernel had just started, by its clock or the time of day of its first lines above; where the
    lines state no time, these stand before it."""
    uptime = _UPTIME.search(line.text)
    if uptime:
        return int(uptime[1]) < _STARTING_S
    before = [boot for boot in boots if boot.artefact == line.artefact and boot.place < line.place]
    if not before:
        return False
    start, then = _clock(before[-1].text), _clock(line.text)
    return start is None or then is None or then - start < _STARTING_S


def _clock(text: str) -> int | None:
    """Seconds since the year began, to compare times of one log; None = the line states none."""
    match = _CLOCK.search(text)
    if match is None:
        return None
    days = _MONTHS.index(match["month"]) * 31 + int(match["day"])
    return days * 86_400 + int(match["h"]) * 3_600 + int(match["m"]) * 60 + int(match["s"])


def _switch(text: str) -> tuple[str, ...]:
    """The switch that a line of SONiC is of."""
    return tuple(place for place in places(text) if not NO_HOST.match(place))


def _interface(line: Sighting) -> str:
    match = _INTERFACE.search(line.text)
    return next(name for name in match.groups() if name) if match else ""


RULE = Rule(
    name="link-history",
    conclusion=(
        "A link flaps if it goes down long after boot, or repeatedly. Once during boot is normal."
        " A cable that stays unplugged is a port that is down."
    ),
    watches=(_DOWN, _BOOT, _PLUG),
    judge=_judge,
    fires=(
        Fires("mlx5_core 0000:ca:00.0 ens1f0np0: Link down\n", (("link-flaps", "strong"),)),
        Fires(
            "[91220.613900] mlx5_core 0000:ca:00.0 ens1f0np0: Link down\n",
            (("link-flaps", "strong"),),
        ),
        Fires(
            "[Fri Sep 12 09:00:00 2026] bnxt_en 0000:0c:00.0 ens5f0: NIC Link is Down\n",
            (("link-flaps", "strong"),),
        ),
        Fires(
            "[Fri Sep 12 09:00:00 2026] Linux version 6.8.0-45-generic\n"
            "[Fri Sep 12 19:40:05 2026] mlx5_core 0000:ca:00.0 ens1np0: Link down\n",
            (("link-flaps", "strong"),),
        ),
        Fires(
            "".join(
                f"[   {second}.613900] mlx5_core 0000:ca:00.0 ens1f0np0: Link down\n"
                for second in (15, 31, 62)
            ),
            (("link-flaps", "strong"),),
        ),
        Fires(
            "mlx5_core 0000:ca:00.0: Port module event: module 0, Cable unplugged\n",
            (("ib-port-down", "strong"),),
        ),
        Fires(
            "[91220.6139] bond0: (slave ens1): link status definitely down, disabling slave\n",
            (("link-flaps", "strong"),),
        ),
        Fires("Link down\nLink up\n" * 3, (("link-flaps", "strong"),)),
        Fires(
            "Mar 11 02:20:10.1 leaf07 NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet144"
            " oper state set from up to down\n" * 3,
            (("link-flaps", "strong"),),
        ),
        Fires(
            "%LINK-3-UPDOWN: Interface HundredGigE1/0/3, changed state to down\n" * 3,
            (("link-flaps", "strong"),),
        ),
        Fires(
            "NetworkManager[1200]: device (ens1f0np0): carrier lost, link disconnected\n",
            (("link-flaps", "strong"),),
        ),
    ),
    silent=(
        "mlx5_core 0000:ca:00.0: Port module event: module 0, Cable unplugged\n"
        "mlx5_core 0000:ca:00.0: Port module event: module 0, Cable plugged\n",
        "Link down\nLink up\n",
        (
            "[    5.613900] mlx5_core 0000:ca:00.0 ens1np0: Link down\n[    9.100312] mlx5_core"
            " 0000:ca:00.0 ens1np0: Link up\n"
        ),
        (
            "[Fri Sep 12 09:00:00 2026] Linux version 6.8.0-45-generic\n[Fri Sep 12 09:00:05 2026]"
            " mlx5_core 0000:ca:00.0 ens1np0: Link down\n"
        ),
        "[91220.613900] mlx5_core 0000:ca:00.0 ens1f0np0: Link up\n",
        "[   75.613900] bond0: (slave ens1f0np0): link status definitely down, disabling slave\n",
    ),
)
