"""The catalogue: every entry against its own lines, and what holds between entries."""

import re
import shlex

import pytest

from busbw.cli import build_parser
from busbw.errors import ReadError
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Entry, Role, Signal, Weight
from busbw.parsers.logs import scan_sieve

TABLE = catalogue.load()
LINES = [
    pytest.param(symptom, signal, line, id=f"{symptom.id}-{number}")
    for symptom in TABLE.entries
    for number, signal in enumerate(symptom.signals)
    for line in signal.matches
]
REJECTED = [
    pytest.param(symptom, signal, line, id=f"{symptom.id}-{number}")
    for symptom in TABLE.entries
    for number, signal in enumerate(symptom.signals)
    if signal.regex is not None and signal.weight is not Weight.EXCLUDES
    for line in symptom.rejects
]
BROKEN = (
    "- id: x\n  title: t\n  stage: init\n  fabrics: [any]\n  severity: low\n  role: cause\n "
    " signals:\n  - {source: nccl-log, weight: strong}\n"
)
TAIL = "  rejects: []\n  cause: c\n  explanation: e\n  fix: []\n  verify: []\n  trust: t\n"


@pytest.mark.parametrize(("symptom", "signal", "line"), LINES)
def test_a_signal_matches_the_lines_it_must(symptom: Entry, signal: Signal, line: str) -> None:
    assert signal.regex is not None, "only a regex has lines to match"
    assert catalogue.compiled(signal.regex).search(line), (
        f"{symptom.id}: {signal.regex!r} does not match {line!r}"
    )


@pytest.mark.parametrize(("symptom", "signal", "line"), REJECTED)
def test_a_signal_does_not_match_the_lines_of_what_it_is_confused_with(
    symptom: Entry, signal: Signal, line: str
) -> None:
    assert signal.regex is not None
    assert not catalogue.compiled(signal.regex).search(line), (
        f"{symptom.id}: {signal.regex!r} matches {line!r}"
    )


def test_every_regex_has_a_line_it_must_match_and_its_entry_one_it_must_not() -> None:
    for symptom in TABLE.entries:
        wanted = [
            signal
            for signal in symptom.signals
            if signal.regex is not None and signal.weight is not Weight.EXCLUDES
        ]
        assert all(signal.matches for signal in symptom.signals if signal.regex is not None), (
            symptom.id
        )
        assert symptom.rejects or not wanted, symptom.id


def test_every_regex_needs_some_text_so_that_gigabytes_can_be_searched() -> None:
    for symptom in TABLE.entries:
        for signal in symptom.signals:
            if signal.regex is not None:
                for branch in scan_sieve.branches_of([signal.regex]):
                    assert branch.literals, f"{symptom.id}: {branch.text}"
                    assert all(len(literal.strip()) > 2 for literal in branch.literals), (
                        f"{symptom.id}: {branch.text} needs only {branch.literals}"
                    )


def test_every_entry_says_why_and_what_to_do_with_a_known_right() -> None:
    known = {
        "user",
        "root",
        "switch-admin",
        "fabric-admin",
        "cloud-admin",
        "datacenter-hands",
        "app-owner",
        "scheduler-admin",
    }
    stages = {
        "build",
        "launch",
        "preflight",
        "init",
        "bandwidth",
        "latency",
        "variance",
        "correctness",
        "stall",
    }
    for symptom in TABLE.entries:
        assert symptom.fix or symptom.settle, symptom.id
        assert {step.needs for step in symptom.fix} <= known, symptom.id
        assert {symptom.stage, *symptom.also_stages} <= stages, symptom.id
        assert symptom.cause.strip(), symptom.id
        own = symptom.role in (Role.FINDING, Role.CHECK)
        assert own or (symptom.references and symptom.severity), symptom.id
        assert not (own and symptom.signals), symptom.id
        dotted = (
            r"[a-z]+(?:\.[a-z_]+)+" if symptom.role is Role.CHECK else r"[a-z0-9]+(?:-[a-z0-9]+)*"
        )
        assert re.fullmatch(dotted, symptom.id)


def test_no_entry_explains_itself() -> None:
    assert [symptom.id for symptom in TABLE.entries if symptom.id in symptom.explains] == []


def test_an_unknown_id_is_answered_with_the_likely_one() -> None:
    with pytest.raises(KeyError, match="did you mean 'duplicate-gpu'"):
        TABLE.get("duplicate-gpus")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BROKEN + TAIL, "x: a signal has either regex or expr"),
        (BROKEN.replace("strong", "strong, expr: 'busbw <'") + TAIL, "x: expected NAME OP VALUE"),
        (
            BROKEN.replace("strong", "strong, regex: abc").replace(
                "role: cause", "role: cause\n  explains: [duplicate-gp]"
            )
            + TAIL,
            "unknown finding",
        ),
        (BROKEN.partition("  signals:")[0] + TAIL, "x: a cause needs signals"),
    ],
)
def test_an_entry_that_is_wrong_is_refused_with_its_id(text: str, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        catalogue.assemble(catalogue.parse(text, "x.yaml"))
    assert message in str(caught.value)


def test_an_unknown_key_is_told_with_its_place() -> None:
    with pytest.raises(ReadError, match=r"x\.yaml:6:3: .*unknown key 'rolle'"):
        catalogue.parse((BROKEN + TAIL).replace("role:", "rolle:"), "x.yaml")


def test_every_busbw_command_in_a_fix_is_one_that_busbw_takes() -> None:
    parser = build_parser()
    for symptom in TABLE.entries:
        lines = [line for step in symptom.fix for line in step.run] + list(symptom.settle)
        for line in lines:
            words = shlex.split(line)
            if words[0] != "busbw":
                continue
            parsed = parser.parse_args(words[1:])
            explained = parsed.what[0] if parsed.command == "why" and parsed.what else "LOG"
            assert explained in TABLE.by_id or "-" not in explained, f"{symptom.id}: {line}"


def test_every_entry_that_a_fix_points_to_explains_that_fix_s_entry() -> None:
    """`busbw why X` in a fix says: look there for the cause."""
    missing = []
    for symptom in TABLE.entries:
        for step in symptom.fix:
            for name in re.findall(r"busbw why ([\w.-]+)", " ".join((step.do, *step.run))):
                if name in TABLE.by_id and symptom.id not in TABLE.consequences[name]:
                    missing.append(f"{name} explains {symptom.id}")
    assert missing == []
