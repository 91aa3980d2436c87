"""Personas of the lab: the hardware that nodes show without having it. One YAML file each in
`busbw/lab/personas`, or a file of one's own.

A persona is what equal nodes have in common: models, versions, PCI addresses. What differs from
node to node (serial numbers, GUIDs, addresses) is made in `busbw.lab.node_hardware`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from busbw import codec
from busbw.errors import LabError, UsageError
from busbw.fabrics import profiles

ROCM = "hardware/rocm"
"""AMD's toolkit, below the node's own directory."""


_ADDRESS = re.compile(r"[0-9a-f]{4}:(?!00)[0-9a-f]{2}:00\.0")
"""No device on bus 0: the bridge above it is on the bus before."""


@dataclass(frozen=True, slots=True)
class GpuKind:
    """The GPUs of a persona, all alike."""

    model: str
    """As nvidia-smi names it: `NVIDIA H100 80GB HBM3`."""
    architecture: str
    pci_device: int
    vbios: str
    memory_mib: int
    power_w: int
    sm_mhz: int
    memory_mhz: int
    """Highest clocks."""
    slowdown_c: int
    """Temperature at which it slows itself down."""
    compute_capability: str
    pcie_generation: int
    nvlinks: int = 0
    nvlink_gb_s: float = 0.0
    """Of one link, one way, as `nvidia-smi nvlink -s` shows it."""
    nvswitch: bool = False
    """True = behind an NVSwitch, with a fabric state and a fabric manager."""
    joins_nodes: bool = False
    """True = NVLink joins the nodes of one rack of the lab, as in an NVL72: they share a clique and
    an IMEX domain, and their fabric manager runs on the switch trays."""
    target: str = ""
    """What a compiler builds for; only AMD's GPUs have it: `gfx942`."""
    xgmi_links: int = 0
    """Between AMD's GPUs of one node, of one GPU."""
    xgmi_gbit_s: float = 0.0
    """Of one lane."""
    headroom: bool = False
    """True = nvidia-smi shows the distance to the limit (`T.Limit`) where it showed temperatures
    before."""

    @property
    def short(self) -> str:
        """The model without what all have in common: `H100 80GB HBM3`."""
        return self.model.removeprefix("NVIDIA ").removeprefix("AMD Instinct ")

    @property
    def is_amd(self) -> bool:
        """They are AMD's."""
        return bool(self.target)


@dataclass(frozen=True, slots=True)
class AdapterKind:
    """The RDMA adapters of a persona, all alike."""

    name: str
    """For people: `ConnectX-7`."""
    hca_type: str
    pci_device: int
    board: str
    """PSID: `MT_0000000838`."""
    part: str
    firmware: str
    rate_gbit_s: int
    lanes: str
    """`4X NDR`."""
    half_gbit_s: int
    half_lanes: str
    """What a link that came up at half its rate shows: `4X HDR`."""
    pcie_generation: int
    ethernet: bool = False
    """True = RoCE."""
    driver: str = "mlx5"
    """Of the kernel: `mlx5`, `bnxt_re`, `ionic`."""
    pci_vendor: int = 0x15B3


@dataclass(frozen=True, slots=True)
class Persona:
    """The hardware of one kind of node, and the software that comes with it."""

    title: str
    """For people, in reports: `8 x NVIDIA H100 80GB HBM3, 8 x ConnectX-7 (400 Gb/s InfiniBand)`."""
    fabric: str
    """The fabric profile that such nodes are checked with."""
    source: str
    """Where models, addresses and figures are documented. Everything else is invented."""
    driver: str
    odd_driver: str
    """Another release, for the node that was left out of an upgrade."""
    vendor: str
    product: str
    """Of the whole machine, as its firmware says."""
    bios: str
    cpu_model: str
    gpus: GpuKind
    gpu_addresses: tuple[str, ...]
    numa_nodes: int = 2
    open_modules: bool = False
    """True = the open kernel modules, with which dma-buf stands in for nvidia_peermem."""
    adapters: AdapterKind | None = None
    adapter_addresses: tuple[str, ...] = ()
    cuda: str = ""
    """Toolkit; empty = none."""
    rocm: str = ""
    """AMD's toolkit; empty = none."""
    rccl: str = ""
    """Version in the name of its library: `1.0.60300`."""
    odd_rccl: str = ""
    """Another release's, for the node that was left out of an upgrade."""
    ofed: str = ""
    """Vendor package; empty = none (the distribution's drivers)."""
    odd_ofed: str = ""
    name: str = ""
    """That of its file, whatever the file says."""


def names() -> tuple[str, ...]:
    """The personas there are, sorted."""
    files = (entry.name for entry in resources.files("busbw.lab").joinpath("personas").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def load(name: str) -> Persona:
    """A persona by its name, or from a file (a text with `/` or ending in `.yaml` or `.yml`).

    Raises:
        UsageError: there is none of that name (the known ones are listed).
        LabError: the file cannot be read or is wrong.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        path = Path(name)
        try:
            return parse(path.read_text(encoding="utf-8"), name, path.stem)
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(
                "the persona cannot be read",
                seen=f"{name}: {error}",
                next_step=f"known: {', '.join(names())}",
            ) from error
    if name not in names():
        raise UsageError(
            codec.unknown("persona", name, names()),
            next_step=(
                f"known personas: {', '.join(names())}"
                if codec.nearest(name, names())
                else "docs/lab.md says what each shows; one of your own is a YAML file"
            ),
        )
    path_inside = f"personas/{name}.yaml"
    return parse(
        (resources.files("busbw.lab") / path_inside).read_text(encoding="utf-8"), path_inside, name
    )


def parse(text: str, path: str, name: str) -> Persona:
    """A persona from its text; `path` names it in messages.

    Raises:
        LabError: every problem at once, as `file:line:column: what`.
    """
    document = codec.read_yaml(text, path, Persona, error=LabError)
    codec.refuse(tuple(_problems(document)), LabError)
    return replace(document.value, name=name)


def _problems(document: codec.Document[Persona]) -> Iterator[codec.Problem]:
    file = document.value
    addresses = (*file.gpu_addresses, *file.adapter_addresses)
    for key, listed in (
        ("gpu_addresses", file.gpu_addresses),
        ("adapter_addresses", file.adapter_addresses),
    ):
        for index, address in enumerate(listed):
            if not _ADDRESS.fullmatch(address):
                yield document.problem(
                    (key, index), f"expected an address such as 0000:1b:00.0, found {address!r}"
                )
            elif addresses.count(address) > 1:
                yield document.problem((key, index), f"{address} is taken by another device")
            elif bridge_above(address) in addresses:
                yield document.problem(
                    (key, index),
                    f"{bridge_above(address)}, where its bridge goes, is taken by another device",
                )
    if not file.gpu_addresses:
        yield document.problem(("gpu_addresses",), "expected at least one GPU")
    if (file.adapters is None) != (not file.adapter_addresses):
        yield document.problem(("adapter_addresses",), "adapters and adapter_addresses go together")
    if file.fabric not in profiles.names():
        yield document.problem(
            ("fabric",), codec.unknown("fabric profile", file.fabric, profiles.names())
        )


def bridge_above(address: str) -> str:
    """The address of the PCI bridge above a device.

    >>> bridge_above("0000:1b:00.0")
    '0000:1a:00.0'
    """
    domain, bus, device = address.split(":")
    return f"{domain}:{int(bus, 16) - 1:02x}:{device}"
