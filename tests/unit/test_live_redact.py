"""A judgement on a live job that travels: aliases in the place of names, in text and JSON, and the
same verdict."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from live_answers import HZ, NOW, UP, framed

from busbw.cli import main

HOSTS = {
    "gpu-a07": "gpu-a07.prod.example.org",
    "gpu-a08": "gpu-a08.prod.example.org",
    "gpu-b01": "gpu-b01.prod.example.org",
}
SECRET = ("gpu-a", "gpu-b", "example", "172.16", "mlopsteam")


def collected(folder: Path) -> Path:
    """What a site collected with the printed script (composed): rank 1 is stopped, the others
    wait."""
    folder.mkdir()
    for rank, (node, host) in enumerate(HOSTS.items()):
        pid, state = 100 + rank, "T" if rank == 1 else "S"
        own = (
            f"host {host} now {NOW:.1f} up {UP} boot boot-{rank} tick {HZ}\naddress lo"
            f" 127.0.0.1\naddress eth0 172.16.5.{rank + 1}\n"
        )
        ranks = (
            f"pid {pid}\nWORLD_SIZE=3\nRANK={rank}\nSLURM_JOB_ID=881234\nMASTER_ADDR=172.16.5.1\n"
            "exe /home/mlopsteam/env/bin/python3\nlibrary libnccl.so.2\n"
        )

        def look(at: float, pid: int = pid, state: str = state) -> str:
            seen = (
                f"look {at}\nstate {pid} {state} parent 1 ticks 10 start 700000 rss 5 io 0 wchan"
                " ep_poll\n"
            )
            return f"{seen}eth0/operstate:up\neth0/carrier:1\n"

        sections = {"self": own, "ranks": ranks, "look-1": look(NOW), "look-2": look(NOW + 5)}
        (folder / f"{node}.txt").write_bytes(framed(sections))
    return folder


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_redacted_judgement_names_the_alias_of_the_culprit_and_nothing_of_the_site(
    form: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = collected(tmp_path / "evidence")
    plain_status = main(["why", str(folder), *form])
    plain = capsys.readouterr().out
    assert "gpu-a08" in plain, "the test must be able to fail"
    status = main(["why", str(folder), "--redact", *form])
    told = capsys.readouterr().out
    assert (status, plain_status) == (1, 1)
    assert [word for word in SECRET if word in told] == []
    assert "node-002" in told
    assert told.count("\n") == plain.count("\n")
    if form:
        assert (json.loads(told)["culprit_nodes"], json.loads(told)["kind"]) == (
            ["node-002"],
            json.loads(plain)["kind"],
        )
    names = folder / "redacted-names.csv"
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    assert "node-002,gpu-a08\n" in names.read_text()


def test_a_log_is_not_redacted_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nccl.log").write_text("node1:1:1 [0] NCCL INFO Using network IB\n")
    assert main(["why", str(tmp_path / "nccl.log"), "--redact"]) == 2
    assert "--redact is for --live and for collected answers" in capsys.readouterr().err
