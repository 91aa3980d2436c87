"""The raw links that a survey measured, beside what the benchmark got over them."""

from __future__ import annotations

from dataclasses import dataclass

from busbw import artefacts
from busbw.outside import decoded
from busbw.parsers.judge.blame_layers import Layer, everything
from busbw.parsers.judge.groups import GroupSample
from busbw.rundir import RunDir
from busbw.survey import raw_link


@dataclass(frozen=True, slots=True)
class LayersArtefact:
    """`raw/layers.json`: which raw links were measured, and where the tools' words are."""

    pairs: tuple[tuple[str, str], ...]
    interfaces: tuple[tuple[str, ...], ...]
    """Of the pairs, in rail order."""
    paths: tuple[str | None, ...]
    """Inside the run directory; None = nothing could be asked, see `problems`."""
    problems: tuple[str, ...]
    rdma: bool


def load(run: RunDir, samples: tuple[GroupSample, ...]) -> tuple[Layer, ...]:
    """Every rail of the pairs that were measured, beside what the survey got over it; () = no raw link was measured.

    Raises:
        RunDirError: the artefact is not readable.
    """
    kept = artefacts.load(run, "layers.json", LayersArtefact)
    if kept is None:
        return ()
    found = []
    for nodes, interfaces, path, problem in zip(kept.pairs, kept.interfaces, kept.paths, kept.problems, strict=True):
        content = run.read_raw(path.removeprefix("raw/")) if path else None
        links = raw_link.parse(decoded(content), interfaces, rdma=kept.rdma)
        for rail in range(len(interfaces)):
            mine = [link for link in links if link.rail == rail]
            rates = [link.gbit_s / 8 for link in mine if link.gbit_s is not None]
            why = next((link.problem for link in mine if link.problem), "") or problem
            slowest = min(rates) if rates and len(rates) == len(mine) else None
            layer = Layer(
                nodes, rail, mine[0].tool, slowest, everything(samples, nodes, rail), path or "raw/layers.json", why, tuple(rates)
            )
            found.append(layer)
    return tuple(found)
