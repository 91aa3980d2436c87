"""Words of the catalogue's commands that stand for something of a run: what each of them is in this
run, for this finding.

The catalogue writes a word where only the run knows the name: `ssh NODE ethtool -S INTERFACE`. A
word whose value the run does not hold stays, so that the reader sees what to put there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.model import Finding, Node
from busbw.store.plan import RunPlan

WORDS: Mapping[str, str] = {
    "NODE": r"\bNODE\b|<node>",
    "NODES": r"\bNODES\b",
    "PEER": r"<peer>",
    "INTERFACE": r"\bINTERFACE\b|<if>|<eth>",
    "DEVICE": r"\bDEVICE\b|<mst dev>|<hca>",
    "BUS_ID": r"\bBUS_ID\b|<bdf>",
    "GPU": r"<gpu>",
    "BINARY": r"\bBINARY\b",
    "PID": r"(?<!\$)\bPID\b",
    "CONTRACT": r"(?<=--contract )CONTRACT\b",
    "HOLDER": r"(?<=busbw cleanup runs/)ID\b",
    "RUN": (
        r"(?<=--resume )RUN\b|\bRUN(?=/)"
        r"|(?<=busbw diff )RUN\b|(?<=busbw why )RUN\b|(?<=busbw expect )RUN\b|(?<=busbw report )RUN\b"
    ),
}
"""What is known → how the catalogue writes it. RUN elsewhere is a run that the reader chooses."""
_COMPILED = {name: re.compile(word) for name, word in WORDS.items()}

_DEVICES = re.compile(r"\b(?:mlx\d|bnxt_re|ionic|efa|rdmap\w*s|irdma)_?\w+")
_INTERFACES = re.compile(r"\b(?:en[opsx]\w+|eth\d+|bond\d+|ib\d+)\b")
_BUSES = re.compile(
    r"(?<![\w:])(?:PCI:)?(?:0000)?((?:[0-9a-f]{4}:)[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
    r"|[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?!\w|:[0-9a-f])",
    re.I,
)
"""With the domain, or with the function: 03:12 alone is a time of day. nvidia-smi writes the domain
with eight digits, the driver `PCI:` before it."""
_GPUS = re.compile(r"\bGPU (\d+)\b")
_BINARIES = re.compile(r"(?<!\S)/\S+_perf\b")
_HOLDERS = re.compile(r"\brun ([\w-]+) of ")
"""The run that a lease names."""
_PIDS = re.compile(r"\bpid[ =](\d+)", re.I)
_RAIL = re.compile(r"(?P<node>\S+) rail (?P<rail>\d+)")
_LOOKS = re.compile(r"(?:ssh \S+ )?(?:mlxlink|ibstat|perfquery|cat|ethtool -S|ethtool) ")
"""Commands that change nothing: with a device that is not known, all are asked."""
_ALL_DEVICES = "for d in /sys/class/infiniband/*; do {}; done"


@dataclass(frozen=True, slots=True)
class Known:
    """The values for one finding; a word that is missing has none."""

    values: Mapping[str, str]
    interfaces: tuple[str, ...] = ()
    """Several, where the finding is about all of them."""

    def fill(self, text: str) -> str:
        """A command with every word that is known.

        >>> Known({"NODE": "n3", "BUS_ID": "9d:00.0"}).fill("ssh NODE lspci -s <bdf> -k")
        'ssh n3 lspci -s 9d:00.0 -k'
        """
        for name, value in self.values.items():
            text = _COMPILED[name].sub(value.replace("\\", r"\\"), text)
        return _each_device(_each_interface(text, self.interfaces))


def left_in(text: str) -> frozenset[str]:
    """Names of `WORDS` that stand in a command."""
    return frozenset(name for name, word in _COMPILED.items() if word.search(text))


def directory(plan: RunPlan) -> str:
    """The run's directory, in the folder that was given to the run, from where it was started: `raw/`
    does not know its place.

    >>> from types import SimpleNamespace as of
    >>> directory(of(run_id="r", run_words=("quick", "-o", "my runs")))
    "'my runs/r'"
    """
    return shlex.quote(f"{_given(plan, '-o') or 'runs'}/{plan.run_id}")


def _given(plan: RunPlan, option: str) -> str:
    """What an option of the run was given; empty = nothing."""
    words = plan.run_words[1:]
    return dict(zip(words[::2], words[1::2], strict=False)).get(option, "")


def known(finding: Finding, plan: RunPlan, node: Node | None) -> Known:
    """What the run knows for the commands of one finding. `node`: the one that they ask; None =
    several, or none."""
    names = tuple(each.name for each in plan.cluster.nodes)
    contract = _given(plan, "--contract")
    values = {
        "RUN": directory(plan),
        "CONTRACT": shlex.quote(contract) if contract else "",
        "NODES": ",".join(name for name in names if name in _nodes_of(finding)),
        "DEVICE": _named(finding, _DEVICES),
        "BUS_ID": _named(finding, _BUSES).lower(),
        "GPU": _named(finding, _GPUS),
        "BINARY": _named(finding, _BINARIES),
        "PID": _named(finding, _PIDS),
        "HOLDER": _named(finding, _HOLDERS),
        "INTERFACE": _seen_interface(finding),
    }
    interfaces: tuple[str, ...] = ()
    if node is not None:
        values["NODE"] = node.name
        values["PEER"] = next((name for name in names if name != node.name), "")
        interfaces = _interfaces(finding, node)
        if len(interfaces) == 1:
            values["INTERFACE"], interfaces = interfaces[0], ()
    return Known({name: value for name, value in values.items() if value}, interfaces)


def _nodes_of(finding: Finding) -> frozenset[str]:
    return frozenset(place.split()[0] for place in finding.where if place)


def _named(finding: Finding, pattern: re.Pattern[str]) -> str:
    """What the finding names: the first of its title, which begins with the worst; else the only one
    of its evidence."""
    in_title = pattern.search(finding.title)
    if in_title is not None:
        return in_title[pattern.groups]
    text = "\n".join((*finding.where, *(evidence.text for evidence in finding.evidence)))
    named = {match[pattern.groups] for match in pattern.finditer(text)}
    return named.pop() if len(named) == 1 else ""


def _seen_interface(finding: Finding) -> str:
    """The first interface that a check names as not well; empty = it names none."""
    named = _INTERFACES.search(finding.title) if is_of_check(finding) else None
    return named[0] if named else ""


def is_of_check(finding: Finding) -> bool:
    """Whether a check reports it: their ids are dotted."""
    return "." in finding.id


def _interfaces(finding: Finding, node: Node) -> tuple[str, ...]:
    """Of the node: those that the finding is about; all, where it names none."""
    every = node.data_interfaces
    own = {
        part
        for place in finding.where
        for part in place.split()[1:2]
        if place.split()[0] == node.name
    }
    named = [name for name in every if name in own]
    for place in finding.where:
        rail = _RAIL.fullmatch(place)
        if rail is not None and rail["node"] == node.name and int(rail["rail"]) < len(every):
            named.append(every[int(rail["rail"])])
    return tuple(dict.fromkeys(named)) or every


def _each_interface(text: str, interfaces: tuple[str, ...]) -> str:
    """One after the other on the node; what reads it all stays here."""
    remote = re.fullmatch(r"ssh (?P<node>\S+) (?P<rest>.+)", text)
    word = _COMPILED["INTERFACE"]
    if not interfaces or remote is None or not word.search(text) or "'" in text.partition("|")[0]:
        return text
    command, pipe, reader = remote["rest"].partition(" | ")
    loop = f"for i in {' '.join(interfaces)}; do {word.sub('$i', command)}; done"
    return f"ssh {remote['node']} {shlex.quote(loop)}{pipe}{reader}"


def _each_device(text: str) -> str:
    """Where the device is not known, a command that only looks asks all of the node.

    >>> _each_device("mlxlink -d <mst dev> -m")
    'for d in /sys/class/infiniband/*; do mlxlink -d ${d##*/} -m; done'
    >>> _each_device("mlxconfig -d <mst dev> set LINK_TYPE_P1=1")
    'mlxconfig -d <mst dev> set LINK_TYPE_P1=1'
    """
    if not _COMPILED["DEVICE"].search(text) or not _LOOKS.match(text):
        return text
    command, pipe, reader = text.partition(" | ")
    return _ALL_DEVICES.format(_COMPILED["DEVICE"].sub("${d##*/}", command)) + pipe + reader
