"""The place that a collector wrote beside the line: pod, node or host in the fields of a JSON record.

The records are composed in the forms of the stores that are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli import main

BAD = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LINES = ("step 1", "step 2", BAD)
Json = dict[str, object]


def lines_of(record: Callable[[int, str], Json]) -> str:
    return "".join(json.dumps(record(number, line)) + "\n" for number, line in enumerate(LINES))


def where(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    (tmp_path / "log.json").write_text(text)
    main(["why", str(tmp_path / "log.json"), "--json"])
    found = json.loads(capsys.readouterr().out)["findings"][0]
    assert found["id"] == "cuda-oom"
    return list(found["where"])


def fluent_bit(number: int, line: str) -> Json:
    pod = {"pod_name": f"trainer-{number}", "host": f"gpu-0{number}"}
    return {"date": 1.0 + number, "log": line, "kubernetes": pod}


def filebeat(number: int, line: str) -> Json:
    pod = {"pod": {"name": f"trainer-{number}"}, "node": {"name": f"gpu-0{number}"}}
    return {"@timestamp": "2026-11-16T03:00:01Z", "message": line, "kubernetes": pod}


def journal(number: int, line: str) -> Json:
    return {"MESSAGE": line, "_HOSTNAME": f"gpu-0{number}"}


def open_telemetry(number: int, line: str) -> Json:
    names = {"k8s.pod.name": f"trainer-{number}", "k8s.node.name": f"gpu-0{number}"}
    return {"body": line, "resource": {"attributes": names}}


def docker(number: int, line: str) -> Json:
    return {"log": line + "\n", "stream": "stderr", "attrs": {"node": f"gpu-0{number}"}}


BOTH = ["gpu-02", "pod trainer-2", "rank 3"]
NODE = ["gpu-02", "rank 3"]


@pytest.mark.parametrize(
    ("record", "places"),
    [
        (fluent_bit, BOTH),
        (filebeat, BOTH),
        (open_telemetry, BOTH),
        (journal, NODE),
        (docker, NODE),
    ],
)
def test_records_line_by_line(
    record: Callable[[int, str], Json],
    places: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert where(lines_of(record), tmp_path, capsys) == places


def test_pieces_of_one_line_count_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {"log": "a long", "stream": "stdout", "attrs": {"node": "gpu-00"}}
    rest = {"log": " line\n", "stream": "stdout", "attrs": {"node": "gpu-00"}}
    text = json.dumps(first) + "\n" + json.dumps(rest) + "\n\nnot wrapped\n" + lines_of(docker)
    assert where(text, tmp_path, capsys) == NODE


def test_an_export_of_loki(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    streams = [
        {
            "stream": {"pod": f"trainer-{number}", "node_name": f"gpu-0{number}"},
            "values": [[str(9 - number), line]],
        }
        for number, line in enumerate(LINES)
    ]
    text = json.dumps({"data": {"resultType": "streams", "result": streams}})
    assert where(text, tmp_path, capsys) == BOTH


def test_an_export_of_google_cloud_with_the_newest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        {
            "timestamp": f"2026-11-16T03:00:0{number}Z",
            "textPayload": line,
            "resource": {"labels": {"pod_name": f"trainer-{number}"}},
            "labels": {"compute.googleapis.com/resource_name": f"gpu-0{number}"},
        }
        for number, line in enumerate(LINES)
    ]
    assert where(json.dumps(entries[::-1]), tmp_path, capsys) == BOTH


def test_an_export_of_cloud_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        {"logStreamName": f"trainer-{number}/main", "timestamp": number, "message": line}
        for number, line in enumerate(LINES)
    ]
    text = json.dumps({"events": [{**each, "ingestionTime": 1} for each in events]})
    assert where(text, tmp_path, capsys) == ["log stream trainer-2/main", "rank 3"]


def test_a_record_that_names_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = lines_of(lambda _, line: {"log": line + "\n", "stream": "stderr", "host": "localhost"})
    assert where(text, tmp_path, capsys) == ["rank 3"]
