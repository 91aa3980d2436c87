"""Bringing a lab up and taking it down, in any mode. Everything is recorded before it is made;
taking down reads only the record."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.errors import LabError, UsageError
from busbw.lab import (
    cgroups,
    files,
    loopback,
    memlock,
    namespaces,
    network,
    processes,
    requirements,
    slurm,
)
from busbw.lab.persona import Persona
from busbw.lab.state import (
    DEFAULT_NAME,
    RECORD,
    LabNode,
    LabState,
    Mode,
    directory_of,
    exists,
    load,
    locked,
    marker,
    save,
)
from busbw.units import counted, format_link_rate

_BEFORE_THE_RECORD = {"lab.new"}
"""What may lie in the directory of a lab whose maker was killed before its first record was
complete."""
AUTO_RATE_BIT_S_PER_CPU = 0.4e9
"""What `--rate auto` shares out per CPU over all links. Two idle CPUs push ten times as much: a
benchmark is held up by the links, also while the machine does other work."""
_LEAST_AUTO_RATE_BIT_S = 25e6
"""At this rate an all-reduce of 4 MiB takes 3 s, and the case of a playbook ends within its minute."""


@dataclass(frozen=True, slots=True)
class LabOptions:
    """What is asked for."""

    nodes: int = 4
    mode: Mode | None = None
    """None = root, else userns, else loopback: the first that this machine allows."""
    rails: int = 1
    leaves: int = 1
    rate_bit_s: float | None = None
    """Of every rail, both ways; None = as fast as the machine."""
    rate_auto: bool = False
    """True = a rate at which all links together are well within what the CPUs can push; no rate
    in loopback mode, which has no links."""
    uplink_rate_bit_s: float | None = None
    name: str = DEFAULT_NAME
    gpus: int = 2
    """Emulated GPUs per node: the ranks a launcher starts there."""
    node_ssh: bool = True
    cgroups: bool = True
    cpus_per_node: float | None = None
    """CPU time a node may use, in CPUs; None = its equal share."""
    persona: Persona | None = None
    """The hardware that nodes show without having it."""
    slurm: bool = False
    """A real Slurm over all nodes."""


def up(options: LabOptions, progress: Callable[[str], None]) -> LabState:
    """Bring a lab up.

    Raises:
        UsageError: the options make no lab.
        LabError: it is up already, something it needs is missing, or a step failed; what was made
        is taken down again.
    """
    _check(options)
    with locked():
        if exists(options.name):
            _clear_remains(load(options.name), progress)
        planned = _plan(options, progress)
        planned.path.mkdir(mode=0o755, exist_ok=True)
        save(planned)
        try:
            state = _make(planned)
        except BaseException:
            _remove(load(options.name))
            raise
        save(state)
    return state


def down(name: str | None) -> LabState | None:
    """Take a lab down, whole or half made; None = there is none of that name.

    Raises:
        LabError: something of it did not end; the record is kept.
    """
    with locked():
        if name is not None and not exists(name):
            return None
        state = load(name)
        _remove(state)
    return state


def is_up(state: LabState) -> bool:
    """True = it was made whole and still runs."""
    if state.mode is Mode.LOOPBACK:
        return state.up and any(processes.alive(node.init) for node in state.nodes)
    return state.up and processes.alive(state.holder) and processes.alive(state.init)


def _check(options: LabOptions) -> None:
    limits = (
        ("-n", options.nodes, network.MAX_NODES),
        ("--rails", options.rails, network.MAX_RAILS),
        ("--leaves", options.leaves, options.nodes),
        ("--gpus", options.gpus, 64),
    )
    for option, value, most in limits:
        if not 1 <= value <= most:
            raise UsageError(
                f"{option} {value} makes no lab",
                seen=f"expected 1 to {most}",
                next_step="busbw lab up --help",
            )
    if options.cpus_per_node is not None and not 0.01 <= options.cpus_per_node <= (
        os.cpu_count() or 1
    ):
        allowed = f"expected 0.01 to {os.cpu_count()}"
        raise UsageError(
            f"--cpus-per-node {options.cpus_per_node:g} makes no lab",
            seen=allowed,
            next_step="busbw lab up --help",
        )
    if options.uplink_rate_bit_s is not None and options.leaves == 1:
        raise UsageError(
            "one leaf has no uplinks",
            seen="--uplink-rate without --leaves 2 or more",
            next_step="add --leaves 2",
        )
    directory_of(options.name)


def _clear_remains(state: LabState, progress: Callable[[str], None]) -> None:
    if is_up(state):
        raise LabError(
            f"the lab {state.name!r} is up already",
            seen=f"{counted(len(state.nodes), 'node')}, recorded in {state.directory}",
            next_step=f"busbw lab down --name {state.name}, or give the new one another --name",
        )
    progress(f"taking down what is left of an earlier lab {state.name!r}")
    _remove(state)


def _plan(options: LabOptions, progress: Callable[[str], None]) -> LabState:
    mode, cannot = choose_mode(options.mode)
    requirements.demand(mode, persona=options.persona is not None, slurm=options.slurm)
    if options.slurm and (why_not := slurm.refused(mode)):
        raise LabError(
            "this lab cannot have a Slurm",
            seen=why_not,
            next_step="as root: busbw lab up --mode root --slurm",
        )
    directory = _free_directory(options.name)
    cgroup, enable, why = _choose_cgroup(options, mode, marker(directory))
    if cgroup is None and options.cpus_per_node is not None:
        raise LabError(
            "the CPU time of nodes cannot be limited",
            seen=why,
            next_step="leave out --cpus-per-node",
        )
    if cgroup is None:
        cannot += (f"keep one node's CPU load from the others: {why}",)
    if mode is Mode.LOOPBACK:
        _refuse_links(options)
        nodes = loopback.plan_nodes(options.nodes, marker(directory))
        if options.persona is not None:
            _refuse_persona(options.persona)
        cannot += loopback.CANNOT
    else:
        cannot += namespaces.CANNOT_AS_USER if mode is Mode.USERNS else ()
        nodes = network.plan_nodes(options.nodes, options.rails, options.leaves)
    state = LabState(
        name=options.name,
        directory=str(directory),
        mode=mode,
        up=False,
        nodes=nodes,
        gpus=options.gpus,
        user=files.login_name(),
        node_ssh=options.node_ssh,
        rate_bit_s=auto_rate(mode, nodes) if options.rate_auto else options.rate_bit_s,
        uplink_rate_bit_s=options.uplink_rate_bit_s,
        leaves=options.leaves,
        cpus_per_node=options.cpus_per_node,
        cgroup=str(cgroup) if cgroup else None,
        cgroup_parent_enabled=enable,
        cannot=cannot + (memlock.CANNOT if options.persona and memlock.needed() else ()),
        persona=options.persona,
        slurm=options.slurm,
    )
    progress(
        f"lab {state.name!r}: {counted(len(nodes), 'node')} in {mode.value} mode, recorded in {directory}"
    )
    return state


def _free_directory(name: str) -> Path:
    directory = directory_of(name)
    if directory.exists() and {entry.name for entry in directory.iterdir()} - _BEFORE_THE_RECORD:
        seen = f"{directory} has no lab.json"
        raise LabError(
            "the lab's directory is taken by something else",
            seen=seen,
            next_step="use another --name",
        )
    if re.search(r"\s", str(directory)):
        # ssh_config and sshd_config part their values at spaces.
        raise LabError(
            "a lab's directory may have no space in its path",
            seen=repr(str(directory)),
            next_step="set BUSBW_LAB_DIR",
        )
    return directory


def _choose_cgroup(
    options: LabOptions, mode: Mode, lab_marker: str
) -> tuple[Path | None, bool, str]:
    """As `cgroups.choose`, with the reasons that lie in the lab."""
    if mode is not Mode.ROOT:
        return None, False, f"a lab in {mode.value} mode makes no control groups"
    if not options.cgroups:
        return None, False, "switched off by --no-cgroups"
    return cgroups.choose(lab_marker, options.name)


def choose_mode(requested: Mode | None) -> tuple[Mode, tuple[str, ...]]:
    """The mode that is possible here and, where it is not the best, why the better ones are not.

    Raises:
        LabError: the requested one is not possible, or its programs are missing.
    """
    if requested is Mode.LOOPBACK:
        return requested, ()
    if requested is not None:
        requirements.demand(requested)
        why = _refused(requested)
        if why:
            raise LabError(
                f"no lab in {requested.value} mode can be made here",
                seen=why,
                next_step="busbw lab up --mode auto",
            )
        return requested, ()
    requirements.demand(Mode.ROOT)
    cannot: tuple[str, ...] = ()
    for mode in (Mode.ROOT, Mode.USERNS):
        why = _refused(mode)
        if not why:
            return mode, cannot
        cannot += (f"run in {mode.value} mode: {why}",)
    return Mode.LOOPBACK, cannot


def _refused(mode: Mode) -> str:
    if mode is Mode.ROOT and os.geteuid() != 0:
        return "not root"
    if mode is Mode.USERNS and os.geteuid() == 0:
        return "an sshd started by root cannot separate privileges in a user namespace"
    return namespaces.refused(mode)


def _refuse_links(options: LabOptions) -> None:
    if (options.rails, options.leaves) != (1, 1) or options.rate_bit_s:
        raise LabError(
            "a lab in loopback mode has no links to give a number, a switch or a rate",
            seen=(
                "one of --rails, --leaves, --rate with --mode loopback, or with --mode auto where"
                " namespaces are refused"
            ),
            next_step="busbw lab up --mode root, as root, says what refuses namespaces",
        )


def _refuse_persona(persona: Persona) -> None:
    raise LabError(
        f"nodes in loopback mode cannot show the hardware of {persona.name}",
        seen="they share this machine's /sys",
        next_step="busbw lab up --mode auto, where namespaces are allowed",
    )


def auto_rate(mode: Mode, nodes: tuple[LabNode, ...]) -> float | None:
    """A rate of two digits that all links can have at once; None = in this mode there are none."""
    if mode is Mode.LOOPBACK:
        return None
    links = sum(len(node.rails) for node in nodes)
    share = AUTO_RATE_BIT_S_PER_CPU * len(os.sched_getaffinity(0)) / links
    step = 10.0 ** (len(str(int(share))) - 2)
    return max(share // step * step, _LEAST_AUTO_RATE_BIT_S)


def _make(planned: LabState) -> LabState:
    files.write_all(planned)
    if planned.slurm:
        slurm.write(planned)
    if planned.mode is Mode.LOOPBACK:
        state = loopback.start(planned)
    else:
        namespaces.write_wiring(planned)
        cgroups.make(planned)
        state = namespaces.start(planned)
    return replace(state, up=True)


def _remove(state: LabState) -> None:
    """End its processes, with them its namespaces and mounts; then remove its control groups, then
    its directory."""
    if state.mode is Mode.LOOPBACK:
        loopback.end(state)
    else:
        namespaces.end(state)
    cgroups.remove(state)
    _remove_directory(state.path)


def _remove_directory(directory: Path) -> None:
    """The record goes last: stopped half way, this can be done again."""
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name == RECORD):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    directory.rmdir()


@dataclass(frozen=True, slots=True)
class LabStatus:
    """The record of a lab and what is seen of it now."""

    state: LabState
    running: bool
    """True = it was made whole and still runs."""
    without_sshd: tuple[str, ...]
    """Nodes whose sshd has ended."""
    ssh_config: str


def status(state: LabState) -> LabStatus:
    """Look at the lab's processes."""
    without_sshd = tuple(node.name for node in state.nodes if not processes.alive(node.init))
    return LabStatus(state, is_up(state), without_sshd, str(files.ssh_config(state)))


def status_text(state: LabState) -> str:
    """The status for people."""
    now = status(state)
    first = state.nodes[0]
    last = state.nodes[-1]
    running = "up" if now.running else "NOT RUNNING"
    lines = [
        (
            f"lab {state.name}: {running}, {counted(len(state.nodes), 'node')}, {state.mode.value} mode, in"
            f" {state.directory}"
        ),
        (
            f"  nodes      {first.name} ({first.address}) to {last.name} ({last.address}),"
            f" {_ranks_text(state)}"
        ),
        (
            f"  rails      {', '.join(rail.interface for rail in first.rails)}:"
            f" {rate_text(state.rate_bit_s)}"
        ),
    ]
    if state.persona is not None:
        lines.append(
            f"  shows      {state.persona.title} per node (invented: persona {state.persona.name})"
        )
    if state.slurm:
        lines.append(
            "  slurm      srun, salloc and sbatch on every node and in busbw lab exec;"
            " partition lab"
        )
    if state.leaves > 1:
        lines.append(f"  leaves     {state.leaves}, uplinks: {rate_text(state.uplink_rate_bit_s)}")
    lines.append(
        f"  ssh        busbw lab exec{state.option} -- ssh -F {now.ssh_config} {first.name}"
    )
    if now.without_sshd:
        lines.append(f"  no sshd    {', '.join(now.without_sshd)}")
    lines += [f"  fault      {fault.target}: {fault.kind} {fault.detail}" for fault in state.faults]
    lines += [f"  cannot     {limit}" for limit in state.cannot]
    if not now.running:
        lines.append(f"  next       busbw lab down --name {state.name}")
    return "\n".join(lines) + "\n"


def _ranks_text(state: LabState) -> str:
    if state.persona is None:
        return f"{state.gpus} emulated GPUs each"
    return f"a benchmark starts {state.gpus} ranks on each"


def rate_text(rate_bit_s: float | None) -> str:
    """A link's rate for people."""
    return "not shaped" if rate_bit_s is None else f"{format_link_rate(rate_bit_s)} each way"
