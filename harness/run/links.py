"""`busbw check --links`: the link test of the whole fleet. Loads the network, so never beside
somebody else's work."""

from __future__ import annotations

from busbw import assess
from busbw.assess import links
from busbw.errors import UsageError
from busbw.run import leases
from busbw.run.checking import ProbedNodes
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline
from busbw.survey.link_baseline import LinkBaselineArtefact
from busbw.survey.measure_links import measure_fleet

SCHEMA = "busbw.links/1"


def recorded(run: RunDir) -> tuple[float, tuple[str, ...], bool]:
    """(budget in seconds, memories, whether ports were asked with sudo) of a recorded link test.

    Raises:
        UsageError: the run made none.
        RunDirError: its artefact is not readable.
    """
    artefact = link_baseline.kept(run)
    if artefact is None or artefact.budget_s is None:
        raise UsageError(
            "--replay takes a recorded link test",
            seen=f"{run.run_id}, which made none",
            next_step="give a run of busbw check --links",
        )
    memories = ("host", "gpu") if artefact.memory == "both" else (artefact.memory,)
    return artefact.budget_s, memories, artefact.sudo


def measure(nodes: ProbedNodes, budget_s: float, *, memories: tuple[str, ...], sudo: bool) -> None:
    """Measure all nodes that were reached, for each of `memories` (`host`, `gpu`).

    Raises:
        BusyError: other jobs or another run of busbw are on the nodes.
    """
    with leases.alone_on(nodes) as context:
        plan = assess.load_plan(context.run)

        def settled(artefact: LinkBaselineArtefact) -> bool:
            return links.settled(links.judge(context.run, plan, artefact))

        measure_fleet(context, budget_s, memories=memories, sudo=sudo, settled=settled)
