"""The page: what stands on it and in which order, what is left out, and that nothing from a node is
ever markup."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import runpy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.cli import report as report_command
from busbw.model import (
    CaseOutcome,
    CheckResult,
    Comparison,
    Confidence,
    Evidence,
    Finding,
    LaunchRole,
    Reference,
    Status,
)
from busbw.parsers.findings import catalogue
from busbw.reports import ReportInput, html, phrases, sweeps
from busbw.reports.sections import judgement
from busbw.run import publish
from busbw.store.run_directory import RunDir

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """Elements, texts by element, attributes; void elements and end tags are checked to balance."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.stack[-1] if self.stack else "", " ".join(data.split())))

    def of(self, tag: str) -> list[str]:
        return [text for at, text in self.texts if at == tag]

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.elements if name in attrs]


@functools.cache
def rendered(name: str) -> str:
    return html.render(getattr(RUNS, name)())


def page(text: str) -> Page:
    made = Page(text)
    assert made.unbalanced == []
    assert made.stack == []
    return made


ALL = (
    "healthy",
    "failing",
    "unreachable",
    "emulated",
    "stalled",
    "acceptance",
    "every_pair",
    "hostile",
    "hostile_lab",
)


@pytest.mark.parametrize("name", ALL)
def test_the_same_run_gives_the_same_bytes(name: str) -> None:
    assert rendered(name) == html.render(getattr(RUNS, name)())


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("healthy", "PASS – all_reduce 100.2% – gpu-[000-015]"),
        ("failing", "FAIL – gpu-005 rail 3 (slow-rail); all_reduce 52% – gpu-[000-015]"),
        ("unreachable", "UNKNOWN – gpu-[001,003] not reached – gpu-[000-003]"),
        ("emulated", "FAIL – node3 (slow-node); all_reduce 20% – node[2-3]"),
    ],
)
def test_the_title_begins_with_the_verdict(name: str, title: str) -> None:
    assert page(rendered(name)).of("title")[0] == title


@pytest.mark.parametrize(
    ("name", "headings"),
    [
        (
            "failing",
            [
                "Other findings",
                "What was measured",
                "Bus bandwidth by message size",
                "Latency",
                "Processes",
                "Who is slow: groups of nodes",
                "Topology",
                "Preflight",
                "What was not checked",
                "Commands and versions",
                "Raw evidence",
            ],
        ),
        (
            "unreachable",
            [
                "Not reached",
                "Topology",
                "Preflight",
                "What was not checked",
                "Commands and versions",
            ],
        ),
        (
            "stalled",
            [
                "Timeline of the stall",
                "What was measured",
                "Bus bandwidth by message size",
                "Topology",
                "Preflight",
                "What was not checked",
                "Commands and versions",
                "Raw evidence",
            ],
        ),
        (
            "acceptance",
            [
                "Acceptance",
                "Findings",
                "What was measured",
                "Bus bandwidth by message size",
                "Latency",
                "Processes",
                "Who is slow: groups of nodes",
                "Topology",
                "Preflight",
                "What was not checked",
                "Commands and versions",
                "Raw evidence",
            ],
        ),
    ],
)
def test_sections_stand_in_order_and_empty_ones_are_left_out(
    name: str, headings: list[str]
) -> None:
    made = page(rendered(name))
    assert made.of("h2") == headings
    assert [tag for tag, _ in made.elements].count("h1") == 1


def test_pairs_are_drawn_as_a_matrix_only_where_most_were_measured() -> None:
    assert "Pairs of nodes" in page(html.render(RUNS.every_pair(16))).of("h2")
    assert "Pairs of nodes" not in page(rendered("failing")).of("h2")


def test_every_section_template_is_found_by_its_name() -> None:
    environment = html._environment()
    names = html.section_names(environment)
    assert names == tuple(name for name in environment.list_templates() if name[:2].isdigit())
    assert len(names) >= 12


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_asked_for_from_outside(name: str) -> None:
    made = page(rendered(name))
    for link in made.attributes("href"):
        assert re.match(r"#|raw/|data:,\Z", link), link
    assert made.attributes("src") == []
    assert {attrs.get("rel") for tag, attrs in made.elements if tag == "link"} == {"icon"}


@pytest.mark.parametrize("name", ALL)
def test_links_inside_the_page_lead_somewhere_and_ids_are_unique(name: str) -> None:
    made = page(rendered(name))
    ids = made.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in made.attributes("href") if link.startswith("#")} <= set(ids)
    named = {part for value in made.attributes("aria-labelledby") for part in value.split()}
    assert named <= set(ids)


@pytest.mark.parametrize("name", ALL)
def test_the_policy_allows_these_styles_and_this_script_and_nothing_else(name: str) -> None:
    text = rendered(name)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    told = policy[1].replace("&#39;", "'")
    blocks = re.findall(r"<(style|script)>(.*?)</\1>", text, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["style", "style", "script"]
    hashes = [
        "'sha256-" + base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() + "'"
        for _, body in blocks
    ]
    assert (
        told == f"default-src 'none'; img-src data:; style-src {hashes[0]} {hashes[1]}; script-src"
        f" {hashes[2]}; base-uri 'none'; form-action 'none'"
    )
    made = Page(text)
    assert made.attributes("style") == []
    assert [name for _, attrs in made.elements for name in attrs if name.startswith("on")] == []


@pytest.mark.parametrize(
    ("of", "name"), [("acceptance", "hostile"), ("stalled_survey", "hostile_lab")]
)
def test_hostile_text_adds_no_element_that_a_plain_run_does_not_have(of: str, name: str) -> None:
    plain, hostile = page(rendered(of)), page(rendered(name))
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in plain.elements}
    count = [[tag for tag, _ in made.elements].count("script") for made in (plain, hostile)]
    assert count[0] == count[1]
    text = rendered(name)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u202e\u2066\ufeff\ud800]", text)
    assert "{{7*7}}" in text
    assert "␛]0;owned␇" in text


def test_hostile_artefact_names_become_no_link() -> None:
    assert html.artefact_link("raw/nodes/gpu-005/ibstat") == "raw/nodes/gpu-005/ibstat"
    for artefact in (
        "javascript:alert(1)",
        "raw/../../etc/passwd",
        "/etc/passwd",
        "raw/a b",
        "//evil.example/x",
        "raw/x?y",
        "http://x",
    ):
        assert html.artefact_link(artefact) == ""


def test_embedded_data_is_json() -> None:
    text = rendered("hostile")
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        data = json.loads(block)
        assert len(data["x"]) == len(data["text"]) > 1


def test_an_emulated_run_says_so_before_anything_else_and_on_every_printed_page() -> None:
    text = rendered("emulated")
    body = text[text.index("<body") :]
    assert body.index("no number here says anything about real hardware") < body.index("<h1>")
    assert (
        '@top-center{content:"EMULATED: no number here says anything about real hardware"' in text
    )
    assert "emulated" not in rendered("failing").lower()


def test_evidence_stands_beside_the_finding_and_leads_to_its_source() -> None:
    text = rendered("failing")
    finding = text[text.index('id="F01"') : text.index('id="F02"')]
    assert '<a class="artefact" href="#E2">raw/nodes/gpu-005/ibstat:61</a>' in finding
    assert (
        '<a class="artefact"'
        ' href="raw/cases/all-reduce/rank-40.log">raw/cases/all-reduce/rank-40.log:311</a>'
        in finding
    )
    assert (
        "<code>ssh <span>gpu-005</span> sudo mlxlink <span>-d</span> mlx5_3 <span>-a</span> TG</code>"
        in finding
    )
    assert "disrupts running jobs" in finding
    assert "<button" not in text


def test_the_finding_to_act_on_comes_first() -> None:
    plain = RUNS.failing().result
    small = Finding(
        "small",
        Status.FAIL,
        "costs little",
        (),
        (Evidence("raw/x", None, "x"),),
        effect=0.1,
        confidence=Confidence.CERTAIN,
    )
    advisory = Finding(
        "aside",
        Status.FAIL,
        "advisory",
        (),
        (Evidence("raw/x", None, "x"),),
        effect=0.9,
        required=False,
    )
    made = page(
        html.render(ReportInput(replace(plain, findings=(small, advisory, *plain.findings))))
    )
    head = html.render(ReportInput(replace(plain, findings=(small, advisory, *plain.findings))))
    head = head[: head.index("<nav")]
    assert "gpu-005: mlx5_3 trained at 200 Gb/s, expected 400 Gb/s" in head
    titles = [text for at, text in made.texts if at == "h3"][:3]
    assert titles == [
        "costs little",
        "advisory",
        "NCCL_IB_GID_INDEX is set on 2 nodes; InfiniBand ignores it",
    ]


def test_equal_nodes_are_folded_and_the_odd_one_stands_out() -> None:
    text = rendered("failing")
    section = text[text.index('<section id="preflight"') : text.index('<section id="not-checked"')]
    assert (
        "10 checks on 16 nodes: 7 pass on every node; 1 × fail, 2 × unknown, 2 × warning."
        in section
    )
    assert re.findall(r'<th scope="col">(gpu[^ <]+)', section) == [
        "gpu-[000-001,003-004,006-008,010-013]",
        "gpu-[002,009]",
        "gpu-[014-015]",
        "gpu-005",
    ]


def test_above_64_nodes_only_checks_that_some_node_did_not_pass_have_rows() -> None:
    text = html.render(RUNS.failing(100))
    section = text[text.index('<section id="preflight"') : text.index('<section id="not-checked"')]
    matrix = section[section.index('<table class="matrix">') :].split("</table>")[0]
    assert re.findall(r'<th scope="row" class="id">([^<]+)', matrix) == [
        "rdma.rate",
        "pci.acs",
        "limits.memlock",
    ]
    assert "7 more checks that every node passed." in section


def test_a_cluster_of_many_kinds_of_nodes_is_counted() -> None:
    plain = RUNS.healthy().result
    odd = {(node, f"odd.{number}") for number, node in enumerate(plain.nodes[:9])}
    checks = tuple(
        CheckResult(
            f"odd.{number}",
            node,
            Status.WARN if (node, f"odd.{number}") in odd else Status.PASS,
            "x",
            "y",
            "z",
        )
        for number in range(9)
        for node in plain.nodes
    )
    text = html.render(ReportInput(replace(plain, checks=checks)))
    assert "Check by check, nodes counted" in text
    assert text.count('<td class="n">15</td>') == 9


def test_a_case_that_measured_nothing_is_listed_with_its_reason() -> None:
    plain = RUNS.healthy().result
    dead = replace(
        plain.cases[0],
        status=Status.UNKNOWN,
        reason="timed out after 600 s",
        results=(),
        exit_status=None,
        seconds=None,
    )
    text = html.render(
        ReportInput(replace(plain, cases=(dead,), comparisons=(), verdict=Status.UNKNOWN))
    )
    assert "timed out after 600 s" in text
    assert "not known" in text
    assert "Bus bandwidth by message size" not in text


def test_wrong_elements_are_in_the_table() -> None:
    plain = RUNS.healthy().result
    case = plain.cases[0]
    row = case.results[0].rows[-1]
    assert row.out_of_place
    bad = replace(row, out_of_place=replace(row.out_of_place, wrong=12))
    result = replace(case.results[0], rows=(*case.results[0].rows[:-1], bad))
    text = html.render(
        ReportInput(replace(plain, cases=(replace(case, results=(result,)), *plain.cases[1:])))
    )
    assert '<td class="n">12</td>' in text


def test_acceptance_counts_what_was_not_measured() -> None:
    made = page(rendered("acceptance"))
    assert "NOT ACCEPTED" in " ".join(made.of("strong"))
    assert "1 of 3 criteria met, 1 failed, 1 not measured" in made.of("p")


def test_the_acceptance_block_shows_limit_interval_and_launches_of_each_criterion() -> None:
    text = rendered("acceptance")
    assert "≥ 350.0 GB/s" in text
    assert "191.6 ± 2.4 GB/s" in text
    assert "512 nodes: valid only for the 16 measured" in text
    assert "128 parts of 16 nodes, SHA-256 over their serial numbers" in text


def test_beside_a_contract_no_other_reference_passes_its_numbers() -> None:
    report = RUNS.acceptance()
    met = report.result.acceptance.criteria[0]
    peers = Reference("peers", 400.0, "a good pair of nodes")
    passed = Comparison(
        met.case_id, met.size_bytes, 184.0, peers, 0.46, Status.PASS, "at least 10 %"
    )
    other = replace(passed, size_bytes=met.size_bytes // 2)
    made = judgement.view(
        replace(report, result=replace(report.result, comparisons=(passed, other)))
    )
    assert made is not None
    rows = [(row.status, row.reason) for row in made.numbers[0].rows]
    assert rows == [
        (Status.SKIPPED, f"the contract judges it (criterion {met.id}); at least 10 %"),
        (Status.PASS, "at least 10 %"),
    ]


def test_a_launch_without_the_suspects_is_no_point_of_the_curve() -> None:
    result = RUNS.acceptance().result
    measured = next(each for each in result.cases if each.case.id == "all-reduce")
    case = replace(
        measured.case, id="rest-all-reduce", role=LaunchRole.WITHOUT_SUSPECTS, required=False
    )
    rest = replace(measured, case=case)
    assert sweeps.sweeps(replace(result, cases=(*result.cases, rest))) == sweeps.sweeps(result)


def test_two_criteria_of_one_collective_are_distinguished_by_their_cases() -> None:
    (first, *_) = RUNS.acceptance().result.acceptance.criteria
    plain = replace(first, case_id="all-reduce", collective="all_reduce", size_bytes=8 << 20)
    ring = replace(plain, case_id="all-reduce-ring")
    assert phrases.criterion(plain) == "all_reduce 8 MiB"
    assert phrases.criterion(ring) == "all_reduce 8 MiB (all-reduce-ring)"


def test_long_texts_are_cut_and_those_beyond_the_budget_named() -> None:
    report = RUNS.failing()
    big = tuple(
        replace(report.excerpts[0], artefact=f"raw/log-{n}", text="y" * 64_000) for n in range(10)
    )
    text = html.render(replace(report, excerpts=big))
    assert len(text) < 200_000
    assert text.count("… 48,000 characters left out here, see the file …") == 3
    assert text.count("Left out here to keep the page small: see the file.") == 7


def test_json_artefacts_are_not_quoted_because_they_hold_the_environment() -> None:
    report = RUNS.failing()
    secret = replace(
        report.excerpts[0],
        artefact="raw/cases/all-reduce/result.json",
        text='{"env":["API_TOKEN=s3cret"]}',
    )
    text = html.render(replace(report, excerpts=(secret,)))
    assert "s3cret" not in text
    assert "may hold the environment of the launch" in text


def test_equal_lines_of_several_nodes_are_shown_once() -> None:
    plain = RUNS.failing().result
    lines = tuple(Evidence(f"raw/preflight/{node}.txt", 7, "8192") for node in plain.nodes)
    text = html.render(
        ReportInput(replace(plain, findings=(replace(plain.findings[1], evidence=lines),)))
    )
    finding = text[text.index('id="F01"') : text.index('id="judgement"')]
    assert finding.count("<li>8192") == 1
    assert ", 12 more places" in finding


@pytest.mark.parametrize("value", [None, 1.5, True, ("x",), {"a": 1}])
def test_a_template_can_write_text_and_whole_numbers_only(value: object) -> None:
    with pytest.raises(TypeError, match="only text and whole numbers"):
        html._finalize(value)


def test_the_page_of_a_thousand_nodes_is_small_and_keeps_the_slow_one() -> None:
    text = rendered("huge")
    assert len(text.encode()) < 300_000
    assert "15,404 groups of 2 nodes. 31 with gpu-005" in text


def test_the_page_of_sixteen_nodes_stays_below_150_kib() -> None:
    assert (
        max(len(rendered(name).encode()) for name in ("healthy", "failing", "acceptance"))
        < 150 * 1024
    )


def test_a_warning_that_decides_the_verdict_is_the_cause_and_only_the_others_did_not() -> None:
    report = RUNS.healthy()
    leads = Finding(
        "packets-lost",
        Status.WARN,
        "n3 loses packets",
        confidence=Confidence.LIKELY,
        effect=0.02,
        evidence=(),
        where=("n3",),
    )
    beside = replace(
        leads, id="spikes", title="a spike every 400 ms", required=False, status=Status.WARN
    )
    result = replace(
        report.result,
        verdict=Status.WARN,
        headline="n3 loses packets; all_reduce 370 GB/s",
        findings=(leads, beside),
    )
    warned = html.render(replace(report, result=result))
    assert "that did not decide the verdict" not in warned
    assert "<strong>likely that it is n3</strong>" in warned
    assert '<a href="#findings">1 more finding</a>' in warned
    assert "detects: a missing rail" in warned, (
        "what a verdict that lets the cluster pass could see stays"
    )
    hints = html.render(
        replace(report, result=replace(result, headline="all_reduce 370 GB/s", findings=(beside,)))
    )
    assert "1 finding</a> that did not decide the verdict" in hints
    failed = replace(beside, id="gpu.xgmi", status=Status.FAIL)
    led = html.render(
        replace(report, result=replace(result, headline="n3 fails gpu.xgmi", findings=(failed,)))
    )
    assert "that did not decide the verdict" not in led, "it is why there is a warning"
    assert '<dd class="where">n3</dd>' in led


def test_evidence_that_is_a_folder_has_no_excerpt_and_breaks_no_report(tmp_path: Path) -> None:
    (tmp_path / "raw" / "cases").mkdir(parents=True)
    (tmp_path / "raw" / "log.txt").write_text("one line")
    result = RUNS.failing().result
    finding = replace(
        result.findings[0],
        evidence=(Evidence("raw/cases", None, "no launch"), Evidence("raw/log.txt", 1, "one line")),
    )
    result = replace(result, findings=(finding,), cases=())
    excerpts = publish._excerpts(RunDir(tmp_path), result)
    assert [excerpt.artefact for excerpt in excerpts] == ["raw/log.txt"]


def test_a_good_number_does_not_stand_in_large_digits_above_a_failure_of_another_kind() -> None:
    report = RUNS.healthy()
    assert '<dl class="tiles">' in html.render(report)
    stalled = replace(report.result, verdict=Status.FAIL, headline="rank 3 is stopped")
    assert '<dl class="tiles">' not in html.render(replace(report, result=stalled))
    assert '<dl class="tiles">' in html.render(RUNS.failing())


def test_causes_and_consequences_are_named_by_their_titles() -> None:
    report = RUNS.failing()
    first = next(each for each in report.result.findings if each.id == "slow-rail")
    named = replace(first, also=("duplicate-gpu", "gpu-7 is slow"), explains=("layer-breakdown",))
    page = html.render(replace(report, result=replace(report.result, findings=(named,))))
    assert "<li>Two ranks use the same GPU [duplicate-gpu]</li><li>gpu-7 is slow</li>" in page
    assert "<li>layer-breakdown</li>" not in page


def test_the_cause_of_a_finding_is_not_listed_as_another_possible_one() -> None:
    known = catalogue.entry("xgmi-link-down")
    finding = Finding(
        "gpu.xgmi",
        Status.FAIL,
        "gpu.xgmi: down: GPU 3 link 2",
        ("n2",),
        (),
        cause=f"expected every XGMI link up. {known.cause}",
        also=("xgmi-link-down", "duplicate-gpu"),
    )
    assert phrases.other_causes(finding) == ("Two ranks use the same GPU [duplicate-gpu]",)


def test_the_terminal_shows_the_table_of_a_sweep_again() -> None:
    lines = report_command.lines_of(SimpleNamespace(), RUNS.swept().result, "runs/r")
    assert lines[0].text.startswith("setting against unset")
    assert any(
        line.text.startswith("best at alltoall 1 MiB: LAB_RAILS=eth0,eth1") for line in lines
    )


def test_why_the_only_node_was_not_reached_is_said_once_beside_the_head() -> None:
    report = RUNS.unreachable()
    first = report.result.unreachable[0]
    headline = f"{first.node}: {first.reason}"
    gap = Finding("ssh.connect", Status.UNKNOWN, headline, (first.node,), ())
    result = replace(report.result, unreachable=(first,), headline=headline, findings=(gap,))
    page = html.render(replace(report, result=result))
    (section,) = re.findall(r'<section id="unreachable".*?</section>', page, re.DOTALL)
    assert "1 node of 4 could not be reached; nothing below covers it." in section
    assert first.reason not in section
    assert page.count("<code>ssh <span>gpu-001</span> true</code>") == 1


def test_the_launches_of_one_case_are_one_line_at_their_median() -> None:
    """The curve says the number that is judged, and not that of one launch."""
    result = RUNS.healthy().result
    first = next(each for each in result.cases if each.case.purpose == "bandwidth")

    def launch(name: str, share: float) -> CaseOutcome:
        (table,) = first.results
        rows = tuple(
            replace(
                row,
                out_of_place=replace(
                    row.out_of_place, busbw_gb_s=share * row.out_of_place.busbw_gb_s
                ),
            )
            for row in table.rows
            if row.out_of_place is not None
        )
        case = replace(first.case, id=name, repeats=first.case.id)
        return replace(first, case=case, results=(replace(table, rows=rows),))

    trials = (launch("trial-2", 0.9), launch("trial-3", 1.2))
    (own,) = sweeps.sweeps(replace(result, cases=(first, *trials)))
    (alone,) = sweeps.sweeps(replace(result, cases=(first,)))
    assert len(own.pieces()) == 1
    assert [point.out_of_place.busbw_gb_s for point in own.points if point.out_of_place] == [
        point.out_of_place.busbw_gb_s for point in alone.points if point.out_of_place
    ]
    assert {point.repetitions for point in own.points} == {3}
