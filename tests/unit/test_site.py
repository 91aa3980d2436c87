"""The runs of a folder as pages, and each node over time."""

from __future__ import annotations

import html
import json
import os
import re
import runpy
import shutil
import tarfile
import urllib.parse
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from planted import healthy

from busbw.cli import main
from busbw.codec import dump_json
from busbw.compare import frames, history
from busbw.model import RunResult
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store import own_plans
from busbw.store.run_directory import RunDir

RECORDED = Path(__file__).parents[1] / "fixtures" / "lab_runs"
RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def kept(root: Path, number: int, result: RunResult, *, report: bool = True) -> None:
    started = f"2026-11-{number:02d}T02:00:00Z"
    folder = root / f"202611{number:02d}-020000-day-one"
    (folder / "raw").mkdir(parents=True)
    RunDir(folder).write_raw("plan.json", "{}")
    named = replace(result, run_id=f"../../outside-{number}", started=started)
    (folder / "run.json").write_text(dump_json(named))
    if report:
        text = f"report {number}"
        (folder / "report.html").write_text(text)
        own_plans.note(text.encode())


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    for number in range(1, 6):
        kept(root, number, RUNS.healthy().result)
    kept(root, 6, RUNS.failing().result)
    markup = replace(RUNS.failing().result, headline="<script>alert(1)</script>")
    kept(root, 7, markup, report=False)
    (root / "20261108-020000-broken/raw").mkdir(parents=True)
    return root


def test_a_site_has_every_run_newest_first_with_its_report_and_nothing_outside(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "site"
    assert main(["site", str(runs), "-o", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}/index.html  7 runs\n"
    assert "not read" in captured.err
    page = (out / "index.html").read_text()
    links = re.findall(r'href="([^"]+)"', page)
    reports = [f"202611{number:02d}-020000-day-one.html" for number in range(6, 0, -1)]
    assert links == ["data:,", "trends.html", "nodes.html", *reports]
    assert {path.name for path in out.iterdir()} == {
        *("index.html", "trends.html", "nodes.html"),
        *reports,
    }
    assert (out / reports[0]).read_text() == "report 6"
    assert "<script>alert" not in page
    assert "✖ fail" in page
    assert not list(tmp_path.rglob("outside*"))


def test_each_node_over_time_is_its_best_pair(runs: Path, tmp_path: Path) -> None:
    every = frames.load(runs / "*")
    table = history.of_nodes(every.cases, every.groups)
    pairs = every.groups[every.groups["survey"] & (every.groups["node_count"] == 2)]
    run = pairs["run"].iloc[0]
    of_run = pairs[pairs["run"] == run]
    node = table[table["run"] == run].iloc[0]
    name = node["collective"].partition(",")[0]
    with_node = of_run[[name in history.expand(nodes) for nodes in of_run["nodes"]]]
    assert node["busbw_gb_s"] == with_node["busbw_gb_s"].max()


def test_the_history_of_nodes_is_printed_and_a_page(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "nodes.html"
    words = ["history", "-o", str(runs), "--by-node"]
    assert main([*words, "--html", str(page)]) == 0
    assert "best pair" in capsys.readouterr().out
    assert "best pair" in page.read_text()
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_each_rail_over_time_is_its_best_pair_on_that_rail(runs: Path) -> None:
    every = frames.load(runs / "*")
    first, second, *_ = dict.fromkeys(every.cases["run"])

    def pair(a: str, b: str, rail: int | None, busbw: float) -> GroupSample:
        return GroupSample((a, b), 1 << 20, (busbw,) * 5, "raw/x.json", rail=rail)

    samples = {
        first: (pair("n1", "n2", 0, 20.0), pair("n1", "n3", 0, 24.0), pair("n1", "n2", None, 40.0)),
        second: (pair("n1", "n2", 0, 12.0), pair("n1", "n3", 0, 11.0), pair("n1", "n3", 1, 23.0)),
    }
    table = history.of_rails(every.cases, samples)
    values = {
        (row.run, row.collective): row.busbw_gb_s
        for row in table.itertuples()
        if row.collective.startswith("n1 ")
    }
    assert values == {
        (first, "n1 rail 0, best pair:"): 24.0,
        (second, "n1 rail 0, best pair:"): 12.0,
        (second, "n1 rail 1, best pair:"): 23.0,
    }


def test_a_recorded_survey_of_whole_nodes_has_no_rails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "20261101-000000-healthy"
    run.mkdir(parents=True)
    with tarfile.open(RECORDED / "healthy.tar.xz") as archive:
        archive.extractall(run, filter="data")
    main(["report", str(run)])
    assert main(["history", "-o", str(tmp_path / "runs"), "--by-rail"]) == 2
    assert "measured rail by rail" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["site", str(tmp_path / "no")]) == 2
    assert "busbw site RUNS" in capsys.readouterr().err


ODD = ("javascript:alert(1)", '"><script>alert(2)<', "%2e%2e%2fz", "index")


def test_a_run_of_somebody_else_brings_neither_its_page_nor_its_name_into_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = healthy().written(tmp_path / "runs").path
    main(["report", str(run)])
    page = (run / "report.html").read_bytes()
    (run / "report.html").write_text("<script>alert('theirs')</script>")
    for name in (*ODD, "x" * 250, "\udcff"):
        shutil.copytree(run, run.parent / name)
    capsys.readouterr()
    assert main(["site", str(run.parent), "-o", str(tmp_path / "site")]) == 0
    told = capsys.readouterr().err
    assert "x: cannot write" in told
    assert "index: the site has a page of that name" in told
    written = {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()}
    assert written[f"{run.name}.html"] == page, "made anew from raw/"
    assert not [name for name, content in written.items() if b"alert('theirs')" in content]
    links = re.findall(r'href="([^"]+)"', written["index.html"].decode())
    addresses = {urllib.parse.urljoin("https://x/site/", html.unescape(each)) for each in links}
    addresses.remove("data:,")
    assert {each.rpartition("/")[0] for each in addresses} == {"https://x/site"}
    names = {urllib.parse.unquote_to_bytes(each.rpartition("/")[2]) for each in addresses}
    assert names == {os.fsencode(name) for name in written} - {b"index.html"}
    assert main(["history", "-o", str(run.parent)]) == 0
    assert "\u27e8U+DCFF\u27e9: its name is no UTF-8" in capsys.readouterr().out
