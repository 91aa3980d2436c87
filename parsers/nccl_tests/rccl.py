"""rccl-tests' own result files (`-Z json` and `-Z csv`): one record per size and placement.

Written against the records that the 2025 and 2026 releases write, as ROCm/cvs `cvs/schema/rccl.py`
reads them, and those of the releases before (ROCm/rccl-tests `src/common.cu`): an object a line,
without `numCycle`; CSV with names in small letters, which lack that of the nodes.

>>> (result,) = parse('[{"numCycle":0,"name":"AllReduce","nodes":1,"ranks":2,"ranksPerNode":2,"gpusPerRank":1,"size":1048576,"type":"float",'
...     '"redop":"sum","inPlace":0,"time":61.200000,"algBw":17.133595,"busBw":17.133595,"wrong":"0"}]')
>>> result.collective, result.nranks, result.rows[0].count, result.rows[0].in_place
('all_reduce', 2, 262144, None)
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Collective, Measurement
from busbw.parsers.logs import Document, Format
from busbw.parsers.nccl_tests.checks import result_of
from busbw.parsers.nccl_tests.identity import is_scaled
from busbw.parsers.nccl_tests.json_trees import (
    Tree,
    get,
    items,
    number,
    quoted,
    text_of,
    whole_number,
)
from busbw.parsers.nccl_tests.printed import PrintedRow, Slack, printed_row
from busbw.parsers.nccl_tests.results_json import join, load_all, outside
from busbw.parsers.nccl_tests.rows import ELEMENT_BYTES
from busbw.parsers.nccl_tests.run_facts import Quoted, RunFacts
from busbw.parsers.nccl_tests.table import document

_SLACK = Slack(5.1e-7, 5.1e-7, 5.1e-7)
_NAMES = {name.replace("_", ""): name for name in (str(one) for one in Collective)}
_MARKS = (b"inplace", b"algbw", b"busbw")
_CSV_NAMES = {
    name.lower(): name
    for name in ("numCycle", "inPlace", "algBw", "busBw", "ranksPerNode", "gpusPerRank")
} | {"collective": "name", "#wrong": "wrong"}
"""How older releases head the columns of their CSV, and what the records call it."""
_NO_END_MARK = "has no end mark: whether more sizes were to follow is not known"


class _Key(NamedTuple):
    """What one row of the table stands for."""

    cycle: int
    name: str
    kind: str
    redop: str
    size_bytes: int
    nth: int
    """Which of several equal rows: small sizes can be trimmed to the same one."""


def parse(text: str | bytes | Iterable[bytes]) -> tuple[BenchmarkResult, ...]:
    """One result per collective in the file.

    Raises:
        UnknownLayout: no such record is in the text.
    """
    content = text if isinstance(text, str) else join(text, "rccl-tests results")
    if content.lstrip()[:1] in ("[", "{"):
        lists = tuple(load_all(content))
        records = [record for each in lists for record in items(each.value) or [each.value]]
        is_list = all(isinstance(each.value, list) for each in lists)
        whole = bool(lists) and is_list and all(each.whole for each in lists)
        end_missing = "the list has no end: the run was killed, or the file is cut"
        if not is_list:
            end_missing = f"a file of one object a line {_NO_END_MARK}"
        strange = [quoted(record) for record in records if collective_of(record) is None]
        other_text = next(iter(strange), outside(content))
        if other_text:
            whole, end_missing = False, f"what is no record is not read: {other_text!r}"
    else:
        records, whole = _csv(content), False
        end_missing = f"a CSV file {_NO_END_MARK}"
    by_name: dict[str, list[Tree]] = {}
    for record in records:
        if (name := collective_of(record)) is not None:
            by_name.setdefault(name, []).append(record)
    if not by_name:
        raise UnknownLayout("no rccl-tests record in this text", seen=content.strip()[:200])
    return tuple(
        result_of(_facts(name, own_records, whole, end_missing))
        for name, own_records in by_name.items()
    )


def _csv(content: str) -> list[Tree]:
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines or "busbw" not in lines[0].lower():
        return []
    head, *rows = csv.reader(lines, skipinitialspace=True)
    names = [_CSV_NAMES.get(name.strip().lower(), name.strip()) for name in head]
    records: list[Tree] = []
    for row in rows:
        has_nodes = len(row) == len(names) + 1 and "nodes" not in names
        own = [names[0], "nodes", *names[1:]] if has_nodes else names
        records.append({name: cell.strip() for name, cell in zip(own, row, strict=False) if cell})
    return records


def collective_of(record: Tree) -> str | None:
    """Our name of the collective that a record names, however it writes it; None = it names none.

    >>> collective_of({"name": "AllReduce"}), collective_of({"name": "all_reduce"}), collective_of({})
    ('all_reduce', 'all_reduce', None)
    """
    return _NAMES.get((text_of(get(record, "name")) or "").lower().replace("_", ""))


def _facts(name: str, records: Sequence[Tree], whole: bool, end_missing: str) -> RunFacts:
    """The records of one collective as a run."""
    placements: dict[_Key, dict[bool, Measurement]] = {}
    torn: list[Quoted] = []
    for position, record in enumerate(records, 1):
        size = whole_number(get(record, "size"))
        kind = text_of(get(record, "type"))
        value = _measurement(record)
        if size is None or kind is None or value is None:
            torn.append(Quoted(0, f"record {position} of {name}"))
            continue
        in_place = whole_number(get(record, "inPlace")) == 1
        cycle = whole_number(get(record, "numCycle")) or 0
        key = _Key(cycle, name, kind, text_of(get(record, "redop")) or "none", size, 0)
        while in_place in placements.get(key, {}):
            key = key._replace(nth=key.nth + 1)
        placements.setdefault(key, {})[in_place] = value
    ranks = _first_number(records, "ranks")
    return RunFacts(
        rows=tuple(_row(key, values, ranks or 1) for key, values in placements.items()),
        torn=tuple(torn),
        program=name,
        has_header=True,
        ended=whole,
        end_missing=end_missing,
        footer_is_elsewhere=True,
        logged_ranks=(ranks,) if ranks else (),
        stated_nodes=_first_number(records, "nodes"),
    )


def _first_number(records: Sequence[Tree], name: str) -> int | None:
    """The first positive number under a name; None = no record has one."""
    numbers = (whole_number(get(record, name)) for record in records)
    return next((number for number in numbers if number is not None and number > 0), None)


def _row(key: _Key, values: dict[bool, Measurement], ranks: int) -> PrintedRow:
    element = ELEMENT_BYTES.get(key.kind, 1)
    if is_scaled(Collective(key.name)):
        element *= ranks
    row = BenchmarkRow(
        size_bytes=key.size_bytes,
        count=key.size_bytes // element,
        type=key.kind,
        redop=None if key.redop == "none" else key.redop,
        root=None,
        out_of_place=values.get(False),
        in_place=values.get(True),
    )
    return printed_row(row, _SLACK)


def _measurement(record: Tree) -> Measurement | None:
    time, algbw, busbw = (number(get(record, name)) for name in ("time", "algBw", "busBw"))
    if time is None or algbw is None or busbw is None:
        return None
    return Measurement(time, algbw, busbw, whole_number(get(record, "wrong")))


def looks_like(head: bytes) -> float:
    """1 = all names that only such records have."""
    small = head.lower()
    return 1.0 if all(mark in small for mark in _MARKS) else 0.0


def read(chunks: Iterable[bytes]) -> Document:
    """The text as a document. Raises UnknownLayout as `parse` does."""
    return document(parse(chunks))


FORMAT = Format("rccl-tests-records", "rccl-tests JSON or CSV", looks_like, read)
