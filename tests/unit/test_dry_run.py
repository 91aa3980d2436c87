"""A dry run: what it prints of probes, launches, the survey and the link baseline."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from busbw import cli


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    words = ("run", "-w", "n[1-4]", "--nccl-tests", "/opt/nccl-tests", "--dry-run", *options)
    assert cli.main(list(words)) == 0
    return capsys.readouterr().out


def test_a_probe_is_its_name_and_one_line_of_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    brief = printed(capsys, "-p", "infiniband")
    assert re.search(r"\n# check: one script on each node, \d\d probes: \w+, .*\bcuda, ", brief)
    assert "for sw.cuda" not in brief
    assert "command -v mpirun" not in brief
    text = printed(capsys, "-p", "infiniband", "-v")

    probes = [line for line in text.splitlines() if line.startswith("#   ")]
    assert "#   cuda (at most 10 s): for sw.cuda" in probes
    assert len(probes) > 40
    purposes = [line for line in probes if re.match(r"#   \w+ \(at most", line)]
    assert len(purposes) > 40
    assert all(re.search(r" s\): for \S", line) for line in purposes)
    assert "#   fabric_marks (at most 10 s): for the choice of the fabric profile" in probes
    assert "#   mlnx_qos (at most 20 s): for eth.qos" in probes


def test_the_first_lines_say_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    first = printed(capsys, "-p", "infiniband").splitlines()[:12]
    assert "#   proof: all_reduce 8 MiB" in first
    assert "#   all-reduce: all_reduce 8 B to 8 GiB" in first


@pytest.mark.parametrize(("gpus", "assumed"), [("", True), ("defaults: {gpus: 2}\n", False)])
def test_gpus_are_assumed_only_where_the_inventory_is_silent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, gpus: str, assumed: bool
) -> None:
    inventory = tmp_path / "two.yaml"
    inventory.write_text(f"{gpus}nodes: [n1, n2]\nfabric: infiniband\n", "utf-8")
    words = ["run", "-i", str(inventory), "--nccl-tests", "/opt/nccl-tests", "--dry-run"]

    assert cli.main(words) == 0

    assert (
        "8 GPUs per node where the inventory does not say" in capsys.readouterr().out
    ) is assumed


def test_verbose_adds_the_scripts_and_stays_valid_shell(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "-p", "infiniband", "--survey", "-v")

    assert "#     mpirun --version" in text
    assert "ib_write_bw -d" in text
    assert subprocess.run(("bash", "-n"), input=text, text=True, check=False).returncode == 0


def test_the_surveys_first_rounds_and_the_link_baseline_follow_the_cases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "-p", "infiniband", "--survey")

    order = ("# latency: ", "# survey, in any case", "# survey-alone: ", "# survey-pairs-1: ")
    places = [text.index(part) for part in (*order, "# survey-pairs-2: ", "# link baseline, ")]
    assert places == sorted(places)
    assert "NCCL_TESTS_SPLIT=DIV 8" in text[places[2] :]
    assert "ib_write_bw over RAIL" in text[places[-1] :]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-p", "tcp"), "# survey, in any case, within 600 s"),
        (("-p", "tcp", "--survey"), "iperf3 over RAIL"),
        (("-p", "efa", "--survey"), "# link baseline: no tool measures a single link"),
    ],
)
def test_the_fabric_and_the_playbook_decide_what_would_follow(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], expected: str
) -> None:
    assert expected in printed(capsys, *options)


def test_sharp_leaves_the_network_to_the_plugin_on_every_rank(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "-p", "infiniband-sharp", "--unset", "NCCL_ALGO")

    assert "-x NCCL_NET=" not in text
    assert "-x NCCL_COLLNET_ENABLE=1" in text
    assert "# NCCL_NET is unset  from profile infiniband-sharp: IB excludes every" in text
    assert "# NCCL_ALGO is unset  from --unset: given on the command line" in text
    words = [line.strip(" \\") for line in text.splitlines()]
    for name in ("NCCL_ALGO", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IBEXT_DISABLE"):
        assert f"-u {name}" in words


def test_the_providers_script_is_sourced_by_every_rank_where_it_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "-p", "gcp-gib")

    path = "/usr/local/gib/scripts/set_nccl_env.sh"
    assert f"# each rank sources {path}, where it is there  from profile gcp-gib" in text
    assert f"  {path} \\\n  optional \\\n" in text


def test_an_inventory_sets_unsets_and_names_a_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        'nodes: ["n[1-2]"]\nfabric: rocev2\nsetup: /opt/site/env.sh\n'
        "env: {NCCL_IB_TC: 106, NCCL_NET: null}\n"
    )
    assert cli.main(["run", "quick", "-i", str(site), "--nccl-tests", "/opt/nt", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "# NCCL_IB_TC=106  from inventory: set by the inventory for its nodes" in text
    assert "# NCCL_NET is unset  from inventory: unset by the inventory for its nodes" in text
    assert "# each rank sources /opt/site/env.sh, required on every node  from inventory" in text
    assert "  NCCL_IB_TC=106 \\\n" in text, "wins over the script"


def test_the_machine_of_the_inventory_decides_the_providers_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "oci.yaml"
    site.write_text(
        'nodes: ["n[1-2]"]\nfabric: oci\ndefaults: {gpus: 8, labels: {machine: BM.GPU.B300.8}}\n'
    )
    assert cli.main(["run", "quick", "-i", str(site), "--nccl-tests", "/opt/nt", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "-x NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_7," in text
    assert "-x NCCL_IB_TC=41" in text


def test_a_sweep_shows_the_launches_of_one_round(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "-p", "infiniband", "--sweep", "NCCL_IB_QPS_PER_CONNECTION=2,4")

    assert "# interleaved: 5 to 15 rounds of these launches" in text
    assert "NCCL_IB_QPS_PER_CONNECTION=2 " in text
    assert "NCCL_IB_QPS_PER_CONNECTION=4 " in text


def test_trays_that_nvlink_joins_are_measured_over_the_network_and_over_nvlink(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rack = tmp_path / "rack.yaml"
    rack.write_text(
        'nodes: ["tray[1-4]"]\n'
        "defaults: {gpus: 4, labels: {nvlink_domain: rack1}}\n"
        "fabric: infiniband\n"
    )
    assert cli.main(["run", "quick", "-i", str(rack), "--nccl-tests", "/opt/nt", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "; measures: " in line] == [
        "# pairs-1: next pairs; measures: network",
        "# pairs-2: next pairs; measures: network",
        "# nvlink-1: pairs inside their NVLink domain; measures: NVLink between nodes",
        "# nvlink-2: pairs inside their NVLink domain; measures: NVLink between nodes",
    ]
    given = [line.strip(" \\") for line in lines if line.startswith("  -x NCCL_MNNVL")]
    assert given == ["-x NCCL_MNNVL_ENABLE=0"] * 2 + ["-x NCCL_MNNVL_ENABLE=1"] * 2
    splits = [line.strip(" \\") for line in lines if line.startswith("  -x 'NCCL_TESTS_SPLIT")]
    assert splits == ["-x 'NCCL_TESTS_SPLIT=DIV 2'"] * 2 + ["-x 'NCCL_TESTS_SPLIT=DIV 8'"] * 2
