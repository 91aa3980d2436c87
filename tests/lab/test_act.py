"""A nightly run whose injected fault opens an alert, drains one lab node under a real Slurm with its
reason, and puts it back once the fault is gone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promtool
import pytest

from busbw.lab import faults, persona, processes, requirements, slurm
from busbw.lab.state import LabState, Mode, load_directory

pytestmark = [pytest.mark.lab, pytest.mark.slurm]
Run = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "docs/examples/slurm"
BIN = Path(sys.executable).parent
NIGHTLY = Path(__file__).with_name("nightly.yaml")


@pytest.fixture(scope="module")
def cluster(
    needs_lab: None, make_labs: Run, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:
    """3 nodes that show 8 GPUs each, under a Slurm."""
    lacking = requirements.missing(Mode.ROOT, persona=True, slurm=True)
    if lacking:
        pytest.skip(f"missing packages: {requirements.apt_command(lacking)}")
    with make_labs(tmp_path_factory.mktemp("act")) as labs:
        yield labs(built=True, nodes=3, slurm=True, rate_bit_s=150e6, persona=persona.load("h100"))


def test_a_nightly_run_opens_an_alert_drains_the_faulty_node_and_puts_it_back(
    cluster: LabState, in_head: Run, tmp_path: Path
) -> None:
    out, gauges = str(tmp_path / "runs"), tmp_path / "busbw.prom"

    def busbw(*words: str) -> Any:
        return in_head(
            cluster, sys.executable, "-m", "busbw", *words, "-o", out, "-q", timeout_s=200
        )

    def state(node: str) -> tuple[str, ...]:
        """State and reason."""
        (line,) = in_head(
            cluster, "sinfo", "--noheader", f"--nodes={node}", "--format=%T|%E"
        ).out.splitlines()
        # `idle*`: slurmctld has not heard of it since.
        return tuple(line.replace("*", "").split("|"))

    nightly = ("run", str(NIGHTLY), "-i", "lab", "--ranks-per-node", "1", "--cluster", "lab")
    act = ("--prom", str(gauges), "--on-fail", "drain", "--act")
    faults.hardware(load_directory(cluster.path), "ecc-errors", "node2")
    night = busbw(*nightly, *act)
    assert night.exit_status == 1, night
    assert "      undo  scontrol update nodename=node2 state=resume" in night.err
    (record,) = Path(out).glob("2*/raw/actions/node2.json")
    reason = json.loads(record.read_text())["reason"]
    assert reason.startswith("busbw: gpu.ecc uncorrected errors: GPU 7")
    assert state("node2") == ("drained", reason)
    assert [state(node)[0] for node in ("node1", "node3")] == ["idle", "idle"]
    failed = gauges.read_text()

    still = busbw("undrain", "node2")
    assert (still.exit_status, "still out of service: FAIL gpu.ecc" in still.out) == (1, True), (
        still
    )
    assert state("node2") == ("drained", reason)

    faults.clear(load_directory(cluster.path))
    update = ("scontrol", "update", "nodename=node2", "state=drain")
    in_head(cluster, *update, "reason=new DIMM on Friday")
    kept = busbw("undrain", "node2")
    assert (kept.exit_status, "new DIMM on Friday" in kept.out) == (3, True), kept
    assert state("node2")[0] == "drained"

    in_head(cluster, *update, f"reason={reason}")
    released = busbw("undrain", "node2")
    assert released.exit_status == 0, released
    assert state("node2") == ("idle", "none")

    well = busbw(*nightly, *act)
    assert well.exit_status == 0, well
    assert "no finding is sure enough" in well.err
    opened = {"BusbwFailed": True, "BusbwChecksFailed": True, "BusbwNotMeasured": False}
    assert promtool.tested(tmp_path, failed, opened) == ""
    closed = dict.fromkeys(opened, False)
    assert promtool.tested(tmp_path, gauges.read_text(), closed) == ""


def test_a_node_that_cannot_be_reached_is_never_drained(
    cluster: LabState, in_head: Run, tmp_path: Path
) -> None:
    faults.hang_ssh(load_directory(cluster.path), "node3")
    try:
        ran = in_head(
            cluster,
            *(sys.executable, "-m", "busbw", "check", "-i", "lab", "-p", "infiniband", "-q"),
            *("-o", str(tmp_path), "--connect-timeout", "2", "--on-fail", "drain", "--act"),
        )
        assert ran.exit_status == 3, ran
        assert "no finding is sure enough" in ran.err
        assert (
            in_head(cluster, "sinfo", "--noheader", "--nodes=node3", "--format=%T").out.strip("*\n")
            == "idle"
        )
    finally:
        faults.clear(load_directory(cluster.path))


@pytest.mark.long
def test_slurm_runs_the_examples_as_prolog_health_check_and_job_array(
    cluster: LabState, in_head: Run, on_node: Run, tmp_path: Path
) -> None:
    # Every node has a /tmp of its own, and sees the lab's directory here.
    place, seen = cluster.path / "examples", "/run/lab/examples"
    place.mkdir()
    # slurmd has not what a login on a lab node has: the paths of its invented tools.
    for node in cluster.nodes:
        login = on_node(cluster, node.name, "sh -c 'export -p'").out
        (cluster.path / "nodes" / node.name / "login.sh").write_text(login)
    for script in EXAMPLES.iterdir():
        text = script.read_text().replace(
            "PATH=/opt/busbw/bin:", f". /run/node/login.sh; PATH={BIN}:"
        )
        (place / script.name).write_text(text)
        (place / script.name).chmod(0o755)
    configurations = (cluster.path / "slurm/slurm.conf", slurm.conf(cluster))
    before = [each.read_text() for each in configurations]

    def configure(*lines: str) -> None:
        for each, text in zip(configurations, before, strict=True):
            each.write_text("\n".join((text, *lines, "")))
        done = in_head(cluster, "scontrol", "reconfigure")
        assert done.exit_status == 0, done

    def state(node: str) -> str:
        words = ("sinfo", "--noheader", f"--nodes={node}", "--format=%T|%E")
        return str(in_head(cluster, *words).out.replace("*", "").strip())

    def resume(node: str) -> None:
        faults.clear(load_directory(cluster.path))
        in_head(cluster, "scontrol", "update", f"nodename={node}", "state=resume")
        processes.wait_until(lambda: state(node).startswith("idle"), 30, "an idle node")

    configure(f"Prolog={seen}/prolog.sh", "PrologFlags=Alloc")
    try:
        ran = in_head(cluster, "srun", "--immediate=20", "-w", "node1", "hostname")
        assert ran.out == "node1\n", ran
        faults.hardware(load_directory(cluster.path), "mig-on", "node2")
        in_head(
            cluster, "srun", "--immediate=5", "-w", "node2", "-t", "1", "hostname", timeout_s=40
        )
        processes.wait_until(lambda: "drain" in state("node2"), 30, "the prolog's drain")
        assert "Prolog error" in state("node2")
        in_head(cluster, "scancel", "-u", "root")
    finally:
        configure()
    resume("node2")

    health = f"SLURM_CONF={slurm.CONF} {seen}/health.sh"
    assert on_node(cluster, "node2", health).exit_status == 0
    assert state("node2").startswith("idle")
    faults.hardware(load_directory(cluster.path), "mig-on", "node2")
    on_node(cluster, "node2", health)
    assert state("node2").startswith("drained|busbw: FAIL "), state("node2")
    resume("node2")

    # The plan of each task alone: what measuring in an allocation gives is in test_launchers.py.
    weekly = place / "weekly.sbatch"
    weekly.write_text(weekly.read_text().replace("busbw run", "busbw run --dry-run"))
    ended = in_head(
        cluster,
        *("sbatch", "--wait", "--array=1-2%1", "--nodes=2", "-o", f"{seen}/%a.out"),
        *("--export=ALL,BUSBW_PROFILE=tcp,BUSBW_NCCL_TESTS=/opt/nccl-tests/build", str(weekly)),
        timeout_s=120,
    )
    printed = [(place / f"{number}.out").read_text() for number in (1, 2)]
    assert ended.exit_status == 0, (ended, printed)
    assert all("node[1-2]" in text or "node1" in text for text in printed), printed
