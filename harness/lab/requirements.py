"""Which programs the lab needs and which Debian or Ubuntu package each is in.

`python -m busbw.lab.requirements` prints the command that installs what is missing (exit status 1),
or nothing (exit status 0); with the word `all` behind it, also what only a lab with a Slurm needs.
"""

from __future__ import annotations

import os
import shutil
import sys

from busbw.errors import LabError
from busbw.lab.state import Mode

_SSH = (("sshd", "openssh-server"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client"))
_NAMESPACES = (
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setsid", "util-linux"),
    ("mount", "mount"),
    ("hostname", "hostname"),
)
_PERSONA = (("ibstat", "infiniband-diags"), ("ibv_devices", "ibverbs-utils"), ("lspci", "pciutils"))
"""Run on nodes with invented hardware, for real."""
_SLURM = (
    ("slurmctld", "slurm-wlm"),
    ("slurmd", "slurm-wlm"),
    ("srun", "slurm-wlm"),
    ("munged", "munge"),
)
"""Only for a lab with a Slurm."""
_LINKS = (("iperf3", "iperf3"), ("ping", "iputils-ping"), ("ethtool", "ethtool"))
"""Look at a link of the lab without the benchmark, or count its errors; a survey without iperf3 says
so."""
_PAYLOAD = (
    ("mpirun", "openmpi-bin"),
    ("mpicc", "libopenmpi-dev"),
    ("make", "make"),
    ("gcc", "gcc"),
)
_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/sbin", "/sbin"))
"""Where Debian keeps these programs; not on an ordinary user's PATH."""


def find(program: str) -> str | None:
    """The path of a program, also where it lies in sbin; None = it is not installed."""
    return shutil.which(program) or shutil.which(program, path=_PATH)


def environment() -> dict[str, str]:
    """This process's environment with the sbin directories on its PATH."""
    return {**os.environ, "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), _PATH))}


def missing(
    mode: Mode | None = None, *, persona: bool = False, slurm: bool = False
) -> tuple[str, ...]:
    """Packages whose programs are not here, sorted: those a lab of that mode needs; None = of any,
    and its benchmark and link tests.

    `persona` = its nodes show invented hardware; `slurm` = it has a Slurm.
    """
    needed: tuple[tuple[str, str], ...] = _SSH if mode is Mode.LOOPBACK else _SSH + _NAMESPACES
    if mode is None:
        needed = needed + _PAYLOAD + _LINKS
    if mode is None or persona:
        needed = needed + _PERSONA
    if slurm:
        needed = needed + _SLURM
    return tuple(sorted({package for program, package in needed if find(program) is None}))


def apt_command(packages: tuple[str, ...]) -> str:
    """The exact command that installs them; as it stands for root, with sudo for others."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    return (
        f"{sudo}apt-get update && {sudo}env DEBIAN_FRONTEND=noninteractive apt-get install -y"
        f" --no-install-recommends {' '.join(packages)}"
    )


def demand(mode: Mode, *, persona: bool = False, slurm: bool = False) -> None:
    """Make sure that everything is there.

    Raises:
        LabError: something is missing; the next step is the command that installs it.
    """
    lacking = missing(mode, persona=persona, slurm=slurm)
    if lacking:
        raise LabError(
            "the lab needs programs that are not installed",
            seen=f"missing packages: {', '.join(lacking)}",
            # At once also what the first benchmark in it will need.
            next_step=apt_command(tuple(sorted({*lacking, *missing(slurm=slurm)}))),
        )


def main(arguments: tuple[str, ...] = ()) -> int:
    """Print the command that installs what is missing; 0 = nothing is. With `all` also what `busbw
    lab up --slurm` needs."""
    lacking = missing(slurm="all" in arguments)
    if lacking:
        sys.stdout.write(apt_command(lacking) + "\n")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
