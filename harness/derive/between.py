"""The checks of what lies between the nodes and of each GPU, where a run asked for them: the fabric's side, the path, the GPUs by themselves."""

from __future__ import annotations

from busbw import artefacts
from busbw.artefacts import GpusArtefact
from busbw.derive import fabric, probe
from busbw.parsers.judge import plugged
from busbw.preflight import probe_gpus, script
from busbw.records import CheckResult, CommandResult, Finding, Node, Status
from busbw.rundir import RunDir


def checks(run: RunDir) -> tuple[CheckResult, ...]:
    """All of them; () = the run asked for none.

    Raises:
        RunDirError: an artefact is not readable.
    """
    return (*_fabric(run), *probe.load(run), *gpus(run))


def with_far_ends(run: RunDir, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings, with the switch port at the far end of each link that one names, where the fabric was asked.

    Raises:
        RunDirError: an artefact is not readable.
    """
    found = fabric.load(run)
    return findings if found is None else plugged.with_far_ends(findings, found.topology)


def _fabric(run: RunDir) -> tuple[CheckResult, ...]:
    found = fabric.load(run)
    if found is None:
        return ()
    if found.checks and found.topology.links:
        return found.checks
    why = "; ".join(found.topology.problems[:3]) or "nothing was read that tells of a link"
    names = found.topology.missing or ("(fabric)",)
    return tuple(CheckResult("fabric.nodes", name, Status.UNKNOWN, "not found", "the fabric's links", "iblinkinfo", why) for name in names)


def gpus(run: RunDir) -> tuple[CheckResult, ...]:
    """Each GPU by itself; () = nobody asked."""
    asked = artefacts.load(run, "gpus.json", GpusArtefact)
    if asked is None:
        return ()
    family = probe_gpus.family(asked.level)
    answers = []
    for text in asked.texts:
        content = (run.read_raw(text.path.removeprefix("raw/")) or b"") if text.path else b""
        errors = (run.read_raw(text.stderr.removeprefix("raw/")) or b"") if text.stderr else b""
        result = CommandResult(text.node, ("sh", "-s"), text.exit_status, content, errors, 0.0, text.problem or None)
        answers.append(script.split(Node(text.node), result, asked.boundary, text.path or ""))
    return (*(check for answer in answers for check in family.judge(answer)), *family.compare(tuple(answers)))
