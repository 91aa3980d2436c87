"""What carries MPI's control traffic (its PML): ob1 over TCP, as the profiles have it, or UCX, for an
MPI that has nothing else or a site that wants it.

Written against Open MPI 4.1.4 and its UCX, run here, and the layout of HPC-X 2.x (`ompi/` and
`ucx/` side by side in one folder).
"""

from __future__ import annotations

import re

from busbw.fabrics.profile import MpiOption
from busbw.launch import FabricFacts
from busbw.model import ResolvedVar

CHOICES = ("ob1", "ucx")
_ORIGIN = "--pml ucx"
_PARAMETERS = (
    "Open MPI (ompi_info --all: opal_common_ucx_tls),"
    " https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/ib-and-roce.html"
)
_UCX = "OpenUCX (frequently asked questions), https://openucx.readthedocs.io/en/master/faq.html"
_PLUGIN = (
    "nccl-tests issue 255 (hangs when using HPC-X), https://github.com/NVIDIA/nccl-tests/issues/255"
)
_ENGINES = {
    "ob1": "--pml ob1: MPI's own traffic over TCP",
    "ucx": "--pml ucx: MPI's own traffic through UCX",
}


def options(chosen: str | None, defaults: tuple[MpiOption, ...]) -> tuple[MpiOption, ...]:
    """The MCA parameters with the chosen engine in the place of the profile's; None = the
    profile's."""
    if chosen is None:
        return defaults
    rest = tuple(option for option in defaults if option.name != "pml")
    engine = (MpiOption("pml", chosen, _ENGINES[chosen], _PARAMETERS),)
    if chosen == "ob1":
        return (*engine, *rest)
    # Without these Open MPI gives up UCX where it finds no adapter of Mellanox's that it may use,
    # and TCP is none.
    either = ("opal_common_ucx_tls", "opal_common_ucx_devices")
    return (
        *engine,
        *(
            MpiOption(name, "any", "UCX over TCP counts as well", _PARAMETERS, since=4)
            for name in either
        ),
        *rest,
    )


def ucx_variables(
    chosen: str | None, env: tuple[ResolvedVar, ...], facts: FabricFacts, mpirun: str
) -> tuple[ResolvedVar, ...]:
    """What UCX and HPC-X need beside `env`, whose values win: UCX keeps off the rails, and HPC-X
    finds its libraries on every node.

    Not the whole library path of HPC-X: it brings NCCL another network plugin.
    """
    if chosen != "ucx":
        return env
    added = [
        ResolvedVar(
            "UCX_TLS",
            "tcp,self,sm",
            _ORIGIN,
            "keeps MPI's own traffic off the rails that are measured",
            _UCX,
        )
    ]
    if facts.socket_ifname is not None:
        added.append(
            ResolvedVar(
                "UCX_NET_DEVICES",
                facts.socket_ifname,
                _ORIGIN,
                "the interface that reaches all nodes",
                _UCX,
            )
        )
    root = hpcx(mpirun)
    if root is not None:
        path = f"{root}/ucx/lib:{root}/ucx/lib/ucx:{root}/ompi/lib"
        why = (
            "HPC-X finds UCX by it; its NCCL plugin, which would change what is measured, is not"
            " on it"
        )
        added.append(ResolvedVar("LD_LIBRARY_PATH", path, _ORIGIN, why, _PLUGIN))
    given = {variable.name for variable in env}
    return (*env, *(variable for variable in added if variable.name not in given))


def hpcx(mpirun: str) -> str | None:
    """The folder of HPC-X, by where its mpirun lies; None = it is another MPI.

    >>> hpcx("/opt/hpcx-v2.20-gcc-mlnx_ofed-ubuntu22.04/ompi/bin/mpirun"), hpcx("/usr/bin/mpirun")
    ('/opt/hpcx-v2.20-gcc-mlnx_ofed-ubuntu22.04', None)
    """
    match = re.fullmatch(r"(/.*hpcx[^/]*)/ompi/bin/mpirun", mpirun)
    return match[1] if match else None
