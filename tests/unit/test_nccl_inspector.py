"""NCCL Inspector's records, composed in the formats v4.0 to v5.1 (`plugins/profiler/inspector` of
NCCL 2.28.3 to 2.30.7)."""

from __future__ import annotations

import json

import pytest

from busbw.errors import UnknownLayout
from busbw.model import InspectorLog, InspectorMetric, InspectorOp, InspectorSeries
from busbw.parsers.logs.nccl_inspector import FORMAT, operation_of, operations, read


def record(
    rank: int = 5,
    sequence: int = 6649,
    time_us: float = 5012,
    version: str = "v4.0",
    **more: object,
) -> str:
    return json.dumps(
        {
            "header": {
                "id": "0x5c9ac0b1e5a13c77",
                "comm_name": "dp0",
                "rank": rank,
                "n_ranks": 32,
                "nnodes": 4,
            },
            "metadata": {
                "inspector_output_format_version": version,
                "git_rev": "1a2b3c4",
                "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1783674000123456,
                "hostname": "node-b",
                "pid": 52017,
            },
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": sequence,
                "coll_msg_size_bytes": 1073741824,
                "coll_exec_time_us": time_us,
                "coll_timing_source": "kernel_gpu",
                "coll_algobw_gbs": 214.23,
                "coll_busbw_gbs": 415.07,
                **more,
            },
        }
    )


OPERATION = InspectorOp(
    communicator="5c9ac0b1e5a13c77",
    communicator_name="dp0",
    rank=5,
    nranks=32,
    nnodes=4,
    host="node-b",
    pid=52017,
    operation="AllReduce",
    sequence=6649,
    size_bytes=1073741824,
    time_us=5012.0,
    algbw_gb_s=214.23,
    busbw_gb_s=415.07,
    timing_source="kernel_gpu",
    dumped_us=1783674000123456,
)
P2P = {
    "header": {"id": "0xab", "rank": 0, "n_ranks": 2, "nnodes": 1},
    "metadata": {"hostname": "a", "pid": 1},
    "p2p_perf": {
        "p2p": "Send",
        "p2p_sn": 7,
        "p2p_peer": 1,
        "p2p_msg_size_bytes": 65536,
        "p2p_exec_time_us": 12.5,
        "p2p_timing_source": "kernel_gpu",
        "p2p_algobw_gbs": 5.2,
        "p2p_busbw_gbs": 5.2,
    },
}


def log_of(text: str) -> InspectorLog:
    (log,) = read([text.encode()]).records
    assert isinstance(log, InspectorLog)
    return log


def test_a_collective_of_each_version_is_read_whole() -> None:
    assert operation_of(record()) == OPERATION
    v42 = operation_of(record(version="v4.2", coll_algo="RING", coll_proto="LL"))
    assert v42 is not None
    assert (v42.algorithm, v42.protocol, v42.graph_captured) == ("RING", "LL", None)
    v5 = operation_of(record(version="v5.0", graphCaptured=True))
    assert v5 is not None
    assert (v5.graph_captured, v5.sequence) == (True, 6649)


def test_a_point_to_point_operation_has_its_peer_and_no_name_of_its_communicator() -> None:
    assert operation_of(json.dumps(P2P)) == InspectorOp(
        "ab", None, 0, 2, 1, "a", 1, "Send", 7, 65536, 12.5, 5.2, 5.2, "kernel_gpu", peer=1
    )


def test_one_series_per_rank_operation_and_size() -> None:
    lines = [record(sequence=10 + index, time_us=100 + index) for index in range(3)] + [
        record(rank=6, sequence=12, time_us=90),
        json.dumps(P2P),
    ]
    log = log_of("\n".join(lines) + "\n")
    assert log.format_version == "v4.0"
    assert log.series == (
        InspectorSeries("5c9ac0b1e5a13c77", "dp0", 5, 32, "node-b", "AllReduce", 1073741824, "kernel_gpu", 3, 10, 12, 100.0, 101.0, 102.0, 415.07),
        InspectorSeries("5c9ac0b1e5a13c77", "dp0", 6, 32, "node-b", "AllReduce", 1073741824, "kernel_gpu", 1, 12, 12, 90.0, 90.0, 90.0, 415.07),
        InspectorSeries("ab", None, 0, 2, "a", "Send", 65536, "kernel_gpu", 1, 7, 7, 12.5, 12.5, 12.5, 5.2),
    )  # fmt: skip
    assert [
        each.sequence for each in operations([lines[0].encode() + b"\nnoise\n", lines[1].encode()])
    ] == [10, 11]


def test_the_average_and_the_slowest_rank_of_an_operation_are_shown() -> None:
    lines = [record(rank=rank, sequence=1, time_us=900 if rank == 6 else 100) for rank in range(8)]
    summary = read(["\n".join(lines).encode()]).summary
    assert (
        "ranks",
        "AllReduce 1073741824 B, 8 ranks: mean 200 us, fastest 100 us (rank 0),"
        " slowest 900 us (rank 6 on node-b)",
    ) in summary


def test_a_file_that_is_still_written_is_read_up_to_its_last_whole_line_and_says_so() -> None:
    document = read([f"{record()}\n{record(sequence=6650)[:100]}".encode()])
    (log,) = document.records
    assert isinstance(log, InspectorLog)
    assert log.series[0].count == 1
    assert (document.complete, document.problems) == (
        False,
        (
            "the last line is not a complete record: the file was still being written, or is truncated",
        ),
    )


def test_lines_that_are_no_records_are_counted_and_statistics_of_the_dump_are_not() -> None:
    stats = json.dumps({"header": {}, "dump_stats": {"dropped": 0}})
    document = read([f"{stats}\nnoise\n{record()}\n".encode()])
    assert document.problems == ("1 lines are no records of the Inspector",)


def test_prometheus_text_is_read_with_its_labels() -> None:
    text = (
        "# HELP nccl_bus_bandwidth_gbs bus"
        ' bandwidth\nnccl_bus_bandwidth_gbs{version="v5.1",node="a",comm_name="DP'
        ' \\"0\\"",collective="AllReduce",message_size="1-2GB"}'
        ' 415.07\nnccl_p2p_exec_time_microseconds{node="a",p2p_operation="Send"} 1154.87\n'
    )
    log = log_of(text)
    assert log.format_version == "v5.1"
    assert log.metrics == (
        InspectorMetric(
            "nccl_bus_bandwidth_gbs",
            (
                ("collective", "AllReduce"),
                ("comm_name", 'DP "0"'),
                ("message_size", "1-2GB"),
                ("node", "a"),
                ("version", "v5.1"),
            ),
            415.07,
        ),
        InspectorMetric(
            "nccl_p2p_exec_time_microseconds", (("node", "a"), ("p2p_operation", "Send")), 1154.87
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "{}\n",
        '{"header":{"id":"0x1","rank":0,"n_ranks":2},"coll_perf":{"coll":"AllReduce","coll_sn":1}}\n',
        '{"coll_perf":' + "[" * 60_000,
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(UnknownLayout):
        read([text.encode()])


def test_both_forms_are_recognised() -> None:
    assert FORMAT.looks_like(record().encode()) == 0.95
    assert FORMAT.looks_like(b'# HELP x\nnccl_bus_bandwidth_gbs{node="a"} 1\n') == 0.9
    assert FORMAT.looks_like(b"hello") == 0.0


def test_a_comment_is_what_prometheus_writes_as_one() -> None:
    good = ["# HELP nccl_bus_bandwidth GB/s", "# TYPE nccl_bus_bandwidth gauge", record(), "# EOF"]
    assert read(["\n".join(good).encode()]).complete
    foreign = "# NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert not read(["\n".join([foreign, *good]).encode()]).complete
