"""The operating system of a node: load, pressure, governor, memory placement, disks, names, time,
firewall."""

from __future__ import annotations

import re

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    evidence_of,
    once,
    results_of,
)
from busbw.model import CheckResult, Status
from busbw.parsers.tools import os_facts
from busbw.parsers.tools.os_facts import OsFacts

_LOAD_PER_CPU = 0.5
_CPU_PRESSURE = 10.0
_STALL_PRESSURE = 5.0
_SHM_MIB = 1024
_DISK_PERCENT = 95
_OFFSET_MS = 100.0
"""Limits of the preflight table: docs/checks.md."""


def _rules(output: SectionOutput) -> tuple[RuleResult, ...]:
    facts = os_facts.parse(output.stdout)
    return (_load(facts), _pressure(facts), _governor(facts), _balancing(facts), _iommu(facts))


def _load(facts: OsFacts) -> RuleResult:
    rule = Rule("os.cpu_load", f"load below {_LOAD_PER_CPU:g} per CPU before the run")
    load, cpus = (facts.text("loadavg") or "").split(), os_facts.count_of(facts.text("cpus") or "")
    if not load or not cpus:
        return rule.unknown("not shown", "/proc/loadavg or the list of CPUs gave nothing")
    busy = float(load[0]) / cpus > _LOAD_PER_CPU
    status = Status.WARN if busy else Status.PASS
    result = rule.result(status, "busy" if busy else "idle", line_no=facts.line_no("loadavg"))
    return result.with_values(load_per_core=round(float(load[0]) / cpus, 3))


def _pressure(facts: OsFacts) -> RuleResult:
    rule = Rule("os.psi", "no tasks waiting for CPU, memory or disks")
    cpu = _average(facts.text("psi_cpu"))
    if cpu is None:
        return rule.skipped("not shown", "this kernel does not count pressure")
    stalled = [
        name
        for name in ("memory", "io")
        if (_average(facts.text(f"psi_{name}")) or 0.0) > _STALL_PRESSURE
    ]
    bad = (["cpu"] if cpu > _CPU_PRESSURE else []) + stalled
    status, line_no = (
        Status.WARN if bad else Status.PASS,
        facts.line_no(f"psi_{bad[0]}" if bad else "psi_cpu"),
    )
    result = rule.result(
        status, f"waiting for {', '.join(bad)}" if bad else "none", line_no=line_no
    )
    memory, disks = _average(facts.text("psi_memory")), _average(facts.text("psi_io"))
    return result.with_values(cpu_some_avg60=cpu, memory_full_avg60=memory, io_full_avg60=disks)


def _average(line: str | None) -> float | None:
    match = re.search(r"avg60=(\d+(?:\.\d+)?)", line or "")
    return float(match[1]) if match else None


def _governor(facts: OsFacts) -> RuleResult:
    rule = Rule("os.cpu_governor", "CPU governor performance")
    governors = (facts.text("governor") or "").split()
    if not governors:
        return rule.skipped("none", "no frequency scaling is shown (virtual machine)")
    good = governors == ["performance"]
    status, line_no = Status.PASS if good else Status.WARN, facts.line_no("governor")
    odd = next((name for name in sorted(governors) if name != "performance"), "performance")
    return rule.result(status, ", ".join(sorted(governors)), line_no=line_no).with_values(
        governor=odd
    )


def _balancing(facts: OsFacts) -> RuleResult:
    rule = Rule("os.numa_balancing", "automatic NUMA balancing off (0)")
    value = facts.text("numa_balancing")
    if value is None:
        return rule.skipped("not shown", "this kernel has no NUMA balancing")
    status, line_no = Status.PASS if value == "0" else Status.WARN, facts.line_no("numa_balancing")
    return rule.result(status, value, line_no=line_no).with_values(
        value=facts.number("numa_balancing")
    )


def _iommu(facts: OsFacts) -> RuleResult:
    rule = Rule("os.iommu", "IOMMU off or passthrough (iommu=pt)")
    kinds = (facts.text("iommu") or "").split()
    if facts.text("virtual"):
        return rule.skipped("virtual machine", "in a virtual machine the host decides")
    status, mode = Status.PASS, "passthrough" if kinds else "off"
    if any(kind.startswith("DMA") for kind in kinds):
        status, mode = Status.WARN, "translated"
    result = rule.result(status, mode, line_no=facts.line_no("iommu"))
    return result.with_values(mode=mode)


def _disks(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    expected = f"every disk answers and is at most {_DISK_PERCENT} % full"
    output = answer.section("disks")
    if output is not None and output.timed_out:
        seen = "df did not end: a mount that does not answer"
        evidence = evidence_of(answer, output)
        return tuple(
            CheckResult(
                i, answer.node.name, Status.FAIL, seen, expected, "df -P", evidence=evidence
            )
            for i in ("os.disk", "os.shm")
        )
    return results_of(answer, "disks", "df -P / /tmp /dev/shm", ("os.disk", "os.shm"), _disk_rules)


@once
def _disk_rules(output: SectionOutput) -> tuple[RuleResult, ...]:
    rows = re.findall(r"^\S+\s+(\d+)\s+\d+\s+\d+\s+(\d+)%\s+(\S+)$", output.stdout, re.M)
    if not rows:
        return ()
    expected = f"every disk answers and is at most {_DISK_PERCENT} % full"
    full = [mount for _, percent, mount in rows if int(percent) > _DISK_PERCENT]
    room = RuleResult(
        "os.disk",
        Status.WARN if full else Status.PASS,
        f"full: {', '.join(full)}" if full else "room",
        expected,
    )
    results = [room.with_values(percent_used=max(int(percent) for _, percent, _ in rows))]
    shm = next((int(size) // 1024 for size, _, mount in rows if mount == "/dev/shm"), None)
    if shm is not None:
        expected = f"at least {_SHM_MIB} MiB of shared memory (64 MiB is a container's default)"
        good = shm >= _SHM_MIB
        memory = RuleResult(
            "os.shm",
            Status.PASS if good else Status.FAIL,
            "enough" if good else f"{shm} MiB",
            expected,
        )
        results.append(memory.with_values(size_mb=shm))
    return tuple(results)


@once
def _own_name(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("os.hosts", "the node's own name resolves to an address that others reach")
    addresses = sorted({line.split()[0] for line in output.stdout.splitlines() if line.split()})
    if not addresses:
        return (rule.warned("its own name does not resolve"),)
    loopback = [address for address in addresses if address.startswith("127.") or address == "::1"]
    if loopback:
        result = rule.warned(f"its own name resolves to {', '.join(loopback)}")
        return (result.with_values(self_resolves_to_loopback=True),)
    return (rule.passed("resolves"),)


@once
def _firewall(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("os.firewall", "no firewall between the nodes (NCCL and MPI use any port)")
    states = output.stdout.split()[1:]
    states_known = {"active", "inactive", "failed", "unknown", "activating", "deactivating"}
    if len(states) != len(_FIREWALLS) or not set(states) <= states_known:
        reason = (output.stderr or output.stdout).strip().splitlines()[:1] or [
            "systemctl printed nothing"
        ]
        return (rule.unknown("not shown", reason[0]),)
    on = [name for name, state in zip(_FIREWALLS, states, strict=True) if state == "active"]
    result = rule.result(
        Status.WARN if on else Status.PASS, f"active: {', '.join(on)}" if on else "none active"
    )
    return (result.with_values(active=bool(on)),)


@once
def _time(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("os.time", f"clock synchronised, offset at most {_OFFSET_MS:g} ms")
    offset = re.search(r"^System time\s*:\s*(\d+(?:\.\d+)?) seconds", output.stdout, re.M)
    synchronised = re.search(r"^NTPSynchronized=(yes|no)$", output.stdout, re.M)
    if offset and float(offset[1]) * 1000 > _OFFSET_MS:
        far = rule.warned(f"offset above {_OFFSET_MS:g} ms")
        return (far.with_values(offset_ms=round(float(offset[1]) * 1000, 3)),)
    if synchronised and synchronised[1] == "no" and not offset:
        return (rule.warned("not synchronised"),)
    if offset or synchronised:
        return (rule.passed("synchronised"),)
    return (rule.unknown("not shown", "neither timedatectl nor chronyc tells"),)


_FIREWALLS = ("firewalld", "ufw", "nftables")
_SERVICES = f"systemctl is-active nvidia-fabricmanager {' '.join(_FIREWALLS)}"
_IDS = ("os.cpu_load", "os.psi", "os.cpu_governor", "os.numa_balancing", "os.iommu")
CHECK = CheckFamily(
    name="system",
    checks=(
        Check("os.cpu_load", "cat /proc/loadavg; nproc", "load above 0.5 per CPU: WARN"),
        Check(
            "os.psi",
            "cat /proc/pressure/*",
            "pressure (avg60) above 10 % for CPU, above 5 % for memory or disks: WARN",
        ),
        Check(
            "os.cpu_governor",
            "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            "not performance: WARN",
        ),
        Check("os.numa_balancing", "cat /proc/sys/kernel/numa_balancing", "on: WARN"),
        Check(
            "os.iommu",
            "cat /sys/kernel/iommu_groups/*/type",
            "DMA goes through translation on bare metal: WARN",
        ),
        Check(
            "os.disk",
            "df -P / /tmp /dev/shm",
            "df does not end: FAIL; a disk is more than 95 % full: WARN",
        ),
        Check("os.shm", "df -P /dev/shm", "below 1024 MiB: FAIL"),
        Check("os.hosts", "getent ahosts $(uname -n)", "resolves to loopback, or not at all: WARN"),
        Check(
            "os.firewall",
            "systemctl is-active firewalld ufw nftables",
            "a firewall is active: WARN",
        ),
        Check(
            "os.time",
            "timedatectl show -p NTPSynchronized; chronyc tracking",
            "not synchronised, or more than 100 ms off: WARN",
        ),
    ),
    sections=(
        # Always asked: it says whether the node is a virtual machine.
        Section("system", small=True),
        Section("disks", "df -P / /tmp /dev/shm", serves=("os.disk", "os.shm")),
        Section("own_name", 'getent ahosts "$(uname -n)"; :', serves=("os.hosts",)),
        Section("services", _SERVICES, serves=("os.firewall", "gpu.fabricmanager")),
        Section(
            "time",
            "command -v timedatectl >/dev/null && timedatectl show -p NTPSynchronized; "
            "command -v chronyc >/dev/null && chronyc -n tracking; :",
            serves=("os.time",),
        ),
    ),
    judge=lambda answer: (
        *results_of(answer, "system", "cat /proc/loadavg /proc/pressure/cpu …", _IDS, _rules),
        *_disks(answer),
        *results_of(answer, "own_name", "getent ahosts $(uname -n)", ("os.hosts",), _own_name),
        *results_of(
            answer,
            "services",
            f"systemctl is-active {' '.join(_FIREWALLS)}",
            ("os.firewall",),
            _firewall,
        ),
        *results_of(
            answer,
            "time",
            "timedatectl show -p NTPSynchronized; chronyc tracking",
            ("os.time",),
            _time,
        ),
    ),
)
