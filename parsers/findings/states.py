"""Bad states that the outputs of tools show: a part (a port, a GPU, a node, a service) and the word
for its state, in any form: `State: Down`, a cell of a table, `"status": "unhealthy"`, a service's
`Active: failed`, a condition that is true or false.

Every tool has forms of its own, but the words for a bad state are few, and so are the parts. What
a pair usually amounts to is a guess: a port may be down by design beside the ones in use.

>>> guesses("gpu-022,ib_ports,FAIL")
('ib-port-down',)
>>> guesses("State: Down", "CA 'mlx5_2'")
('ib-port-down',)
>>> guesses("State: Active", "CA 'mlx5_2'"), guesses("gpu-022,ib_ports,PASS")
((), ())
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.parsers.findings import catalogue

_WORDS: Mapping[str, str] = {
    "down": r"down\*?|linkdown|no[ -]carrier|polling|link down|no link|port_?down|unplugged"
    r"|not connected|disconnected",
    "failed": r"fail(?:ed|ure|ing|s)?|err!|faulty|faulted|unhealthy|broken"
    r"|not ok|nok|crashloopbackoff|crashed",
    "gone": r"inactive(?: \(dead\))?|<inactive>|dead|not ?ready|offline|missing|absent|not present"
    r"|not found|unavailable|unreachable|lost|\w+ is lost|not responding|no response|drain(?:ed|ing)?"
    r"\*?|not running|stopped|not loaded|not installed|not detected|never connected",
    "degraded": r"degraded|impaired|suspect|downgraded|throttled|flapping|unstable",
    "unsupported": r"not supported|unsupported|skipping|skipped \(unsupported\)",
}
"""Kind of state → the words of tools for it."""
_ANY = "|".join(_WORDS.values())
_END = r"""["')\]]*\s*(?:$|[,;|}\t]|\s{2}|\s*\(|\s+-|\s+since\b|\s+mode\b|\s\S+\[\d)"""
CELL = (
    r"(?:^|[:=|,\t(\[]|\s{2}|->|==>|\bstate|\bis|\bstatus)\s*[\"'(\[<]*"
    rf"(?P<state>{_ANY})(?=[>]?{_END})"
)
"""A state as a value: behind a key, in a cell, or behind «is» and «state»."""
CONDITION = (
    r"\b(?P<good>Ready|Healthy|Available|Active|Online|LinkUp)\W{1,4}False\b"
    r"|\b(?P<bad>\w*(?:Pressure|Unavailable|Deadlock|Corrupt\w*|ReadonlyFilesystem|Problem"
    r"|Unhealthy|Down|Failure|Hang|Error))\W{1,4}True\b"
    r"|^\W*(?P<problem>[A-Z]\w+)\s+True\s(?=.*\b\w+Has(?:Issues?|Problems?|Errors?|Failed)\b)"
)
"""A condition whose name, or whose reason, says whether true or false is bad."""
_NO_VALUES = r"\bN/A(?:\W+N/A){4}\b"
"""A row without values, where the rows beside it have some."""
SUBJECT = (
    r"^\s*(?:[●○×*] )\S+\.service\b|^CA '|^hca_id:|^Infiniband device '|^(?:Settings|Features) for "
    r"|^Slave Interface|^\s*Device:\s|^GPU [\dA-Fa-f]|^\s*GPU\d|^\s*Fabric\s*$|^Operational Info"
    r"|^\s*NAME\s+(?:STATUS|READY)|^PARTITION\s|System Management Interface|^NodeName="
    r"|^\s*(?:Physical )?(?:[Pp]ort|Slot|Link|Bridge|Switch) [\w/.-]+:?\s*$|^Nodes:|^CA: "
)
"""The heading of what stands in the lines below it."""
_CONDITIONS: Mapping[str, tuple[str, ...]] = {
    "disk": ("disk-full",),
    "memory": ("host-memory-exhausted",),
    "pid": ("thread-limit",),
    "network": ("node-unreachable",),
    "kernel": ("kernel-hung-task",),
    "readonly": ("io-straggler",),
    "gpu": ("dcgm-health-failure",),
    "xid": ("gpu-xid-reset-required",),
    "nvlink": ("nvlink-link-inactive",),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a node or a cluster, and what its bad states usually come from."""

    words: str
    causes: Mapping[str, tuple[str, ...]]
    """Kind of state → entries; `any` stands for each kind not named."""


def _part(words: str, **causes: str) -> _Part:
    by_kind = {kind: tuple(entries.split()) for kind, entries in causes.items()}
    return _Part(words, by_kind)


_PARTS = (
    _part(r"\bimex|\bNode #\d|Domain State", any="imex-mnnvl-failure"),
    _part(
        r"fabric.?manager|^\s*Fabric\s*$|nvswitch|\bnvlsm\b",
        degraded="nvlink-domain-odd",
        any="fabricmanager-not-running",
    ),
    _part(r"\bxgmi", any="xgmi-link-down"),
    _part(r"nvlink|^\s*Link \d+:", any="nvlink-link-inactive"),
    _part(r"\bmunge", any="scheduler-auth-failed"),
    _part(r"\bopensm|subnet manager|\bSM lid", any="ib-port-initializing"),
    _part(r"persistenced", any="gpu-persistence-off"),
    _part(r"peer_?mem|nv_peer", any="peermem-missing"),
    _part(r"gdrdrv|gdrcopy", any="gdrcopy-unavailable"),
    _part(
        r"(?:rdma|sriov|ib)\S*(?:device.?plugin|cni)|network-operator",
        any="container-no-ib-devices",
    ),
    _part(
        r"device.?plugin|gpu-operator|nvidia-(?:driver|container)|dcgm-exporter|gpu-feature",
        any="gpu-driver-not-visible container-start-failed",
    ),
    _part(r"\bslurm(?:d|ctld|dbd)\b", any="scheduler-unreachable scheduler-node-configuration"),
    _part(r"\b(?:chrony|ntp|timesync)\w*", any="clock-skew"),
    _part(
        r"\b(?:nvme\w*|lustre|ost\w*|mdt\w*|nfs\w*|gpfs|beegfs|ceph\w*|weka\w*|mount\w*|disk\w*"
        r"|scratch\w*|filesystem)\b|-OST[\da-f]{4}|-MDT[\da-f]{4}",
        any="io-straggler",
    ),
    _part(
        r"\b(?:mlx\d?\w*|ib\d\w*|ib_\w+|ibp?\w*\d|infiniband|hca\w*|rdma\w*|roce\w*|ports?|bnxt_re\w*"
        r"|irdma\w*|physical state|phys state|hsn\d|cxi\d|CA|link_?layer)\b",
        degraded="ib-rate-degraded",
        unsupported="ib-not-detected",
        any="ib-port-down",
    ),
    _part(r"\bpcie?\b|\bLnkSta\b|pci.?link", any="gpu-pcie-degraded"),
    _part(
        r"\b(?:en[psoP]\w*\d\w*|eth\d\w*|bond\d|MII|nic\w*|carrier|slave interface|link detected)\b",
        degraded="link-flaps",
        any="ethernet-link-down",
    ),
    _part(
        r"\bSystem Management Interface|\b(?:gpus?[ _:-]?\d*|nvidia|amd|tesla|h[12]00|a100|b[23]00|mi\d{3}\w*|cuda\w*)\b",
        gone="gpu-missing gpu-fell-off-bus",
        unsupported="gpu-driver-not-visible",
        any="dcgm-health-failure",
    ),
    _part(r"\b(?:pods?|containers?|ready|restarts)\b", any="container-start-failed"),
    _part(
        r"\b(?:nodes?|hosts?|server|status\s+roles|partition|idle|alloc\w*)\b|^\S*\d\S*\s",
        down="node-unreachable",
        gone="node-unreachable",
    ),
)
"""In order: the first part that is named counts."""
_NO_STATE = (
    r"\b(?:docker0|virbr\d|veth\w*|cni\d|flannel\S*|cali\w*|br-\w+|usb\w*|idrac|ilo|lo):? "
    r"|^\[ *\d+\.\d+\]|\bNCCL \w|\bUCX +[A-Z]|libfabric:|\bkernel: |available: False, us(?:ed|ing)"
)
"""Interfaces that carry nothing of a job, lines of a log: what they tell may be over, and Lightning's
list of the accelerators that it does not need."""
_OWN: Mapping[str, tuple[str, ...]] = {
    r"not ?ready|down\*": ("node-unreachable",),
    r"crashloopbackoff": ("container-start-failed",),
    r"no[ -]carrier": ("ethernet-link-down",),
    r"polling|unplugged": ("ib-port-down",),
    r"drain\w*\*?": ("scheduler-node-configuration",),
}
"""States that only one kind of part has."""
_REASON = r"(?-i:\bReason)[=:]\s*(?P<text>\S.*)"
LINES = (
    rf"{CELL}",
    CONDITION,
    _NO_VALUES,
    r"(?-i:\bReason)[=:]\s*\S+ \S",
)
"""What to search texts for."""


def guesses(line: str, heading: str = "") -> tuple[str, ...]:
    """Entries that a bad state in a line points at, the likeliest first; () = it shows none.

    heading: the line above that says what the lines below it are about.
    """
    if _match_of(_NO_STATE, line):
        return ()
    condition = _match_of(CONDITION, line)
    if condition is not None:
        return _of_condition(condition, line)
    reason = _match_of(_REASON, line)
    if reason is not None:
        from busbw.parsers.findings import parts  # 15 ms that most texts do not need

        return parts.guesses(reason["text"])
    match = _match_of(CELL, line)
    if match is None:
        return _causes("gone", heading) if _match_of(_NO_VALUES, line) else ()
    kind = next(kind for kind, words in _WORDS.items() if _is(words, match["state"]))
    rest = line[: match.start("state")] + " " + line[match.end("state") :]
    own = _of_word(match["state"])
    if own == ("node-unreachable",):  # nodes are often called after what they hold
        return own
    return _causes(kind, rest) or _causes(kind, heading) or own


def _match_of(regex: str, text: str) -> re.Match[str] | None:
    return catalogue.compiled(regex).search(text)


def _is(regex: str, text: str) -> bool:
    return catalogue.compiled(rf"(?:{regex})\Z").match(text) is not None


def _of_word(state: str) -> tuple[str, ...]:
    for words, entries in _OWN.items():
        if _is(words, state):
            return entries
    return ()


def entries() -> frozenset[str]:
    """All entries that a state can point at."""
    groups = [*_CONDITIONS.values(), *_OWN.values()]
    for part in _PARTS:
        groups += part.causes.values()
    return frozenset(entry for group in groups for entry in group)


def _causes(kind: str, subject: str) -> tuple[str, ...]:
    for part in _PARTS:
        if _match_of(part.words, subject):
            return part.causes.get(kind, part.causes.get("any", ()))
    return ()


def _of_condition(condition: re.Match[str], line: str) -> tuple[str, ...]:
    if condition["good"]:
        rest = line[: condition.start()] + line[condition.end() :]
        return _causes("gone", rest) or ("node-unreachable",)
    if condition["problem"]:
        return _causes("failed", condition["problem"])
    name = condition["bad"].lower()
    return next((entries for word, entries in _CONDITIONS.items() if word in name), ())
