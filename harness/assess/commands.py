"""Commands of findings as a person can paste them: with the nodes, the fabric and the playbook of
the run, and with what ssh needs to reach a node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace

from busbw.assess import placeholders
from busbw.errors import BusbwError
from busbw.fabrics.profile import DataPath
from busbw.inventory.hostlist import expand, fold
from busbw.model import Cluster, Finding, Node, Uncovered
from busbw.store.plan import RunPlan

_OURS = re.compile(r"busbw (?P<command>run|check)\b(?P<rest>[^#]*?)(?P<comment>\s+#.*)?")
_SSH = re.compile(r"ssh (?P<node>\S+) (?P<rest>.+)")
_COPY = re.compile(r"ssh-copy-id (?P<node>\S+)")
_SELECTS = frozenset({"-i", "--inventory", "--resume", "--replay"})
"""A command with one of these says itself what its nodes are."""
_PROGRAMS = (
    "amd-smi cat chronyc cpupower dcgmi df dkms dmesg ethtool fi_info flint for free"
    " fuser grep ibstat ibv_devices ibv_devinfo ip ipcs ipmitool journalctl kill ldconfig"
    " ls lsmod lspci mlnx_qos mlxconfig mlxfwmanager mlxfwreset mlxlink modinfo modprobe"
    " mount mstconfig nstat numactl nvcc nvidia-imex-ctl nvidia-smi ofed_info perfquery"
    " ps ras-mc-ctl rdma reboot rocm-smi setpci show_gids ss sysctl systemctl tc top uptime"
)
_OF_A_NODE = frozenset(_PROGRAMS.split())
"""Programs that ask, or change, the machine on which they run."""
_LOOP = re.compile(r"for \w+ in [^;]+; do ")


def _asks_a_node(text: str) -> bool:
    """Whether it is a command of such a program, and no sentence that begins with «for».

    >>> _asks_a_node("for f in /sys/class/net/*; do cat $f/mtu; done"), _asks_a_node("for the slow node: busbw run")
    (True, False)
    """
    program = text.partition(" ")[0]
    return program in _OF_A_NODE and (program != "for" or _LOOP.match(text) is not None)


_RDMA = (
    "ibdiagnet iblinkinfo ibnetdiscover ibping ibqueryerrors ibstat ibstatus ibv_devinfo mlxlink"
    " perfquery rdma rping show_gids"
)
_RDMA_PROGRAMS = frozenset(_RDMA.split())
"""Programs that say nothing of a fabric without RDMA."""
_ON_NODE = "ssh NODE "
_SHELL = re.compile(r"[*?|;&<>$`'\"(){}~\[\]]")


def completed(findings: tuple[Finding, ...], plan: RunPlan) -> tuple[Finding, ...]:
    """The findings with every command as it can be pasted."""
    return tuple(_completed(finding, plan) for finding in findings)


def _completed(finding: Finding, plan: RunPlan) -> Finding:
    only = _only_node(finding, plan.cluster)

    def all_of(texts: Iterable[str], node: Node | None = only) -> tuple[str, ...]:
        own = (text for text in texts if _fits_fabric(text, plan))
        return tuple(_whole(text, finding, node, plan) for text in own)

    return replace(
        finding,
        fixes=tuple(
            replace(
                fix,
                commands=all_of(fix.commands, only or _shown_node(finding, fix.needs, plan)),
            )
            for fix in finding.fixes
        ),
        verify=all_of(finding.verify),
        would_settle=all_of(finding.would_settle),
    )


def _whole(text: str, finding: Finding, node: Node | None, plan: RunPlan) -> str:
    """One command with every word that the run knows. What several nodes need, each in the same
    words, stands there for the first of them."""
    others: tuple[str, ...] = ()
    if node is None and text.startswith(_ON_NODE) and placeholders.left_in(text) == {"NODE"}:
        nodes = [each for each in plan.cluster.nodes if each.name in finding.where]
        node = nodes[0] if nodes else None
        others = tuple(each.name for each in nodes[1:])
    whole = _on(placeholders.known(finding, plan, node).fill(text), node, plan)
    return f"{whole}   # the same on {fold(others)}" if others else whole


def _fits_fabric(text: str, plan: RunPlan) -> bool:
    """Whether its program knows the fabric at all."""
    family = plan.profile.family
    has_rdma = family is None or family.data_path is not DataPath.SOCKETS
    return has_rdma or text.removeprefix(_ON_NODE).partition(" ")[0] not in _RDMA_PROGRAMS


def _only_node(finding: Finding, cluster: Cluster) -> Node | None:
    """The node that all its places are of; None = several, or none."""
    names = {place.split()[0] for place in finding.where if place}
    nodes = [node for node in cluster.nodes if node.name in names]
    return nodes[0] if len(nodes) == 1 == len(names) else None


def _shown_node(finding: Finding, needs: str, plan: RunPlan) -> Node | None:
    """Of a check that several nodes fail alike: the first of them, whose answer is shown, where a
    step only looks; None = the step changes something, which all of them need."""
    if needs != "user" or not placeholders.is_of_check(finding):
        return None
    nodes = {node.name: node for node in plan.cluster.nodes}
    return next((nodes[name] for name in finding.where if name in nodes), None)


def _on(text: str, node: Node | None, plan: RunPlan) -> str:
    """One command, with what reaches the node that it is about."""
    if node is None or not _asks_a_node(text) or "raw/" in text:
        return of(text, plan)
    return _through(text, node, plan.cluster)


def _through(text: str, node: Node, cluster: Cluster) -> str:
    """The command with what runs it on the node."""
    reach = _reach(node, cluster)
    if not _SHELL.search(text):
        return f"{reach} {text}"
    shell = "sh -c " if cluster.emulated else ""
    return f"{reach} {shell}{shlex.quote(text)}"


def reaching(findings: tuple[Finding, ...], cluster: Cluster) -> tuple[Finding, ...]:
    """Findings of no run, as of a hung job: each command that asks or changes one machine with the
    node on which it runs. Of several nodes they stand behind it: a process id of one means another
    process on the next."""

    def on(text: str, names: tuple[str, ...]) -> str:
        nodes = [node for node in cluster.nodes if node.name in names]
        return _through(text, nodes[0], cluster) if len(nodes) == 1 else _behind(text, names)

    names = tuple(node.name for node in cluster.nodes)
    return tuple(_placed(finding, names, on) for finding in findings)


def naming(findings: tuple[Finding, ...], names: tuple[str, ...]) -> tuple[Finding, ...]:
    """The same where nothing says how the nodes of these names are reached, as in answers that
    somebody collected: the node stands behind each command."""
    return tuple(_placed(finding, names, _behind) for finding in findings)


def _behind(text: str, names: tuple[str, ...]) -> str:
    each = ", each with its own" if len(names) > 1 else ""
    return f"{text}   # on {fold(names)}{each}"


def _placed(
    finding: Finding, names: tuple[str, ...], on: Callable[[str, tuple[str, ...]], str]
) -> Finding:
    places = {place.split()[0] for place in finding.where if place}
    named = tuple(name for name in names if name in places)

    def whole(text: str) -> str:
        return on(text, named) if named and _asks_a_node(text) else text

    fixes = (replace(fix, commands=tuple(map(whole, fix.commands))) for fix in finding.fixes)
    return replace(
        finding, fixes=tuple(fixes), would_settle=tuple(map(whole, finding.would_settle))
    )


def settling(uncovered: tuple[Uncovered, ...], plan: RunPlan) -> tuple[Uncovered, ...]:
    """The same of what was not covered."""
    return tuple(replace(gap, would_settle=of(gap.would_settle, plan)) for gap in uncovered)


def of(text: str, plan: RunPlan) -> str:
    """One command of busbw or ssh, whole; any other text as it is."""
    ours = _OURS.fullmatch(text)
    if ours is not None:
        return _of_busbw(ours["command"], ours["rest"].split(), plan) + (ours["comment"] or "")
    remote = _SSH.fullmatch(text) or _COPY.fullmatch(text)
    if remote is None:
        return text
    node = next((node for node in plan.cluster.nodes if node.name == remote["node"]), None)
    if node is None:
        return text
    if remote.re is _COPY:
        user = ["-o", f"User={node.user}"] if node.user else []
        return shlex.join(["ssh-copy-id", *_options(node, plan.cluster), *user, _host(node)])
    # What ssh gives to a shell of the node is there one word; a lab's node runs a program.
    shell = "sh -c " if plan.cluster.emulated and remote["rest"].startswith("'") else ""
    return f"{_reach(node, plan.cluster)} {shell}{remote['rest']}"


def _of_busbw(command: str, words: list[str], plan: RunPlan) -> str:
    """
    >>> from types import SimpleNamespace as of
    >>> plan = of(words=("-i", "lab", "-x", "n2"), run_words=("quick", "--nccl-tests", "a b"))
    >>> _of_busbw("run", ["-x", "n3"], plan)
    "busbw run quick -i lab -x 'n[2-3]' --nccl-tests 'a b'"
    >>> _of_busbw("run", ["soak"], plan), _of_busbw("check", [], plan)
    ("busbw run soak -i lab -x n2 --nccl-tests 'a b'", 'busbw check -i lab -x n2')
    >>> _of_busbw("check", ["-w", "n[1-2]"], plan)
    "busbw check -i lab -w 'n[1-2]'"
    >>> _of_busbw("run", ["--nccl-tests", "/opt/c"], plan)
    'busbw run quick -i lab -x n2 --nccl-tests /opt/c'
    """
    if _SELECTS & set(words):
        return " ".join(["busbw", command, *words])
    playbook, *measures = plan.run_words if command == "run" and plan.run_words else [""]
    if words and not words[0].startswith("-"):
        playbook = words.pop(0)
    selection = list(plan.words)
    if "-w" in words:  # Some of the run's nodes: how they are reached its inventory says.
        pairs = zip(selection[::2], selection[1::2], strict=False)
        selection = [word for pair in pairs if pair[0] not in ("-w", "-x") for word in pair]
        words = [shlex.quote(word) if "[" in word else word for word in words]
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
    # What the step gives itself counts, not what this run was given.
    pairs = zip(measures[::2], measures[1::2], strict=False)
    measures = [word for pair in pairs if pair[0] not in words for word in pair]
    known = [shlex.quote(word) for word in (playbook, *selection, *measures) if word]
    return " ".join(["busbw", command, *known, *words])


def _reach(node: Node, cluster: Cluster) -> str:
    if cluster.emulated:
        lab = cluster.source.removeprefix("lab ").partition(" ")[0]
        return f"busbw lab exec --name {lab} {node.name} --"
    user = ["-l", node.user] if node.user else []
    return shlex.join(["ssh", *_options(node, cluster), *user, _host(node)])


def _host(node: Node) -> str:
    return node.address or node.name


def _options(node: Node, cluster: Cluster) -> list[str]:
    """What ssh and ssh-copy-id need alike to reach the node."""
    given = (("-F", cluster.ssh_config), ("-p", node.port), ("-i", node.identity_file))
    words = [word for name, value in given if value is not None for word in (name, str(value))]
    return [
        *words,
        *(word for name, value in node.ssh_options for word in ("-o", f"{name}={value}")),
    ]
