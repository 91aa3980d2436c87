"""The GPUs of a node: how many, their settings, errors, limits, who uses them."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    evidence_of,
    of_kind,
    once,
    results_of,
)
from busbw.checks.gpu_rules import (
    IDS,
    GpuState,
    count_of,
    from_query,
    from_table,
    pcie_width,
    processes,
    rule,
)
from busbw.model import CheckResult, Status
from busbw.parsers.tools import amd_smi, nvidia_smi, nvidia_smi_details, nvidia_smi_query
from busbw.parsers.tools.nvidia_smi import SmiTable
from busbw.parsers.tools.nvidia_smi_query import QueryRow
from busbw.parsers.tools.os_facts import OsFacts
from busbw.units import counted


def is_amd(answer: NodeAnswer) -> bool:
    """Whether the node's GPUs are AMD's."""
    listed, software = answer.section(_FIRST), answer.section("amd_software")
    return (listed is not None and amd_smi.is_json(listed.stdout)) or (
        software is not None and software.stdout.startswith("rocm=")
    )


def without_rdma(rule: Rule, facts: OsFacts) -> RuleResult | None:
    """What a check of GPUDirect RDMA says of a node that has no RDMA device; None = it has one, or
    the node does not say."""
    if facts.text("rdma") != "none":
        return None
    return rule.skipped("no RDMA device", "without an RDMA device there is no GPUDirect RDMA")


_QUERY = (
    "index,uuid,name,driver_version,persistence_mode,mig.mode.current,power.limit,power.default_limit,pcie.link.width.current,"
    "pcie.link.width.max,memory.used,vbios_version,ecc.errors.uncorrected.volatile.total,clocks.sm,clocks.max.sm,utilization.gpu,pci.bus_id"
)
_APPS = "gpu_uuid,pid,used_memory"
_REMAP = "gpu_uuid,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure"
_UNCORRECTABLE_ROWS = 512
"""Above it a GPU is replaced: Azure node health checks."""
_TEMPERATURE_MARGIN_C = 5
_SLOW_S = 20.0
_CLOCK_SHARE = 0.9
_BUSY_PERCENT = 50
"""Limits of the preflight table: docs/checks.md; utilisation from which a GPU counts as under
load."""
_NAMED = re.compile(r"\bGPU (\d+)")
_HEADS = ("index,", "gpu_uuid,")
_MORE = ("gpu.pcie_link", "gpu.throttle", "gpu.clocks")
"""What is read of the same query beside the settings."""
_REASONS = (
    (0x8, "hardware slowdown", Status.FAIL),
    (0x40, "hardware thermal slowdown", Status.FAIL),
    (0x80, "power brake", Status.FAIL),
    (0x20, "software thermal slowdown", Status.WARN),
)
"""Bits of the clocks event reasons: nvml.h. Idle (0x1) and the software power cap (0x4) are
normal."""
_BITS = (
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake", 0x80),
)


@once
def _count(output: SectionOutput, count: int | None) -> tuple[RuleResult, ...]:
    rule = Rule(
        "gpu.count",
        counted(count, "GPU") if count is not None else "GPUs, as many as on the other nodes",
    )
    models = [gpu.model for gpu in nvidia_smi.parse_list(output.stdout)]
    text = (output.stdout + output.stderr).strip()
    if not models:
        seen = (
            f"no GPU ({text.splitlines()[0]})" if text else "no GPU (nvidia-smi -L printed nothing)"
        )
        return (rule.failed(seen).with_values(count=0, expected=count),)
    kinds = " + ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
    bad = output.exit_status != 0 or (count is not None and len(models) != count)
    reason = f"nvidia-smi ended with exit status {output.exit_status}" if output.exit_status else ""
    # The last one listed shows how far the list goes.
    lines = enumerate(output.stdout.splitlines(), 1)
    last = max((n for n, line in lines if line.startswith("GPU ")), default=None)
    result = rule.result(
        Status.FAIL if bad else Status.PASS, kinds, reason, line_no=last if bad else None
    )
    return (result.with_values(count=len(models), expected=count),)


@once
def _states(output: SectionOutput) -> tuple[GpuState, ...]:
    rows = nvidia_smi_query.parse(output.stdout)
    return from_query(rows) if rows else ()


@once
def _settings(output: SectionOutput) -> tuple[RuleResult, ...]:
    text = output.stdout + output.stderr
    if "Driver/library version mismatch" in text:
        expected = "one driver version, every GPU answers it"
        return (
            RuleResult(
                "gpu.driver",
                Status.FAIL,
                "Driver/library version mismatch: upgraded without a reboot",
                expected,
            ),
        )
    rows, gpus = nvidia_smi_query.parse(output.stdout), _states(output)
    if not rows or not gpus:
        return ()
    results = (*rule(gpus), pcie_width(gpus), *_throttle(rows), _clocks(rows))
    return tuple(_at_row(result, output) for result in results)


def _at_row(result: RuleResult, output: SectionOutput) -> RuleResult:
    """With the line of the first GPU that it names, where it is not well: the head of the table
    proves nothing."""
    named = _NAMED.search(result.seen)
    if named is None or result.status not in (Status.FAIL, Status.WARN):
        return result
    lines = output.stdout.splitlines()
    head = next((n for n, line in enumerate(lines, 1) if line.startswith(_HEADS)), 0)
    by_index = (n for n, line in enumerate(lines, 1) if re.match(rf"{named[1]}\s*,", line))
    number = next(by_index, head + 1 + int(named[1]))
    return replace(result, line_no=number) if number <= len(lines) else result


@once
def _remap(output: SectionOutput) -> tuple[RuleResult, ...]:
    failed, pending = (_rows(output, name) for name in ("failure", "pending"))
    return tuple(
        _at_row(result.with_values(failure=failed, pending=pending), output)
        for result in _remapped(output)
    )


def _rows(output: SectionOutput, name: str) -> int:
    """GPUs of which a remapping is so."""
    rows = nvidia_smi_query.parse(output.stdout) or ()
    return sum(row.text(f"remapped_rows.{name}") not in (None, "0", "No") for row in rows)


def _remapped(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule(
        "gpu.remap",
        f"no row remapping failed or pending, at most {_UNCORRECTABLE_ROWS} uncorrectable rows",
    )
    rows = nvidia_smi_query.parse(output.stdout)
    if rows is None:
        return ()
    bad = []
    for position, row in enumerate(rows):
        if row.text("remapped_rows.failure") not in (None, "0", "No"):
            bad.append(f"GPU {position}: remapping failed (replace it)")
        elif row.text("remapped_rows.pending") not in (None, "0", "No"):
            bad.append(f"GPU {position}: pending until the GPU is reset")
        elif (row.number("remapped_rows.uncorrectable") or 0) > _UNCORRECTABLE_ROWS:
            bad.append(f"GPU {position}: more than {_UNCORRECTABLE_ROWS} uncorrectable rows")
    if bad:
        return (rule.failed(", ".join(bad)),)
    if all(row.text("remapped_rows.failure") is None for row in rows):
        return (rule.skipped("not shown", "these GPUs do not remap rows"),)
    return (rule.passed("none"),)


def _throttle(rows: tuple[QueryRow, ...]) -> tuple[RuleResult, ...]:
    expected = "no GPU slowed down by heat, power brake or hardware"
    known = []
    for i, row in enumerate(rows):
        mask = row.number("clocks_event_reasons.active")
        if mask is None:
            mask = row.number("clocks_throttle_reasons.active")
        if mask is not None:
            known.append((i, int(mask)))
    if not known:
        return ()
    hits = [
        (status, f"GPU {i}: {reason}")
        for i, mask in known
        for bit, reason, status in _REASONS
        if mask & bit
    ]
    active = {
        name: "active" if any(mask & bit for _, mask in known) else "inactive"
        for name, bit in _BITS
    }
    status = Status.PASS
    if hits:
        status = Status.FAIL if any(each is Status.FAIL for each, _ in hits) else Status.WARN
    seen = ", ".join(text for _, text in hits) or "none"
    return (RuleResult("gpu.throttle", status, seen, expected).with_values(**active),)


def _clocks(rows: tuple[QueryRow, ...]) -> RuleResult:
    """Clocks mean something under load only, and a check puts none on a GPU: only what somebody
    else keeps busy is judged."""
    rule = Rule("gpu.clocks", f"at least {_CLOCK_SHARE:.0%} of the maximum clock under load")
    busy = [
        (i, row)
        for i, row in enumerate(rows)
        if (row.number("utilization.gpu") or 0) >= _BUSY_PERCENT
    ]
    known = [
        (i, now, most)
        for i, row in busy
        if (now := row.number("clocks.sm")) is not None and (most := row.number("clocks.max.sm"))
    ]
    slow = [
        f"GPU {i}: {now:g} of {most:g} MHz" for i, now, most in known if now < _CLOCK_SHARE * most
    ]
    if slow:
        _, now, most = min(known, key=lambda each: each[1] / each[2])
        return rule.warned(", ".join(slow)).with_values(sm_mhz_under_load=now, max_sm_mhz=most)
    if not known:
        return rule.skipped("idle", "clocks are judged under load, and nothing runs on these GPUs")
    return rule.passed(f"reached by {count_of(known, 'busy GPU')}")


def answer_time(answer: NodeAnswer, command: str = "nvidia-smi -L") -> tuple[CheckResult, ...]:
    """How long the shortest question to the driver took, which is `command`: long without persistence
    mode, with a sick GPU, under load."""
    expected = f"{command} within {_SLOW_S:g} s"
    output = answer.section(_FIRST)
    if output is not None and output.timed_out and (output.seconds or 0.0) >= _SLOW_S:
        # A shorter limit of this run proves nothing; one above the bound does.
        evidence = evidence_of(answer, output)
        seen = f"{command} did not end"
        values = (("nvidia_smi_seconds", output.seconds or _SLOW_S),)
        name = answer.node.name
        return (
            CheckResult(
                "ssh.cmd_time",
                name,
                Status.FAIL,
                seen,
                expected,
                command,
                evidence=evidence,
                values=values,
            ),
        )

    def rule(output: SectionOutput) -> tuple[RuleResult, ...]:
        if output.seconds is None:
            return (
                RuleResult(
                    "ssh.cmd_time",
                    Status.UNKNOWN,
                    "not timed",
                    expected,
                    "the node's clock could not be read (/proc/uptime)",
                ),
            )
        slow = output.seconds > _SLOW_S
        result = RuleResult(
            "ssh.cmd_time",
            Status.WARN if slow else Status.PASS,
            f"above {_SLOW_S:g} s" if slow else "in time",
            expected,
        )
        return (result.with_values(nvidia_smi_seconds=output.seconds),)

    return results_of(answer, _FIRST, command, ("ssh.cmd_time",), rule)


def _temperature(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule(
        "gpu.temp",
        f"every GPU at least {_TEMPERATURE_MARGIN_C} °C below the temperature at which it slows"
        " down",
    )
    known, hot, least = 0, [], None
    for position, gpu in enumerate(nvidia_smi_details.parse(output.stdout)):
        margin = gpu.headroom_c
        if margin is None and gpu.slowdown_c is not None and gpu.temperature_c is not None:
            margin = gpu.slowdown_c - gpu.temperature_c
        if margin is not None:
            known, least = known + 1, margin if least is None else min(margin, least)
            hot += [str(position)] if margin < _TEMPERATURE_MARGIN_C else []
    if hot:
        return (rule.warned(f"too close: GPU {', '.join(hot)}").with_values(margin_c=least),)
    return (rule.passed(f"{known} GPU{'s' if known > 1 else ''}"),) if known else ()


@once
def _apps(output: SectionOutput, gpus: tuple[GpuState, ...]) -> tuple[RuleResult, ...]:
    rows = nvidia_smi_query.parse(output.stdout)
    pids = (
        tuple(int(pid) for row in rows if (pid := row.number("pid")) is not None)
        if rows is not None
        else None
    )
    owners = tuple(sorted(set(re.findall(r"^owner \d+ (\S+)", output.stdout, re.M))))
    return (processes(pids, gpus, owners),) if pids is not None or gpus else ()


def _processes(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    query = answer.section("gpu_query")
    gpus = _states(query) if query is not None else ()
    command = f"nvidia-smi --query-compute-apps={_APPS}"
    return results_of(
        answer, "gpu_apps", command, ("gpu.procs",), lambda output: _apps(output, gpus)
    )


def _query(fields: str) -> str:
    """What shows one setting again after the fix."""
    return f"nvidia-smi --query-gpu={fields} --format=csv"


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    if is_amd(answer):
        # busbw.checks.gpu_amd gives these checks.
        return ()
    return (
        *results_of(
            answer,
            "nvidia_smi_list",
            "nvidia-smi -L",
            ("gpu.count",),
            lambda output: _count(output, answer.node.gpus),
        ),
        *answer_time(answer),
        *results_of(answer, "gpu_query", _query("index,name"), (*IDS, *_MORE), _settings),
        *results_of(
            answer,
            "gpu_remap",
            f"nvidia-smi --query-remapped-rows={_REMAP}",
            ("gpu.remap",),
            _remap,
        ),
        *results_of(answer, "gpu_details", "nvidia-smi -q", ("gpu.temp",), _temperature),
        *_processes(answer),
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What the plain table of `nvidia-smi` says that was handed in."""
    results: list[RuleResult] = []
    for table in of_kind(records, SmiTable):
        gpus = from_table(table)
        status = Status.PASS if gpus else Status.FAIL
        expected = "GPUs, as many as on the other nodes"
        results.append(RuleResult("gpu.count", status, counted(len(gpus), "GPU"), expected))
        results += [*rule(gpus), processes(table.processes, gpus)]
    return tuple(results)


_FIRST = "nvidia_smi_list"
CHECK = CheckFamily(
    name="gpu",
    checks=(
        Check("gpu.count", "nvidia-smi -L", "no GPU, or not as many as in the inventory: FAIL"),
        Check(
            "ssh.cmd_time",
            "nvidia-smi -L",
            "no answer within 30 s: FAIL; after more than 20 s: WARN",
        ),
        Check(
            "gpu.driver",
            _query("driver_version"),
            "library and module differ, several versions, or a GPU reports [Unknown Error]: FAIL",
        ),
        Check("gpu.persistence", _query("persistence_mode"), "off: WARN"),
        Check("gpu.mig", _query("mig.mode.current"), "MIG on: FAIL"),
        Check(
            "gpu.ecc",
            _query("ecc.errors.uncorrected.volatile.total"),
            "an uncorrected error since the driver was loaded: FAIL",
        ),
        Check(
            "gpu.power", _query("power.limit,power.default_limit"), "limit below the default: WARN"
        ),
        Check(
            "gpu.pcie_link",
            _query("pcie.link.width.current,pcie.link.width.max"),
            "a GPU uses fewer PCIe lanes than it has: FAIL",
        ),
        Check(
            "gpu.throttle",
            _query("clocks_throttle_reasons.active"),
            "a slowdown by hardware, heat or power brake: FAIL; by software for heat: WARN",
        ),
        Check(
            "gpu.clocks",
            _query("utilization.gpu,clocks.sm,clocks.max.sm"),
            "a busy GPU below 0.9 of its maximum clock: WARN; idle ones are not judged",
        ),
        Check(
            "gpu.remap",
            f"nvidia-smi --query-remapped-rows={_REMAP} --format=csv",
            "a remapping failed or is pending, or more than 512 uncorrectable rows: FAIL",
        ),
        Check("gpu.temp", "nvidia-smi -q", "less than 5 °C below the slowdown temperature: WARN"),
        Check(
            "gpu.procs",
            "nvidia-smi --query-compute-apps=…",
            "a process on a GPU, or more than 1024 MiB in use without a process: WARN",
        ),
    ),
    sections=(
        # 30 s: without persistence mode the driver loads first; a GPU off the bus can hang it.
        # Always asked: how many ranks a node takes. Where AMD's driver is loaded and NVIDIA's is
        # not, these sections hold what amd-smi prints.
        Section(_FIRST, timeout_s=30, library="gpu_vendor"),
        Section(
            "gpu_query",
            timeout_s=30,
            after=_FIRST,
            library="gpu_vendor",
            arguments=lambda: (_QUERY,),
            serves=(
                *IDS,
                *_MORE,
                "gpu.procs",
                "gpu.imex",
                "azure.topo",
                "cross.gpu_model",
                "cross.driver",
                "cross.vbios",
            ),
        ),
        Section(
            "gpu_remap",
            timeout_s=15,
            after=_FIRST,
            library="gpu_vendor",
            arguments=lambda: (_REMAP,),
            serves=("gpu.remap",),
        ),
        # Whose they are, where the process is in this name space; a run asks it too.
        Section(
            "gpu_apps",
            timeout_s=15,
            after=_FIRST,
            library="gpu_vendor",
        ),
        Section(
            "gpu_details",
            "nvidia-smi -q",
            timeout_s=30,
            after=_FIRST,
            serves=(
                "gpu.temp",
                "gpu.fabric_state",
                "gpu.fabricmanager",
                "cross.nvlink_domain",
                "sw.cuda",
            ),
        ),
    ),
    judge=_judge,
    judge_records=_of_records,
)
