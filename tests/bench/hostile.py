"""What hostile texts cost `busbw read` and `busbw why`: lines of 1 GB, bombs in every compression.
Prints CPU seconds and the peak of memory of each.

    python tests/bench/hostile.py [--gigabytes 1] [--only "NCCL line" | --only bomb] [--most-mib
    600]

Exit status 1 = a command took more memory than allowed, or ended with a traceback.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

LINES = {
    "one letter": (b"", b"a"),
    "an NCCL line that never ends": (
        b"node1:1:2 [0] NCCL INFO ",
        b"Channel 00/0 : 0[0] -> 1[0] via P2P ",
    ),
    "JSON that never closes": (b'{"entries": [', b'{"a": 1},'),
    "digits": (b"         8             2     float     sum      -1    ", b"9"),
    "blanks": (b"# nccl-tests version 2.17.6 nccl-headers=22807", b" "),
    "brackets": (b"", b"["),
}
"""How a line begins, and what follows for as long as there is room."""
PIECE_BYTES = 1 << 20
MEASURED = """
import sys
from busbw.cli import main
status = main(sys.argv[1:])
print("peak", open("/proc/self/status").read().split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(status)
"""
"""A process tells its own peak: what `wait4` says of it counts the process that started it."""


def endless(begin: bytes, more: bytes, size_bytes: int) -> Iterator[bytes]:
    """The line, in pieces."""
    yield begin
    piece = more * (PIECE_BYTES // len(more))
    for _ in range(size_bytes // len(piece)):
        yield piece


def bombs(folder: Path, size_bytes: int) -> dict[str, Path]:
    """Files of zeros in text's clothing, by kind."""
    made: dict[str, Path] = {}
    text = b"NCCL INFO " * 100 + b"\n"
    for kind, opened in (("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open)):
        path = folder / f"bomb.{kind}"
        with opened(path, "wb") as stream:
            for _ in range(size_bytes // (1024 * len(text))):
                stream.write(text * 1024)
        made[kind] = path
    if shutil.which("zstd"):
        path = folder / "bomb.zst"
        with (
            path.open("wb") as out,
            subprocess.Popen(("zstd", "-qc"), stdin=subprocess.PIPE, stdout=out) as packer,
        ):
            assert packer.stdin is not None
            for _ in range(size_bytes // (1024 * len(text))):
                packer.stdin.write(text * 1024)
            packer.stdin.close()
        made["zst"] = path
    inner = made["gz"].read_bytes()
    made["gz in gz"] = folder / "twice.gz"
    made["gz in gz"].write_bytes(gzip.compress(inner))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.log", text * (size_bytes // 8 // len(text)))
    made["zip"] = folder / "bomb.zip"
    made["zip"].write_bytes(packed.getvalue())
    return made


def run(words: tuple[str, ...], pieces: Iterator[bytes] | None) -> tuple[float, int, int, str]:
    """(CPU seconds, peak MiB, exit status, last line) of one busbw command, fed with `pieces`."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            (sys.executable, "-c", MEASURED, *words),
            stdin=subprocess.PIPE if pieces else subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            if process.stdin is not None and pieces is not None:
                for piece in pieces:
                    process.stdin.write(piece)
                process.stdin.close()
        except BrokenPipeError:
            pass
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    text, _, peak = text.rpartition("peak ")
    line = next((each for each in text.splitlines()[::-1] if each.strip()), "")
    told = "TRACEBACK" if "Traceback" in text or not peak.strip().isdigit() else line
    return (
        used.ru_utime + used.ru_stime,
        int(peak or 0) >> 10 if peak.strip().isdigit() else -1,
        process.returncode,
        told,
    )


def main() -> int:
    """Runs them; 1 = one was not bounded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--only", default="", help="part of a kind's name, or `bomb`")
    parser.add_argument("--most-mib", type=int, default=600)
    arguments = parser.parse_args()
    size_bytes, bad = int(arguments.gigabytes * 1e9), 0
    print(f"{arguments.gigabytes:g} GB each, load {os.getloadavg()[0]:.0f}")
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as name:
        for command in ("read", "why"):
            for kind, (begin, more) in LINES.items():
                if arguments.only not in kind:
                    continue
                seconds, peak, status, line = run((command, "-"), endless(begin, more, size_bytes))
                bad += peak > arguments.most_mib or line == "TRACEBACK"
                print(
                    f"busbw {command:4s} {kind:30s} {seconds:6.1f} s of CPU {peak:5d} MiB, exit"
                    f" status {status}: {line[:90]}",
                    flush=True,
                )
        for kind, path in (
            bombs(Path(name), size_bytes).items() if arguments.only in ("", "bomb") else ()
        ):
            for command in ("read", "why"):
                seconds, peak, status, line = run((command, str(path)), None)
                bad += peak > arguments.most_mib or line == "TRACEBACK"
                told = f"{kind} of {path.stat().st_size >> 10} KiB"
                print(
                    f"busbw {command:4s} {told:30s} {seconds:6.1f} s of CPU {peak:5d} MiB, exit"
                    f" status {status}: {line[:90]}",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
