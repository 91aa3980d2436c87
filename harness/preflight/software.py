"""The launcher and what a build needs: `sw.mpirun`, `cross.mpi`; and the facts of a node that later stages use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from busbw.parsers.nodes import looks, open_mpi
from busbw.parsers.nodes.open_mpi import MpiVersion
from busbw.preflight import CheckFamily, NodeAnswer, Section, unknown
from busbw.records import CheckResult, Evidence, Status

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
    """GPUs that nvidia-smi lists; None = it is missing or listed none."""
    ssh_interface: str | None
    """The interface with the address that this connection came in on; None = `ip` is missing, or another name space has it."""


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
        user_id=int(values["uid"]) if values.get("uid", "").isdigit() else None,
        mpirun_path=values.get("mpirun") or None,
        mpi=open_mpi.parse_version(version.stdout + version.stderr) if version else None,
        mpi_home=next(iter(home.stdout.split()), None) if home else None,
        gpus=len(re.findall(r"^GPU \d+:", listed.stdout, re.M)) or None if listed else None,
        ssh_interface=_ssh_interface(values.get("ssh", ""), answer),
        linked=tuple(i.name for i in looks.parse_interfaces(interfaces.stdout) if i.has_link) if interfaces else (),
    )


def _ssh_interface(connection: str, answer: NodeAnswer) -> str | None:
    """`SSH_CONNECTION` is client address, client port, own address, own port."""
    words = connection.split()
    addresses = answer.section("addresses")
    if len(words) != 4 or addresses is None:
        return None
    for line in addresses.stdout.splitlines():
        said = line.split()
        if len(said) > 3 and said[2] in ("inet", "inet6") and said[3].partition("/")[0] == words[2]:
            return said[1].partition("@")[0]
    return None


def _mpirun(answer: NodeAnswer) -> CheckResult:
    output = answer.section("mpirun_version")
    if output is not None and output.missing:
        evidence = Evidence(answer.artefact, output.line_no, (output.stderr or output.stdout).strip()[:400] or "exit status 127")
        found = "mpirun not found"
        return CheckResult("sw.mpirun", answer.node.name, Status.FAIL, found, _EXPECTED, _COMMAND, evidence=evidence)
    result = unknown(answer, "sw.mpirun", "mpirun_version", _EXPECTED, _COMMAND)
    if result:
        return result
    output = answer.sections["mpirun_version"]
    version = open_mpi.parse_version(output.stdout + output.stderr)
    text = (output.stdout + output.stderr).strip()
    evidence = Evidence(answer.artefact, output.line_no, text[:400] or "(nothing printed)")
    if version is None or version.version is None:
        found = version.implementation if version else f"unreadable (exit status {output.exit_status})"
        return CheckResult("sw.mpirun", answer.node.name, Status.FAIL, found, _EXPECTED, _COMMAND, evidence=evidence)
    return CheckResult("sw.mpirun", answer.node.name, Status.PASS, f"Open MPI {version.version}", _EXPECTED, _COMMAND, evidence=evidence)


def _compare(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """The same Open MPI everywhere, at the same place: mpirun starts its daemons by path and they speak one version's protocol."""
    known = {a.node.name: f for a in answers if (f := facts(a)).mpi is not None and f.mpi is not None}
    if not known:
        return ()
    said = {name: f"{f.mpi.implementation} {f.mpi.version} at {f.mpirun_path}" if f.mpi else "" for name, f in known.items()}
    majority, count = Counter(said.values()).most_common(1)[0]
    expected = f"the same on all nodes: {majority} ({count} of {len(said)})"
    sections = {a.node.name: (a.artefact, s.line_no) for a in answers if (s := a.section("mpirun_version"))}
    results = []
    for name, text in said.items():
        artefact, line_no = sections[name]
        status = Status.PASS if text == majority else Status.FAIL
        evidence = Evidence(artefact, line_no, text)
        values = (("distinct", 1.0 if text == majority else float(len(set(said.values())))),)
        results.append(CheckResult("cross.mpi", name, status, text, expected, _COMMAND, evidence=evidence, values=values))
    return tuple(results)


CHECK = CheckFamily(
    name="software",
    ids=("sw.mpirun", "cross.mpi"),
    sections=(
        Section(
            "identity",
            "read -r n </proc/sys/kernel/hostname; while read -r k u _; do case $k in Uid:) break;; esac; done </proc/self/status; "
            'printf "host=%s\\nhome=%s\\nuid=%s\\nssh=%s\\nmpirun=%s\\n" "$n" "$HOME" "$u" "$SSH_CONNECTION" "$(command -v mpirun)"',
            small=True,
        ),
        Section("addresses", "ip -o addr show", small=True),
        Section("mpirun_version", "mpirun --version"),
        # Which interfaces have a link before anything runs: a stall is judged against this, not against every unused port.
        Section(
            "interfaces",
            "for d in /sys/class/net/*; do o=; c=; read -r o <$d/operstate; read -r c <$d/carrier; "
            'echo "net ${d##*/} operstate ${o:--} carrier ${c:--} rx - tx -"; done 2>/dev/null; '
            "while read -r i d _; do case $d in 00000000) echo default $i;; esac; done </proc/net/route; :",
            small=True,
        ),
        # What TCP can carry: interfaces with hardware, or with an interface, below them. A veth pair says 10 Gb/s and means nothing.
        Section(
            "link_speed",
            "for d in /sys/class/net/*; do [ -e $d/device ] || { set -- $d/lower_*; [ -e $1 ]; } || continue; "
            's=-; m=-; read -r s <$d/speed; read -r m <$d/mtu; echo "link ${d##*/} ${s:--} ${m:--}"; done 2>/dev/null; :',
            small=True,
        ),
        Section(
            "mpi_home",
            'm=$(command -v mpirun); for d in "$MPI_HOME" "$HPCX_MPI_DIR" "${m%/*/*}" /usr/lib/x86_64-linux-gnu/openmpi '
            "/usr/lib/aarch64-linux-gnu/openmpi /usr/lib64/openmpi /opt/amazon/openmpi5 /opt/amazon/openmpi /usr/mpi/gcc/openmpi-*; "
            'do [ -n "$d" ] && [ -f "$d/include/mpi.h" ] && { echo "$d"; exit 0; }; done; exit 1',
            small=True,
        ),
    ),
    judge=lambda answer: (_mpirun(answer),),
    compare=_compare,
)
