"""What gpu-burn (1.0 and 1.1) prints: the rate and the errors of each GPU while it multiplies matrices,
and its verdict on each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs
from busbw.units import counted

_BEGIN = re.compile(r"^Burning for \d+ seconds", re.M)
_PROGRESS = re.compile(r"(\d{1,3}\.\d)%  +proc'd: ([^\n\r]{1,4000})")
_RATE = re.compile(r"(-?\d{1,12}) \((\d{1,9}) Gflop/s\)")
_TESTED = re.compile(r"^Tested (\d{1,5}) GPUs?:", re.M)
_VERDICT = re.compile(r"^[ \t]*GPU (\d{1,4}): (OK|FAULTY)\b", re.M)
_DEAD = re.compile(
    r"(No clients are alive!|Couldn't init a GPU test: .{1,200}|Couldn't init CUDA: .{1,200}"
    r"|Failure during compute: .{1,200}|Low mem for result\b.{0,80})",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Burn:
    """One run."""

    percent: float | None
    """How far it came; None = not shown."""
    gflop_s: tuple[int, ...]
    """Of each GPU, at last."""
    verdicts: tuple[tuple[int, str], ...]
    """GPU, `OK` or `FAULTY`."""
    planned: int | None
    """GPUs that it tested; None = it did not end."""
    problems: tuple[str, ...]


def parse(text: str) -> tuple[Burn, ...]:
    """Every run in a text.

    >>> parse("Tested 2 GPUs:\\n\\tGPU 0: OK\\n\\tGPU 1: FAULTY\\n")[0].verdicts
    ((0, 'OK'), (1, 'FAULTY'))
    """
    found = map(_run, runs(_BEGIN, text))
    return tuple(run for run in found if run is not None)


def _run(text: str) -> Burn | None:
    progress = _PROGRESS.findall(text)
    tested = _TESTED.search(text)
    dead = tuple(dict.fromkeys(match[1].strip() for match in _DEAD.finditer(text)))
    begun = _BEGIN.search(text) is not None
    if not (progress or tested or dead or begun):
        return None
    percent, rates = progress[-1] if progress else ("", "")
    counts = _RATE.findall(rates)
    died = [f"GPU {number} died" for number, (count, _) in enumerate(counts) if count == "-1"]
    verdicts = _VERDICT.findall(text, tested.end()) if tested else []
    return Burn(
        percent=float(percent) if percent else None,
        gflop_s=tuple(int(rate) for _, rate in counts),
        verdicts=tuple((int(gpu), verdict) for gpu, verdict in verdicts),
        planned=int(tested[1]) if tested else None,
        problems=(*dead, *died),
    )


def _lines(run: Burn) -> Iterator[str]:
    if run.gflop_s:
        yield f"{run.percent:g} %, {min(run.gflop_s)} to {max(run.gflop_s)} Gflop/s on {counted(len(run.gflop_s), 'GPU')}"
    good = sum(verdict == "OK" for _, verdict in run.verdicts)
    if run.planned is not None:
        yield f"{good} of {run.planned} GPUs OK"


def _errors(run: Burn) -> Iterator[str]:
    yield from (f"gpu-burn: {problem}" for problem in run.problems)
    yield from (
        f"gpu-burn: GPU {gpu}: {verdict}" for gpu, verdict in run.verdicts if verdict != "OK"
    )


def _gaps(run: Burn) -> Iterator[str]:
    if run.planned is None:
        yield "gpu-burn: the run has no end, and no verdict on any GPU"
    elif len(run.verdicts) < run.planned:
        yield f"gpu-burn: verdicts on {len(run.verdicts)} of {run.planned} GPUs"


TOOL = Tool(
    name="gpu-burn",
    marks=(
        "proc'd: ",
        "Burning for ",
        "No clients are alive!",
        "Couldn't init ",
        "Failure during compute",
        "GPU 0: OK",
        "FAULTY",
    ),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
