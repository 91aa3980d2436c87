"""The payload, built and run on this machine: it speaks nccl-tests' dialect, and its numbers come from bytes that it moved and checked."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest

from busbw.parsers.formats import nccl_tests_json, nccl_tests_table

pytestmark = pytest.mark.lab

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "alltoall", "sendrecv")
DEBIAN_MPI_HOME = Path("/usr/lib/x86_64-linux-gnu/openmpi")
LIMIT_S = 60.0

LAUNCH = (
    *("mpirun", "--allow-run-as-root", "--oversubscribe"),
    *("--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "mpi_yield_when_idle", "1"),
)

HEADER = """\
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
"""  # noqa: W291  the spaces at the ends are the format's


@dataclass(frozen=True)
class Ended:
    """A finished run."""

    exit_status: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The data rows, cut at white space."""
        return [line.split() for line in self.out.splitlines() if re.match(r" +\d", line)]


def build(folder: Path, *settings: str) -> Path:
    """A copy of the sources in `folder`, built there; the folder of the binaries."""
    with resources.as_file(resources.files("busbw.lab") / "payload") as sources:
        shutil.copytree(sources, folder, ignore=shutil.ignore_patterns("build"))
    subprocess.run(("make", "-s", "-C", str(folder), *settings), check=True, capture_output=True, timeout=LIMIT_S)
    return folder / "build"


@pytest.fixture(scope="module")
def mpi_settings() -> tuple[str, ...]:
    """The make variables of a build for MPI, as the build stage gives them."""
    for program in ("make", "mpicc", "mpirun"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return ("MPI=1", f"MPI_HOME={DEBIAN_MPI_HOME}") if DEBIAN_MPI_HOME.is_dir() else ("MPI=1",)


@pytest.fixture(scope="module")
def binaries(mpi_settings: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("payload") / "sources", *mpi_settings)


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without what would steer the payload, and with the settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_TESTS_", "LAB_", "BUSBW_", "OMPI_"))}
    return {**kept, **settings}


@pytest.fixture
def run(binaries: Path, tmp_path: Path) -> Callable[..., Ended]:
    """Runs a binary over so many processes: `run("all_reduce", 4, "-b", "8", LAB_NGPU="2")`."""

    def start(collective: str, processes: int, *words: str, **settings: str) -> Ended:
        argv = (*LAUNCH, "-np", str(processes), str(binaries / f"{collective}_perf"), *words)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=tmp_path, env=environment(**settings))
        return Ended(done.returncode, done.stdout, done.stderr)

    return start


def test_make_gives_the_six_binaries_and_nothing_to_say(mpi_settings: tuple[str, ...], tmp_path: Path) -> None:
    built = build(tmp_path / "all", *mpi_settings)
    assert sorted(path.name for path in built.glob("*_perf")) == sorted(f"{name}_perf" for name in COLLECTIVES)


def test_bin_files_list_and_builddir_are_honoured_and_mpicc_stands_in_for_mpi_home(mpi_settings: tuple[str, ...], tmp_path: Path) -> None:
    build(tmp_path / "one", "MPI=1", "BIN_FILES_LIST=all_reduce sendrecv", f"BUILDDIR={tmp_path / 'out'}")
    assert sorted(path.name for path in (tmp_path / "out").glob("*_perf")) == ["all_reduce_perf", "sendrecv_perf"]


def test_the_table_is_that_of_nccl_tests_to_the_space(run: Callable[..., Ended]) -> None:
    ended = run("all_reduce", 4, "--minbytes", "8", "--maxbytes", "8K", "--stepfactor", "32", "--iters", "2")
    host = re.escape(os.uname().nodename.split(".")[0][:63])
    ranks = "".join(
        rf"#  Rank {rank:2d} Group  0 Pid +\d+ on {' ' * max(0, 10 - len(host))}{host} device {rank:2d} \[0000:00:{rank:02x}\] "
        r"host memory \(emulated, no GPU\)\n"
        for rank in range(4)
    )
    rows = "".join(
        rf" +{size}  +{size // 4}     float     sum      -1(?:  [ \d.]{{7}}  [ \d.]{{6}}  [ \d.]{{6}}       0){{2}}\n"
        for size in (8, 256, 8192)
    )
    expected = (
        r"# busbw payload 1\.0 \(host memory over MPI, ring algorithms, speaks the nccl-tests 2\.19\.6 dialect\)\n"
        r"# Collective test starting: all_reduce_perf\n"
        r"# nThread 1 nGpus 1 minBytes 8 maxBytes 8192 step: 32\(factor\) warmup iters: 1 iters: 2 agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
        r"#\n# Using devices\n" + ranks + re.escape(HEADER) + rows + r"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : [\d.e-]+ \n"
        r"#\n# Collective test concluded: all_reduce_perf\n#\n\n"
    )
    assert re.fullmatch(expected, ended.out), ended.out
    assert ended.exit_status == 0
    assert {len(line) for line in ended.out.splitlines() if line.startswith(" ")} == {118}


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_delivers_what_was_sent(run: Callable[..., Ended], collective: str, processes: int) -> None:
    ended = run(collective, processes, "-b", "8", "-e", "1M", "-f", "16", "-n", "2", "-c", "2")
    assert ended.exit_status == 0, ended
    assert "# Out of bounds values : 0 OK" in ended.out
    unchecked = "N/A" if collective in ("alltoall", "sendrecv") else "0"
    assert [(row[8], row[12]) for row in ended.rows] == [("0", unchecked)] * 5


@pytest.mark.parametrize("collective", COLLECTIVES[:-1])
def test_the_mpi_librarys_own_collectives_pass_the_same_verification(run: Callable[..., Ended], collective: str) -> None:
    ended = run(collective, 3, "-b", "1K", "-e", "64K", "-f", "8", "-n", "1", BUSBW_PAYLOAD_ALGO="mpi")
    assert ended.exit_status == 0, ended
    assert "# Out of bounds values : 0 OK" in ended.out


def test_every_type_and_operator_is_exact(run: Callable[..., Ended]) -> None:
    ended = run("all_reduce", 3, "-b", "4K", "-e", "4K", "-d", "all", "-o", "all", "-n", "1")
    types = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float", "double")
    assert [(row[2], row[3]) for row in ended.rows] == [(name, op) for name in types for op in ("sum", "prod", "max", "min")]
    assert {(row[8], row[12]) for row in ended.rows} == {("0", "0")}


def test_every_root_broadcasts_with_root_minus_one(run: Callable[..., Ended]) -> None:
    ended = run("broadcast", 3, "-b", "1M", "-e", "1M", "-r", "-1", "-n", "1")
    assert [(row[4], row[8], row[12]) for row in ended.rows] == [("0", "0", "0"), ("1", "0", "0"), ("2", "0", "0")]


@pytest.mark.parametrize(
    ("collective", "size", "count"),
    [("all_reduce", 1000, 250), ("broadcast", 1000, 250), ("sendrecv", 1000, 250), ("all_gather", 960, 80), ("reduce_scatter", 960, 80)],
)
def test_parts_are_cut_to_sixteen_bytes_a_rank(run: Callable[..., Ended], collective: str, size: int, count: int) -> None:
    ended = run(collective, 3, "-b", "1000", "-e", "1000", "-n", "1")
    assert [(row[0], row[1]) for row in ended.rows] == [(str(size), str(count))]


def test_a_size_too_small_for_a_part_of_each_rank_is_a_row_of_size_zero(run: Callable[..., Ended]) -> None:
    (row,) = run("alltoall", 4, "-b", "8", "-e", "8", "-n", "1").rows
    assert (row[0], row[1], row[6], row[7], row[8]) == ("0", "0", "0.00", "0.00", "0")


@pytest.mark.parametrize(
    ("words", "tokens", "header"),
    [
        (("-S", "1"), 15, "timestamp"),
        (("-C", "1"), 13, "cputime"),
        (("-I", "1"), 21, "i_cv%"),
        (("-I", "1", "-S", "1"), 23, "timestamp"),
        (("-c", "0"), 13, "#wrong"),
    ],
)
def test_modifiers_add_their_columns(run: Callable[..., Ended], words: tuple[str, ...], tokens: int, header: str) -> None:
    ended = run("all_reduce", 2, "-b", "1K", "-e", "4K", "-f", "2", "-n", "3", *words)
    assert [len(row) for row in ended.rows] == [tokens] * 3
    (labels,) = (line for line in ended.out.splitlines() if "redop" in line)
    assert header in labels.split()
    (result,) = nccl_tests_table.parse(ended.out)
    assert (result.complete, len(result.rows), result.nranks) == (True, 3, 2)


def test_without_a_check_the_wrong_column_says_so(run: Callable[..., Ended]) -> None:
    ended = run("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "1", "-c", "0", LAB_CORRUPT="1")
    assert [(row[8], row[12]) for row in ended.rows] == [("N/A", "N/A")]
    assert (ended.exit_status, "# Out of bounds values : 0 OK" in ended.out) == (0, True)


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("1", "# Blocking Enabled: wait and barrier after each inner iteration (-m) "),
        ("2", "# Blocking Enabled: wait after each inner iteration (-m), no barrier "),
        ("3", "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier "),
    ],
)
def test_blocking_modes_are_announced(run: Callable[..., Ended], mode: str, line: str) -> None:
    ended = run("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "2", "-m", "2", "-z", mode)
    assert line in ended.out.splitlines()
    assert len(ended.rows) == 1


def test_cycles_repeat_the_sizes_under_one_header(run: Callable[..., Ended]) -> None:
    ended = run("all_gather", 2, "-b", "1K", "-e", "2K", "-i", "1K", "-n", "1", "-N", "3")
    assert [row[0] for row in ended.rows] == ["1024", "2048"] * 3
    assert ended.out.count("out-of-place") == 1


def test_the_document_has_every_key_of_schema_3_and_the_matrix_of_all_processes(run: Callable[..., Ended], tmp_path: Path) -> None:
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
    assert not [item for item in document["env"] if "secret" in item or item.startswith(("PATH=", "HOME=", "OMPI_MCA_orte_"))]
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
        *("size", "count", "type", "redop", "root", "out_of_place", "out_of_place_per_iter", "in_place", "in_place_per_iter"),
        *("actual_iterations", "experiment_name"),
    ]
    assert (row["size"], row["count"], row["type"], row["redop"], row["root"]) == (65536, 16384, "float", "sum", "    -1")
    spread = row["out_of_place_per_iter"]
    assert list(spread) == [
        *("skipped_iterations", "min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us", "stdev_us", "cv_pct"),
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
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("alltoall", 0.75), ("broadcast", 1.0), ("sendrecv", 1.0)],
)
def test_table_and_document_agree_and_carry_the_bus_factor(
    run: Callable[..., Ended], tmp_path: Path, collective: str, factor: float
) -> None:
    ended = run(collective, 4, "-b", "1M", "-e", "1M", "-n", "2", "-J", "out.json")
    (table,) = nccl_tests_table.parse(ended.out)
    document = nccl_tests_json.parse((tmp_path / "out.json").read_text())
    assert (table.collective, table.nranks, table.complete, table.problems) == (collective, 4, True, ())
    assert (document.collective, document.nranks, document.complete, document.problems) == (collective, 4, True, ())
    (row,) = document.rows
    assert row.out_of_place is not None
    assert table.rows[0].out_of_place is not None
    assert row.out_of_place.algbw_gb_s * factor == pytest.approx(row.out_of_place.busbw_gb_s, abs=2e-6)
    assert row.size_bytes / row.out_of_place.time_us / 1e3 == pytest.approx(row.out_of_place.algbw_gb_s, rel=1e-4)
    assert table.rows[0].out_of_place.time_us == pytest.approx(row.out_of_place.time_us, rel=5e-3, abs=0.006)


def test_a_taken_name_gets_a_number_and_another_suffix_is_ignored(run: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("kept")
    ended = run("sendrecv", 2, "-b", "8", "-e", "8", "-n", "1", "-J", "out.json")
    assert ended.out.startswith("# Writing JSON output to out.json.0\n")
    assert (tmp_path / "out.json").read_text() == "kept"
    assert not run("sendrecv", 2, "-b", "8", "-e", "8", "-n", "1", "-J", "out.txt").out.startswith("# Writing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.json.0"]


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({"NCCL_TESTS_SPLIT": "DIV 2"}, [0, 0, 1, 1]),
        ({"NCCL_TESTS_SPLIT": "/0b10"}, [0, 0, 1, 1]),
        ({"NCCL_TESTS_SPLIT": "MOD 2"}, [0, 1, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "& 0x1"}, [0, 1, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "OR 0x1"}, [1, 1, 3, 3]),
        ({"NCCL_TESTS_SPLIT_MASK": "0x2", "NCCL_TESTS_SPLIT": "MOD 2"}, [0, 0, 2, 2]),
    ],
)
def test_groups_are_split_as_nccl_tests_splits_them(run: Callable[..., Ended], settings: dict[str, str], groups: list[int]) -> None:
    ended = run("all_reduce", 4, "-b", "64K", "-e", "64K", "-n", "2", **settings)
    assert [int(found) for found in re.findall(r"#  Rank +\d+ Group +(\d+) ", ended.out)] == groups
    assert ended.exit_status == 0
    (row,) = ended.rows
    assert float(row[7]) == pytest.approx(float(row[6]), abs=0.011)  # factor 1: two ranks a group


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_rank_that_sends_a_wrong_byte_is_caught(run: Callable[..., Ended], collective: str) -> None:
    ended = run(collective, 4, "-b", "64K", "-e", "64K", "-n", "1", LAB_CORRUPT="1")
    (row,) = ended.rows
    assert float(row[8]) > 0
    found = re.search(r"# Out of bounds values : (\d+) FAILED", ended.out)
    assert found
    assert int(found[1]) >= 1
    assert ended.exit_status == 7
    assert re.search(r"^ \.\. \S+ pid \d+: Test failure \S+:\d+$", ended.out, re.MULTILINE)


def test_corruption_of_one_size_leaves_the_others_whole(run: Callable[..., Ended]) -> None:
    ended = run("all_gather", 2, "-b", "4K", "-e", "64K", "-f", "4", "-n", "1", LAB_CORRUPT="0:16384")
    assert [(row[0], row[8], row[12]) for row in ended.rows] == [("4096", "0", "0"), ("16384", "1", "1"), ("65536", "0", "0")]
    assert "# Out of bounds values : 2 FAILED" in ended.out


@pytest.mark.parametrize(("least", "word", "status"), [("1e-6", "OK", 0), ("1e6", "FAILED", 7)])
def test_the_least_bandwidth_decides_word_and_exit_code(run: Callable[..., Ended], least: str, word: str, status: int) -> None:
    ended = run("all_reduce", 2, "-b", "64K", "-e", "64K", "-n", "2", NCCL_TESTS_MIN_BW=least)
    assert re.search(rf"^# Avg bus bandwidth    : [\d.e-]+ {word}$", ended.out, re.MULTILINE)
    assert ended.exit_status == status


def test_too_few_emulated_gpus_is_exit_5(run: Callable[..., Ended]) -> None:
    ended = run("all_reduce", 3, "-b", "8", "-e", "8", LAB_NGPU="2", NCCL_TESTS_DEVICE="0")
    assert ended.exit_status == 5
    assert (
        "Invalid number of GPUs: 3 requested but only 2 were found.\nPlease check the number of processes and GPUs per process.\n"
        in ended.err
    )
    assert ended.rows == []


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("-h",), 0, "USAGE: all_reduce_perf"),
        (("-q", "1"), 0, "invalid option '?'"),
        (("-b", "8X"), 255, "invalid size specified for 'minbytes'"),
        (("-e", "-5"), 255, "invalid size specified for 'maxbytes'"),
        (("-b", "64M", "-e", "1M"), 255, "invalid sizes for 'minbytes' and 'maxbytes': 67108864 > 1048576"),
        (("-n", "0"), 255, "-n and -m must be at least 1"),
        (("-d", "half"), 5, "type 'half' is not available in host memory"),
        (("-o", "avg"), 5, "op 'avg' is not available in host memory"),
        (("-G", "1"), 5, "option -G '1' is not available in host memory"),
        (("-g", "2"), 5, "one process is one emulated GPU: -t 1 -g 1, not -t 1 -g 2"),
        (("-t", "2"), 5, "one process is one emulated GPU: -t 1 -g 1, not -t 2 -g 1"),
    ],
)
def test_refusals_have_nccl_tests_exit_codes(binaries: Path, words: tuple[str, ...], status: int, said: str) -> None:
    done = subprocess.run((binaries / "all_reduce_perf", *words), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done


def test_an_unknown_type_goes_on_with_float_and_says_so(run: Callable[..., Ended]) -> None:
    ended = run("all_reduce", 1, "-b", "8", "-e", "8", "-n", "1", "-d", "quad")
    assert ended.out.startswith("invalid type quad, defaulting to float .. \n")
    assert [row[2] for row in ended.rows] == ["float"]


def test_a_skip_without_iterations_to_skip_is_turned_off(run: Callable[..., Ended]) -> None:
    ended = run("all_reduce", 1, "-b", "8", "-e", "8", "-n", "3", "-I", "1", "-K", "3")
    assert "per-iteration skip (-K) must be between 0 and 2. Disabling.\n" in ended.err
    assert ended.exit_status == 0


def test_a_broadcast_from_no_rank_is_refused(run: Callable[..., Ended]) -> None:
    ended = run("broadcast", 2, "-b", "8", "-e", "8", "-r", "2")
    assert (ended.exit_status, ended.rows) == (6, [])
    assert "-r must be a rank of the group" in ended.err


def test_built_without_mpi_every_process_prints_a_table_of_one_rank(mpi_settings: tuple[str, ...], tmp_path: Path) -> None:
    built = build(tmp_path / "alone", "BIN_FILES_LIST=all_reduce")
    argv = (*LAUNCH, "-np", "3", str(built / "all_reduce_perf"), "-b", "1K", "-e", "1K", "-n", "1")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=environment())
    assert re.findall(r"#  Rank +(\d+) Group +(\d+)", done.stdout) == [("0", "0")] * 3
    assert done.stdout.count("# Collective test starting: all_reduce_perf") == 3
    assert done.stdout.count("0.00       0\n") == 3


@dataclass(frozen=True)
class Job:
    """A run under way whose output goes to a file."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text()

    def pid_of(self, rank: int) -> int:
        found = re.search(rf"#  Rank +{rank} Group +\d+ Pid +(\d+) ", self.text)
        assert found, self.text
        return int(found[1])

    def await_rows(self, count: int, deadline_s: float = 30.0) -> None:
        end = time.monotonic() + deadline_s
        while len(re.findall(r"^ +\d.*\n", self.text, re.MULTILINE)) < count:
            assert time.monotonic() < end, self.text
            assert self.process.poll() is None, self.text
            time.sleep(0.02)


@pytest.fixture
def endless(binaries: Path, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts an all_reduce of three processes that does not end by itself; ended with the test."""
    jobs: list[Job] = []

    def start(*words: str) -> Job:
        program = (str(binaries / "all_reduce_perf"), "-b", "256K", "-e", "256K", "-n", "5", "-N", "0", *words)
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen((*LAUNCH, "-np", "3", *program), stdout=output, stderr=output, cwd=tmp_path, env=environment())
        jobs.append(Job(process, tmp_path / "output"))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.terminate()
        try:
            job.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait(timeout=20)


def test_the_watchdog_ends_a_run_whose_rank_stands_still(endless: Callable[..., Job], tmp_path: Path) -> None:
    job = endless("-T", "2", "-J", "out.json")
    job.await_rows(2)
    os.kill(job.pid_of(1), signal.SIGSTOP)
    began = time.monotonic()
    assert job.process.wait(timeout=30) == 4
    assert 1.5 < time.monotonic() - began < 20
    assert re.search(r"\S+: Test timeout \(2s\) \S+:\d+\n", job.text)
    (result,) = nccl_tests_table.parse(job.text)
    assert not result.complete
    document = json.loads((tmp_path / "out.json").read_text())  # closed by the watchdog: well-formed, and not finished
    assert len(document["results"]) >= 2
    assert "end_time" not in document


def test_a_killed_rank_is_the_launchers_137_and_keeps_the_finished_rows(endless: Callable[..., Job], tmp_path: Path) -> None:
    job = endless("-J", "out.json")
    job.await_rows(3)
    os.kill(job.pid_of(2), signal.SIGKILL)
    assert job.process.wait(timeout=30) == 137
    assert re.search(r"process rank 2 with PID \d+ on node \S+ exited on signal 9", job.text)
    (table,) = nccl_tests_table.parse(job.text)
    document = nccl_tests_json.parse((tmp_path / "out.json").read_text())
    assert (table.complete, document.complete) == (False, False)
    assert len(table.rows) >= 3
    assert len(document.rows) >= 3
