"""Ethernet below RoCE and sockets: which interface, quality of service, congestion marks, ARP
between rails."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import replace

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
from busbw.model import CheckResult, Status
from busbw.parsers.tools import interface_state, mlnx_qos, os_facts
from busbw.parsers.tools.mlnx_qos import Qos
from busbw.parsers.tools.os_facts import RdmaNetdev

_OTHER_TOOLS = "ask the adapter's own tool (Broadcom: niccli, AMD: nicctl)"
_QOS = "trust dscp, priority flow control on the RoCE priority"


def qos(settings: tuple[Qos, ...]) -> RuleResult:
    """RoCE marks its packets by DSCP and needs flow control on its priority."""
    if any(item.trust is None or item.pfc_priorities is None for item in settings) or not settings:
        return RuleResult(
            "eth.qos",
            Status.UNKNOWN,
            "not shown",
            _QOS,
            "the output is cut before the flow control table",
        )
    settings_text = ", ".join(
        sorted({f"trust {s.trust}, PFC on {_priorities(s)}" for s in settings})
    )
    odd = next(
        (s for s in settings if s.trust != "dscp"),
        next((s for s in settings if not s.pfc_priorities), settings[0]),
    )
    return _marked(settings, settings_text).with_values(
        trust=odd.trust, pfc_enabled_prio=",".join(map(str, odd.pfc_priorities or ())) or "none"
    )


def _marked(settings: tuple[Qos, ...], seen: str) -> RuleResult:
    if any(item.trust != "dscp" for item in settings):
        return RuleResult("eth.qos", Status.FAIL, seen, _QOS)
    if any(not item.pfc_priorities for item in settings):
        return RuleResult("eth.qos", Status.WARN, seen, _QOS)
    return RuleResult("eth.qos", Status.PASS, seen, _QOS)


def _priorities(item: Qos) -> str:
    return (
        "priority " + ", ".join(map(str, item.pfc_priorities))
        if item.pfc_priorities
        else "no priority"
    )


def congestion_marks(devices: tuple[RdmaNetdev, ...]) -> RuleResult:
    """Whether receivers answer ECN marks and senders slow down, on at least one priority of each
    interface."""
    rule = Rule("eth.ecn", "ECN on for the RoCE priority, as receiver (np) and sender (rp)")
    if not devices:
        return rule.skipped("no RoCE interface", "no RDMA device with an Ethernet interface")
    hidden = [d.name for d in devices if d.ecn_np is None or d.ecn_rp is None]
    off = [d.name for d in devices if d.ecn_np == () or d.ecn_rp == ()]
    if off:
        return rule.warned(f"off on {', '.join(off)}").with_values(enabled=False)
    if hidden:
        why = (
            "not in sysfs: newer drivers keep it in the firmware (mstconfig query"
            " ROCE_CC_PRIO_MASK_P1)"
        )
        if _of_others(devices):
            why = f"not in sysfs: only NVIDIA's driver shows it there; {_OTHER_TOOLS}"
        return rule.unknown(f"not shown on {len(hidden)} interfaces", why)
    shared = sorted({p for d in devices for p in set(d.ecn_np or ()) & set(d.ecn_rp or ())})
    if not shared:
        return rule.warned("receiver and sender on different priorities")
    return rule.passed(f"on for priority {', '.join(map(str, shared))}")


def _of_others(devices: tuple[RdmaNetdev, ...]) -> bool:
    """There are adapters, and none of them is NVIDIA's."""
    return bool(devices) and not any(each.device.startswith("mlx") for each in devices)


def rail_subnets(
    devices: tuple[RdmaNetdev, ...], networks: tuple[tuple[str, str], ...]
) -> RuleResult:
    """Several rails in one subnet answer for each other's addresses unless ARP is told not to."""
    rule = Rule(
        "eth.arp",
        "one subnet per rail, or arp_ignore 1 and arp_announce 2 with a routing rule per rail",
    )
    named = {device.name: device for device in devices}
    rails = [(name, network) for name, network in networks if name in named]
    if len(rails) < 2:
        return rule.skipped(
            f"{len(rails)} addresses", "fewer than two RoCE interfaces have an IPv4 address"
        )
    crowded = {
        network for network, count in Counter(network for _, network in rails).items() if count > 1
    }
    if not crowded:
        return rule.passed("a subnet per rail")
    among = [named[name] for name, network in rails if network in crowded]
    bad = sorted(
        device.name for device in among if (device.arp_ignore, device.arp_announce) != (1, 2)
    )
    subnets_text = f"{len(among)} rails share {len(crowded)} subnet" + (
        "s" if len(crowded) > 1 else ""
    )
    if bad:
        result = rule.failed(
            f"{subnets_text}; arp_ignore or arp_announce not set on {', '.join(bad)}"
        )
        strict = max((d.rp_filter for d in among if d.rp_filter is not None), default=None)
        return result.with_values(same_subnet_ifaces=len(among), rp_filter=strict)
    return rule.passed(f"{subnets_text}, arp_ignore 1 and arp_announce 2")


@once
def _qos(output: SectionOutput) -> tuple[RuleResult, ...]:
    parts = [part for part in re.split(r"^== \S+$", output.stdout, flags=re.M) if part.strip()]
    if not parts and output.exit_status == 0 and "==" not in output.stdout:
        return (
            RuleResult(
                "eth.qos",
                Status.SKIPPED,
                "no RoCE port",
                _QOS,
                "no RDMA device with an Ethernet interface",
            ),
        )
    parsed = [mlnx_qos.parse(part) for part in parts]
    if any(item is None for item in parsed) or not parsed:
        last_line = (output.stdout + output.stderr).strip().splitlines()[-1:] or [
            "mlnx_qos printed nothing"
        ]
        return (
            RuleResult(
                "eth.qos",
                Status.UNKNOWN,
                "not readable",
                _QOS,
                f"mlnx_qos needs root (busbw check --sudo): {last_line[0][:120]}",
            ),
        )
    settings = tuple(item for item in parsed if item is not None)
    return (_at_interface(qos(settings), settings, output),)


def _at_interface(
    result: RuleResult, settings: tuple[Qos, ...], output: SectionOutput
) -> RuleResult:
    """With the interfaces that are not well, and the line of the first that shows it."""
    if result.status not in (Status.FAIL, Status.WARN):
        return result
    lines = output.stdout.splitlines()
    heads = [n for n, line in enumerate(lines) if re.match(r"== \S+$", line)]
    trusts = result.status is Status.WARN
    bad = [
        head
        for head, item in zip(heads, settings, strict=False)
        if (not item.pfc_priorities if trusts else item.trust != "dscp")
    ]
    if not bad:
        return result
    sign = "enabled" if trusts else "Priority trust state"
    number = next(
        (n for n in range(bad[0], len(lines)) if lines[n].strip().startswith(sign)), bad[0]
    )
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    seen = f"{result.seen}: {lines[bad[0]].removeprefix('== ')}{more}"
    return replace(result, seen=seen, line_no=number + 1)


@once
def _arp(output: SectionOutput, addresses: str) -> tuple[RuleResult, ...]:
    return (rail_subnets(os_facts.parse_netdevs(output.stdout), os_facts.networks(addresses)),)


@once
def _ecn(output: SectionOutput) -> tuple[RuleResult, ...]:
    return (congestion_marks(os_facts.parse_netdevs(output.stdout)),)


@once
def _interfaces(output: SectionOutput, settings: str) -> tuple[RuleResult, ...]:
    """What NCCL_SOCKET_IFNAME names: a list of prefixes, exact names behind `=`, none of them
    behind `^`."""
    names = sorted({each.name for each in interface_state.parse_interfaces(output.stdout)})
    proposal = re.search(r"^default (\S+)$", output.stdout, re.M)
    rule = Rule("eth.interfaces", "every interface that NCCL_SOCKET_IFNAME names is there")
    if not names:
        return ()
    assigned = re.findall(r"^[ \t]*NCCL_SOCKET_IFNAME\s*=\s*(\S*)[ \t\r]*$", settings, re.M)
    # A variable wins over a file, and the files stand first in the text.
    value = assigned[-1] if assigned else ""
    exact, without = value.lstrip("^").startswith("="), value.startswith("^")
    prefixes = [word.partition(":")[0] for word in value.lstrip("^").lstrip("=").split(",") if word]
    route_text = f"default route through {proposal[1]}" if proposal else "no default route"
    if not prefixes or without:
        return (rule.passed(value or f"not set; {route_text}"),)
    absent = [
        word
        for word in prefixes
        if not any(name == word if exact else name.startswith(word) for name in names)
    ]
    if absent:
        result = rule.failed(
            f"NCCL_SOCKET_IFNAME={value}: no {', '.join(absent)} here; {route_text}"
        )
        return (result.with_values(named_iface_missing=len(absent)),)
    return (rule.passed(f"NCCL_SOCKET_IFNAME={value}"),)


def _of_its_tool(answer: NodeAnswer, result: CheckResult) -> CheckResult:
    """Of adapters that mlnx_qos does not know, why nothing is known: not that it is missing."""
    netdevs = answer.section("netdevs")
    known = os_facts.parse_netdevs(netdevs.stdout) if netdevs is not None else ()
    if result.status is not Status.UNKNOWN or not _of_others(known):
        return result
    return replace(result, reason=f"mlnx_qos knows NVIDIA's adapters only; {_OTHER_TOOLS}")


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    settings = "".join(
        part.stdout
        for name in ("nccl_conf", "environment")
        if (part := answer.section(name)) is not None
    )
    listed = answer.section("addresses")
    addresses = listed.stdout if listed is not None else ""
    names = "cat /etc/nccl.conf; env; ls /sys/class/net"
    return (
        *results_of(
            answer,
            "interfaces",
            names,
            ("eth.interfaces",),
            lambda output: _interfaces(output, settings),
        ),
        *map(
            functools.partial(_of_its_tool, answer),
            results_of(answer, "mlnx_qos", "mlnx_qos -i INTERFACE", ("eth.qos",), _qos),
        ),
        *results_of(
            answer,
            "netdevs",
            "cat /sys/class/net/INTERFACE/ecn/roce_*/enable/*",
            ("eth.ecn",),
            _ecn,
        ),
        *results_of(
            answer,
            "netdevs",
            "sysctl net.ipv4.conf.INTERFACE; ip -o addr",
            ("eth.arp",),
            lambda output: _arp(output, addresses),
        ),
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What `mlnx_qos` says that was handed in."""
    return tuple(qos((settings,)) for settings in of_kind(records, Qos))


CHECK = CheckFamily(
    name="ethernet",
    checks=(
        Check(
            "eth.interfaces",
            "cat /etc/nccl.conf; env; ls /sys/class/net",
            "NCCL_SOCKET_IFNAME of a file or the session matches no interface: FAIL",
        ),
        Check(
            "eth.qos",
            "mlnx_qos -i INTERFACE",
            "trust mode is not dscp: FAIL; no priority with flow control: WARN; needs root",
        ),
        Check(
            "eth.ecn",
            "cat /sys/class/net/INTERFACE/ecn/roce_{np,rp}/enable/*",
            "no priority with ECN, as receiver or sender: WARN",
        ),
        Check(
            "eth.arp",
            "sysctl net.ipv4.conf.INTERFACE; ip -o addr",
            "rails share a subnet without arp_ignore 1 and arp_announce 2: FAIL",
        ),
    ),
    sections=(
        Section(
            "mlnx_qos",
            timeout_s=20,
            tool="mlnx_qos",
            serves=("eth.qos",),
        ),
        Section("netdevs", small=True, serves=("eth.ecn", "eth.arp")),
    ),
    judge=_judge,
    judge_records=_of_records,
)
