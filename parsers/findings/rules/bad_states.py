"""A bad state in the output of a tool: which part it is of says what it usually comes from
(`things`)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from busbw.parsers.findings import signs
from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.things import states
from busbw.parsers.logs import failure_lines

_KEEP = 64
_NEAR = 24
"""Lines below a heading that are still about it."""
_STATES = tuple(
    Watch(f"state {number}", regex, keep=_KEEP) for number, regex in enumerate(states.LINES)
)
_SUBJECT = Watch("subject", states.SUBJECT, keep=_KEEP)


def _judge(view: View) -> Iterator[Clue]:
    headings = view.sightings(_SUBJECT.name)
    seen = set()
    for watch in _STATES:
        for line in view.sightings(watch.name):
            if " INFO " in line.text or line.place in seen or signs.is_typed(line.text):
                continue
            if failure_lines.is_harmless(line.text):
                continue
            seen.add(line.place)
            reading = states.read(line.text, _heading(headings, line))
            if reading is not None:
                where = places(line.text)
                yield line.clue(reading.entries[0], Weight.WEAK, "nccl-log", where)


def _heading(headings: tuple[Sighting, ...], line: Sighting) -> str:
    """The nearest heading above; empty = there is none."""
    number = bisect(headings, line.place, key=lambda heading: heading.place)
    if not number:
        return ""
    above = headings[number - 1]
    is_near = above.place.text == line.place.text
    return above.text if is_near and line.place.line_no - above.place.line_no <= _NEAR else ""


RULE = Rule(
    name="bad-states",
    conclusion=(
        "A part whose state a tool calls bad (down, failed, not ready, degraded) is the first guess."
    ),
    watches=(*_STATES, _SUBJECT),
    judge=_judge,
    fires=(
        Fires("CA 'mlx5_2'\n        State: Down\n", (("ib-port-down", "weak"),)),
        Fires("gpu-022,ib_ports,FAIL\n", (("ib-port-down", "weak"),)),
        Fires(
            "NAME     STATUS     ROLES   AGE\ngpu-02   NotReady   <none>  61d\n",
            (("node-unreachable", "weak"),),
        ),
        Fires("  DiskPressure   True   KubeletHasDiskPressure\n", (("disk-full", "weak"),)),
        Fires(
            " Node number  Node name   GPFS state\n---\n       7  gpu-007     down\n",
            (("io-straggler", "weak"),),
        ),
        Fires(
            '{"unit": "munge.service", "active": "failed"}\n', (("scheduler-auth-failed", "weak"),)
        ),
    ),
    silent=(
        "CA 'mlx5_2'\n        State: Active\n",
        "  DiskPressure   False   KubeletHasNoDiskPressure\n",
        "3: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 state DOWN mode DEFAULT\n",
        "hw-tc-offload: off\n",
        "    MST PCI module is not loaded\n",
        "u@leaf-02:mgmt:~$ ip link show swp3 down\n",
    ),
)
