"""Which node a kernel's line is of, where no other reader names one: the host that syslog writes
before the name of the program, or pdsh before the kernel's line, else the name of the file or of its folder (`node07.dmesg`, `node07/dmesg.txt`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from busbw.model import Evidence, Finding
from busbw.parsers.findings.evidence import Diagnosis
from busbw.parsers.findings.named_places import NO_HOST

_SYSLOG = re.compile(
    r"(?:^|\s)([A-Za-z][\w.-]*) kernel: "
    r"|^(?:<\d+>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\S+"
    r"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d [\d:.]+ \S+) ([A-Za-z][\w.-]*) [\w./@-]+\[\d+\]: "
    r"|^(?=[\w.-]*\d)([A-Za-z][\w.-]*): (?:\[ *\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} |NVRM: )"
)
_OF_THE_KERNEL = re.compile(
    r"(?i)dmesg|kern(?:el)?|journal(?:ctl)?|messages|syslog|xids?|nvrm|log|txt|out|gz|zst"
)
"""Words of a file's name that say what it is."""
_KERNEL_FILE = re.compile(r"(?i)dmesg|kern|journal|messages|syslog|xid|nvrm")
_HOST = re.compile(
    r"(?i)(?!(?:run|job|case|test|inc|incident|ticket|rma|rank|day|week|dump|bundle|batch|attempt|trial|backup|copy)s?[-_\d])"
    r"(?!.*20\d\d-?_?\d\d-?_?\d\d)[a-z][\w-]*\d[\w-]*"
)
"""What people call other folders by, and dates, is no host."""
_NODE_FOLDER = re.compile(
    r"(?i)(?:[a-z0-9]+[-_])*(?:node|host|dgx|hgx|compute|nid|gpu|[cg]?n|srv|server|worker|blade|sled|tray)[-_]?\d+"
    r"|r(?:ack)?\d+[-_]?[a-z]+[-_]?\d+"
)
"""A folder may be a user's or an incident's: only what is plainly a node's counts."""
_SYSTEM_FOLDERS = ("var", "log", "logs", "system", "crash")
_PLAINLY_A_NODE = re.compile(r"(?i)(?:node|host|dgx|hgx|compute|nid|gpu(?=-|\d\d))[-_]?\d+")
"""`gpu0.log` may be a rank's."""
_GPU = re.compile(r"GPU (\S+)")
_DEVICE = re.compile(r"(mlx\d+_\d+)")
_ADDRESS = re.compile(r"NIC (\S+)")


def with_nodes(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis, with the node among the places of each finding that names none, and with the
    node, the GPU and the RDMA device in its commands where it is one."""
    return replace(diagnosis, findings=tuple(map(_with_node, diagnosis.findings)))


def _with_node(finding: Finding) -> Finding:
    known: dict[str, str] = {}
    if all(map(NO_HOST.match, finding.where)):
        nodes = sorted({node for each in finding.evidence if (node := node_of(each))})
        if nodes:
            from busbw.inventory.hostlist import fold

            finding = replace(finding, where=(fold(nodes), *finding.where))
        if len(nodes) == 1:
            known["NODE"] = nodes[0]
    for word, pattern in (("GPU", _GPU), ("DEVICE", _DEVICE), ("ADDRESS", _ADDRESS)):
        named = [match[1] for place in finding.where if (match := pattern.fullmatch(place))]
        if len(named) == 1:
            known[word] = named[0]
    return _with_commands(finding, known) if known else finding


def _with_commands(finding: Finding, values: dict[str, str]) -> Finding:
    from busbw.assess.placeholders import Known

    address = values.pop("ADDRESS", "")
    if address:
        # The vendor's tools take the address as they take a name; paths below /sys do not.
        finding = _with_texts(finding, lambda text: text.replace("<mst dev>", address))
    return _with_texts(finding, Known(values).fill)


def _with_texts(finding: Finding, fill: Callable[[str], str]) -> Finding:
    """The finding, with what `fill` makes of each of its commands."""
    return replace(
        finding,
        fixes=tuple(replace(fix, commands=tuple(map(fill, fix.commands))) for fix in finding.fixes),
        verify=tuple(map(fill, finding.verify)),
        would_settle=tuple(map(fill, finding.would_settle)),
    )


def node_of(evidence: Evidence) -> str:
    """The node that a line is of; "" = neither the line nor its file says it.

    >>> node_of(Evidence("/logs/node07.dmesg", 1, "NVRM: Xid 79")), node_of(Evidence("gpu-012/dmesg.txt", 1, "NVRM: Xid 79"))
    ('node07', 'gpu-012')
    >>> node_of(Evidence("all.log", 1, "Nov 26 03:11:02 r1n03 kernel: NVRM: Xid 79")), node_of(Evidence("job1234.txt", 1, "NVRM: Xid 79"))
    ('r1n03', '')
    >>> node_of(Evidence("all.log", 1, "gpu-03: [433512.530704] nvme nvme2: I/O tag 412 timeout"))
    'gpu-03'
    >>> node_of(Evidence("e15.journal", 4, "Nov 27 00:52:11 gpu-003 sshd[41201]: error: closed"))
    'gpu-003'
    """
    written = _SYSLOG.search(evidence.text)
    if written is not None:
        return written[1] or written[2] or written[3]
    path = PurePosixPath(evidence.artefact)
    words = [word for word in re.split(r"[.]|(?<!\d)_|_(?!\d)", path.name) if word]
    rest = [word for word in _parts(words) if not _OF_THE_KERNEL.fullmatch(word)]
    plain = [word for word in rest if _PLAINLY_A_NODE.fullmatch(word)]
    if len(plain) == 1:
        return plain[0]
    if not _KERNEL_FILE.search(path.name):
        return ""
    folders = (part for part in reversed(path.parts[:-1]) if part not in _SYSTEM_FOLDERS)
    folder = next(folders, "")
    if not rest and _NODE_FOLDER.fullmatch(folder) and _HOST.fullmatch(folder):
        return folder
    return rest[0] if len(rest) == 1 and _HOST.fullmatch(rest[0]) else ""


def _parts(words: list[str]) -> list[str]:
    """Without what a name says before or behind a hyphen of what the file is: `dmesg-node07`."""
    parts = []
    for word in words:
        first, _, rest = word.partition("-")
        if rest and _OF_THE_KERNEL.fullmatch(first):
            word = rest
        head, _, last = word.rpartition("-")
        if head and _OF_THE_KERNEL.fullmatch(last):
            word = head
        parts.append(word)
    return parts
