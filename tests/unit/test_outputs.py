"""Copies for machines: files, GitHub's step summary and annotations, the webhook."""

from __future__ import annotations

import argparse
import dataclasses
import email
import email.policy
import json
import os
import runpy
import socketserver
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.cli import outputs
from busbw.errors import UsageError
from busbw.model import RunResult, Status

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
LAST = "busbw: FAIL all_reduce 192/372 GB/s (52%)"


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    outputs.register(parser)
    return parser.parse_args(words)


@pytest.fixture
def result() -> RunResult:
    run_result = RUNS.failing().result
    assert isinstance(run_result, RunResult)
    return run_result


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("junit.xml", "metrics.prom", "summary.md", "report.html"):
        (folder / name).write_text(f"the content of {name}\n")
    return folder


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "BUSBW_WEBHOOK", "BUSBW_MAIL_TO"):
        monkeypatch.delenv(name, raising=False)


def test_files_are_copied_whole_readable_by_others_and_nothing_else_is_left(
    run: Path, result: RunResult, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    args = parsed(
        "--junit",
        str(there / "j.xml"),
        "--prom",
        str(there / "b.prom"),
        "--csv",
        str(there / "b.csv"),
    )
    before = os.umask(0o022)
    try:
        assert outputs.deliver(args, run, result, LAST) == 1
    finally:
        os.umask(before)
    assert {path.name for path in there.iterdir()} == {"j.xml", "b.prom", "b.csv"}
    assert (there / "j.xml").read_text() == "the content of junit.xml\n"
    assert (there / "b.prom").read_text() == "the content of metrics.prom\n"
    assert (there / "b.csv").read_text().startswith("run,emulated,")
    assert stat.S_IMODE((there / "b.prom").stat().st_mode) == 0o644


def test_a_folder_that_is_not_there_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--junit .*no such folder"):
        outputs.check(parsed("--junit", str(tmp_path / "no" / "j.xml")))
    with pytest.raises(UsageError, match="BUSBW_WEBHOOK"):
        outputs.check(parsed("--notify"))


@pytest.mark.parametrize(
    ("verdict", "words", "status"),
    [(Status.WARN, ("--strict",), 1), (Status.WARN, (), 0), (Status.PASS, ("--strict",), 0)],
)
def test_strict_makes_a_warning_fail_and_nothing_else(
    run: Path, result: RunResult, verdict: Status, words: tuple[str, ...], status: int
) -> None:
    well = dataclasses.replace(result, verdict=verdict, exit_status=0)
    assert outputs.deliver(parsed(*words), run, well, LAST) == status


def test_github_gets_the_summary_behind_what_is_there_and_annotations_on_standard_error(
    run: Path,
    result: RunResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = tmp_path / "summary"
    summary.write_text("earlier step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    outputs.deliver(parsed(), run, result, LAST)
    assert summary.read_text() == "earlier step\nthe content of summary.md\n\n"
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 1 <= len(captured.err.splitlines()) <= 10
    assert all(
        line.startswith(("::error title=busbw", "::warning title=busbw", "::notice title=busbw"))
        for line in captured.err.splitlines()
    )


class _Hook(BaseHTTPRequestHandler):
    status = 200
    bodies: list[object]

    def do_POST(self) -> None:
        type(self).bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's own name
        """Quiet."""


@pytest.fixture
def hook() -> Iterator[tuple[str, type[_Hook]]]:
    class Hook(_Hook):
        bodies: list[object] = []  # noqa: RUF012  # of this test alone

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/services/SECRET", Hook
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_webhook_gets_one_small_document(
    run: Path,
    result: RunResult,
    hook: tuple[str, type[_Hook]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BUSBW_WEBHOOK", hook[0])
    outputs.deliver(parsed("--notify"), run, result, LAST)
    assert hook[1].bodies == [
        {
            "text": f"{LAST}\n{result.headline}",
            "verdict": "FAIL",
            "run": result.run_id,
            "exit_status": 1,
        }
    ]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("address", ["refused", "500", "file:///etc/passwd"])
def test_a_webhook_that_fails_is_reported_without_its_address_and_the_verdict_stands(
    address: str,
    run: Path,
    result: RunResult,
    hook: tuple[str, type[_Hook]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hook[1].status = 500
    places = {"refused": "http://127.0.0.1:9/services/SECRET", "500": hook[0]}
    monkeypatch.setenv("BUSBW_WEBHOOK", places.get(address, address))
    assert outputs.deliver(parsed("--notify"), run, result, LAST) == 1
    captured = capsys.readouterr()
    assert "webhook" in captured.err
    assert "SECRET" not in captured.err + captured.out
    assert "passwd" not in captured.err + captured.out


class _Sink(socketserver.StreamRequestHandler):
    """As much of a mail server as takes a letter."""

    letters: list[tuple[str, bytes]]
    refuses = False

    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        recipient = ""
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"RCPT":
                recipient = line.decode().strip().upper()
                if type(self).refuses:
                    self.wfile.write(b"550 relaying denied\r\n")
                    continue
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                body = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    body += part
                type(self).letters.append((recipient, body))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            if word == b"QUIT":
                return


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Sink]]:
    class Sink(_Sink):
        letters: list[tuple[str, bytes]] = []  # noqa: RUF012  # of this test alone

    with socketserver.TCPServer(("127.0.0.1", 0), Sink) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        monkeypatch.setenv("BUSBW_SMTP", f"127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("BUSBW_MAIL_TO", "ops@example.com")
        yield Sink
        server.shutdown()
        thread.join()


def test_a_mail_has_the_diagnosis_as_its_subject_and_the_report_attached(
    run: Path, result: RunResult, sink: type[_Sink], capsys: pytest.CaptureFixture[str]
) -> None:
    assert outputs.deliver(parsed("--notify"), run, result, f"{LAST}\r\nBcc: evil@x") == 1
    ((recipient, content),) = sink.letters
    letter = email.message_from_bytes(content, policy=email.policy.default)
    assert recipient == "RCPT TO:<OPS@EXAMPLE.COM>"
    assert letter["Subject"] == f"{LAST} Bcc: evil@x"
    assert letter["Bcc"] is None
    text, page = letter.iter_parts()  # type: ignore[attr-defined]  # of EmailMessage
    assert (
        text.get_content().replace("\r\n", "\n")
        == f"{result.headline}\n\nthe content of summary.md\n"
    )
    assert (page.get_filename(), page.get_content().replace("\r\n", "\n")) == (
        f"{result.run_id}.html",
        "the content of report.html\n",
    )
    assert capsys.readouterr().err == ""


def test_a_mail_that_is_not_taken_is_reported_and_the_verdict_stands(
    run: Path, result: RunResult, sink: type[_Sink], capsys: pytest.CaptureFixture[str]
) -> None:
    sink.refuses = True
    assert outputs.deliver(parsed("--notify"), run, result, LAST) == 1
    assert "took no mail: SMTPRecipientsRefused" in capsys.readouterr().err
    assert sink.letters == []


def test_the_cluster_is_a_label_of_every_gauge_where_it_is_named(
    run: Path, result: RunResult, tmp_path: Path
) -> None:
    outputs.deliver(
        parsed("--prom", str(tmp_path / "b.prom"), "--cluster", "east"), run, result, LAST
    )
    lines = (tmp_path / "b.prom").read_text().splitlines()
    series = [line for line in lines if not line.startswith("#")]
    assert len(series) > 10
    assert [line for line in series if 'cluster="east"' not in line] == []
