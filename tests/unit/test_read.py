"""`busbw read`: documents, exit status, CSV, tables for people."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from busbw import cli

HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
    "   algbw   busbw  #wrong \n"
)
ROW = (
    "     8388608       2097152     float     sum      -1    96.41   87.01  163.14       0    95.88"
    "   87.49  164.05       0\n"
)
RANKS = "".join(
    f"#  Rank {rank:2d} Group  0 Pid  {41000 + rank} on     node-{'ab'[rank // 8]} device"
    f" {rank % 8:2d} [0000:{rank:02x}:00] GPU\n"
    for rank in range(16)
)
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 163.595 \n"
GOOD = f"# Collective test starting: all_reduce_perf\n# Using devices\n{RANKS}{HEADER}{ROW}{FOOTER}"
BAD = GOOD.replace("163.14       0", "163.14       5")


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["read", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (
        ("good.log", GOOD),
        ("bad.log", BAD),
        ("cut.log", GOOD[: GOOD.index("# Out")]),
        ("mail.txt", "Dear all,\nit is slow.\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "good.log.gz").write_bytes(gzip.compress(GOOD.encode()))
    return tmp_path


def test_the_document_of_a_table_has_every_promised_key(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = read(capsys, str(files / "good.log"), "--json")
    document = json.loads(out)
    (table,) = document["tables"]
    row = table["rows"][0]
    assert (status, err, document["kind"], document["complete"], document["problems"]) == (
        0,
        "",
        "nccl-tests",
        True,
        [],
    )
    assert {
        key: table[key]
        for key in (
            "collective",
            "nranks",
            "nodes",
            "avg_busbw_gb_s",
            "nccl_version",
            "complete",
            "problems",
        )
    } == {
        "collective": "all_reduce",
        "nranks": 16,
        "nodes": 2,
        "avg_busbw_gb_s": 163.595,
        "nccl_version": None,
        "complete": True,
        "problems": [],
    }
    assert [row[key] for key in ("size_bytes", "count", "type", "redop", "root")] == [
        8388608,
        2097152,
        "float",
        "sum",
        None,
    ]
    assert {
        key: row["in_place"][key] for key in ("time_us", "algbw_gb_s", "busbw_gb_s", "wrong")
    } == {
        "time_us": 95.88,
        "algbw_gb_s": 87.49,
        "busbw_gb_s": 164.05,
        "wrong": 0,
    }


@pytest.mark.parametrize(
    ("name", "status"),
    [("good.log", 0), ("good.log.gz", 0), ("bad.log", 1), ("cut.log", 3), ("mail.txt", 3)],
)
@pytest.mark.parametrize("form", ["--json", "--csv", None])
def test_the_exit_status_is_the_texts_in_every_form(
    name: str, status: int, form: str | None, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(capsys, str(files / name), *([form] if form else []))[0] == status


def test_of_several_texts_the_worst_rules_and_each_has_its_document(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = read(capsys, str(files), "--json")
    documents = json.loads(out)["files"]
    assert [(Path(one["file"]).name, one["kind"], one["complete"]) for one in documents] == [
        ("bad.log", "nccl-tests", True),
        ("cut.log", "nccl-tests", False),
        ("good.log", "nccl-tests", True),
        ("good.log.gz", "nccl-tests", True),
        ("mail.txt", "unknown", False),
    ]
    assert (status, err.count("unknown layout")) == (1, 1)
    assert read(capsys, str(files / "cut.log"), str(files / "good.log"))[0] == 3


def test_an_unknown_text_is_quoted_in_the_document_and_on_standard_error(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = read(capsys, str(files / "mail.txt"), "--json")
    document = json.loads(out)
    told = "unknown layout: no known format in it; it begins with 'Dear all,'"
    assert (status, document["kind"], document["tables"], document["problems"]) == (
        3,
        "unknown",
        [],
        [told],
    )
    first, second = err.splitlines()
    assert first == f"busbw: {files / 'mail.txt'}: {told}"
    assert second.startswith("busbw: next: busbw why FILE ")


def test_a_missing_file_is_an_error_of_usage_and_nothing_is_printed(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = read(capsys, str(files / "nope.log"), "--json")
    assert (status, out) == (2, "")
    assert err.startswith(f"busbw: error: nothing to read at {files / 'nope.log'}\n")


def test_empty_and_binary_texts_are_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"\x7fELF\x02\x01\x01\0\0\0\0")
    _, out, err = read(capsys, str(tmp_path))
    assert "a: unknown layout: the text is empty" in out
    assert "b: unknown layout: binary data that begins with 7f 45 4c 46" in out
    assert err.startswith("busbw: next: busbw why FILE ")


def test_a_damaged_file_is_incomplete_even_if_its_table_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(GOOD.encode())[:-6])
    status, out, _ = read(capsys, str(tmp_path / "a.gz"), "--json")
    document = json.loads(out)
    assert (status, document["complete"], document["tables"][0]["complete"]) == (3, False, True)
    assert document["problems"][-1].startswith("gzip data is damaged or truncated")


def test_csv_has_one_line_per_row_and_placement_and_no_formula(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "=cmd.log").write_text(GOOD)
    _, out, _ = read(capsys, str(files / "=cmd.log"), str(files / "mail.txt"), "--csv")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert [
        (line["placement"], line["size_bytes"], line["busbw_gb_s"], line["wrong"]) for line in lines
    ] == [
        ("out-of-place", "8388608", "163.14", "0"),
        ("in-place", "8388608", "164.05", "0"),
    ]
    assert not any(cell.startswith("=") for line in lines for cell in line.values())


def test_people_see_what_it_is_the_table_the_best_figure_and_the_problems(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = read(capsys, str(files / "bad.log"))
    lines = out.splitlines()
    assert lines[0] == f"{files / 'bad.log'}: nccl-tests table"
    assert lines[1] == "  all_reduce · 16 ranks · 2 nodes · NCCL version not known · complete"
    assert (
        " ".join(lines[4].split())
        == "8388608 float sum - | 96.41 87.01 163.14 5 | 95.88 87.49 164.05 0"
    )
    assert lines[5].startswith("  best busbw out of place 163.14 GB/s at 8388608 B")
    assert (
        lines[6]
        == "  BAD     wrong data: #wrong is not 0 in 1 measurements, first at 8388608 bytes (5"
        " elements)"
    )


def test_of_equal_small_bandwidths_the_best_is_the_size_that_moved_most_in_its_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = (
        "      524288        131072     float     sum      -1    51959    0.01    0.02       0    48171    0.01    0.02       0",
        "     8388608       2097152     float     sum      -1   631068    0.01    0.02       0   621964    0.01    0.02       0",
    )
    header = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong"
    (tmp_path / "slow.out").write_text("\n".join((header, *rows)) + "\n")
    _, out, _ = read(capsys, str(tmp_path / "slow.out"))
    assert "best busbw out of place 0.02 GB/s at 8388608 B" in out


def test_control_characters_of_a_text_are_shown_as_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a\x1b[31m.log").write_text(
        GOOD.replace("GPU\n", "GPU\n", 1).replace(ROW, ROW[:60] + "\x07 \n")
    )
    _, out, err = read(capsys, str(tmp_path / "a\x1b[31m.log"))
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
    assert "␛" in out


def test_a_failure_beside_a_good_table_stands_beside_it_and_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slots = (
        "There are not enough slots available in the system to satisfy the 16\nslots that were"
        " requested by the application:\n\n  app\n"
    )
    dashes = "-" * 74 + "\n"
    (tmp_path / "a.log").write_text(dashes + slots + dashes + GOOD)
    status, out, _ = read(capsys, str(tmp_path / "a.log"), "--json")
    document = json.loads(out)
    assert (status, document["kind"], document["complete"]) == (1, "nccl-tests", True)
    assert "open-mpi" in [other["kind"] for other in document["also"]]


_RUN = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20"
    " agg iters: 1 validation: 1 graph: 0\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
    "   algbw   busbw #wrong\n"
    "     8388608       2097152     float     sum      -1    96.41   87.01  163.14       0"
    "    95.88   87.49  164.05       0\n"
    "node-a: Test NCCL failure common.cu:958 'unhandled system error {}'\n"
)


@pytest.mark.parametrize(
    ("prefix", "words"), [("[1,0]<stdout>:", ""), ("", "x " * 200)], ids=["prefix", "cut"]
)
def test_an_error_is_shown_once_where_its_quote_differs_from_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prefix: str, words: str
) -> None:
    log = tmp_path / "run.log"
    text = _RUN.format(words)
    log.write_text("".join(f"{prefix}{line}\n" for line in text.splitlines()))

    status, out, _ = read(capsys, str(log))

    assert (status, out.count("Test NCCL failure")) == (3, 1)


def test_a_message_of_the_watchdog_is_shown_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "rank3.log"
    log.write_text(
        "[rank3]:[E311 10:00:01.123 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective"
        " operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
        " Timeout(ms)=600000) ran for 600123 milliseconds before timing out.\n"
    )

    status, out, _ = read(capsys, str(log))

    assert (status, out.count("BAD")) == (1, 1)


@pytest.mark.parametrize("columns", [80, 100, 127])
def test_a_table_fits_a_narrow_terminal(files: Path, columns: int) -> None:
    from busbw import intake
    from busbw.cli.read_forms import as_text
    from busbw.cli.read_texts import read_all

    texts = read_all(intake.expand([str(files / "bad.log")]))
    out = as_text(texts, columns).splitlines()
    rows = [line for line in out if " | " in line]
    assert rows == [
        "                 |         out of place          |           in place           ",
        "          size B |     time µs busbw GB/s  wrong |     time µs busbw GB/s  wrong",
        "         8388608 |       96.41     163.14      5 |       95.88     164.05      0",
    ]
    assert "  float · sum" in out
    assert all(len(line) <= columns for line in out if str(files) not in line)
    (wide,) = (
        line for line in as_text(texts, 128).splitlines() if line.startswith("         8388608")
    )
    assert wide.split()[1:4] == ["float", "sum", "-"]
