"""What the kernel log says of the hardware: `os.kernel_log`."""

from __future__ import annotations

from busbw.checks import Check, CheckFamily, NodeAnswer, Section, evidence_of, unknown
from busbw.model import CheckResult, Status
from busbw.parsers.tools import kernel_log
from busbw.parsers.tools.kernel_log import KernelEvent

_ID = "os.kernel_log"
_COMMAND = "dmesg --level=emerg,alert,crit,err,warn (or journalctl -k -b)"
_EXPECTED = "no Xid, SXid, adapter, PCIe, link or machine error since boot"
_FATAL_XIDS = frozenset({48, 63, 64, 74, 79, 94, 95, 119, 120, 140, *range(145, 151)})
"""Hardware and driver: NVIDIA's Xid catalogue. 13, 31, 43 and 45 are mostly the application's
own."""
_ADAPTERS = ("mlx5", "bnxt_en", "ionic")
"""Drivers of RDMA adapters: other links may be down without harm."""
_WARNINGS = ("mlx5", "aer", "link-down", "hung-task", "oom")


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    output = answer.section("kernel_log")
    name = answer.node.name
    events = kernel_log.parse(output.stdout) if output is not None else ()
    bad = [(event, status) for event in events if (status := _status(event)) is not None]
    if output is not None and bad:
        # What was seen counts, also where the log could not be read to its end.
        event, status = next((item for item in bad if item[1] is Status.FAIL), bad[0])
        kinds = ", ".join(dict.fromkeys(_label(event) for event, _ in bad))
        return (
            CheckResult(
                _ID,
                name,
                status,
                kinds,
                _EXPECTED,
                _COMMAND,
                evidence=evidence_of(answer, output, event.line_no),
            ),
        )
    blocked = unknown(answer, _ID, "kernel_log", _EXPECTED, _COMMAND)
    if blocked:
        return (blocked,)
    output = answer.sections["kernel_log"]
    evidence = evidence_of(answer, output)
    if output.exit_status != 0:
        why = "the kernel log may not be read: it needs root or the group adm or systemd-journal"
        return (
            CheckResult(
                _ID, name, Status.UNKNOWN, "not readable", _EXPECTED, _COMMAND, why, evidence
            ),
        )
    return (CheckResult(_ID, name, Status.PASS, "nothing", _EXPECTED, _COMMAND, evidence=evidence),)


def _status(event: KernelEvent) -> Status | None:
    if event.kind == "xid":
        return Status.FAIL if event.number in _FATAL_XIDS else Status.WARN
    if event.kind in ("sxid", "amdgpu", "mce"):
        return Status.FAIL
    # Interfaces of containers and bridges come and go: only an adapter's own link counts.
    if event.kind == "link-down" and not any(name in event.text for name in _ADAPTERS):
        return None
    return Status.WARN if event.kind in _WARNINGS else None


def _label(event: KernelEvent) -> str:
    """What happened, and to which device: its PCI address or interface."""
    on = f" on {event.device}" if event.device else ""
    if event.number is None:
        return f"{event.kind}{on}"
    part = " NVLink" if "nvlink" in event.text.lower() else ""
    return f"{'Xid' if event.kind == 'xid' else 'SXid'} {event.number}{part}{on}"


CHECK = CheckFamily(
    name="kernel",
    checks=(
        Check(
            "os.kernel_log",
            "dmesg -T --level=emerg,alert,crit,err,warn (or journalctl -k -b)",
            "Xid of hardware, SXid, machine check: FAIL; others: WARN",
        ),
    ),
    sections=(
        Section(
            "kernel_log",
            "$S dmesg -T --level=emerg,alert,crit,err,warn || $S journalctl -k -b -p warning -n"
            " 2000 --no-pager",
            timeout_s=15,
            serves=(_ID,),
        ),
    ),
    judge=_judge,
)
