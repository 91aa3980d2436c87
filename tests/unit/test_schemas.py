"""The published JSON Schemas are the ones that the records make, and real documents are valid
against them."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

from busbw import cli
from busbw.codec import dump_json
from busbw.errors import ReadError

DOCS = Path(__file__).parents[2] / "docs" / "schemas"
RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def published(document: str) -> Draft202012Validator:
    schema = json.loads((DOCS / f"{document}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def problems(document: str, text: str) -> list[str]:
    return [
        f"{'/'.join(map(str, error.path))}: {error.message[:200]}"
        for error in published(document).iter_errors(json.loads(text))
    ]


@pytest.mark.parametrize("document", ["run", "check"])
def test_the_published_schema_is_what_the_command_prints(
    document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["schema", document]) == 0
    assert capsys.readouterr().out == (DOCS / f"{document}.schema.json").read_text(
        encoding="utf-8"
    ), f"made anew by: busbw schema {document} > docs/schemas/{document}.schema.json"


@pytest.mark.parametrize(
    "name", ["healthy", "failing", "unreachable", "emulated", "stalled", "acceptance", "hostile"]
)
def test_composed_results_are_valid(name: str) -> None:
    assert problems("run", dump_json(getattr(RUNS, name)().result)) == []


def test_what_a_real_check_of_this_machine_leaves_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [*os.environ]:
        if name.startswith(("BUSBW_", "SLURM_")):
            monkeypatch.delenv(name)
    here = os.uname().nodename.partition(".")[0]
    assert cli.main(["check", "--transport", "local", "-w", here, "-p", "tcp", "-q"]) in (0, 1, 3)
    assert cli.main(["report", "runs/latest", "-q"]) in (0, 1, 3)
    capsys.readouterr()
    run = tmp_path / "runs" / "latest"
    for document, file in (("check", "check.json"), ("run", "run.json")):
        assert problems(document, (run / file).read_text(encoding="utf-8")) == [], file


@pytest.mark.parametrize(
    ("here", "instead"),
    [
        ('"verdict": "FAIL"', '"verdict": "GOOD"'),
        ('"exit_status": 1', '"exit_status": "one"'),
        ('"nodes": [', '"knots": ['),
    ],
)
def test_what_is_no_result_is_refused(here: str, instead: str) -> None:
    text = dump_json(RUNS.failing().result)
    assert here in text
    assert problems("run", text.replace(here, instead, 1)) != []


def test_the_project_itself_reads_what_it_publishes() -> None:
    from busbw.codec import parse_json
    from busbw.model import RunResult

    result = RUNS.stalled().result
    assert parse_json(dump_json(result).encode(), RunResult, "run.json", error=ReadError) == result
