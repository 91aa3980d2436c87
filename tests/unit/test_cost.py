"""What a fabric costs: the articles' worked examples, done right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plans import bare_playbook, run_plan

from busbw import cli
from busbw.fabrics import profiles
from busbw.model import BenchmarkCase, Cluster, Collective, Invocation, Node, Sizes
from busbw.parsers import articles, cost
from busbw.parsers.articles import Site, Workload
from busbw.parsers.cost import Job, Loss, Step
from busbw.parsers.nccl_tests import table as nccl_tests_table
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CaseArtefact

LLAMA = Job(405e9, 2.0, 8, 8)


def answered(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = cli.main(("cost", *argv))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_405_b_parameters_over_eight_nodes_take_3_54_s_and_not_28() -> None:
    assert round(cost.least_time_s(LLAMA, 400.0), 2) == 3.54
    assert round(cost.least_time_s(LLAMA, 50.0), 2) == 28.35  # one of the eight NICs
    assert round(cost.least_time_s(LLAMA, 100.0), 1) == 14.2  # 8 x 100 Gb/s


def test_a_ring_and_a_measured_busbw_count_by_ranks() -> None:
    assert round(cost.time_at_busbw_s(LLAMA, 400.0), 2) == 3.99
    assert round(cost.time_at_busbw_s(LLAMA, 350.0), 2) == 4.56


def test_one_node_has_no_network_time() -> None:
    with pytest.raises(ValueError, match="nothing crosses the network"):
        cost.least_time_s(Job(1e9, 2.0, 1, 8), 400.0)


def test_five_percent_of_a_month_of_1024_gpus_in_both_readings() -> None:
    assert cost.loss(1024, 720.0, 0.05, 3.0) == Loss(
        fraction=0.05,
        gpu_hours=737_280.0,
        lost_gpu_hours=36_864.0,
        redone_gpu_hours=pytest.approx(38_804.2, abs=0.1),
        lost_cost=110_592.0,
        redone_cost=pytest.approx(116_413, abs=1),
        redone_days=pytest.approx(1.58, abs=0.005),
    )


def test_without_a_price_no_money_is_shown() -> None:
    found = cost.loss(8, 10.0, 0.5)
    assert (found.lost_cost, found.redone_cost, found.lost_gpu_hours, found.redone_gpu_hours) == (
        None,
        None,
        40.0,
        80.0,
    )


@pytest.mark.parametrize(
    ("name", "capital", "price"),
    [("InfiniBand NDR", 490e3, 0.29), ("Spectrum-X", 317e3, 0.19), ("RoCE", 175e3, 0.10)],
)
def test_fabric_price_per_gpu_hour(name: str, capital: float, price: float) -> None:
    bill = next(bill for bill in articles.BILLS if bill.name == name)
    assert (bill.capital, round(cost.fabric_per_gpu_hour(bill.capital, 64, 36), 2)) == (
        capital,
        price,
    )


def test_half_used_hours_cost_twice_as_much() -> None:
    assert cost.fabric_per_gpu_hour(490e3, 64, 36, 0.5) == pytest.approx(
        2 * cost.fabric_per_gpu_hour(490e3, 64, 36)
    )


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.5])
def test_an_impossible_utilisation_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="a utilisation lies above 0 and at most at 1"):
        cost.fabric_per_gpu_hour(490e3, 64, 36, wrong)


def test_a_step_shows_what_waits_for_the_network() -> None:
    job = Job(405e9, 2.0, 8, 8, compute_s=10.0, hidden=0.5)
    assert cost.step(job, 4.0) == Step(
        all_reduce_s=4.0, exposed_s=2.0, step_s=12.0, share=2.0 / 12.0, ratio=0.4
    )


def test_free_communication_gains_no_more_than_its_share() -> None:
    """15 % of the step: even free communication gains 17.6 %, less than the 18-22 % that one
    article promises."""
    job = Job(1e9, 2.0, 8, 8, compute_s=85.0)
    gain = cost.step(job, 15.0).step_s / cost.step(job, 0.0).step_s - 1
    assert round(gain, 3) == 0.176


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.099, "below 10 %: stay on Ethernet"),
        (0.10, "between 10 % and 25 %: neither mark is reached"),
        (0.25, "between 10 % and 25 %: neither mark is reached"),
        (0.251, "above 25 %: look at InfiniBand"),
    ],
)
def test_the_marks_of_communication_to_compute(ratio: float, words: str) -> None:
    assert cost.mark(ratio) == words


@pytest.mark.parametrize(
    ("site", "found"),
    [
        (
            Site(512, 405e9),
            ("InfiniBand", "InfiniBand NDR", "InfiniBand", "InfiniBand", "not decided"),
        ),
        (
            Site(2048, 405e9),
            ("InfiniBand", "InfiniBand NDR", "InfiniBand", "InfiniBand", "InfiniBand"),
        ),
        (
            Site(64, 20e9, shared=True),
            ("Spectrum-X", "InfiniBand NDR or Spectrum-X", "not decided", "InfiniBand", "RoCE"),
        ),
        (
            Site(16, 7e9),
            (
                "what the team runs better",
                "Spectrum-X or RoCE",
                "Ethernet",
                "not decided",
                "not decided",
            ),
        ),
        (
            Site(16, 7e9, Workload.FINE_TUNING),
            ("what the team runs better", "Spectrum-X or RoCE", "Ethernet", "not decided", "RoCE"),
        ),
        (
            Site(32, 70e9, Workload.INFERENCE),
            ("either", "RoCE or Spectrum-X", "Ethernet", "Ethernet", "RoCE"),
        ),
        (
            Site(16, 7e9, has_infiniband=True),
            ("InfiniBand", "Spectrum-X or RoCE", "Ethernet", "not decided", "not decided"),
        ),
        (
            Site(2048, 405e9, qos_team=True),
            ("InfiniBand", "InfiniBand NDR", "InfiniBand", "InfiniBand", "RoCE"),
        ),
        (
            Site(8, 70e9),
            ("what the team runs better", "any", "Ethernet", "not decided", "not decided"),
        ),
        (
            Site(32, 70e9),
            ("what the team runs better", "not decided", "Ethernet", "not decided", "not decided"),
        ),
    ],
)
def test_each_published_procedure_answers_for_itself(site: Site, found: tuple[str, ...]) -> None:
    answers = articles.choices(site)
    assert tuple(choice.choice for choice in answers) == found
    assert len({choice.source for choice in answers}) == 5


def test_what_was_not_given_is_named_where_it_decides() -> None:
    because = [choice.because for choice in articles.choices(Site(2048, 405e9))]
    assert (because[0], because[4]) == (
        (
            "question 2: a dedicated synchronous cluster of 64 GPUs or more (taken as dedicated:"
            " not said)"
        ),
        "1000 GPUs or more, synchronous, no team for QoS (taken as no team: not said)",
    )


def test_the_command_names_the_mistake_of_one_nic(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answered(capsys, "--parameters", "405B", "--nodes", "8", "--nics", "8x400")
    assert (status, err) == (0, "")
    assert out.splitlines()[:5] == [
        "all-reduce of 405 B parameters x 2 bytes = 810 GB over 8 nodes x 8 GPUs",
        "       3.54 s  least: each node sends 1,417.5 GB over all of its NICs, 400 GB/s",
        "       3.99 s  as a ring at line rate, busbw 400 GB/s",
        "      28.35 s  over one NIC: not this node's time, which has 8",
        (
            "  pure data parallelism; tensor and pipeline parallelism shard the gradients: give the"
            " parameters of one shard"
        ),
    ]
    assert "step: unknown without --compute-s" in out
    assert (
        "for the GPU-hours lost, give --busbw, --compute-s; or the share itself: --lost 0.05" in out
    )


def test_the_command_tells_both_readings_of_a_loss(capsys: pytest.CaptureFixture[str]) -> None:
    argv = (
        "--parameters",
        "7B",
        "--nodes",
        "128",
        "--nics",
        "8x400",
        "--lost",
        "0.05",
        "--hours",
        "720",
        "--price",
        "3",
    )
    out = answered(capsys, *argv)[1]
    assert (
        "lost: 5.0% (given by --lost) of 737,280 GPU-hours in 720 hours, in two readings\n"
        "  time lost         36,864 GPU-hours, cost 110,592\n"
        "  work redone       38,804 GPU-hours, cost 116,413\n"
        "  redoing the work takes 1.58 days more\n" in out
    )


def test_the_command_compares_a_measured_fabric_with_the_expected_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = (
        "--parameters",
        "405B",
        "--nodes",
        "8",
        "--nics",
        "8x400",
        "--busbw",
        "280",
        "--compute-s",
        "20",
        "--premium",
        "0.15",
    )
    out = answered(capsys, *argv)[1]
    assert (
        "step as measured: 25.70 s, of which 5.70 s (22.2%) wait for the network\nstep as expected:"
        " 23.99 s, of which 3.99 s (16.6%) wait for the network\n  communication to compute 28.5%:"
        " above 25 %: look at InfiniBand (marks of Spheron's decision guide, 2026)\n  a premium of"
        " 15.0% does not pay: the expected fabric gains 7.1% of throughput\n" in out
    )
    assert "lost: 6.6% (measured against expected) of 46,720 GPU-hours" in out


def test_the_price_of_a_fabric_is_shown_with_its_utilisation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = (
        "--parameters",
        "70B",
        "--nodes",
        "8",
        "--nics",
        "8x400",
        "--capital",
        "600000",
        "--utilisation",
        "0.5",
    )
    out = answered(capsys, *argv)[1]
    assert (
        "price of a fabric per GPU-hour with 50% of the hours used (730 hours a month; no power, no"
        " cost of capital)\n" in out
    )
    assert (
        "    0.71  this fabric: 600,000; given by --capital (0.36 if every hour were used)\n" in out
    )
    assert "    0.58  InfiniBand NDR: 490,000" in out


def test_a_faster_fabric_than_expected_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    argv = (
        "--parameters",
        "70B",
        "--nodes",
        "2",
        "--nics",
        "8x400",
        "--busbw",
        "480",
        "--compute-s",
        "1",
    )
    assert (
        "nothing is lost: the measured fabric is faster than the expected one"
        in answered(capsys, *argv)[1]
    )


def test_json_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(
        answered(capsys, "--parameters", "405B", "--nodes", "8", "--nics", "8x400", "--json")[1]
    )
    assert {
        name: None if value is None else round(value, 2)
        for name, value in document["times"].items()
    } == {
        "one_nic_s": 28.35,
        "least_s": 3.54,
        "ring_s": 3.99,
        "measured_s": None,
        "expected_s": 3.99,
    }
    assert (document["loss"], document["step"]) == (None, None)


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (
            (),
            (
                "busbw: error: the job is not described: --parameters and --nodes missing",
                "busbw: next: busbw cost --parameters 405B --nodes 8 --nics 8x400",
            ),
        ),
        (
            ("--parameters", "405B", "--nodes", "8"),
            (
                "busbw: error: the speed of the fabric is missing",
                "busbw: seen: neither --nics nor --busbw",
                "busbw: next: --nics 8x400, or --busbw 370 as measured",
            ),
        ),
        (
            ("--parameters", "many", "--nodes", "8", "--nics", "8x400"),
            (
                "busbw: error: --parameters wants a number above 0",
                "busbw: seen: many",
                "busbw: next: for example --parameters 405B",
            ),
        ),
        (
            ("--parameters", "1B", "--nodes", "8", "--nics", "8x400", "--lost", "5"),
            (
                "busbw: error: --lost is a share: 0.05 means 5 %",
                "busbw: seen: 5",
                "busbw: next: give a number between 0 and 1",
            ),
        ),
        (
            ("--parameters", "1B", "--nodes", "8", "--nics", "8x400", "--compute-s", "nan"),
            (
                "busbw: error: --compute-s must be above 0",
                "busbw: seen: nan",
                "busbw: next: leave it out where it is not known",
            ),
        ),
        (
            ("--parameters", "1B", "--nodes", "1", "--gpus-per-node", "1", "--nics", "8x400"),
            (
                "busbw: error: an all-reduce needs two GPUs or more",
                "busbw: seen: 1 nodes x 1 GPUs",
                "busbw: next: --nodes 8 --gpus-per-node 8",
            ),
        ),
    ],
)
def test_bad_input_gives_an_error_of_three_lines(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    assert answered(capsys, *argv) == (2, "", "".join(f"{line}\n" for line in lines))


RECORDED = Path(__file__).parents[1] / "fixtures/nccl_tests/all_reduce.txt"


def a_run(
    out: Path, *, emulated: bool = False, collective: Collective = Collective.ALL_REDUCE
) -> Path:
    """A run directory with one launch, whose table is a recorded one."""
    nodes = ("n1", "n2")
    case = BenchmarkCase("all-reduce", collective, Sizes(1024, 1 << 20))
    book = bare_playbook(case)
    run = run_directory.create(out, "2026-11-21T10:00:00Z", "p")
    cluster = Cluster(tuple(Node(name) for name in nodes), "n1", "-w", emulated=emulated)
    plan = run_plan(
        cluster,
        book,
        profiles.load("infiniband"),
        run_id=run.run_id,
        started="2026-11-21T10:00:00Z",
    )
    artefacts.keep(run, "plan.json", plan)
    stdout = "cases/all-reduce/stdout.txt"
    run.write_raw(stdout, RECORDED.read_bytes())
    invocation = Invocation(case.id, ("mpirun",), (), nodes, 60.0, 4)
    launch = CaseArtefact(case, invocation, nodes, 2, "ended", 0, 1.0, f"raw/{stdout}", None, None)
    artefacts.keep(run, "cases/all-reduce/outcome.json", launch)
    return run.path


def test_a_run_gives_its_nodes_and_the_bandwidth_of_its_largest_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = a_run(tmp_path)
    status, out, err = answered(
        capsys, str(run), "--parameters", "7B", "--gpus-per-node", "2", "--nics", "1x400", "--json"
    )
    (table,) = nccl_tests_table.parse(RECORDED.read_text())
    largest = max(table.rows, key=lambda row: row.size_bytes)
    assert largest.out_of_place is not None
    document = json.loads(out)
    assert (status, err, document["job"]["nodes"]) == (0, "", 2)
    assert document["times"]["measured_s"] == pytest.approx(
        cost.time_at_busbw_s(Job(7e9, 2.0, 2, 2), largest.out_of_place.busbw_gb_s)
    )
    given = answered(
        capsys,
        str(run),
        "--parameters",
        "7B",
        "--gpus-per-node",
        "2",
        "--nics",
        "1x400",
        "--busbw",
        "50",
        "--json",
    )[1]
    assert json.loads(given)["times"]["measured_s"] == pytest.approx(
        cost.time_at_busbw_s(Job(7e9, 2.0, 2, 2), 50.0)
    ), "what is given wins"


def test_an_emulated_run_has_no_price(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, err = answered(capsys, str(a_run(tmp_path, emulated=True)), "--parameters", "7B")
    assert (status, out) == (2, "")
    assert "is of emulated nodes: no number of it has a price" in err


def test_a_run_without_all_reduce_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, err = answered(
        capsys, str(a_run(tmp_path, collective=Collective.ALLTOALL)), "--parameters", "7B"
    )
    assert status == 2
    assert "measured no all_reduce over all its nodes" in err
