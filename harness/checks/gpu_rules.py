"""One GPU's settings and health, from whichever view of `nvidia-smi` there is, and the rules over them."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from busbw.checks import Rule, RuleResult
from busbw.model import Status
from busbw.parsers.tools.nvidia_smi import SmiTable
from busbw.parsers.tools.nvidia_smi_query import QueryRow

LEFTOVER_MIB = 1024
"""Memory that no listed process holds, above which something is left over: preflight table,
gpu.procs."""
IDS = ("gpu.driver", "gpu.persistence", "gpu.mig", "gpu.ecc", "gpu.power")
"""What `rule` gives."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU; None = this view does not show it."""

    index: int
    model: str
    driver: str
    persistence: bool | None
    mig: bool | None
    ecc_uncorrected: int | None
    """Since the driver was loaded; None also where ECC is off or not supported."""
    power_limit_w: float | None
    power_default_w: float | None
    memory_used_mib: float | None
    width: float | None = None
    """PCIe lanes in use."""
    max_width: float | None = None
    broken: bool = False
    """Some value is `[Unknown Error]`: the GPU does not answer its driver."""


def from_table(table: SmiTable) -> tuple[GpuState, ...]:
    """From the plain table."""
    return tuple(
        GpuState(
            g.index,
            g.model,
            table.driver,
            g.persistence,
            g.mig,
            g.ecc_uncorrected_volatile,
            g.power_cap_w,
            None,
            g.memory_used_mib,
        )
        for g in table.gpus
    )


def from_query(rows: tuple[QueryRow, ...]) -> tuple[GpuState, ...]:
    """From the query of the preflight script."""
    on = {"Enabled": True, "Disabled": False}
    states = []
    for position, row in enumerate(rows):
        index, ecc = row.number("index"), row.number("ecc.errors.uncorrected.volatile.total")
        states.append(
            GpuState(
                index=position if index is None else int(index),
                model=row.text("name") or "unknown model",
                driver=row.text("driver_version") or "unknown",
                persistence=on.get(row.text("persistence_mode") or ""),
                mig=on.get(row.text("mig.mode.current") or ""),
                ecc_uncorrected=None if ecc is None else int(ecc),
                power_limit_w=row.number("power.limit"),
                power_default_w=row.number("power.default_limit"),
                memory_used_mib=row.number("memory.used"),
                width=row.number("pcie.link.width.current"),
                max_width=row.number("pcie.link.width.max"),
                broken=row.broken,
            )
        )
    return tuple(states)


def rule(gpus: tuple[GpuState, ...]) -> tuple[RuleResult, ...]:
    """Driver, persistence, MIG, ECC and power limit of all GPUs of a node; () = there is no GPU to
    judge."""
    if not gpus:
        return ()
    persistence = _persistence(gpus)
    capped = min(gpus, key=lambda g: (g.power_limit_w or 0.0) / (g.power_default_w or 1.0))
    mode = {Status.PASS: "Enabled", Status.WARN: "Disabled"}
    return (
        _driver(gpus),
        persistence.with_values(mode=mode.get(persistence.status)),
        _mig(gpus).with_values(mode="Enabled" if any(g.mig for g in gpus) else "Disabled"),
        _ecc(gpus).with_values(
            uncorrected_volatile=max(
                (g.ecc_uncorrected for g in gpus if g.ecc_uncorrected is not None), default=None
            )
        ),
        _power(gpus).with_values(
            limit_w=capped.power_limit_w, default_limit_w=capped.power_default_w
        ),
    )


def _driver(gpus: tuple[GpuState, ...]) -> RuleResult:
    rule = Rule("gpu.driver", "one driver version, every GPU answers it")
    lost = [g.index for g in gpus if g.broken]
    versions = sorted({g.driver for g in gpus if not g.broken})
    driver_text = f"driver {', '.join(versions) or 'unknown'}"
    if lost:
        return rule.failed(f"GPU {listed(lost)}: [Unknown Error]; {driver_text}")
    return rule.result(Status.PASS if len(versions) == 1 else Status.FAIL, driver_text)


def _persistence(gpus: tuple[GpuState, ...]) -> RuleResult:
    rule = Rule("gpu.persistence", "persistence mode Enabled")
    known = [g for g in gpus if g.persistence is not None]
    if not known:
        return rule.unknown("not shown", "nvidia-smi shows N/A for every GPU")
    off = [g.index for g in known if not g.persistence]
    if off:
        return rule.warned(f"Disabled on GPU {listed(off)}")
    return rule.passed(f"Enabled on {count_of(known)}")


def _mig(gpus: tuple[GpuState, ...]) -> RuleResult:
    rule = Rule("gpu.mig", "MIG off (NCCL runs on whole GPUs)")
    on = [g.index for g in gpus if g.mig]
    if on:
        return rule.failed(f"MIG is on: GPU {listed(on)}")
    # N/A = a GPU that cannot do MIG.
    return rule.passed("off")


def _ecc(gpus: tuple[GpuState, ...]) -> RuleResult:
    rule = Rule("gpu.ecc", "no uncorrected ECC error since the driver was loaded")
    bad = [f"GPU {g.index}: {g.ecc_uncorrected}" for g in gpus if g.ecc_uncorrected]
    if bad:
        return rule.failed(f"uncorrected errors: {', '.join(bad)}")
    silent = [g.index for g in gpus if g.ecc_uncorrected is None]
    if silent:
        return rule.unknown("not counted", f"ECC is off or not supported: GPU {listed(silent)}")
    return rule.passed("none")


def _power(gpus: tuple[GpuState, ...]) -> RuleResult:
    rule = Rule("gpu.power", "the power limit is the default one")
    low = [
        f"GPU {g.index}: {g.power_limit_w:g} of {g.power_default_w:g} W"
        for g in gpus
        if g.power_limit_w is not None
        and g.power_default_w is not None
        and g.power_limit_w < g.power_default_w
    ]
    if low:
        return rule.warned(f"lower: {', '.join(low)}")
    if any(g.power_limit_w is None or g.power_default_w is None for g in gpus):
        reason = "this view of nvidia-smi does not show the default limit"
        return rule.skipped("not shown", reason)
    limits = sorted({f"{g.power_limit_w:g} W" for g in gpus})
    return rule.passed(", ".join(limits))


def processes(
    pids: tuple[int, ...] | None, gpus: tuple[GpuState, ...], owners: tuple[str, ...] = ()
) -> RuleResult:
    """Whether somebody uses the GPUs. `pids` None = not listed; process ids change, so only their
    number and owners are told."""
    used = max((g.memory_used_mib for g in gpus if g.memory_used_mib is not None), default=None)
    return _users(pids, gpus, owners).with_values(
        count=None if pids is None else len(set(pids)), mem_used_mb=used
    )


def _users(
    pids: tuple[int, ...] | None, gpus: tuple[GpuState, ...], owners: tuple[str, ...]
) -> RuleResult:
    rule = Rule("gpu.procs", "no process on the GPUs, no memory left over")
    if pids:
        whose = f" of {', '.join(owners)}" if owners else ""
        return rule.warned(f"in use by {len(set(pids))} processes{whose}")
    leftover = [
        g.index for g in gpus if g.memory_used_mib is not None and g.memory_used_mib > LEFTOVER_MIB
    ]
    if leftover:
        seen = f"more than {LEFTOVER_MIB} MiB held on GPU {listed(leftover)} by no process that is shown"
        return rule.warned(seen)
    if pids is None and not gpus:
        return rule.unknown("not shown", "neither processes nor memory are shown")
    return rule.passed("free")


def pcie_width(gpus: tuple[GpuState, ...]) -> RuleResult:
    """Lanes in use against lanes there are. The generation is judged under load only: idle links
    slow down to save power."""
    rule = Rule("gpu.pcie_link", "every GPU on all its PCIe lanes")
    known = [g for g in gpus if g.width is not None and g.max_width is not None]
    narrow = [
        f"GPU {g.index}: x{g.width:g} of x{g.max_width:g}"
        for g in known
        if (g.width or 0) < (g.max_width or 0)
    ]
    if narrow:
        worst = min(known, key=lambda g: (g.width or 0) / (g.max_width or 1))
        return rule.failed(", ".join(narrow)).with_values(
            width_current=worst.width, width_max=worst.max_width
        )
    if not known:
        return rule.unknown("not shown", "nvidia-smi does not show the link width")
    return rule.passed(", ".join(sorted({f"x{g.width:g}" for g in known})))


def count_of(known: Sized, noun: str = "GPU") -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{len(known)} {noun}" if len(known) == 1 else f"{len(known)} {noun}s"


def listed(indexes: list[int]) -> str:
    """`0, 3, 7`, ascending."""
    return ", ".join(str(index) for index in sorted(indexes))
