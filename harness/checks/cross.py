"""All nodes against each other: what differs from the majority is named. Each comparison reads what
another family asked."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from busbw.checks import Check, CheckFamily, NodeAnswer, RuleResult, SectionOutput, of_kind, once
from busbw.checks.gpu import is_amd
from busbw.fabrics import nccl_settings
from busbw.model import CheckResult, Evidence, Status
from busbw.model.run import TIE
from busbw.parsers.tools import gpus, ibverbs, nvidia_smi_topology, ofed, os_facts, rdma_sysfs
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsInfo
from busbw.parsers.tools.nvidia_smi_topology import Topology
from busbw.parsers.tools.ofed import OfedRelease
from busbw.parsers.tools.rdma_sysfs import PartitionKey
from busbw.units import counted

_COUNTED = re.compile(r"(\d+) x ([^,(]+)")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing that must be equal on all nodes."""

    check_id: str
    section: str
    command: str
    severity: Status
    """Of the nodes that differ."""
    value: Callable[[SectionOutput], str | None]
    """What is compared, in a few words; None = the node does not say."""
    doubt: Callable[[str], str] = lambda text: ""
    """What is doubtful about a value even where all nodes have it; empty = nothing."""
    rule: str = ""
    """Where `differs from most nodes: SEVERITY` does not say it all."""
    amd_command: str = ""
    """The same question on a node with AMD's GPUs; empty = the same words."""
    also: tuple[str, ...] = ()
    """Sections whose text is read behind that of `section`."""
    counts_parts: bool = False
    """True = it is about what the parts have, not about how many there are: a node that lacks a part
    is found by the check that counts them."""

    def command_on(self, answer: NodeAnswer) -> str:
        """What answers it on this node, as a person would type it."""
        return self.amd_command if self.amd_command and is_amd(answer) else self.command

    @property
    def check(self) -> Check:
        """How the check is shown to people."""
        rule = self.rule or f"differs from most nodes: {self.severity.value}"
        return Check(self.check_id, self.command, rule)


def _gpu_field(field: str) -> Callable[[SectionOutput], str | None]:
    def value(output: SectionOutput) -> str | None:
        rows = gpus.rows(output.stdout) or ()
        counts = Counter(row.text(field) or "not shown" for row in rows)
        return ", ".join(f"{count} x {text}" for text, count in sorted(counts.items())) or None

    return value


def _firmware(output: SectionOutput) -> str | None:
    """The firmware of each board; where the cards of one board differ, the devices of all but the
    most are named."""
    boards: dict[str, dict[str, list[str]]] = {}
    for card in rdma_sysfs.parse(output.stdout):
        if card.firmware:
            board = boards.setdefault(card.board_id or card.hca_type or card.name, {})
            board.setdefault(card.firmware, []).append(card.name)
    texts = []
    for board_id, versions in sorted(boards.items()):
        most = max(map(len, versions.values()))
        for version, names in sorted(versions.items()):
            named = f" ({', '.join(sorted(names))})" if len(names) < most else ""
            texts.append(f"{board_id} {version}{named}")
    return ", ".join(texts) or None


def _rates(output: SectionOutput) -> str | None:
    ports = [port for device in rdma_sysfs.parse(output.stdout) for port in device.ports]
    counts = Counter(
        f"{port.rate_gbit_s:g} Gb/s"
        for port in ports
        if port.state == "ACTIVE" and port.rate_gbit_s is not None
    )
    return ", ".join(f"{count} x {rate}" for rate, count in sorted(counts.items())) or None


def _active(output: SectionOutput) -> str | None:
    devices = rdma_sysfs.parse(output.stdout)
    up = sum(port.state == "ACTIVE" for device in devices for port in device.ports)
    return f"{counted(up, 'active port')} of {len(devices)} devices" if devices else None


def _mtus(output: SectionOutput) -> str | None:
    """How many ports have which; where they differ, the devices of all but the most are named."""
    devices: dict[int, list[str]] = {}
    for info in ibverbs.parse_devinfo(output.stdout):
        for port in info.ports:
            if port.active_mtu:
                devices.setdefault(port.active_mtu, []).append(info.name)
    most = max(map(len, devices.values()), default=0)
    texts = []
    for mtu, names in sorted(devices.items()):
        named = f" ({', '.join(names)})" if len(names) < most else ""
        texts.append(f"{len(names)} x {mtu}{named}")
    return ", ".join(texts) or None


def _package(output: SectionOutput) -> str | None:
    if output.missing:
        return "no vendor package"
    release = ofed.parse_release(output.stdout)
    return release.name if release else None


def _rails(output: SectionOutput) -> str | None:
    matrix = nvidia_smi_topology.parse(output.stdout)
    if matrix is None or not matrix.nics or any(row.torn for row in matrix.rows):
        return None
    text = repr([(row.name, row.paths) for row in matrix.rows])
    return (
        f"matrix {hashlib.sha256(text.encode()).hexdigest()[:8]} of {counted(len(matrix.gpus), 'GPU')} and"
        f" {counted(len(matrix.nics), 'NIC')}"
    )


def _keys(output: SectionOutput) -> str | None:
    ports = [
        port
        for device in rdma_sysfs.parse(output.stdout)
        for port in device.ports
        if port.state == "ACTIVE" and port.keys
    ]
    counts = Counter(" ".join(f"{key.key:#06x}" for key in port.keys) for port in ports)
    return ", ".join(f"{count} x {keys}" for keys, count in sorted(counts.items())) or None


def _only_limited(text: str) -> str:
    keys = re.findall(r"0x[0-9a-f]{4}", text)
    return (
        ""
        if any(int(key, 16) & 0x8000 for key in keys)
        else "limited members of a partition never reach each other"
    )


def _gid_indexes(output: SectionOutput) -> str | None:
    ports = [
        port
        for device in rdma_sysfs.parse(output.stdout)
        for port in device.ports
        if port.rocev2_ipv4
    ]
    counts = Counter(port.rocev2_ipv4[0] for port in ports)
    return (
        ", ".join(
            f"index {index} on {counted(count, 'port')}" for index, count in sorted(counts.items())
        )
        or None
    )


def _libraries(output: SectionOutput) -> str | None:
    versions = sorted(
        {
            name.replace("libnccl.so.", "").replace("librccl.so.", "RCCL ")
            for name in re.findall(r"^nccl \S*?(lib[nr]ccl\.so\.[\d.]+)$", output.stdout, re.M)
        }
    )
    return ", ".join(versions) or None


def _hash(output: SectionOutput) -> str | None:
    match = re.match(r"([0-9a-f]{64})\s", output.stdout)
    return f"sha256 {match[1][:12]}" if match else None


def _fact(name: str) -> Callable[[SectionOutput], str | None]:
    return lambda output: os_facts.parse(output.stdout).text(name)


def _memlock(output: SectionOutput) -> str | None:
    return output.stdout.strip() or None


def _nccl_settings(output: SectionOutput) -> str | None:
    """Those that every rank should have alike."""
    settings = nccl_settings.of_all_ranks(nccl_settings.written(output.stdout))
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "none"


COMPARISONS = (
    Comparison(
        "cross.gpu_model",
        "gpu_query",
        "nvidia-smi --query-gpu=name",
        Status.FAIL,
        _gpu_field("name"),
        rule="GPU model or count differs from most nodes: FAIL",
        amd_command="amd-smi static --asic",
    ),
    Comparison(
        "cross.driver",
        "gpu_query",
        "nvidia-smi --query-gpu=driver_version",
        Status.FAIL,
        _gpu_field("driver_version"),
        amd_command="amd-smi static --driver",
        counts_parts=True,
    ),
    Comparison(
        "cross.vbios",
        "gpu_query",
        "nvidia-smi --query-gpu=vbios_version",
        Status.WARN,
        _gpu_field("vbios_version"),
        amd_command="amd-smi static --vbios",
        counts_parts=True,
    ),
    Comparison(
        "cross.nic_fw",
        "rdma_sysfs",
        "cat /sys/class/infiniband/*/fw_ver",
        Status.WARN,
        _firmware,
        rule="NIC firmware differs from most nodes with the same board: WARN",
    ),
    Comparison(
        "cross.rate",
        "rdma_sysfs",
        "cat /sys/class/infiniband/*/ports/*/rate",
        Status.FAIL,
        _rates,
        rule="number and rates of active ports differ from most nodes: FAIL",
    ),
    Comparison(
        "cross.active_ports",
        "rdma_sysfs",
        "cat /sys/class/infiniband/*/ports/*/state",
        Status.FAIL,
        _active,
    ),
    Comparison("cross.mtu", "ibv_devinfo", "ibv_devinfo", Status.FAIL, _mtus, counts_parts=True),
    Comparison("cross.ofed", "ofed_info", "ofed_info -s", Status.WARN, _package),
    Comparison(
        "cross.rail_map",
        "gpu_topology",
        "nvidia-smi topo -m",
        Status.FAIL,
        _rails,
        rule="the topology matrix differs from most nodes: FAIL",
    ),
    Comparison("cross.kernel", "system", "uname -r", Status.WARN, _fact("kernel")),
    Comparison("cross.cpu_model", "system", "cat /proc/cpuinfo", Status.WARN, _fact("cpu_model")),
    Comparison(
        "cross.pkey",
        "rdma_sysfs",
        "cat /sys/class/infiniband/*/ports/*/pkeys/*",
        Status.FAIL,
        _keys,
        _only_limited,
        rule="P_Key tables differ from most nodes: FAIL; limited membership only: WARN",
    ),
    # For the reader: NCCL 2.21 and later find the index by themselves.
    Comparison(
        "cross.gid_index",
        "rdma_sysfs",
        "cat /sys/class/infiniband/*/ports/*/gid_attrs/types/*",
        Status.PASS,
        _gid_indexes,
        rule="informational: index of the RoCE v2 IPv4 GID",
    ),
    Comparison(
        "cross.nccl_version",
        "nccl_library",
        "ls libnccl.so.2.* librccl.so.1.*",
        Status.FAIL,
        _libraries,
        rule="libraries on LD_LIBRARY_PATH and in the standard directories differ from most nodes: FAIL",
    ),
    Comparison(
        "cross.nccl_tests_hash",
        "nccl_tests",
        "sha256sum all_reduce_perf",
        Status.FAIL,
        _hash,
        rule="the binary on PATH differs from most nodes: FAIL",
    ),
    Comparison(
        "cross.governor",
        "system",
        "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        Status.WARN,
        _fact("governor"),
    ),
    Comparison(
        "cross.numa_layout",
        "system",
        "cat /sys/devices/system/node/node*/cpulist",
        Status.WARN,
        _fact("numa"),
    ),
    Comparison(
        "cross.bios", "system", "cat /sys/class/dmi/id/bios_version", Status.WARN, _fact("bios")
    ),
    Comparison("cross.limits", "memlock", "ulimit -l", Status.WARN, _memlock),
    Comparison(
        "cross.nccl_settings",
        "nccl_conf",
        "cat /etc/nccl.conf ~/.nccl.conf; env",
        Status.FAIL,
        _nccl_settings,
        rule=(
            "NCCL variables from config files or the environment differ from most nodes: FAIL;"
            " device names and log settings may differ"
        ),
        also=("environment",),
    ),
)
"""Severities: the consistency table of docs/checks.md."""


def compare(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """Every comparison on every node."""
    return tuple(result for each in COMPARISONS for result in _compare(each, answers))


def _compare(comparison: Comparison, answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    value = once(comparison.value)
    texts: dict[str, str] = {}
    for answer in answers:
        output = answer.section(comparison.section)
        if output is not None and comparison.also:
            more = [answer.section(name) for name in comparison.also]
            texts_of_all = (output.stdout, *(each.stdout for each in more if each is not None))
            output = replace(output, stdout="\n".join(texts_of_all))
        text = None if output is None or output.cut else value(output)
        if text is not None:
            texts[answer.node.name] = text
    if len(texts) < 2:
        return _not_compared(comparison, answers)
    counts = Counter(texts.values())
    most = max(counts.values())
    leaders = sorted(text for text, count in counts.items() if count == most)
    # Without a majority nobody is the odd one out: every node is reported as different.
    majority = leaders[0] if len(leaders) == 1 else None
    expected = "the same on all nodes (no majority)"
    if majority is not None:
        expected = f"the same on all nodes: {majority} ({most} of {len(texts)})"
    return tuple(
        _compared(comparison, answer, texts.get(answer.node.name), majority, expected, len(counts))
        for answer in answers
    )


def _not_compared(
    comparison: Comparison, answers: tuple[NodeAnswer, ...]
) -> tuple[CheckResult, ...]:
    """Fewer than two nodes show the value."""
    sections = [answer.section(comparison.section) for answer in answers]
    absent = any(
        output is None or output.exit_status is None or output.timed_out for output in sections
    )
    status = Status.UNKNOWN if absent else Status.SKIPPED
    reason = "fewer than two nodes report it: nothing to compare"
    return tuple(
        CheckResult(
            comparison.check_id,
            answer.node.name,
            status,
            "not compared",
            "",
            comparison.command_on(answer),
            reason,
        )
        for answer in answers
    )


def _is_part_of(text: str, whole: str) -> bool:
    """What a node shows is the others' without some parts, and has nothing of its own.

    >>> _is_part_of("7 x 4096", "8 x 4096"), _is_part_of("7 x 4096, 1 x 1024 (mlx5_3)", "8 x 4096")
    (True, False)
    """
    own, others = (
        {what.strip(): int(count) for count, what in _COUNTED.findall(each)}
        for each in (text, whole)
    )
    return bool(own) and all(count <= others.get(what, 0) for what, count in own.items())


def _compared(
    comparison: Comparison,
    answer: NodeAnswer,
    text: str | None,
    majority: str | None,
    expected: str,
    distinct: int,
) -> CheckResult:
    """One node against the majority; `text` None = it does not show the value."""
    name, output = answer.node.name, answer.section(comparison.section)
    if text is None or output is None:
        reason = answer.problem or "the node did not report it"
        return CheckResult(
            comparison.check_id,
            name,
            Status.UNKNOWN,
            "not known",
            expected,
            comparison.command_on(answer),
            reason,
        )
    doubt = comparison.doubt(text)
    status = Status.PASS
    fewer = comparison.counts_parts and majority is not None and _is_part_of(text, majority)
    if text != majority and not fewer:
        status = comparison.severity
    elif doubt:
        status = Status.WARN
    # Only a node that differs carries the number of different answers: it flags that node.
    values: tuple[tuple[str, float | bool], ...] = (
        ("distinct", 1.0 if text == majority or fewer else float(distinct)),
    )
    if majority is None:
        values = (*values, TIE)
    evidence = Evidence(answer.artefact, output.line_no, text[:400])
    return CheckResult(
        comparison.check_id,
        name,
        status,
        text,
        expected,
        comparison.command_on(answer),
        doubt,
        evidence,
        values=values,
    )


def partitions(keys: tuple[PartitionKey, ...]) -> RuleResult:
    """One P_Key table by itself: NCCL uses index 0, and two limited members never reach each
    other."""
    expected = "full membership at P_Key index 0; equal tables on all nodes"
    first = next((key for key in keys if key.index == 0), None)
    if first is None:
        return RuleResult(
            "cross.pkey", Status.UNKNOWN, "no key at index 0", expected, "the text shows no index 0"
        )
    if not first.full_member:
        return RuleResult(
            "cross.pkey", Status.WARN, f"{first.key:#06x} at index 0: limited member", expected
        )
    return RuleResult("cross.pkey", Status.PASS, f"{first.key:#06x} at index 0", expected)


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What one node alone shows: mostly the value, with nothing to compare it with."""
    results: list[RuleResult] = []
    keys = of_kind(records, PartitionKey)
    if keys:
        results.append(partitions(keys))
    for release in of_kind(records, OfedRelease):
        results.append(_alone("cross.ofed", release.name))
    for matrix in of_kind(records, Topology):
        size = f"{counted(len(matrix.gpus), 'GPU')}, {counted(len(matrix.nics), 'NIC')}"
        results.append(_alone("cross.rail_map", size))
    gids = of_kind(records, Gid)
    if gids:
        indexes = sorted({f"{gid.device} {gid.index}" for gid in gids if gid.routable})
        results.append(_alone("cross.gid_index", ", ".join(indexes) or "none"))
    firmware = {
        f"{device.ca_type} {device.firmware}"
        for ibstat in of_kind(records, Ibstat)
        for device in ibstat.devices
    }
    for info in of_kind(records, VerbsInfo):
        firmware.add(f"{info.board_id or info.name} {info.firmware}")
    if firmware:
        results.append(_alone("cross.nic_fw", ", ".join(sorted(firmware))))
    return tuple(results)


def _alone(check_id: str, seen: str) -> RuleResult:
    reason = "only one node: nothing to compare with"
    return RuleResult(check_id, Status.SKIPPED, seen, "the same on all nodes", reason)


CHECK = CheckFamily(
    name="cross",
    checks=tuple(comparison.check for comparison in COMPARISONS),
    sections=(),
    judge=lambda answer: (),
    compare=compare,
    judge_records=_of_records,
)
