"""nccl-tests JSON of schemas 1 to 3, whole and cut; rccl-tests records. Inputs are composed as
`src/util.cu` writes them."""

from __future__ import annotations

import json

import pytest

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkRow, Measurement, ProcessTimes
from busbw.parsers.nccl_tests import rccl as nccl_tests_rccl
from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests.results_json import parse

SPREAD = {
    "min_us": 22950.0,
    "max_us": 23400.0,
    "avg_us": 23116.67,
    "p50_us": 23000.0,
    "p95_us": 23400.0,
    "p99_us": 23400.0,
    "cv_pct": 0.871164,
}
MATRIX = [[25000.0, 22990.0, 23000.0, 22900.0], [26000.0, 23000.0, 23400.0, 22950.0]]
DEVICES = [
    {
        "rank": 0,
        "group": 0,
        "pid": 41011,
        "hostname": "node-a",
        "device": 0,
        "device_hex": "0000:18:00",
        "device_info": "NVIDIA H200",
    },
    {
        "rank": 1,
        "group": 0,
        "pid": 52011,
        "hostname": "node-b",
        "device": 0,
        "device_hex": "0000:18:00",
        "device_info": "NVIDIA H200",
    },
]


def result(size: int, **more: object) -> dict[str, object]:
    time = size / 46482.33
    body = {
        "time": round(time, 6),
        "alg_bw": round(size / time / 1e3, 6),
        "bus_bw": round(size / time / 1e3, 6),
        "nwrong": 0.0,
    }
    return {
        "size": size,
        "count": size // 4,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": body,
        "in_place": body,
    } | more


def composed(**changes: object) -> str:
    document: dict[str, object] = {
        "version": 3,
        "start_time": "2026-07-10 09:00:00",
        "args": ["./build/all_reduce_perf_mpi", "-b", "512M", "-e", "1G", "-f", "2"],
        "env": ["HOME=/root", "TOKEN=hunter2"],
        "nccl_version": 23007,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": 536870912,
            "maximum_bytes": 1073741824,
            "step_factor": 2,
            "blocking_collectives": "true",
            "devices": DEVICES,
        },
        "results": [result(536870912), result(1073741824)],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 46.48233, "okay": "unchecked"},
        "errors": [""],
        "end_time": "2026-07-10 09:00:09",
    }
    return json.dumps(document | changes, separators=(",", ":"))


def test_a_whole_document_is_one_record() -> None:
    read = parse(composed())
    body = Measurement(time_us=11550.0, algbw_gb_s=46.48233, busbw_gb_s=46.48233, wrong=0)
    assert read.rows[0].out_of_place is not None
    assert read.rows[0] == BenchmarkRow(
        536870912, 134217728, "float", "sum", None, read.rows[0].out_of_place, read.rows[0].in_place
    )
    assert read.rows[0].out_of_place.busbw_gb_s == body.busbw_gb_s
    assert (read.collective, read.nranks, read.nodes, read.nccl_version) == (
        "all_reduce",
        2,
        2,
        "2.30.7",
    )
    assert (read.avg_busbw_gb_s, read.out_of_bounds, read.complete, read.problems) == (
        46.48233,
        0,
        True,
        (),
    )


def test_the_environment_is_not_kept() -> None:
    assert "hunter2" not in repr(parse(composed()))


def test_misspelt_keys_of_2_17_3_are_the_average_too() -> None:
    text = (
        composed(version=1)
        .replace("average_bus_bandwidth", "average_bus_bandwidith")
        .replace('"bandwidth"', '"bandwidith"')
    )
    assert parse(text).avg_busbw_gb_s == 46.48233


@pytest.mark.parametrize(
    "end",
    ["end_time", '"out_of_bounds"', '"average_bus', '"size":1073741824', '"in_place"', '"results"'],
)
def test_a_document_cut_anywhere_gives_its_whole_rows_and_is_incomplete(end: str) -> None:
    text = composed()
    at = text.rindex(end) if end == '"in_place"' else text.index(end)
    read = parse(text[: at + 3])
    assert [row.size_bytes for row in read.rows] in ([536870912, 1073741824], [536870912], [])
    assert (
        read.complete,
        "the document has no end: the run was killed, or the file is cut" in read.problems
        or not read.rows,
    ) == (
        False,
        True,
    )


def test_every_cut_of_a_document_is_incomplete_or_no_document() -> None:
    text = composed()
    for end in range(0, len(text), 7):
        try:
            assert parse(text[:end]).complete is False
        except UnknownLayout:
            assert '"config"' not in text[:end] or end < text.index('"nthreads"') + 20


def test_a_document_closed_without_its_end_time_ended_early() -> None:
    document = json.loads(composed())
    del document["end_time"]
    assert "no end_time: the run ended early" in parse(json.dumps(document)).problems


def test_numbers_that_json_has_not_are_left_out() -> None:
    text = (
        composed()
        .replace('"bus_bw":46.48233', '"bus_bw":inf', 1)
        .replace('"alg_bw":46.48233', '"alg_bw":-nan', 1)
    )
    read = parse(text)
    assert (read.rows[0].out_of_place, read.rows[0].in_place is None, len(read.rows)) == (
        None,
        False,
        2,
    )
    assert read.faults == ("not a number: out_of_place of element 1 of results (size 536870912)",)


def test_cpu_time_has_its_own_key() -> None:
    text = composed().replace('"time":', '"cpu_time":')
    value = parse(text).rows[0].out_of_place
    assert value is not None
    assert value.cputime is True


def test_per_process_times_carry_host_and_rank() -> None:
    spread = SPREAD | {"times_us": MATRIX[1], "per_process_max_times_us": MATRIX}
    rows = [result(536870912), result(1073741824, out_of_place_per_iter=spread)]
    read = parse(composed(results=rows))
    assert read.process_times == (
        ProcessTimes(1073741824, False, 0, "node-a", 0, tuple(MATRIX[0])),
        ProcessTimes(1073741824, False, 1, "node-b", 0, tuple(MATRIX[1])),
    )
    value = read.rows[1].out_of_place
    assert value is not None
    assert (value.iter_min_us, value.iter_max_us, value.iter_p99_us, value.iter_cv_percent) == (
        22950.0,
        23400.0,
        23400.0,
        0.871164,
    )


def test_wrong_data_and_a_failed_average_are_faults() -> None:
    bad = composed(
        out_of_bounds={"count": 3, "okay": "false"},
        average_bus_bandwidth={"bandwidth": 46.48233, "okay": "false"},
    )
    assert parse(bad.replace('"nwrong":0.0', '"nwrong":12.0', 1)).faults == (
        "wrong data: #wrong is not 0 in 1 measurements, first at 536870912 bytes (12 elements)",
        "wrong data: Out of bounds values : 3 FAILED",
        "the average is below 0.9 of NCCL_TESTS_MIN_BW: Avg bus bandwidth FAILED",
    )


def test_last_sizes_that_are_missing_can_be_a_lack_of_memory_but_a_gap_cannot() -> None:
    config = json.loads(composed())["config"]
    shortened = parse(composed(config=config | {"maximum_bytes": 4294967296}))
    told = (
        "2 planned sizes were not printed: 2147483648, 4294967296 bytes (too little memory shortens"
        " a sweep so)"
    )
    assert (shortened.complete, shortened.problems) == (True, (told,))
    gap = parse(composed(results=[result(1073741824)]))
    assert (gap.complete, gap.problems) == (
        False,
        ("1 planned sizes were not printed: 536870912 bytes",),
    )


def test_several_gpus_per_process_are_counted_though_only_the_first_is_listed() -> None:
    config = json.loads(composed())["config"] | {
        "ngpus": 4,
        "devices": [DEVICES[0], DEVICES[1] | {"rank": 4}],
    }
    rows = [result(size) for size in (536870912, 1073741824)]
    for row in rows:
        for place in ("out_of_place", "in_place"):
            row[place] = row[place] | {"bus_bw": 81.344078}  # type: ignore[operator]  # composed above
    read = parse(
        composed(
            config=config,
            results=rows,
            average_bus_bandwidth={"bandwidth": 81.344078, "okay": "unchecked"},
        )
    )
    assert (read.nranks, read.nodes, read.complete, read.faults) == (8, 2, True, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "{}",
        "[]",
        '{"results"',
        '{"a":{"config":1}}',
        "[[[[" * 500,
        '{"config":' * 2000,
    ],
)
def test_what_is_no_such_document_is_an_error(text: str) -> None:
    with pytest.raises(UnknownLayout):
        parse(text)


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [[]], [None], True])
@pytest.mark.parametrize(
    "key",
    [
        "config",
        "results",
        "args",
        "average_bus_bandwidth",
        "out_of_bounds",
        "errors",
        "nccl_version",
        "end_time",
    ],
)
def test_values_of_the_wrong_kind_never_raise(key: str, value: object) -> None:
    assert isinstance(parse(composed(**{key: value})).problems, tuple)


RECORD = (
    '{{"numCycle":0, "name":"{name}", "nodes":1, "ranks":2, "ranksPerNode":2, "gpusPerRank":1,'
    ' "size":{size}, "type":"float", "redop":"{redop}", "inPlace":{place}, "time":61.200000,'
    ' "algBw":{algbw:f}, "busBw":{busbw:f}, "wrong":"{wrong}"}}'
)


def rccl(name: str = "AllReduce", wrong: str = "0", redop: str = "sum", factor: float = 1.0) -> str:
    sizes = (1048576, 2097152)
    records = [
        RECORD.format(
            name=name,
            size=size,
            redop=redop,
            place=place,
            algbw=size / 61200,
            busbw=size / 61200 * factor,
            wrong=wrong,
        )
        for size in sizes
        for place in (0, 1)
    ]
    return "[\n" + ",\n".join(records) + "\n]\n"


def test_rccl_records_are_paired_to_rows() -> None:
    (read,) = nccl_tests_rccl.parse(rccl())
    assert (read.collective, read.nranks, read.nodes, read.complete, read.faults) == (
        "all_reduce",
        2,
        1,
        True,
        (),
    )
    assert [(row.size_bytes, row.count, row.redop) for row in read.rows] == [
        (1048576, 262144, "sum"),
        (2097152, 524288, "sum"),
    ]
    assert read.problems == (
        (
            "these records have no footer: average and out-of-bounds count stand in the program's"
            " output"
        ),
    )


def test_rccl_counts_of_growing_collectives_are_per_rank() -> None:
    (read,) = nccl_tests_rccl.parse(rccl("AllToAll", wrong="N/A", redop="none", factor=0.5))
    assert (read.collective, read.rows[0].count, read.rows[0].redop, read.faults) == (
        "alltoall",
        131072,
        None,
        (),
    )


def test_rccl_wrong_elements_are_a_fault_and_a_cut_list_is_incomplete() -> None:
    (bad,) = nccl_tests_rccl.parse(rccl(wrong="3"))
    assert bad.faults == (
        "wrong data: #wrong is not 0 in 4 measurements, first at 1048576 bytes (3 elements)",
    )
    (cut,) = nccl_tests_rccl.parse(rccl()[:-40])
    assert (len(cut.rows), cut.complete) == (2, False)


def test_rccl_csv_is_read_and_cannot_say_that_it_is_whole() -> None:
    text = (
        "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,wrong\n"
        + "0,AllReduce,1,2,2,1,1048576,float,sum,0,61.2,17.133595,17.133595,0\n0,AllReduce,1,2,2,1,1048576,float,sum,1,61.2,17.133595,17.133595,0\n"
    )
    (read,) = nccl_tests_rccl.parse(text)
    assert (read.nranks, len(read.rows), read.complete) == (2, 1, False)
    assert (
        "a CSV file has no end mark: whether more sizes were to follow is not known"
        in read.problems
    )


@pytest.mark.parametrize("module", [results_json, nccl_tests_rccl])
def test_each_format_is_surest_of_its_own_text(module: object) -> None:
    texts = {results_json: composed(), nccl_tests_rccl: rccl()}
    scores = {other: module.FORMAT.looks_like(text.encode()) for other, text in texts.items()}  # type: ignore[attr-defined]  # both have one
    assert max(scores, key=scores.__getitem__) is module
