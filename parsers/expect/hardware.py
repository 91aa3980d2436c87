"""What GPUs and NICs can carry by their specification: the tables that the limits are computed
from, each entry with its source.

One direction, GB/s = 10^9 bytes/s; the sums of both directions that data sheets print ("900 GB/s"
for H100) are halved here. The rate NCCL counts with per NVLink is `src/graph/topo.h` of NCCL
2.30.7.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class Gpu:
    """One model of GPU."""

    name: str
    aliases: tuple[str, ...]
    """Other spellings, as published results write them."""
    generation: str
    """`volta`, `ampere`, `hopper`, `blackwell`, `rubin`, `cdna3`, `cdna4` or `ada`: what NCCL's
    tuning tables are keyed by."""
    nvlink_gb_s: float | None
    """All NVLinks (or xGMI links) of one GPU, one direction; None = it has none."""
    nvlink_nccl_gb_s: float | None
    """The rate NCCL counts with for the same links; None = not known."""
    multicast: bool
    """The switch adds up and copies (NVLink SHARP), so that NVLS can run."""
    gpus_per_node: int
    """GPUs of the usual node; for rack-scale systems one tray."""
    pcie_generation: int | None
    """Of the x16 link through which it reaches its NIC; None = it reaches it another way."""
    source: str
    mesh: bool = False
    """Each pair of the node's GPUs has one link of its own, without a switch: fewer GPUs use fewer
    links."""
    island: int | None = None
    """GPUs that an NVLink bridge joins; more of them meet over PCIe. None = all of a node."""

    def inside_gb_s(self, gpus: int) -> tuple[float | None, float | None]:
        """NVLink or xGMI of one GPU that `gpus` of a node can use: by specification, and as NCCL
        counts it. One GPU by itself uses none of it."""
        peers = (self.island or self.gpus_per_node) - 1
        used = min(1.0, (gpus - 1) / peers) if self.mesh and gpus > 1 else 1.0
        spec, nccl = self.nvlink_gb_s, self.nvlink_nccl_gb_s
        if self.island is not None and gpus > self.island:
            nccl = None
        return None if spec is None else spec * used, None if nccl is None else nccl * used

    def peers(self, gpus: int) -> int:
        """Over how many links the NVLink of one GPU is spread: in a mesh one for each other GPU of
        `gpus` that it reaches, behind a switch one in all."""
        if not self.mesh or gpus < 2:
            return 1
        return min(gpus, self.island or self.gpus_per_node) - 1


_TOPO = "NCCL 2.30.7 src/graph/topo.h for NCCL's rate"

GPUS = (
    Gpu(
        "V100",
        ("V100-SXM2", "V100-SXM3"),
        "volta",
        150.0,
        120.0,
        False,
        8,
        3,
        f"6 NVLinks x 25, NVIDIA V100 data sheet; {_TOPO}",
    ),
    Gpu(
        "A100",
        ("A100-SXM4", "A100-SXM4-40GB", "A100-SXM4-80GB"),
        "ampere",
        300.0,
        240.0,
        False,
        8,
        4,
        f"12 NVLinks x 25, NVIDIA A100 data sheet; {_TOPO}",
    ),
    Gpu(
        "A800",
        ("A800-SXM4",),
        "ampere",
        200.0,
        160.0,
        False,
        8,
        4,
        f"8 NVLinks x 25, NVIDIA/nccl issue 412; {_TOPO}",
    ),
    Gpu(
        "H100",
        ("H100-SXM5",),
        "hopper",
        450.0,
        370.8,
        True,
        8,
        5,
        f"18 NVLinks x 25, NVIDIA H100 data sheet; {_TOPO}",
    ),
    Gpu(
        "H200",
        ("H200-SXM5",),
        "hopper",
        450.0,
        370.8,
        True,
        8,
        5,
        f"18 NVLinks x 25, NVIDIA H200 data sheet; {_TOPO}",
    ),
    Gpu(
        "H200NVL",
        ("H200-NVL", "H200 NVL"),
        "hopper",
        450.0,
        370.8,
        False,
        8,
        5,
        f"18 NVLinks x 25 over a bridge of 4 GPUs, NVIDIA H200 NVL data sheet; {_TOPO}",
        mesh=True,
        island=4,
    ),
    Gpu(
        "H20",
        ("H20-SXM5", "H20-3e"),
        "hopper",
        450.0,
        370.8,
        True,
        8,
        5,
        f"18 NVLinks x 25, NVIDIA H20 data sheet; {_TOPO}",
    ),
    Gpu(
        "H800",
        ("H800-SXM5",),
        "hopper",
        200.0,
        164.8,
        True,
        8,
        5,
        f"8 NVLinks x 25, NVIDIA/nccl-tests reports of H800; {_TOPO}",
    ),
    Gpu(
        "B200",
        ("B200-SXM6",),
        "blackwell",
        900.0,
        721.8,
        True,
        8,
        5,
        f"18 NVLinks x 50, NVIDIA DGX B200 data sheet; {_TOPO}",
    ),
    Gpu(
        "GB200",
        ("GB200-NVL72",),
        "blackwell",
        900.0,
        721.8,
        True,
        4,
        None,
        f"18 NVLinks x 50, NVIDIA GB200 NVL72 data sheet; {_TOPO}",
    ),
    # NVLink 5 as on B200: published rings of B300 (646 to 760 GB/s) lie around B200's (667 to 722).
    Gpu(
        "B300",
        ("B300-SXM6",),
        "blackwell",
        900.0,
        721.8,
        True,
        8,
        6,
        f"18 NVLinks x 50, NVIDIA DGX B300 data sheet; {_TOPO}",
    ),
    Gpu(
        "GB300",
        ("GB300-NVL72",),
        "blackwell",
        900.0,
        721.8,
        True,
        4,
        None,
        f"18 NVLinks x 50, NVIDIA GB300 NVL72 data sheet; {_TOPO}",
    ),
    Gpu(
        "Rubin",
        ("R100",),
        "rubin",
        1800.0,
        None,
        True,
        4,
        None,
        "NVLink 6, 3.6 TB/s in both directions, NVIDIA; NCCL's rate not published",
    ),
    Gpu(
        "MI300X",
        ("MI300X-OAM",),
        "cdna3",
        448.0,
        336.0,
        False,
        8,
        5,
        "7 xGMI links x 64, AMD Instinct MI300X data sheet; RCCL reaches about 48 per link (ROCm"
        " performance guide)",
        mesh=True,
    ),
    Gpu(
        "MI325X",
        ("MI325X-OAM",),
        "cdna3",
        448.0,
        336.0,
        False,
        8,
        5,
        "7 xGMI links x 64, AMD Instinct MI325X data sheet; RCCL's rate as on MI300X",
        mesh=True,
    ),
    Gpu(
        "MI350X",
        ("MI350X-OAM",),
        "cdna4",
        537.6,
        403.2,
        False,
        8,
        5,
        "7 xGMI links x 76.8, AMD Instinct MI350X data sheet; RCCL's share of a link as on MI300X",
        mesh=True,
    ),
    Gpu(
        "MI355X",
        ("MI355X-OAM",),
        "cdna4",
        537.6,
        403.2,
        False,
        8,
        5,
        "7 xGMI links x 76.8, AMD Instinct MI355X data sheet; RCCL's share of a link as on MI300X",
        mesh=True,
    ),
    Gpu(
        "L40S",
        (),
        "ada",
        None,
        None,
        False,
        8,
        4,
        "no NVLink, PCIe 4 x16, NVIDIA L40S data sheet",
    ),
    Gpu(
        "RTXPRO6000",
        ("RTX PRO 6000", "RTX-PRO-6000"),
        "blackwell",
        None,
        None,
        False,
        8,
        5,
        "no NVLink, PCIe 5 x16, NVIDIA RTX PRO 6000 Blackwell data sheet",
    ),
    Gpu(
        "RTX5090",
        ("RTX5090 (PCIe, no NVLink)",),
        "blackwell",
        None,
        None,
        False,
        8,
        5,
        "no NVLink, PCIe 5 x16, NVIDIA RTX 5090 data sheet",
    ),
)


def find_gpu(name: str) -> Gpu | None:
    """The GPU of that name or alias, in any case; None = the table does not know it."""
    return _by_name().get(name.casefold())


@functools.cache
def _by_name() -> dict[str, Gpu]:
    """The GPUs by each name and alias, in lower case; the first of the table where several have one."""
    named = ((text.casefold(), gpu) for gpu in reversed(GPUS) for text in (gpu.name, *gpu.aliases))
    return dict(named)


_NOT_SXM = {"pcie", "nvl", "pci"}
_WORDS_OF_A_NAME = 3
"""`RTX PRO 6000`: the most words that a name in the table has."""


@functools.lru_cache(maxsize=256)
def recognise_gpu(product: str) -> Gpu | None:
    """The GPU behind a product name as the driver prints it; None = the tables do not know it.

    Cards of the same chip without the NVLink switch (`PCIe`, `NVL`) are other hardware, and not
    taken for it.

    >>> recognise_gpu("NVIDIA H100 80GB HBM3").name, recognise_gpu("NVIDIA A100-SXM4-80GB").name, recognise_gpu("NVIDIA GeForce RTX 5090").name
    ('H100', 'A100', 'RTX5090')
    >>> recognise_gpu("NVIDIA H200 NVL").name, recognise_gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition").name, recognise_gpu("NVIDIA H20").name
    ('H200NVL', 'RTXPRO6000', 'H20')
    >>> recognise_gpu("NVIDIA H100 PCIe"), recognise_gpu("NVIDIA H100 NVL")
    (None, None)
    """
    words = [word.casefold() for word in re.findall(r"[A-Za-z0-9]+", product)]
    runs = {
        "".join(words[start : start + length])
        for length in range(1, _WORDS_OF_A_NAME + 1)
        for start in range(len(words))
    }
    named = [gpu for gpu in GPUS if gpu.name.casefold() in runs]
    if _NOT_SXM & set(words):
        named = [gpu for gpu in named if gpu.name.endswith("NVL")]
    return named[0] if named else None


@dataclass(frozen=True, slots=True)
class Link:
    """A network rate after encoding: what `--nics` may name."""

    name: str
    data_gbit_s: float
    """Bits per second that carry packets; headers still come off."""
    source: str


_IBA = "InfiniBand Architecture Specification, line rates and encodings"

LINKS = (
    Link("QDR", 32.0, f"4 x 10, 8b/10b; {_IBA}"),
    # 54.545… exactly: 4 x 14.0625 x 64/66.
    Link("FDR", 4 * 14.0625 * 64 / 66, f"4 x 14.0625, 64b/66b; {_IBA}"),
    Link("EDR", 100.0, f"4 x 25.78125, 64b/66b; {_IBA}"),
    Link("HDR", 200.0, f"4 x 53.125, 256b/257b x RS(544,514); {_IBA}"),
    Link("NDR", 400.0, f"4 x 106.25, 256b/257b x RS(544,514); {_IBA}"),
    Link("XDR", 800.0, f"4 x 212.5, 256b/257b x RS(544,514); {_IBA}"),
    *(
        Link(f"{rate}", float(rate), "IEEE 802.3: Ethernet rates are quoted after encoding")
        for rate in (10, 25, 40, 50, 100, 200, 400, 800)
    ),
)


@dataclass(frozen=True, slots=True)
class Adapter:
    """One model of NIC."""

    name: str
    rate_gbit_s: float
    """All its ports together."""
    pcie_generation: int
    """Of its x16 host link."""
    source: str


ADAPTERS = (
    Adapter("ConnectX-6", 200.0, 4, "NVIDIA ConnectX-6 data sheet"),
    Adapter("ConnectX-7", 400.0, 5, "NVIDIA ConnectX-7 data sheet: 400 Gb/s over all ports"),
    Adapter("ConnectX-8", 800.0, 6, "NVIDIA ConnectX-8 SuperNIC data sheet"),
    Adapter("BlueField-3", 400.0, 5, "NVIDIA BlueField-3 data sheet"),
)


@dataclass(frozen=True, slots=True)
class Nics:
    """The NICs of one node."""

    count: int
    name: str
    """As given: a rate, a link or an adapter."""
    rate_gbit_s: float
    """Data rate of one NIC, headers included."""
    pcie_generation: int | None = None
    """Of its host link; None = not said."""
    source: str = ""

    @property
    def line_gb_s(self) -> float:
        """All NICs of the node, one direction, headers included, GB/s."""
        return self.count * self.rate_gbit_s / 8


_NICS = re.compile(r"^\s*(\d+)\s*[x×*]\s*(\S+?)\s*$", re.IGNORECASE)


def parse_nics(text: str) -> Nics:
    """`8x400`, `8xNDR`, `4xConnectX-7`: count times rate in Gb/s, link or adapter.

    >>> parse_nics("8xNDR").line_gb_s
    400.0

    Raises:
        UsageError: it is not count x name, or the name is in no table; what is known is listed, and
        what can be said without it.
    """
    match = _NICS.match(text)
    if not match or int(match[1]) == 0:
        raise UsageError(
            "--nics wants count x rate in Gb/s",
            seen=text,
            next_step="for example --nics 8x400, 8xNDR or 8xConnectX-7",
        )
    count, name = int(match[1]), match[2]
    bare = re.sub(r"(?i)(g|gbe|gb/s|gbit|gbps)$", "", name)
    for link in LINKS:
        if link.name.casefold() in (name.casefold(), bare.casefold()):
            return Nics(count, name, link.data_gbit_s, source=link.source)
    for adapter in ADAPTERS:
        if adapter.name.casefold() == name.casefold():
            return Nics(
                count, adapter.name, adapter.rate_gbit_s, adapter.pcie_generation, adapter.source
            )
    known = ", ".join((*(link.name for link in LINKS), *(adapter.name for adapter in ADAPTERS)))
    raise UsageError(
        f"unknown NIC {name!r}; known: {known}",
        seen=f"--nics {text}",
        next_step=(
            "give the rate instead of the name (--nics 8x400), or the node's network rate in bytes:"
            " --network-gb-s 400"
        ),
    )


def gpu_or_refuse(name: str) -> Gpu:
    """The GPU of that name, or of the product name that the driver and nccl-tests print.

    Raises:
        UsageError: the table does not know it (what is known is listed, and how to go on without
        it), or several were named.
    """
    if "," in name:
        raise UsageError(
            _mixed(name),
            seen=f"--gpu {name}",
            next_step=(
                "ask for each model by itself; measure groups of like nodes and compare them with"
                " their peers"
            ),
        )
    gpu = find_gpu(name) or recognise_gpu(name)
    if gpu is None:
        raise UsageError(
            f"unknown GPU {name!r}; known: {', '.join(known.name for known in GPUS)}",
            seen=f"--gpu {name}",
            next_step=(
                "every limit can still be given from rates: --nvlink-gb-s 450 --gpus-per-node 8 in"
                " the place of --gpu (NVLink of one GPU, one direction); NCCL's own estimate and"
                " published rows cannot"
            ),
        )
    return gpu


def _mixed(names: str) -> str:
    known = [
        gpu
        for gpu in (find_gpu(part.strip()) for part in names.split(","))
        if gpu is not None and gpu.nvlink_gb_s is not None
    ]
    if not known:
        return "one GPU model at a time, and the tables know none of these"
    slowest = min(known, key=lambda gpu: gpu.nvlink_gb_s or 0.0)
    rate = f"{slowest.name} alone ({slowest.nvlink_gb_s:g} GB/s of NVLink)"
    return f"one GPU model at a time; a collective over all of them runs no faster than over {rate}"
