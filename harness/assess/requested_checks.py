"""The checks that a run was asked for besides those of its nodes: the fabric's side, the path, the GPUs
by themselves."""

from __future__ import annotations

from busbw.assess import network_path
from busbw.assess.fabric import load
from busbw.checks import gpu_bench, script
from busbw.model import CheckResult, CommandResult, Node, Status
from busbw.store import artefacts
from busbw.store.artefacts import GpusArtefact
from busbw.store.run_directory import RunDir


def checks(run: RunDir) -> tuple[CheckResult, ...]:
    """All of them; () = the run asked for none.

    Raises:
        RunDirError: an artefact is not readable.
    """
    return (*_fabric(run), *network_path.load(run), *gpus(run))


def _fabric(run: RunDir) -> tuple[CheckResult, ...]:
    found = load(run)
    if found is None:
        return ()
    if found.checks and found.topology.links:
        return found.checks
    why = "; ".join(found.topology.problems[:3]) or "no link was read"
    names = found.topology.missing or ("(fabric)",)
    return tuple(
        CheckResult(
            "fabric.nodes",
            name,
            Status.UNKNOWN,
            "not found",
            "the fabric's links",
            "iblinkinfo",
            why,
        )
        for name in names
    )


def gpus(run: RunDir) -> tuple[CheckResult, ...]:
    """Each GPU by itself; () = nobody asked."""
    artefact = artefacts.load(run, "gpus.json", GpusArtefact)
    if artefact is None:
        return ()
    family = gpu_bench.family(artefact.level)
    answers = []
    for text in artefact.texts:
        content = run.kept(text.path) or b""
        errors = run.kept(text.stderr) or b""
        result = CommandResult(
            text.node, ("sh", "-s"), text.exit_status, content, errors, 0.0, text.problem or None
        )
        answers.append(script.split(Node(text.node), result, artefact.boundary, text.path or ""))
    return (
        *(check for answer in answers for check in family.judge(answer)),
        *family.compare(tuple(answers)),
    )
