"""The setup script of a run's launches: what it is on each node, by hash, and what it sets there,
asked once before anything is measured."""

from __future__ import annotations

from busbw import shell
from busbw.credentials import masked
from busbw.launch.env import setup_script
from busbw.model import Command, CommandResult, Unreachable
from busbw.run.context import Context
from busbw.store import artefacts
from busbw.store.artefacts import SetupArtefact, SetupNode
from busbw.text import decoded
from busbw.units import counted

FILE = "setup.json"
LIMIT_S = 30.0


def record(context: Context, nodes: tuple[str, ...]) -> None:
    """Keep raw/setup.json; nothing where no script is sourced, or where an earlier try kept it."""
    plan = context.plan
    setup = setup_script(plan.profile, plan.playbook, plan.cluster.setup)
    if setup is None or context.run.read_raw(FILE) is not None:
        return
    context.progress("setup", f"{setup.path} on {counted(len(nodes), 'node')}")
    argv = ("bash", "-c", shell.load("busbw.run", "setup_script.sh"), "busbw-setup", setup.path)
    commands = {
        node: Command(argv, timeout_s=LIMIT_S, label="setup", store=f"setup/{node}.txt")
        for node in nodes
        if node in context.fleet.sessions
    }
    answers = context.fleet.run(commands, deadline_s=LIMIT_S + 5)
    artefacts.keep(context.run, FILE, SetupArtefact(setup, tuple(_read(each) for each in answers)))


def _read(answer: CommandResult | Unreachable) -> SetupNode:
    if isinstance(answer, Unreachable):
        return SetupNode(answer.node, None, problem=answer.reason)
    if not answer.ok:
        return SetupNode(
            answer.node, None, problem=answer.problem or f"exit status {answer.exit_status}"
        )
    return parse(answer.node, decoded(answer.stdout))


def parse(node: str, text: str) -> SetupNode:
    """What the script of the same name printed.

    >>> parse("n1", "sha256 ab\\nset NCCL_IB_TC=106\\n")
    SetupNode(node='n1', sha256='ab', variables=(('NCCL_IB_TC', '106'),), problem='')
    >>> parse("n1", "absent\\n").sha256
    """
    sha256 = None
    variables = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "sha256":
            sha256 = rest
        if kind == "set":
            name, _, value = rest.partition("=")
            variables.append((name, masked(value)))
    return SetupNode(node, sha256, tuple(sorted(variables)))
