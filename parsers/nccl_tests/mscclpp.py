"""The file of mscclpp-test (`-o FILE`): one JSON object per size and line, runs behind one another.

Written against microsoft/mscclpp 0.10.0, test/mscclpp-test/common.cc. The elements are integers of
4 bytes; the file does not say whether data were wrong, nor that a run has ended.

>>> (result,) = parse('{"algBw":10.0,"busBw":17.5,"kernel":6,"name":"allreduce","ranks":8,"ranksPerNode":8,"size":1000000,"time":100.0}')
>>> result.collective, result.nranks, result.rows[0].in_place.busbw_gb_s, result.complete
('all_reduce', 8, 17.5, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Collective, Measurement
from busbw.parsers.logs import Document, Format
from busbw.parsers.nccl_tests.checks import result_of
from busbw.parsers.nccl_tests.identity import is_scaled
from busbw.parsers.nccl_tests.json_trees import Tree, get, number, quoted, whole_number
from busbw.parsers.nccl_tests.printed import PrintedRow, Slack, printed_row
from busbw.parsers.nccl_tests.rccl import collective_of
from busbw.parsers.nccl_tests.results_json import join, load_all, outside
from busbw.parsers.nccl_tests.run_facts import Quoted, RunFacts
from busbw.parsers.nccl_tests.table import document

_SLACK = Slack(5.1e-3, 5.1e-3, 5.1e-3)
"""The program writes all digits; files of expected values, as test/deploy has them, write two."""
_MARKS = (b'"algBw"', b'"busBw"', b'"kernel"', b'"ranksPerNode"')
_OUT_OF_PLACE = ("alltoall", "sendrecv")
_TYPE, _ELEMENT_BYTES = "int32", 4
_END_MISSING = (
    "a file of mscclpp-test has no end mark: whether more sizes were to follow is not known"
)


class _Job(NamedTuple):
    """What all sizes of one run have in common."""

    name: str
    kernel: int | None
    ranks: int | None
    ranks_per_node: int | None


def parse(text: str | bytes | Iterable[bytes]) -> tuple[BenchmarkResult, ...]:
    """Every run in the file: sizes of one run only grow.

    Raises:
        UnknownLayout: no such object is in the text.
    """
    content = text if isinstance(text, str) else join(text, "mscclpp-test results")
    runs: list[tuple[_Job, list[Tree]]] = []
    strange: list[str] = []
    for loaded in load_all(content):
        tree = loaded.value
        job = _job(tree)
        if job is None:
            strange.append(quoted(tree))
            continue
        if not runs or runs[-1][0] != job or _size(tree) <= _size(runs[-1][1][-1]):
            runs.append((job, []))
        runs[-1][1].append(tree)
    if not runs:
        raise UnknownLayout("no mscclpp-test record in this text", seen=content.strip()[:200])
    other_text = next(iter(strange), outside(content))
    end_missing = f"what is no record is not read: {other_text!r}" if other_text else _END_MISSING
    return tuple(result_of(_facts(job, records, end_missing)) for job, records in runs)


def _job(record: Tree) -> _Job | None:
    name = collective_of(record)
    if name is None or get(record, "size") is None:
        return None
    kernel, ranks, per_node = (
        whole_number(get(record, key)) for key in ("kernel", "ranks", "ranksPerNode")
    )
    return _Job(name, kernel, ranks, per_node)


def _size(record: Tree) -> int:
    return whole_number(get(record, "size")) or 0


def _facts(job: _Job, records: Sequence[Tree], end_missing: str) -> RunFacts:
    rows: list[PrintedRow] = []
    torn: list[Quoted] = []
    for record in records:
        value = _measurement(record)
        if value is None:
            torn.append(Quoted(0, f"size {_size(record)} of {job.name}"))
        else:
            rows.append(_row(job, _size(record), value))
    nodes = None
    if job.ranks and job.ranks_per_node:
        nodes = -(-job.ranks // job.ranks_per_node)
    return RunFacts(
        rows=tuple(rows),
        torn=tuple(torn),
        program=job.name,
        config=(("kernel", str(job.kernel)),) if job.kernel is not None else (),
        has_header=True,
        ended=False,
        end_missing=end_missing,
        footer_is_elsewhere=True,
        logged_ranks=(job.ranks,) if job.ranks else (),
        stated_nodes=nodes,
    )


def _row(job: _Job, size: int, value: Measurement) -> PrintedRow:
    scale = (job.ranks or 1) if is_scaled(Collective(job.name)) else 1
    is_out = job.name.replace("_", "") in _OUT_OF_PLACE
    row = BenchmarkRow(
        size_bytes=size,
        count=size // (_ELEMENT_BYTES * scale),
        type=_TYPE,
        redop="sum" if job.name == Collective.ALL_REDUCE else None,
        root=None,
        out_of_place=value if is_out else None,
        in_place=None if is_out else value,
    )
    return printed_row(row, _SLACK)


def _measurement(record: Tree) -> Measurement | None:
    time, algbw, busbw = (number(get(record, name)) for name in ("time", "algBw", "busBw"))
    if time is None or algbw is None or busbw is None:
        return None
    return Measurement(time, algbw, busbw, None)


def looks_like(head: bytes) -> float:
    """1 = all names that only such records have."""
    return 1.0 if all(mark in head for mark in _MARKS) and b"inPlace" not in head else 0.0


def read(chunks: Iterable[bytes]) -> Document:
    """The text as a document. Raises UnknownLayout as `parse` does."""
    return document(parse(chunks))


FORMAT = Format("mscclpp-test-records", "mscclpp-test JSON", looks_like, read)
