"""A healthy run of the playbook `day-one` on four nodes of eight H100, as the files of its `raw/`, to
plant faults in.

No machine with GPUs was at hand: the nodes' answers were recorded from a lab that shows H100 without
having them (`tests/fixtures/h100_nodes`), the tables are composed in the format of nccl-tests 2.19.6
and the log in NCCL's. What is judged is the path of `busbw report`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from busbw import assess, playbook
from busbw.codec import dump_json, parse_json
from busbw.errors import RunDirError
from busbw.fabrics import profiles
from busbw.model import (
    BenchmarkCase,
    Cluster,
    Collective,
    Invocation,
    Node,
    RunResult,
    Sizes,
    Status,
    busbw_factor,
)
from busbw.model.history import ComparableRun, Decision, Number, Regime
from busbw.playbook import Contract, Gate, Playbook, specification
from busbw.playbook.contract import Criterion
from busbw.store import run_directory
from busbw.store.artefacts import (
    CaseArtefact,
    CounterFile,
    CountersArtefact,
    Participants,
    PreflightArtefact,
    PreflightEntry,
    ReachArtefact,
)
from busbw.store.plan import SCHEMA, RunPlan

FIXTURES = Path(__file__).parents[1] / "fixtures"
NODES = ("node1", "node2", "node3", "node4")
RAILS = tuple(f"mlx5_{number}" for number in range(8))
GPUS = 8
STARTED = "2026-11-23T03:40:57Z"
BOUNDARY = "20261123-034628-check"
GIB = 1 << 30
TOP_GB_S = {"all_reduce": 350.0, "alltoall": 54.0}
"""What healthy nodes of this kind reach at large sizes."""
PAIRS, ALONE = "survey-pairs-1", "survey-alone"
PAIRED = (("node1", "node2"), ("node3", "node4"))
RAIL_GB_S = 46.0
"""Of a ring between two nodes over one rail."""
NVLINK_GB_S = 430.0


@dataclass
class Recording:
    """The files below `raw/`, by name."""

    files: dict[str, bytes]

    def text(self, name: str) -> str:
        """One file."""
        return self.files[name].decode()

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        """Plant a fault in one file; a change that changes nothing is an error of the trap."""
        before = self.text(name)
        after = change(before)
        assert after != before, f"the trap left {name} as it was"
        self.files[name] = after.encode()

    def replace(self, name: str, old: str, new: str, count: int = -1) -> None:
        """Plant another text in one file."""
        self.edit(name, lambda text: text.replace(old, new, count))

    def change(self, name: str, **fields: object) -> None:
        """Plant other values in the fields of a JSON record."""
        self.edit(name, lambda text: json.dumps(json.loads(text) | fields))

    def outcome(self, case_id: str, **fields: object) -> None:
        """Plant other values in what is kept of a launch."""
        self.change(f"cases/{case_id}/outcome.json", **fields)

    def plan(self, **fields: object) -> None:
        """Plant another plan."""
        plan = parse_json(self.files["plan.json"], RunPlan, "plan.json", error=RunDirError)
        self.files["plan.json"] = dump_json(dataclasses.replace(plan, **fields)).encode()  # type: ignore[arg-type]  # as the trap's author wrote them

    def book(self) -> Playbook:
        """The playbook of the plan."""
        plan = parse_json(self.files["plan.json"], RunPlan, "plan.json", error=RunDirError)
        return plan.playbook

    def table(self, case_id: str, text: str) -> None:
        """Plant another output of a launch, and no JSON beside it."""
        self.files[f"cases/{case_id}/stdout.txt"] = text.encode()
        self.files.pop(f"cases/{case_id}/result.json", None)
        self.outcome(case_id, json=None)

    def without(self, *names: str) -> None:
        """Plant that these files were never written."""
        for name in names:
            del self.files[name]

    def written(self, out: Path) -> run_directory.RunDir:
        """The run directory of it, as a run leaves it."""
        run = run_directory.create(out, STARTED, "day-one")
        for name, content in self.files.items():
            run.write_raw(name, content)
        run.event(STARTED, "run", "end", text="ended")
        return run

    def judged(self, out: Path) -> RunResult:
        """What `busbw report` makes of it. Whatever is not PASS has a finding that says why: a
        headline shows no evidence and no fix."""
        result = assess.derive(self.written(out))
        if result.verdict is not Status.PASS:
            assert any(each.status is result.verdict for each in result.findings), summary(result)
        return result


def caught(result: RunResult, *words: str) -> None:
    """The run does not pass, and its headline or a required finding says why."""
    assert result.verdict in (Status.FAIL, Status.UNKNOWN), summary(result)
    named = (result.headline, *(f"{each.id}: {each.title}" for each in result.findings))
    assert any(all(word in text for word in words) for text in named), summary(result)


def warned(result: RunResult, *words: str) -> None:
    """The run passes with a warning that a finding explains, or does not pass at all."""
    assert result.verdict is not Status.PASS, summary(result)
    named = (result.headline, *(f"{each.id}: {each.title}" for each in result.findings))
    assert any(all(word in text for word in words) for text in named), summary(result)


def summary(result: RunResult) -> str:
    """What a failed trap shows."""
    findings = "; ".join(f"{f.status.value} {f.id}: {f.title}" for f in result.findings)
    return f"{result.verdict.value}: {result.headline} [{findings}]"


def devices(nodes: tuple[str, ...] = NODES, per_node: int = GPUS, split: int = 1) -> list[str]:
    """The device list of a launch; `split` groups of equal size, by rank."""
    count = len(nodes) * per_node
    lines = []
    for rank in range(count):
        node, device = nodes[rank // per_node], rank % per_node
        lines.append(
            f"#  Rank {rank:2d} Group {rank * split // count:2d} Pid {1000 + rank:6d} on"
            f" {node:>10s} device {device:2d} [0000:{0x18 + device:02x}:00] NVIDIA H100 80GB HBM3"
        )
    return lines


def busbw_gb_s(collective: str, size_bytes: int) -> float:
    """A curve that rises to what these nodes reach."""
    return TOP_GB_S[collective] * size_bytes / (size_bytes + (32 << 20))


def table(
    case: BenchmarkCase,
    *,
    nodes: tuple[str, ...] = NODES,
    per_node: int = GPUS,
    share: float = 1.0,
    listed: list[str] | None = None,
    reach: Callable[[str, int], float] = busbw_gb_s,
) -> str:
    """The output of one launch. `share`: of the bandwidth that healthy nodes reach."""
    ranks = len(nodes) * per_node
    factor = busbw_factor(case.collective, ranks)
    rows, values = [], []
    check = "0" if case.check else "N/A"
    for planned in case.sizes.planned():
        grain = 4 if case.collective is Collective.ALL_REDUCE else 16 * ranks
        size = planned - planned % grain
        count = size // 4 if case.collective is Collective.ALL_REDUCE else size // 4 // ranks
        time_us = factor * size / (share * reach(case.collective, size) * 1e3) + 12.0
        cells = ""
        for measured_us in (time_us, time_us * 1.01):
            shown = float(f"{measured_us:.2f}")
            algbw = size / shown / 1e3
            cells += f" {shown:>12.2f} {algbw:>7.2f} {algbw * factor:>7.2f} {check:>6s}"
            values.append(float(f"{algbw * factor:.2f}"))
        redop = "none" if case.collective is Collective.ALLTOALL else "sum"
        rows.append(f"{size:>12d} {count:>12d}     float {redop:>7s}      -1{cells}")
    sizes = case.sizes
    return "\n".join(
        (
            "# nccl-tests version 2.19.6 nccl-headers=22705 nccl-library=22705",
            f"# Collective test starting: {case.collective.value}_perf",
            f"# nThread 1 nGpus 1 minBytes {sizes.minimum_bytes} maxBytes {sizes.maximum_bytes} step:"
            f" {sizes.factor}(factor) warmup iters: {case.warmup} iters: {case.iterations} agg iters:"
            f" 1 validation: {case.check} graph: 0 unalign: 0",
            "#",
            "# Using devices",
            *(devices(nodes, per_node) if listed is None else listed),
            "#",
            "#                                                              out-of-place             "
            "          in-place          ",
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong   "
            "  time   algbw   busbw  #wrong ",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)           "
            "  (us)  (GB/s)  (GB/s)         ",
            *rows,
            "# Out of bounds values : 0 OK",
            f"# Avg bus bandwidth    : {sum(values) / len(values):.6g} ",
            "#",
            f"# Collective test concluded: {case.collective.value}_perf",
            "#",
            "",
        )
    )


def nccl_log(network: str = "IB", *, direct: bool = True, rails: int = 8) -> str:
    """What every rank of the proof logs, in NCCL's format."""
    using = " ".join(f"[{index}]mlx5_{index}:1/IB" for index in range(rails))
    lines = []
    for rank in range(len(NODES) * GPUS):
        node, device = NODES[rank // GPUS], rank % GPUS
        head = f"{node}:{1000 + rank}:{1000 + rank} [{device}] NCCL INFO "
        peer = (rank + GPUS) % (len(NODES) * GPUS)
        gdr = "/GDRDMA" if direct else ""
        lines += [
            f"{head}NET/IB : Using {using} [RO]; OOB eth0:10.0.0.{rank // GPUS + 1}<0>",
            f"{head}Using network {network}",
            f"{head}NVLS multicast support is available on dev {device} (NVLS_NCHANNELS 16)",
            f"{head}Channel 00/0 : {rank}[{device}] -> {peer}[{device}] [send] via"
            f" NET/{network}/{device}{gdr}",
        ]
    return "\n".join(lines) + "\n"


def survey(
    case: BenchmarkCase,
    groups: tuple[tuple[str, ...], ...],
    slow: dict[str, float] | None = None,
) -> tuple[str, str]:
    """Table and JSON of one round; `slow`: node → the share it is left with."""
    left = slow or {}
    size = case.sizes.maximum_bytes
    by_rail = case.by_rail
    order = [(node, device) for device in range(GPUS) for node in NODES]
    if not by_rail:
        order = [(node, device) for node in NODES for device in range(GPUS)]
    colours = {}
    for node, device in order:
        position = next(i for i, group in enumerate(groups) if node in group)
        colours[node, device] = device * len(groups) + position if by_rail else position
    listing = [
        {
            "rank": rank,
            "group": colours[place],
            "pid": 1000 + rank,
            "hostname": place[0],
            "device": place[1],
            "device_hex": f"0000:{0x18 + place[1]:02x}:00",
            "device_info": "NVIDIA H100 80GB HBM3",
        }
        for rank, place in enumerate(order)
    ]
    members: dict[int, list[str]] = {}
    for place in order:
        members.setdefault(colours[place], []).append(place[0])
    per_process = []
    for place in order:
        nodes = members[colours[place]]
        factor = busbw_factor("all_reduce", len(nodes))
        top = RAIL_GB_S if by_rail else NVLINK_GB_S
        rate = top * min(left.get(node, 1.0) for node in nodes)
        base = factor * size / (rate * 1e3)
        times = [
            base * (1 + 0.004 * ((i * 7 + colours[place]) % 5 - 2)) for i in range(case.iterations)
        ]
        per_process.append([round(value, 3) for value in times])
    first = per_process[0]
    mean = sum(first) / len(first)
    ranks = len(members[0])
    factor = busbw_factor("all_reduce", ranks)
    cell = {
        "time": mean,
        "alg_bw": size / mean / 1e3,
        "bus_bw": factor * size / mean / 1e3,
        "nwrong": None,
    }
    spread = {"skipped_iterations": 0, "times_us": first, "per_process_max_times_us": per_process}
    document = {
        "version": 3,
        "nccl_version": 22705,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": size,
            "maximum_bytes": size,
            "step_factor": 2,
            "warmup_iters": case.warmup,
            "iterations": case.iterations,
            "aggregated_iterations": 1,
            "validation": 0,
            "graph": 0,
            "per_iter_timing": "true",
            "devices": listing,
        },
        "results": [
            {
                "size": size,
                "count": size // 4,
                "type": "float",
                "redop": "sum",
                "root": "    -1",
                "out_of_place": cell,
                "out_of_place_per_iter": spread,
                "in_place": cell,
                "in_place_per_iter": spread,
                "actual_iterations": case.iterations,
            }
        ],
        "average_bus_bandwidth": {"bandwidth": cell["bus_bw"]},
        "out_of_bounds": {"count": 0, "okay": "true"},
    }
    listed = [
        f"#  Rank {entry['rank']:2d} Group {entry['group']:2d} Pid {entry['pid']:6d} on"
        f" {entry['hostname']:>10s} device {entry['device']:2d} [{entry['device_hex']}] NVIDIA H100 80GB HBM3"
        for entry in listing
    ]
    shown = float(f"{mean:.2f}")
    algbw = size / shown / 1e3
    row = f"{size:>12d} {size // 4:>12d}     float     sum      -1"
    row += f" {shown:>12.2f} {algbw:>7.2f} {algbw * factor:>7.2f}    N/A" * 2
    text = table(case, listed=listed).splitlines()
    start = next(i for i, line in enumerate(text) if not line.startswith("#"))
    text[start] = row
    text = [
        f"# Avg bus bandwidth    : {float(f'{algbw * factor:.2f}'):.6g} "
        if line.startswith("# Avg")
        else line
        for line in text
    ]
    return "\n".join(text) + "\n", json.dumps(document)


def round_case(round_id: str, groups: int, *, by_rail: bool) -> BenchmarkCase:
    """A round of the survey, as busbw plans it."""
    return BenchmarkCase(
        id=round_id,
        collective=Collective.ALL_REDUCE,
        sizes=Sizes(GIB, GIB),
        iterations=20,
        warmup=2,
        check=0,
        blocking=3,
        per_iteration=True,
        split=f"DIV {len(NODES) // groups if by_rail else GPUS}",
        by_rail=by_rail,
        env=(("NCCL_ALGO", "Ring"),),
        purpose="diagnosis",
    )


def counted(moment: str, sent_words: dict[str, int]) -> str:
    """Counters of one node: words sent by each rail."""
    lines = [f"== time {1000.0 if moment == 'before' else 1060.0}", "== rdma"]
    for rail, words in sent_words.items():
        lines += [
            f"{rail}/ports/1/counters/port_xmit_data:{words}",
            f"{rail}/ports/1/counters/port_rcv_data:{words}",
            f"{rail}/ports/1/link_layer:InfiniBand",
        ]
    return "\n".join(lines) + "\n"


def healthy(book: Playbook | None = None) -> Recording:
    """The run without any fault."""
    chosen = book or playbook.load("day-one")
    files: dict[str, bytes] = {}

    def keep(name: str, record: object) -> None:
        files[name] = dump_json(record).encode()

    cluster = Cluster(tuple(Node(name) for name in NODES), NODES[0], "-w node[1-4]")
    profile = profiles.load("infiniband")
    keep(
        "plan.json",
        RunPlan(
            SCHEMA,
            "0",
            "20261123-034057-day-one",
            STARTED,
            cluster,
            chosen,
            profile,
            "ssh",
        ),
    )
    keep("reach.json", ReachArtefact(NODES, (), "ssh"))
    entries = []
    for name in NODES:
        path = f"preflight/{name}.txt"
        files[path] = (FIXTURES / "h100_nodes" / f"{name}.txt").read_bytes()
        entries.append(PreflightEntry(name, f"raw/{path}", None, 0, None, 0.5))
    keep("preflight.json", PreflightArtefact(BOUNDARY, tuple(entries)))
    keep("participants.json", Participants(NODES, NODES[0], ()))
    for order, case in enumerate(chosen.cases):
        text = (nccl_log() if case.purpose == "proof" else "") + table(case)
        launch(files, case, text, order)
        counters(files, case.id)
    if chosen.survey.when == "always":
        alone = tuple((name,) for name in NODES)
        rounds = (
            (ALONE, alone, False),
            (PAIRS, PAIRED, True),
            ("survey-pairs-2", (("node1", "node3"), ("node2", "node4")), True),
            ("survey-pairs-3", (("node1", "node4"), ("node2", "node3")), True),
        )
        for number, (round_id, groups, by_rail) in enumerate(rounds):
            case = round_case(round_id, len(groups), by_rail=by_rail)
            text, document = survey(case, groups)
            launch(files, case, text, len(chosen.cases) + number, groups, document)
    return Recording(files)


def launch(
    files: dict[str, bytes],
    case: BenchmarkCase,
    text: str,
    order: int,
    groups: tuple[tuple[str, ...], ...] = (),
    document: str | None = None,
) -> None:
    """One launch over all nodes, as a run keeps it."""
    folder = f"cases/{case.id}"
    files[f"{folder}/stdout.txt"] = text.encode()
    if document is not None:
        files[f"{folder}/result.json"] = document.encode()
    ranks = len(NODES) * GPUS
    artefact = CaseArtefact(
        case,
        Invocation(case.id, ("mpirun", "-np", str(ranks)), (), NODES, case.timeout_s, ranks),
        NODES,
        GPUS,
        "ended",
        0,
        240.0,
        f"raw/{folder}/stdout.txt",
        None,
        f"raw/{folder}/result.json" if document is not None else None,
        groups=groups,
        order=order,
    )
    files[f"{folder}/outcome.json"] = dump_json(artefact).encode()


def counters(files: dict[str, bytes], case_id: str) -> None:
    """What the ports moved during a case: every rail the same."""
    for moment, words in (("before", 1_000), ("after", 30_000_000_000)):
        kept = []
        for node in NODES:
            path = f"cases/{case_id}/counters-{moment}/{node}.txt"
            files[path] = counted(moment, dict.fromkeys(RAILS, words)).encode()
            kept.append(CounterFile(node, f"raw/{path}"))
        record = dump_json(CountersArtefact(moment, tuple(kept)))
        files[f"cases/{case_id}/counters-{moment}.json"] = record.encode()


def case_of(recording: Recording, case_id: str) -> BenchmarkCase:
    """A case of the playbook."""
    return next(case for case in recording.book().cases if case.id == case_id)


# What several traps do to a table.

_ROW = re.compile(r"(?m)^( +\d+ +\d+ +float +\S+ +-1)((?: +\S+){8})$")
BOOK = """\
description: d
cases:
  - {id: all-reduce, collective: all_reduce, sizes: 1M..8G}
gates:
  - {case: all-reduce, sizes_from: 1G, minimum_ratio: 0.8, reference: peers}
"""


def once(text: str, pattern: str, new: str) -> str:
    """The first match of a pattern replaced; ^ and $ are of a line."""
    return re.sub(pattern, new, text, count=1, flags=re.M)


def _cells(text: str, change: Callable[[list[str]], list[str]]) -> str:
    """The eight cells of every row changed, and the average made to fit."""
    values: list[float] = []

    def row(match: re.Match[str]) -> str:
        cells = change(match[2].split())
        values.extend(float(cells[i]) for i in (2, 6))
        return match[1] + "".join(f" {cell:>10s}" for cell in cells)

    text = _ROW.sub(row, text)
    average = f"{sum(values) / len(values):.6g}"
    return re.sub(r"(# Avg bus bandwidth +: )\S+", rf"\g<1>{average}", text)


def bandwidths(text: str, factor: float, columns: tuple[int, ...] = (1, 2)) -> str:
    """Every bandwidth times a factor, times as they were. `columns`: 1 = algbw, 2 = busbw."""
    return _cells(
        text,
        lambda cells: [
            f"{float(cell) * factor:.2f}" if i % 4 in columns else cell
            for i, cell in enumerate(cells)
        ],
    )


def times(text: str, factor: float) -> str:
    """Every time times a factor, bandwidths as they were."""
    return _cells(
        text,
        lambda cells: [
            f"{float(cell) * factor:.2f}" if i % 4 == 0 else cell for i, cell in enumerate(cells)
        ],
    )


def in_place(text: str, factor: float) -> str:
    """In-place times so many times longer, with the bandwidths that follow."""

    def slower(cells: list[str]) -> list[str]:
        slow = [f"{float(cells[4]) * factor:.2f}"]
        slow += [f"{float(cell) / factor:.2f}" for cell in cells[5:7]]
        return [*cells[:4], *slow, cells[7]]

    return _cells(text, slower)


def without_row(text: str, size_bytes: int) -> str:
    """One row less."""
    return "".join(
        line for line in text.splitlines(True) if not re.match(rf" +{size_bytes} ", line)
    )


def swapped_sizes(text: str) -> str:
    """The first two columns of two rows exchanged."""
    rows = {size: re.search(rf"(?m)^( +{size} +\d+)", text) for size in (GIB, 4 * GIB)}
    one, other = (match[1] for match in rows.values() if match)
    return text.replace(one, "ONE").replace(other, one).replace("ONE", other)


def proof_lines(recording: Recording) -> str:
    """What NCCL logged in the proof launch."""
    text = recording.text("cases/proof/stdout.txt")
    return text[: text.index("# nccl-tests")]


def over_sockets(text: str) -> str:
    """A log in which NCCL fell back to TCP."""
    text = text.replace("Using network IB", "Using network Socket")
    return text.replace("via NET/IB", "via NET/Socket").replace("/GDRDMA", "")


def slow_pairs(
    recording: Recording, share: float, node: str | None = None, only: str = "survey"
) -> None:
    """Rounds of the survey at a share of their rate, for one node or for all. `only`: what the names
    of these rounds begin with."""
    for name in [name for name in recording.files if re.match(rf"cases/{only}.*/outcome", name)]:
        kept = parse_json(recording.files[name], CaseArtefact, name, error=RunDirError)
        left = dict.fromkeys(NODES if node is None else (node,), share)
        text, document = survey(kept.case, kept.groups, left)
        folder = f"cases/{kept.case.id}"
        recording.files[f"{folder}/stdout.txt"] = text.encode()
        recording.files[f"{folder}/result.json"] = document.encode()


def slow_alike(recording: Recording, share: float) -> None:
    """Every launch at a share of its rate."""
    slow_pairs(recording, share)
    for case in recording.book().cases:
        head = proof_lines(recording) if case.purpose == "proof" else ""
        recording.table(case.id, head + table(case, share=share))


def drop_case(recording: Recording, case_id: str) -> None:
    """A launch that was never made."""
    for name in [name for name in recording.files if name.startswith(f"cases/{case_id}/")]:
        recording.without(name)


def without_half_of_the_groups(text: str) -> str:
    """The JSON of a round without the processes of its last groups."""
    document = json.loads(text)
    listed = document["config"]["devices"]
    half = [i for i, each in enumerate(listed) if each["group"] < 8]
    document["config"]["devices"] = [listed[i] for i in half]
    for name in ("out_of_place_per_iter", "in_place_per_iter"):
        spread = document["results"][0][name]
        spread["per_process_max_times_us"] = [spread["per_process_max_times_us"][i] for i in half]
    return json.dumps(document)


def without_a_gpu(text: str) -> str:
    """A node's answer in which the last GPU of every list is gone."""
    gone = re.sub(r"(?m)^7, .*\n", "", text)
    return re.sub(r"(?m)^GPU 7: .*\n", "", gone)


def environment(recording: Recording, name: str, value: str) -> None:
    """A variable that all launches set."""
    for path in [path for path in recording.files if path.endswith("/outcome.json")]:
        record = json.loads(recording.text(path))
        record["invocation"]["env"].append(
            {"name": name, "value": value, "origin": "--env", "why": "asked for", "source": ""}
        )
        recording.files[path] = json.dumps(record).encode()


def accepted_only(
    recording: Recording,
    *,
    gpus: str = "8 x NVIDIA H100 80GB HBM3 on 4",
    nics: str = "not known",
    gb_s: float = 330.0,
    verdict: str = "PASS",
    size_bytes: int | None = None,
    nodes: tuple[str, ...] = NODES,
    emulated: bool = False,
) -> None:
    """The gate compares with accepted runs alone, and there is this one."""
    gates = (Gate("all-reduce", GIB, "accepted-run", minimum_ratio=0.8),)
    recording.plan(playbook=dataclasses.replace(recording.book(), gates=gates))
    options = "-n 20 -w 5 -c 0 -z 0 float sum"
    sizes = (size_bytes,) if size_bytes else tuple(GIB << shift for shift in range(4))
    numbers = tuple(
        Number("all-reduce", "all_reduce", "bandwidth", size, options, (gb_s,)) for size in sizes
    )
    regime = Regime("infiniband", gpus, nics, 4, 32, emulated)
    decision = Decision(STARTED, "somebody", "")
    past = ComparableRun(
        "20261101-000000-day-one", STARTED, verdict, regime, numbers, (), nodes, decision
    )
    recording.files["accepted.json"] = dump_json((past,)).encode()


def contracted(recording: Recording, *criteria: Criterion, nodes: int = 4) -> Recording:
    """The run as an answer to a contract."""
    contract = Contract(criteria, "Order 4711", nodes)
    recording.plan(playbook=dataclasses.replace(recording.book(), contract=contract))
    return recording


def specified(recording: Recording, **keys: str) -> None:
    """The inventory says what every node must have."""
    plan = parse_json(recording.files["plan.json"], RunPlan, "plan.json", error=RunDirError)
    demanded = specification.requirements(keys, "inventory")
    recording.plan(cluster=dataclasses.replace(plan.cluster, requirements=demanded))


def on_every_node(recording: Recording, old: str, new: str) -> None:
    """The same answer of all nodes replaced."""
    for node in NODES:
        recording.replace(f"preflight/{node}.txt", old, new)
