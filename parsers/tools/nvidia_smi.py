"""What `nvidia-smi` prints: the plain table (drivers 450 to 580), `-L`, and `-q` as far as the
fabric and temperatures go."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, one
from busbw.parsers.tools.blocks import blocks
from busbw.text import whole_number

# What `nvidia-smi --query-…=FIELDS --format=csv,nounits` prints: a head line with the fields,
# then one line per GPU or process.
#
# `[N/A]`, `[Not Supported]` and `[Unknown Error]` are values; the last usually means a GPU that
# fell off the bus.

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_QUERY_HEAD = re.compile(r"^(?:index|gpu_uuid|uuid|pid|name)\b[^\n]*,[^\n]*$", re.M)


@dataclass(frozen=True, slots=True)
class QueryRow:
    """One line, as (field, value) in the order asked."""

    values: tuple[tuple[str, str], ...]

    def text(self, field: str) -> str | None:
        """The value; None = not asked, or the driver gives none."""
        value = next((text for name, text in self.values if name == field), None)
        return None if value is None or value in ("[N/A]", "N/A", "[Not Supported]", "") else value

    def number(self, field: str) -> float | None:
        """The value as a number (decimal or 0x…); None = there is none."""
        value = self.text(field)
        if value is None:
            return None
        try:
            return float(int(value, 16)) if value.startswith("0x") else float(value)
        except ValueError:
            return None

    @property
    def broken(self) -> bool:
        """Some field says `[Unknown Error]` or `[GPU is lost]`."""
        return any("Unknown Error" in value or "lost" in value for _, value in self.values)


def parse_query(text: str) -> tuple[QueryRow, ...] | None:
    """The lines; () = a head line alone (no process runs); None = the text is not of such a query.

    >>> head = "index, name, clocks.sm [MHz], mig.mode.current\\n"
    >>> values = "0, NVIDIA H200, 1980, Disabled\\n1, NVIDIA H200, [Unknown Error], [N/A]\\n"
    >>> rows = parse_query(head + values)
    >>> rows[0].number("clocks.sm"), rows[1].text("mig.mode.current"), rows[1].broken
    (1980.0, None, True)
    """
    head = _QUERY_HEAD.search(text)
    if head is None:
        return None
    fields = [_UNIT.sub("", field.strip()) for field in head[0].split(",")]
    rows = []
    for line in text[head.end() :].splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields):
            rows.append(QueryRow(tuple(zip(fields, cells, strict=True))))
    return tuple(rows)


# What `nvidia-smi -q -d PERFORMANCE,ECC` says that counts up: times for which clocks were held
# back, and memory errors (drivers 450 to 580).

_GPU = re.compile(r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:\S+$", re.M)
_HELD = {
    "SW Power Capping": "throttle_sw_power_us",
    "Sync Boost": "throttle_sync_boost_us",
    "SW Thermal Slowdown": "throttle_sw_thermal_us",
    "HW Thermal Slowdown": "throttle_hw_thermal_us",
    "HW Power Braking": "throttle_hw_power_brake_us",
}
_COUNTERS = ("Clocks Event Reasons Counters", "Clocks Throttle Reasons Counters")


@dataclass(frozen=True, slots=True)
class GpuCounter:
    """One counter of one GPU, in the order of the text."""

    index: int
    """Position in the text, from 0: nvidia-smi lists GPUs by index."""
    counter: str
    value: int
    """Microseconds for `throttle_*_us`, errors since the driver was loaded for `ecc_*`."""
    line_no: int


def parse_performance(text: str) -> tuple[GpuCounter, ...]:
    """The counters; () = the text has none: an older driver, or no GPU.

    >>> [c.counter for c in parse_performance('''GPU 00000000:18:00.0
    ...     Clocks Event Reasons Counters
    ...         SW Power Capping                  : 12 us
    ... ''')]
    ['throttle_sw_power_us']
    """
    counters = []
    for index, (head, block) in enumerate(blocks(_GPU, text)):
        first = text.count("\n", 0, head.end()) + 1
        counters += _counters(index, first, block)
    return tuple(counters)


def _counters(index: int, first: int, block: str) -> list[GpuCounter]:
    counters: list[GpuCounter] = []
    totals: dict[str, int] = {}
    path: list[tuple[int, str]] = []
    for line_no, line in enumerate(block.splitlines(), first):
        text = line.lstrip(" ")
        depth = len(line) - len(text)
        title, colon, value = text.partition(":")
        title = title.rstrip(" ")
        if not depth or not title or (colon and value[:1] != " "):
            continue
        path = [(d, title) for d, title in path if d < depth]
        titles = [title for _, title in path]
        number = re.match(r"(\d{1,19})(?: us)?$", value[1:])
        if not colon:
            path.append((depth, title))
        elif number and titles[-1:] and titles[-1] in _COUNTERS and title in _HELD:
            counters.append(GpuCounter(index, _HELD[title], int(number[1]), line_no))
        elif number and "Volatile" in titles and (kind := _kind(title)):
            if kind not in totals:
                totals[kind] = 0
                counters.append(GpuCounter(index, kind, 0, line_no))
            totals[kind] += int(number[1])
    return [
        GpuCounter(c.index, c.counter, totals.get(c.counter, c.value), c.line_no) for c in counters
    ]


def _kind(title: str) -> str | None:
    if "Uncorrectable" in title:
        return "ecc_uncorrected_volatile"
    return "ecc_corrected_volatile" if "Correctable" in title else None


# What `nvidia-smi nvlink -s` (status) and `-e` (error counters) print, per GPU and link (drivers
# 450 to 580).

_NVLINK_GPU = re.compile(r"^GPU (\d+): (.+?)(?: \(UUID: \S+\))?[ \t\r]*$", re.M)
_STATUS = re.compile(r"^[ \t]+Link (\d+):\s+(?:<inactive>|inactive|(\d+(?:\.\d+)?) GB/s)", re.M)
_ERRORS = re.compile(
    r"^[ \t]+Link (\d+): (Replay|Recovery|CRC)(?: FLIT| Data)? Errors: (\d+)", re.M
)


@dataclass(frozen=True, slots=True)
class NvlinkErrors:
    """The counters of one link since the driver was loaded; None = not printed."""

    link: int
    replay: int | None
    recovery: int | None
    crc: int | None


@dataclass(frozen=True, slots=True)
class NvlinkGpu:
    """The links of one GPU."""

    index: int
    model: str
    rates_gb_s: tuple[tuple[int, float | None], ...]
    """(link, GB/s one way; None = inactive); () = the text has no status."""
    errors: tuple[NvlinkErrors, ...]
    """() = the text has no counters."""

    @property
    def inactive(self) -> tuple[int, ...]:
        """Links that are down."""
        return tuple(link for link, rate in self.rates_gb_s if rate is None)


def parse_nvlink(text: str) -> tuple[NvlinkGpu, ...]:
    """The GPUs with what is said of their links; () = the text is not of `nvidia-smi nvlink`.

    >>> parse_nvlink("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\\n\\t Link 0: 26.562 GB/s\\n\\t Link 1: <inactive>\\n")[0].inactive
    (1,)
    """
    gpus = [
        NvlinkGpu(int(head[1]), head[2], *_links(block))
        for head, block in blocks(_NVLINK_GPU, text)
    ]
    return tuple(gpu for gpu in gpus if gpu.rates_gb_s or gpu.errors)


def _links(block: str) -> tuple[tuple[tuple[int, float | None], ...], tuple[NvlinkErrors, ...]]:
    """(rates, errors) of one GPU."""
    return tuple(
        (int(link), float(rate) if rate else None) for link, rate in _STATUS.findall(block)
    ), _errors(block)


def _errors(block: str) -> tuple[NvlinkErrors, ...]:
    counts: dict[int, dict[str, int]] = {}
    for link, kind, number in _ERRORS.findall(block):
        counts.setdefault(int(link), {})[kind] = int(number)
    return tuple(
        NvlinkErrors(link, c.get("Replay"), c.get("Recovery"), c.get("CRC"))
        for link, c in sorted(counts.items())
    )


# What `nvidia-smi topo -m` prints: how each GPU reaches the other GPUs and the NICs (drivers 450
# to 580), cells parted by tabs, or by blanks where people pasted it.

_COLUMN = re.compile(r"^(GPU|NIC)\d+$|^(mlx5_|rdmap|bnxt_re|ibp)\S+$")
_JOINED = re.compile(r"^(NV\d+|PIX|PXB|PHB|NODE|SYS)(NV\d+|PIX|PXB|PHB|NODE|SYS)$")
_PEER_ROW = re.compile(r"^\s*GPU\d+\s+(?:X\s+)?(?:(?:OK|[CGT]?NS|DR|U)\b\s*(?:X\s*)?)+$")
"""Of `nvidia-smi topo -p2p`: whether a GPU can reach another one."""
_WORD = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS)$")


@dataclass(frozen=True, slots=True)
class TopologyRow:
    """One GPU's row."""

    name: str
    paths: tuple[tuple[str, str], ...]
    """(column, word): NV18, PIX, PXB, PHB, NODE, SYS; X = itself."""
    numa: str | None
    """NUMA node; None = not in the text, or the row is torn."""
    torn: bool
    """True = cells are missing or lost the tab between them; `paths` holds what can be read."""

    def path(self, column: str) -> str | None:
        """The word under a column; None = none that can be trusted."""
        return dict(self.paths).get(column)

    def has_near(self, nics: tuple[str, ...]) -> bool:
        """Whether one of the NICs is on this GPU's side of the machine."""
        return any(column in nics and word not in ("SYS", "X") for column, word in self.paths)

    def nics_at(self, word: str) -> tuple[str, ...]:
        """NIC columns with that word, in order."""
        return tuple(
            column for column, cell in self.paths if cell == word and not column.startswith("GPU")
        )


@dataclass(frozen=True, slots=True)
class Topology:
    """The matrix."""

    gpus: tuple[str, ...]
    """GPU columns of the head line."""
    nics: tuple[str, ...]
    rows: tuple[TopologyRow, ...]
    """GPU rows only; fewer than `gpus` = the text is cut."""

    @property
    def nvlinks(self) -> tuple[str, ...]:
        """The NVLink words between GPUs, each once, sorted; () = no NVLink."""
        return tuple(
            sorted({word for row in self.rows for _, word in row.paths if word.startswith("NV")})
        )

    @property
    def numa_nodes(self) -> tuple[str, ...]:
        """NUMA nodes of the GPUs, each once, sorted."""
        return tuple(sorted({row.numa for row in self.rows if row.numa is not None}))


def parse_topology(text: str) -> Topology | None:
    """The matrix; None = the text has none.

    >>> t = parse_topology("\\tGPU0\\tNIC0\\tCPU Affinity\\tNUMA Affinity\\nGPU0\\t X \\tPIX\\t0-31\\t0\\nNIC0\\tPIX\\t X \\t\\t\\n")
    >>> t.rows[0].nics_at("PIX"), t.numa_nodes
    (('NIC0',), ('0',))
    """
    lines = [_plain(line) for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if _is_topology(line, lines[i + 1 :])), None)
    if start is None:
        return None
    parting = "\t" if "\t" in lines[start] else r"\t| {2,}"
    head = [cell.strip() for cell in re.split(parting, lines[start])][1:]
    columns = [cell for cell in head if _COLUMN.match(cell)]
    numa_at = head.index("NUMA Affinity") if "NUMA Affinity" in head else None
    rows = []
    for line in lines[start + 1 :]:
        cells = [cell.strip() for cell in re.split(parting, line.strip(" "))]
        is_head = len(cells) > 1 and _COLUMN.match(cells[1])
        if cells[0] in columns and cells[0].startswith("GPU") and not is_head:
            rows.append(_row(cells[0], cells[1:], columns, numa_at))
    gpus = tuple(c for c in columns if c.startswith("GPU"))
    return Topology(gpus, tuple(c for c in columns if not c.startswith("GPU")), tuple(rows))


def _is_topology(line: str, below: list[str]) -> bool:
    """Whether it is the head line. Other tools print such a line too, with other cells below."""
    if re.match(r"^\s*\t\s*GPU0\b", line):
        return not (below and _PEER_ROW.match(below[0]))
    return bool(
        re.match(r"^ {2,}GPU0\b", line)
        and below
        and re.match(r"^ *GPU0 +X\b", below[0])
        and not _PEER_ROW.match(below[0])
    )


def _row(name: str, cells: list[str], columns: list[str], numa_at: int | None) -> TopologyRow:
    paths: list[tuple[str, str]] = []
    parts = [part for cell in cells for part in _parts(cell)]
    for column, cell in zip(columns, parts, strict=False):
        if not _WORD.match(cell):
            return TopologyRow(name, tuple(paths), None, torn=True)
        paths.append((column, cell))
    torn = len(paths) < len(columns) or len(parts) != len(cells)
    numa = (
        cells[numa_at]
        if numa_at is not None
        and not torn
        and len(cells) > numa_at
        and whole_number(cells[numa_at]) is not None
        else None
    )
    return TopologyRow(name, tuple(paths), numa, torn)


def _parts(cell: str) -> tuple[str, ...]:
    """Two words that lost the tab between them (`PIXNODE`, from a chat) are two cells."""
    joined = _JOINED.match(cell)
    return (joined[1], joined[2]) if joined else (cell,)


def _plain(line: str) -> str:
    """Without the underline codes that newer drivers print around the head line, also into a
    pipe."""
    return re.sub(r"\x1b\[\d*m", "", line)


def parse_peers(text: str) -> tuple[str, ...]:
    """The rows of `nvidia-smi topo -p2p`, in a line each.

    >>> parse_peers("        GPU0    GPU1\\n GPU0   X       CNS\\n GPU1   CNS     X\\n")
    ('GPU0: X CNS', 'GPU1: CNS X')
    """
    rows = [line.split() for line in map(_plain, text.splitlines()) if _PEER_ROW.match(line)]
    return tuple(f"{row[0]}: {' '.join(row[1:])}" for row in rows)


_HEAD = re.compile(r"NVIDIA-SMI\s+(\S+)\s+Driver Version:\s*(\S+)\s+CUDA Version:\s*(\S+)")
_FIRST = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A)\s+\|\s+([0-9A-Fa-f:.]+)\s+\S+\s+\|\s+(\S+)\s+\|"
)
_SECOND = re.compile(
    r"^\|\s*\S+\s+(\S+)\s+P\d+\s+(\d+)W\s*/\s*(\d+)W\s+\|\s+(\d+)MiB\s*/\s*(\d+)MiB\s+\|"
)
_MIG = re.compile(r"\|\s+(Enabled|Disabled|N/A)\*?\s+\|\s*$")
_PROCESS = re.compile(r"^\|\s+\d+\s+\S+\s+\S+\s+(\d+)\s+[CGM+]+\s", re.M)
_HEAD_CHARACTERS = 4096
"""The head of `nvidia-smi -q` has ten lines; what follows has thousands."""
_LISTED = re.compile(r"^GPU (\d+): (.+?) \(UUID: (\S+)\)[ \t\r]*$", re.M)
_CUDA = re.compile(r"^CUDA Version\s*:\s*(\d+\.\d+)", re.M)
_DEEPER = re.compile(r"(?:\n {8}.*)*")
_BLOCK = re.compile(r"\nGPU ([0-9A-Fa-f:.]+)[ \t]*(?=\n)")
"""A literal start: the search skips the lines between."""


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """One line of `nvidia-smi -L`."""

    index: int
    model: str
    uuid: str


@dataclass(frozen=True, slots=True)
class TableGpu:
    """One GPU of the plain table; None = the table shows N/A or cut the line."""

    index: int
    model: str
    bus_id: str
    persistence: bool | None
    ecc_uncorrected_volatile: int | None
    mig: bool | None
    power_w: int | None
    power_cap_w: int | None
    memory_used_mib: int | None
    memory_total_mib: int | None


@dataclass(frozen=True, slots=True)
class SmiTable:
    """The plain table."""

    driver: str
    cuda: str
    """The highest CUDA version that the driver supports."""
    gpus: tuple[TableGpu, ...]
    processes: tuple[int, ...] | None
    """Process ids; None = the table of processes is not in the text."""


@dataclass(frozen=True, slots=True)
class GpuDetails:
    """What `nvidia-smi -q` adds for one GPU; None = not printed (older driver) or N/A."""

    bus_id: str
    fabric_state: str | None
    """`Completed`, `In Progress`, `Not Started`…; None on cards without NVSwitch."""
    fabric_status: str | None
    temperature_c: int | None
    slowdown_c: int | None
    """Temperature at which the GPU slows itself down."""
    headroom_c: int | None
    """Newer drivers give the distance to the limit instead (`GPU T.Limit Temp`)."""
    fabric_clique: str = ""
    """The NVLink partition that several nodes share; empty = none, or not printed."""
    fabric_health: str = ""
    """`Healthy`, `Unhealthy`, `Limited Capacity`; empty = not printed, or not supported."""


def parse_list(text: str) -> tuple[ListedGpu, ...]:
    """The GPUs of `nvidia-smi -L`; () = none in the text.

    >>> parse_list("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-4b1c)\\n")
    (ListedGpu(index=0, model='NVIDIA H100 80GB HBM3', uuid='GPU-4b1c'),)
    """
    return tuple(ListedGpu(int(index), model, uuid) for index, model, uuid in _LISTED.findall(text))


def parse_table(text: str) -> SmiTable | None:
    """The plain table; None = the text has no such head.

    >>> parse_table('''| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
    ... |   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
    ... | N/A   38C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |
    ... |                                         |                        |             Disabled |
    ... ''').gpus[0].persistence
    True
    """
    head = _HEAD.search(text)
    if head is None:
        return None
    lines = text.splitlines()
    gpus = []
    for number, line in enumerate(lines):
        if first := _FIRST.match(line):
            second = _SECOND.match(lines[number + 1]) if number + 1 < len(lines) else None
            third = _MIG.search(lines[number + 2]) if number + 2 < len(lines) else None
            gpus.append(_table_gpu(first, second, third))
    listed = "No running processes found" in text or "Processes:" in text
    return SmiTable(
        head[2],
        head[3],
        tuple(gpus),
        tuple(int(pid) for pid in _PROCESS.findall(text)) if listed else None,
    )


def _table_gpu(
    first: re.Match[str], second: re.Match[str] | None, third: re.Match[str] | None
) -> TableGpu:
    numbers: tuple[int | None, ...] = (
        tuple(int(second[i]) for i in (2, 3, 4, 5)) if second else (None,) * 4
    )
    return TableGpu(
        index=int(first[1]),
        model=first[2],
        bus_id=first[4],
        persistence={"On": True, "Off": False}.get(first[3]),
        ecc_uncorrected_volatile=whole_number(first[5]),
        mig={"Enabled": True, "Disabled": False}.get(third[1]) if third else None,
        power_w=numbers[0],
        power_cap_w=numbers[1],
        memory_used_mib=numbers[2],
        memory_total_mib=numbers[3],
    )


def parse_cuda(text: str) -> str | None:
    """The highest CUDA version that the driver supports, from the head of `nvidia-smi -q`; None =
    not printed.

    >>> parse_cuda("Driver Version                            : 550.54.14\\nCUDA Version                              : 12.4\\n")
    '12.4'
    """
    match = _CUDA.search(text, 0, _HEAD_CHARACTERS)
    return match[1] if match else None


_PCIE = re.compile(r"PCIe Generation\s*\n\s*Max\s*:\s*(\S+)")


def parse_pcie_generations(text: str) -> tuple[int | None, ...]:
    """The PCIe generation that each GPU and its slot give together, from `nvidia-smi -q`; None = not
    shown.

    >>> parse_pcie_generations('''GPU 00000000:19:00.0
    ...     PCI
    ...         GPU Link Info
    ...             PCIe Generation
    ...                 Max                       : 5
    ...                 Current                   : 1
    ... ''')
    (5,)
    """
    found = (_PCIE.search(body) for _, body in blocks(_BLOCK, f"\n{text}"))
    return tuple(whole_number(each[1]) if each else None for each in found)


@functools.lru_cache(maxsize=16)
def parse_details(text: str) -> tuple[GpuDetails, ...]:
    """The GPUs of `nvidia-smi -q`; () = none in the text.

    >>> (gpu,) = parse_details('''GPU 00000000:19:00.0
    ...     Fabric
    ...         State                             : In Progress
    ...         Status                            : N/A
    ...     Temperature
    ...         GPU Current Temp                  : 31 C
    ... ''')
    >>> gpu.fabric_state, gpu.fabric_status, gpu.temperature_c
    ('In Progress', None, 31)
    """
    return tuple(_details(head[1], body) for head, body in blocks(_BLOCK, f"\n{text}"))


def _details(bus_id: str, text: str) -> GpuDetails:
    fabric = _group("Fabric", text)
    heat = _group("Temperature", text)
    return GpuDetails(
        bus_id=bus_id,
        fabric_state=fabric.get("State"),
        fabric_status=fabric.get("Status"),
        fabric_clique=_clique(fabric),
        fabric_health=fabric.get("Summary", "").replace("Not Supported", ""),
        temperature_c=_degrees(heat.get("GPU Current Temp")),
        slowdown_c=_degrees(heat.get("GPU Slowdown Temp")),
        headroom_c=_degrees(heat.get("GPU T.Limit Temp")),
    )


def _clique(fabric: dict[str, str]) -> str:
    """The NVLink partition, as NCCL tells nodes of one domain: the cluster's UUID and the clique.
    A UUID of zeros belongs to the NVSwitches of one node.

    >>> _clique({"ClusterUUID": "d2a3c6b1-0000-4000-8000-000000000001", "CliqueId": "32766"})
    'd2a3c6b1-0000-4000-8000-000000000001.32766'
    >>> _clique({"ClusterUUID": "00000000-0000-0000-0000-000000000000", "CliqueId": "0"})
    ''
    """
    uuid, clique = fabric.get("ClusterUUID") or "", fabric.get("CliqueId") or ""
    return f"{uuid}.{clique}" if uuid.strip("0-") and clique else ""


def _group(title: str, text: str) -> dict[str, str]:
    """The values of one group: the lines behind its title that are indented deeper. A GPU has 250
    lines of which these are ten."""
    # The word alone is what a search skips fastest to; that it is a title is seen from what stands
    # before it.
    start = text.find(title)
    while start >= 0 and not text.startswith("\n    ", start - 5):
        start = text.find(title, start + 1)
    if start < 0:
        return {}
    lines = _DEEPER.match(text, text.find("\n", start))
    pairs = (line.partition(":") for line in lines[0].split("\n")) if lines else ()
    return {
        label.strip(): value.strip()
        for label, _, value in pairs
        if value.strip() not in ("", "N/A")
    }


def _degrees(text: str | None) -> int | None:
    match = re.fullmatch(r"(-?\d+) C", text or "")
    return int(match[1]) if match else None


# How these outputs are known and what they say.


def _table_line(table: SmiTable) -> str:
    models = ", ".join(dict.fromkeys(gpu.model for gpu in table.gpus)) or "none"
    return f"driver {table.driver}, CUDA {table.cuda}, {len(table.gpus)} GPUs: {models}"


def _table_facts(tables: tuple[SmiTable, ...]) -> Iterator[ToolFact]:
    (table,) = tables
    modes = {True: "Enabled", False: "Disabled"}
    yield ToolFact("gpu.driver", (("version", table.driver),))
    for gpu in table.gpus:
        if gpu.persistence is not None:
            yield ToolFact("gpu.persistence", (("mode", modes[gpu.persistence]),), gpu.bus_id)
        if gpu.mig is not None:
            yield ToolFact("gpu.mig", (("mode", modes[gpu.mig]),), gpu.bus_id)
        if gpu.ecc_uncorrected_volatile is not None:
            errors = float(gpu.ecc_uncorrected_volatile)
            yield ToolFact("gpu.ecc", (("uncorrected_volatile", errors),), gpu.bus_id)


def _query_line(row: QueryRow) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.values)


def _topology_facts(matrices: tuple[Topology, ...]) -> Iterator[ToolFact]:
    """GPUs that reach every NIC only across sockets, where other GPUs have a near one."""
    (matrix,) = matrices
    rows = [row for row in matrix.rows if not row.torn]
    near = sum(row.has_near(matrix.nics) for row in rows)
    if near:
        yield ToolFact("os.numa", (("gpus_far_from_nics", float(len(rows) - near)),))


def _torn_rows(matrix: Topology) -> tuple[str, ...]:
    torn = (row.name for row in matrix.rows if row.torn)
    return tuple(f"nvidia-smi topo -m: the row of {name} is torn" for name in torn)


def _nvlink_line(gpu: NvlinkGpu) -> str:
    parts = []
    if gpu.rates_gb_s:
        up = len(gpu.rates_gb_s) - len(gpu.inactive)
        parts.append(f"{up} of {len(gpu.rates_gb_s)} links up")
    for link in gpu.errors:
        counts = f"replay {link.replay} recovery {link.recovery} CRC {link.crc}"
        parts.append(f"link {link.link} {counts}")
    return f"GPU {gpu.index} {gpu.model}: {'; '.join(parts)}"


def _nvlink_facts(gpus: tuple[NvlinkGpu, ...]) -> Iterator[ToolFact]:
    """Inactive links beside active ones: a GPU that is not bridged has none active. And errors."""
    for gpu in gpus:
        subject = f"GPU {gpu.index}"
        inactive = len(gpu.inactive)
        if inactive < len(gpu.rates_gb_s):
            values = (("inactive_links", float(inactive)),)
            yield ToolFact("gpu.nvlink_status", values, subject)
        if gpu.errors:
            recovered = sum(link.recovery or 0 for link in gpu.errors)
            yield ToolFact("gpu.nvlink_errors", (("recovery", float(recovered)),), subject)


TOOL = (
    Tool(
        name="nvidia-smi",
        marks=("NVIDIA-SMI",),
        parse=one(parse_table),
        lines=lambda table: (_table_line(table),),
        facts=_table_facts,
        gaps=lambda table: () if table.gpus else ("nvidia-smi: no row of a GPU below the head",),
    ),
    Tool(
        name="nvidia-smi -L",
        marks=("GPU 0: ",),
        # The heads of `nvidia-smi nvlink` are the same lines.
        parse=lambda text: () if "Link 0: " in text else parse_list(text),
        lines=lambda gpu: (f"GPU {gpu.index}: {gpu.model}",),
    ),
    Tool(
        name="nvidia-smi --query",
        marks=("uuid", "[MiB]", "[MHz]", "current_link"),
        parse=lambda text: parse_query(text) or (),
        lines=lambda row: (_query_line(row),),
        errors=lambda row: (f"nvidia-smi --query: {_query_line(row)}",) if row.broken else (),
    ),
    Tool(
        name="nvidia-smi topo -m",
        marks=("\tGPU0", "mGPU0", "  GPU0"),
        parse=one(parse_topology),
        lines=lambda matrix: (f"{len(matrix.gpus)} GPUs, {len(matrix.nics)} NICs",),
        facts=_topology_facts,
        gaps=_torn_rows,
    ),
    Tool(
        name="nvidia-smi topo -p2p",
        marks=("\tGPU0", "mGPU0", "  GPU0"),
        parse=parse_peers,
        lines=lambda row: (row,),
    ),
    Tool(
        name="nvidia-smi nvlink",
        marks=("Link 0: ",),
        parse=parse_nvlink,
        lines=lambda gpu: (_nvlink_line(gpu),),
        facts=_nvlink_facts,
    ),
)
