"""`busbw bundle`: nothing of the site and no credential is in the archive, the same run gives the
same bytes, and the ticket goes to whom the findings name."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import runpy
import stat
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from planted import healthy
from test_credentials import SHAPES, failing
from test_live_redact import SECRET, collected

from busbw.cli import bundle, main, why_live
from busbw.model import Cluster, Finding, Fix, Node, Status
from busbw.reports import lead, ticket
from busbw.reports.ticket import Recipient
from busbw.triage import offline

RECORDED = Path(__file__).parents[1] / "fixtures" / "lab_runs"
RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def opened(archive: Path) -> dict[str, str]:
    """Name below the archive's one folder → text."""
    with tarfile.open(archive) as tar:
        opened = {each.name: tar.extractfile(each) for each in tar.getmembers()}
        texts = {name: file.read().decode() for name, file in opened.items() if file is not None}
    assert len({name.partition("/")[0] for name in texts}) == 1
    return {name.partition("/")[2]: text for name, text in texts.items()}


def bundled(run: Path, archive: Path) -> dict[str, str]:
    assert main(["bundle", str(run), "--to", str(archive)]) == 0
    return opened(archive)


def slowed(folder: Path) -> Path:
    """A run of the lab in which node3 was slowed, as it was recorded."""
    with tarfile.open(RECORDED / "slowed.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_no_credential_of_a_hundred_shapes_is_in_the_archive(tmp_path: Path) -> None:
    run = failing("\n".join(line for line, _ in SHAPES.values())).written(tmp_path / "runs").path
    files = bundled(run, tmp_path / "b.tar.gz")
    every = "\n".join([*files, *files.values()])
    assert "refused" in files["raw/cases/all-reduce/stderr.txt"], "the lines are in the archive"
    assert [name for name, (_, rest) in SHAPES.items() if rest in every] == []


def test_no_host_address_user_or_path_of_the_site_is_in_the_archive(tmp_path: Path) -> None:
    recording = healthy()
    lines = (
        "node2.hpc.acme.org: mlopsteam@node3 10.77.1.9 fe80::b83f:d2ff:fe03:1a2b",
        "b8:3f:d2:03:1a:2b 0xb83fd203001a2b3c /home/mlopsteam/x /lustre/acme-llm/ada/out.txt",
        "Serial Number : 1652022014738 GPU-5d1f6a9e-0b1c-2d3e-4f50-617283940a1b",
    )
    text = "\n".join((*lines, "NCCL failure", ""))
    recording.files["cases/all-reduce/stderr.txt"] = text.encode()
    recording.outcome("all-reduce", stderr="raw/cases/all-reduce/stderr.txt", exit_status=1)
    run = recording.written(tmp_path / "runs").path
    files = bundled(run, tmp_path / "b.tar.gz")
    every = "\n".join([*files, *files.values()])
    site = ("node2", "acme", "mlopsteam", "10.77.1.9", "1a:2b", "b83f", "1652022014738", "5d1f6a9e")
    whole = (run / "raw/cases/all-reduce/stderr.txt").read_text()
    assert [word for word in site if word not in whole] == [], "the test must be able to fail"
    assert [word for word in site if word in every] == []
    assert "node-002" in files["raw/cases/all-reduce/stderr.txt"]
    names = run / "redacted-names.csv"
    assert "node-002,node2\n" in names.read_text()
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    assert "redacted-names.csv" not in every


def test_other_people_on_the_nodes_are_not_named(tmp_path: Path) -> None:
    recording = healthy()
    path = "preflight/node2.txt"
    text = recording.text(path)
    begin = next(line for line in text.splitlines() if " begin processes " in line)
    row = "S  4711  1001  zoe.lang  ep_poll  python3"
    recording.files[path] = text.replace(begin, f"{begin}\n{row}", 1).encode()
    run = recording.written(tmp_path / "runs").path
    files = bundled(run, tmp_path / "b.tar.gz")
    assert "S  4711  1001  user-001  ep_poll" in files["raw/preflight/node-002.txt"], (
        "the line is in the archive"
    )
    assert [name for name, text in files.items() if "zoe" in text] == []


def test_the_same_run_gives_the_same_bytes_and_nothing_else_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = slowed(tmp_path / "run")
    archive = tmp_path / "b.tar.gz"
    bundled(run, archive)
    first = archive.read_bytes()
    archive.unlink()
    bundled(run, archive)
    assert archive.read_bytes() == first
    bundled(run, archive)
    archive.write_bytes(b"of somebody")
    assert main(["bundle", str(run), "--to", str(archive)]) == 2
    assert "exists with other content" in capsys.readouterr().err
    assert archive.read_bytes() == b"of somebody"


def test_the_archive_lists_its_sums_and_each_ticket_names_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = bundled(slowed(tmp_path / "run"), tmp_path / "b.tar.gz")
    sums = dict(reversed(line.split("  ")) for line in files.pop("SHA256SUMS").splitlines())
    assert sums == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    assert {"report/report.html", "report/run.json", "versions.json"} < set(files)
    for who in ("nvidia", "vendor", "provider"):
        text = files[f"tickets/{who}.txt"]
        assert text.startswith("Subject: FAIL – node-003 (slow-node); all_reduce 23%")
        assert "0.00612 GB/s instead of 0.0255 GB/s (24%)" in text
        assert "raw/cases/survey-pairs-3/result.json: node-003 + node-004" in text
        assert "MPI: Open MPI 4.1.4" in text
        assert "Emulated: " in text
    assert "take the nodes named above out of service" in files["tickets/provider.txt"]
    first = "Send it first to: the provider, or whoever runs the machines and the fabric"
    assert first in files["README.txt"]
    assert first in capsys.readouterr().out


def test_a_run_that_passed_has_nothing_to_report_and_no_ticket(tmp_path: Path) -> None:
    run = healthy().written(tmp_path / "runs").path
    files = bundled(run, tmp_path / "b.tar.gz")
    assert not [name for name in files if name.startswith("tickets/")]
    assert "nobody: there is nothing to report" in files["README.txt"]


@pytest.mark.parametrize(
    ("finding", "needs", "who"),
    [
        ("slow-rail", ("user", "datacenter-hands"), Recipient.VENDOR),
        ("slow-rail", ("user",), Recipient.VENDOR),
        ("slow-uplink", ("root",), Recipient.PROVIDER),
        ("nic-pcie-degraded", ("cloud-admin",), Recipient.PROVIDER),
        ("gpu-gsp-timeout", ("root",), Recipient.NVIDIA),
        ("memlock-small", ("root",), Recipient.OWN_TEAM),
    ],
)
def test_who_gets_it_first_follows_from_the_rights_that_the_fixes_need_else_from_the_part(
    finding: str, needs: tuple[str, ...], who: Recipient
) -> None:
    fixes = tuple(Fix("do", (), right) for right in needs)
    assert ticket.recipient(Finding(finding, Status.FAIL, "t", (), (), fixes=fixes)) is who


def test_what_was_ruled_out_and_what_else_it_may_be_are_in_the_ticket() -> None:
    result = RUNS.failing().result
    first = lead.deciding(result)
    assert first is not None
    ruled = dataclasses.replace(first, ruled_out=("its inside: 105% of the others",), also=("x",))
    others = tuple(each for each in result.findings if each is not first)
    texts = ticket.tickets(dataclasses.replace(result, findings=(ruled, *others)))
    for each in texts:
        assert "Ruled out\n- its inside: 105% of the others\n" in each.text
        assert "Other possible causes\n- x\n" in each.text


def test_a_job_that_hangs_is_bundled_without_a_name_of_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collected(tmp_path / "evidence")

    def sample(args: object, options: object, cluster: Cluster) -> tuple[object, Path]:
        evidence = offline.evidence(folder, offline.load(folder))
        return why_live.judged(folder, str(folder), evidence, None, redact=True), folder

    monkeypatch.setattr(why_live, "sample", sample)
    monkeypatch.setattr(
        why_live, "cluster_of", lambda _: Cluster((Node("gpu-a07"),), "gpu-a07", "")
    )
    archive = tmp_path / "live.tar.gz"
    assert main(["bundle", "--live", "-w", "gpu-a07", "--to", str(archive)]) == 0
    files = opened(archive)
    every = "\n".join([*files, *files.values()])
    assert [word for word in SECRET if word in every] == []
    assert "node-002" in files["tickets/provider.txt"]
    assert "Stalled job" in files["tickets/nvidia.txt"]


def test_an_archive_of_the_same_files_has_the_same_bytes_in_any_order() -> None:
    one = bundle.archive({"a": "1", "b/c": "2"}, "x")
    assert bundle.archive({"b/c": "2", "a": "1"}, "x") == one
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert [(each.name, each.mtime, each.uid) for each in tar] == [
            ("x/a", 0, 0),
            ("x/b/c", 0, 0),
        ]


def test_nodes_without_live_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "-w", "gpu-001"]) == 2
    assert "busbw bundle --live -w NODES" in capsys.readouterr().err
