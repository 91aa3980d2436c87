"""summary.md and annotations: literal text, order, size, and rendering by another
implementation."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from markdown_it import MarkdownIt

from busbw.model import Evidence, Finding, Status
from busbw.reports import ReportInput, markdown, phrases, safe

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)

EMULATED = """\
# ✖ FAIL: node3 is slow with every partner: 0.0203 GB/s, its peers 0.1 GB/s (20%); all_reduce 0.0239 GB/s at 8 MiB on 4 nodes

> **Emulated: host memory over MPI in an embedded lab; no number here says anything about real hardware.**

4 nodes `node[1-4]` · playbook `day-one` · profile `lab` · run `20261120-091200-day-one` · `2026-11-20T09:12:00Z` to `2026-11-20T09:13:10Z`

## F01 ✖ fail: node3 is slow with every partner: 0.0203 GB/s, its peers 0.1 GB/s (20%)

`slow-node` · likely that it is node3

something that only this node has: a NIC or port at a lower rate, a cable, its PCIe slot, its CPU load or settings

Seen in `raw/cases/survey-pairs-1/result.json`:

```text
node3 + node2: 0.0203 GB/s median of 10 iterations, 20% of 0.1 GB/s
```
"""


def test_the_summary_begins_with_verdict_cause_and_evidence() -> None:
    assert markdown.render(RUNS.emulated())[: len(EMULATED)] == EMULATED


def test_what_would_confirm_it_in_words_is_no_command_to_copy() -> None:
    report = RUNS.emulated()
    settle = ("a quieter hour, or more accepted runs", "busbw run --survey")
    finding = Finding("odd", Status.FAIL, "odd", (), (), would_settle=settle)
    text = markdown.render(replace(report, result=replace(report.result, findings=(finding,))))
    assert (
        "To confirm:\n\n```sh\nbusbw run --survey\n```\n\n- a quieter hour, or more accepted runs\n"
        in text
    )


def test_numbers_stand_in_a_table_with_their_reference() -> None:
    assert markdown.render(RUNS.failing()).split("## Measured\n\n")[1].splitlines()[:3] == [
        "| | case | size | measured | expected | share | reference |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
        (
            "| ✖ fail | `all-reduce` | 1 GiB | 192.9 GB/s | 367.2 GB/s | 53% | accepted run: median"
            " of 31 accepted runs, last 20261113-0900-a411. below 95 % of the accepted runs |"
        ),
    ]


def test_a_contract_shows_each_criterion_and_what_was_not_measured() -> None:
    lines = markdown.render(RUNS.acceptance()).splitlines()
    acceptance = RUNS.acceptance().result.acceptance
    at = lines.index("## Acceptance")
    rows = [line for line in lines[at:] if line.startswith(("| ✓", "| ✖", "| ?"))]
    assert len(rows[: len(acceptance.criteria)]) == len(acceptance.criteria) > 0
    first = acceptance.criteria[0]
    assert f"| {phrases.limit(first)} | {phrases.measured(first)} |" in rows[0]
    assert acceptance.not_measured
    listed = [f"- {safe.markdown(each)}" for each in acceptance.not_measured]
    assert set(listed) <= set(lines[at:])


def test_a_huge_summary_is_cut_between_parts_and_says_so() -> None:
    plain = RUNS.failing().result
    many = tuple(
        Finding(
            f"finding-{n}",
            Status.WARN,
            f"number {n}",
            (),
            (Evidence("raw/x", n, "é" * 3000),),
            required=False,
        )
        for n in range(200)
    )
    text = markdown.render(ReportInput(replace(plain, findings=many)))
    assert 150_000 < len(text.encode()) <= markdown.MAXIMUM_BYTES
    assert text.endswith("\n*Cut here: the rest is in report.html.*\n")
    assert text.count("```") % 2 == 0


def test_hostile_text_renders_as_text_only() -> None:
    tokens = (
        MarkdownIt("commonmark", {"html": True, "linkify": False})
        .enable("table")
        .parse(markdown.render(RUNS.hostile()))
    )
    inline = [child for token in tokens for child in token.children or ()]
    assert {token.type for token in tokens if token.type.startswith("html")} == set()
    assert {child.type for child in inline} <= {
        "text",
        "code_inline",
        "softbreak",
        "text_special",
        "strong_open",
        "strong_close",
    }
    assert {token.tag for token in tokens if token.type == "heading_open"} == {"h1", "h2"}
    plain = MarkdownIt("commonmark").enable("table").parse(markdown.render(RUNS.acceptance()))
    assert [t.type for t in tokens if t.type != "inline"] == [
        t.type for t in plain if t.type != "inline"
    ]


def test_hostile_text_mentions_nobody_and_links_nowhere_outside_of_code() -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(RUNS.hostile()))
    prose = "".join(
        child.content for token in tokens for child in token.children or () if child.type == "text"
    )
    assert "@\u200beveryone" in prose
    for live in ("@everyone", "https://", "#1", "$(reboot)"):
        assert live not in prose


def test_annotations_are_at_most_ten_lines_of_one_command_each() -> None:
    plain = RUNS.hostile().result
    text = markdown.github_annotations(replace(plain, findings=plain.findings * 9))
    lines = text.splitlines()
    assert len(lines) == 10
    assert all(
        line.startswith(("::error title=busbw%3A ", "::notice title=busbw%3A ")) for line in lines
    )


def test_annotations_of_a_failing_run() -> None:
    assert (
        markdown.github_annotations(RUNS.failing().result)
        == "::error title=busbw%3A gpu-005%3A mlx5_3 trained at 200 Gb/s%2C expected 400"
        " Gb/s::Every ring crosses the slow rail, so the whole job runs at that rail's speed.;"
        " likely that it is gpu-005 rail 3\n::notice title=busbw%3A NCCL_IB_GID_INDEX is set on"
        " 2 nodes; InfiniBand ignores it::A left-over of a RoCE cluster in the login profile.;"
        " certain; gpu-[002,009]\n"
    )


def test_a_pass_has_no_annotation_and_an_unknown_without_finding_has_one() -> None:
    assert markdown.github_annotations(RUNS.healthy().result) == ""
    assert (
        markdown.github_annotations(RUNS.unreachable().result)
        == "::error title=busbw%3A UNKNOWN::could not measure: 2 of 4 nodes could not be reached\n"
    )
