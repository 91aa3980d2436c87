"""RDMA devices and the package they come with: `rdma.devices`, `rdma.ofed`."""

from __future__ import annotations

from busbw.parsers.nodes import ibverbs, ofed
from busbw.preflight import CheckFamily, NodeAnswer, Section, unknown
from busbw.records import CheckResult, Evidence, Status


def _devices(answer: NodeAnswer) -> CheckResult:
    node = answer.node
    wanted = len(node.rails)
    expected = f"{wanted} RDMA devices ({', '.join(node.rails)})" if wanted else "at least one RDMA device"
    result = unknown(answer, "rdma.devices", "ibv_devices", expected, "ibv_devices")
    if result:
        return result
    output = answer.sections["ibv_devices"]
    listed = ibverbs.parse_devices(output.stdout, output.stderr)
    text = (output.stdout + output.stderr).strip()
    evidence = Evidence(answer.artefact, output.line_no, text[:400] or "(nothing printed)")
    if listed is None:
        why = f"exit status {output.exit_status}; not a text ibv_devices is known to print"
        return CheckResult("rdma.devices", node.name, Status.UNKNOWN, "unreadable", expected, "ibv_devices", why, evidence)
    if not listed.devices:
        said = listed.empty_text or "only the header lines"
        found = f"no RDMA device ({said})"
        return CheckResult("rdma.devices", node.name, Status.FAIL, found, expected, "ibv_devices", evidence=evidence)
    names = tuple(device.name for device in listed.devices)
    missing = tuple(rail for rail in node.rails if rail not in names)
    found = f"{len(names)} devices: {', '.join(names)}"
    status = Status.FAIL if missing else Status.PASS
    if missing:
        found += f"; missing {', '.join(missing)}"
    return CheckResult("rdma.devices", node.name, status, found, expected, "ibv_devices", evidence=evidence)


def _ofed(answer: NodeAnswer) -> CheckResult:
    expected = "MLNX_OFED, DOCA-OFED or the distribution's rdma-core, equal on all nodes"
    output = answer.section("ofed_info")
    if output is not None and output.missing:
        # Inbox drivers are a supported choice: no vendor package is a fact, not a failure.
        found = "no vendor package (ofed_info not installed): inbox drivers"
        evidence = Evidence(answer.artefact, output.line_no, (output.stderr or output.stdout).strip()[:400] or "exit status 127")
        return CheckResult("rdma.ofed", answer.node.name, Status.PASS, found, expected, "ofed_info -s", evidence=evidence)
    result = unknown(answer, "rdma.ofed", "ofed_info", expected, "ofed_info -s")
    if result:
        return result
    output = answer.sections["ofed_info"]
    release = ofed.parse_release(output.stdout)
    evidence = Evidence(answer.artefact, output.line_no, (output.stdout + output.stderr).strip()[:400] or "(nothing printed)")
    if release is None:
        why = f"exit status {output.exit_status}; no release line in the output"
        return CheckResult("rdma.ofed", answer.node.name, Status.UNKNOWN, "unreadable", expected, "ofed_info -s", why, evidence)
    return CheckResult("rdma.ofed", answer.node.name, Status.PASS, release.name, expected, "ofed_info -s", evidence=evidence)


CHECK = CheckFamily(
    name="rdma",
    ids=("rdma.devices", "rdma.ofed"),
    sections=(Section("ibv_devices", "ibv_devices"), Section("ofed_info", "ofed_info -s")),
    judge=lambda answer: (_devices(answer), _ofed(answer)),
)
