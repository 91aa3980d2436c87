"""Tools that print one state or count in a line: each is one row of a table that says which values
are errors. A line without a value that is known to be wrong is only read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.numbers import RowForm


@dataclass(frozen=True, slots=True)
class StateLine:
    """One line of such a tool."""

    subject: str
    """The device or port of the block that the line stands in; "" = none is named."""
    line: str
    """As printed, without blanks around it."""
    is_error: bool


def _parse(
    text: str, subject: str, reads: str, errors: str, ended: str = ""
) -> tuple[StateLine, ...]:
    r"""The lines that `reads` matches; `subject` opens a block, `errors` matches what is wrong in
    the block's name with the line behind it, unless a line further down says of the same object,
    the first group of `ended`, that it is well.

    >>> [each.is_error for each in _parse("state: 1: DOWN\nstate: 4: ACTIVE\n", r"^dev (\S+)", "state:", r"\bDOWN\b")]
    [True, False]
    """
    is_subject, is_read, is_error = (re.compile(each) for each in (subject, reads, errors))
    rows = text.splitlines()
    well = {}
    for number, line in enumerate(rows if ended else ()):
        if (end := re.search(ended, line)) is not None:
            well[end[1]] = number
    name = ""
    lines = []
    for number, line in enumerate(rows):
        opening = is_subject.search(line)
        if opening is not None:
            name = opening[1]
        if is_read.search(line) is not None:
            is_over = any(number < at and each in line.split() for each, at in well.items())
            is_bad = not is_over and is_error.search(name + line) is not None
            lines.append(StateLine(name, line.strip(), is_bad))
    return tuple(lines)


_NO_VALUE = RowForm(
    re.compile(
        r"^\s+(?!.*Offset)[A-Z][\w ./()-]{0,60} +: (?:-?nan|-?inf|-\d[\d.]*(?! C\b))(?:\s.*)?$",
        re.M | re.I,
    ),
    re.compile(r"(?!)"),
)
"""Of `nvidia-smi -q`: nan, or below zero, as only a distance in degrees and an offset are."""


def _line(state: StateLine) -> Iterator[str]:
    yield f"{state.subject}: {state.line}" if state.subject else state.line


def _tool(
    name: str,
    marks: tuple[str, ...],
    subject: str,
    reads: str,
    errors: str,
    facts: Callable[[tuple[StateLine, ...]], Iterable[ToolFact]] | None = None,
    ended: str = "",
    rows: tuple[RowForm, ...] = (),
) -> Tool[StateLine]:
    def reported(state: StateLine) -> Iterator[str]:
        if state.is_error:
            yield f"{name}: {state.line}"

    return Tool(
        name=name,
        marks=marks,
        parse=partial(_parse, subject=subject, reads=reads, errors=errors, ended=ended),
        lines=_line,
        facts=facts,
        errors=reported,
        rows=rows,
    )


def _ports_down(states: tuple[StateLine, ...]) -> Iterator[ToolFact]:
    for state in states:
        if state.is_error and " Down/" in state.line:
            yield ToolFact("rdma.port_state", (("state", "DOWN"),), state.line)


def _netdevs_down(states: tuple[StateLine, ...]) -> Iterator[ToolFact]:
    for state in states:
        if state.is_error:
            yield ToolFact("rdma.port_state", (("state", "DOWN"),), state.line)


_NO_SUBJECT = r"^()$(?!)"
_LOST = r"No devices were found|NVIDIA-SMI has failed|GPU is lost|\bERR!|initialize NVML: "
_FABRIC_MANAGER = (
    r"NVSwitch fatal error|fatal error occurred: .*NVSwitch|fabric manager .* don.t match with"
    r"|fabricmanager\S*: Failed with result|aborting fabric manager"
)
_POD_OR_NODE = r"^(?:\S+ +)?\S+ +\d+/\d+ +[A-Z]\S+ +\d+ |^\S+ +(?:NotReady|Ready)\S* +\S+ +\S+ +v\d"
_KUBECTL_BAD = (
    r" (?:NotReady\S*|Init:\S*Error|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|OOMKilled|Evicted"
    r"|Error|CreateContainer\w*Error|ContainerCannotRun|Unknown) | (\d+)/(?!\1 )\d+ +Running "
)
_EVENTS = r"[Ll]ost|Throttled|Uncorrectable|[Ff]ail(?:ed|ure)|[SP]ERR|IERR|Critical|Non-recoverable|Thermal Trip|Degraded|Fault"
_SENSOR = r"^[^|\n]+\| (?:.*(?:degrees|RPM|Volts|Watts|Amps|percent)|0x[0-9a-f]{2,4}|no reading)[^|\n]*\| "
_GPU = r"^(GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)"

TOOL = (
    _tool(
        "nvidia-smi failure",
        ("No devices were found", "NVIDIA-SMI has failed", "GPU is lost", "ERR!", "NVML: "),
        _NO_SUBJECT,
        _LOST,
        _LOST,
    ),
    _tool(
        "nvidia-smi -q",
        ("NVSMI LOG", "HW Slowdown", "Remapped Rows", "Retired Pages", "CliqueId"),
        _GPU,
        r"^\s+(?:HW (?:Thermal |Power Brake )?Slowdown|Pending(?: Page Blacklist)?"
        r"|Remapping Failure Occurred|Double Bit ECC) +: |^\s+State +: (?:In Progress|Not Started|Completed)\s*$",
        r"(?:State +: (?:In Progress|Not Started)|Slowdown +: Active|Pending(?: Page Blacklist)? +: Yes|Occurred +: Yes"
        r"|Double Bit ECC +: [1-9]\d*)\s*$",
        rows=(_NO_VALUE,),
    ),
    _tool(
        "nvidia-smi nvlink: inactive",
        ("<inactive>",),
        r"^GPU (\d+): ",
        r"Link \d+: ",
        r"Link \d+: <inactive>",
    ),
    _tool(
        "ibstatus",
        ("Infiniband device '",),
        r"^Infiniband device '([^']+)'",
        r"^\s*(?:phys state|state):",
        r"(?<!phys )\bstate:\s+\d+: (?!ACTIVE)\w+",
    ),
    _tool(
        "ethtool",
        ("Link detected:", "Settings for "),
        r"^Settings for (\S+):",
        r"^\s+(?:Speed|Duplex|Link detected): ",
        r"Link detected: no\b",
    ),
    _tool(
        "iblinkinfo",
        (")==> ",),
        r"^((?:Switch|CA): .*?):$",
        r"\)==> ",
        r"Could be |Initialize/|Armed/|^CA: .*\bDown/",
        _ports_down,
    ),
    _tool(
        "ibdev2netdev",
        (" ==> ",),
        _NO_SUBJECT,
        r"^\s*\S+ port \d+ ==> \S+ \(\w+\)",
        r"\(Down\)",
        _netdevs_down,
    ),
    _tool(
        "ibping",
        ("ibping statistics", "mad_rpc failed"),
        _NO_SUBJECT,
        r"packets transmitted|mad_rpc failed",
        r"\b100% packet loss|mad_rpc failed",
    ),
    _tool(
        "dcgmi health",
        ("Health Monitor Report",),
        _NO_SUBJECT,
        r"^\| .*\| *(?:Healthy|Warning|Failure) *\|",
        r"\| *(?:Warning|Failure) *\|",
    ),
    _tool(
        "fabric manager",
        ("NVSwitch", "abric manager", "fabricmanager"),
        _NO_SUBJECT,
        _FABRIC_MANAGER,
        _FABRIC_MANAGER,
    ),
    _tool(
        "hydra",
        ("BAD TERMINATION OF ONE OF",),
        _NO_SUBJECT,
        r"BAD TERMINATION OF ONE OF|RUNNING AT|EXIT (?:CODE|STRING): ",
        r"BAD TERMINATION OF ONE OF",
    ),
    _tool(
        "kubectl events",
        ("FailedScheduling",),
        _NO_SUBJECT,
        r"\bFailedScheduling\b",
        r"\bFailedScheduling\b",
        ended=r"\b(?:Scheduled|Started)\s+(pod/\S+)",
    ),
    _tool(
        "kubectl get",
        ("RESTARTS", "ROLES"),
        _NO_SUBJECT,
        _POD_OR_NODE,
        _KUBECTL_BAD,
    ),
    _tool(
        "systemctl",
        (" loaded failed ", " loaded active ", "Active: failed", "Active: active", "auto-restart"),
        r"^[●×✕*] (\S+) - ",
        r"^[●×✕* ]*\S+ +loaded (?:failed|active|activating) |^\s+Active: ",
        r"loaded failed |Active: failed|\bauto-restart\b",
    ),
    _tool(
        "coredumpctl",
        ("Signal: ",),
        r"^\s+PID: \d+ \((\S+)\)",
        r"^\s+Signal: \d+ \(\w+\)",
        r"Signal: \d+ \(\w+\)",
    ),
    _tool(
        "scontrol show node",
        ("NodeName=",),
        r"^NodeName=(\S+)",
        r"^\s+State=\S+|^\s+Reason=",
        r"State=\S*(?:DOWN|DRAIN|FAIL|ERROR|NOT_RESPONDING)",
    ),
    _tool(
        "sacct",
        ("ExitCode",),
        _NO_SUBJECT,
        r"^\d+(?:_\d+)?(?:\.\w+)? .*\b(?:COMPLETED|RUNNING|PENDING|CANCELLED|FAILED|TIMEOUT|NODE_FAIL|OUT_OF_ME\S*"
        r"|BOOT_FAIL|DEADLINE|PREEMPTED) ",
        r"\b(?:FAILED|TIMEOUT|NODE_FAIL|OUT_OF_ME\S*|BOOT_FAIL|DEADLINE|PREEMPTED) ",
    ),
    _tool(
        "ipmitool",
        (" | ok", " | ns", " | cr", " | nr"),
        _NO_SUBJECT,
        _SENSOR + r"(?:ok|ns|nc|cr|nr|us)\s*$",
        r"\| (?:cr|nr)\s*$",
    ),
    _tool(
        "ipmitool sel",
        ("| Asserted", "| Deasserted"),
        _NO_SUBJECT,
        r"^\s*[0-9a-f]{1,4} \|[^|\n]*\|[^|\n]*\|.*\| (?:Asserted|Deasserted)\s*$",
        rf"(?:{_EVENTS})[^|\n]*(?:\|[^|\n]*)?\| Asserted\s*$",
    ),
    _tool(
        "mmgetstate",
        ("GPFS state",),
        _NO_SUBJECT,
        r"^\s*\d+ +\S+ +(?:active|down|arbitrating|unknown|unresponsive)\b",
        r" (?:down|arbitrating|unknown|unresponsive)\b",
    ),
    _tool(
        "SONiC show interfaces status",
        ("Oper    Admin", "Oper  Admin"),
        _NO_SUBJECT,
        r"^\s*Ethernet\d+ .* (?:up|down) +(?:up|down) ",
        r" down +up ",
    ),
    _tool(
        "SONiC show pfcwd stats",
        ("STORM DETECTED/RESTORED",),
        _NO_SUBJECT,
        r"^\s*Ethernet\d+:\d+ +\w+ +\d+/\d+",
        r" stormed ",
    ),
    _tool(
        "show interfaces status",
        ("Duplex Speed", "Duplex  Speed", "errdisabled"),
        _NO_SUBJECT,
        r"^\s*(?:Et|Eth|Ethernet|Hu|Fo)\S*\d .* (?:connected|notconnect\w*|err-?disabled|disabled) ",
        r" err-?disabled ",
    ),
    _tool(
        "show bgp summary",
        ("State/PfxRcd",),
        _NO_SUBJECT,
        r"^\s*\S+ +4 +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\S+ +\S+",
        r" (?:Idle|Active|Connect|OpenSent|OpenConfirm)\b",
    ),
    _tool(
        "traceroute",
        ("traceroute to ",),
        _NO_SUBJECT,
        r"^\s*\d+ +\S.* ms\b",
        r" ![HNPXSF]\b",
    ),
    _tool(
        "Prometheus alerts",
        ("ALERTS{",),
        _NO_SUBJECT,
        r"^\s*ALERTS\{",
        r'alertstate="firing"',
    ),
    _tool(
        "lspci LnkSta",
        ("LnkSta:",),
        r"^([0-9a-f:]+\.\d) ",
        r"LnkSta:",
        r"LnkSta:.*Width x\d+ \(downgraded\)",
    ),
    _tool(
        "ulimit -l",
        ("ulimit -l", "max locked memory"),
        _NO_SUBJECT,
        r"^\s*(?:max locked memory.*\) |)(?:\d+|unlimited)\s*$",
        r"(?:^|\) )\s*(?:\d{1,5})\s*$",
    ),
)
