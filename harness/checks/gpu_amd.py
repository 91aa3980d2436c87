"""The GPUs of a node with AMD's: the same checks as for NVIDIA's from what `amd-smi` says, the
XGMI links between them, ROCm with RCCL, and the ways of GPUDirect RDMA.

No AMD hardware was at hand: the rules were tried on texts composed after amd-smi's own sources.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from busbw import versions
from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    gpu,
    gpu_rules,
    of_kind,
    once,
    results_of,
)
from busbw.model import CheckResult, Status
from busbw.parsers.tools import amd_smi, gpus, os_facts, rdma_sysfs
from busbw.parsers.tools.amd_smi import AmdGpu, XgmiGpu
from busbw.units import counted

_LIST, _QUERY = "amd-smi list", "amd-smi static; amd-smi metric"
_MARGIN_C = 5
"""As for NVIDIA's GPUs: docs/checks.md."""
_DMABUF_KERNEL = (6, 4)
"""From this kernel on RCCL takes the memory of the GPU by itself where the verbs know
`ib_register_peer_memory_client`, or by dma-buf: RCCL 2.21.5, src/transport/net_ib.cc."""
_OPTIONS = ("CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_PCI_P2PDMA")
"""Of the kernel, without which RCCL takes no dma-buf: RCCL 2.21.5, src/misc/rocmwrap.cc."""
_LIBRARY = re.compile(r"^nccl \S*?librccl\.so\.(\d+(?:\.\d+)+)$", re.M)
_XGMI = "every XGMI link up, as many on each GPU, all at one rate"


def _count(output: SectionOutput, expected: int | None, models: tuple[str, ...]) -> RuleResult:
    text = (
        counted(expected, "GPU") if expected is not None else "GPUs, as many as on the other nodes"
    )
    rule = Rule("gpu.count", text)
    listed = gpus.listed(output.stdout)
    parts = [each for each in amd_smi.parse(output.stdout) if each.is_part]
    if not listed:
        printed_lines = (output.stdout + output.stderr).strip().splitlines()
        seen = (
            f"no GPU ({printed_lines[0]})"
            if printed_lines
            else "no GPU (amd-smi list printed nothing)"
        )
        return rule.failed(seen).with_values(count=0, expected=expected)
    names = models if len(models) == len(listed) else tuple(each.model for each in listed)
    kinds = " + ".join(f"{number} x {name}" for name, number in Counter(names).items())
    if parts:
        kinds = f"{len(listed)} parts of GPUs"
    bad = output.exit_status != 0 or (expected is not None and len(listed) != expected)
    reason = (
        f"amd-smi list ended with exit status {output.exit_status}" if output.exit_status else ""
    )
    if bad and parts:
        reason = "GPUs in parts are listed one by one: gpu.mig"
    result = rule.result(Status.FAIL if bad else Status.PASS, kinds, reason)
    return result.with_values(count=len(listed), expected=expected)


@once
def _settings(output: SectionOutput, partitions: str) -> tuple[RuleResult, ...]:
    rows, known = gpus.rows(output.stdout), amd_smi.parse(output.stdout)
    if not rows or not known:
        return ()
    states = gpu_rules.from_query(rows)
    none = RuleResult(
        "gpu.persistence",
        Status.SKIPPED,
        "no such mode",
        "persistence mode Enabled",
        "AMD's driver stays loaded",
    )
    own = {
        each.check_id: each
        for each in (none, _whole(known, partitions), _throttle(known), *_temperature(known))
    }
    ruled = (*gpu_rules.rule(states), gpu_rules.pcie_width(states))
    kept = tuple(each for each in ruled if each.check_id not in own)
    clocks = RuleResult(
        "gpu.clocks",
        Status.SKIPPED,
        "not judged",
        "at least 90% of the maximum clock under load",
        "the clocks of AMD's GPUs follow the power limit",
    )
    return (*kept, *own.values(), clocks)


def _whole(known: tuple[AmdGpu, ...], partitions: str) -> RuleResult:
    rule = Rule(
        "gpu.mig", "whole GPUs: partition mode SPX (RCCL's figures are those of whole GPUs)"
    )
    modes = {each.partition for each in known if each.partition} | set(partitions.split())
    parts = sorted(modes - {amd_smi.WHOLE})
    if parts or any(each.is_part for each in known):
        return rule.failed(f"GPUs in parts: {', '.join(parts) or 'several numbers of a GPU'}")
    if not modes:
        return rule.unknown("not shown", "neither amd-smi nor the driver shows the partition mode")
    return rule.passed(amd_smi.WHOLE)


def _throttle(known: tuple[AmdGpu, ...]) -> RuleResult:
    rule = Rule("gpu.throttle", "no GPU slowed down by heat, power brake or hardware")
    shown = [each for each in known if each.throttled is not None]
    slow = [f"GPU {each.index}: {name}" for each in shown for name in each.throttled or ()]
    if slow:
        return rule.failed(", ".join(slow))
    if not shown:
        return rule.unknown("not shown", "this release of amd-smi does not show it")
    return rule.passed("none")


def _temperature(known: tuple[AmdGpu, ...]) -> tuple[RuleResult, ...]:
    rule = Rule(
        "gpu.temp",
        f"every GPU at least {_MARGIN_C} °C below the temperature at which it slows down",
    )
    margins = {
        each.index: each.slowdown_c - each.hotspot_c
        for each in known
        if each.slowdown_c is not None and each.hotspot_c is not None
    }
    hot = [str(index) for index, margin in margins.items() if margin < _MARGIN_C]
    if hot:
        result = rule.warned(f"too close: GPU {', '.join(hot)}")
        return (result.with_values(margin_c=min(margins.values())),)
    if not margins:
        return (rule.unknown("not shown", "amd-smi shows no limit or no temperature"),)
    return (rule.passed(counted(len(margins), "GPU")),)


@once
def _pages(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("gpu.remap", "no bad page pending or not to be reserved")
    pages = amd_smi.parse_pages(output.stdout)
    if not pages:
        return ()
    bad = [
        f"GPU {each.index}: {each.unreservable} cannot be reserved"
        for each in pages
        if each.unreservable
    ]
    waiting = [
        f"GPU {each.index}: {each.pending} until the driver is loaded again"
        for each in pages
        if each.pending
    ]
    failed, pending = sum(each.unreservable for each in pages), sum(each.pending for each in pages)
    if bad or waiting:
        result = rule.failed(", ".join((*bad, *waiting)))
    else:
        result = rule.passed("none")
    return (result.with_values(failure=failed, pending=pending),)


@once
def xgmi(output: SectionOutput) -> tuple[RuleResult, ...]:
    """The links between the GPUs of a node; () = the text shows none."""
    known = amd_smi.parse_xgmi(output.stdout)
    lines = enumerate(output.stdout.splitlines(), 1)
    down = next((number for number, line in lines if line.strip(" ,") == '"D"'), None)
    return (replace(links(known), line_no=down),) if known else ()


def links(known: tuple[XgmiGpu, ...]) -> RuleResult:
    """Links that are down, GPUs with fewer of them than the others, GPUs that see the others over
    PCI Express only, and rates that differ."""
    rule = Rule("gpu.xgmi", _XGMI)
    ups = Counter(each.states.count("U") for each in known if each.states)
    down = sum(len(each.down) for each in known)
    values = {"down_links": float(down), "up_links": float(min(ups, default=0))}
    bad = [f"GPU {each.index} link {', '.join(map(str, each.down))}" for each in known if each.down]
    if bad:
        return rule.failed(f"down: {'; '.join(bad)}").with_values(**values)
    if len(ups) > 1:
        usual = max(ups)
        few = [
            f"GPU {each.index}: {each.states.count('U')} of {usual}"
            for each in known
            if each.states.count("U") < usual
        ]
        return rule.failed(f"links missing: {', '.join(few)}").with_values(**values)
    other = [
        f"GPU {each.index}: {each.link_type}"
        for each in known
        if each.link_type not in (None, "XGMI")
    ]
    if other and len(known) > 1:
        return rule.failed(f"not over XGMI: {', '.join(other)}").with_values(**values)
    rates = sorted({each.rate_gbit_s for each in known if each.rate_gbit_s is not None})
    if len(rates) > 1:
        return rule.warned(f"rates differ: {', '.join(f'{rate:g} Gb/s' for rate in rates)}")
    if not ups:
        rate = f" at {rates[0]:g} Gb/s a lane" if rates else ""
        seen = f"{counted(len(known), 'GPU')} over XGMI{rate}"
        return rule.result(Status.PASS, seen, "this release of amd-smi does not show which are up")
    return rule.passed(f"{next(iter(ups))} links up per GPU").with_values(**values)


@once
def _direct(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule(
        "gpu.peermem",
        "amdgpu registered with the verbs (memory_peers), or dma-buf with the kernel's options",
    )
    facts = os_facts.parse(output.stdout)
    if facts.text("kernel") is None:
        return ()
    if (skipped := gpu.without_rdma(rule, facts)) is not None:
        return (skipped,)
    peers = re.findall(r"^peer=(.*)$", output.stdout, re.M)
    options = re.findall(r"^option=(.*)$", output.stdout, re.M)
    if peers:
        return (rule.passed(peers[0]).with_values(loaded=True),)
    kernel = versions.release(facts.text("kernel"))
    if set(options) == set(_OPTIONS):
        step = "RCCL takes it by itself" if kernel >= _DMABUF_KERNEL else "set NCCL_DMABUF_ENABLE=1"
        return (rule.passed(f"dma-buf possible: {step}").with_values(dmabuf_possible=True),)
    if facts.text("config") is None:
        return (rule.unknown("not shown", "neither memory_peers nor /boot/config of the kernel"),)
    lacking = ", ".join(sorted(set(_OPTIONS) - set(options)))
    return (
        rule.failed(f"neither: kernel without {lacking}").with_values(
            loaded=False, dmabuf_possible=False
        ),
    )


@once
def _rocm(output: SectionOutput, libraries: str) -> tuple[RuleResult, ...]:
    rule = Rule("sw.rocm", "RCCL of the ROCm release that is installed")
    release = os_facts.parse(output.stdout).text("rocm")
    known = sorted(set(_LIBRARY.findall(libraries)))
    named = ", ".join(f"librccl.so.{each}" for each in known)
    if not release:
        why = "no /opt/rocm/.info/version: ROCm comes with the job, or is elsewhere"
        return (rule.skipped(named or "no ROCm installed", why),)
    if not known:
        why = "RCCL comes with the job, or is elsewhere"
        return (rule.skipped(f"ROCm {release}, no librccl", why),)
    stamp = _stamp(release)
    odd = [each for each in known if stamp and _stamped(each) and _stamped(each) != stamp]
    if odd:
        seen = f"ROCm {release}, librccl.so.{', '.join(odd)}"
        return (rule.warned(seen, "the library's last number is the release it was built for"),)
    return (rule.passed(f"ROCm {release}, {named}"),)


def _stamp(release: str) -> str:
    """How the library's name writes a release: 6.3.1 is 60301.

    >>> _stamp("6.3.1-48"), _stamp("7.0.2")
    ('60301', '70002')
    """
    parts = re.match(r"(\d+)\.(\d+)\.(\d+)", release)
    return f"{parts[1]}{int(parts[2]):02}{int(parts[3]):02}" if parts else ""


def _stamped(version: str) -> str:
    last = version.rpartition(".")[2]
    return last if len(last) >= 5 else ""


@once
def _near(output: SectionOutput, sysfs: str) -> tuple[RuleResult, ...]:
    rule = Rule("os.numa", "every GPU has an active NIC on its own NUMA node")
    known = [each for each in amd_smi.parse(output.stdout) if each.numa is not None]
    nics = {
        device.numa
        for device in rdma_sysfs.parse(sysfs)
        if any(port.state == "ACTIVE" for port in device.ports)
    }
    if not nics:
        return (rule.skipped("no NIC", "the node shows no active RDMA device"),)
    if not known:
        return (rule.unknown("not shown", "amd-smi static shows no NUMA node"),)
    far = [f"GPU {each.index}" for each in known if str(each.numa) not in nics]
    if far:
        return (
            rule.warned(f"{', '.join(far)}: no NIC there").with_values(gpus_far_from_nics=len(far)),
        )
    return (rule.passed(f"so for {counted(len(known), 'GPU')}"),)


def _processes(output: SectionOutput, query: str) -> tuple[RuleResult, ...]:
    pids = gpus.process_ids(output.stdout)
    rows = gpus.rows(query) or ()
    owners = tuple(sorted(set(re.findall(r"^owner \d+ (\S+)", output.stdout, re.M))))
    return (
        (gpu_rules.processes(pids, gpu_rules.from_query(rows), owners),) if pids is not None else ()
    )


def _text(answer: NodeAnswer, name: str) -> str:
    section = answer.section(name)
    return "" if section is None else section.stdout


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    if not gpu.is_amd(answer):
        return tuple(_skipped(answer, check) for check in CHECK.checks)
    query, software = _text(answer, "gpu_query"), _text(answer, "amd_software")
    partitions = " ".join(sorted(set(re.findall(r"^partition=(\S+)$", software, re.M))))
    models = tuple(each.model or "AMD GPU" for each in amd_smi.parse(query))
    settings = (*gpu_rules.IDS, "gpu.pcie_link", "gpu.throttle", "gpu.clocks", "gpu.temp")
    listing = results_of(
        answer,
        "nvidia_smi_list",
        _LIST,
        ("gpu.count",),
        lambda output: (_count(output, answer.node.gpus, models),),
    )
    return (
        *listing,
        *gpu.answer_time(answer, _LIST),
        *results_of(
            answer, "gpu_query", _QUERY, settings, lambda output: _settings(output, partitions)
        ),
        *results_of(answer, "gpu_remap", "amd-smi bad-pages", ("gpu.remap",), _pages),
        *results_of(
            answer,
            "gpu_apps",
            "amd-smi process",
            ("gpu.procs",),
            lambda output: _processes(output, query),
        ),
        *results_of(answer, "amd_xgmi", "amd-smi xgmi --link-status", ("gpu.xgmi",), xgmi),
        *results_of(
            answer,
            "amd_software",
            "ls /sys/kernel/mm/memory_peers; grep DMABUF /boot/config-*",
            ("gpu.peermem",),
            _direct,
        ),
        *results_of(
            answer,
            "amd_software",
            "cat /opt/rocm/.info/version; ls librccl.so.*",
            ("sw.rocm",),
            lambda output: _rocm(output, _text(answer, "nccl_library")),
        ),
        *results_of(
            answer,
            "gpu_query",
            "amd-smi static --numa",
            ("os.numa",),
            lambda output: _near(output, _text(answer, "rdma_sysfs")),
        ),
    )


def _skipped(answer: NodeAnswer, check: Check) -> CheckResult:
    """On a node without AMD's GPUs."""
    reason = "only AMD's GPUs have it"
    listed = answer.section("nvidia_smi_list")
    if listed is None or listed.exit_status is None:
        why = answer.problem or "the node does not say which GPUs it has"
        return CheckResult(
            check.id, answer.node.name, Status.UNKNOWN, "no answer", "", check.command, why
        )
    return CheckResult(
        check.id, answer.node.name, Status.SKIPPED, "no AMD GPU", "", check.command, reason
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What `amd-smi xgmi` says that was handed in."""
    known = of_kind(records, XgmiGpu)
    return (links(known),) if known else ()


CHECK = CheckFamily(
    name="gpu-amd",
    checks=(
        Check(
            "gpu.xgmi",
            "amd-smi xgmi --link-status",
            "AMD: a link down, fewer links than the other GPUs, or PCI Express in its place: FAIL; rates differ: WARN",
        ),
        Check(
            "sw.rocm",
            "cat /opt/rocm/.info/version; ls librccl.so.*",
            "AMD: RCCL is of another ROCm release than the one installed: WARN",
        ),
    ),
    sections=(
        Section(
            "amd_xgmi",
            timeout_s=30,
            after="nvidia_smi_list",
            library="gpu_vendor",
            serves=("gpu.xgmi",),
        ),
        # Always asked: whose GPUs they are.
        Section("amd_software", small=True),
    ),
    judge=_judge,
    judge_records=_of_records,
)
