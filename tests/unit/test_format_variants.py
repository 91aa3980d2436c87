"""Every output in tests/fixtures/format_texts, in every way in which it arrives, is read rightly or refused with
the right exit status: `busbw read` itself, never a silent pass."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from format_texts.arriving import Case, Output
from format_texts.benchmarks import BENCHMARKS
from format_texts.collectives import MSCCLPP, RCCL
from format_texts.every import ALL, NODE_TOOLS, OUTPUTS
from format_texts.flight_recorder import FLIGHT_RECORDER

from busbw import cli


@pytest.mark.parametrize(("name", "case"), ALL, ids=[f"{name}: {case.name}" for name, case in ALL])
def test_it_is_read_rightly_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, case: Case
) -> None:
    path = tmp_path / "output.txt"
    path.write_bytes(case.data)
    status = cli.main(["read", str(path)])
    out = capsys.readouterr().out
    assert status in case.statuses, out
    if status == case.statuses[0]:
        for words in case.shows:
            assert words in out
    elif status != 0:
        assert out.strip()


@pytest.mark.parametrize("output", OUTPUTS, ids=[output.name for output in OUTPUTS])
def test_a_text_that_is_cut_is_never_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: Output
) -> None:
    data = output.good.encode()
    path = tmp_path / "output.txt"
    for at in random.Random(11).sample(range(20, len(data)), 12):
        # What stands behind the last number may be missing, and whole lines at the end.
        if len(re.findall(rb"\d", data[at:])) > 1 and b"\n" not in data[at - 1 : at + 1]:
            path.write_bytes(data[:at])
            assert cli.main(["read", str(path)]) in (1, 3), (at, capsys.readouterr().out)


@pytest.mark.parametrize("output", NODE_TOOLS, ids=[output.name for output in NODE_TOOLS])
def test_a_failure_is_found_beside_any_other_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: Output
) -> None:
    path = tmp_path / "output.txt"
    for other in NODE_TOOLS:
        for _, failed, says in other.failed[:1]:
            for text in (f"{output.good}\n{failed}", f"{failed}\n{output.good}"):
                path.write_text(text)
                capsys.readouterr()
                assert cli.main(["read", str(path)]) == 1, (other.name, text)
                assert says in capsys.readouterr().out


@pytest.mark.parametrize("output", BENCHMARKS, ids=[output.name for output in BENCHMARKS])
def test_a_benchmarks_failure_is_found_beside_another_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: Output
) -> None:
    path = tmp_path / "output.txt"
    for other in (NODE_TOOLS[0], NODE_TOOLS[-1], BENCHMARKS[0], BENCHMARKS[3]):
        for _, failed, says in output.failed[:1]:
            for text in (f"{other.good}\n{failed}", f"{failed}\n{other.good}"):
                path.write_text(text)
                capsys.readouterr()
                assert cli.main(["read", str(path)]) == 1, (other.name, text)
                assert says in capsys.readouterr().out


@pytest.mark.parametrize("other", [FLIGHT_RECORDER, RCCL, MSCCLPP], ids=lambda output: output.name)
def test_what_stands_alone_is_named_behind_a_tools_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: Output
) -> None:
    path = tmp_path / "output.txt"
    for output in NODE_TOOLS:
        path.write_text(f"{output.good}\n{other.good}")
        capsys.readouterr()
        assert cli.main(["read", str(path)]) == 3, output.name
        assert "not read" in capsys.readouterr().out
