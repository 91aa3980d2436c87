"""What a text is said to be."""

from __future__ import annotations

import pytest

from busbw.parsers.logs.recognise import formats, recognise, to_try

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
    ("head", "name", "kind"),
    [
        (TABLE, "a.log", "nccl-tests"),
        (ROW, "tail.txt", "nccl-tests"),
        (b"[1,0]<stdout>:# Avg bus bandwidth    : 12.5\n", "x", "nccl-tests"),
        (JSON, "o.json", "nccl-tests-json"),
        (JSON, "o.json.0", "nccl-tests-json"),
        (RCCL, "r.json", "rccl-tests-records"),
        (b"Dear all,\nthe cluster is slow.\n", "mail.txt", "unknown"),
        (b"", "empty", "unknown"),
    ],
)
def test_each_kind_is_recognised_by_its_content(head: bytes, name: str, kind: str) -> None:
    assert recognise(head, name) == kind


def test_every_format_has_a_name_a_title_and_bounded_scores() -> None:
    for entry in formats():
        assert entry.name == entry.name.lower()
        assert entry.title
        for head in (b"", TABLE, JSON, b"\0" * 1000, bytes(range(256)) * 8):
            assert 0 <= entry.looks_like(head) <= 1, entry.name


def test_tables_are_looked_for_in_every_text_but_not_in_binary_data() -> None:
    assert "nccl-tests" in [
        entry.name for entry in to_try(b"node-a:1:2 [0] NCCL INFO x\n" * 2000, binary=False)
    ]
    assert "nccl-tests" not in [entry.name for entry in to_try(b"\x80\x04\x95", binary=True)]


def test_a_json_document_is_tried_as_one_first() -> None:
    assert next(entry.name for entry in to_try(JSON, binary=False)) == "nccl-tests-json"
