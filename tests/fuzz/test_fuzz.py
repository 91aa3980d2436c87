"""A bounded run of the fuzzing (`python tests/fuzz` is the long one), every text that ever broke a
reader, and that it can find what it looks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import entries
import fuzzing
from entries import Entry

from busbw.errors import ReadError

TEXTS = 3_000
FOUND = (
    ("known_hosts", "node1 ssh-ed25519 AA\ufffd\n".encode()),
    ("parsers.tools.proc_ranks.parse", b"RANK=1\npid 3\n"),
    ("parsers.tools.nvbandwidth.parse", b"nvbandwidth Version: v0.8\n"),
    ("parsers.tools.iperf3.parse", b'{"start":' + b"[" * 100_000),
    ("parsers.tools.dcgm.parse", b'{"DCGM GPU Diagnostic":' + b"[" * 100_000),
    ("busbw read --json", b"\x7fNCCL version 2.30.7\n"),
    ("hello probe", b"hello " + b"9" * 5000 + b" node1\n"),
    ("listen probe", b"ports 40001 " + b"9" * 5000 + b"\n"),
    (
        "parsers.tools.nvidia_smi_nvlink.parse",
        b"GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.56.2 GB/s\n",
    ),
    (
        "parsers.tools.mlnx_qos.parse",
        b"DCBX mode: OS controlled\n\tprio:0 dscp:" + b"9" * 5000 + b",\n",
    ),
    ("RunResult as JSON", b'{"run_id": ' + b"9" * 5000 + b"}"),
    ("inventory", b"nodes: !vault |\n  secret\n"),
    ("parsers.tools.perftest.parse", b" #bytes " + b" " * 70_000 + b"\n" * 70_000 + b"a" * 70_000),
    ("parsers.tools.kernel_log.parse", b"mlx5_core " + b"a" * 190_000),
    ("playbook", b"[" * 100_000),
    ("inventory", b"nodes: " + b"{a: " * 50_000),
    ("playbook", b"- " * 100_000 + b"x"),
    (
        "parsers.logs.nccl_inspector.read",
        b'# HELP x\nnccl_bus_bandwidth_gbs{version="v5.1",' + b"a" * 70_000 + b"} 1\n",
    ),
    ("parsers.logs.nccl_line.parse_line", b"a:" * 40_000 + b" NCCL INFO x"),
    (
        "parsers.tools.nvidia_smi_details.parse_performance",
        b"GPU 00000000:18:00.0\n" + (b" " * 2_000 + b":x\n") * 50,
    ),
    ("parsers.fabric.ufm.parse", b'"' + b"a" * 140_000),
    (
        "parsers.logs.nccl_inspector.read",
        (b'nccl_p2p_bus_bandwidth_gbs{version="v5.1"} ' + b"9" * 5_000 + b"!\n") * 100,
    ),
    (
        "parsers.logs.open_mpi.read",
        b"mpirun was unable to find the specified executable file, and\n"
        + (b"did not " + b"9" * 5_000 + b"\nNode: a\n") * 12,
    ),
    (
        "parsers.nccl_tests.table.parse",
        b"#  size  count  type  redop  root  time  algbw  busbw  error  M-0  time\n"
        + b"# Out of bounds va%lues : 0 OK\n" * 1_500,
    ),
    ("parsers.nccl_tests.table.parse", b"4096 1024 float " + b"9" * 60_000 + b"!\n"),
    ("parsers.nccl_tests.rccl.parse", b"{" * 200_000),
    ("parsers.nccl_tests.rccl.parse", b'{"a" ' * 40_000),
    ("parsers.tools.imex.parse", b"Domain State: UP\nNode #1" + b" " * 80_000 + b"\n"),
    ("parsers.tools.imex.parse", b"Domain State: UP\nNode #1 " + b"a" * 80_000 + b"\n"),
    ("busbw read", b"9" * 190_000),
    ("busbw why", b" " * 4_000 + b"../../../etc/passwd f {\n"),
)


def test_no_mutated_text_breaks_a_reader_or_takes_too_long() -> None:
    tallies = fuzzing.fuzz(1, texts=TEXTS)
    assert sum(tally.texts for tally in tallies.values()) == TEXTS
    assert sum(1 for tally in tallies.values() if tally.texts) > 85, "every reader has its turn"
    assert sum(1 for tally in tallies.values() if tally.grown) > 40, (
        "many readers find something in some text"
    )
    assert [(name, told) for name, tally in tallies.items() for told in tally.broken] == []


@pytest.mark.parametrize(("name", "data"), FOUND, ids=[name for name, _ in FOUND])
def test_what_once_broke_a_reader_is_read(name: str, data: bytes) -> None:
    entry = next(each for each in entries.entries() if each.name == name)
    assert fuzzing.tried(entry, data, fuzzing.Tally()) == ""


def _raises(error: Exception) -> Entry:
    def call(data: bytes) -> object:
        raise error

    return Entry("planted", call)


def test_a_reader_that_raises_anything_undocumented_is_found() -> None:
    refused, broken = fuzzing.Tally(), fuzzing.Tally()
    assert fuzzing.tried(_raises(ReadError("no")), b"", refused) == ""
    assert "KeyError: 'x'" in fuzzing.tried(_raises(KeyError("x")), b"", broken)
    assert (refused.refused, broken.refused) == (1, 0)


def test_a_reader_that_does_not_end_is_found_even_if_it_catches_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fuzzing, "LIMIT_S", 0.1)
    monkeypatch.setattr(entries, "entries", tuple)

    def endless(data: bytes) -> object:
        while True:
            try:
                len(data)
            except Exception:  # noqa: BLE001  # as a careless reader would
                continue

    monkeypatch.setattr(fuzzing, "entries", lambda: (Entry("planted", endless),))
    tallies = fuzzing.fuzz(1, texts=1)
    assert "TooSlow" in tallies["planted"].broken[0]
