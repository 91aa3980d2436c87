"""The machine itself: bare or virtual, its idle states, what its control group leaves it, processes
that hang in the kernel."""

from __future__ import annotations

import re

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    SectionOutput,
    occupied,
    once,
    results_of,
)
from busbw.checks.gpu import is_amd
from busbw.checks.occupied import Process
from busbw.model import CheckResult
from busbw.parsers.tools import gpus, os_facts
from busbw.parsers.tools.os_facts import OsFacts
from busbw.text import whole_number
from busbw.units import counted

_DEEP_US = 10
"""Latency in µs from which an idle state is felt by small messages: preflight table, os.cstates."""
_DRIVERS = re.compile(
    r"nv|nvidia|mlx5|ib_|rdma|nfs|lustre|ll_|cl_|ptlrpc|ceph|gpfs|wait_on_page|io_schedule", re.I
)
_STATE = re.compile(r"(\S[^:]*):(\d+):(\d*)")
"""`C6:133:0`: name, latency, whether it is off. A name may hold blanks: `haltpoll idle`."""


def _virtual(facts: OsFacts) -> RuleResult:
    rule = Rule(
        "os.virt",
        "known: in a virtual machine the host decides about PCI, and physical counters are hidden",
    )
    maker = " ".join(word for name in ("maker", "product") if (word := facts.text(name)))
    if facts.text("virtual"):
        return rule.passed(f"virtual machine{f' ({maker})' if maker else ''}").with_values(
            type="vm"
        )
    if facts.text("flags") is None:
        reason = "this CPU architecture does not say whether it runs under a hypervisor"
        return rule.unknown(maker or "not shown", reason)
    return rule.passed(f"bare metal{f' ({maker})' if maker else ''}").with_values(type="none")


def _idle_states(facts: OsFacts) -> RuleResult:
    rule = Rule("os.cstates", f"known: idle states above {_DEEP_US} µs cost latency, not bandwidth")
    states = _STATE.findall(facts.text("cstates") or "")
    if not states:
        return rule.skipped("none", "no idle states are shown (virtual machine)")
    deep = [
        f"{name} {latency} µs"
        for name, latency, off in states
        if off == "0" and (whole_number(latency) or 0) > _DEEP_US
    ]
    seen = f"on: {', '.join(deep)}" if deep else f"none above {_DEEP_US} µs"
    return rule.passed(seen).with_values(deep_enabled=bool(deep))


@once
def _machine(output: SectionOutput) -> tuple[RuleResult, ...]:
    facts = os_facts.parse(output.stdout)
    return (_virtual(facts), _idle_states(facts))


@once
def _shares(output: SectionOutput, gpus: int, driven: int) -> tuple[RuleResult, ...]:
    facts = os_facts.parse(output.stdout)
    rule = Rule(
        "os.cgroup", "all GPUs and CPUs of the node in this session, at least one CPU per GPU"
    )
    online, allowed = (os_facts.count_of(facts.text(name) or "") for name in ("cpus", "allowed"))
    if online is None or allowed is None:
        return (rule.unknown("not shown", "the kernel shows no list of CPUs"),)
    memory = whole_number(facts.text("memory_max"))
    limit = f", memory limited to {memory >> 30} GiB" if memory is not None else ""
    seen = f"{allowed} of {online} CPUs, {counted(gpus, 'GPU')}{limit}"
    if driven > gpus:
        hidden = rule.failed(f"{seen} of the {driven} that the driver has")
        return (hidden.with_values(gpus_visible=gpus, expected=driven),)
    if allowed < max(gpus, 1) or (allowed <= gpus < online):
        return (rule.warned(seen),)
    return (rule.passed(seen),)


@once
def _hanging(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("os.dstate", "no process stuck in the kernel on a GPU, adapter or file system")
    if output.stderr.strip():
        return (rule.unknown("not shown", output.stderr.strip().splitlines()[0][:160]),)
    samples = [_waiting(part) for part in re.split(r"^again$", output.stdout, flags=re.M)]
    both = [each for each in samples[0] if each in samples[-1]] if len(samples) > 1 else []
    stuck = sorted(
        {
            f"{p.name} in {p.wait_channel}"
            for p in both
            if p.wait_channel in ("-", "0") or _DRIVERS.search(p.wait_channel)
        }
    )
    if stuck:
        return (rule.warned(", ".join(stuck[:6])).with_values(count=len(stuck)),)
    return (rule.passed("none"),)


_GROUP = "cat /proc/self/status /sys/fs/cgroup/…/memory.max"


def _waiting(text: str) -> tuple[Process, ...]:
    """The processes in state D. Threads of the kernel wait so by design."""
    kernel = ("kworker", "jbd2", "khugepaged")
    return tuple(
        p
        for p in occupied.processes(text)
        if p.state.startswith("D") and not p.name.startswith(kernel)
    )


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    listed = answer.section("nvidia_smi_list")
    visible = len(gpus.listed(listed.stdout)) if listed is not None else 0
    driver = answer.section("nvidia_driver")
    # Where nvidia-smi does not answer at all, nothing is said of what the session may see.
    driven = (
        len(re.findall(r"^gpu \S+$", driver.stdout, re.M)) if driver is not None and visible else 0
    )
    return (
        *results_of(
            answer,
            "system",
            "cat /proc/cpuinfo; ls /sys/devices/system/cpu/cpu0/cpuidle",
            ("os.virt", "os.cstates"),
            _machine,
        ),
        *results_of(
            answer,
            "system",
            f"{_GROUP}; {'amd-smi list' if is_amd(answer) else 'nvidia-smi -L'}",
            ("os.cgroup",),
            lambda output: _shares(output, visible, driven),
        ),
        *results_of(
            answer, "processes", "ps -eo state,pid,wchan:32,comm", ("os.dstate",), _hanging
        ),
    )


CHECK = CheckFamily(
    name="host",
    checks=(
        Check(
            "os.virt",
            "cat /proc/cpuinfo /sys/class/dmi/id/product_name",
            "informational: virtual machine or bare metal",
        ),
        Check(
            "os.cstates",
            "cat /sys/devices/system/cpu/cpu0/cpuidle/state*/*",
            "informational: idle states above 10 µs",
        ),
        Check(
            "os.cgroup",
            f"{_GROUP}; nvidia-smi -L",
            "fewer GPUs listed than the driver has: FAIL; fewer CPUs than GPUs: WARN",
        ),
        Check(
            "os.dstate",
            "ps -eo state,pid,wchan:32,comm, twice",
            "a process stuck in a driver or file system in two samples: WARN",
        ),
    ),
    sections=(),
    judge=_judge,
)
