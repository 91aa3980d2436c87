"""Values of `busbw run`'s options that would measure something else than was meant."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from busbw import cli, intake
from busbw.cli import run_kubernetes, why_reading, why_text
from busbw.errors import UsageError
from busbw.run import planning


@pytest.mark.parametrize(
    ("options", "what", "next_step"),
    [
        (
            {"ranks_per_node": 0},
            "--ranks-per-node 0: no rank would run",
            "a number from 1 on, such as 8",
        ),
        ({"duration": "8"}, "--duration 8: the unit is missing", "8s, 8m or 8h"),
        ({"budget": "1.5"}, "--budget 1.5: the unit is missing", "1.5s, 1.5m or 1.5h"),
        ({"duration": "0"}, "--duration 0: no time to measure in", "such as 90s or 20m"),
    ],
)
def test_a_number_that_measures_nothing_or_has_no_unit_is_refused(
    options: dict[str, object], what: str, next_step: str
) -> None:
    given = planning.RunOptions(playbook="quick", nodes="n[1-2]", profile="tcp", **options)  # type: ignore[arg-type]

    with pytest.raises(UsageError) as caught:
        planning.new_plan(given)

    assert (caught.value.what, caught.value.next_step) == (what, next_step)


def test_a_replay_of_a_run_on_pods_creates_no_pods() -> None:
    given = argparse.Namespace(resume=None, replay=Path("runs/a"), launcher="mpijob")
    with run_kubernetes.workers(given) as pods:
        assert pods._requested is None


def test_a_contract_gets_as_many_launches_of_a_case_as_it_wants(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        "criteria:\n"
        "  - {id: a, case: all-reduce, size: 8G, busbw_gb_s: 360, trials: 5}\n"
        "  - {id: b, case: latency, size: 8, time_us: 60, trials: 1}\n",
        "utf-8",
    )
    options = planning.RunOptions(
        playbook="provider-acceptance", nodes="n[1-4]", profile="infiniband", contract=contract
    )

    cases = planning.new_plan(options).playbook.cases

    assert [case.id for case in cases if case.repeats == "all-reduce"] == [
        f"all-reduce-trial-{number}" for number in (2, 3, 4, 5)
    ]
    assert [case.id for case in cases if case.repeats == "latency"] == [
        "latency-trial-2",
        "latency-trial-3",
    ]


def test_a_log_without_permission_is_named_once_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("NCCL WARN x\n", "utf-8")

    def refuse(source: intake.Source) -> intake.Source:
        raise UsageError(f"{source.name} cannot be read", seen="Permission denied")

    monkeypatch.setattr(why_reading.intake, "in_memory", refuse)

    assert cli.main(["why", str(log)]) == 3
    assert f"seen: {log}: cannot be read (Permission denied)\n" in capsys.readouterr().err


def test_many_causes_end_with_a_line_each_on_the_last_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixtures = Path(__file__).parents[1] / "fixtures" / "open_mpi"
    names = ("as-root.txt", "not-enough-slots.txt")
    for name in names:
        (tmp_path / name).write_bytes((fixtures / name).read_bytes())

    assert cli.main(["why", str(tmp_path)]) == 1
    many = capsys.readouterr().out
    assert cli.main(["why", str(tmp_path / names[0])]) == 1
    one = capsys.readouterr().out

    lines = many.splitlines()[-3:]
    assert lines[0] == "2 findings, as above:"
    assert sorted(line.split()[:2] for line in lines[1:]) == [
        ["certain", "mpi-not-enough-slots"],
        ["certain", "mpi-run-as-root"],
    ]
    assert "as above" not in one


def test_an_answer_is_broken_and_indented_on_a_terminal_and_its_commands_are_not() -> None:
    text = (
        "  The key is not installed, or the agent is not forwarded to it\n"
        "  evidence  a.log:1  gpu-01 NCCL WARN a text that is longer than the terminal is wide\n"
        "               mlxfwreset -d a-device-with-a-long-name -y reset -l 3 --yes --and-more\n"
        f"  {'shm-too-small':<28}  /dev/shm is too small for what NCCL wants\n"
        f"  {'':<28}  to confirm: df -h /dev/shm   # inside the container, while it starts\n"
    )

    assert why_text.broken(text, 60).splitlines() == [
        "  The key is not installed, or the agent is not forwarded to",
        "  it",
        "  evidence  a.log:1  gpu-01 NCCL WARN a text that is longer",
        "            than the terminal is wide",
        "               mlxfwreset -d a-device-with-a-long-name -y reset -l 3 --yes --and-more",
        "  shm-too-small                 /dev/shm is too small for",
        "                                what NCCL wants",
        "                                to confirm: df -h /dev/shm   # inside the container, while it starts",
    ]
