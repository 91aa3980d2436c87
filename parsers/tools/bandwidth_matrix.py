"""A table of bandwidths from each device to each other one, as AMD's TransferBench,
rocm-bandwidth-test and NVIDIA's p2pBandwidthLatencyTest print it: a row a source, a column a
destination."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.text import whole_number

_TITLE = re.compile(
    r"\b(?:Uni|Bi|B)directional copy|All-To-All benchmark|Bandwidth .{0,20}Matrix|^\s*(?:Uni|Bi)\w{0,11}$"
)
"""A lone word is one that is cut off."""
_OTHER_TABLE = re.compile(
    r"\bMatrix\b|^\s*(?:Device Access|Device Numa Distance|Data Path Validation)"
)
_OTHER_UNIT = re.compile(r"\b(?:[MG]b(?:it)?s?/s|[MG]bps|MB/s)")
_HEAD = re.compile(r"^\W{0,60}(?:SRC\S{0,8}DST[^\s,│|]{0,6}|D[/\\]D)[ \t]*[│|, \t](.{0,4000})$")
_DEVICE = re.compile(r"\b(?:[CG]PU ?\d{1,4}|\d{1,4})\b")
_SUMS = re.compile(r"\b(?:STotal|Actual)\b|\bNIC\(\d+ QP\)")
_ROW = re.compile(
    r"^\W{0,12}([CG]PU ?\d{1,4}|\d{1,4})\b[ \t│|,]*(->|<->|<-|min|max|sd)?(.{0,4000})$"
)
_NICS = re.compile(r"^\W{0,60}NIC Device\b(.{0,4000})$")
_NIC_ROW = re.compile(
    r"^\W{0,12}(Rank \d{1,6})?[ \t│|,]{1,40}(?:[CG]PU ?\d{1,4}[ \t│|,]+)?([A-Za-z]\S{0,31})(?:[ \t]+[CG]PU ?\d{1,4})?"
    r"[ \t│|,]+((?:\d|N/A).{0,4000})$"
)
"""The memory device stands behind the NIC, in the all-to-all test of NICs before it."""
_POD_DEVICES = re.compile(r"^\W{0,60}Mem Device\b(.{0,4000})$")
_POD_ROW = re.compile(
    r"^\W{0,12}(Rank \d{1,6})?[ \t│|,]{0,40}(GPU \d{1,4})\b[ \t│|,]*(->|<->|<-)?[ \t│|,]+((?:\d|N/A).{0,4000})$"
)
_PROCESSOR = re.compile(r"^(?:Rank \d{1,6} )?([CG]PU)")
_RANK = re.compile(r"Rank \d{1,6}")
_CELL = re.compile(r"[^\s│|,]+")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_SKIPPED = ("N/A", "-")
"""What stands where nothing was copied."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One cell."""

    source: str
    destination: str
    gb_s: float


@dataclass(frozen=True, slots=True)
class Matrix:
    """One table."""

    title: str
    copies: tuple[Copy, ...]
    """Those between different devices."""
    gap: str
    """What of it is missing; "" = nothing."""


def matrices(text: str) -> tuple[Matrix, ...]:
    """Every table in a text.

    >>> (table,) = matrices('''Unidirectional copy peak bandwidth GB/s [Local read / Remote write]
    ...  SRC+EXE\\\\DST    GPU 00    GPU 01
    ...  GPU 00  ->    2132.28     57.39
    ...  GPU 01  ->      57.41       N/A
    ... ''')
    >>> [(each.source, each.destination, each.gb_s) for each in table.copies]
    [('GPU 00', 'GPU 01', 57.39), ('GPU 01', 'GPU 00', 57.41)]
    """
    return tuple(_matrices(text.splitlines()))


def _matrices(lines: list[str]) -> Iterator[Matrix]:
    title, without_table = "", ""
    for number, line in enumerate(lines):
        if _TITLE.search(line):
            title = without_table = line.strip()
        elif _OTHER_TABLE.search(line):
            title = ""
        head = _HEAD.match(line)
        if head is not None and (title or "SRC" in line):
            names = _DEVICE.findall(_SUMS.sub("", head[1]))
            nics = _CELL.findall(head[1].partition("STotal")[0]) if "STotal" in head[1] else []
            if "Rank" in head[1] or names or nics:
                without_table = ""
            following = next(iter(lines[number + 1 :]), "")
            if _POD_DEVICES.match(following):
                yield _of_pod(title, _RANK.findall(head[1]), lines[number + 1 :])
            elif "Rank" in head[1] or (nics and not names):
                yield _of_nics(title, nics, lines[number + 1 :])
            elif names:
                more = len(_SUMS.findall(head[1]))
                yield _of_devices(title, names, more, lines[number + 1 :])
    if without_table:
        yield Matrix(without_table, (), "its table is missing")


def _of_devices(title: str, names: list[str], more: int, lines: list[str]) -> Matrix:
    """A table of these columns, with so many of sums behind them."""
    copies: dict[tuple[str, str], Copy] = {}
    sources: dict[str, None] = {}
    gap = ""
    for line in lines:
        row = _ROW.match(line)
        if row is None and re.search(r"[A-Za-z]", line):
            break
        if row is None or row[2] in ("min", "max", "sd") or row[1] not in names:
            continue
        sources[row[1]] = None
        cells = _CELL.findall(row[3])
        is_torn = not len(names) <= len(cells) <= len(names) + more or not all(map(_is_cell, cells))
        gap = gap or (f"a value is missing or no number in the row {row[1]}" if is_torn else "")
        # Of both directions the sum is the last of three rows.
        for name, cell in zip(names, cells, strict=False):
            if name != row[1] and _NUMBER.fullmatch(cell):
                copies[row[1], name] = Copy(row[1], name, float(cell))
    if _OTHER_UNIT.search(title):
        gap = gap or "its unit is not GB/s"
    missing = [name for name in names if name not in sources]
    if missing and not gap:
        gap = f"{len(missing)} of {len(names)} rows are missing"
    return Matrix(title, tuple(copies.values()), gap)


def _of_pod(title: str, ranks: list[str], lines: list[str]) -> Matrix:
    """A table whose rows and columns are the GPUs of each rank. Of both directions the sum counts."""
    devices = _POD_DEVICES.match(lines[0])
    gpus = _DEVICE.findall(devices[1]) if devices else []
    names = []
    per_rank = len(gpus) // max(1, len(ranks))
    for place, gpu in enumerate(gpus):
        names.append(f"{ranks[place // per_rank]} {gpu}" if per_rank else gpu)
    copies: list[Copy] = []
    rank, rows, gap = "", 0, ""
    for line in lines[1:]:
        row = _POD_ROW.match(line)
        if row is None and re.search(r"[A-Za-z]{5}", line):
            break
        rank = row[1] or rank if row else rank
        if row is None or row[3] in ("->", "<-"):
            continue
        source = f"{rank} {row[2]}"
        rows += 1
        cells = _CELL.findall(row[4])[: len(names)]
        is_torn = len(cells) < len(names) or not all(map(_is_cell, cells))
        gap = gap or (f"a value is missing or no number in the row {source}" if is_torn else "")
        for name, cell in zip(names, cells, strict=False):
            if name != source and _NUMBER.fullmatch(cell):
                copies.append(Copy(source, name, float(cell)))
    if rows < len(names) or not names:
        gap = gap or f"{len(names) - rows} of {len(names)} rows are missing"
    return Matrix(title, tuple(copies), gap)


def _of_nics(title: str, nics: list[str], lines: list[str]) -> Matrix:
    """A table whose rows and columns are the NICs of each rank; `nics`: [] = named in a line below."""
    copies: list[Copy] = []
    rank, rows, gap = "Rank 00", 0, ""
    for line in lines:
        if line.startswith("Summary") or (rows and not line.strip()):
            break
        if not nics and (found := _NICS.match(line)):
            nics = _CELL.findall(found[1])
        row = _NIC_ROW.match(line)
        if row is None or row[2] not in nics:
            continue
        rank, rows = row[1] or rank, rows + 1
        cells = _CELL.findall(row[3])[: len(nics)]
        is_torn = len(cells) < len(nics) or not all(map(_is_cell, cells))
        gap = gap or (
            f"a value is missing or no number in the row {rank} {row[2]}" if is_torn else ""
        )
        for number, (nic, cell) in enumerate(zip(nics, cells, strict=False), 1):
            if number != rows and _NUMBER.fullmatch(cell):
                copies.append(Copy(f"{rank} {row[2]}", nic, float(cell)))
    if rows < len(nics) or not nics:
        gap = gap or f"{len(nics) - rows} of {len(nics)} rows are missing"
    return Matrix(title, tuple(copies), gap)


def _is_cell(cell: str) -> bool:
    return cell in _SKIPPED or _NUMBER.fullmatch(cell) is not None


def shown(matrix: Matrix) -> Iterator[str]:
    """A line for each pair of kinds: the least and the most, and between which devices the least is."""
    kinds: dict[str, list[Copy]] = {}
    for copy in matrix.copies:
        kinds.setdefault(f"{_kind(copy.source)} to {_kind(copy.destination)}", []).append(copy)
    title = re.sub(r" copy peak bandwidth GB/s| benchmark:?| Matrix \(GB/s\)", "", matrix.title)
    for kind, copies in kinds.items():
        least = min(copies, key=lambda copy: copy.gb_s)
        most = max(copy.gb_s for copy in copies)
        yield (
            f"{title or 'copies'}: {len(copies)} {kind}, {least.gb_s:g} to {most:g} GB/s, least"
            f" {least.source} to {least.destination}"
        )


def _kind(device: str) -> str:
    if whole_number(device) is not None:
        return "device"
    found = _PROCESSOR.search(device)
    return found[1] if found else "NIC"
