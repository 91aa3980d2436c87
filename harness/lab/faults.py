"""Faults of a lab: real ones, made with the kernel's own means, recorded, and all of them
reversible.

A fault of a link is a change of the record; the links it concerns are then set to what the record
says (busbw.lab.network). A fault of a process is a signal, sent only to processes proven to live on
the node. What is switched on is recorded first, so that `clear` undoes it even if its maker died
half way.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from busbw.errors import LabError, NoLabError, UsageError
from busbw.lab import (
    cgroups,
    enter,
    files,
    memlock,
    network,
    persona_faults,
    persona_files,
    persona_sysfs,
    processes,
    requirements,
)
from busbw.lab.state import Fault, LabNode, LabState, Mode, Process, load_directory, locked, save
from busbw.units import format_link_rate

_TIMEOUT_S = 30.0
_LINK_FAULTS = ("slow", "loss", "link-down", "uplink")
_MARKS = {"cpu-load": "busbw-lab-load", "errors-grow": "busbw-lab-errors"}
"""Last word of the command line of what such a fault keeps running on a node."""


def slow(
    state: LabState,
    node: str,
    rate_bit_s: float,
    rail: str | None = None,
    toward: str | None = None,
) -> LabState:
    """Slow the node's rails (or one) to that rate, both ways; with `toward`, only what it sends to
    that node.

    Raises:
        LabError: no such node or rail, no links in this mode, or the kernel refused.
    """
    target = state.node(node)
    interfaces = _interfaces(state, target, rail, management=False)
    if toward is not None and state.node(toward).name == node:
        raise UsageError(
            "a node has no link to itself",
            seen=f"slow {node} --to {toward}",
            next_step=f"busbw lab fault slow {node} 100mbit",
        )
    way = f"toward {toward}" if toward else "both ways"
    detail = f"{format_link_rate(rate_bit_s)} {way} on {', '.join(interfaces)}"
    return _switch_on(
        state, Fault("slow", node, detail, interfaces, rate_bit_s=rate_bit_s, toward=toward)
    )


def loss(state: LabState, node: str, percent: float, rail: str | None = None) -> LabState:
    """Drop that share of the packets on the node's rails (or one), both ways, at random.

    Raises:
        LabError: as `slow`.
        UsageError: the share is not above 0 and at most 100.
    """
    if not 0 < percent <= 100:
        raise UsageError(
            f"{percent:g} % is no loss",
            seen="expected more than 0 and at most 100",
            next_step=f"busbw lab fault loss {node} 1",
        )
    interfaces = _interfaces(state, state.node(node), rail, management=True)
    return _switch_on(
        state,
        Fault(
            "loss",
            node,
            f"{percent:g} % both ways on {', '.join(interfaces)}",
            interfaces,
            percent=percent,
        ),
    )


def link_down(state: LabState, node: str, rail: str | None = None) -> LabState:
    """Take down the switch's end of the node's rails (or one; `mgmt` = the management link, so that
    ssh does not reach it either).

    Raises:
        LabError: as `slow`.
    """
    interfaces = _interfaces(state, state.node(node), rail, management=True)
    return _switch_on(state, Fault("link-down", node, ", ".join(interfaces), interfaces))


def uplink(state: LabState, leaf: str, rate_bit_s: float) -> LabState:
    """Slow all uplinks of a leaf to that rate, both ways.

    Raises:
        LabError: no such leaf, no uplinks, or the kernel refused.
    """
    _demand_links(state)
    if state.leaves == 1 or leaf not in network.leaf_names(state):
        known = ", ".join(network.leaf_names(state)) if state.leaves > 1 else "one leaf, no uplinks"
        raise NoLabError(
            f"the lab {state.name!r} has no uplink of {leaf!r}",
            seen=known,
            next_step="busbw lab up -n 8 --leaves 2",
        )
    return _switch_on(
        state,
        Fault("uplink", leaf, f"{format_link_rate(rate_bit_s)} both ways", rate_bit_s=rate_bit_s),
    )


def stall(state: LabState, target: str) -> LabState:
    """Stop (SIGSTOP) the ranks of running benchmarks on a node, or one rank by its number.

    Raises:
        LabError: no benchmark runs there.
    """
    ranks = _ranks(state, target)
    state = _record(
        state,
        Fault(
            "stall",
            ranks[0].node,
            _rank_text(ranks),
            processes=tuple(rank.process for rank in ranks),
        ),
    )
    _stop(tuple(rank.process for rank in ranks))
    return state


def kill(state: LabState, target: str) -> tuple[processes.Rank, ...]:
    """Kill (SIGKILL) the ranks of running benchmarks on a node, or one rank by its number; gives
    those killed. Nothing is left to clear.

    Raises:
        LabError: no benchmark runs there.
    """
    return tuple(
        rank for rank in _ranks(state, target) if processes.send(rank.process, signal.SIGKILL)
    )


def cpu_load(state: LabState, node: str, seconds: float, loops: int | None = None) -> LabState:
    """Keep the node's share of the CPUs busy for so long: as many loops as the machine has CPUs, or
    as told.

    Raises:
        LabError: the node cannot be logged in to.
    """
    count = loops or os.cpu_count() or 1
    loop = f"timeout -s KILL {seconds:g} sh -c 'while :; do :; done' {_MARKS['cpu-load']}"
    script = f"for i in $(seq {count}); do setsid {loop} </dev/null >/dev/null 2>&1 & done"
    state = _record(
        state,
        Fault("cpu-load", state.node(node).name, f"{count} busy loops for at most {seconds:g} s"),
    )
    _run(enter.reexec_argv(state, ("ssh", "-F", str(files.ssh_config(state)), node, script)), "")
    return state


def cpu_limit(state: LabState, node: str, cpus: float) -> LabState:
    """Give the node so much CPU time and no more, as a container's limit does: what is above waits
    for the next tenth of a second.

    Raises:
        UsageError: that is no share of this machine's CPUs.
        LabError: there is no such node, the lab has no control groups, or the kernel refused.
    """
    target = state.node(node)
    if state.cgroup is None:
        why = "; ".join(state.cannot) or "the lab was made with --no-cgroups"
        raise LabError(
            "the CPU time of a node cannot be limited", seen=why, next_step="as root: busbw lab up"
        )
    shown = f"{cpus:g} {'CPU' if cpus == 1 else 'CPUs'}"
    if not 0.01 <= cpus <= (os.cpu_count() or 1):
        allowed = f"expected 0.01 to {os.cpu_count()}"
        raise UsageError(
            f"{shown} is no limit here",
            seen=allowed,
            next_step=f"busbw lab fault cpu-limit {node} 0.1",
        )
    state = _change(state, _in_place_of_its_like(Fault("cpu-limit", target.name, shown)), ())
    _limit_cpus(state, node, cpus)
    return state


def _limit_cpus(state: LabState, node: str, cpus: float | None) -> None:
    try:
        cgroups.limit(cgroups.of(state, node), cpus)
    except OSError as error:
        raise LabError(
            f"the CPU time of {node} could not be set",
            seen=str(error),
            next_step="busbw lab fault clear",
        ) from error


def hardware(
    state: LabState, kind: str, node: str, index: int | None = None, seconds: float = 60.0
) -> LabState:
    """Break the hardware of a node: one of `persona_faults.kinds`, of GPU or adapter `index` (None
    = the last). Only `errors-grow` ends by itself.

    Raises:
        UsageError: there is no such kind.
        LabError: the lab shows no hardware, the node has no such GPU or adapter, or such hardware
        cannot have the fault.
    """
    if kind == "memlock-small":
        return _memlock_small(state, node)
    if kind == "errors-grow":
        return _errors_grow(state, node, index, seconds)
    fault = persona_faults.make(state, kind, node, index)
    return _change(state, _in_place_of_its_like(fault), ())


def _memlock_small(state: LabState, node: str) -> LabState:
    """For real: new sessions inherit the limit of the sshd."""
    sshd = _sshd(state.node(node))
    state = _record(
        state, Fault("memlock-small", node, f"{memlock.SMALL_BYTES >> 10} KiB", processes=(sshd,))
    )
    processes.limit_memlock(sshd, memlock.SMALL_BYTES)
    return state


def _errors_grow(state: LabState, node: str, index: int | None, seconds: float) -> LabState:
    position, adapter = persona_faults.adapter(state, node, index)
    detail = f"{adapter}: error counters grow for at most {seconds:g} s"
    state = _record(state, Fault("errors-grow", node, detail, index=position))
    script = persona_sysfs.growing(adapter, seconds, _MARKS["errors-grow"])
    _run(enter.reexec_argv(state, ("ssh", "-F", str(files.ssh_config(state)), node, script)), "")
    return state


def hang_ssh(state: LabState, node: str) -> LabState:
    """Stop the node's sshd: the kernel still accepts connections for it, nobody ever answers.
    Sessions that are open go on.

    Raises:
        LabError: the sshd does not run.
    """
    sshd = _sshd(state.node(node))
    state = _record(
        state, Fault("hang-ssh", node, "accepts connections, never answers", processes=(sshd,))
    )
    _stop((sshd,))
    return state


def host_key(state: LabState, node: str) -> LabState:
    """Give the node another host key; every known_hosts still has the first one.

    Raises:
        LabError: the node's sshd hangs, or did not come back.
    """
    target = state.node(node)
    directory = files.node_directory(state, target)
    if any(
        fault.target == node and fault.kind in ("hang-ssh", "host-key")
        for fault in load_directory(state.path).faults
    ):
        raise LabError(
            f"the sshd of {node} has a fault already",
            seen="hang-ssh or host-key",
            next_step=f"busbw lab fault clear {node}",
        )
    state = _record(state, Fault("host-key", node, "not the one in known_hosts"))
    for name in ("host_key", "host_key.pub"):
        os.replace(directory / name, directory / f"first_{name}")
    files.make_host_key(state, target)
    _restart_sshd(state, target)
    return state


def clear(state: LabState, target: str | None = None) -> LabState:
    """Undo every fault of a node or leaf, or of the whole lab (None).

    Raises:
        LabError: no such node or leaf, or the kernel refused.
    """
    if target is not None and target not in network.leaf_names(state):
        state.node(target)
    with locked(state.path.parent):
        now = load_directory(state.path)
        cleared = tuple(fault for fault in now.faults if target in (None, fault.target))
        # The last one first: a stopped sshd must go on before it can be given its first host key
        # again.
        for fault in reversed(cleared):
            _undo_process_fault(now, fault)
        restored = replace(now, faults=tuple(fault for fault in now.faults if fault not in cleared))
        _set_links(restored, cleared)
        persona_files.refresh(now, restored, restored.path / "nodes")
        save(restored)
    return restored


def _switch_on(state: LabState, fault: Fault) -> LabState:
    """A later fault of the same kind on the same links takes the place of the earlier one."""
    _demand_links(state)
    return _change(state, _in_place_of_its_like(fault), (fault,))


def _in_place_of_its_like(fault: Fault) -> Callable[[LabState], LabState]:
    return lambda now: replace(
        now,
        faults=(*(other for other in now.faults if _concerns(other) != _concerns(fault)), fault),
    )


def _concerns(fault: Fault) -> tuple[object, ...]:
    return (fault.kind, fault.target, fault.interfaces, fault.toward, fault.index)


def _record(state: LabState, fault: Fault) -> LabState:
    return _change(state, lambda now: replace(now, faults=(*now.faults, fault)), ())


def _change(
    state: LabState, change: Callable[[LabState], LabState], faults: tuple[Fault, ...]
) -> LabState:
    """Record first, then switch: a fault that is half on can be cleared."""
    enter.demand_up(state)
    with locked(state.path.parent):
        now = load_directory(state.path)
        changed = change(now)
        save(changed)
        _set_links(changed, faults)
        persona_files.refresh(now, changed, changed.path / "nodes")
    return changed


def _stop(targets: tuple[Process, ...]) -> None:
    for process in targets:
        processes.send(process, signal.SIGSTOP)
    for process in targets:
        processes.wait_until(
            partial(processes.stopped, process), _TIMEOUT_S, f"process {process.pid} to stop"
        )


def _undo_process_fault(state: LabState, fault: Fault) -> None:
    if fault.kind in ("stall", "hang-ssh"):
        for process in fault.processes:
            processes.send(process, signal.SIGCONT)
    elif fault.kind == "memlock-small":
        for process in fault.processes:
            processes.limit_memlock(process, None)
    elif fault.kind == "cpu-limit":
        _limit_cpus(state, fault.target, state.cpus_per_node)
    elif fault.kind in _MARKS:
        mark = _MARKS[fault.kind]
        for pid in processes.of_node(state, state.node(fault.target)):
            loop = processes.identify(pid)
            if loop is not None and processes.command_line(pid).endswith(mark):
                processes.send(loop, signal.SIGKILL)
    elif fault.kind == "host-key":
        node = state.node(fault.target)
        directory = files.node_directory(state, node)
        for name in ("host_key", "host_key.pub"):
            if (directory / f"first_{name}").exists():
                os.replace(directory / f"first_{name}", directory / name)
        _restart_sshd(state, node)


def _restart_sshd(state: LabState, node: LabNode) -> None:
    """SIGHUP makes sshd start itself anew under the same number; it writes its PidFile when it
    listens again."""
    pid_file = files.node_directory(state, node) / "sshd.pid"
    pid_file.unlink(missing_ok=True)
    processes.send(_sshd(node), signal.SIGHUP)
    processes.wait_until(pid_file.exists, _TIMEOUT_S, f"the sshd of {node.name} to come back")


def _sshd(node: LabNode) -> Process:
    if node.init is None or not processes.alive(node.init):
        raise LabError(f"the sshd of {node.name} does not run", next_step="busbw lab status")
    return node.init


def _ranks(state: LabState, target: str) -> tuple[processes.Rank, ...]:
    if target.isdigit():
        place = f"rank {target}"
        all_ranks = processes.ranks(state, state.nodes)
        ranks = tuple(rank for rank in all_ranks if rank.rank == int(target))
    else:
        place = f"on {target}"
        ranks = tuple(processes.ranks(state, (state.node(target),)))
    if not ranks:
        raise LabError(
            f"no benchmark process {place}",
            seen="no process whose program is named *_perf and that mpirun started",
            next_step=(
                "wait until the benchmark prints its first size: busbw run checks the nodes and builds"
                " it first"
            ),
        )
    return ranks


def _rank_text(ranks: tuple[processes.Rank, ...]) -> str:
    return ", ".join(
        f"rank {rank.rank} ({rank.executable}, pid {rank.process.pid})" for rank in ranks
    )


def _interfaces(
    state: LabState, node: LabNode, rail: str | None, *, management: bool
) -> tuple[str, ...]:
    _demand_links(state)
    names = tuple(link.interface for link in node.rails)
    if rail is None:
        return names
    if management and rail in ("mgmt", network.MANAGEMENT):
        return (network.MANAGEMENT,)
    name = f"eth{rail}" if rail.isdigit() else rail
    if name not in names:
        offered = (*names, "mgmt") if management else names
        raise NoLabError(
            f"{node.name} has no rail {rail!r}",
            seen=f"it has {', '.join(offered)}",
            next_step="busbw lab up --rails 4 gives it four",
        )
    return (name,)


def _demand_links(state: LabState) -> None:
    if state.mode is Mode.LOOPBACK:
        raise LabError(
            "nodes in loopback mode have no links to break",
            seen="; ".join(state.cannot),
            next_step=(
                "busbw lab up --mode auto, where namespaces are allowed; stall, kill, hang-ssh and"
                " host-key work here too"
            ),
        )


def _set_links(state: LabState, faults: tuple[Fault, ...]) -> None:
    """Set the links that these faults concern to what the record says.

    Raises:
        LabError: the kernel refused.
    """
    link_faults = tuple(fault for fault in faults if fault.kind in _LINK_FAULTS)
    targets = {fault.target for fault in link_faults}
    nodes = tuple(node for node in state.nodes if node.name in targets)
    kinds = {fault.kind for fault in link_faults}
    if "link-down" in kinds:
        _run(
            enter.switch_argv(state, ("ip", "-batch", "-")),
            _text(line for node in nodes for line in network.links(state, node)),
        )
    if "slow" in kinds:
        _run(
            enter.switch_argv(state, ("tc", "-batch", "-")),
            _text(line for node in nodes for line in network.switch_tc(state, node)),
        )
        for node in nodes:
            _run(
                enter.switch_argv(state, ("tc", "-n", node.name, "-batch", "-")),
                _text(network.node_tc(state, node)),
            )
    if "uplink" in kinds:
        leaves = tuple(leaf for leaf in network.leaf_names(state) if leaf in targets)
        _run(
            enter.switch_argv(state, ("tc", "-batch", "-")),
            _text(line for leaf in leaves for line in network.uplink_tc(state, leaf)),
        )
    if "loss" in kinds:
        _run(enter.switch_argv(state, ("nft", "-f", "-")), network.loss_rules(state))


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _run(argv: tuple[str, ...], text: str) -> None:
    """Run a command with that text as its input.

    Raises:
        LabError: it failed; `seen` is its output.
    """
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=requirements.environment(),
        )
        problem = (done.stderr + done.stdout).strip() or f"exit status {done.returncode}"
        if done.returncode == 0:
            return
    except subprocess.TimeoutExpired:
        problem = f"no answer within {_TIMEOUT_S:g} s"
    raise LabError(
        "the fault could not be switched",
        seen=f"{shlex.join(argv)}: {problem}",
        next_step="busbw lab fault clear",
    )
