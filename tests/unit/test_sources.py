"""Where nccl-tests comes from: folders, archives, addresses, repositories, and what is refused of
each. Servers are on loopback."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import socket
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from plans import run_plan

from busbw import cli, playbook
from busbw.building import download, recipe, sources
from busbw.building.recipe import Benchmark
from busbw.errors import BusbwError, UsageError
from busbw.fabrics import profiles
from busbw.model import Cluster, Node
from busbw.run import binaries
from busbw.store import own_figures, run_directory
from busbw.store.plan import RunPlan

FILES = {
    "Makefile": b"src.build:\n\tmake -C src\n",
    "src/all_reduce.cu": b"int main() {}\n",
    "src/util.h": b'#define NCCL_TESTS_VERSION "2.19.6"\n',
}
"""Composed: the layout of nccl-tests, not its text."""
PACKED = recipe.archive(FILES)


def folder(at: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_bytes(data)
    return at


def tar(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as packed:  # type: ignore[call-overload]  # the mode is one of tarfile's
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return buffer.getvalue()


def below(top: str) -> dict[str, bytes]:
    return {f"{top}/{name}": data for name, data in FILES.items()}


def refused(source: str) -> tuple[int, tuple[str, ...]]:
    with pytest.raises(BusbwError) as caught:
        sources.take(source)
    return caught.value.exit_status, caught.value.lines()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(address, folder) of a web server on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

        def do_GET(self) -> None:
            if self.path == "/short.tar.gz":
                self.send_response(200)
                self.send_header("Content-Length", str(len(PACKED) + 10))
                self.end_headers()
                self.wfile.write(PACKED)
                self.close_connection = True
            elif self.path == "/elsewhere.tar.gz":
                self.send_response(302)
                self.send_header("Location", "file:///etc/hostname")
                self.end_headers()
            else:
                super().do_GET()

    root = tmp_path / "served"
    root.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", root
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tar.gz", tar(below("nccl-tests-2.19.6"))),
        ("a.tar", tar(below("nccl-tests-2.19.6"), "w")),
        ("a.tar.xz", tar(below("./x"), "w:xz")),
        ("a.tgz", tar(FILES)),
        ("a.zip", zipped(below("nccl-tests-master"))),
        ("no-suffix", zipped(FILES)),
    ],
)
def test_the_same_sources_are_the_same_build_however_they_are_packed(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    source = str(tmp_path / name)
    assert sources.take(source) == Benchmark(
        PACKED, cuda=True, version="2.19.6", origin=source, sha256=sha256(content)
    )
    assert sources.take(f"{source}#sha256={sha256(content)}").sources == PACKED


def test_a_folder_gives_its_sources_and_none_of_the_objects_that_somebodys_make_left(
    tmp_path: Path,
) -> None:
    tree = folder(
        tmp_path / "n",
        FILES | {"build/all_reduce_perf": b"\x7fELF", "build/x.o": b"o", ".git/config": b"[core]"},
    )
    assert sources.take(str(tree)) == Benchmark(
        PACKED, cuda=True, version="2.19.6", origin=str(tree)
    )


def test_a_folder_that_is_not_here_is_one_of_the_nodes() -> None:
    assert sources.take("/opt/none/build/") == Benchmark(
        None, directory="/opt/none/build", origin="/opt/none/build/"
    )


def test_an_address_is_fetched_once_and_its_hash_recorded(served: tuple[str, Path]) -> None:
    address, root = served
    (root / "n.tar.gz").write_bytes(PACKED)
    source = f"{address}/n.tar.gz#sha256={sha256(PACKED).upper()}"
    assert sources.take(source) == Benchmark(
        PACKED, cuda=True, version="2.19.6", origin=source, sha256=sha256(PACKED)
    )


def test_an_address_that_gives_nothing_reports_its_answer(served: tuple[str, Path]) -> None:
    address, root = served
    pin = f"#sha256={sha256(PACKED)}"
    bring = (
        "next: try the address from here, or bring it as a file or a folder where this machine has"
        " no way there: --nccl-tests nccl-tests.tar.gz"
    )
    assert refused(f"{address}/none.tar.gz{pin}") == (
        3,
        (
            f"error: nccl-tests cannot be fetched from {address}/none.tar.gz",
            "seen: HTTP 404 File not found",
            bring,
        ),
    )
    assert (
        refused(f"{address}/short.tar.gz{pin}")[1][1]
        == f"seen: {len(PACKED):,} of {len(PACKED) + 10:,} bytes"
    )
    closed = refused(f"http://127.0.0.1:1/n.tar.gz{pin}")
    assert (closed[0], closed[1][1]) == (3, "seen: [Errno 111] Connection refused")
    assert "file:///etc/hostname" in refused(f"{address}/elsewhere.tar.gz{pin}")[1][1], (
        "no way back to this machine's files"
    )
    (root / "n.tar.gz").write_bytes(PACKED[:-1])
    assert refused(f"{address}/n.tar.gz{pin}") == (
        2,
        (
            f"error: {address}/n.tar.gz is not what was pinned: another SHA-256",
            f"seen: {sha256(PACKED[:-1])} ({len(PACKED) - 1:,} bytes) instead of {sha256(PACKED)}",
            "next: find out which of the two is right before anything of it is run",
        ),
    )


def test_an_archive_that_is_too_large_or_never_ends_is_left(
    served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, root = served
    (root / "n.tar.gz").write_bytes(bytes(300_000))
    source = f"{address}/n.tar.gz#sha256={'0' * 64}"
    monkeypatch.setattr(download, "MOST_DOWNLOAD_BYTES", 100_000)
    assert refused(source)[1][0] == f"error: {address}/n.tar.gz is too large"


@contextlib.contextmanager
def answering(begin: bytes, then: bytes) -> Iterator[str]:
    """The address of a server that answers with `begin`, then with `then` ten times a second."""
    ends = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not ends.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(begin)
                        while then and not ends.wait(0.1):
                            connection.sendall(then)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/n.tar.gz#sha256={'0' * 64}"
        ends.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("begin", "then", "got"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", "0 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x", "bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", "bytes"),
    ],
)
def test_a_server_that_sends_a_byte_now_and_then_is_left(
    begin: bytes, then: bytes, got: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIME_LIMIT_S", 1.0)
    with answering(begin, then) as source:
        began = time.monotonic()
        assert refused(source)[1][1].endswith(f"{got} after 1 s")
    assert time.monotonic() - began < download._SILENCE_S


def test_a_server_sends_nobody_to_an_address_that_would_not_have_been_taken() -> None:
    with answering(b"", b"") as other:
        place = other.removeprefix("http://").partition("/")[0]
        redirect = f"HTTP/1.1 302 x\r\nLocation: ftp://{place}/x\r\n\r\n"
        with answering(redirect.encode(), b"") as source:
            assert refused(source)[1][:2] == (
                f"error: ftp://{place}/x cannot be fetched",
                "seen: scheme 'ftp'",
            )


KEY = "Zq7xK9vB2mN4pL8rT6wY3sD5fG1h"


@pytest.mark.parametrize(
    "address",
    [
        f"https://{KEY}@host/n.tgz",
        f"git+https://{KEY}@host/n",
        f"https://host/n.tgz?private_token={KEY}",
        f"https://host/n.tgz?X-Amz-Signature={KEY}",
        f"https://host/hf_{KEY}/n.tgz",
        f"http://{KEY}@host/n.tgz",
    ],
)
def test_an_address_with_a_secret_is_refused_and_the_secret_not_repeated(address: str) -> None:
    for take in (lambda: sources.take(address), lambda: own_figures.fetched(address)):
        with pytest.raises(UsageError) as caught:
            take()
        assert "an address with a password in it is not taken" in caught.value.what
        assert KEY not in "".join(caught.value.lines())


def test_a_user_of_ssh_is_no_secret() -> None:
    download.check("git+ssh://git@host/n.git", None)


@pytest.mark.parametrize("address", ["https://[::1/n.tgz", "https://a..b/n.tgz"])
def test_what_is_no_address_is_refused(address: str) -> None:
    status, lines = refused(address)
    assert status in (2, 3)
    assert address in lines[0]


@pytest.mark.parametrize(
    ("source", "what", "seen"),
    [
        (
            "http://host/n.tar.gz",
            "http://host/n.tar.gz can be changed by anybody on the way",
            "http without a hash",
        ),
        ("ftp://host/n.tar.gz", "ftp://host/n.tar.gz cannot be fetched", "scheme 'ftp'"),
        (
            "https://me:pw@host/n.tgz",
            "an address with a password in it is not taken: it would stand in files that travel",
            "https://…@host",
        ),
        (
            "https://host/n.tgz#v2",
            "--nccl-tests https://host/n.tgz#v2: an archive has no revision",
            "#v2",
        ),
        ("/opt/n.tgz#sha256=12", "--nccl-tests /opt/n.tgz#sha256=12: no SHA-256", "12"),
        ("git+https://host/n#-x", "'-x' is no branch, tag or commit", None),
        (
            "nowhere",
            "--nccl-tests nowhere: neither sources nor an absolute path of binaries",
            "no folder with a Makefile, no archive, no address",
        ),
    ],
)
def test_what_cannot_be_taken_is_refused_before_anything_is_asked(
    source: str, what: str, seen: str | None
) -> None:
    status, lines = refused(source)
    assert (status, lines[0]) == (2, f"error: {what}")
    assert seen is None or lines[1] == f"seen: {seen}"


def link(name: str, target: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        packed.addfile(info)
    return buffer.getvalue()


def zip_link() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        info = zipfile.ZipInfo("n/Makefile")
        info.external_attr = 0o120777 << 16
        packed.writestr(info, "/etc/passwd")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "what", "seen"),
    [
        (tar({"../../x": b""}), "is not an archive to be trusted", "'../../x' leads out of it"),
        (
            tar({"/etc/cron.d/x": b""}),
            "is not an archive to be trusted",
            "'/etc/cron.d/x' leads out of it",
        ),
        (
            zipped({"n/../../x": b""}),
            "is not an archive to be trusted",
            "'n/../../x' leads out of it",
        ),
        (
            link("n/Makefile", "/etc/passwd"),
            "is not an archive to be trusted",
            "n/Makefile is a link or a device",
        ),
        (zip_link(), "is not an archive to be trusted", "n/Makefile is a link"),
        (
            PACKED[:-40],
            "cannot be read as an archive",
            "EOFError: Compressed file ended before the end-of-stream marker was reached",
        ),
        (
            b"<html>login</html>",
            "cannot be read as an archive",
            "ReadError: file could not be opened successfully",
        ),
        (tar({"x/README": b"hello"}), "is not nccl-tests", "1 file, no Makefile"),
        (
            tar({"x/Makefile": b"all:\n"}),
            "is not nccl-tests",
            "1 file, a Makefile and no all_reduce.cu",
        ),
        (
            tar({"x/zeros": bytes(3 << 20)}),
            "holds far more than nccl-tests",
            "0 files, 3,145,728 bytes; at most 20,000 and 1,048,576",
        ),
        (
            zipped({"x/zeros": bytes(3 << 20)}),
            "holds far more than nccl-tests",
            "0 files, 3,145,728 bytes; at most 20,000 and 1,048,576",
        ),
    ],
    # Archives carry the time at which they were made: workers must call a case by the same name.
    ids=[
        "path up",
        "absolute path",
        "zip path up",
        "link",
        "zip link",
        "cut",
        "HTML",
        "no Makefile",
        "no all_reduce",
        "zeros",
        "zip zeros",
    ],
)
def test_an_archive_that_is_not_to_be_trusted_or_not_nccl_tests_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, what: str, seen: str
) -> None:
    monkeypatch.setattr(sources, "MOST_BYTES", 1 << 20)
    (tmp_path / "n").write_bytes(content)
    status, lines = refused(str(tmp_path / "n"))
    assert (status, lines[0]) == (2, f"error: {tmp_path}/n {what}")
    assert lines[1].startswith(f"seen: {seen}")


def git(at: Path, *words: str) -> str:
    identity = (
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "init.defaultBranch=main",
    )
    return subprocess.run(
        ("git", "-C", str(at), *identity, *words),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.strip()


def test_a_revision_of_a_repository_is_fetched_and_its_commit_recorded(tmp_path: Path) -> None:
    there = folder(tmp_path / "there", FILES)
    git(there, "init", "--quiet")
    git(there, "add", ".")
    git(there, "commit", "--quiet", "-m", "one")
    git(there, "tag", "v2.19.6")
    first = git(there, "rev-parse", "HEAD")
    (there / "src/util.h").write_bytes(b'#define NCCL_TESTS_VERSION "2.20.0"\n')
    git(there, "commit", "--quiet", "-am", "two")
    address = f"git+file://{there}"
    for ref in ("v2.19.6", first):
        source = f"{address}#{ref}"
        assert sources.take(source) == Benchmark(
            PACKED, cuda=True, version="2.19.6", origin=source, commit=first
        )
    newest = sources.take(address)
    assert (newest.version, newest.commit) == ("2.20.0", git(there, "rev-parse", "main"))
    status, lines = refused(f"{address}#v9")
    assert (status, lines[0]) == (3, f"error: nccl-tests cannot be fetched from {address}")
    assert "v9" in lines[1]


def test_what_a_run_was_begun_with_is_what_it_goes_on_with(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path / "runs", "2026-11-21T12:00:00Z", "quick")
    assert sources.kept(run) is None
    benchmark = Benchmark(
        PACKED, cuda=True, version="2.19.6", origin="https://host/n.tar.gz", sha256="ab"
    )
    sources.keep(run, benchmark)
    assert sources.kept(run) == benchmark
    other = run_directory.create(tmp_path / "runs", "2026-11-21T12:00:00Z", "quick")
    sources.keep(other, Benchmark(None, directory="/opt/n", origin="/opt/n"))
    assert sources.kept(other) == Benchmark(None, directory="/opt/n", origin="/opt/n")


def begun(tmp_path: Path, benchmark: Benchmark | None) -> tuple[run_directory.RunDir, RunPlan]:
    run = run_directory.create(tmp_path / "runs", "2026-11-21T12:00:00Z", "quick")
    if benchmark is not None:
        sources.keep(run, benchmark)
    cluster = Cluster((Node("n1"),), "n1", "test")
    return run, run_plan(
        cluster,
        playbook.load("quick"),
        profiles.load("tcp"),
        run_id=run.run_id,
        started="2026-11-21T12:00:00Z",
        transport="local",
    )


def test_a_run_that_goes_on_needs_no_word_of_its_benchmark_and_refuses_another(
    tmp_path: Path,
) -> None:
    own, other = tmp_path / "own.tar.gz", tmp_path / "other.tar.gz"
    own.write_bytes(PACKED)
    other.write_bytes(tar({**FILES, "src/all_reduce.cu": b"int other() {}\n"}))
    first = sources.take(str(own))
    run, plan = begun(tmp_path, first)
    own.unlink()
    assert binaries.begun_with(run, None, plan) == first
    assert binaries.begun_with(run, str(own), plan) == first, "named again, and not even looked at"
    with pytest.raises(UsageError) as caught:
        binaries.begun_with(run, str(other), plan)
    assert caught.value.lines() == (
        f"error: --nccl-tests {other} is not what {run.run_id} was begun with",
        f"seen: begun with {own}",
        "next: --resume without --nccl-tests; what is measured with another build is another run",
    )


def test_a_run_that_was_cut_off_before_it_recorded_its_benchmark_takes_the_one_that_is_named(
    tmp_path: Path,
) -> None:
    run, plan = begun(tmp_path, None)
    (tmp_path / "n.tar.gz").write_bytes(PACKED)
    chosen = binaries.begun_with(run, str(tmp_path / "n.tar.gz"), plan)
    assert (chosen.sources, sources.kept(run)) == (PACKED, chosen)


def test_a_dry_run_names_an_address_and_does_not_ask_it(capsys: pytest.CaptureFixture[str]) -> None:
    source = "https://127.0.0.1:1/nccl-tests.tar.gz"
    assert (
        cli.main(
            ["run", "quick", "-w", "gpu-[1-2]", "-p", "tcp", "--dry-run", "--nccl-tests", source]
        )
        == 0
    )
    assert f"# sources: {source}; this machine fetches an address, once" in capsys.readouterr().out


def test_gzip_without_a_tar_in_it_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "n.gz").write_bytes(gzip.compress(b"text"))
    assert (
        refused(str(tmp_path / "n.gz"))[1][0]
        == f"error: {tmp_path}/n.gz cannot be read as an archive"
    )
