"""Logs that a store exported as JSON are read like the logs, by `busbw read` and `busbw why`.

The documents are composed after the examples in the manuals of Grafana Loki, Google Cloud, AWS,
Elasticsearch and Splunk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw import cli, intake
from busbw.cli import read_texts
from busbw.parsers.logs import exports

FIXTURES = Path(__file__).parent.parent / "fixtures"
TABLE = (FIXTURES / "nccl_tests" / "printer-2.19.6-C.txt").read_text()
WRONG = TABLE.replace("# Out of bounds values : 0 OK", "# Out of bounds values : 7 FAILED")
assert WRONG != TABLE
FIRST_NS = 1_783_674_000_000_000_000
Stamped = list[tuple[int, str]]
"""Nanoseconds and lines, the oldest first."""


def iso(time_ns: int) -> str:
    seconds, rest = divmod(time_ns - FIRST_NS, 10**9)
    decimals = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"2026-07-10T09:{seconds // 60:02d}:{seconds % 60:02d}{decimals}Z"


def loki(lines: Stamped) -> str:
    """Two streams of one pod, as a level that Loki detects makes them; the newest line first."""
    streams = []
    for part in (0, 1):
        values = [[str(time), line] for time, line in lines[part::2]]
        labels = {"pod": "nccl-0", "detected_level": ("info", "unknown")[part]}
        streams.append({"stream": labels, "values": values[::-1]})
    return json.dumps(
        {"status": "success", "data": {"resultType": "streams", "result": streams, "stats": {}}}
    )


def gcloud(lines: Stamped) -> str:
    entries = []
    for time, line in lines:
        where = {"type": "k8s_container", "labels": {"pod_name": "nccl-0"}}
        entries.append(
            {"insertId": "x", "resource": where, "textPayload": line, "timestamp": iso(time)}
        )
    return json.dumps(entries[::-1], indent=2)


def gcloud_payloads(lines: Stamped) -> str:
    entries = [{"jsonPayload": {"message": line}, "timestamp": iso(at)} for at, line in lines]
    return json.dumps({"entries": entries[::-1]})


def cloudwatch(lines: Stamped) -> str:
    """Times in milliseconds: several lines have one."""
    events = [
        {"timestamp": at // 10**6, "message": line, "ingestionTime": at // 10**6 + 900}
        for at, line in lines
    ]
    return json.dumps({"events": events, "nextForwardToken": "f/1"}, indent=4)


def insights(lines: Stamped) -> str:
    rows = []
    for at, line in lines:
        fields = {"@timestamp": iso(at), "@message": line, "@ptr": "x"}
        rows.append([{"field": name, "value": value} for name, value in fields.items()])
    return json.dumps({"results": rows[::-1], "status": "Complete"})


def elastic(lines: Stamped) -> str:
    hits = [{"_index": "k8s", "_source": {"@timestamp": iso(at), "message": x}} for at, x in lines]
    return json.dumps({"took": 3, "hits": {"total": {"value": len(lines)}, "hits": hits}})


def grafana(lines: Stamped) -> str:
    return json.dumps([{"line": x, "timestamp": str(at), "fields": {}} for at, x in lines[::-1]])


def pages(lines: Stamped) -> str:
    middle = len(lines) // 2
    return cloudwatch(lines[:middle]) + "\n" + cloudwatch(lines[middle:])


def google_lines(lines: Stamped) -> str:
    return "".join(
        json.dumps({"textPayload": line, "timestamp": iso(at)}) + "\n" for at, line in lines
    )


def docker_lines(lines: Stamped) -> str:
    return "".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": iso(at)}) + "\n"
        for at, line in lines
    )


def splunk_lines(lines: Stamped) -> str:
    return "".join(
        json.dumps({"preview": False, "result": {"_raw": line, "_time": iso(at)}}) + "\n"
        for at, line in lines
    )


FORMS: tuple[Callable[[Stamped], str], ...] = (
    loki, gcloud, gcloud_payloads, cloudwatch, insights, elastic, grafana, pages, google_lines, docker_lines, splunk_lines,
)  # fmt: skip
WHOLE = FORMS[:8]


def stamped(text: str) -> Stamped:
    return [(FIRST_NS + at * 300_000, line) for at, line in enumerate(text.splitlines())]


@pytest.mark.parametrize("form", FORMS)
def test_a_table_in_an_export_is_whole(tmp_path: Path, form: Callable[[Stamped], str]) -> None:
    plain, exported = tmp_path / "plain.txt", tmp_path / "exported.json"
    plain.write_text(TABLE)
    exported.write_text(form(stamped(TABLE)))
    expected = read_texts.read_one(intake.Source("x", plain))
    assert read_texts.read_one(intake.Source("x", exported)) == expected
    assert expected.documents[0].complete


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("form", FORMS)
def test_wrong_data_in_an_export_is_reported_by_both_commands(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: Callable[[Stamped], str],
    command: str,
) -> None:
    path = tmp_path / "out.json"
    path.write_text(form(stamped(WRONG)))
    status, out = cli.main([command, str(path)]), capsys.readouterr().out
    assert status == 1, out
    assert ("Out of bounds values : 7" if command == "read" else "data-corruption") in out


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("form", WHOLE)
def test_an_export_that_is_cut_off_never_passes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: Callable[[Stamped], str],
    command: str,
) -> None:
    text = form(stamped(TABLE))
    path = tmp_path / "out.json"
    path.write_text(text[: len(text.rstrip()) - 2])
    status, out = cli.main([command, str(path)]), capsys.readouterr().out
    assert status == 3, out
    assert "truncated" in out


def test_lines_of_several_pods_are_kept_apart(tmp_path: Path) -> None:
    events = []
    for at, line in stamped(TABLE):
        for pod in ("nccl-0", "nccl-1"):
            events.append({"logStreamName": pod, "timestamp": at, "message": line})
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"events": events}))
    (document,) = read_texts.read_one(intake.Source("x", path)).documents
    assert [record.complete for record in document.records] == [True, True]  # type: ignore[attr-defined]  # results


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1, 2]",
        '[{"log":"x"}]',
        '{"events": [{"id": 1, "time": 5}]}',
        '{"entries": [{"state": "completed", "time": 1}]}',
        '{"data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"]]}]}}',
        "plain text\n",
    ],
)
def test_other_documents_stay_as_they_are(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert b"".join(intake.Source("x", path).open()) == text.encode()


def test_an_export_larger_than_the_limit_is_given_as_it_is_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text(gcloud(stamped("line\n" * 9000)))
    monkeypatch.setattr(exports, "MOST_BYTES", 200_000)
    reading = intake.Source("x", path).open()
    assert b"".join(reading) == path.read_bytes()
    assert reading.problem == "more than 0 MiB of JSON: no log lines looked for in it"
