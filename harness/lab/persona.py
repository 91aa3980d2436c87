"""Personas of the lab: the hardware that nodes show without having it. One YAML file each in
`busbw/lab/personas`, or a file of one's own.

A persona is what equal nodes have in common: models, versions, PCI addresses. What differs from
node to node (serial numbers, GUIDs, addresses) is made from the node's number by
`busbw.lab.persona`, so that every tool on a node tells of the same hardware.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from busbw import codec
from busbw.errors import LabError, UsageError
from busbw.fabrics import profiles

# Locked memory on nodes with invented hardware: where the kernel refuses the lab to raise the
# limit, sessions are shown one that is not there.
#
# Nodes of a cluster have no such limit, and a lab without the right to lift it (CAP_SYS_RESOURCE)
# would fail the same check on every node. A small
# library, loaded into what runs in the sessions, answers `getrlimit`. A limit that is lower than
# the highest allowed is shown as it is, so that
# `memlock-small` stays a real fault.

SMALL_BYTES = 64 * 1024
"""The limit that distributions come with."""
LIBRARY = "memlock.so"
ROCM = "hardware/rocm"
"""AMD's toolkit, below the node's own directory."""
CANNOT = (
    (
        "lock more memory than its maker: sessions are shown an unlimited limit, as the invented"
        " hardware would have"
    ),
)
_SOURCE = Path(__file__).parent / "scripts/memlock.c"


@functools.cache
def needed() -> bool:
    """True = the kernel does not let this process lift the limit, and there is a compiler to
    pretend with."""
    if shutil.which("cc") is None:
        return False
    argv = ("sh", "-c", "ulimit -l unlimited")
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    return done.returncode != 0


def build(directory: Path) -> Path | None:
    """The library, made in that directory; None = it is not needed, or could not be made: the real
    limit is shown then."""
    if not needed():
        return None
    library = directory / LIBRARY
    argv = ("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE))
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    return library if done.returncode == 0 else None


# Files as values: what a tree of invented files holds, and how it is written, so that a node that
# reads it never sees half a file.


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, symbolic link, device or directory of a tree."""

    path: str
    """Below the tree's root."""
    content: bytes | None = None
    """None = not a file."""
    link: str | None = None
    """Where a symbolic link points; None = it is none."""
    device: tuple[int, int] | None = None
    """Major and minor number of a character device; where only root may make one and this is not
    root, an empty file stands in for it."""
    counts: bool = False
    """True = the node counts in it: once there, it is left as it is."""

    @property
    def is_directory(self) -> bool:
        """True = nothing else is said of it."""
        return (self.content, self.link, self.device) == (None, None, None)


def text(path: str, *lines: object) -> Entry:
    """A file of lines."""
    return Entry(path, "".join(f"{line}\n" for line in lines).encode())


def write_tree(root: Path, entries: Iterable[Entry]) -> None:
    """Write a tree that is not there yet, and that nobody reads yet."""
    directories = set()
    for entry in entries:
        path = f"{root}/{entry.path}"
        directory = path if entry.is_directory else os.path.dirname(path)
        if directory not in directories:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            directories.add(directory)
        if not entry.is_directory:
            _create(path, entry)


def replace_tree(root: Path, before: Iterable[Entry], after: Iterable[Entry]) -> None:
    """Make a tree that holds `before` hold `after`; what both have alike stays untouched. Done
    again after an interruption it comes out the same."""
    old = {entry.path: entry for entry in before}
    new = {entry.path: entry for entry in after}
    # A directory that is listed may be mounted somewhere: it is emptied, never made anew.
    required = {root, *(root / entry.path for entry in new.values() if entry.is_directory)}
    for path in sorted(old.keys() - new.keys(), reverse=True):
        _remove(root / path, required)
    for path, entry in new.items():
        if old.get(path) != entry or not os.path.lexists(root / path):
            _write(root / path, entry)


def _write(path: Path, entry: Entry) -> None:
    if entry.is_directory:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if entry.counts and path.exists():
        return
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    _create(str(temporary), entry)
    os.replace(temporary, path)


def _create(path: str, entry: Entry) -> None:
    if entry.link is not None:
        os.symlink(entry.link, path)
        return
    if entry.device is not None:
        with contextlib.suppress(PermissionError):
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*entry.device))
            return
    with open(path, "wb", buffering=0) as file:
        file.write(entry.content or b"")


def _remove(path: Path, required: set[Path]) -> None:
    """The entry, and the directories above that are empty without it."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        path = path.parent
    while path not in required and path.is_dir() and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


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
            elif bridge(address) in addresses:
                yield document.problem(
                    (key, index),
                    f"{bridge(address)}, where its bridge goes, is taken by another device",
                )
    if not file.gpu_addresses:
        yield document.problem(("gpu_addresses",), "expected at least one GPU")
    if (file.adapters is None) != (not file.adapter_addresses):
        yield document.problem(("adapter_addresses",), "adapters and adapter_addresses go together")
    if file.fabric not in profiles.names():
        yield document.problem(
            ("fabric",), codec.unknown("fabric profile", file.fabric, profiles.names())
        )


def bridge(address: str) -> str:
    """The address of the PCI bridge above a device.

    >>> bridge("0000:1b:00.0")
    '0000:1a:00.0'
    """
    domain, bus, device = address.split(":")
    return f"{domain}:{int(bus, 16) - 1:02x}:{device}"


# One node's invented hardware: a persona, what is its own (serial numbers, GUIDs, addresses), and
# the state that faults change. Pure.

IDLE = 0x1
"""Clocks event reason of a GPU without work: nvml.h."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a node."""

    index: int
    address: str
    """`0000:1b:00.0`."""
    numa: int
    uuid: str
    serial: str
    kind: GpuKind
    vbios: str
    power_limit_w: int
    temperature_c: int
    pcie_width: int = 16
    persistence: bool = True
    mig: bool = False
    ecc_uncorrected: int = 0
    rows_pending: bool = False
    event_reasons: int = IDLE
    links_down: tuple[int, ...] = ()
    fabric_state: str = "Completed"
    cluster: str = ""
    """UUID of the NVLink domain that several nodes share; empty = its fabric ends at the node."""
    fabric_health: str = "Healthy"
    memory_used_mib: int = 4
    process: int | None = None
    """Process id of somebody's job on it; None = it is free."""
    lost: bool = False
    """True = it fell off the bus: its driver has no answer."""

    @property
    def bus_id(self) -> str:
        """As nvidia-smi writes it: `00000000:1B:00.0`."""
        return f"0000{self.address}".upper()


@dataclass(frozen=True, slots=True)
class Adapter:
    """One RDMA adapter of a node, with its one port."""

    name: str
    """`mlx5_0`."""
    address: str
    numa: int
    guid: str
    """`b83f:d203:0001:0000`."""
    lid: int
    kind: AdapterKind
    firmware: str
    rate_gbit_s: int
    lanes: str
    netdev: str
    """Its network interface, which no node of the lab really has: `ibp24s0`, `ens24np0`."""
    ipv4: str | None
    """Of that interface; RoCE only."""
    state: str = "ACTIVE"
    physical_state: str = "LinkUp"
    mtu: int = 4096
    sm_lid: int = 1
    pcie_width: int = 16
    pkey: int = 0xFFFF
    trust: str = "dscp"
    pfc_priorities: tuple[int, ...] = (3,)


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """Everything a node shows."""

    node: str
    persona: Persona
    driver: str
    ofed: str
    gpus: tuple[Gpu, ...]
    adapters: tuple[Adapter, ...]
    verbs: bool
    """False = the kernel has no RDMA class at all, as without its modules."""
    peermem: bool
    fabric_manager: bool
    acs: bool = False
    """True = the bridges validate sources and send traffic between devices up to the root
    complex."""
    kernel_log: tuple[str, ...] = ()
    bios: str = ""
    read_request_bytes: int = 4096
    relaxed_ordering: bool = True
    """Of PCI Express: what the adapters ask for at once, and whether the order of writes may
    change."""
    far_nics: bool = False
    """True = GPUs and adapters are paired across the sockets."""
    rccl: str = ""
    partition: str = "SPX"
    """Of AMD's GPUs: `SPX` whole, `CPX` in eight parts."""
    imex: str = "READY"
    """State of its own IMEX daemon."""
    imex_nodes: tuple[tuple[str, str], ...] = ()
    """(address, state) of the nodes of its IMEX domain; () = it is in none."""


def invent(persona: Persona, node: str, number: int, rack: str = "") -> NodeHardware:
    """The hardware of node `number` (from 1) in a rack, whole and well. The same number gives the
    same hardware."""
    return NodeHardware(
        node=node,
        persona=persona,
        driver=persona.driver,
        ofed=persona.ofed,
        gpus=tuple(
            _gpu(persona, number, index, rack) for index in range(len(persona.gpu_addresses))
        ),
        adapters=tuple(
            _adapter(persona.adapters, persona, number, index)
            for index in range(len(persona.adapter_addresses))
        ),
        verbs=persona.adapters is not None,
        peermem=persona.adapters is not None and not persona.open_modules,
        fabric_manager=persona.gpus.nvswitch and not persona.gpus.joins_nodes,
        bios=persona.bios,
        rccl=persona.rccl,
        imex_nodes=((f"10.77.0.{number}", "READY"),) if persona.gpus.joins_nodes else (),
    )


def _gpu(persona: Persona, number: int, index: int, rack: str) -> Gpu:
    seed = hashlib.sha256(f"{persona.name}/{number}/{index}".encode()).hexdigest()
    return Gpu(
        index=index,
        address=persona.gpu_addresses[index],
        numa=index * persona.numa_nodes // len(persona.gpu_addresses),
        uuid=f"GPU-{seed[:8]}-{seed[8:12]}-{seed[12:16]}-{seed[16:20]}-{seed[20:32]}",
        serial=f"165{number:04}{index:06}",
        kind=persona.gpus,
        vbios=persona.gpus.vbios,
        power_limit_w=persona.gpus.power_w,
        temperature_c=28 + (number + index) % 5,
        cluster=_domain(rack) if persona.gpus.joins_nodes else "",
    )


def _domain(rack: str) -> str:
    """The UUID of a rack's NVLink domain."""
    seed = hashlib.sha256(f"domain/{rack}".encode()).hexdigest()
    return f"{seed[:8]}-{seed[8:12]}-{seed[12:16]}-{seed[16:20]}-{seed[20:32]}"


def _adapter(kind: AdapterKind | None, persona: Persona, number: int, index: int) -> Adapter:
    assert kind is not None  # the reader of personas holds addresses and kind together
    address = persona.adapter_addresses[index]
    domain, bus = (int(part, 16) for part in address.split(":")[:2])
    place = f"P{domain}p{bus}s0" if domain else f"p{bus}s0"
    return Adapter(
        name=f"{kind.driver}{'' if kind.driver == 'bnxt_re' else '_'}{index}",
        address=address,
        numa=index * persona.numa_nodes // len(persona.adapter_addresses),
        guid=f"b83f:d203:{number:04x}:{index:04x}",
        lid=16 * number + index,
        kind=kind,
        firmware=kind.firmware,
        rate_gbit_s=kind.rate_gbit_s,
        lanes=kind.lanes,
        netdev=f"ens{bus}np0" if kind.ethernet else f"ib{place}",
        ipv4=f"172.{16 + index}.{number >> 8}.{number & 255}" if kind.ethernet else None,
        sm_lid=0 if kind.ethernet else 1,
    )
