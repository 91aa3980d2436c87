"""`busbw expect --update` and `--submit`: rows come with their origin and hash, nothing is replaced
silently, what cannot be checked is refused, and a submitted run names nothing of the site."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from planted import healthy

from busbw.building import download
from busbw.cli import expect_table, main
from busbw.codec import parse_json
from busbw.parsers.expect import figures
from busbw.store import own_figures
from busbw.store.own_figures import OwnFigures

ROW = """\
- id: mine-1
  grade: good
  collective: all_reduce
  gpu: H100
  gpus_per_node: 8
  nodes: 8
  nics: {count: 8, rate_gbit_s: 400}
  fabric: infiniband
  size_bytes: 8589934592
  busbw_gb_s: {typical: 371.5}
  source: {title: "our second hall", date: "2026-11-01"}
"""
QUESTION = ["expect", "--gpu", "H100", "--nodes", "8", "--nics", "8x400", "--fabric", "infiniband"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own table, at its usual place."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "busbw" / "figures.json"


def update(tmp_path: Path, text: str, *more: str) -> int:
    (tmp_path / "rows.yaml").write_text(text)
    return main(["expect", "--update", str(tmp_path / "rows.yaml"), *more])


def test_rows_are_added_with_origin_hash_and_date_and_are_shown_with_the_ages_of_the_tables(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(QUESTION)
    before = capsys.readouterr().out
    assert f"table: shipped, {len(figures.load().published)} published rows, as of" in before
    assert "your own" not in before
    assert update(tmp_path, ROW) == 0
    assert capsys.readouterr().out.startswith("added   mine-1  all_reduce H100 371.5 GB/s; our")
    own = parse_json(home.read_bytes(), OwnFigures)
    (entry,) = own.updates
    assert entry.sha256 == hashlib.sha256(ROW.encode()).hexdigest()
    assert (entry.origin, entry.ids) == (str(tmp_path / "rows.yaml"), ("mine-1",))
    assert main(QUESTION) == 0
    after = capsys.readouterr().out
    assert "our second hall, 2026-11-01" in after
    assert f"table: your own, 1 row, updated on {entry.at[:10]} (0 days old)" in after


def test_the_age_of_a_table_is_counted_in_days(monkeypatch: pytest.MonkeyPatch) -> None:
    day = datetime.date.today() - datetime.timedelta(days=40)
    assert expect_table._age(day.isoformat()) == "40 days old"
    newest = max(row.source.date or "" for row in figures.load().published)
    assert newest[:10] <= figures.AS_OF, "the shipped tables are newer than their date"


def test_a_changed_row_is_shown_and_replaced_only_on_request(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    update(tmp_path, ROW)
    first = home.read_bytes()
    assert update(tmp_path, ROW) == 0
    assert home.read_bytes() == first, "the same rows write nothing"
    capsys.readouterr()
    other = ROW.replace("371.5", "350.0")
    assert update(tmp_path, other) == 2
    printed = capsys.readouterr()
    assert "changed mine-1  busbw_gb_s: typical 371.5 → typical 350.0" in printed.out
    assert "1 row would be replaced: mine-1" in printed.err
    assert home.read_bytes() == first
    assert update(tmp_path, other, "--replace") == 0
    own = parse_json(home.read_bytes(), OwnFigures)
    assert [each.ids for each in own.updates] == [("mine-1",), ("mine-1",)]
    assert own.rows[0].busbw_gb_s == figures.Spread(typical=350.0)


SHIPPED = figures.load().published[0].id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROW.replace("mine-1", SHIPPED), "is the id of a shipped row"),
        (ROW + ROW, "stands twice"),
        (ROW.replace("{typical: 371.5}", "{typical: -1}"), "has no busbw_gb_s above 0"),
        (ROW.replace("  busbw_gb_s: {typical: 371.5}\n", ""), "has no busbw_gb_s above 0"),
        (ROW.replace("H100", "H1000"), "has a GPU that no table knows: H1000"),
        (ROW.replace("all_reduce", "all_reduse"), "has an unknown collective"),
        (ROW.replace("nodes: 8", "knots: 8"), "knots"),
        (ROW.replace('  source: {title: "our second hall", date: "2026-11-01"}\n', ""), "source"),
        ("just text", "rows.yaml"),
    ],
)
def test_what_could_never_match_or_hides_its_source_is_refused_and_nothing_is_written(
    text: str, message: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert update(tmp_path, text) == 2
    assert message in capsys.readouterr().err
    assert not home.exists()


def test_a_table_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(ROW.replace("mine-1", f"mine-{number}") for number in range(2500))
    assert len(rows) < own_figures.MOST_BYTES
    assert update(tmp_path, rows) == 2
    assert "1,048,576 at most" in capsys.readouterr().err
    assert not home.exists()


def test_the_words_of_a_row_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title = "\\e]0;x\\a\\e[2J\\u202e"
    assert update(tmp_path, ROW.replace("our second hall", title)) == 0
    assert main(QUESTION) == 0
    printed = capsys.readouterr().out
    assert "␛]0;x␇␛[2J⟨U+202E⟩" in printed.partition("your own")[0]
    assert not {"\x1b", "\a", "\u202e"} & set(printed)


def test_a_large_file_and_a_plain_address_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert update(tmp_path, f"# {'x' * own_figures.MOST_BYTES}\n{ROW}") == 2
    assert "more than 1048576" in capsys.readouterr().err
    for address in (
        "http://127.0.0.1:9/x.yaml",
        "git+https://127.0.0.1/x.git",
        "file:///etc/passwd",
    ):
        assert main(["expect", "--update", address]) == 2
        assert "not an https address" in capsys.readouterr().err


def test_an_address_that_does_not_answer_is_reported_of_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["expect", "--update", "https://127.0.0.1:9/x.yaml"]) == 2
    told = capsys.readouterr().err
    assert "figures cannot be fetched from https://127.0.0.1:9/x.yaml" in told
    assert "nccl-tests" not in told


@contextlib.contextmanager
def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an https server on loopback that serves the folder, trusted here."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    try:
        command = [*argv, "-keyout", str(key), "-out", str(cert), *name]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl here to make a certificate")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        try:
            yield f"https://localhost:{server.server_address[1]}"
        finally:
            server.shutdown()


def test_an_https_address_is_taken_with_its_hash_and_refused_with_another(
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "rows.yaml").write_text(ROW)
    digest = hashlib.sha256(ROW.encode()).hexdigest()
    with served(tmp_path, monkeypatch) as address:
        assert main(["expect", "--update", f"{address}/rows.yaml#sha256={'0' * 64}"]) == 2
        assert "another SHA-256" in capsys.readouterr().err
        assert main(["expect", "--update", f"{address}/none.yaml"]) == 2
        assert "HTTP 404" in capsys.readouterr().err
        assert not home.exists()
        assert main(["expect", "--update", f"{address}/rows.yaml#sha256={digest}"]) == 0
        monkeypatch.setattr(own_figures, "MOST_BYTES", 100)
        assert main(["expect", "--update", f"{address}/rows.yaml", "--table", "t.json"]) == 2
    assert parse_json(home.read_bytes(), OwnFigures).rows[0].id == "mine-1"


def test_a_run_that_passed_is_submitted_as_rows_that_an_update_takes(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = healthy().written(tmp_path / "runs").path
    assert main(["expect", "--submit", str(run)]) == 0
    text = capsys.readouterr().out
    rows = {row["collective"]: row for row in json.loads(text)}
    assert set(rows) == {"all_reduce", "alltoall"}
    row = rows["all_reduce"]
    assert (row["gpu"], row["nodes"], row["gpus_per_node"]) == ("H100", 4, 8)
    assert row["nics"] == {"count": 8, "rate_gbit_s": 400.0}
    assert (row["size_bytes"], row["busbw_gb_s"]["typical"]) == (8 << 30, 348.55)
    assert [name for name in ("node1", "node2", run.name, "mlx5") if name in text] == []
    assert update(tmp_path, text) == 0
    assert len(parse_json(home.read_bytes(), OwnFigures).rows) == 2


def test_a_run_that_failed_is_no_reference_for_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = healthy()
    recording.outcome("all-reduce", exit_status=1)
    run = recording.written(tmp_path / "runs").path
    assert main(["expect", "--submit", str(run)]) == 2
    assert "is no reference for others" in capsys.readouterr().err


def test_a_table_of_another_version_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.json"
    table.write_text('{"schema": "busbw.figures/9", "updates": [], "rows": []}')
    assert main([*QUESTION, "--table", str(table)]) == 2
    assert "busbw.figures/9" in capsys.readouterr().err


def test_the_limit_of_a_download_is_that_of_the_caller() -> None:
    assert "1 MiB" in str(download._too_large("https://x", 1 << 20).seen)
