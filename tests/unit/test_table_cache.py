"""What is stored between two starts is used only if this user stored it and nothing has changed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from busbw import table_cache
from busbw.parsers.findings import catalogue
from busbw.parsers.logs import scan_literals
from busbw.parsers.logs.scan import Pattern, Scanner
from busbw.table_cache import cached


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "busbw" / "tables"


def value_now(name: str = "x") -> int:
    """2 = it was made anew; 1 = it is as it was stored at first."""
    return cached(name, lambda: 2)


def stored(folder: Path) -> Path:
    """The one file there is, with the value 1 in it."""
    assert cached("x", lambda: 1) == 1
    (file,) = folder.iterdir()
    return file


def test_nothing_found_is_not_stored(folder: Path) -> None:
    assert cached("x", tuple) == ()
    assert list(folder.iterdir()) == []
    assert value_now() == 2


def test_a_value_is_made_once(folder: Path) -> None:
    file = stored(folder)
    assert value_now() == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("at", [0, 31, 32, -1])
def test_a_damaged_file_is_made_anew(folder: Path, at: int) -> None:
    file = stored(folder)
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    assert value_now() == 2
    assert value_now() == 2


@pytest.mark.parametrize("size", [0, 10, 32, 40])
def test_a_file_cut_short_is_made_anew(folder: Path, size: int) -> None:
    file = stored(folder)
    os.truncate(file, size)
    assert value_now() == 2


def test_a_file_that_others_may_write_to_is_not_read(folder: Path) -> None:
    stored(folder).chmod(0o666)
    assert value_now() == 2


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path) -> None:
    stored(folder)
    folder.chmod(0o777)
    assert value_now() == 2
    assert value_now("y") == 2
    assert len(list(folder.iterdir())) == 1


def test_a_folder_below_one_that_others_may_rename_is_not_used(folder: Path) -> None:
    stored(folder)
    folder.parent.chmod(0o777)
    assert value_now() == 2
    folder.parent.chmod(0o1777)
    assert value_now() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_somebody_else_is_not_read(folder: Path, what: str) -> None:
    file = stored(folder)
    os.chown(folder if what == "folder" else file, 12345, 12345)
    assert value_now() == 2


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    file = stored(folder)
    other = tmp_path / "other"
    file.rename(other)
    file.symlink_to(other)
    assert value_now() == 2
    assert not file.is_symlink()


def test_a_link_in_the_place_of_the_folder_is_not_used(folder: Path, tmp_path: Path) -> None:
    stored(folder)
    folder.rename(tmp_path / "other")
    folder.symlink_to(tmp_path / "other")
    assert value_now() == 2


def test_without_a_place_to_write_to_everything_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached("x", lambda: 1) == 1
    assert value_now() == 2


def test_a_changed_source_file_makes_everything_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(folder)
    source = tmp_path / "package" / "deeper" / "table.yaml"
    source.parent.mkdir(parents=True)
    source.write_text("a", encoding="utf-8")
    before = list(table_cache._sources(str(tmp_path / "package")))
    source.write_text("ab", encoding="utf-8")
    assert before != list(table_cache._sources(str(tmp_path / "package")))
    monkeypatch.setattr(table_cache, "_fingerprint", lambda: "another")
    assert value_now() == 2


def test_the_oldest_files_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "_MOST_FILES", 3)
    for number in range(6):
        cached(f"value{number}", lambda: 1)
    assert len(list(folder.iterdir())) == 3
    assert value_now("value5") == 1
    assert value_now("value0") == 2


def test_the_catalogue_is_the_same_from_the_cache(folder: Path) -> None:
    first = cached("catalogue", catalogue._packaged)
    assert folder.is_dir()
    second = cached("catalogue", lambda: None)
    assert second is not None
    assert second == first
    assert second is not first


def test_stored_literals_find_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not scan_literals._IS_HERE:
        pytest.skip("hyperscan is not installed")
    patterns = tuple(Pattern(f"p{number}", f"word{number} is here") for number in range(150))
    text = [b"".join(b"WORD%d is here\n" % number for number in range(0, 150, 7))]
    first = Scanner(patterns).scan(text)
    assert len(list(folder.iterdir())) == 2

    def compiled(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(scan_literals, "_compiled", compiled)
    assert Scanner(patterns).scan(text) == first


def test_tables_of_several_installations_have_room(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    log = tmp_path / "a.log"
    log.write_text("gpu1:41:42 [0] NCCL INFO Using network IB\nRuntimeError: NCCL error\n")
    for command in ("read", "why"):
        argv = (sys.executable, "-m", "busbw", command, str(log))
        subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False)
    count = len(list((tmp_path / "busbw" / "tables").iterdir()))
    assert 10 < count < table_cache._MOST_FILES / 8
