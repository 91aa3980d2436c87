"""tar and zip archives are read file by file by `busbw read` and `busbw why`: nothing is written, no
link is followed, and what cannot be read is named."""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw import archives, cli, intake

FIXTURES = Path(__file__).parent.parent / "fixtures"
TABLE = (FIXTURES / "nccl_tests" / "printer-2.19.6-C.txt").read_bytes()
WRONG = TABLE.replace(b"# Out of bounds values : 0 OK", b"# Out of bounds values : 7 FAILED")
Files = dict[str, bytes]


def tar(files: Files, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zipped(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


FORMS: dict[str, Callable[[Files], bytes]] = {
    "tar": tar,
    "GNU tar": lambda files: tar(files, tarfile.GNU_FORMAT),
    "tgz": lambda files: gzip.compress(tar(files)),
    "tar.bz2": lambda files: bz2.compress(tar(files)),
    "tar.xz": lambda files: lzma.compress(tar(files)),
    "zip": zipped,
}


def contents(path: Path) -> dict[str, bytes]:
    """What each source gives, by its name below the archive."""
    texts = {}
    for source in intake.expand([str(path)]):
        texts[source.name.removeprefix(f"{path}/")] = b"".join(source.open())
    return texts


@pytest.mark.parametrize("form", FORMS)
def test_every_file_of_an_archive_is_a_text(tmp_path: Path, form: str) -> None:
    path = tmp_path / "logs.bin"
    long = "n" * 150 + "/rank0.log"
    files = {"b/rank1.log": b"one\n", long: b"zero\n", "b/rank2.log.gz": gzip.compress(b"two\n")}
    path.write_bytes(FORMS[form]({**files, ".hidden": b"x", "a/._b": b"x"}))
    assert contents(path) == {**files, "b/rank2.log.gz": b"two\n"}
    assert list(tmp_path.iterdir()) == [path], "nothing is written"


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("form", FORMS)
def test_wrong_data_in_an_archive_is_reported_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, command: str
) -> None:
    path = tmp_path / "logs.bin"
    path.write_bytes(FORMS[form]({"good.txt": TABLE, "sub/bad.txt": WRONG}))
    status, out = cli.main([command, str(path)]), capsys.readouterr().out
    assert status == 1, out
    assert "sub/bad.txt" in out
    path.write_bytes(FORMS[form]({"good.txt": TABLE}))
    assert cli.main([command, str(path)]) == 0


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_is_cut_off_never_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, command: str
) -> None:
    path = tmp_path / "logs.bin"
    data = FORMS[form]({"good.txt": TABLE, "other.txt": TABLE}).rstrip(b"\0")
    for part in (0.4, 0.8):
        path.write_bytes(data[: int(len(data) * part)])
        status, out = cli.main([command, str(path)]), "".join(capsys.readouterr())
        assert status == 3, out
        assert "truncated" in out


def test_a_tar_that_ends_between_two_files_is_cut_off(tmp_path: Path) -> None:
    data = tar({"one.txt": b"x" * 512})
    (source,) = intake.expand([str(_written(tmp_path / "x.tar", data[:1024]))])
    assert source.problem == "the archive is damaged or truncated"
    (whole,) = intake.expand([str(_written(tmp_path / "y.tar", data))])
    assert whole.problem == ""


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("inner", ["tar", "tgz", "zip"])
@pytest.mark.parametrize("command", ["read", "why"])
def test_an_archive_in_an_archive_is_named_and_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], inner: str, command: str
) -> None:
    path = tmp_path / "logs.zip"
    path.write_bytes(zipped({"good.txt": TABLE, "inner.bin": FORMS[inner]({"bad.txt": WRONG})}))
    status, out = cli.main([command, str(path)]), "".join(capsys.readouterr())
    assert status == 3, out
    assert "inner.bin" in out
    assert "archive inside an archive is not opened" in out


def test_links_and_devices_are_named_and_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind in (("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("fifo", b"6")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
        entry = tarfile.TarInfo("../../escape.txt")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"abc"))
    path = _written(tmp_path / "x.tar", out.getvalue())
    with caplog.at_level(logging.WARNING):
        assert contents(path) == {"../../escape.txt": b"abc"}
    assert "3 links not followed: soft, hard, fifo" in caplog.text


@pytest.mark.parametrize("form", FORMS)
def test_what_is_larger_than_the_limit_is_not_read_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 20)
    path = tmp_path / "x"
    path.write_bytes(FORMS[form]({"small.txt": b"x", "large.txt": bytes(2 << 20)}))
    (source,) = intake.expand([str(path)])
    assert source.name.endswith("/small.txt")
    assert "the rest was not read" in source.problem


def test_an_encrypted_file_is_named(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.txt": b"secret"}))
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + offset] |= 1
    (source,) = intake.expand([str(_written(tmp_path / "x.zip", bytes(data)))])
    assert "encrypted" in source.problem


def test_a_folder_gives_the_files_of_its_archives(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("a\n")
    _written(tmp_path / "b.tgz", FORMS["tgz"]({"rank0.log": b"b\n"}))
    assert contents(tmp_path) == {"a.log": b"a\n", "b.tgz/rank0.log": b"b\n"}


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_on_standard_input_is_opened(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = FORMS[form]({"node1/rank0.log": TABLE, "node2/rank1.log": WRONG})
    monkeypatch.setattr(intake.sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    sources = intake.expand(["-"])
    assert [source.name for source in sources] == ["-/node1/rank0.log", "-/node2/rank1.log"]
    assert [b"".join(source.open()) for source in sources] == [TABLE, WRONG]


@pytest.mark.parametrize("command", ["read", "why"])
def test_a_damaged_header_behind_the_first_file_is_no_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    data = bytearray(tar({"good.txt": TABLE, "other.txt": TABLE}))
    at = 512 + -(-len(TABLE) // 512) * 512
    assert data[at : at + 9] == b"other.txt"
    data[at + 148 : at + 156] = b"99999999"
    path = _written(tmp_path / "logs.tar", bytes(data))
    assert cli.main([command, str(path)]) == 3
    assert "the archive is damaged or truncated" in "".join(capsys.readouterr())
