"""Which formats are tried on a text, in which order."""

from __future__ import annotations

import pytest

from busbw.parsers.logs.formats import formats, formats_for

TABLE = (
    b"#       size         count      type   redop    root     time   algbw   busbw  #wrong    "
    b" time   algbw   busbw  #wrong\n"
)
ROW = (
    b"     8388608       2097152     float     sum      -1    96.41   87.01  163.14       0   "
    b" 95.88   87.49  164.05       0\n"
)
JSON = b'{"version":3,"args":[],"nccl_version":23007,"config":{"minimum_bytes":8},"results":[{"size":8,"out_of_place":{"alg_bw":1}}]}'
RCCL = (
    b'[\n{"numCycle":0, "name":"AllReduce", "size":8, "inPlace":0, "time":1.0, "algBw":1.0,'
    b' "busBw":1.0, "wrong":"0"}\n]'
)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (TABLE, "nccl-tests"),
        (ROW, "nccl-tests"),
        (b"[1,0]<stdout>:# Avg bus bandwidth    : 12.5\n", "nccl-tests"),
        (JSON, "nccl-tests-json"),
        (RCCL, "rccl-tests-records"),
    ],
)
def test_the_format_of_a_text_is_tried_first(head: bytes, kind: str) -> None:
    assert formats_for(head, binary=False)[0].name == kind


def test_only_embedded_formats_are_tried_on_a_text_of_nothing_known() -> None:
    entries = formats_for(b"Dear all,\nthe cluster is slow.\n", binary=False)
    assert entries
    assert all(entry.embedded for entry in entries)


def test_every_format_has_a_name_a_title_and_bounded_scores() -> None:
    for entry in formats():
        assert entry.name == entry.name.lower()
        assert entry.title
        for head in (b"", TABLE, JSON, b"\0" * 1000, bytes(range(256)) * 8):
            assert 0 <= entry.looks_like(head) <= 1, entry.name


def test_tables_are_looked_for_in_every_text_but_not_in_binary_data() -> None:
    assert "nccl-tests" in [
        entry.name for entry in formats_for(b"node-a:1:2 [0] NCCL INFO x\n" * 2000, binary=False)
    ]
    assert "nccl-tests" not in [entry.name for entry in formats_for(b"\x80\x04\x95", binary=True)]
