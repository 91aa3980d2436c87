"""What the clouds add: EFA with its provider and NCCL plugin, Google's plugins, Azure's topology
files."""

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
    of_kind,
    once,
    results_of,
)
from busbw.checks.pcie import is_virtual
from busbw.model import CheckResult
from busbw.parsers.tools import fi_info, os_facts
from busbw.parsers.tools.fi_info import FabricProvider
from busbw.parsers.tools.ibverbs import VerbsInfo
from busbw.parsers.tools.os_facts import RdmaNodes
from busbw.units import counted

_TOPOLOGY_SIZES = re.compile(r"Standard_ND\w*v4|Standard_ND96is\w*_H[12]00_v5", re.I)
"""Sizes that hide the PCI tree, so that NCCL needs a topology file: Azure's ND A100 v4, ND H100 v5
and ND H200 v5 series, as its images' setup_sku_customizations.sh has them
(https://github.com/Azure/azhpc-images, seen 2026-11-23)."""


_DOMAINS = Rule("efa.provider", "at least one domain of provider efa with FI_EP_RDM")
_DEVICES = Rule("efa.devices", "at least one EFA device")
_GCP = Rule("gcp.plugin", "Google's NCCL plugin (gIB, FasTrak or TCPX) below /usr/local")


def efa_domains(providers: tuple[FabricProvider, ...]) -> RuleResult:
    """Reliable-datagram domains of libfabric's provider `efa`."""
    domains = sorted(
        {p.domain or "" for p in providers if p.provider == "efa" and p.endpoint == "FI_EP_RDM"}
    )
    return _any(_DOMAINS, len(domains), counted(len(domains), "domain")).with_values(
        domains=len(domains)
    )


def efa_devices(count: int) -> RuleResult:
    """EFA devices of the kernel; how many there must be is the instance type's, compared over the
    nodes."""
    return _any(_DEVICES, count, counted(count, "device")).with_values(count=count)


def _any(rule: Rule, count: int, seen: str) -> RuleResult:
    """At least one is expected."""
    return rule.passed(seen) if count else rule.failed(seen)


@once
def _provider(output: SectionOutput) -> tuple[RuleResult, ...]:
    if output.stdout.startswith("no EFA device"):
        seen = "not asked: the kernel lists no EFA device"
        return (_DOMAINS.failed(seen).with_values(domains=0),)
    return (efa_domains(fi_info.parse(output.stdout)),)


@once
def _devices(output: SectionOutput) -> tuple[RuleResult, ...]:
    return (efa_devices(sum(line.startswith("device ") for line in output.stdout.splitlines())),)


@once
def _plugin(output: SectionOutput, listed: str) -> tuple[RuleResult, ...]:
    rule = Rule(
        "efa.plugin",
        "the NCCL plugin of EFA (libnccl-net.so of aws-ofi-nccl); without it NCCL uses TCP",
    )
    names = [
        name
        for name in os_facts.parse_libraries(listed) or ()
        if name.startswith(("libnccl-net", "libnccl-ofi"))
    ]
    files = re.findall(r"^plugin (\S+)$", output.stdout, re.M)
    installer = re.search(r"^installer (.+)$", output.stdout, re.M)
    version = f"; EFA installer {installer[1]}" if installer else ""
    if not names and not files:
        return (rule.failed(f"not found{version}").with_values(found=False),)
    return (rule.passed(f"{files[0] if files else names[0]}{version}"),)


@once
def _gcp(output: SectionOutput) -> tuple[RuleResult, ...]:
    plugins = sorted(set(re.findall(r"^gcp (\S+)$", output.stdout, re.M)))
    result = _any(_GCP, len(plugins), ", ".join(plugins) or "none")
    return (result.with_values(found=bool(plugins)),)


@once
def _azure(output: SectionOutput, virtual: bool) -> tuple[RuleResult, ...]:
    rule = Rule(
        "azure.topo", "a topology file in /opt/microsoft on ND A100 v4, H100 v5 and H200 v5"
    )
    files = re.findall(r"^topo (\S+)$", output.stdout, re.M)
    size = re.search(r"^size (\S+)$", output.stdout, re.M)
    if files:
        return (rule.passed(", ".join(files)),)
    if not virtual:
        return (rule.skipped("bare metal", "this is no virtual machine"),)
    if size is None:
        return (
            rule.unknown("none; size not known", "the metadata service did not tell the VM size"),
        )
    needed = _TOPOLOGY_SIZES.fullmatch(size[1]) is not None
    if not needed:
        return (rule.skipped(size[1], "this size needs none"),)
    return (rule.failed(f"none on {size[1]}").with_values(required_and_missing=True),)


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    listed = answer.section("ldconfig")
    names = listed.stdout if listed is not None else ""
    virtual = is_virtual(answer)
    return (
        *results_of(answer, "fi_info", "fi_info -p efa -t FI_EP_RDM", ("efa.provider",), _provider),
        *results_of(answer, "efa", "ls /sys/class/infiniband", ("efa.devices",), _devices),
        *results_of(
            answer,
            "efa",
            "ldconfig -p; ls /opt/amazon/ofi-nccl/lib*",
            ("efa.plugin",),
            lambda output: _plugin(output, names),
        ),
        *results_of(
            answer, "gcp", "ls /usr/local/{gib,fastrak,tcpx,nvidia}/lib64", ("gcp.plugin",), _gcp
        ),
        *results_of(
            answer,
            "azure",
            "ls /opt/microsoft/*topo*.xml",
            ("azure.topo",),
            lambda output: _azure(output, virtual),
        ),
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What `fi_info`, and the device nodes of a machine with EFA, say that were handed in."""
    results: list[RuleResult] = []
    providers = of_kind(records, FabricProvider)
    if providers:
        results.append(efa_domains(providers))
    if any(info.is_efa for info in of_kind(records, VerbsInfo)):
        results += [efa_devices(nodes.uverbs) for nodes in of_kind(records, RdmaNodes)]
    return tuple(results)


CHECK = CheckFamily(
    name="cloud",
    checks=(
        Check("efa.provider", "fi_info -p efa -t FI_EP_RDM", "no domain of provider efa: FAIL"),
        Check("efa.devices", "ls /sys/class/infiniband", "no EFA device: FAIL"),
        Check(
            "efa.plugin",
            "ldconfig -p; ls /opt/amazon/ofi-nccl/lib*",
            "no libnccl-net.so of aws-ofi-nccl: FAIL",
        ),
        Check(
            "gcp.plugin",
            "ls /usr/local/{gib,fastrak,tcpx,nvidia}/lib64",
            "no libnccl-net*.so: FAIL",
        ),
        Check(
            "azure.topo",
            "ls /opt/microsoft/*topo*.xml",
            "none on ND A100 v4, H100 v5 or H200 v5 (VM size from the metadata service): FAIL",
        ),
    ),
    sections=(
        # libfabric takes a third of a second to load all its providers: not where there is no
        # device for this one.
        Section(
            "fi_info",
            tool="fi_info",
            serves=("efa.provider",),
        ),
        Section(
            "efa",
            small=True,
            serves=("efa.devices", "efa.plugin"),
        ),
        Section(
            "gcp",
            small=True,
            serves=("gcp.plugin",),
        ),
        Section(
            "azure",
            serves=("azure.topo",),
        ),
    ),
    judge=_judge,
    judge_records=_of_records,
)
