"""nccl-tests' JSON (`-J file.json`), schemas 1 to 3, also cut off where the run was killed.

Written against `src/util.cu` of nccl-tests 2.17.3 to 2.19.6. Keys that 2.17.3–2.17.8 misspelt are
read too. The environment in the file is not read: it can hold tokens.

>>> result = parse('{"version":3,"args":["all_reduce_perf"],"nccl_version":23007,"config":{"nthreads":1,"ngpus":1,"minimum_bytes":8,'
...     '"maximum_bytes":8,"step_factor":2,"devices":[]},"results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",'
...     '"out_of_place":{"time":10.0,"alg_bw":0.0008,"bus_bw":0.0008,"nwrong":0.0},"in_place":null}],"out_of_bounds":{"count":0,"ok')
>>> result.nccl_version, result.rows[0].out_of_place.wrong, result.complete, result.problems[0]
('2.30.7', 0, False, 'the document has no end: the run was killed, or the file is cut')
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement, ProcessTimes, RankLine
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.json_values import Value, values
from busbw.parsers.logs.scan_literals import Marks
from busbw.parsers.nccl_tests.around_tables import FAILURE, program_of
from busbw.parsers.nccl_tests.checks import result_of
from busbw.parsers.nccl_tests.json_doubts import doubts, repeated_keys
from busbw.parsers.nccl_tests.json_trees import (
    Tree,
    flag,
    get,
    items,
    number,
    quoted,
    text_of,
    whole_number,
)
from busbw.parsers.nccl_tests.printed import PrintedRow, Slack, printed_row
from busbw.parsers.nccl_tests.rows import elements
from busbw.parsers.nccl_tests.run_facts import Quoted, RunFacts
from busbw.parsers.nccl_tests.table import document

_NOT_NUMBERS = re.compile(r"([:\[,]\s*)-?(?:inf|nan|Infinity|NaN)(?=\s*[,\]}])")
_NEWEST_SCHEMA = 3
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')
_CLOSING = {"{": "}", "[": "]"}
_BEHIND = re.compile(r"[^\n{\[]*")
"""The rest of a line, up to the next document."""
_DEEPEST = 64


class Loaded(NamedTuple):
    """The tree, and whether the text had all of it."""

    value: Tree
    whole: bool
    doubts: tuple[str, ...] = ()
    """What nccl-tests does not write, of the document's text and of what stands beside it."""


def load_all(text: str) -> Iterator[Loaded]:
    """The JSON values of a text, one after another. nan and inf become null.

    A text that ends early is closed behind its last finished element.

    >>> list(load_all('{"a":[{"b":1},{"b":inf},{"b"'))
    [Loaded(value={'a': [{'b': 1}, {'b': None}]}, whole=False, doubts=())]
    """
    plain = _NOT_NUMBERS.sub(r"\1null", text)
    for value in values(plain):
        loaded = _loaded(plain, value)
        if loaded is not None:
            yield loaded


def has_no_number(text: str) -> bool:
    """Whether nan or inf stands where a JSON document has a number.

    >>> has_no_number('{"a": nan}'), has_no_number('{"a": "nan"}')
    (True, False)
    """
    return _NOT_NUMBERS.search(text) is not None


def outside(text: str) -> str:
    """The beginning of what stands between the JSON values of a text; "" = nothing does.

    >>> outside('[{"a":1}]\\n'), outside('{"a":1}\\nError: no device')
    ('', 'Error: no device')
    """
    end = 0
    for value in (*values(text), Value(None, len(text), len(text))):
        between = text[end : value.begin].strip()
        if between:
            return between[:80]
        end = value.end
    return ""


def _loaded(text: str, value: Value) -> Loaded | None:
    """A value of the text, closed where it has no end; None = nothing of it is finished."""
    if value.tree is not None:
        return Loaded(value.tree, True, _doubts_of(text, value))  # type: ignore[arg-type]  # what JSON can hold
    closed = _closed(text[value.begin : value.end])
    if closed is None:
        return None
    try:
        return Loaded(json.loads(closed), False)
    except (ValueError, RecursionError):
        return None


def _doubts_of(text: str, value: Value) -> tuple[str, ...]:
    """Of a document's text, which its tree no longer shows, and of the rest of its line: searched as a
    line that is not, for the document's own length hides it."""
    twice = repeated_keys(text[value.begin : value.end])
    doubts = [f"{name} stands twice in one object" for name in twice]
    match = _BEHIND.match(text, value.end)
    behind = re.sub(r"<[^>]*>", "", match[0]) if match else ""
    if re.search(r"[A-Za-z]{3}|\0", behind):
        doubts.append(f"behind the document, on its line: {quoted(behind.strip())}")
    return tuple(doubts)


def _closed(text: str) -> str | None:
    """The text up to its last finished element, with what is open closed; None = nothing is
    finished, or nests too deep."""
    stack: list[str] = []
    best: tuple[int, str] | None = None
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in _CLOSING:
            stack.append(mark)
            if len(stack) > _DEEPEST:
                return None
        elif mark in ("}", "]"):
            if not stack or _CLOSING[stack.pop()] != mark:
                break
            best = match.end(), "".join(_CLOSING[one] for one in reversed(stack))
        elif mark == "," and stack:
            best = match.start(), "".join(_CLOSING[one] for one in reversed(stack))
    return None if best is None else text[: best[0]] + best[1]


_SLACK = Slack(5.1e-7, 5.1e-7, 5.1e-7)
"""Half a unit of the sixth decimal (`%lf`)."""
_LARGEST = 512 << 20
"""Bytes of a text, or characters of one document."""
_BEFORE = 1 << 20
"""Characters of a document before the first of its marks: the environment stands there."""
_DEEPEST_RUN = 4
_ROW_KEYS = ("out_of_place", "in_place")
_CONFIG_KEYS = ("minimum_bytes", "maximum_bytes", "nthreads", "ngpus")
_MARKS = (
    b'"nccl_version"',
    b'"results"',
    b'"minimum_bytes"',
    b'"out_of_place"',
    b'"alg_bw"',
    b'"device_hex"',
)
_TEXT_MARKS = tuple(f'"{name}"' for name in ("nccl_version", *_ROW_KEYS, *_CONFIG_KEYS))
_WINDOW_MARKS = Marks(_TEXT_MARKS)
_LONGEST_MARK = max(map(len, _TEXT_MARKS))


def parse(text: str | bytes | Iterable[bytes]) -> BenchmarkResult:
    """The first run of a text, as `parse_all` finds them.

    Raises:
        UnknownLayout: as `parse_all`.
    """
    return parse_all(text)[0]


def parse_all(text: str | bytes | Iterable[bytes]) -> tuple[BenchmarkResult, ...]:
    """The run of each JSON document in a text: documents one after another, in lists, between lines
    of a log.

    Raises:
        UnknownLayout: no such document is in the text, not even the beginning of one.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogateescape")
    chunks = [text] if isinstance(text, bytes) else text
    results = tuple(result_of(_facts(run)) for run in _runs(chunks))
    if not results:
        raise no_document()
    return results


def no_document() -> UnknownLayout:
    """The error for a text without such a document."""
    return UnknownLayout(
        'not an nccl-tests JSON document: no "config" and no "results" in it',
        next_step=(
            "check that the file was written by -J (2.17.3 or newer); its name is in the line"
            " '# Writing JSON output to'"
        ),
    )


class MarkSearch:
    """Chunks of a text that somebody else reads. Behind them it is known whether the text can have such
    a document: most have none, and need not be read once more to find that out.

    >>> marks = MarkSearch([b'{"nccl_ver', b'sion": 22907}'])
    >>> len(list(marks)), marks.has_any
    (2, True)
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.has_any = False
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        end = b""
        for chunk in self._chunks:
            if not self.has_any:
                seam = end + chunk
                self.has_any = _WINDOW_MARKS.stand_in(seam)
                end = seam[-_LONGEST_MARK:]
            yield chunk


def _runs(chunks: Iterable[bytes]) -> Iterator[Loaded]:
    """The runs' documents. Of a text without any only its last mebibyte is kept, so that a long log
    takes no memory."""
    data = bytearray()
    wait = 0
    marked = False
    for chunk in chunks:
        seam = bytes(data[-_LONGEST_MARK:]) + chunk
        marked = marked or _WINDOW_MARKS.stand_in(seam)
        data += chunk
        if len(data) < wait:
            continue
        if not marked:
            del data[:-_BEFORE]
            wait = 2 * _BEFORE
            continue
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        window = decoder.decode(bytes(data))
        cut_character = decoder.getstate()[0]
        is_full = len(window) > _LARGEST
        window = _NOT_NUMBERS.sub(r"\1null", window)
        end = 0
        for value in values(window):
            may_go_on = value.tree is None and _may_go_on(window, value)
            if may_go_on and not is_full:
                end = value.begin
                break
            loaded = _loaded(window, value) if _is_marked(window, value) else None
            if loaded is not None:
                yield from _runs_in(loaded)
            end = value.end
        data = bytearray(window[end:].encode() + cut_character)
        marked = _WINDOW_MARKS.stand_in(bytes(data))
        wait = max(2 * _BEFORE, 2 * len(data))
    if marked:
        for loaded in load_all(data.decode("utf-8", "replace")):
            yield from _runs_in(loaded)


def _is_marked(text: str, value: Value | None = None) -> bool:
    begin, end = (0, len(text)) if value is None else (value.begin, value.end)
    return any(text.find(mark, begin, end) >= 0 for mark in _TEXT_MARKS)


def _may_go_on(text: str, value: Value) -> bool:
    """Whether the rest of a value can be in what is still to be read."""
    return _is_marked(text, value) or value.end > len(text) - _BEFORE


def _runs_in(loaded: Loaded) -> Iterator[Loaded]:
    """The runs of a value: itself, or what its lists and objects hold. Of one that is cut only the
    last run can be."""
    trees = list(_run_trees(loaded.value, _DEEPEST_RUN))
    missing = ""
    if isinstance(loaded.value, list) and trees and None in loaded.value:
        missing = f"null in place of element {loaded.value.index(None) + 1} of the list of runs"
    doubts = (*loaded.doubts, *filter(None, [missing]))
    for tree in trees:
        yield Loaded(tree, loaded.whole or tree is not trees[-1], doubts)


def _run_trees(tree: Tree, depth: int) -> Iterator[Tree]:
    if isinstance(tree, dict) and _is_run(tree):
        yield tree
    elif isinstance(tree, dict | list) and depth:
        members = tree.values() if isinstance(tree, dict) else tree
        for member in members:
            yield from _run_trees(member, depth - 1)


def _is_run(tree: dict[str, Tree]) -> bool:
    """Whether an object is of nccl-tests: other programs write "config" and "results" too."""
    if not {"config", "results"} & set(tree):
        return False
    rows = items(get(tree, "results"))
    config = get(tree, "config")
    has_rows = any(get(row, name) is not None for row in rows for name in _ROW_KEYS)
    has_config = any(get(config, name) is not None for name in _CONFIG_KEYS)
    return has_rows or has_config or "nccl_version" in tree


def join(chunks: bytes | Iterable[bytes], what: str) -> str:
    """A document's text, whole. Raises UnknownLayout when it is larger than can be one."""
    pieces: list[bytes] = []
    size = 0
    for chunk in [chunks] if isinstance(chunks, bytes) else chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size > _LARGEST:
            raise UnknownLayout(
                f"larger than {_LARGEST >> 20} MiB: too large for {what}",
                seen=pieces[0][:200].decode("utf-8", "replace"),
            )
    return b"".join(pieces).decode("utf-8", "replace")


def _facts(loaded: Loaded) -> RunFacts:
    tree = loaded.value
    average = get(tree, "average_bus_bandwidth") or get(tree, "average_bus_bandwidith")
    mean = get(average, "bandwidth")
    average_gb_s = number(mean if mean is not None else get(average, "bandwidith"))
    ended = loaded.whole and bool(text_of(get(tree, "end_time")))
    rows, torn, not_finite = _rows(tree)
    errors = [error for error in map(text_of, items(get(tree, "errors"))) if error is not None]
    devices = tuple(_devices(tree))
    threads = whole_number(get(tree, "config", "nthreads")) or 1
    gpus = whole_number(get(tree, "config", "ngpus")) or 1
    end_missing = "no end_time: the run ended early"
    if ended and average_gb_s is None and rows:
        ended, end_missing = False, "no average bus bandwidth: the document was cut or edited"
    if not loaded.whole:
        end_missing = "the document has no end: the run was killed, or the file is cut"
    return RunFacts(
        rows=rows,
        torn=torn,
        not_finite=not_finite,
        doubtful=(*(Quoted(0, doubt) for doubt in (*loaded.doubts, *doubts(tree))),),
        ranks=devices,
        ranks_per_line=threads * gpus,
        config=tuple(_config(get(tree, "config"))),
        program=_program(tree),
        library_code=whole_number(get(tree, "nccl_version")),
        has_header=True,
        out_of_bounds=whole_number(get(tree, "out_of_bounds", "count")),
        out_of_bounds_failed=flag(get(tree, "out_of_bounds", "okay")) is False,
        average_gb_s=average_gb_s,
        average_failed=flag(get(average, "okay")) is False,
        ended=ended,
        end_missing=end_missing,
        reduction_is_silent=ended,
        failures=tuple(Quoted(0, error) for error in errors if FAILURE.search(error)),
        notes=tuple(Quoted(0, note) for note in _notes(tree)),
        last_error=next(filter(None, errors), None),
        process_times=tuple(_process_times(tree, devices)),
    )


def _program(tree: Tree) -> str | None:
    """The collective of the program that the arguments begin with: `all_reduce_perf_mpi` too."""
    arguments = items(get(tree, "args"))
    path = text_of(arguments[0]) if arguments else None
    return program_of(re.sub(r"_perf\w*$", "_perf", (path or "").rsplit("/", 1)[-1]))


def _notes(tree: Tree) -> Iterator[str]:
    schema = whole_number(get(tree, "version"))
    if schema is not None and schema > _NEWEST_SCHEMA:
        yield (
            f"schema {schema} is newer than {_NEWEST_SCHEMA}, the newest that busbw knows: what it"
            " says beyond that was not read"
        )


def _config(config: Tree) -> Iterator[tuple[str, str]]:
    """The configuration's plain values."""
    for name, value in config.items() if isinstance(config, dict) else ():
        if isinstance(value, str | int | float):
            yield name, str(value)


def _devices(tree: Tree) -> Iterator[RankLine]:
    """One entry per process: its first rank."""
    for entry in items(get(tree, "config", "devices")):
        rank, host = whole_number(get(entry, "rank")), text_of(get(entry, "hostname"))
        if rank is None or host is None:
            continue
        yield RankLine(
            rank=rank,
            host=host,
            device=whole_number(get(entry, "device")) or 0,
            device_name=text_of(get(entry, "device_info")) or "",
            pid=whole_number(get(entry, "pid")),
            group=whole_number(get(entry, "group")),
            bus_id=text_of(get(entry, "device_hex")),
        )


def _rows(tree: Tree) -> tuple[tuple[PrintedRow, ...], tuple[Quoted, ...], tuple[Quoted, ...]]:
    """The rows, the ones that lack a value, and the placements whose numbers are not finite."""
    rows: list[PrintedRow] = []
    torn: list[Quoted] = []
    not_finite: list[Quoted] = []
    for position, entry in enumerate(items(get(tree, "results")), 1):
        size = whole_number(get(entry, "size"))
        count = whole_number(get(entry, "count"))
        kind = text_of(get(entry, "type"))
        where = f"element {position} of results (size {size})"
        whole = isinstance(entry, dict) and "out_of_place" in entry and "in_place" in entry
        if size is None or count is None or kind is None or not whole:
            torn.append(Quoted(0, where))
            continue
        root = whole_number(get(entry, "root"))
        redop = text_of(get(entry, "redop"))
        row = BenchmarkRow(
            size_bytes=size,
            count=count,
            type=kind,
            redop=None if redop in ("", "none") else redop,
            root=root if root is not None and root >= 0 else None,
            out_of_place=_measurement(entry, "out_of_place"),
            in_place=_measurement(entry, "in_place"),
        )
        rows.append(printed_row(row, _SLACK))
        for name, value in (("out_of_place", row.out_of_place), ("in_place", row.in_place)):
            if value is None and get(entry, name) is not None:
                not_finite.append(Quoted(0, f"{name} of {where}"))
    return tuple(rows), tuple(torn), tuple(not_finite)


def _measurement(entry: Tree, name: str) -> Measurement | None:
    """One placement; None = null, or without a finite time and bandwidths."""
    body = get(entry, name)
    cputime = isinstance(body, dict) and "cpu_time" in body
    time = number(get(body, "cpu_time" if cputime else "time"))
    algbw, busbw = number(get(body, "alg_bw")), number(get(body, "bus_bw"))
    if time is None or algbw is None or busbw is None:
        return None
    spread = get(entry, f"{name}_per_iter")
    return Measurement(
        time_us=time,
        algbw_gb_s=algbw,
        busbw_gb_s=busbw,
        wrong=elements(number(get(body, "nwrong"))),
        iter_min_us=number(get(spread, "min_us")),
        iter_max_us=number(get(spread, "max_us")),
        iter_p99_us=number(get(spread, "p99_us")),
        iter_cv_percent=number(get(spread, "cv_pct")),
        cputime=cputime,
    )


def _process_times(tree: Tree, devices: tuple[RankLine, ...]) -> Iterator[ProcessTimes]:
    """`per_process_max_times_us`, row by row; with one process, which writes none, its
    `times_us`."""
    for entry in items(get(tree, "results")):
        size = whole_number(get(entry, "size"))
        for name, in_place in (("out_of_place_per_iter", False), ("in_place_per_iter", True)):
            spread = get(entry, name)
            matrix = items(get(spread, "per_process_max_times_us"))
            if not matrix and spread and len(devices) <= 1:
                matrix = [get(spread, "times_us")]
            for process, row in enumerate(matrix):
                times = tuple(value for value in map(number, items(row)) if value is not None)
                if size is None or not times:
                    continue
                device = devices[process] if process < len(devices) else None
                yield ProcessTimes(
                    size_bytes=size,
                    in_place=in_place,
                    process=device.rank if device else process,
                    host=device.host if device else None,
                    group=device.group if device else None,
                    times_us=times,
                )


def looks_like(head: bytes) -> float:
    """How many of the names that only such a document has are in it."""
    if b"{" not in head[:4096]:
        return 0.0
    marks = sum(mark in head for mark in _MARKS)
    return 0.0 if marks < 2 else min(1.0, 0.5 + marks / 8)


def read(chunks: Iterable[bytes]) -> Document:
    """The text as a document. Raises UnknownLayout as `parse` does."""
    return document(parse_all(chunks))


FORMAT = Format("nccl-tests-json", "nccl-tests JSON", looks_like, read, embedded=True)
