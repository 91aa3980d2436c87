"""`busbw read --contract`: the numbers of a contract against saved outputs. The tables are composed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_saved_tables import table

from busbw.cli import main

CONTRACT = """title: "order 7"
nodes: 8
criteria:
  - {id: "1", case: all-reduce, size: 4G, busbw_gb_s: 350, trials: 3}
"""


def judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], contract: str, *outputs: str
) -> tuple[int, str]:
    path = tmp_path / "contract.yaml"
    path.write_text(contract)
    files = []
    for place, text in enumerate(outputs):
        files.append(tmp_path / f"{place}.out")
        files[-1].write_text(text)
    status = main(["read", "--contract", str(path), *map(str, files)])
    return status, capsys.readouterr().out.replace(str(tmp_path), "")


def launches(*numbers: float, nodes: int = 8) -> str:
    return "".join(table(lambda _, value=number: value, nodes=nodes) for number in numbers)  # type: ignore[misc]


def test_numbers_that_are_met_are_not_called_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = judged(tmp_path, capsys, CONTRACT, launches(361, 360), launches(362))
    assert status == 0
    assert "CRITERION" in out
    assert "✓ pass  ≥ 350.0 GB/s  361.0 ± 2.5 GB/s  3  1 all_reduce 4 GiB: +3.1%" in out
    assert "not shown by saved outputs: specification, links, settings" in out
    assert "  next  busbw run provider-acceptance --contract /contract.yaml\n" in out
    assert out.splitlines()[-1] == "busbw: NUMBERS MET 1 of 1 criteria met /contract.yaml"


def test_a_missed_number_fails_and_what_cannot_be_told_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = judged(tmp_path, capsys, CONTRACT, launches(330, 331, 332))
    assert status == 1
    assert out.splitlines()[-1].startswith("busbw: NUMBERS MISSED 0 of 1 criteria met")
    status, out = judged(tmp_path, capsys, CONTRACT, launches(361))
    assert status == 3
    assert "1 of 3 launches that the contract wants" in out
    status, out = judged(tmp_path, capsys, CONTRACT, launches(361, 361, 361, nodes=4))
    assert status == 3
    assert "measured on 4, and the contract is about 8 nodes" in out


def test_a_copy_of_an_output_is_no_further_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = judged(tmp_path, capsys, CONTRACT, *[launches(361)] * 3)
    assert status == 3
    assert "1 of 3 launches that the contract wants" in out
    assert "tables that repeat another one, counted once: 2" in out


@pytest.mark.parametrize("spoiled", ["wrong", "cut off", "empty"])
def test_numbers_are_not_called_met_beside_an_output_that_is_not_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoiled: str
) -> None:
    fourth = {
        "wrong": launches(363).replace(": 0 OK", ": 3 FAILED"),
        "cut off": launches(363)[:-200],
        "empty": "",
    }[spoiled]
    status, out = judged(tmp_path, capsys, CONTRACT, launches(361, 360, 362), fourth)
    assert status in (1, 3)
    assert out.splitlines()[-1].startswith("busbw: INCONCLUSIVE 1 of 1 criteria met")


def unchecked_in(tables: str) -> str:
    """The same launches with `-c 0`."""
    return tables.replace("       0", "     N/A").replace("validation: 1", "validation: 0")


def test_numbers_are_not_called_met_where_no_table_shows_right_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Launches for speed may leave the check out (`-c 0`), if one of the same collective has it."""
    checked = launches(361, 360, 362)
    unchecked = unchecked_in(checked)
    status, out = judged(tmp_path, capsys, CONTRACT, unchecked)
    assert status == 3
    assert (
        "  no table of all_reduce shows right data: every #wrong is N/A (-c 0); it counts against a pass\n"
    ) in out
    assert out.splitlines()[-1].startswith("busbw: INCONCLUSIVE 1 of 1 criteria met")
    status, out = judged(tmp_path, capsys, CONTRACT, unchecked, launches(359))
    assert (status, "shows right data" in out) == (0, False)
    low = unchecked_in(launches(330, 331, 332))
    assert judged(tmp_path, capsys, CONTRACT, low)[0] == 1


@pytest.mark.parametrize("iters", ["0", "1", "2"])
def test_tables_of_hardly_any_iteration_are_no_launches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], iters: str
) -> None:
    few = launches(361, 360, 362).replace(" iters: 20 ", f" iters: {iters} ")
    status, out = judged(tmp_path, capsys, CONTRACT, few)
    assert status == (1 if iters == "0" else 3), (
        "a time of no iteration is bad without a contract too"
    )
    assert out.splitlines()[-1].startswith("busbw: INCONCLUSIVE 0 of 1 criteria met")
    if iters != "0":
        assert "3 tables of fewer than 3 timed iterations: no measurement" in out


def test_numbers_over_sockets_are_not_met_unless_tcp_was_bought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "node00:4101:4130 [0] NCCL INFO Using network Socket\n"
    text = f"{log}{launches(361, 360, 362)}"
    status, out = judged(tmp_path, capsys, CONTRACT, text)
    assert status == 3
    assert (
        "  NCCL's log in 1 output says network Socket: the bytes went over TCP, not RDMA (" in out
    )
    assert out.splitlines()[-1].startswith("busbw: INCONCLUSIVE 1 of 1 criteria met")
    path, saved = tmp_path / "contract.yaml", tmp_path / "0.out"
    assert main(["read", "--contract", str(path), "--fabric", "tcp", str(saved)]) == 0
    assert "network Socket" not in capsys.readouterr().out.split("CRITERION")[1]
    assert main(["read", "--fabric", "tcp", str(saved)]) == 2
    over_ib = judged(tmp_path, capsys, CONTRACT, text.replace("Socket", "IB"))
    assert over_ib[0] == 0


def test_a_criterion_about_a_setting_is_not_judged_by_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = CONTRACT.replace("case: all-reduce,", "case: all-reduce-ring,")
    status, out = judged(tmp_path, capsys, ring, launches(361, 360, 362))
    assert status == 3
    assert "it is about NCCL_ALGO=Ring, which a saved table does not show" in out


def test_no_document_for_machines_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "--json", "--contract", "c.yaml", __file__]) == 2
    assert "leave --json and --csv out" in capsys.readouterr().err


def test_two_launches_show_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = judged(
        tmp_path, capsys, CONTRACT.replace("trials: 3", "trials: 2"), launches(361, 20)
    )
    assert (status, "±" in out) == (1, False)


def composed(ranks: int) -> str:
    """A table of so many ranks, eight on a node and the rest on the last one."""
    text = table(lambda _: 361, nodes=ranks // 4, per_node=4)  # type: ignore[misc]

    def placed(found: re.Match[str]) -> str:
        rank = int(found[1])
        return f"Rank {rank:2d} {found[2]} on node{rank // 8:02d} device  {rank % 8} [0000:{rank % 8:02x}:00]"

    return re.sub(r"Rank +(\d+) (Group .*) on node\d+ device +\d+ \[0000:\w+:00\]", placed, text)


def test_nodes_with_fewer_ranks_than_the_others_count_against_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = CONTRACT.replace("trials: 3", "trials: 1")
    text = composed(60)
    status, out = judged(tmp_path, capsys, contract, text)
    assert status == 3, out
    assert "all_reduce: node07 has 4 ranks, node[00-06] 8 each; it counts against a pass" in out
    assert out.splitlines()[-1].startswith("busbw: INCONCLUSIVE 1 of 1 criteria met")
    status, out = judged(tmp_path, capsys, contract + "specification: {gpus: 8}\n", text)
    assert status == 3
    assert "8 each; the contract says 8 GPUs each; it counts against a pass" in out


def test_half_of_the_gpus_that_the_contract_specifies_count_against_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = CONTRACT.replace("trials: 3", "trials: 1") + "specification: {gpus: 8}\n"
    four = table(lambda _: 361, nodes=8, per_node=4)  # type: ignore[misc]
    status, out = judged(tmp_path, capsys, contract, four)
    assert status == 3
    assert "all_reduce: 32 ranks on 8 nodes, and the contract says 8 GPUs each" in out
    assert judged(tmp_path, capsys, contract, launches(361))[0] == 0


def test_a_missed_criterion_stands_before_those_that_are_met_and_a_bad_output_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = CONTRACT + '  - {id: "2", case: all-reduce, size: 4G, busbw_gb_s: 400, trials: 3}\n'
    cut = launches(361)[:-200]
    status, out = judged(tmp_path, capsys, contract, launches(361, 360, 362), cut)
    assert status == 1
    assert out.splitlines()[0] == (
        "NUMBERS MISSED  2 all_reduce at 4 GiB: at least 400.0 GB/s: -9.8% against the limit"
    )
    rows = re.findall(r"(\d) all_reduce 4 GiB: ", out)
    assert rows == ["2", "1"]
    assert "not every output is complete and right: /1.out, see above" in out


PAIRS = CONTRACT.replace("nodes: 8", "nodes: 2")
H200 = "NVIDIA H200"


def launch(number: float, pair: int = 0, nccl: str = "22803", **named: object) -> str:
    text = table(lambda _: number, nodes=2, **named)  # type: ignore[arg-type]
    text = text.replace("node0", f"gpu-{pair}").replace("Pid  4", f"Pid  {4 + pair}")
    return f"# nccl-tests version 2.17.6 nccl-headers={nccl} nccl-library={nccl}\n{text}"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (launch(362, 2, gpu=H200), "several GPU models, NVIDIA H100 80GB HBM3 (2 tables), NVIDIA H200"),
        (launch(362, 2, nccl="22907"), "several NCCL versions, 2.28.3 (2 tables), 2.29.7 (1 table)"),
        (launch(362, 2, per_node=4), "several numbers of ranks, 16 (2 tables), 8 (1 table)"),
    ],
    ids=["GPU model", "NCCL version", "ranks"],
)  # fmt: skip
def test_launches_of_other_machines_or_software_meet_nothing_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str, reason: str
) -> None:
    status, out = judged(tmp_path, capsys, PAIRS, launch(361), launch(360, 1), other)
    assert status == 3
    assert out.startswith(
        f"INCONCLUSIVE  1 all_reduce at 4 GiB: at least 350.0 GB/s: launches of {reason}"
    )
    assert out.splitlines()[-1].startswith("busbw: INCONCLUSIVE 0 of 1 criteria met")


def test_what_the_specification_of_the_contract_names_may_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = launch(361), launch(360, 1), launch(362, 2, nccl="22907")
    allows = f'{PAIRS}specification: {{nccl: ">= 2.28"}}\n'
    assert judged(tmp_path, capsys, allows, *texts)[0] == 0
    status, out = judged(tmp_path, capsys, allows.replace("2.28", "2.29"), *texts)
    assert (status, "1 of 3 launches that the contract wants" in out) == (3, True)
    of_h200 = f"{PAIRS}specification: {{gpu_model: H200}}\n"
    status, out = judged(tmp_path, capsys, of_h200, *texts)
    assert status == 3
    assert "measured with NVIDIA H100 80GB HBM3, and the contract says gpu_model H200" in out


def test_pairs_of_a_cluster_are_launches_and_the_page_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = PAIRS + '  - {id: "2", case: all-reduce, size: 2G, busbw_gb_s: 350, trials: 1}\n'
    texts = launch(361), launch(360, 1), launch(362, 2)
    status, out = judged(tmp_path, capsys, two, *texts)
    assert status == 0
    assert (
        "  criteria 1, 2: launches on 3 groups of nodes, gpu-[00-01] (1), gpu-[10-11] (1), gpu-[20-21] (1);"
        " no launch joins them all\n"
    ) in out
    short = launch(363, 3, sizes=(1 << 30, 2 << 30))
    out = judged(tmp_path, capsys, two, *texts, short)[1]
    assert "  criterion 1: launches on 3 groups of nodes, " in out
    assert "no launch joins them all; never on gpu-[30-31]\n" in out


def test_criteria_of_two_softwares_are_not_met_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = (
        PAIRS.replace("trials: 3", "trials: 1")
        + '  - {id: "2", case: all-reduce, size: 8G, busbw_gb_s: 350, trials: 1}\n'
    )
    first, second = launch(361), launch(360, sizes=(8 << 30,), nccl="22907")
    status, out = judged(tmp_path, capsys, two, first, second)
    assert status == 3
    assert out.startswith("INCONCLUSIVE  all criteria together: launches of several NCCL versions")
    assert judged(tmp_path, capsys, two, first, second.replace("22907", "22803"))[0] == 0


def test_a_launch_without_warm_up_misses_nothing_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cold(*numbers: float) -> list[str]:
        return [launch(n, p).replace("iters: 1 ", "iters: 0 ", 1) for p, n in enumerate(numbers)]

    status, out = judged(tmp_path, capsys, PAIRS, *cold(361, 360, 362))
    assert status == 0
    assert "  criterion 1: no warm-up (-w 0) in 3 tables, which makes them slower\n" in out
    status, out = judged(tmp_path, capsys, PAIRS, *cold(331, 330, 332))
    assert status == 3
    assert "but without warm-up (-w 0): NCCL connects while it is timed" in out
    status, out = judged(tmp_path, capsys, PAIRS, *cold(361), launch(360, 1), launch(362, 2))
    assert (status, "timed in several ways: warm-up 0, 1; no warm-up (-w 0) in 1 table" in out) == (
        0,
        True,
    )
