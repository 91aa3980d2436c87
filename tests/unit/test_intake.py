"""Where bytes come from: plain and compressed files, damage, limits, directories, globs, standard
input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw import decompression, intake
from busbw.errors import ReadError, UsageError

TEXT = b"node-a:1:2 [0] NCCL INFO Connected all rings\n" * 20000


def zstd(data: bytes) -> bytes:
    return subprocess.run(("zstd", "-qc"), input=data, capture_output=True, check=True).stdout


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
}


def needs(kind: str) -> None:
    if kind == "zstd" and shutil.which("zstd") is None:
        pytest.skip("the zstd program is not installed")


def read(path: Path) -> tuple[bytes, str]:
    reading = intake.Source("it", path).open()
    return b"".join(reading), reading.problem


@pytest.fixture(params=["package", "program"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """zstd read by the Python package, and by the program where the package is not there."""
    if request.param == "package":
        pytest.importorskip("zstandard")
    else:
        real = decompression.importlib.import_module
        monkeypatch.setattr(
            decompression.importlib,
            "import_module",
            lambda name: real("no_such_package" if name == "zstandard" else name),
        )
    return str(request.param)


@pytest.mark.parametrize("kind", PACKERS)
def test_compression_is_recognised_by_the_first_bytes_not_by_the_name(
    kind: str, tmp_path: Path, engine: str
) -> None:
    needs(kind)
    path = tmp_path / "log.txt"
    path.write_bytes(PACKERS[kind](TEXT[:1000]) + PACKERS[kind](TEXT[1000:]))
    assert read(path) == (TEXT, "")


def test_one_compression_inside_another_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "twice"
    path.write_bytes(gzip.compress(bz2.compress(TEXT)))
    assert read(path) == (TEXT, "")


@pytest.mark.parametrize("kind", PACKERS)
def test_data_that_is_cut_off_gives_what_is_there_and_says_so(
    kind: str, tmp_path: Path, engine: str
) -> None:
    needs(kind)
    path = tmp_path / "cut"
    path.write_bytes(PACKERS[kind](TEXT)[:-12])
    data, problem = read(path)
    assert TEXT.startswith(data)
    assert problem.startswith(f"{kind} data is damaged or truncated after {len(data)} bytes: ")


def test_damage_in_the_middle_is_reported(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(bytes(range(256)) * 4000))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(packed)
    assert "damaged" in read(path)[1]


def test_zstd_without_anything_to_read_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        decompression.importlib, "import_module", lambda name: __import__("no_such_package")
    )
    monkeypatch.setattr(decompression.shutil, "which", lambda name: None)
    path = tmp_path / "a.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 40)
    with pytest.raises(
        ReadError, match="neither the Python package zstandard nor the program zstd"
    ) as caught:
        read(path)
    assert caught.value.next_step.startswith("pip install 'busbw[zstd]'")


@pytest.mark.parametrize("kind", [*PACKERS, "gzip in gzip"])
def test_a_bomb_is_refused_with_the_limits_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "zstd" and shutil.which("zstd") is None:
        pytest.skip("the zstd program is not installed")
    monkeypatch.setattr(intake, "FREE_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    zeros = bytes(8 << 20)
    path.write_bytes(
        gzip.compress(gzip.compress(zeros)) if kind == "gzip in gzip" else PACKERS[kind](zeros)
    )
    with pytest.raises(ReadError, match="it expands too far") as caught:
        read(path)
    assert (
        caught.value.seen
        == f"limits: 400 times the input after the first {1 << 20} bytes, {1 << 40} bytes in all"
    )


def test_chunks_are_bounded_however_much_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(4 << 20)))
    assert max(len(chunk) for chunk in intake.Source("it", path).open()) <= intake.CHUNK_BYTES


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_its_mark_becomes_utf_8(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "powershell.txt"
    path.write_bytes("\ufeffµs\n".encode(encoding))
    assert read(path)[0].decode() == "µs\n"


def test_the_mark_of_utf_8_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "bom.txt"
    path.write_bytes(b"\xef\xbb\xbf# Avg\n")
    assert read(path)[0] == b"# Avg\n"


def test_directories_give_their_files_sorted_and_hidden_ones_not(tmp_path: Path) -> None:
    for name in ("b/rank.1", "b/rank.0", "a.log", ".hidden/x", ".dot"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [
        source.path.relative_to(tmp_path).as_posix() for source in intake.expand([str(tmp_path)])
    ] == ["a.log", "b/rank.0", "b/rank.1"]


def test_globs_are_expanded_but_a_file_of_that_very_name_comes_first(tmp_path: Path) -> None:
    for name in ("a1.log", "a2.log", "[x].log"):
        (tmp_path / name).write_text("x")
    assert [source.path.name for source in intake.expand([str(tmp_path / "a*.log")])] == [
        "a1.log",
        "a2.log",
    ]
    assert [source.path.name for source in intake.expand([str(tmp_path / "[x].log")])] == [
        "[x].log"
    ]


@pytest.mark.parametrize("name", ["missing.log", "none*.log", "empty"])
def test_nothing_to_read_is_an_error_of_usage(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="nothing to read at") as caught:
        intake.expand([str(tmp_path / name)])
    assert caught.value.exit_status == 2


def test_standard_input_can_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake.sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(TEXT))))
    (source,) = intake.expand(["-"])
    try:
        assert [b"".join(source.open()), b"".join(source.open())] == [TEXT, TEXT]
        assert intake.head_of(source, 10) == TEXT[:10]
    finally:
        source.path.unlink()


def test_a_file_that_is_gone_when_it_is_opened_is_an_error_of_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gone cannot be read"):
        intake.Source("gone", tmp_path / "gone").open()


@pytest.mark.parametrize(
    ("head", "binary"),
    [
        (b"# Avg bus bandwidth\n", False),
        ("busbw µs │ 漢字\x1b[0m\r\n\t".encode(), False),
        (b"", False),
        (b"\x80\x04\x95\x10\0\0\0", True),
        (b"step 1\n" + b"\0" * 4096 + b"CUDA out of memory\n", False),
        (b"\0" * 4096, True),
        (b"step 1\nA\0B\0C\0", True),
    ],
)
def test_binary_is_distinguished_from_text(head: bytes, binary: bool) -> None:
    assert intake.is_binary(head) is binary


def test_a_log_that_was_emptied_while_it_was_written_is_text(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\0" * 300_000 + TEXT)
    (source,) = intake.expand([str(path)])
    head = intake.head_of(source, 4096)
    assert head == TEXT[:4096]
    assert not intake.is_binary(head)


@pytest.mark.parametrize("behind", [TEXT, b""], ids=["in the middle", "at the end"])
def test_nuls_in_a_text_are_a_part_that_was_never_written(tmp_path: Path, behind: bytes) -> None:
    (source,) = intake.expand([str(_kept(tmp_path, TEXT + b"\0" * 300 + behind))])
    reading = source.open()
    assert b"".join(reading).startswith(TEXT)
    assert reading.problem == "a row of NULs in the middle: a part of the text was never written"
    # Before the first byte they are a file that was emptied while a job went on writing it.
    (source,) = intake.expand([str(_kept(tmp_path, b"\0" * 3_000_000 + TEXT))])
    reading = source.open()
    assert b"".join(reading).endswith(TEXT)
    assert reading.problem == ""


def _kept(folder: Path, data: bytes) -> Path:
    path = folder / "log.txt"
    path.write_bytes(data)
    return path


def test_a_file_of_60_gb_of_nothing_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(60 << 30)
    (source,) = intake.expand([str(path)])
    assert intake.is_binary(intake.head_of(source, 4096))


def test_a_small_text_in_memory_is_the_one_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b'{"log":"a\\n"}\n{"log":"b\\n"}\n' * 100)[:-4])
    (source,) = intake.expand([str(path)])
    copy = intake.in_memory(source)
    path.unlink()
    before = copy.open()
    assert before.problem == ""
    assert b"".join(before) == b"a\nb\n" * 100
    assert before.problem.startswith("gzip data is damaged or truncated")


def test_a_large_text_stays_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * 100)
    monkeypatch.setattr(intake, "MEMORY_BYTES", 499)
    (source,) = intake.expand([str(path)])
    assert intake.in_memory(source).memory is None
