"""Several JSON documents in one text are all read and judged, by `busbw read` and `busbw why`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from busbw import cli, intake
from busbw.cli import read_texts
from busbw.parsers.logs import Document
from busbw.parsers.logs.json_values import values
from busbw.parsers.nccl_tests import rccl, results_json

FIXTURES = Path(__file__).parent.parent / "fixtures"
GOOD = (FIXTURES / "nccl_tests" / "printer-2.19.6-C.json").read_text()
WRONG_ROW = '"nwrong":7.000000'
BAD = WRONG_ROW.join(GOOD.rsplit('"nwrong":0.000000', 1))
assert GOOD != BAD
PRETTY = json.dumps(json.loads(BAD), indent=2)
CUT = BAD[: len(BAD) * 2 // 3]
TABLE = (FIXTURES / "nccl_tests" / "printer-2.19.6-C.txt").read_text()

TEXTS = {
    "one after another": f"{GOOD}\n{BAD}\n",
    "pretty-printed": f"{GOOD}\n{PRETTY}\n",
    "glued": GOOD + BAD,
    "list": f"[{GOOD},{BAD}]",
    "in an object": f'{{"runs":[{GOOD},{BAD}]}}',
    "behind a log line with a date": f"[2026-11-20 10:00:00] start {{fast}}\n{GOOD}\n{BAD}",
    "behind one without": f"node-a: start\n{BAD}",
    "between lines": f"{GOOD}\n-- second --\n{BAD}\n-- end --\n",
    "behind a whole table": f"{TABLE}\n{BAD}\n",
    "far behind the start": "node-a:1:2 [0] NCCL INFO Connected all rings\n" * 90_000 + BAD,
}


def status_of(command: str, path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.main([command, str(path)])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("form", TEXTS)
def test_wrong_data_of_any_document_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, command: str
) -> None:
    path = tmp_path / "out.json"
    path.write_text(TEXTS[form])
    status, out = status_of(command, path, capsys)
    assert status == 1, out
    assert ("7 elements" if command == "read" else "data-corruption") in out


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("text", [f"{GOOD}\n{CUT}", f"{CUT}\n{GOOD}", f"[{GOOD},{CUT}"])
def test_a_document_that_is_cut_is_named_wherever_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, command: str
) -> None:
    text = text.replace(WRONG_ROW, '"nwrong":0.000000')
    path = tmp_path / "out.json"
    path.write_text(text)
    status, out = status_of(command, path, capsys)
    assert status == 3, out
    assert ("no end" if command == "read" else "incomplete") in out


def test_each_good_document_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text(f"{GOOD}\n{GOOD}\n")
    (text,) = read_texts.read_all([intake.Source("out.json", path)])
    (document,) = text.documents
    assert (len(document.records), read_texts.exit_status([text])) == (2, 0)


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
def test_chunks_may_end_anywhere(size: int) -> None:
    data = f"start\n{GOOD}\n[2] {{x}}\n{BAD}".encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert results_json.parse_all(chunks) == results_json.parse_all(data)
    assert len(results_json.parse_all(data)) == 2


def test_a_log_line_behind_a_good_document_is_judged_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "NET/IB : Got completion from peer 10.0.0.2<47001> with error 12, opcode 0, len 0"
    path = tmp_path / "out.json"
    path.write_text(f"{GOOD}\ngpu1:41:42 [0] transport/net_ib.cc:95 NCCL WARN {warning}\n")
    assert status_of("read", path, capsys)[0] == 1
    assert status_of("why", path, capsys)[0] == 1


def test_two_lists_of_rccl_records_are_one_file() -> None:
    record = (
        '{{"numCycle":0,"name":"{name}","nodes":1,"ranks":2,"ranksPerNode":2,"gpusPerRank":1,'
        '"size":1048576,"type":"float","redop":"sum","inPlace":0,"time":61.2,"algBw":17.133595,'
        '"busBw":17.133595,"wrong":"{wrong}"}}'
    )
    good = f"[{record.format(name='AllReduce', wrong=0)}]"
    bad = f"[{record.format(name='AllReduce', wrong=3)}]"
    (result,) = rccl.parse(f"{good}\n{bad}\n")
    assert len(result.rows) == 2
    assert result.faults == (
        "wrong data: #wrong is not 0 in 1 measurements, first at 1048576 bytes (3 elements)",
    )


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        (
            (FIXTURES / "bandwidth" / "iperf3-tcp.json").read_text(),
            (FIXTURES / "bandwidth" / "iperf3-refused.json").read_text(),
            "Connection refused",
        ),
        (
            (FIXTURES / "bandwidth" / "nvbandwidth.json").read_text(),
            '{"nvbandwidth": {"error": "no device was found"}}',
            "no device was found",
        ),
    ],
    ids=["iperf3", "nvbandwidth"],
)
@pytest.mark.parametrize("join", ["{}\n{}\n".format, "{}{}".format], ids=["lines", "glued"])
def test_a_tools_second_document_is_judged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    good: str,
    bad: str,
    problem: str,
    join: Callable[[str, str], str],
) -> None:
    path = tmp_path / "tool.json"
    path.write_text(join(good, bad))
    for command in ("read", "why"):
        status, out = status_of(command, path, capsys)
        assert status in ((1,) if command == "read" else (1, 3)), out
        assert problem in out or command == "why"


def test_values_never_take_time_by_the_square_of_brackets() -> None:
    deep = "[" * 100_000
    assert [value.tree for value in values(f"{deep}\n[1]")] == [None, [1]]
    assert sum(1 for _ in values("[1," * 50_000)) < 50


@pytest.mark.parametrize("command", ["read", "why"])
def test_a_log_without_documents_is_not_read_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    chunks_read = []
    real = results_json.read

    def counting(chunks: Iterable[bytes]) -> Document:
        chunks_read.append(chunks)
        return real(chunks)

    monkeypatch.setattr(results_json, "read", counting)
    path = tmp_path / "out.log"
    path.write_text('{"log":"start"}\n{"msg":"config"}\n' + TABLE)
    assert cli.main([command, str(path)]) == 0
    assert not chunks_read
    path.write_text(f"{TABLE}\n{GOOD}")
    assert cli.main([command, str(path)]) == 0
    assert len(chunks_read) == 1
