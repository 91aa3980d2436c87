"""What joins the GPUs of a node and the GPUs with the NICs: NVLink, the NVSwitch fabric, GPUDirect,
the topology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    of_kind,
    once,
    results_of,
)
from busbw.checks.gpu import is_amd, without_rdma
from busbw.checks.nvlink_domains import HOW, NVL72, domains, imex_domain
from busbw.model import CheckResult, Status
from busbw.parsers.tools import (
    nvidia_smi_details,
    nvidia_smi_nvlink,
    nvidia_smi_topology,
    os_facts,
)
from busbw.parsers.tools.dcgm import DiagTest
from busbw.parsers.tools.nvidia_smi_nvlink import NvlinkGpu
from busbw.parsers.tools.nvidia_smi_topology import Topology
from busbw.units import counted

_LINKS = (("B200", 18), ("B300", 18), ("H100", 18), ("H200", 18), ("A100", 12))
"""NVLinks of an SXM card: NVIDIA data sheets. PCIe cards have fewer or none."""
_UNHEALTHY, _LIMITED = "Unhealthy", "Limited Capacity"
"""Summaries of the fabric's health: nvml.h, NVML_GPU_FABRIC_HEALTH_SUMMARY_…"""
_DMABUF_KERNEL = (5, 12)
"""First kernel with dma-buf for RDMA."""


def nvlinks(gpus: tuple[NvlinkGpu, ...]) -> RuleResult:
    """Links that are down, and links that are missing from an SXM card."""
    fewest = min((g for g in gpus if g.rates_gb_s), key=lambda g: len(g.rates_gb_s), default=None)
    return _nvlinks(gpus).with_values(
        inactive_links=sum(len(g.inactive) for g in gpus),
        link_count=len(fewest.rates_gb_s) if fewest else None,
        expected=(_links_of(fewest.model) or None) if fewest else None,
    )


def _nvlinks(gpus: tuple[NvlinkGpu, ...]) -> RuleResult:
    rule = Rule("gpu.nvlink_status", "every NVLink active (A100 12, H100, H200 and B200 18)")
    down = [
        f"GPU {gpu.index} link {', '.join(map(str, gpu.inactive))}" for gpu in gpus if gpu.inactive
    ]
    if down:
        return rule.failed(f"inactive: {'; '.join(down)}")
    bad = [f"GPU {g.index} link {e.link}" for g in gpus for e in g.errors if e.recovery]
    if bad:
        return rule.failed(f"recovery errors: {', '.join(bad)}")
    few = [
        f"GPU {g.index}: {len(g.rates_gb_s)} of {n}"
        for g in gpus
        if g.rates_gb_s and (n := _links_of(g.model)) > len(g.rates_gb_s)
    ]
    if few:
        return rule.failed(f"links missing: {', '.join(few)}")
    counts = sorted({len(gpu.rates_gb_s) or len(gpu.errors) for gpu in gpus})
    what = (
        "links active" if any(gpu.rates_gb_s for gpu in gpus) else "links without recovery errors"
    )
    return rule.passed(f"{' or '.join(map(str, counts))} {what} per GPU")


def _links_of(model: str) -> int:
    if "PCIe" in model or "NVL" in model:
        return 0
    return next((count for name, count in _LINKS if name in model), 0)


def fabric_states(output: SectionOutput) -> tuple[RuleResult, ...]:
    """The state of the NVSwitch fabric, per GPU; without one the check does not apply."""
    rule = Rule("gpu.fabric_state", "fabric state Completed, status Success (GPUs behind NVSwitch)")
    gpus = nvidia_smi_details.parse(output.stdout)
    known = [(i, gpu) for i, gpu in enumerate(gpus) if gpu.fabric_state is not None]
    if not gpus:
        return ()
    if not known:
        return (rule.skipped("no fabric", "these GPUs are not behind an NVSwitch"),)
    bad = _by_text(
        (i, f"{gpu.fabric_state} / {gpu.fabric_status}")
        for i, gpu in known
        if gpu.fabric_state != "Completed" or gpu.fabric_status not in (None, "Success")
    )
    bad += _by_text((i, _UNHEALTHY) for i, gpu in known if gpu.fabric_health == _UNHEALTHY)
    if bad:
        states = [gpu.fabric_state for _, gpu in known]
        worst = next((state for state in states if state != "Completed"), "Completed")
        values = {gpu.fabric_state for _, gpu in known} | {gpu.fabric_status for _, gpu in known}
        odd = {*values, _UNHEALTHY} - {"Completed", "Success", None}
        result = rule.failed(", ".join(bad)).with_values(state=worst)
        return (replace(result, line_no=_line_of(output, odd)),)
    limited = _by_text((i, _LIMITED) for i, gpu in known if gpu.fabric_health == _LIMITED)
    if limited:
        return (rule.warned(", ".join(limited)).with_values(state="Completed"),)
    return (
        rule.passed(f"Completed on {counted(len(known), 'GPU')}").with_values(state="Completed"),
    )


def _line_of(output: SectionOutput, values: Iterable[str | None]) -> int | None:
    """The first line whose value is one of these; None = there is none."""
    wanted = set(values)
    for number, line in enumerate(output.stdout.splitlines(), 1):
        if line.partition(": ")[2].strip() in wanted:
            return number
    return None


def _by_text(gpus: Iterable[tuple[int, str]]) -> list[str]:
    """Each text once, with the GPUs that it is said of."""
    numbers: dict[str, list[int]] = {}
    for number, text in gpus:
        numbers.setdefault(text, []).append(number)
    return [f"GPU {', '.join(map(str, of))}: {text}" for text, of in numbers.items()]


def not_initialized(tests: tuple[DiagTest, ...]) -> tuple[RuleResult, ...]:
    """What `dcgmi diag` says when CUDA cannot start for want of the fabric manager (CUDA 802)."""
    if not any("system not yet initialized" in test.warning for test in tests):
        return ()
    seen = "cuInit: system not yet initialized (CUDA 802)"
    return (
        RuleResult(
            "gpu.fabricmanager",
            Status.FAIL,
            seen,
            "the fabric manager runs, in the driver's version",
        ),
        RuleResult(
            "gpu.fabric_state",
            Status.FAIL,
            seen,
            "fabric state Completed, status Success (GPUs behind NVSwitch)",
        ),
    )


def affinity(matrix: Topology) -> RuleResult:
    """Whether each GPU has a NIC that it reaches without crossing to another NUMA node."""
    rule = Rule("os.numa", "every GPU has a NIC at PIX or PXB")
    if not matrix.nics:
        return rule.skipped(
            "no NIC in the matrix", "nvidia-smi shows no RDMA device beside the GPUs"
        )
    far = [
        row.name
        for row in matrix.rows
        if not row.torn and not row.nics_at("PIX") and not row.nics_at("PXB")
    ]
    if far:
        worst = sorted(
            {
                word
                for row in matrix.rows
                if row.name in far
                for name, word in row.paths
                if not name.startswith("GPU")
            }
        )
        result = rule.warned(f"{', '.join(far)}: only {', '.join(worst)} to every NIC")
        return result.with_values(gpus_far_from_nics=len(far))
    unread = [
        gpu
        for gpu in matrix.gpus
        if gpu not in {row.name for row in matrix.rows if not row.torn or row.nics_at("PIX")}
    ]
    if unread:
        return rule.unknown(f"not readable: {', '.join(unread)}", "rows are torn or truncated")
    return rule.passed(f"so for {counted(len(matrix.rows), 'GPU')}")


@once
def _nvlink(output: SectionOutput) -> tuple[RuleResult, ...]:
    gpus = nvidia_smi_nvlink.parse(output.stdout)
    if gpus:
        lines = enumerate(output.stdout.splitlines(), 1)
        down = next((number for number, line in lines if "inactive" in line.lower()), None)
        return (replace(nvlinks(gpus), line_no=down),)
    if output.exit_status == 0:
        reason = "nvidia-smi nvlink -s lists no link: PCIe cards"
        return (
            RuleResult(
                "gpu.nvlink_status", Status.SKIPPED, "no NVLink", "every NVLink active", reason
            ),
        )
    return ()


@once
def _topology(output: SectionOutput) -> tuple[RuleResult, ...]:
    matrix = nvidia_smi_topology.parse(output.stdout)
    return (affinity(matrix),) if matrix else ()


def _manager(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    details = answer.section("gpu_details")
    switched = (
        any(gpu.fabric_state is not None for gpu in nvidia_smi_details.parse(details.stdout))
        if details
        else False
    )

    def rule(output: SectionOutput) -> tuple[RuleResult, ...]:
        rule = Rule(
            "gpu.fabricmanager", "nvidia-fabricmanager active where GPUs are behind NVSwitch"
        )
        state = output.stdout.split()[0] if output.stdout.split() else ""
        if details is not None and NVL72.search(details.stdout):
            # NVIDIA GB200 NVL72: its trays reach the NVSwitches of the rack, which have their own.
            reason = "the fabric manager of an NVL72 runs on its switch trays"
            return (rule.skipped("not on a tray", reason),)
        if not switched:
            reason = "no GPU says that it is behind an NVSwitch"
            return (rule.skipped(state or "not asked", reason),)
        if state not in ("active", "inactive", "failed", "activating", "deactivating", "unknown"):
            return ()
        result = rule.result(Status.PASS if state == "active" else Status.FAIL, state)
        return (result.with_values(active=state),)

    return results_of(
        answer, "services", "systemctl is-active nvidia-fabricmanager", ("gpu.fabricmanager",), rule
    )


@once
def _peermem(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule(
        "gpu.peermem",
        "nvidia_peermem loaded, or dma-buf (kernel 5.12 or later with the open modules)",
    )
    facts = os_facts.parse(output.stdout)
    if facts.text("nvidia") is None:
        return (rule.skipped("no NVIDIA driver", "no NVIDIA kernel module is loaded"),)
    if facts.text("peermem"):
        return (rule.passed(f"{facts.text('peermem')} loaded").with_values(loaded=True),)
    if (skipped := without_rdma(rule, facts)) is not None:
        return (skipped,)
    kernel = versions.release(facts.text("kernel"))
    if kernel >= _DMABUF_KERNEL and "Open Kernel" in (facts.text("nvidia") or ""):
        return (
            rule.passed("dma-buf possible: open modules, no nvidia_peermem").with_values(
                dmabuf_possible=True
            ),
        )
    return (
        rule.result(
            Status.FAIL,
            "neither nvidia_peermem nor dma-buf: GPUDirect RDMA is off",
            line_no=facts.line_no("loaded_modules"),
        ).with_values(loaded=False, dmabuf_possible=False),
    )


def _not_amd(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    """What AMD's GPUs do not have; `gpu.peermem` and `os.numa` come from busbw.checks.gpu_amd."""
    reason = "AMD's GPUs are joined by XGMI: gpu.xgmi"
    commands = {each.id: each.command for each in CHECK.checks}
    return tuple(
        CheckResult(
            name, answer.node.name, Status.SKIPPED, "not NVIDIA's", "", commands[name], reason
        )
        for name in ("gpu.nvlink_status", "gpu.fabric_state", "gpu.fabricmanager", "gpu.imex")
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What `nvidia-smi topo -m`, `nvidia-smi nvlink` and `dcgmi diag` say that were handed in."""
    results = [affinity(matrix) for matrix in of_kind(records, Topology)]
    gpus = of_kind(records, NvlinkGpu)
    if gpus:
        results += [nvlinks(gpus), *_link_errors(gpus)]
    return (*results, *not_initialized(of_kind(records, DiagTest)))


def _link_errors(gpus: tuple[NvlinkGpu, ...]) -> Iterator[RuleResult]:
    """Counters since the driver was loaded: only a rise during a run is a FAIL, and that is judged
    elsewhere."""
    links = [link for gpu in gpus for link in gpu.errors]
    for name, printed in (
        ("replay", [link.replay for link in links]),
        ("recovery", [link.recovery for link in links]),
        ("crc", [link.crc for link in links]),
    ):
        counts = [count for count in printed if count is not None]
        if counts:
            status = Status.WARN if sum(counts) else Status.PASS
            yield RuleResult(f"counter:nvlink_{name}_errors", status, str(sum(counts)), "0")


CHECK = CheckFamily(
    name="gpu-fabric",
    checks=(
        Check(
            "gpu.nvlink_status",
            "nvidia-smi nvlink -s",
            "a link inactive, or fewer than the SXM card has: FAIL",
        ),
        Check(
            "gpu.fabric_state",
            "nvidia-smi -q",
            "behind an NVSwitch and not Completed / Success, or Unhealthy: FAIL; Limited Capacity: WARN",
        ),
        Check(
            "gpu.fabricmanager",
            "systemctl is-active nvidia-fabricmanager",
            "the node has NVSwitches of its own and the service is not active: FAIL",
        ),
        Check("gpu.imex", "nvidia-imex-ctl -N", "domain not UP on GB200 or GB300: FAIL"),
        Check(
            "cross.nvlink_domain",
            HOW,
            "GB200 or GB300: not in an NVLink domain, in a different one from most of its rack, or IMEX"
            " lists fewer nodes: FAIL; alone in its domain: WARN",
        ),
        Check(
            "gpu.peermem",
            "cat /proc/driver/nvidia/version; ls /sys/module",
            "neither nvidia_peermem nor dma-buf: FAIL",
        ),
        Check("os.numa", "nvidia-smi topo -m", "a GPU without a NIC at PIX or PXB: WARN"),
    ),
    sections=(
        Section(
            "gpu_nvlink",
            "nvidia-smi nvlink -s",
            timeout_s=15,
            after="nvidia_smi_list",
            serves=("gpu.nvlink_status",),
        ),
        Section(
            "gpu_topology",
            "nvidia-smi topo -m",
            timeout_s=30,
            after="nvidia_smi_list",
            serves=("os.numa", "cross.rail_map"),
        ),
        # Domains of several nodes have channels, all others none.
        Section(
            "imex",
            "ls /dev/nvidia-caps-imex-channels 2>/dev/null; nvidia-imex-ctl -N",
            tool="nvidia-imex-ctl",
            serves=("gpu.imex", "cross.nvlink_domain"),
        ),
        Section(
            "gpu_modules",
            small=True,
            serves=("gpu.peermem",),
        ),
    ),
    judge=lambda answer: (
        _not_amd(answer)
        if is_amd(answer)
        else (
            *results_of(
                answer, "gpu_nvlink", "nvidia-smi nvlink -s", ("gpu.nvlink_status",), _nvlink
            ),
            *results_of(
                answer, "gpu_details", "nvidia-smi -q", ("gpu.fabric_state",), fabric_states
            ),
            *_manager(answer),
            *imex_domain(answer),
            *results_of(
                answer,
                "gpu_modules",
                "cat /proc/driver/nvidia/version; ls /sys/module",
                ("gpu.peermem",),
                _peermem,
            ),
            *results_of(answer, "gpu_topology", "nvidia-smi topo -m", ("os.numa",), _topology),
        )
    ),
    compare=domains,
    judge_records=_of_records,
)
