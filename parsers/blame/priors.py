"""What else speaks for a suspect: failed checks, ports' counters and log lines, as tie-breakers, never
in place of a measurement.

Nobody is flagged here, and nobody is cleared. Where the measurements cannot separate parts, the one
that other findings name comes first, and says that this is why; where they can, other findings are
quoted with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from busbw.model import Blame, Component, ComponentKind, Evidence, Finding, Status
from busbw.parsers.blame.accounts import SHARED, Account
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.explain import Explanation, Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.suspects import slow_suspect

MOST = 3
"""Other findings quoted for one suspect."""
_TELLING = (Status.FAIL, Status.WARN)


def with_priors(outcome: BlameOutcome, findings: tuple[Finding, ...]) -> BlameOutcome:
    """The outcome with its suspects ordered and supported by other findings. `findings`:
    none of a survey's own."""
    problems = tuple(finding for finding in findings if finding.status in _TELLING)
    return dataclasses.replace(
        outcome, blames=tuple(_supported(blame, problems) for blame in outcome.blames)
    )


def _supported(blame: Blame, problems: tuple[Finding, ...]) -> Blame:
    parts = (blame.component, *blame.also)
    support = [[finding for finding in problems if _supports(finding, part)] for part in parts]
    if not blame.also:
        return _with_evidence(blame, support[0], "also found")
    # A finding about a whole node supports each of its rails alike: it separates none of them.
    shared = [finding for finding in support[0] if all(finding in each for each in support)]
    separating = {
        part: [finding for finding in each if finding not in shared]
        for part, each in zip(parts, support, strict=True)
    }
    most = max(map(len, separating.values()))
    leading = [part for part in parts if most and len(separating[part]) == most]
    if len(leading) == 1:
        also = tuple(part for part in parts if part != leading[0])
        blame = dataclasses.replace(blame, component=leading[0], also=also)
    return _with_evidence(blame, separating[blame.component], "ranked first because of")


def _with_evidence(blame: Blame, findings: list[Finding], why: str) -> Blame:
    quoted = tuple(_quoted_line(finding, why) for finding in findings[:MOST])
    return dataclasses.replace(blame, seen_in=(*blame.seen_in, *quoted))


def _supports(finding: Finding, part: Component) -> bool:
    """The finding is about the part by its own name, or about the node that a rail or an inside
    belongs to. Pairs and leaves have no owner."""
    if part.label in finding.where:
        return True
    of_node = part.kind in (ComponentKind.RAIL, ComponentKind.INTRA_NODE)
    return of_node and part.names[0] in finding.where


def _quoted_line(finding: Finding, why: str) -> Evidence:
    artefact: str = "run.json"
    line_no: int | None = None
    if finding.evidence:
        artefact, line_no = finding.evidence[0].artefact, finding.evidence[0].line_no
    return Evidence(artefact, line_no, f"{why}: {finding.title}")


def doubtful_leaf(outcome: BlameOutcome) -> tuple[str, ...]:
    """The nodes of flagged leaves that the groups cannot tell from them; () = there are none."""
    nodes: dict[str, None] = {}
    for each in outcome.blames:
        for part in _of_leaf(each):
            nodes |= dict.fromkeys(part.names)
    return tuple(nodes)


def of_held_back(outcome: BlameOutcome, held_back: Mapping[str, Evidence]) -> BlameOutcome:
    """The outcome with the nodes of a leaf in its place, where the counters say that each of them is
    held back by its own port. `held_back`: node → that evidence."""
    blames: list[Blame] = []
    accounts: list[Account] = []
    replaced: list[Component] = []
    for each, account in zip(outcome.blames, outcome.accounts, strict=True):
        nodes = _of_leaf(each)
        if not nodes or not all(node.names[0] in held_back for node in nodes):
            blames.append(each)
            accounts.append(account)
            continue
        replaced.append(account.part)
        own = [_of_node(account, node, outcome.levels) for node in nodes]
        together = Explanation(tuple(Suspicion(one, ()) for one in own), ())
        for suspicion in together.flagged:
            blame = slow_suspect(suspicion, outcome.levels, together)
            proof = held_back[suspicion.account.part.names[0]]
            blames.append(dataclasses.replace(blame, seen_in=(*blame.seen_in, proof)))
        accounts += own
    if not replaced:
        return outcome
    return dataclasses.replace(
        outcome,
        blames=tuple(blames),
        flagged=tuple(account.part for account in accounts),
        accounts=tuple(accounts),
        open=tuple(each for each in outcome.open if each.account.part not in replaced),
    )


def _of_leaf(blame: Blame) -> tuple[Component, ...]:
    """The nodes or rails among what a leaf cannot be told from, where nothing else is among it but
    what is behind their ports."""
    parts = (blame.component, *blame.also)
    nodes = tuple(p for p in parts if p.kind in (ComponentKind.NODE, ComponentKind.RAIL))
    others = [part for part in parts if part not in nodes]
    if not any(part.kind is ComponentKind.LEAF for part in others):
        return ()
    return nodes if all(part.kind in SHARED for part in others) else ()


def _of_node(account: Account, node: Component, all_levels: tuple[Level, ...]) -> Account:
    """What of a leaf's account is the node's."""
    explained = [i for i in account.explained if node.names[0] in all_levels[i].sample.nodes]
    launches = {all_levels[index].launch for index in explained}
    return dataclasses.replace(
        account,
        part=node,
        slow_in=tuple(launch for launch in account.slow_in if launch in launches),
        clean_in=tuple(launch for launch in account.clean_in if launch in launches),
        explained=tuple(explained),
        busy_in=tuple(launch for launch in account.busy_in if launch in launches),
        of_each=False,
    )
