"""Dumps of PyTorch's flight recorder: JSON, or a pickle read as plain data.
Versions 2.0 to 2.10 of the dump.

Fields: `torch/csrc/distributed/c10d/FlightRecorder*` of PyTorch 2.3 to 2.13. The dumps of gloo have
the same shape, with a group without a name and states that never leave `scheduled`; NCCL's leave it
only with TORCH_NCCL_ENABLE_TIMING or at the end. A retired entry that did not complete was given up.
A dump does not say which rank it is of: its file's name does (`rank_of`).
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from busbw.errors import ReadError, UnknownLayout
from busbw.model import FlightDump, FlightEntry, FlightGroup
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.json_values import flag, integer, items, mapping, number, text_of, values
from busbw.parsers.logs.pickle_values import MOST_BYTES, load_next
from busbw.parsers.tools.numbers import impossible

_MOST_SHAPES = 4096
"""Tensors of one operation that are kept; coalesced ones have hundreds."""
_MOST_DIMENSIONS = 64
_MOST_FRAMES = 16
_RANK = re.compile(r"(?:rank_?|trace_)(\d+)(?:\.\w+)?$|(\d+)$")
_NEXT = (
    "dump one with TORCH_NCCL_DUMP_ON_TIMEOUT=1 and TORCH_FR_BUFFER_SIZE=2000, or"
    " torch._C._distributed_c10d._dump_nccl_trace_json()"
)


def read(chunks: Iterable[bytes]) -> Document:
    """Read one dump.

    Raises:
        UnknownLayout: it is neither form of a flight recorder's dump, or a pickle that is cut off,
        damaged or builds more than plain data.
    """
    data = _joined(chunks)
    read_dumps = _in_json(data) if data.lstrip()[:1] == b"{" else _in_pickles(data)
    if not read_dumps.dumps:
        raise UnknownLayout("not a flight recorder's dump", seen=repr(data[:80]), next_step=_NEXT)
    summary: list[tuple[str, str]] = []
    problems, faults = list(read_dumps.gaps), []
    for dump in read_dumps.dumps:
        summary += _summary(dump)
        problems += _unrecorded(dump)
        for entry in _unfinished(dump):
            text = _unfinished_text(dump, entry)
            problems.append(text)
            if entry.retired or _is_overdue(dump, entry):
                faults.append(text)
    return Document(
        "flight-recorder",
        read_dumps.dumps,
        tuple(summary),
        not problems,
        tuple(problems),
        tuple(faults),
    )


class _Dumps(NamedTuple):
    """The dumps of one text."""

    dumps: tuple[FlightDump, ...]
    gaps: tuple[str, ...]
    """What of them is missing."""


def _in_json(data: bytes) -> _Dumps:
    """The dumps of JSON documents, one after another; the last may be cut off."""
    text = data.decode("utf-8", "replace")
    dumps: list[FlightDump] = []
    gaps: list[str] = []
    end = 0
    for value in values(text):
        tree, is_whole = value.tree, True
        if tree is None:
            tree, is_whole = _cut_off(text[value.begin : value.end])
        dump = _dump(mapping(tree))
        if dump is not None:
            dumps.append(dump)
            gaps += _missing(mapping(tree), dump, is_whole)
        elif text[end : value.end].strip():
            gaps.append(f"what is no dump is not read: {text[end : value.end].strip()[:80]!r}")
        end = value.end
    if text[end:].strip():
        gaps.append(f"what is no dump is not read: {text[end:].strip()[:80]!r}")
    return _Dumps(tuple(dumps), tuple(gaps))


def _missing(value: dict[str, object], dump: FlightDump, is_whole: bool) -> Iterator[str]:
    entries = value.get("entries", [])
    if not is_whole:
        yield f"the document is truncated after {len(dump.entries)} entries; its groups are missing"
    elif not isinstance(entries, list | tuple) or len(dump.entries) != len(entries):
        yield "its entries are not those of a flight recorder: some are not read"
    elif any(_is_not_finite(each) for raw in entries for each in mapping(raw).values()):
        yield "a time of an entry is no number (nan)"
    for strange in dict.fromkeys(impossible(dump.entries)):
        yield f"an entry has a {strange}, which is none"


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _in_pickles(data: bytes) -> _Dumps:
    """The dumps of pickles, one after another."""
    dumps: list[FlightDump] = []
    gaps: list[str] = []
    stream = io.BytesIO(data)
    while stream.tell() < len(data) and (not dumps or data[stream.tell() :].strip()):
        begin = stream.tell()
        try:
            value = mapping(load_next(stream))
        except ReadError as error:
            if not dumps:
                raise UnknownLayout(
                    error.what, seen=error.seen, next_step=error.next_step or _NEXT
                ) from error
            gaps.append(f"behind {begin} bytes: {error.what}")
            break
        dump = _dump(value)
        if dump is None:
            break
        dumps.append(dump)
        gaps += _missing(value, dump, True)
    return _Dumps(tuple(dumps), tuple(gaps))


def _unfinished(dump: FlightDump) -> Iterator[FlightEntry]:
    """Of each group the first operation that had not completed."""
    coalesced = {_place(entry) for entry in dump.entries if entry.name.endswith(":coalesced")}
    # A backend that reports no end (gloo) leaves all it did at `scheduled`, and retires what is over.
    reporting = {_backend(entry) for entry in dump.entries if entry.state != "scheduled"}
    seen: set[str] = set()
    for entry in dump.entries:
        # The parts of a coalesced operation have no end of their own.
        is_part = _place(entry) in coalesced and not entry.name.endswith(":coalesced")
        is_over = entry.retired and _backend(entry) not in reporting
        if entry.state == "completed" or is_over or is_part or entry.group in seen:
            continue
        seen.add(entry.group)
        yield entry


def _unrecorded(dump: FlightDump) -> Iterator[str]:
    """What a dump without operations leaves open: those that were asked for groups alone still say how
    far each group came."""
    if dump.entries:
        return
    if not any(group.last_enqueued for group in dump.groups):
        yield "a dump without operations: the recorder was off, or none was enqueued"
    for group in dump.groups:
        enqueued, completed = group.last_enqueued or 0, group.last_completed or 0
        if enqueued > completed:
            yield (
                f"group {group.description or group.name}: {enqueued} operations were enqueued and"
                f" {completed} completed; the dump does not hold them"
            )


def _backend(entry: FlightEntry) -> str:
    return entry.name.split(":", 1)[0]


def _place(entry: FlightEntry) -> tuple[str, int | None, int | None]:
    return entry.group, entry.collective_seq, entry.p2p_seq


def _unfinished_text(dump: FlightDump, entry: FlightEntry) -> str:
    names = {group.name: group.description for group in dump.groups}
    group = names.get(entry.group) or entry.group
    sequence = entry.p2p_seq if entry.p2p else entry.collective_seq
    if entry.retired:
        return (
            f"{entry.name} seq {sequence} of group {group} was {entry.state} and was given up before"
            " it completed: it failed or timed out"
        )
    late = ""
    if _is_overdue(dump, entry) and entry.timeout_ms is not None:
        late = f", longer than its timeout of {entry.timeout_ms / 1000:g} s"
    return (
        f"{entry.name} seq {sequence} of group {group} was {entry.state or 'recorded'} and had not"
        f" completed{late}: the dumps of the other ranks say which rank it waits for"
    )


def _is_overdue(dump: FlightDump, entry: FlightEntry) -> bool:
    """Whether something was recorded later than the operation's timeout."""
    if entry.created_ns is None or entry.timeout_ms is None:
        return False
    times = [
        time
        for each in dump.entries
        for time in (each.created_ns, each.started_ns, each.completed_ns)
        if time is not None
    ]
    return max(times) - entry.created_ns > entry.timeout_ms * 1_000_000


def _joined(chunks: Iterable[bytes]) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > MOST_BYTES:
            raise UnknownLayout(
                f"larger than {MOST_BYTES} bytes: not a flight recorder's dump", next_step=_NEXT
            )
    return bytes(data)


def rank_of(name: str) -> int | None:
    """The rank in a dump's file name, as PyTorch writes it; None = there is none.

    >>> rank_of("/tmp/nccl_trace_rank_12"), rank_of("straggler-rank3.json"), rank_of("trace.json")
    (12, 3, None)
    """
    match = _RANK.search(name.rsplit("/", 1)[-1])
    return int(match[1] or match[2]) if match else None


def of_rank(dump: FlightDump, rank: int | None) -> FlightDump:
    """The dump with its rank."""
    return replace(dump, rank=rank)


def _cut_off(text: str) -> tuple[object, bool]:
    """As many entries as are whole in a document that is cut off."""
    start = re.search(r'"entries"\s*:\s*\[', text)
    if start is None:
        return None, False
    version = re.search(r'"version"\s*:\s*"([^"]*)"', text)
    entries = _whole_entries(text, start.end())
    return {"version": version[1] if version else "", "entries": entries}, False


def _whole_entries(text: str, at: int) -> list[object]:
    decoder = json.JSONDecoder()
    entries: list[object] = []
    while True:
        while at < len(text) and text[at] in ", \n\t\r":
            at += 1
        try:
            entry, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return entries
        entries.append(entry)


def _dump(value: dict[str, object]) -> FlightDump | None:
    if "version" not in value or not {"entries", "pg_config", "pg_status"} & value.keys():
        return None
    raw = [mapping(entry) for entry in items(value, "entries")]
    entries = [_entry(each) for each in raw if each]
    return FlightDump(
        rank=None,
        version=text_of(value, "version") or "",
        library_version=text_of(value, "comm_lib_version") or text_of(value, "nccl_version"),
        groups=_groups(value, raw),
        entries=tuple(sorted(entries, key=lambda entry: entry.record_id)),
    )


def _groups(value: dict[str, object], raw: list[dict[str, object]]) -> tuple[FlightGroup, ...]:
    """Status is kept by number, configuration by name; the entries know both. A lone configuration
    belongs to the lone group."""
    config = mapping(value.get("pg_config"))
    status = {str(key): mapping(each) for key, each in mapping(value.get("pg_status")).items()}
    names = {text_of(entry, "pg_id"): _names(entry) for entry in raw}
    in_entries = [group_id for group_id in names if group_id is not None]
    ids = list(status) or in_entries or [str(name) for name in config]
    lone = next(iter(config.values())) if len(config) == len(ids) == 1 else None
    groups = []
    for group_id in ids:
        name, description = names.get(group_id, (group_id, ""))
        configured = mapping(config.get(name, lone))
        ranks = re.findall(r"\d+", text_of(configured, "ranks") or "")
        group_status = status.get(group_id, {})
        groups.append(
            FlightGroup(
                id=group_id,
                name=name,
                description=text_of(configured, "desc") or description,
                ranks=tuple(map(int, ranks)),
                last_enqueued=_sequence(group_status, "last_enqueued_collective"),
                last_started=_sequence(group_status, "last_started_collective"),
                last_completed=_sequence(group_status, "last_completed_collective"),
            )
        )
    return tuple(groups)


def _names(entry: dict[str, object]) -> tuple[str, str]:
    """Name and description of the entry's group."""
    words = (*_words(entry, "process_group"), "", "")
    return words[0], words[1]


def _sequence(status: dict[str, object], key: str) -> int | None:
    """PyTorch writes -1 where there was none."""
    number = integer(status, key)
    return number if number is not None and number >= 0 else None


def _entry(raw: dict[str, object]) -> FlightEntry:
    sequence_key = "collective_seq_id" if "collective_seq_id" in raw else "seq_id"
    return FlightEntry(
        record_id=integer(raw, "record_id") or 0,
        group=_names(raw)[0],
        name=text_of(raw, "profiling_name") or "",
        collective_seq=integer(raw, sequence_key),
        p2p_seq=integer(raw, "p2p_seq_id"),
        op_id=integer(raw, "op_id"),
        state=text_of(raw, "state") or "",
        input_sizes=_shapes(raw, "input_sizes"),
        input_types=_words(raw, "input_dtypes"),
        output_sizes=_shapes(raw, "output_sizes"),
        output_types=_words(raw, "output_dtypes"),
        created_ns=integer(raw, "time_created_ns"),
        started_ns=integer(raw, "time_discovered_started_ns") or None,
        completed_ns=integer(raw, "time_discovered_completed_ns") or None,
        duration_ms=number(raw, "duration_ms"),
        timeout_ms=integer(raw, "timeout_ms"),
        retired=flag(raw, "retired"),
        p2p=bool(flag(raw, "is_p2p")),
        frames=tuple(_frame(mapping(each)) for each in items(raw, "frames")[:_MOST_FRAMES]),
    )


def _shapes(raw: dict[str, object], key: str) -> tuple[tuple[int, ...], ...]:
    shapes = items(raw, key)[:_MOST_SHAPES]
    return tuple(
        tuple(size for size in shape[:_MOST_DIMENSIONS] if isinstance(size, int))
        for shape in shapes
        if isinstance(shape, list | tuple)
    )


def _words(raw: dict[str, object], key: str) -> tuple[str, ...]:
    return tuple(each for each in items(raw, key)[:_MOST_SHAPES] if isinstance(each, str))


def _frame(raw: dict[str, object]) -> str:
    return f"{text_of(raw, 'filename')}:{text_of(raw, 'line')} {text_of(raw, 'name')}"


def _summary(dump: FlightDump) -> tuple[tuple[str, str], ...]:
    library = f", {dump.library_version}" if dump.library_version else ""
    rows = [("dump", f"version {dump.version}, {len(dump.entries)} entries{library}")]
    for group in dump.groups:
        members = f"{len(group.ranks)} ranks" if group.ranks else "ranks not recorded"
        last = (
            f"enqueued {group.last_enqueued}, started {group.last_started}, completed"
            f" {group.last_completed}"
        )
        text = f"{group.name or group.id} {group.description}: {members}, last {last}"
        rows.append(("group", text))
    for entry in dump.entries[-3:]:
        types = " ".join(entry.input_types)
        sequence = f"seq {entry.collective_seq}"
        rows.append(("entry", f"{entry.name} {sequence} {entry.state} {entry.input_sizes} {types}"))
    return tuple(rows)


_JSON_MARKS = (b'"pg_status"', b'"profiling_name"', b'"pg_config"')
_PICKLE_MARKS = (b"pg_config", b"profiling_name")
_PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _looks_like(head: bytes) -> float:
    if head.lstrip()[:1] == b"{":
        return 0.9 if any(mark in head for mark in _JSON_MARKS) else 0.0
    if not head.startswith(_PICKLE_STARTS):
        return 0.0
    return 0.9 if any(mark in head for mark in _PICKLE_MARKS) else 0.2


FORMAT = Format("flight-recorder", "PyTorch flight recorder dump", _looks_like, read)
