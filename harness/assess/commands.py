"""Commands of findings as a person can paste them: with the nodes, the fabric and the playbook of
the run, and with what ssh needs to reach a node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace

from busbw.errors import BusbwError
from busbw.inventory.hostlist import expand, fold
from busbw.model import Cluster, Finding, Node, Uncovered
from busbw.store.plan import RunPlan

_OURS = re.compile(r"busbw (?P<command>run|check)\b(?P<rest>[^#]*?)(?P<comment>\s+#.*)?")
_SSH = re.compile(r"ssh (?P<node>\S+) (?P<rest>.+)")
_SELECTS = frozenset({"-i", "--inventory", "-w", "--nodes", "--resume", "--replay"})
"""A command with one of these names its nodes itself."""


def completed(findings: tuple[Finding, ...], plan: RunPlan) -> tuple[Finding, ...]:
    """The findings with every command as it can be pasted."""
    return tuple(
        replace(
            finding,
            fixes=tuple(replace(fix, commands=_all(fix.commands, plan)) for fix in finding.fixes),
            verify=_all(finding.verify, plan),
            would_settle=_all(finding.would_settle, plan),
        )
        for finding in findings
    )


def settling(uncovered: tuple[Uncovered, ...], plan: RunPlan) -> tuple[Uncovered, ...]:
    """The same of what was not covered."""
    return tuple(replace(gap, would_settle=of(gap.would_settle, plan)) for gap in uncovered)


def _all(texts: Iterable[str], plan: RunPlan) -> tuple[str, ...]:
    return tuple(of(text, plan) for text in texts)


def of(text: str, plan: RunPlan) -> str:
    """One command of busbw or ssh, whole; any other text as it is."""
    ours = _OURS.fullmatch(text)
    if ours is not None:
        return _of_busbw(ours["command"], ours["rest"].split(), plan) + (ours["comment"] or "")
    remote = _SSH.fullmatch(text)
    if remote is None:
        return text
    node = next((node for node in plan.cluster.nodes if node.name == remote["node"]), None)
    return text if node is None else f"{_reach(node, plan.cluster)} {remote['rest']}"


def _of_busbw(command: str, words: list[str], plan: RunPlan) -> str:
    """
    >>> from types import SimpleNamespace as of
    >>> plan = of(words=("-i", "lab", "-x", "n2"), run_words=("quick", "--nccl-tests", "a b"),
    ...     run_id="20261123-short")
    >>> _of_busbw("run", ["-x", "n3"], plan)
    "busbw run quick -i lab -x 'n[2-3]' --nccl-tests 'a b'"
    >>> _of_busbw("run", ["soak"], plan), _of_busbw("check", [], plan)
    ("busbw run soak -i lab -x n2 --nccl-tests 'a b'", 'busbw check -i lab -x n2')
    >>> _of_busbw("run", ["--resume", "RUN"], plan)
    'busbw run --resume runs/20261123-short'
    """
    if words[-2:] == ["--resume", "RUN"]:
        # The folder that runs are made in, if nobody gave another: `raw/` does not know its place.
        words[-1] = f"runs/{plan.run_id}"
    if _SELECTS & set(words):
        return " ".join(["busbw", command, *words])
    playbook, *measures = plan.run_words if command == "run" and plan.run_words else [""]
    if words and not words[0].startswith("-"):
        playbook = words.pop(0)
    selection = list(plan.words)
    if "-x" in words and "-x" in selection:
        own, other = selection.index("-x"), words.index("-x")
        try:
            nodes = (*expand(selection[own + 1]), *expand(words[other + 1]))
        except (BusbwError, IndexError):
            # Of a plan that somebody changed: both stand there as they are.
            nodes = ()
        if nodes:
            selection[own + 1] = fold(nodes)
            del words[other : other + 2]
    known = [shlex.quote(word) for word in (playbook, *selection, *measures) if word]
    return " ".join(["busbw", command, *known, *words])


def _reach(node: Node, cluster: Cluster) -> str:
    if cluster.emulated:
        lab = cluster.source.removeprefix("lab ").partition(" ")[0]
        return f"busbw lab exec --name {lab} {node.name} --"
    words = ["ssh"]
    for option, value in (
        ("-F", cluster.ssh_config),
        ("-p", node.port),
        ("-i", node.identity_file),
        ("-l", node.user),
    ):
        if value is not None:
            words += [option, str(value)]
    for name, value in node.ssh_options:
        words += ["-o", f"{name}={value}"]
    return shlex.join([*words, node.address or node.name])
