"""From the framed answer of a node to its evidence: every section by its parser. A section that is
not there leaves its fields empty."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping

from busbw.errors import ReadError
from busbw.model import FlightDump, RasReport
from busbw.parsers.logs import flight_recorder, nccl_ras
from busbw.parsers.stall.evidence import (
    DumpFile,
    LogFile,
    NodeEvidence,
    RasAnswer,
    Sample,
    SectionText,
)
from busbw.parsers.tools import (
    kernel_log,
    nvidia_smi_query,
    proc_host,
    proc_ports,
    proc_ranks,
    queue_pairs,
    sockets,
    stacks,
)

_SELF = re.compile(
    r"^host (\S+) now (\d+(?:\.\d+)?) up (\d+(?:\.\d+)?) boot (\S+) tick (\d+)", re.M
)
_NONE = SectionText("", "", None, 0)
_RAS_TALK = re.compile(
    r"^(?:OK|SERVER PROTOCOL \d+|ERROR: Unknown command.*|listens|asked .*)\r?\n", re.M
)
_SILENT = re.compile(r"^silent for \d+ s\n?", re.M)
"""The script's own word for a server that took the question and acknowledged nothing."""
_DUMP = re.compile(r"^file (\d+) (\d+) (.+)\n([A-Za-z0-9+/=]*)$", re.M)
_LOG = re.compile(r"^log (\d+) (\d+) (\d+) (.+)$")


def read(
    node: str,
    given: Iterable[SectionText],
    artefact: str,
    problem: str | None,
    clock_offset_s: float | None,
) -> NodeEvidence:
    """One node's evidence. `artefact` = where its answer is kept; `problem` = why it is not
    whole."""
    sections = {section.name: section for section in given}

    def section(name: str) -> SectionText:
        return sections.get(name, _NONE)

    own = _SELF.search(section("self").text)
    login = re.search(r"^login \S+ \d+ (\S+) \d+", section("self").text, re.M)
    gpu = section("gpu-1")
    gpus = nvidia_smi_query.parse(gpu.text)
    return NodeEvidence(
        node=node,
        artefact=artefact,
        problem=problem,
        host=own[1] if own else node,
        boot_id=own[4] if own else "",
        now_s=float(own[2]) if own else None,
        up_s=float(own[3]) if own else None,
        tick_hz=int(own[5]) if own else 100,
        clock_offset_s=clock_offset_s,
        addresses=tuple(
            (m[1], m[2]) for m in re.finditer(r"^address (\S+) (\S+)$", section("self").text, re.M)
        ),
        login_address=login[1] if login else None,
        processes=proc_ranks.parse(section("ranks").text),
        ranks_line_no=section("ranks").line_no,
        samples=(_look(section("look-1")), _look(section("look-2"))),
        ras=(_ras(section("ras-1")), _ras(section("ras-2"))),
        gpus=gpus,
        gpus_after=nvidia_smi_query.parse(section("gpu-2").text),
        gpu_users=nvidia_smi_query.parse(section("gpu-apps").text) or (),
        gpu_problem="" if gpus is not None else gpu.text.strip()[:400],
        gpu_line_no=gpu.line_no,
        kernel=kernel_log.parse(section("kernel").text),
        oom=proc_host.oom_kills(section("kernel").text),
        kernel_line_no=section("kernel").line_no,
        host_state=proc_host.parse(section("host").text) if "host" in sections else None,
        host_line_no=section("host").line_no,
        places=proc_host.places(section("disks").text),
        file_systems=proc_host.file_systems(section("disks").text),
        disks_line_no=section("disks").line_no,
        dumps=_dumps(section("dumps")),
        logs=_logs(section("logs")),
        queue_pairs=queue_pairs.parse(section("qps").text),
        queue_pairs_line_no=section("qps").line_no,
        stacks=stacks.parse(section("stacks").text),
        stacks_line_no=section("stacks").line_no,
        hung_sections=_hung(sections),
    )


def _hung(sections: Mapping[str, SectionText]) -> tuple[str, ...]:
    """Names of the sections that gave no answer in time, sorted."""
    return tuple(
        name
        for name, each in sorted(sections.items())
        if each.timed_out or (name.startswith("ras") and _SILENT.search(each.text))
    )


def _look(section: SectionText) -> Sample | None:
    at = re.search(r"^look (\d+(?:\.\d+)?)$", section.text, re.M)
    if at is None:
        return None
    text = section.text
    owned = tuple(sorted(sockets.owners(text).items()))
    return Sample(
        float(at[1]),
        proc_ranks.parse_states(text),
        sockets.parse(text),
        owned,
        proc_ports.parse(text),
        section.line_no,
    )


def _ras(section: SectionText) -> RasAnswer | None:
    """The report without what was said around it; older servers answer `ERROR: Unknown command` to
    SET FORMAT and then print text."""
    if section is _NONE:
        return None
    listens = section.text.startswith("listens")
    if "not asked" in section.text[:40]:
        return RasAnswer(None, listens, "not asked here", section.line_no, probed=False)
    silent = _SILENT.search(section.text)
    text = _SILENT.sub("", _RAS_TALK.sub("", section.text)).strip()
    if not text:
        why = (
            "asked, and did not answer within the limit"
            if section.timed_out or silent
            else "nobody answers at its port"
        )
        return RasAnswer(None, listens, why, section.line_no)
    try:
        records = nccl_ras.read([text.encode()]).records
    except ReadError as error:
        return RasAnswer(
            None,
            listens,
            f"the answer is not readable: {error.seen or error.what}"[:200],
            section.line_no,
        )
    report = next((each for each in records if isinstance(each, RasReport)), None)
    return RasAnswer(report, True, "" if report else "the answer holds no report", section.line_no)


def _dumps(section: SectionText) -> tuple[DumpFile, ...]:
    found = []
    for m in _DUMP.finditer(section.text):
        line_no = section.line_no + section.text.count("\n", 0, m.start())
        dump, problem = _dump(m[3], m[4], int(m[1]))
        found.append(DumpFile(m[3], float(m[2]), dump, problem, line_no))
    return tuple(found)


def _dump(path: str, encoded: str, size: int) -> tuple[FlightDump | None, str]:
    if not encoded:
        return None, (
            "empty" if size == 0 else f"{size} bytes: too large to bring along, fetch it by hand"
        )
    try:
        document = flight_recorder.read([base64.b64decode(encoded, validate=True)])
    except (binascii.Error, ReadError) as error:
        return None, f"not readable: {error}"
    dump = next((each for each in document.records if isinstance(each, FlightDump)), None)
    if dump is None:
        return None, "holds no dump"
    return flight_recorder.of_rank(dump, flight_recorder.rank_of(path)), "; ".join(
        document.problems
    )


def _logs(section: SectionText) -> tuple[LogFile, ...]:
    files: list[LogFile] = []
    head: re.Match[str] | None = None
    lines: list[tuple[int, str, int]] = []
    tail: list[str] | None = None
    for number, line in enumerate(section.text.splitlines(), section.line_no):
        if head is None:
            head = _LOG.match(line)
            lines, tail = [], None
        elif tail is None and line == "end of log":
            tail = []
        elif tail is not None and line == "end of tail":
            files.append(LogFile(head[4], int(head[3]), float(head[2]), tuple(lines), tuple(tail)))
            head = None
        elif tail is not None:
            tail += [line] if line.strip() else []
        elif (m := re.match(r"(\d+):(.*)", line)) is not None:
            lines.append((int(m[1]), m[2], number))
    return tuple(files)
