"""What TransferBench's presets schmoo, one2all and hbm print (1.2x to 1.66): a row per number of CUs,
per set of peers, per GPU. Written against src/client/Presets of 2026; no recording was at hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SCHMOO = re.compile(r"^Bytes to transfer: (\d{1,15}) Local GPU: (\d+) Remote GPU: (\d+)", re.M)
_SCHMOO_WAYS = (
    "local read",
    "local write",
    "local copy",
    "remote read",
    "remote write",
    "remote copy",
)
_SCHMOO_ROW = re.compile(r"^ +(\d{1,4})((?: +\d+\.\d{3}){6}) *$", re.M)
_MOST = re.compile(r"^ *SWEEP_MAX\b[ =,]+(\d{1,6})", re.M)
_ONE_TO_ALL = re.compile(r"^Executing \(([^)\n]{1,40})\)[ \t\r]*$", re.M)
_ONE_TO_ALL_ROW = re.compile(
    r"^((?:[ ,]*\d+\.\d{3})+)[ ,]+(\d{1,4}) (\d{1,4})(?: \([^)\n]{1,40}\))+[ \t\r]*$", re.M
)
_GPU = re.compile(r"\bGPU \d+")
_HBM = re.compile(r"\bMaxBw \(GB/s\)[ │|,]+AvgBw \(GB/s\)[ │|,]+MinBw \(GB/s\)")
_HBM_ROW = re.compile(
    r"^[ │|]*(\d{1,6})[ │|,]+(\d{1,4})[ │|,]+(\d+\.\d\d)[ │|,]+(\d+\.\d\d)[ │|,]+(\d+\.\d\d)\b",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Preset:
    """What one preset printed, in words."""

    notes: tuple[str, ...]
    gaps: tuple[str, ...]
    """What of it is missing; () = nothing that the text shows."""


def read(text: str) -> Iterator[Preset]:
    """Every such preset of one run.

    >>> (preset,) = read('''  MaxBw (GB/s) | AvgBw (GB/s) | MinBw (GB/s)
    ... |    0 |   0 |      4312.20 |      4201.11 |      4002.80 |
    ... |    0 |   1 |      3120.33 |      3010.08 |      2900.10 |
    ... ''')
    >>> preset.notes
    ('HBM read of 2 GPUs: 3010.08 (rank 0 GPU 1) to 4201.11 GB/s on average',)
    """
    most = _MOST.search(text)
    limit = int(most[1]) if most else None
    starts = list(_SCHMOO.finditer(text))
    for start in starts:
        yield _schmoo(start, text[start.end() :], limit)
    if "[Schmoo Related]" in text and not starts:
        yield Preset((), ("the schmoo test is truncated before its table",))
    headings = list(_ONE_TO_ALL.finditer(text))
    for place, heading in enumerate(headings):
        end = headings[place + 1].start() if place + 1 < len(headings) else len(text)
        yield _one_to_all(heading[1], text[heading.end() : end], limit)
    if "[One-To-All Related]" in text and not headings:
        yield Preset((), ("the one-to-all test is truncated before its table",))
    if _HBM.search(text) or "[HBM Bandwidth Related]" in text:
        yield _hbm(text)


def _schmoo(start: re.Match[str], body: str, limit: int | None) -> Preset:
    rows = [(int(row[1]), row[2].split()) for row in _SCHMOO_ROW.finditer(body)]
    if not rows:
        return Preset((), ("the schmoo test is truncated before its first row",))
    cus, rates = rows[-1]
    named = ", ".join(
        f"{way} {float(rate):g}" for way, rate in zip(_SCHMOO_WAYS, rates, strict=True)
    )
    note = f"schmoo GPU {start[2]} with GPU {start[3]}, {cus} CUs: {named} GB/s"
    if limit is None:
        return Preset((note,), ("whether the schmoo test is complete: its last CU is not printed",))
    return Preset(
        (note,), (f"the schmoo test ends at {cus} of {limit} CUs",) if cus < limit else ()
    )


def _one_to_all(what: str, body: str, limit: int | None) -> Preset:
    columns = len(_GPU.findall(body.lstrip("\r\n").partition("\n")[0]))
    by_peers: dict[int, list[float]] = {}
    for row in _ONE_TO_ALL_ROW.finditer(body):
        rates = [float(rate) for rate in re.findall(r"\d+\.\d{3}", row[1])]
        by_peers.setdefault(int(row[2]), []).extend(rates)
    if not by_peers:
        return Preset((), (f"one-to-all {what}: truncated before its first row",))
    notes = tuple(
        f"one-to-all {what}, to {peers} at once: {min(rates):g} to {max(rates):g} GB/s each"
        for peers, rates in sorted(by_peers.items())
        if peers in (min(by_peers), max(by_peers))
    )
    planned = columns if limit is None else min(columns, limit)
    cut = max(by_peers) < planned
    gap = f"one-to-all {what}: ends at {max(by_peers)} of {planned} peers"
    return Preset(notes, (gap,) if cut else ())


def _hbm(text: str) -> Preset:
    rows = [
        (float(row[4]), f"rank {row[1]} GPU {row[2]}")
        for row in _HBM_ROW.finditer(text, max(0, text.find("MaxBw (GB/s)")))
    ]
    if not rows:
        return Preset((), ("the HBM test is truncated before its table",))
    (low, where), high = min(rows), max(rows)[0]
    count = f"{len(rows)} GPUs" if len(rows) > 1 else "1 GPU"
    note = f"HBM read of {count}: {low:g} ({where}) to {high:g} GB/s on average"
    return Preset((note,), ())
