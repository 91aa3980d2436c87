"""The document of -J: schema 3, and the same numbers as the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests import table as nccl_tests_table

pytestmark = pytest.mark.lab


def test_the_document_has_every_key_of_schema_3_and_the_matrix_of_all_processes(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    words = ("-b", "64K", "-e", "64K", "-n", "5", "-I", "1", "-K", "2", "-z", "3", "-J", "out.json")
    ended = run("all_reduce", 4, *words, NCCL_TESTS_SPLIT="DIV 2", HF_TOKEN="a secret")
    assert ended.out.startswith("# Writing JSON output to out.json\n")
    document = json.loads((tmp_path / "out.json").read_text())
    assert list(document) == [
        *("version", "start_time", "args", "env", "nccl_version", "config", "results"),
        *("out_of_bounds", "average_bus_bandwidth", "errors", "end_time"),
    ]
    assert (document["version"], document["nccl_version"], document["errors"]) == (3, None, [""])
    assert "NCCL_TESTS_SPLIT=DIV 2" in document["env"]
    assert not [
        item
        for item in document["env"]
        if "secret" in item or item.startswith(("PATH=", "HOME=", "OMPI_MCA_orte_"))
    ]
    config = document["config"]
    devices = config.pop("devices")
    assert config == {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": 65536,
        "maximum_bytes": 65536,
        "step_bytes": 1048576,
        "warmup_iters": 1,
        "iterations": 5,
        "aggregated_iterations": 1,
        "validation": 1,
        "graph": 0,
        "blocking_collectives": "true",
        "per_iter_timing": "true",
        "per_iter_skip": 2,
        "parallel_init": "false",
    }
    assert [(d["rank"], d["group"], d["device"], d["device_hex"]) for d in devices] == [
        (rank, rank // 2, rank, f"0000:00:0{rank}") for rank in range(4)
    ]
    assert {d["device_info"] for d in devices} == {"host memory (emulated, no GPU)"}
    (row,) = document["results"]
    assert list(row) == [
        *(
            "size",
            "count",
            "type",
            "redop",
            "root",
            "out_of_place",
            "out_of_place_per_iter",
            "in_place",
            "in_place_per_iter",
        ),
        *("actual_iterations", "experiment_name"),
    ]
    assert (row["size"], row["count"], row["type"], row["redop"], row["root"]) == (
        65536,
        16384,
        "float",
        "sum",
        "    -1",
    )
    spread = row["out_of_place_per_iter"]
    assert list(spread) == [
        *(
            "skipped_iterations",
            "min_us",
            "max_us",
            "avg_us",
            "p50_us",
            "p95_us",
            "p99_us",
            "stdev_us",
            "cv_pct",
        ),
        *("times_us", "per_process_max_times_us"),
    ]
    matrix = spread["per_process_max_times_us"]
    assert [len(times) for times in matrix] == [5] * 4
    assert spread["times_us"] == [max(column) for column in zip(*matrix, strict=True)]
    assert (spread["skipped_iterations"], spread["min_us"], spread["max_us"]) == (
        2,
        min(spread["times_us"][2:]),
        max(spread["times_us"][2:]),
    )
    assert document["out_of_bounds"] == {"count": 0, "okay": "true"}
    assert document["average_bus_bandwidth"]["okay"] == "unchecked"


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.5),
        ("all_gather", 0.75),
        ("reduce_scatter", 0.75),
        ("alltoall", 0.75),
        ("broadcast", 1.0),
        ("sendrecv", 1.0),
    ],
)
def test_table_and_document_agree_and_carry_the_bus_factor(
    run: Callable[..., Any], tmp_path: Path, collective: str, factor: float
) -> None:
    ended = run(collective, 4, "-b", "1M", "-e", "1M", "-n", "3", "-J", "out.json")
    (table,) = nccl_tests_table.parse(ended.out)
    document = results_json.parse((tmp_path / "out.json").read_text())
    assert (table.collective, table.nranks, table.complete, table.problems) == (
        collective,
        4,
        True,
        (),
    )
    assert (document.collective, document.nranks, document.complete, document.problems) == (
        collective,
        4,
        True,
        (),
    )
    (row,) = document.rows
    assert row.out_of_place is not None
    assert table.rows[0].out_of_place is not None
    assert row.out_of_place.algbw_gb_s * factor == pytest.approx(
        row.out_of_place.busbw_gb_s, abs=2e-6
    )
    assert row.size_bytes / row.out_of_place.time_us / 1e3 == pytest.approx(
        row.out_of_place.algbw_gb_s, rel=1e-4, abs=1e-6
    )
    assert table.rows[0].out_of_place.time_us == pytest.approx(
        row.out_of_place.time_us, rel=5e-3, abs=0.006
    )


def test_a_taken_name_gets_a_number_and_another_suffix_is_ignored(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "out.json").write_text("kept")
    ended = run("sendrecv", 2, "-b", "8", "-e", "8", "-n", "1", "-J", "out.json")
    assert ended.out.startswith("# Writing JSON output to out.json.0\n")
    assert (tmp_path / "out.json").read_text() == "kept"
    assert not run("sendrecv", 2, "-b", "8", "-e", "8", "-n", "1", "-J", "out.txt").out.startswith(
        "# Writing"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.json.0"]
