"""What `amd-smi --json` prints of AMD's GPUs: `list`, `static`, `metric`, `process`, `bad-pages`,
`xgmi`, and its errors; and `rocm-smi --json`, which came before it.

Written against the sources of amd-smi for ROCm 6.3 (github.com/ROCm/amdsmi, amdsmi_cli) and of 2026
(github.com/ROCm/rocm-systems, projects/amdsmi), and what amd/node-scraper reads of ROCm 6.1 to 7.13:
a list, or the list under `gpu_data`, also a list in a list; a number, or its `value` with a `unit`;
one bad page without its list. No AMD hardware was at hand: no output of a real node was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from busbw.parsers.nccl_tests.json_trees import Tree, get, items, number, text_of, whole_number
from busbw.parsers.nccl_tests.results_json import Loaded, has_no_number, load_all
from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.nvidia_smi import ListedGpu
from busbw.parsers.tools.nvidia_smi_query import QueryRow

_MARK = re.compile(r'"gpu"\s*:\s*\d|"card\d+"\s*:')
_CARD = re.compile(r"card\d+")
_ABSENT = ("N/A", "NA", "")
_THROTTLES = (
    ("prochot_violation_status", "power brake"),
    ("socket_thermal_violation_status", "socket thermal"),
    ("vr_thermal_violation_status", "voltage regulator thermal"),
    ("hbm_thermal_violation_status", "memory thermal"),
)
"""Of `metric --throttle`. The power limit itself (`ppt_…`) is normal under load."""
_ACTIVE = ("ACTIVE", "TRUE")
_PARTITIONS = ("accelerator_partition", "compute_partition")
WHOLE = "SPX"
"""The partition mode in which a GPU is one device."""


@dataclass(frozen=True, slots=True)
class AmdGpu:
    """One GPU; None = not in the text, or N/A."""

    index: int
    model: str | None = None
    """`AMD Instinct MI300X`."""
    uuid: str | None = None
    bus_id: str | None = None
    driver: str | None = None
    firmware: str | None = None
    """Of the VBIOS, which newer releases call IFWI."""
    target: str | None = None
    """What a compiler builds for: `gfx942`."""
    partition: str | None = None
    """`SPX`: whole; `CPX`, `DPX`, `QPX`: in parts, each listed as a GPU."""
    partition_number: int | None = None
    numa: int | None = None
    power_limit_w: float | None = None
    power_max_w: float | None = None
    hotspot_c: float | None = None
    slowdown_c: float | None = None
    width: float | None = None
    """PCIe lanes in use."""
    max_width: float | None = None
    ecc_uncorrected: int | None = None
    memory_used_mib: float | None = None
    usage_percent: float | None = None
    throttled: tuple[str, ...] | None = None
    """What slows it down now; None = not asked."""
    xgmi_errors: int | None = None
    """0 none, 1 one, 2 several since it was read last (rocm-smi)."""
    gap: str = ""
    """What of the text is missing, at the last GPU; "" = nothing."""

    @property
    def is_part(self) -> bool:
        """It is a part of a GPU, not a whole one."""
        return self.partition not in (None, WHOLE) or bool(self.partition_number)


@dataclass(frozen=True, slots=True)
class XgmiGpu:
    """The XGMI links of one GPU."""

    index: int
    bus_id: str
    states: tuple[str, ...] = ()
    """In the order of `xgmi --link-status`: `U` up, `D` down, `X` disabled, `N/A`; () = not asked. A
    GPU's place for itself is `X`; two links to one GPU are two (`U/D`)."""
    rate_gbit_s: float | None = None
    """Of one lane (`bit_rate`)."""
    link_type: str | None = None
    """`XGMI`, or `PCIE` where the GPUs see each other over PCI Express only."""
    gap: str = ""
    """As `AmdGpu.gap`."""

    @property
    def down(self) -> tuple[int, ...]:
        """Numbers of the links that are down."""
        return tuple(number for number, state in enumerate(self.states) if state == "D")


@dataclass(frozen=True, slots=True)
class AmdProcess:
    """A process on a GPU."""

    index: int
    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class AmdPages:
    """Bad pages of one GPU's memory."""

    index: int
    pending: int
    unreservable: int
    retired: int
    gap: str = ""
    """As `AmdGpu.gap`."""


def is_json(text: str) -> bool:
    """Whether it is of amd-smi or rocm-smi.

    >>> is_json('[{"gpu": 0, "bdf": "0000:0c:00.0"}]'), is_json("GPU 0: NVIDIA H100")
    (True, False)
    """
    return _MARK.search(text) is not None


def parse(text: str) -> tuple[AmdGpu, ...]:
    """The GPUs, each with all that the documents of the text say of it; () = none is in it.

    >>> gpus = parse('''[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"},
    ...   "limit": {"max_power": {"value": 750, "unit": "W"}, "socket_power": {"value": 550, "unit": "W"}}}]
    ... {"gpu_data": [{"gpu": 0, "ecc": {"total_uncorrectable_count": 2}}]}''')
    >>> gpus[0].model, gpus[0].power_limit_w, gpus[0].power_max_w, gpus[0].ecc_uncorrected
    ('AMD Instinct MI300X', 550.0, 750.0, 2)
    """
    if not is_json(text):
        return ()
    entries: dict[int, list[Tree]] = {}
    for index, entry in _entries(text):
        entries.setdefault(index, []).append(entry)
    if entries:
        return tuple(_gpu(index, parts) for index, parts in sorted(entries.items()))
    return tuple(_rocm_smi(text))


_LISTS = (None, "gpu_data", "link_status", "link_port_status", "xgmi_metric")


def _entries(text: str) -> Iterator[tuple[int, Tree]]:
    for loaded in load_all(text):
        yield from _entries_of(loaded)


def _entries_of(loaded: Loaded) -> Iterator[tuple[int, Tree]]:
    for key in _LISTS:
        tree = loaded.value if key is None else get(loaded.value, key)
        for member in items(tree):
            for entry in items(member) or [member]:
                index = number(get(entry, "gpu"))
                if index is not None:
                    yield int(index), entry


def _gap(text: str) -> str:
    """What of the documents is missing."""
    cut = (loaded for loaded in load_all(text) if not loaded.whole)
    if any(map(_is_of_gpus, cut)):
        return "the document is truncated"
    return "a value is no number (nan)" if has_no_number(text) else ""


def _is_of_gpus(loaded: Loaded) -> bool:
    cards = loaded.value if isinstance(loaded.value, dict) else {}
    return any(_entries_of(loaded)) or any(map(_CARD.fullmatch, cards))


def _gpu(index: int, parts: list[Tree]) -> AmdGpu:
    def first(*paths: str) -> Tree:
        """The first value that is there, of all documents; a path is `asic.market_name`."""
        for path in paths:
            for part in parts:
                value = get(part, *path.split("."))
                if value is not None and value not in _ABSENT:
                    return value
        return None

    def amount(*paths: str) -> float | None:
        value = first(*paths)
        size = number(get(value, "value") if isinstance(value, dict) else value)
        return None if size is None else float(size)

    def word(*paths: str) -> str | None:
        value = first(*paths)
        return text_of(value) if not isinstance(value, int | float) else str(value)

    errors, part, numa = (
        amount(path) for path in ("ecc.total_uncorrectable_count", "partition_id", "numa.node")
    )
    return AmdGpu(
        index=index,
        model=word("asic.market_name"),
        uuid=word("uuid"),
        bus_id=word("bus.bdf", "bdf"),
        driver=word("driver.version", "driver.driver_version"),
        firmware=word("vbios.version", "ifwi.version", "vbios.part_number", "ifwi.part_number"),
        target=word("asic.target_graphics_version"),
        partition=word(*(f"partition.{name}" for name in _PARTITIONS)),
        partition_number=None if part is None else int(part),
        numa=None if numa is None else int(numa),
        power_limit_w=amount("limit.socket_power", "limit.ppt0.socket_power_limit"),
        power_max_w=amount("limit.max_power", "limit.ppt0.max_power_limit"),
        hotspot_c=amount("temperature.hotspot"),
        slowdown_c=amount("limit.slowdown_hotspot_temperature"),
        width=amount("pcie.width"),
        max_width=amount("bus.max_pcie_width"),
        ecc_uncorrected=None if errors is None else int(errors),
        memory_used_mib=amount("mem_usage.used_vram"),
        usage_percent=amount("usage.gfx_activity"),
        throttled=_throttled(first("throttle"), word("power.throttle_status")),
    )


def _throttled(detailed: Tree, summary: str | None) -> tuple[str, ...] | None:
    if isinstance(detailed, dict):
        return tuple(
            name for key, name in _THROTTLES if any(map(_is_active, _leaves(detailed.get(key))))
        )
    if summary is None:
        return None
    return ("not said what",) if summary == "THROTTLED" else ()


def _leaves(tree: Tree) -> Iterator[Tree]:
    """A value, or those of every partition of the GPU (`{"xcp_0": [{"value": …}, "N/A"]}`)."""
    inside: Iterable[Tree] = ()
    if isinstance(tree, dict):
        inside = tree.values()
    elif isinstance(tree, list):
        inside = tree
    else:
        yield tree
    for each in inside:
        yield from _leaves(each)


def _is_active(leaf: Tree) -> bool:
    return leaf is True or (isinstance(leaf, str) and leaf.upper() in _ACTIVE)


def _rocm_smi(text: str) -> Iterator[AmdGpu]:
    """`rocm-smi --showproductname --showvbios --showdriverversion --showmaxpower … --json`."""
    for loaded in load_all(text):
        tree = loaded.value
        driver = text_of(get(tree, "system", "Driver version"))
        for name, card in tree.items() if isinstance(tree, dict) else ():
            if not _CARD.fullmatch(name):
                continue
            yield AmdGpu(
                index=int(name.removeprefix("card")),
                model=_first_text(card, "Card Series", "Card series", "Device Name"),
                uuid=_first_text(card, "Unique ID"),
                bus_id=_first_text(card, "PCI Bus"),
                driver=driver,
                firmware=_first_text(card, "VBIOS version"),
                target=_first_text(card, "GFX Version"),
                partition=_first_text(card, "Compute Partition"),
                power_limit_w=number(get(card, "Max Graphics Package Power (W)")),
                hotspot_c=number(get(card, "Temperature (Sensor junction) (C)")),
                usage_percent=number(get(card, "GPU use (%)")),
                xgmi_errors=whole_number(get(card, "XGMI Error count")),
            )


def _first_text(card: Tree, *names: str) -> str | None:
    values = (text_of(get(card, name)) for name in names)
    return next((value for value in values if value is not None and value not in _ABSENT), None)


def rows(text: str) -> tuple[QueryRow, ...] | None:
    """The GPUs under the names that `nvidia-smi --query-gpu` has for the same values, which is how
    the checks compare nodes; None = the text is not of amd-smi.

    >>> rows('[{"gpu": 3, "asic": {"market_name": "AMD Instinct MI325X"}}]')[0].text("name")
    'AMD Instinct MI325X'
    """
    gpus = parse(text)
    return tuple(map(_row, gpus)) if gpus else None


def _row(gpu: AmdGpu) -> QueryRow:
    values = {
        "index": gpu.index,
        "uuid": gpu.uuid or gpu.bus_id,
        "name": gpu.model,
        "driver_version": gpu.driver,
        "vbios_version": gpu.firmware,
        "compute_cap": gpu.target,
        "pci.bus_id": gpu.bus_id,
        "power.limit": gpu.power_limit_w,
        "power.default_limit": gpu.power_max_w,
        "pcie.link.width.current": gpu.width,
        "pcie.link.width.max": gpu.max_width,
        "memory.used": gpu.memory_used_mib,
        "ecc.errors.uncorrected.volatile.total": gpu.ecc_uncorrected,
        "utilization.gpu": gpu.usage_percent,
    }
    return QueryRow(
        tuple(
            (name, f"{value:g}" if isinstance(value, float) else str(value))
            for name, value in values.items()
            if value is not None
        )
    )


def listed(text: str) -> tuple[ListedGpu, ...]:
    """The GPUs of `amd-smi list`, as `nvidia-smi -L` has them."""
    return tuple(
        ListedGpu(gpu.index, gpu.model or "AMD GPU", gpu.uuid or gpu.bus_id or "")
        for gpu in parse(text)
    )


def parse_xgmi(text: str) -> tuple[XgmiGpu, ...]:
    """The GPUs of `amd-smi xgmi`; () = none is in the text.

    >>> parse_xgmi('{"link_status": [{"gpu": 0, "bdf": "0000:0c:00.0", "link_status": ["X", "U", "D"]}]}')[0].down
    (2,)
    """
    by_index: dict[int, XgmiGpu] = {}
    states: dict[int, list[tuple[str, ...]]] = {}
    for index, entry in _entries(text) if is_json(text) else ():
        before = by_index.get(index)
        metrics = get(entry, "link_metrics")
        states.setdefault(index, []).append(_states(entry))
        rate = get(metrics, "bit_rate")
        by_index[index] = XgmiGpu(
            index,
            text_of(get(entry, "bdf")) or "",
            _first_of_links(states[index]),
            number(get(rate, "value") if isinstance(rate, dict) else rate)
            or (before.rate_gbit_s if before else None),
            text_of(get(metrics, "link_type")) or (before.link_type if before else None),
        )
    return tuple(gpu for gpu in by_index.values() if gpu.states or gpu.link_type)


def _states(entry: Tree) -> tuple[str, ...]:
    """The states of an entry's links, each by itself."""
    listed = (text_of(each) or "" for each in items(get(entry, "link_status")))
    each = (state for text in listed for state in (text.split("/") if text != "N/A" else [text]))
    return tuple("X" if state == "SELF" else state for state in each if state)


def _first_of_links(tables: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Of the tables by port and by GPU the one that says most: of a link that is down, else of one
    that is up."""
    chosen = (next((table for table in tables if mark in table), ()) for mark in "DUX")
    return next(filter(None, chosen), next(filter(None, tables), ()))


def parse_processes(text: str) -> tuple[AmdProcess, ...] | None:
    """The processes of `amd-smi process`; None = the text is none of it.

    >>> parse_processes('[{"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]}]')
    ()
    """
    lists = [
        (index, get(entry, "process_list"))
        for index, entry in _entries(text)
        if get(entry, "process_list") is not None
    ]
    if not lists:
        return None
    running = []
    for index, processes in lists:
        for each in items(processes):
            nested = get(each, "process_info")
            process = each if nested is None else nested
            pid = number(get(process, "pid"))
            if pid is not None:
                running.append(AmdProcess(index, int(pid), text_of(get(process, "name")) or ""))
    return tuple(running)


def parse_pages(text: str) -> tuple[AmdPages, ...]:
    """The bad pages of `amd-smi bad-pages`; () = the text is none of it.

    >>> (pages,) = parse_pages('[{"gpu": 0, "retired": [{"page_address": 1, "page_size": 4096, "status": "PENDING"}]}]')
    >>> pages.pending, pages.unreservable, pages.retired
    (1, 0, 0)
    """
    pages = []
    for index, entry in _entries(text):
        keys = ("retired", "pending", "un_res", "bad_pages")
        if all(get(entry, key) is None for key in keys):
            continue
        states = [
            text_of(get(page, "status")) or key.upper()
            for key in keys
            for page in _pages(get(entry, key))
        ]
        pending, unreservable = (
            sum(state.startswith(word) for state in states) for word in ("PEND", "UN")
        )
        retired = len(states) - pending - unreservable
        pages.append(AmdPages(index, pending, unreservable, retired))
    return tuple(pages)


def _pages(tree: Tree) -> list[Tree]:
    """One page alone has no list."""
    return [tree] if isinstance(tree, dict) else items(tree)


def _pages_line(pages: AmdPages) -> str:
    counts = (
        (pages.retired, "retired"),
        (pages.pending, "pending"),
        (pages.unreservable, "not reservable"),
    )
    shown = ", ".join(f"{count} {name}" for count, name in counts if count)
    return f"GPU {pages.index}: bad pages: {shown}" if shown else f"GPU {pages.index}: no bad pages"


def parse_errors(text: str) -> tuple[str, ...]:
    """What amd-smi says where it failed.

    >>> parse_errors('{"error": "Device Not found", "code": 31, "error_type": "AMDSMI_STATUS_NOT_FOUND"}')
    ('amd-smi: Device Not found (31)',)
    """
    trees = (loaded.value for loaded in load_all(text))
    return tuple(
        f"amd-smi: {text_of(get(tree, 'error'))} ({get(tree, 'code')})"
        for tree in trees
        if isinstance(tree, dict) and set(tree) == {"error", "code", "error_type"}
    )


def _line(gpu: AmdGpu) -> str:
    parts = (gpu.model, gpu.bus_id, gpu.target, gpu.driver and f"driver {gpu.driver}")
    more = ", ".join(each for each in parts if each)
    wrong = f", {gpu.ecc_uncorrected} uncorrectable errors" if gpu.ecc_uncorrected else ""
    if gpu.xgmi_errors:
        wrong += f", XGMI errors ({gpu.xgmi_errors})"
    return f"GPU {gpu.index}: {more or 'listed'}{wrong}"


def _errors(gpu: AmdGpu) -> tuple[str, ...]:
    return (_line(gpu),) if gpu.ecc_uncorrected or gpu.xgmi_errors else ()


def _xgmi_line(gpu: XgmiGpu) -> str:
    links = f"{gpu.states.count('U')} XGMI links up"
    if gpu.states and not set(gpu.states) & {"U", "D"}:
        links = "states of its XGMI links not available"
    elif not gpu.states:
        rate = "" if gpu.rate_gbit_s is None else f", {gpu.rate_gbit_s:g} Gb/s a lane"
        links = f"linked by {gpu.link_type}{rate}"
    down = f", down: {', '.join(map(str, gpu.down))}" if gpu.down else ""
    return f"GPU {gpu.index} {gpu.bus_id}: {links}{down}"


def _xgmi_facts(gpus: tuple[XgmiGpu, ...]) -> Iterator[ToolFact]:
    for gpu in gpus:
        if gpu.states:
            values = (
                ("down_links", float(len(gpu.down))),
                ("up_links", float(gpu.states.count("U"))),
            )
            yield ToolFact("gpu.xgmi", values, f"GPU {gpu.index}")


_OF_OTHERS = {
    "gpu", "bdf", "link_status", "link_metrics", "process_list", "retired", "pending", "un_res", "bad_pages",
}  # fmt: skip
"""Keys of `xgmi`, `process` and `bad-pages`, and of every entry."""


def _plain(text: str) -> tuple[AmdGpu, ...]:
    """Of a text that is not of `xgmi`, `process` or `bad-pages` alone."""
    entries = list(_entries(text))
    of_parts = {
        index for index, entry in entries if isinstance(entry, dict) and set(entry) - _OF_OTHERS
    }
    gpus = [gpu for gpu in parse(text) if not entries or gpu.index in of_parts]
    return (*gpus[:-1], *(replace(gpu, gap=_gap(text)) for gpu in gpus[-1:]))


def _xgmi(text: str) -> tuple[XgmiGpu, ...]:
    gpus = parse_xgmi(text)
    return (*gpus[:-1], *(replace(gpu, gap=_gap(text)) for gpu in gpus[-1:]))


def _bad_pages(text: str) -> tuple[AmdPages, ...]:
    pages = parse_pages(text)
    return (*pages[:-1], *(replace(each, gap=_gap(text)) for each in pages[-1:]))


TOOL = (
    Tool(
        "amd-smi",
        ('"market_name"', '"kfd_id"', '"total_uncorrectable_count"', '"Card Series"', '"XGMI Error count"'),
        _plain,
        lambda gpu: (_line(gpu),),
        errors=_errors,
        gaps=lambda gpu: (f"amd-smi: {gpu.gap}",) if gpu.gap else (),
    ),
    Tool(
        "amd-smi xgmi",
        ('"link_status"', '"link_metrics"'),
        _xgmi,
        lambda gpu: (_xgmi_line(gpu),),
        facts=_xgmi_facts,
        errors=lambda gpu: (_xgmi_line(gpu),) if gpu.down else (),
        gaps=lambda gpu: (f"amd-smi xgmi: {gpu.gap}",) if gpu.gap else (),
    ),
    Tool(
        "amd-smi bad-pages",
        ('"page_address"', '"un_res"', '"No bad pages found."'),
        _bad_pages,
        lambda pages: (_pages_line(pages),),
        errors=lambda pages: (_pages_line(pages),) if pages.pending or pages.unreservable else (),
        gaps=lambda pages: (f"amd-smi bad-pages: {pages.gap}",) if pages.gap else (),
    ),
    Tool("amd-smi error", ('"error_type"',), parse_errors, lambda error: (error,), errors=lambda error: (error,)),
)  # fmt: skip
