"""The GPUs of a node: how many, their settings, errors, limits, who uses them."""

from __future__ import annotations

import re

from busbw.parsers.nodes import nvidia_query, nvidia_smi
from busbw.parsers.nodes.nvidia_query import QueryRow
from busbw.preflight import CheckFamily, NodeAnswer, Ruling, Section, SectionOutput, evidence_of, gpu_state, ruled
from busbw.preflight.alike import once
from busbw.preflight.gpu_state import GpuState
from busbw.records import CheckResult, Status

_QUERY = (
    "index,uuid,name,driver_version,persistence_mode,mig.mode.current,power.limit,power.default_limit,pcie.link.width.current,"
    "pcie.link.width.max,memory.used,vbios_version,ecc.errors.uncorrected.volatile.total,clocks.sm,clocks.max.sm,utilization.gpu"
)
_APPS = "gpu_uuid,pid,used_memory"
_REMAP = "gpu_uuid,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure"
_UNCORRECTABLE_ROWS = 512
"""Above it a GPU is replaced: Azure node health checks."""
_TEMPERATURE_MARGIN_C = 5
_SLOW_S = 20.0
_CLOCK_SHARE = 0.9
_BUSY_PERCENT = 50
"""Limits of the preflight table: docs/checks.md; utilisation from which a GPU counts as under load."""
_MORE = ("gpu.pcie_link", "gpu.throttle", "gpu.clocks")
"""What is read of the same query beside the settings."""
_REASONS = (
    (0x8, "hardware slowdown", Status.FAIL),
    (0x40, "hardware thermal slowdown", Status.FAIL),
    (0x80, "power brake", Status.FAIL),
    (0x20, "software thermal slowdown", Status.WARN),
)
"""Bits of the clocks event reasons: nvml.h. Idle (0x1) and the software power cap (0x4) are normal."""
_BITS = (
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake", 0x80),
)


@once
def _count(output: SectionOutput, wanted: int | None) -> tuple[Ruling, ...]:
    expected = f"{wanted} GPUs" if wanted is not None else "GPUs, as many as on the other nodes"
    models = [gpu.model for gpu in nvidia_smi.parse_list(output.stdout)]
    said = (output.stdout + output.stderr).strip()
    if not models:
        found = f"no GPU ({said.splitlines()[0]})" if said else "no GPU (nvidia-smi -L printed nothing)"
        return (Ruling("gpu.count", Status.FAIL, found, expected).with_values(count=0, expected=wanted),)
    kinds = " + ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
    bad = output.exit_status != 0 or (wanted is not None and len(models) != wanted)
    reason = f"nvidia-smi ended with exit status {output.exit_status}" if output.exit_status else ""
    ruling = Ruling("gpu.count", Status.FAIL if bad else Status.PASS, kinds, expected, reason)
    return (ruling.with_values(count=len(models), expected=wanted),)


@once
def _states(output: SectionOutput) -> tuple[GpuState, ...]:
    rows = nvidia_query.parse(output.stdout)
    return gpu_state.from_query(rows) if rows else ()


@once
def _settings(output: SectionOutput) -> tuple[Ruling, ...]:
    said = output.stdout + output.stderr
    if "Driver/library version mismatch" in said:
        expected = "one driver version, every GPU answers it"
        return (Ruling("gpu.driver", Status.FAIL, "Driver/library version mismatch: upgraded without a reboot", expected),)
    rows, gpus = nvidia_query.parse(output.stdout), _states(output)
    return (*gpu_state.rule(gpus), gpu_state.pcie_width(gpus), *_throttle(rows), _clocks(rows)) if rows and gpus else ()


@once
def _remap(output: SectionOutput) -> tuple[Ruling, ...]:
    failed, pending = (_rows(output, name) for name in ("failure", "pending"))
    return tuple(ruling.with_values(failure=failed, pending=pending) for ruling in _remapped(output))


def _rows(output: SectionOutput, name: str) -> int:
    """GPUs of which a remapping is so."""
    rows = nvidia_query.parse(output.stdout) or ()
    return sum(row.text(f"remapped_rows.{name}") not in (None, "0", "No") for row in rows)


def _remapped(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = f"no row remapping failed or pending, at most {_UNCORRECTABLE_ROWS} uncorrectable rows"
    rows = nvidia_query.parse(output.stdout)
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
        return (Ruling("gpu.remap", Status.FAIL, ", ".join(bad), expected),)
    if all(row.text("remapped_rows.failure") is None for row in rows):
        return (Ruling("gpu.remap", Status.SKIPPED, "not shown", expected, "these GPUs do not remap rows"),)
    return (Ruling("gpu.remap", Status.PASS, "none", expected),)


def _throttle(rows: tuple[QueryRow, ...]) -> tuple[Ruling, ...]:
    expected = "no GPU slowed down by heat, power brake or hardware"
    masks = [
        mask if (mask := row.number("clocks_event_reasons.active")) is not None else row.number("clocks_throttle_reasons.active")
        for row in rows
    ]
    known = [(i, int(mask)) for i, mask in enumerate(masks) if mask is not None]
    hits = [(status, f"GPU {i}: {words}") for i, mask in known for bit, words, status in _REASONS if mask & bit]
    active = {name: "active" if any(mask & bit for _, mask in known) else "inactive" for name, bit in _BITS}
    if hits:
        status = Status.FAIL if any(status is Status.FAIL for status, _ in hits) else Status.WARN
        return (Ruling("gpu.throttle", status, ", ".join(text for _, text in hits), expected).with_values(**active),)
    return (Ruling("gpu.throttle", Status.PASS, "none", expected).with_values(**active),) if known else ()


def _clocks(rows: tuple[QueryRow, ...]) -> Ruling:
    """Clocks mean something under load only, and a check puts none on a GPU: only what somebody else keeps busy is judged."""
    expected = f"at least {_CLOCK_SHARE:.0%} of the maximum clock under load"
    busy = [(i, row) for i, row in enumerate(rows) if (row.number("utilization.gpu") or 0) >= _BUSY_PERCENT]
    known = [(i, now, most) for i, row in busy if (now := row.number("clocks.sm")) is not None and (most := row.number("clocks.max.sm"))]
    slow = [f"GPU {i}: {now:g} of {most:g} MHz" for i, now, most in known if now < _CLOCK_SHARE * most]
    if slow:
        _, now, most = min(known, key=lambda each: each[1] / each[2])
        return Ruling("gpu.clocks", Status.WARN, ", ".join(slow), expected).with_values(sm_mhz_under_load=now, max_sm_mhz=most)
    if not known:
        return Ruling("gpu.clocks", Status.SKIPPED, "idle", expected, "clocks are judged under load, and nothing runs on these GPUs")
    return Ruling("gpu.clocks", Status.PASS, f"so on {len(known)} busy GPUs", expected)


def _answer_time(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    """How long the shortest question to the driver took: long without persistence mode, with a sick GPU, under load."""
    expected = f"nvidia-smi -L within {_SLOW_S:g} s"
    output = answer.section(_FIRST)
    if output is not None and output.timed_out and (output.seconds or 0.0) >= _SLOW_S:
        # A shorter limit of this run proves nothing; one above the bound does.
        evidence = evidence_of(answer, output)
        found = "nvidia-smi -L did not end"
        values = (("nvidia_smi_seconds", output.seconds or _SLOW_S),)
        name = answer.node.name
        return (CheckResult("ssh.cmd_time", name, Status.FAIL, found, expected, "nvidia-smi -L", evidence=evidence, values=values),)

    def rule(output: SectionOutput) -> tuple[Ruling, ...]:
        if output.seconds is None:
            return (Ruling("ssh.cmd_time", Status.UNKNOWN, "not timed", expected, "the node's clock could not be read (/proc/uptime)"),)
        slow = output.seconds > _SLOW_S
        ruling = Ruling("ssh.cmd_time", Status.WARN if slow else Status.PASS, f"above {_SLOW_S:g} s" if slow else "in time", expected)
        return (ruling.with_values(nvidia_smi_seconds=output.seconds),)

    return ruled(answer, _FIRST, "nvidia-smi -L", ("ssh.cmd_time",), rule)


def _temperature(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = f"every GPU at least {_TEMPERATURE_MARGIN_C} °C below the temperature at which it slows down"
    known, hot, least = 0, [], None
    for position, gpu in enumerate(nvidia_smi.parse_details(output.stdout)):
        margin = gpu.headroom_c
        if margin is None and gpu.slowdown_c is not None and gpu.temperature_c is not None:
            margin = gpu.slowdown_c - gpu.temperature_c
        if margin is not None:
            known, least = known + 1, margin if least is None else min(margin, least)
            hot += [str(position)] if margin < _TEMPERATURE_MARGIN_C else []
    if hot:
        return (Ruling("gpu.temp", Status.WARN, f"too close: GPU {', '.join(hot)}", expected).with_values(margin_c=least),)
    return (Ruling("gpu.temp", Status.PASS, f"so on {known} GPUs", expected),) if known else ()


@once
def _apps(output: SectionOutput, gpus: tuple[GpuState, ...]) -> tuple[Ruling, ...]:
    rows = nvidia_query.parse(output.stdout)
    pids = tuple(int(pid) for row in rows if (pid := row.number("pid")) is not None) if rows is not None else None
    owners = tuple(sorted(set(re.findall(r"^owner \d+ (\S+)", output.stdout, re.M))))
    return (gpu_state.processes(pids, gpus, owners),) if pids is not None or gpus else ()


def _processes(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    query = answer.section("gpu_query")
    gpus = _states(query) if query is not None else ()
    command = f"nvidia-smi --query-compute-apps={_APPS}"
    return ruled(answer, "gpu_apps", command, ("gpu.procs",), lambda output: _apps(output, gpus))


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    return (
        *ruled(answer, "nvidia_smi_list", "nvidia-smi -L", ("gpu.count",), lambda output: _count(output, answer.node.gpus)),
        *_answer_time(answer),
        *ruled(answer, "gpu_query", "nvidia-smi --query-gpu=…", (*gpu_state.IDS, *_MORE), _settings),
        *ruled(answer, "gpu_remap", f"nvidia-smi --query-remapped-rows={_REMAP}", ("gpu.remap",), _remap),
        *ruled(answer, "gpu_details", "nvidia-smi -q", ("gpu.temp",), _temperature),
        *_processes(answer),
    )


_FIRST = "nvidia_smi_list"
_QUERY_GPU = f"nvidia-smi --query-gpu={_QUERY},clocks_event_reasons.active --format=csv,nounits"
CHECK = CheckFamily(
    name="gpu",
    ids=("gpu.count", "ssh.cmd_time", *gpu_state.IDS, *_MORE, "gpu.remap", "gpu.temp", "gpu.procs"),
    sections=(
        # 30 s: without persistence mode the driver loads first; a GPU off the bus can hang it. Always asked: how many ranks a node takes.
        Section(_FIRST, "nvidia-smi -L", timeout_s=30),
        # The last field was renamed with driver 535; an unknown field ends the whole query.
        Section(
            "gpu_query",
            f"{_QUERY_GPU} || {_QUERY_GPU.replace('event', 'throttle')}",
            timeout_s=30,
            after=_FIRST,
            tool="nvidia-smi",
            serves=(*gpu_state.IDS, *_MORE, "gpu.procs", "gpu.imex", "azure.topo", "cross.gpu_model", "cross.driver", "cross.vbios"),
        ),
        Section(
            "gpu_remap",
            f"nvidia-smi --query-remapped-rows={_REMAP} --format=csv,nounits",
            timeout_s=15,
            after=_FIRST,
            serves=("gpu.remap",),
        ),
        # Whose they are, where the process is in this name space; a run asks it too.
        Section(
            "gpu_apps",
            f'o=$(nvidia-smi --query-compute-apps={_APPS} --format=csv,nounits); s=$?; echo "$o"; echo "$o" | '
            'while IFS=", " read -r _ p _; do [ -r /proc/$p/comm ] || continue; read -r c </proc/$p/comm; '
            'echo "owner $p $(stat -c %U /proc/$p) $c"; done; exit $s',
            timeout_s=15,
            after=_FIRST,
            tool="nvidia-smi",
        ),
        Section(
            "gpu_details",
            "nvidia-smi -q",
            timeout_s=30,
            after=_FIRST,
            serves=("gpu.temp", "gpu.fabric_state", "gpu.fabricmanager", "sw.cuda"),
        ),
    ),
    judge=_judge,
)
