"""The fleet's link test: rounds, both directions, what cannot be measured, the blame model on rails.

The outputs of perftest, mlxlink and `ethtool -m` are composed in the tools' documented format: no
RDMA hardware was at hand.
"""

from __future__ import annotations

import dataclasses
import random
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from plans import run_plan

from busbw import playbook
from busbw.assess import links
from busbw.cli.check_text import link_lines
from busbw.fabrics import profiles
from busbw.fabrics.profile import LinkTool
from busbw.model import Cluster, Node, Status
from busbw.model.links import PortFacts
from busbw.run.context import Context
from busbw.store import artefacts, run_directory
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline, link_commands
from busbw.survey.link_baseline import LinkBaselineArtefact, PairOutput
from busbw.survey.link_commands import Extent
from busbw.survey.measure_links import taken_over
from busbw.survey.schedule import circle
from busbw.transport.fanout import open_fleet
from busbw.transport.local import LocalTransport

RAILS = ("mlx5_0", "mlx5_1")
MLXLINK = """\
Operational Info
----------------
State                              : Active
Physical state                     : LinkUp
Speed                              : IB-NDR
Width                              : 4x
FEC                                : Standard_RS-FEC - (544,514)

Module Info
-----------
Cable Type                         : Optical Module (separated)
Vendor Part Number                 : MMA4Z00-NS
Vendor Serial Number               : MT2306FT00001
Temperature [C]                    : 51 [-10..80]
Rx Power Current [dBm]             : 1.531,-9.824,1.402,1.611 [-10.0..7.0]
Tx Power Current [dBm]             : 1.7,1.6,1.8,1.7 [-8.0..8.0]

Physical Counters and BER Info
------------------------------
Time Since Last Clear [Min]        : 7031.5
Effective Physical BER             : 1E-13
Raw Physical BER                   : 3E-6
Link Down Counter                  : 2
"""


LATENCY = """\
                    RDMA_Write Latency Test
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          {low:.2f}           5.07         {typical:.2f}     	       {typical:.2f}        	0.10		1.60		5.07
"""


def latency(typical_us: float) -> str:
    """A table of ib_write_lat with that typical latency."""
    return LATENCY.format(low=typical_us * 0.97, typical=typical_us)


def row(rate_gbit_s: float) -> str:
    """A table of ib_write_bw with that average."""
    return (
        "                    RDMA_Write BW Test\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      50000            0.00               {rate_gbit_s:.2f}             0.7\n"
    )


def plan_of(nodes: tuple[str, ...], rails: tuple[str, ...] = RAILS) -> RunPlan:
    members = tuple(Node(name, rails=rails) for name in nodes)
    cluster = Cluster(members, nodes[0], "test")
    book = playbook.load("day-one")
    return run_plan(cluster, book, profiles.load("infiniband"))


@dataclass(frozen=True)
class Planted:
    """What is wrong in a link test."""

    slow: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(node, rail) → its share of the rate."""
    of_gpu: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """The same between GPU memories."""
    without: tuple[str, ...] = ()
    """Nodes whose tool is missing."""
    killed: tuple[tuple[int, str], ...] = ()
    """(round, node) of servers that are killed."""
    sharing: Mapping[str, float] = field(default_factory=dict)
    """Node → the share of the rate that each of its rails keeps while all are busy."""
    late_us: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(node, rail) → what it adds to the latency."""
    leaf_of: Mapping[str, int] = field(default_factory=dict)
    """Between two leaves the latency is half a µs more."""


NOTHING = Planted()


def measured(
    tmp_path: Path,
    nodes: tuple[str, ...],
    planted: Planted = NOTHING,
    *,
    seed: int = 1,
    memories: tuple[str, ...] = ("host",),
) -> tuple[RunDir, RunPlan, LinkBaselineArtefact]:
    """Three rounds of link tests with noise of 1 %, as a run keeps them."""
    run = run_directory.create(tmp_path, "2026-11-25T12:00:00Z", "links")
    draw = random.Random(seed)
    outputs = []

    def about(value: float) -> float:
        return value * (1 + 0.01 * draw.gauss(0, 1))

    def output(way: tuple[str, str], memory: str, dead: bool) -> str:
        text, together = "", ""
        for rail in RAILS:
            bad = planted.slow if memory == "host" else planted.of_gpu
            rate = about(392 * min(bad.get((node, rail), 1.0) for node in way))
            kept = min(planted.sharing.get(node, 1.0) for node in way)
            far = 0.5 if len({planted.leaf_of.get(node) for node in way}) > 1 else 0.0
            wait = about(1.1 + far + sum(planted.late_us.get((node, rail), 0.0) for node in way))
            if dead:
                text += f"@@ {rail} latency\n\n@@ {rail} rdma\nCouldn't connect to n:18710\n"
                continue
            text += f"@@ {rail} latency\n{latency(wait)}@@ {rail} rdma\n{row(rate)}"
            together += f"@@ {rail} together\n{row(about(rate * kept))}"
        return text + together

    for number in (1, 2, 3):
        for memory in memories:
            for pair in circle(nodes, number - 1)[0]:
                lacking = next((node for node in pair if node in planted.without), "")
                dead = any((number, node) in planted.killed for node in pair)
                own: list[str | None] = []
                for way in (pair, pair[::-1]):
                    name = f"links/round-{number}-{memory}/{'-'.join(way)}.txt"
                    if not lacking:
                        run.write_raw(name, output(way, memory, dead).encode())
                    own.append(None if lacking else f"raw/{name}")
                problem = f"{lacking}: no ib_write_bw" if lacking else ""
                outputs.append(
                    PairOutput(pair, RAILS, own[0], problem, lacking, own[1], number, memory)
                )
    artefact = LinkBaselineArtefact(
        outputs=tuple(outputs),
        tool=LinkTool.PERFTEST,
        swapped=True,
        memory="both" if len(memories) == 2 else memories[0],
        budget_s=300.0,
        seconds=60.0,
    )
    return run, plan_of(nodes), artefact


EIGHT = tuple(f"gpu{number}" for number in range(1, 9))


def bad_rows(test: links.LinkTest) -> dict[tuple[str, str], tuple[Status, str]]:
    return {
        (row.node, row.interface): (row.status, row.why)
        for row in test.table.rows
        if row.status is not Status.PASS
    }


def test_a_slow_rail_is_named_and_no_other(tmp_path: Path) -> None:
    test = links.judge(*measured(tmp_path, EIGHT, Planted(slow={("gpu3", "mlx5_1"): 0.5})))
    assert bad_rows(test) == {("gpu3", "mlx5_1"): (Status.FAIL, "gpu3 rail 1 is slow")}


def test_a_node_slow_on_all_rails_is_named_as_a_node(tmp_path: Path) -> None:
    slow = {("gpu5", rail): 0.6 for rail in RAILS}
    test = links.judge(*measured(tmp_path, EIGHT, Planted(slow=slow)))
    assert bad_rows(test) == {("gpu5", rail): (Status.FAIL, "gpu5 is slow") for rail in RAILS}


@pytest.mark.parametrize("seed", range(10))
def test_noise_names_nobody(tmp_path: Path, seed: int) -> None:
    assert bad_rows(links.judge(*measured(tmp_path, EIGHT, seed=seed))) == {}


def test_a_node_without_the_tool_is_unknown_with_its_reason_and_its_partners_pass(
    tmp_path: Path,
) -> None:
    test = links.judge(*measured(tmp_path, EIGHT, Planted(without=("gpu2",))))
    why = "not measured: gpu2: no ib_write_bw"
    assert bad_rows(test) == {("gpu2", rail): (Status.UNKNOWN, why) for rail in RAILS}


def test_a_server_that_is_killed_in_one_round_costs_that_test_and_flags_nobody(
    tmp_path: Path,
) -> None:
    test = links.judge(*measured(tmp_path, EIGHT, Planted(killed=((2, "gpu4"),))))
    assert bad_rows(test) == {}
    assert len(test.failed) == 1
    gap = links.uncovered(test)[1]
    assert gap.what == "1 test between nodes"
    assert "round 2: no result of ib_write_bw: Couldn't connect" in gap.why


def test_a_node_that_is_killed_in_every_round_is_unknown(tmp_path: Path) -> None:
    killed = tuple((number, "gpu4") for number in (1, 2, 3))
    bad = bad_rows(links.judge(*measured(tmp_path, EIGHT, Planted(killed=killed))))
    assert set(bad) == {("gpu4", rail) for rail in RAILS}
    assert all(status is Status.UNKNOWN for status, _ in bad.values())


def test_two_nodes_are_measured_and_not_compared(tmp_path: Path) -> None:
    test = links.judge(*measured(tmp_path, EIGHT[:2], Planted(slow={("gpu1", "mlx5_0"): 0.4})))
    assert {row.status for row in test.table.rows} == {Status.UNKNOWN}
    assert all(row.sent_gbit_s for row in test.table.rows)


def test_of_three_nodes_the_slow_rail_is_named(tmp_path: Path) -> None:
    test = links.judge(*measured(tmp_path, EIGHT[:3], Planted(slow={("gpu1", "mlx5_0"): 0.4})))
    assert bad_rows(test) == {("gpu1", "mlx5_0"): (Status.FAIL, "gpu1 rail 0 is slow")}


def test_what_rails_share_shows_only_while_all_are_busy_and_is_named(tmp_path: Path) -> None:
    test = links.judge(*measured(tmp_path, EIGHT, Planted(sharing={"gpu6": 0.52})))
    bad = bad_rows(test)
    assert set(bad) == {("gpu6", rail) for rail in RAILS}
    assert all(status is Status.FAIL for status, _ in bad.values())
    assert all(why.startswith("gpu6 keeps 5") for _, why in bad.values()), bad
    assert all(why.endswith("% of its rate with all rails busy") for _, why in bad.values())
    assert all(row.share and row.share > 0.95 for row in test.table.rows)


def test_a_limit_that_all_nodes_share_is_a_warning_without_a_name(tmp_path: Path) -> None:
    test = links.judge(*measured(tmp_path, EIGHT, Planted(sharing=dict.fromkeys(EIGHT, 0.6))))
    assert {row.status for row in test.table.rows} == {Status.WARN}
    assert all(
        row.why.endswith("% of its rate with all rails busy, as of most") for row in test.table.rows
    )


def test_a_rail_that_answers_late_is_named_and_its_rate_passes(tmp_path: Path) -> None:
    run, plan, artefact = measured(tmp_path, EIGHT, Planted(late_us={("gpu5", "mlx5_1"): 2.4}))
    ((place, (status, why)),) = bad_rows(links.judge(run, plan, artefact)).items()
    assert place == ("gpu5", "mlx5_1")
    assert status is Status.WARN
    assert why.startswith("answers late to every partner: 3.")
    artefacts.keep(run, link_baseline.FILE, artefact)
    named = {(c.check_id, c.node): c.status for c in links.checks(run, plan)}
    assert named["links.latency", "gpu5"] is Status.WARN
    assert {status for place, status in named.items() if place != ("links.latency", "gpu5")} == {
        Status.PASS
    }


def test_a_further_hop_is_no_late_answer(tmp_path: Path) -> None:
    leaf_of = {node: int(node == "gpu8") for node in EIGHT}
    assert bad_rows(links.judge(*measured(tmp_path, EIGHT, Planted(leaf_of=leaf_of)))) == {}


def test_gpu_memory_has_rows_of_its_own_and_a_slow_one_is_named_there_alone(
    tmp_path: Path,
) -> None:
    slow = {("gpu4", "mlx5_0"): 0.4}
    test = links.judge(*measured(tmp_path, EIGHT, Planted(of_gpu=slow), memories=("host", "gpu")))
    assert [row.memory for row in test.table.rows] == ["host"] * 16 + ["gpu"] * 16
    bad = [(row.node, row.interface, row.memory) for row in test.table.rows if row.why]
    assert bad == [("gpu4", "mlx5_0", "gpu")]
    assert all(row.sent_gbit_s and row.received_gbit_s for row in test.table.rows)


def test_the_table_has_what_is_not_well_with_both_directions(tmp_path: Path) -> None:
    test = links.judge(*measured(tmp_path, EIGHT, Planted(slow={("gpu3", "mlx5_1"): 0.5})))
    text = [str(line) for line in link_lines(test.table)]
    assert text[0].split() == [
        "NODE",
        "RAIL",
        "SENDS",
        "RECEIVES",
        "OF",
        "OTHERS",
        "ALL",
        "BUSY",
        "LATENCY",
        "RESULT",
    ]
    slow = next(line for line in text if "gpu3 rail 1 is slow" in line)
    assert "Gb/s" in slow
    assert "✖" in slow


def test_the_command_lines_of_perftest() -> None:
    serve = link_commands.serve(
        RAILS, LinkTool.PERFTEST, address="gpu2", extent=Extent(latency=True)
    )
    script = serve.argv[2]
    assert (
        'while read -r i p; do (timeout 90 ib_write_lat -d "$i" -p "$p" -F; timeout 90 ib_write_bw'
        ' -d "$i" -p "$p" -F --report_gbits -D 2) >/dev/null 2>&1 </dev/null &\n'
        'echo "$i gpu2 $p"; done\n'
    ) in script
    assert serve.stdin == b"mlx5_0 18710\nmlx5_1 18711\n"
    ask = link_commands.ask("mlx5_0 gpu2 18710\n", LinkTool.PERFTEST, store="", extent=Extent(True))
    assert 'ib_write_lat -d "$i" -p "$p" -F "$a"' in ask.argv[2]
    assert 'ib_write_bw -d "$i" -p "$p" -F --report_gbits -D 2 "$a"' in ask.argv[2]
    assert "cuda" not in ask.argv[2].lower()


def test_gpu_memory_takes_the_rails_gpu_and_says_where_the_build_has_no_cuda() -> None:
    extent = Extent(latency=True, gpus_a_rail=2)
    ask = link_commands.ask("mlx5_0 gpu2 18710\n", LinkTool.PERFTEST, store="", extent=extent)
    script = ask.argv[2]
    assert 'g=0; m=" --use_cuda=0$d"' in script
    assert 'g=$((g + 2)); m=" --use_cuda=$g$d"; done' in script
    assert "--report_gbits -D 2$m" in script
    assert "d=' --use_cuda_dmabuf'" in script
    (rate,) = link_baseline.parse("no CUDA in ib_write_bw\n", ("mlx5_0",), LinkTool.PERFTEST)
    assert rate.problem == "no CUDA in ib_write_bw"


@pytest.mark.parametrize("tool", [LinkTool.PERFTEST, LinkTool.IPERF3])
@pytest.mark.parametrize("gpus", [0, 1])
def test_every_script_is_sh(tool: LinkTool, gpus: int) -> None:
    extent = Extent(latency=True, gpus_a_rail=gpus)
    for command in (
        link_commands.serve(RAILS, tool, address="a", extent=extent),
        link_commands.ask("mlx5_0 a 1\n", tool, store="", extent=extent),
        link_commands.ask_ports(RAILS, store="", sudo=True),
    ):
        done = subprocess.run(["sh", "-n", "-c", command.argv[2]], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_what_a_port_says_of_itself_stands_beside_the_row() -> None:
    text = (
        f"@@ mlx5_0 mlxlink\n{MLXLINK}\n@@ mlx5_0 module\nnetlink error: Operation not permitted\n"
        "@@ eth1 module\nnetlink error: Operation not permitted\n@@ eth1 fec\nCannot get\n"
    )
    assert link_baseline.parse_ports(text) == {
        "mlx5_0": PortFacts(
            fec="Standard_RS-FEC - (544,514)",
            raw_ber=3e-6,
            effective_ber=1e-13,
            rx_dbm=(1.531, -9.824, 1.402, 1.611),
            tx_dbm=(1.7, 1.6, 1.8, 1.7),
            temperature_c=51.0,
            part="MMA4Z00-NS",
            serial="MT2306FT00001",
        ),
        "eth1": PortFacts(problem="netlink error: Operation not permitted"),
    }


def test_a_layer_breakdown_is_no_link_test(tmp_path: Path) -> None:
    run, plan, artefact = measured(tmp_path, EIGHT)
    of_run = dataclasses.replace(artefact, budget_s=None)
    artefacts.keep(run, link_baseline.FILE, of_run)
    assert links.load(run, plan) is None
    assert links.checks(run, plan) == ()


@pytest.mark.parametrize(
    ("started", "taken"), [("2026-11-25T12:50:00Z", True), ("2026-11-25T13:30:00Z", False)]
)
def test_a_run_takes_over_a_link_test_of_the_last_hour(
    tmp_path: Path, started: str, taken: bool
) -> None:
    test, plan, artefact = measured(tmp_path, EIGHT)
    plan = dataclasses.replace(plan, started="2026-11-25T12:00:00Z")
    artefacts.keep(test, "plan.json", plan)
    artefacts.keep(test, link_baseline.FILE, artefact)
    run = run_directory.create(tmp_path, started, "day-one")
    pair = artefact.outputs[0].pair
    with open_fleet(Cluster((), "a", "test"), LocalTransport(), deadline_s=5) as fleet:
        context = Context(
            run=run,
            plan=dataclasses.replace(plan, started=started),
            fleet=fleet,
            now=lambda: started,
            progress=lambda step, text: None,
        )
        known = taken_over(context, (pair[::-1],), LinkTool.PERFTEST)
    assert (known is not None) is taken
    if known is not None:
        artefacts.keep(run, link_baseline.FILE, known)
        two = link_baseline.load(run, ())
        assert [(link.nodes, link.rail, len(link.directions_gb_s)) for link in two] == [
            (pair, 0, 2),
            (pair, 1, 2),
        ]
        assert known.origin == test.run_id
        assert links.load(run, plan) is None
