"""Bad states that the outputs of tools show: a thing (a port, a GPU, a node, a service) and the word
for its state, in any form: `State: Down`, a cell of a table, `"status": "unhealthy"`, a service's
`Active: failed`, a condition that is true or false.

What a pair usually amounts to is a guess: a port may be down by design beside the ones in use. The
cells of a row are padded, so that distances say nothing there: the most telling thing of the row
counts, else that of the heading above.

>>> read("gpu-022,ib_ports,FAIL").entries
('ib-port-down',)
>>> read("State: Down", "CA 'mlx5_2'").entries
('ib-port-down',)
>>> read("State: Active", "CA 'mlx5_2'"), read("gpu-022,ib_ports,PASS")
(None, None)
>>> read("gpu*      up   infinite      2  down n[3,7]").entries
('node-unreachable',)
"""

from __future__ import annotations

import re

from busbw.parsers.findings import catalogue
from busbw.parsers.findings.things import wrongs
from busbw.parsers.findings.things.table import Reading, first, without_hosts

_END = r"""["')\]]*\s*(?:$|[,;|}\t]|\s{2}|\s*\(|\s+-|\s+since\b|\s+mode\b|\s\S+\[\d)"""
CELL = (
    r"(?:^|[:=|,\t(\[]|\s{2}|->|==>|\bstate|\bis|\bstatus)\s*[\"'(\[<]*"
    rf"(?P<state>{wrongs.VALUES})>?{_END}"
)
"""A state as a value: behind a key, in a cell, or behind «is» and «state». What ends it is no look-ahead,
which hyperscan leaves out: Python takes 0.2 ms for each line that it finds in vain."""
CONDITION = (
    r"\b(?P<good>Ready|Healthy|Available|Active|Online|LinkUp)\W{1,4}False\b"
    r"|\b(?P<bad>\w*(?:Pressure|Unavailable|Deadlock|Corrupt\w*|ReadonlyFilesystem|Problem"
    r"|Unhealthy|Down|Failure|Hang|Error))\W{1,4}True\b"
    r"|^\W*(?P<problem>[A-Z]\w+)\s+True\s(?=.*\b\w+Has(?:Issues?|Problems?|Errors?|Failed)\b)"
)
"""A condition whose name, or whose reason, says whether true or false is bad."""
_NO_VALUES = r"\bN/A(?:[\s,|0]+N/A){4}\b"
"""A row without values, where the rows beside it have some."""
SUBJECT = (
    r"^\s*(?:[●○×*] )\S+\.service\b|^CA '|^hca_id:|^Infiniband device '|^(?:Settings|Features) for "
    r"|^Slave Interface|^\s*Device:\s|^GPU [\dA-Fa-f]|^\s*GPU\d|^\s*Fabric\s*$|^Operational Info"
    r"|GPFS state|^\s*NAME\s+(?:STATUS|READY)|^PARTITION\s|System Management Interface|^NodeName="
    r"|^\s*(?:Physical )?(?:[Pp]ort|Slot|Link|Bridge|Switch) [\w/.-]+:?\s*$|^Nodes:|^CA: "
)
"""The heading of what stands in the lines below it."""
_NO_STATE = (
    r"\b(?:docker0|virbr\d|veth\w*|cni\d|flannel\S*|cali\w*|br-\w+|usb\w*|idrac|ilo|lo):? "
    r"|^\[ *\d+\.\d+\]|\bNCCL \w|\bUCX +[A-Z]|libfabric:|\bkernel: |available: False, us(?:ed|ing)"
)
"""Interfaces that carry nothing of a job, lines of a log: what they tell may be over, and Lightning's
list of the accelerators that it does not need."""
_REASON = r"(?-i:\bReason)[=:]\s*(?P<text>\S.*)"
LINES = (
    rf"{CELL}",
    CONDITION,
    _NO_VALUES,
    r"(?-i:\bReason)[=:]\s*\S+ \S",
)
"""What to search texts for."""


_PARTITION = re.compile(
    r"^\S+\*?\s+(?:up|down|drain|inact)\s+\S+\s+\d+\s+(?=[a-z]+\S?\s)|^\S+\s+\d+\s+\S+\s+(?=[a-z]+\S?\s*$)"
)
"""What stands before the state of nodes in a row of sinfo: a partition's name says nothing of its parts."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def read(line: str, heading: str = "") -> Reading | None:
    """The thing in a bad state that a line shows, and the state; None = it shows none.

    heading: the line above that says what the lines below it are about.
    """
    if _match_of(_NO_STATE, line):
        return None
    line = without_hosts(_PARTITION.sub("Node  ", line))
    condition = _match_of(CONDITION, line)
    if condition is not None:
        return _of_condition(condition, line)
    reason = _match_of(_REASON, line)
    if reason is not None:
        from busbw.parsers.findings.things import sentences

        return sentences.guess(reason["text"])
    cell = _match_of(CELL, line)
    if cell is not None:
        wrong = wrongs.state_of(cell["state"])
        if "GPFS state" in heading:
            return _named(wrong, "GPFS mount")
        return _named(wrong, line) or _named(wrong, heading)
    return _named("away", heading) if _match_of(_NO_VALUES, line) else None


def _of_condition(condition: re.Match[str], line: str) -> Reading | None:
    if condition["good"]:
        rest = line[: condition.start()] + line[condition.end() :]
        return _named("away", rest) or _named("away", "node")
    return _named("unhealthy", _HUMP.sub(" ", condition["problem"] or condition["bad"]))


def _named(wrong: str, text: str) -> Reading | None:
    return first(text, (wrong, "state"))


def _match_of(regex: str, text: str) -> re.Match[str] | None:
    return catalogue.compiled(regex).search(text)
