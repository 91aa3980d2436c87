"""The launcher and what a build needs: `sw.mpirun`, `cross.mpi`; and the facts of a node that later
stages use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Section,
    SectionOutput,
    evidence_of,
    unknown,
)
from busbw.model import CheckResult, Evidence, Status
from busbw.parsers.tools import gpus, interface_state, open_mpi
from busbw.parsers.tools.open_mpi import MpiVersion
from busbw.text import whole_number

_EXPECTED = "Open MPI's mpirun on PATH"
_COMMAND = "mpirun --version"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What building and launching must know of a node."""

    node: str
    host_name: str | None
    """`uname -n`: what ranks report as their host."""
    home: str | None
    user_id: int | None
    mpirun_path: str | None
    mpi: MpiVersion | None
    mpi_home: str | None
    """Directory with include/mpi.h; None = no MPI headers found."""
    linked: tuple[str, ...]
    """Network interfaces that had a link before anything ran."""
    gpus: int | None
    """GPUs that nvidia-smi or amd-smi lists; None = it is missing or listed none."""
    ssh_interface: str | None
    """The interface with the address that this connection came in on; None = `ip` is missing, or
    another name space has it."""
    login_shell: str | None = None
    """As the session has it in $SHELL; None = the node does not say."""


def facts(answer: NodeAnswer) -> NodeFacts:
    """The facts in a node's answer; each is None where the node did not say."""
    identity = answer.section("identity")
    values = dict(re.findall(r"^(\w+)=(.*)$", identity.stdout, re.M)) if identity else {}
    version = answer.section("mpirun_version")
    home = answer.section("mpi_home")
    interfaces = answer.section("interfaces")
    listed = answer.section("nvidia_smi_list")
    return NodeFacts(
        node=answer.node.name,
        host_name=values.get("host") or None,
        home=values.get("home") or None,
        user_id=whole_number(values.get("uid")),
        mpirun_path=values.get("mpirun") or None,
        mpi=open_mpi.parse_version(version.stdout + version.stderr) if version else None,
        mpi_home=next(iter(home.stdout.split()), None) if home else None,
        gpus=len(gpus.listed(listed.stdout)) or None if listed else None,
        ssh_interface=_ssh_interface(values.get("ssh", ""), answer),
        login_shell=values.get("shell") or None,
        linked=(
            tuple(i.name for i in interface_state.parse_interfaces(interfaces.stdout) if i.has_link)
            if interfaces
            else ()
        ),
    )


def _ssh_interface(connection: str, answer: NodeAnswer) -> str | None:
    """`SSH_CONNECTION` is client address, client port, own address, own port."""
    addresses_and_ports = connection.split()
    addresses = answer.section("addresses")
    if len(addresses_and_ports) != 4 or addresses is None:
        return None
    for line in addresses.stdout.splitlines():
        fields = line.split()
        if (
            len(fields) > 3
            and fields[2] in ("inet", "inet6")
            and fields[3].partition("/")[0] == addresses_and_ports[2]
        ):
            return fields[1].partition("@")[0]
    return None


def _mpirun(answer: NodeAnswer) -> CheckResult:
    output = answer.section("mpirun_version")
    if output is not None and output.missing:
        return _of_mpirun(answer, output, Status.FAIL, "mpirun not found")
    result = unknown(answer, "sw.mpirun", "mpirun_version", _EXPECTED, _COMMAND)
    if result:
        return result
    output = answer.sections["mpirun_version"]
    version = open_mpi.parse_version(output.stdout + output.stderr)
    if version is None:
        seen = f"unreadable (exit status {output.exit_status})"
        return _of_mpirun(answer, output, Status.FAIL, seen)
    if version.version is None:
        return _of_mpirun(answer, output, Status.FAIL, version.implementation)
    return _of_mpirun(answer, output, Status.PASS, f"{version.implementation} {version.version}")


def _of_mpirun(answer: NodeAnswer, output: SectionOutput, status: Status, seen: str) -> CheckResult:
    evidence = evidence_of(answer, output)
    return CheckResult(
        "sw.mpirun", answer.node.name, status, seen, _EXPECTED, _COMMAND, evidence=evidence
    )


def _compare(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """The same Open MPI everywhere, at the same place: mpirun starts its daemons by path and they
    speak one version's protocol."""
    known = {
        a.node.name: f for a in answers if (f := facts(a)).mpi is not None and f.mpi is not None
    }
    if not known:
        return ()
    versions = {
        name: f"{f.mpi.implementation} {f.mpi.version} at {f.mpirun_path}" if f.mpi else ""
        for name, f in known.items()
    }
    majority, count = Counter(versions.values()).most_common(1)[0]
    expected = f"the same on all nodes: {majority} ({count} of {len(versions)})"
    sections = {
        a.node.name: (a.artefact, s.line_no) for a in answers if (s := a.section("mpirun_version"))
    }
    results = []
    for name, text in versions.items():
        artefact, line_no = sections[name]
        status = Status.PASS if text == majority else Status.FAIL
        evidence = Evidence(artefact, line_no, text)
        values = (("distinct", 1.0 if text == majority else float(len(set(versions.values())))),)
        results.append(
            CheckResult(
                "cross.mpi",
                name,
                status,
                text,
                expected,
                _COMMAND,
                evidence=evidence,
                values=values,
            )
        )
    return tuple(results)


CHECK = CheckFamily(
    name="software",
    checks=(
        Check("sw.mpirun", "mpirun --version", "missing, or not Open MPI: FAIL"),
        Check("cross.mpi", "mpirun --version", "version or path differs from most nodes: FAIL"),
    ),
    sections=(
        Section(
            "identity",
            small=True,
        ),
        Section("addresses", "ip -o addr show", small=True),
        Section("mpirun_version", "mpirun --version"),
        # Which interfaces have a link before anything runs: a stall is judged against this, not
        # against every unused port.
        Section(
            "interfaces",
            small=True,
        ),
        # What TCP can carry: interfaces with hardware, or with an interface, below them. A veth
        # pair says 10 Gb/s and means nothing.
        Section(
            "link_speed",
            small=True,
        ),
        Section(
            "mpi_home",
            small=True,
        ),
    ),
    judge=lambda answer: (_mpirun(answer),),
    compare=_compare,
)
