"""`busbw why` from the command line: what it prints, what it ends with, and that nothing makes it
fall over."""

import gzip
import json
from pathlib import Path

import bases
import pytest

from busbw.cli import main
from busbw.cli.why_reading import read
from busbw.fabrics import profiles
from busbw.parsers.findings import catalogue

FIXTURES = Path(__file__).parents[1] / "fixtures"
DUPLICATE = (
    "node1:8700:8700 [0] init.cc:720 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on"
    " CUDA device 40\n"
)
GOOD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1   4100.0  261.89  458.31      0   4101.0  261.82  458.19      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 458.25
"""


def why(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(["why", *argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def write(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_log_is_answered_with_cause_line_and_fix_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(tmp_path, "nccl.log", "NCCL INFO x\n" + DUPLICATE)
    status, out, err = why(capsys, log)
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "✖ CAUSE (certain)  Two ranks use the same GPU   [duplicate-gpu]"
    assert lines[-1] == "read 1 file, 2 lines"
    assert f"  evidence  {log}:2  {DUPLICATE.strip()}" in lines
    assert any(line.startswith("  fix       1  ") for line in lines)


def test_json_has_the_fields_that_programs_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(tmp_path, "nccl.log", DUPLICATE)
    status, out, _ = why(capsys, log, "--json")
    document = json.loads(out)
    first = document["findings"][0]
    assert status == 1
    assert document["schema"] == "busbw.why/1"
    assert {key: first[key] for key in ("id", "confidence", "title", "where", "evidence")} == {
        "id": "duplicate-gpu",
        "confidence": "certain",
        "title": "Two ranks use the same GPU",
        "where": ["node1"],
        "evidence": [{"file": log, "line": 1, "text": DUPLICATE.strip()}],
    }
    assert set(first) == {
        "id", "confidence", "status", "title", "cause", "where", "where_more", "evidence", "fixes", "verify", "would_settle", "also", "explains",
    }  # fmt: skip
    assert set(first["fixes"][0]) == {"do", "run", "needs", "disruptive"}


def test_a_successful_log_is_told_as_such_and_ends_with_0(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, _ = why(capsys, write(tmp_path, "good.txt", GOOD))
    assert status == 0
    assert out.startswith("no failure: the work completed, and no line reports a problem\n")
    document = json.loads(why(capsys, str(tmp_path / "good.txt"), "--json")[1])
    assert (document["findings"], document["healthy"], document["unexplained"]) == ([], True, [])


def test_a_failure_without_a_known_reason_ends_with_3_and_says_what_to_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(
        tmp_path,
        "x.log",
        "n: Test NCCL failure common.cu:958 'internal error - please report this issue to the NCCL"
        " developers / '\n",
    )
    status, out, _ = why(capsys, log)
    assert status == 3
    assert "CAUSE not found: something failed, and the evidence does not say why" in out
    assert f"first line  {log}:1" in out
    assert "NCCL_DEBUG=INFO" in out


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("half a line", b"node1:8700:8700 [0] init.cc:720 NCCL WARN Dupl"),
        ("another tool's log", b"2026-07-10 09:00:00 nginx: 200 GET /index.html\n" * 50),
        ("binary", bytes(range(256)) * 64),
        ("nothing", b""),
        ("only blank lines", b"\n\n\n"),
        ("not UTF-8", b"caf\xe9 \xff\xfe NCCL INFO x\n"),
        ("a very long line", b"x" * 3_000_000),
        ("control characters", b"\x1b[31mNCCL INFO\x1b[0m \x00\x07\r\n"),
    ],
)
def test_what_is_no_log_gives_no_finding_and_no_stack_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    status, out, err = why(capsys, str(path), "--json")
    assert status in (0, 3), name
    assert "Traceback" not in err
    if out:
        found = {finding["id"] for finding in json.loads(out)["findings"]}
        assert found <= {"unmapped-message"}, name


def test_text_from_a_node_cannot_move_the_cursor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(
        tmp_path, "x.log", "\x1b]0;title\x07" + DUPLICATE.replace("rank 0", "rank\x1b[2J 0")
    )
    _, out, _ = why(capsys, log)
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_directory_is_read_file_by_file_also_compressed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path, "logs/rank0.log", "NCCL INFO fine\n")
    (tmp_path / "logs" / "rank1.log.gz").write_bytes(gzip.compress(DUPLICATE.encode()))
    status, out, _ = why(capsys, str(tmp_path / "logs"), "--json")
    document = json.loads(out)
    assert status == 1
    assert document["findings"][0]["evidence"][0]["file"].endswith("rank1.log.gz")
    assert [entry["lines"] for entry in document["read"]] == [1, 1]


def test_a_file_that_is_cut_off_is_named_as_not_wholly_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(DUPLICATE.encode() * 100)[:-8])
    document = json.loads(why(capsys, str(tmp_path / "cut.log.gz"), "--json")[1])
    assert len(document["problems"]) == 1
    assert "damaged or truncated" in document["problems"][0]


def test_a_path_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = why(capsys, "no/such/file.log")
    assert (status, out) == (2, "")
    assert "no/such/file.log" in err


def test_an_empty_file_is_no_evidence_of_anything(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(tmp_path, "empty.log", "")
    status, out, err = why(capsys, log)
    assert (status, out) == (3, "")
    assert f"{log} is empty: nothing to diagnose" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nofile.log"], "busbw: error: nofile.log: no such file"),
        (["--job", "123"], "busbw: error: --job needs --live"),
    ],
)
def test_a_wrong_call_is_answered_in_one_line_and_the_next_step(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    status, _, err = why(capsys, *words)
    assert status == 2
    assert err.splitlines()[0] == message
    assert "next: " in err


def test_one_entry_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = why(capsys, "duplicate-gpu")
    assert status == 0
    assert out.startswith("duplicate-gpu  Two ranks use the same GPU\n  cause     ")
    assert "Duplicate GPU detected" in out


def test_a_check_is_explained_with_the_entries_it_speaks_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = why(capsys, "rdma.rate")
    assert status == 0
    assert out.startswith("rdma.rate  All ports have their full rate\n  cause     ")
    assert "  causes    ib-rate-degraded  Port at a lower rate or width than expected\n" in out


def test_an_unknown_word_is_answered_with_the_likely_entry(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = why(capsys, "duplicate-gpus")
    assert status == 2
    assert "did you mean 'duplicate-gpu'?" in err


def test_without_arguments_it_says_what_it_wants(capsys: pytest.CaptureFixture[str]) -> None:
    assert why(capsys)[0] == 2


def test_the_list_has_every_entry_that_is_worth_looking_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = why(capsys, "--list")[1]
    listed = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    assert listed == {
        symptom.id
        for symptom in catalogue.load().entries
        if symptom.role is not catalogue.Role.NOTE
    }


def test_all_shows_also_what_is_barely_possible(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = "".join(
        f"a:1:2 [0] NCCL INFO {line}\n"
        for line in (
            "NCCL_BUFFSIZE set by environment to 65536.",
            "NCCL_PROTO set by environment to Simple",
            "NCCL_MAX_NCHANNELS set by environment to 2.",
            "NCCL_P2P_DISABLE set by environment to 1.",
            "NCCL_NVLS_ENABLE set by environment to 0.",
            "NCCL_IB_HCA set to mlx5_0",
            "NCCL_PXN_DISABLE set by environment to 1.",
        )
    )
    log = write(tmp_path, "x.log", settings)
    some, every = (
        json.loads(why(capsys, log, "--json", *more)[1])["findings"] for more in ((), ("--all",))
    )
    assert len(some) == 5
    assert len(every) > 5
    assert {finding["confidence"] for finding in every} == {"possible"}


def test_a_consequence_is_named_with_its_cause_and_is_no_guess_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    failure = "node1: Test CUDA failure common.cu:941 'system not yet initialized'\n"
    _, out, _ = why(capsys, write(tmp_path, "tests.out", failure))
    lines = out.splitlines()
    assert lines[0].endswith("[fabricmanager-not-running]")
    assert "  explains  A CUDA call failed inside NCCL [cuda-failure-generic]" in lines
    assert not any("also possible" in line for line in lines)


def test_a_guess_says_what_would_settle_it_and_does_not_repeat_the_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    caught = (
        "[rank4]:[E1129 11:56:57 ProcessGroupNCCL.cpp:616] [Rank 4] Watchdog caught collective"
        " operation timeout: WorkNCCL(SeqNum=9)\n"
    )
    log = write(tmp_path, "rank4.log", caught)
    status, out, _ = why(capsys, log)
    lines = out.splitlines()
    title = "✖ CAUSE (possible)  A rank did not enter the collective   [rank-not-entering]"
    assert (status, lines[0]) == (1, title)
    assert f"  evidence  {log}:1  {caught.strip()}" in lines
    assert "ncclras -v   # while it hangs, twice, ten seconds apart" in out
    assert sum("Watchdog caught" in line for line in lines) == 1


RETRY = (
    "gpu-007:42:43 [0] transport/net_ib.cc:1887 NCCL WARN NET/IB : Got completion from peer"
    " 10.1.0.8<41713> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0\n"
)


def test_the_first_possible_cause_of_a_failure_is_shown_in_full(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(tmp_path, "nccl.log", RETRY)
    status, out, _ = why(capsys, log)
    first = json.loads(why(capsys, log, "--json")[1])["findings"][0]
    assert (status, first["confidence"]) == (1, "possible")
    lines = out.splitlines()
    assert lines[0] == f"✖ CAUSE (possible)  {first['title']}   [{first['id']}]"
    assert lines[1] == f"  {first['cause']}"
    assert "  where     gpu-007, mlx5_0, peer 10.1.0.8" in lines
    assert any(line.startswith("  fix       1  ") for line in lines)
    commands = [command for fix in first["fixes"] for command in fix["run"]]
    assert all(f"               {command}" in lines for command in (*commands[:2],))
    assert "  open      the evidence does not show for certain that this is the cause" in lines


@pytest.mark.parametrize(
    ("text", "has_info_advice"),
    [
        (RETRY, True),
        ("gpu-007:42:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]\n" + RETRY, False),
        ("Traceback (most recent call last):\nKeyError: 'learning_rate'\n", False),
        ("[  12.3] mlx5_core 0000:18:00.0: health poll failed: unknown state\n", False),
    ],
)
def test_more_of_nccl_s_lines_are_asked_for_only_where_they_are_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, has_info_advice: bool
) -> None:
    _, out, _ = why(capsys, write(tmp_path, "x.log", text))
    assert ("NCCL_DEBUG=INFO" in out) is has_info_advice, out


def test_a_failure_without_a_named_cause_is_3_and_one_with_a_possible_cause_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for text in (RETRY, DUPLICATE, "Traceback (most recent call last):\nKeyError: 'rate'\n"):
        status, out, _ = why(capsys, write(tmp_path, "x.log", text))
        named = out.startswith("✖ CAUSE (")
        assert (status, named) in ((1, True), (3, False)), out
        assert out.startswith("CAUSE not found") is not named


def test_a_text_of_no_known_kind_is_unknown_and_not_fine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prose = write(tmp_path, "prose.txt", "The sun shone on the hill all day.\nNobody was in.\n")
    status, out, _ = why(capsys, prose)
    assert status == 3
    assert out.startswith("UNKNOWN: no line is of a kind that busbw knows")
    # Beside a text that is known it changes nothing.
    assert why(capsys, prose, write(tmp_path, "good.txt", GOOD))[0] == 0


def test_a_complete_table_says_that_its_bandwidth_was_not_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, _ = why(capsys, write(tmp_path, "good.txt", GOOD))
    assert status == 0
    assert "  not judged  bandwidth: busbw 458.31 GB/s at 1073741824 B" in out
    assert "  next        busbw expect " in out
    assert "--size 1073741824 --measured 458.31" in out


def test_wrong_data_is_cited_with_the_line_of_its_row_and_its_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = GOOD.replace("458.31      0", "458.31     17")
    log = write(tmp_path, "wrong.txt", wrong)
    status, out, _ = why(capsys, log)
    assert status == 1
    row = "nccl-tests, first at 1073741824 B out of place (17 wrong elements): wrong_count = 17"
    assert f"{log}:4  {row}" in out


ROWS = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 5
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1   292392    0.00    0.01       0   294448    0.00    0.01       0
     2097152        524288     float     sum      -1   588426    0.00    0.01       0   591358    0.00    0.01       0
"""
REFUSED = """\
WARNING: Open MPI failed to TCP connect to a peer MPI process.  This
should not happen.

  Local host: node2
  PID:        253
  Message:    connect() to 10.77.0.2:1025 failed
  Error:      Connection refused (111)
"""


def test_a_rank_that_died_after_rows_of_results_is_no_wrong_interface(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def ids(text: str) -> list[str]:
        document = json.loads(why(capsys, write(tmp_path, "job.out", text), "--json", "--all")[1])
        return [finding["id"] for finding in document["findings"]]

    lines = (
        "[node2][[1,1],2][btl_tcp_endpoint.c:625:mca_btl_tcp_endpoint_start_connect] connect() to"
        " 10.77.0.2 failed: Connection refused (111)\n"
        "[node3][[1,1],5][btl_tcp_frag.c:241:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv"
        " failed: Connection reset by peer (104)\n"
    )
    for lost in (REFUSED, lines):
        before, after = ids(lost), ids(ROWS + lost)
        assert before[0] == "mpi-wrong-interface"
        assert after[0] == "dead-process"
        assert "mpi-wrong-interface" not in after


def test_what_would_settle_it_is_not_repeated_where_it_is_a_step_of_the_fix(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(
        tmp_path,
        "nccl.log",
        "a:1:2 [0] x.cc:1 NCCL WARN Call to ibv_modify_qp failed with error Network is"
        " unreachable\n",
    )
    _, out, _ = why(capsys, log)
    assert out.count("ip route get <peer ip> from <local ip>") == 2, "in the fix and to verify it"


def test_a_part_of_an_id_lists_the_entries_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = why(capsys, "retry-exceeded")
    assert status == 2
    assert (
        "ids with that word: retry-exceeded-at-start, retry-exceeded-midrun,"
        " rnr-retry-exceeded" in err
    )


def test_a_run_that_is_unknown_is_never_told_as_fine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (base,) = (each for each in bases.recorded() if each.name == "unreached")
    run = base.written(tmp_path / "run")
    status, out, _ = why(capsys, str(run.path))
    assert status == 3
    assert "UNKNOWN: no line reports a failure, but the evidence is incomplete" in out
    run_id = json.loads(base.files["plan.json"])["run_id"]
    assert f"  missing     run {run_id}: " in out


def test_a_folder_of_runs_is_read_as_its_newest_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    by_name = {base.name: base for base in bases.recorded()}
    by_name["slowed"].written(tmp_path / "runs" / "20261126-slowed")
    newest = by_name["healthy"].written(tmp_path / "runs" / "20261127-healthy").path
    write(newest, "check.json", '{"expected": "no Xid", "command": "ulimit -l", "found": "64"}\n')
    _, alone, _ = why(capsys, str(newest))
    for folder in (tmp_path / "runs", newest / "raw"):
        _, out, _ = why(capsys, str(folder))
        assert out.split("\nread ")[0] == alone.split("\nread ")[0]
    _, out, _ = why(capsys, str(tmp_path / "runs"))
    assert f"1 other run of busbw: busbw why {tmp_path}/runs/20261126-slowed" in out


def test_of_a_part_of_a_run_what_its_programs_printed_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the records of busbw beside it, nor its looks at the ranks."""
    (base,) = (each for each in bases.recorded() if each.name == "stalled")
    cases = base.written(tmp_path / "run").path / "raw" / "cases"
    part = next(path.parent for path in sorted(cases.glob("*/outcome.json")))
    texts = read([str(part)]).evidence.texts
    assert texts
    own = (".json", "exit_status.err")
    assert not [text.artefact for text in texts if text.artefact.endswith(own)]
    status, out, _ = why(capsys, str(part))
    assert status in (1, 3), out
    assert "exit_status" not in out
    assert "the run has its verdict" in " ".join(read([str(part)]).gaps)
    monkeypatch.chdir(part)
    assert len(read(["."]).evidence.texts) == len(texts)


def test_causes_of_other_fabrics_than_the_runs_own_are_not_guessed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (base,) = (each for each in bases.recorded() if each.name == "slowed")
    run = str(base.written(tmp_path / "run").path)
    assert read([run]).family == profiles.family("tcp")
    _, out, _ = why(capsys, run, "--all")
    _, of_roce, _ = why(capsys, run, "--all", "--fabric", "roce")
    assert "low-bw-pfc-missing" in of_roce
    assert "low-bw-pfc-missing" not in out
    # Another text may be of another fabric.
    assert read([run, write(tmp_path, "other.log", "ranks wait\n")]).family is None


def test_of_a_run_in_an_archive_its_own_records_are_no_logs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = why(capsys, str(FIXTURES / "lab_runs" / "healthy.tar.xz"))
    assert status == 3
    assert out.startswith("UNKNOWN: no line reports a failure, but the evidence is incomplete\n")
    assert "only the output of this run's programs is read" in out


def test_a_text_is_blank_by_its_lines_and_not_by_what_is_said_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    blank = write(tmp_path, "blank.log", "\n \n")
    dump = str(FIXTURES / "flight_recorder" / "healthy-rank0.pickle")

    assert [read([blank]).is_blank, read([blank, dump]).is_blank] == [True, False]
    status, _, err = why(capsys, blank, dump)
    assert (status, "nothing to diagnose" in err) == (0, False)


def test_a_dump_that_shows_no_rank_that_waits_is_not_called_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = why(capsys, str(FIXTURES / "flight_recorder" / "healthy-rank0.pickle"))
    assert (status, err) == (0, "")
    assert out.startswith("nothing found")


def test_the_ranks_that_a_ras_report_lists_behind_are_the_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = (
        "  Warnings\n"
        "  ========\n\n"
        "  #0-0 (27a079b828ff1a75) MISMATCH\n"
        "    Communicator ranks have different collective operation counts\n"
        "    6 ranks have launched up to operation 50\n"
        "    2 ranks have launched up to operation 49\n"
        "    Rank 0 -- GPU 0 managed by process 41 on node 10.0.0.1\n"
        "    Rank 5 -- GPU 1 managed by process 42 on node 10.0.0.2\n"
    )
    _, out, _ = why(capsys, write(tmp_path, "ras.txt", report))
    assert "  where     10.0.0.1, 10.0.0.2, rank 0, rank 5\n" in out
    assert "…" not in out


def test_a_possible_cause_without_a_line_that_reports_a_failure_is_no_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Counts of RAS, pasted without their report: healthy ranks differ for a moment, too."""
    counts = (
        "  Communicator ranks have different collective operation counts\n"
        "  26 ranks have launched up to operation 6650\n"
    )
    status, out, _ = why(capsys, write(tmp_path, "ras.txt", counts))
    assert status == 3
    assert out.startswith(
        "UNKNOWN: no line reports a failure, but what is listed below can make a job fail\n"
    )
    assert "rank-not-entering" in out


@pytest.mark.parametrize(
    ("state", "statuses"),
    [("down*", (1, 1)), ("down", (1, 1)), ("drain", (0, 0)), ("idle", (0, 0))],
)
def test_read_and_why_agree_on_the_states_of_slurms_nodes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, state: str, statuses: tuple[int, int]
) -> None:
    head = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
    rows = f"batch*       up   infinite      2  {state} node[3,7]\n"
    path = write(
        tmp_path, "sinfo.txt", f"{head}{rows}batch*       up   infinite      1   idle node1\n"
    )
    assert (main(["read", path]), main(["why", path])) == statuses
    capsys.readouterr()


def test_a_good_output_of_a_tool_does_not_excuse_the_lines_behind_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = "CA 'mlx5_0'\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
    path = write(tmp_path, "all.log", f"$ ibstat\n{port}epoch 1\nLoss is nan, stopping training\n")
    status, out, _ = why(capsys, path)
    assert (status, "loss-not-finite" in out) == (3, True)


def test_of_two_that_may_explain_each_other_the_first_one_leads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (
        "Abort(606203407) on node 10 (rank 10 in comm 0): Fatal error in PMPI_Put: Other MPI error, error stack:\n"
        "MPIDI_OFI_do_put(436): OFI rdma write immediate failed (ofi_rma.h:436:MPIDI_OFI_do_put:Invalid argument)\n"
        "fi_getinfo: -61\n"
    )
    out = why(capsys, write(tmp_path, "job.err", text))[1]
    assert "[ofi-device-error]" in out.splitlines()[0]


def test_a_partition_named_gpu_is_no_gpu(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    head = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
    path = write(tmp_path, "sinfo.txt", f"{head}gpu       up   infinite      2  down n[3,7]\n")
    out = why(capsys, path)[1]
    assert "node-unreachable" in out
    assert "gpu-" not in out
    assert "dcgm-" not in out


def test_a_short_message_is_told_by_its_file_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = (
        "[1.2] [n1:1:0] ucp_context.c:969  UCX  WARN  CPU affinity is not set (bound to 64 cpus)\n"
    )
    out = why(capsys, write(tmp_path, "ucx.log", line))[1]
    assert "library-internal-error" not in out


def test_a_watchdog_that_caught_a_broadcast_is_no_sign_of_storage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = (
        "[rank3]:[E522 20:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=3, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for"
        " 600029 milliseconds before timing out.\n"
    )
    out = why(capsys, write(tmp_path, "rank3.log", line))[1]
    assert out.index("watchdog-timeout-short") < out.index("io-straggler")


def test_a_communicator_whose_start_does_not_end_is_unknown_and_not_fine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(
        tmp_path,
        "rank0.log",
        "gpu-017:41:45 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB bond0:10.0.17.1<0>\n"
        "gpu-017:41:45 [0] NCCL INFO comm 0x55e0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000"
        " commId 0x8a1b2c3d4e5f6071 - Init START\n",
    )
    status, out, _ = why(capsys, log)
    assert (status, out.splitlines()[:2]) == (
        3,
        [
            "UNKNOWN: no line reports a failure, but the evidence is incomplete",
            "  missing     communicator 8a1b2c3d4e5f6071: 1 of 16 ranks began their start and did not"
            " complete it (0)",
        ],
    )


def test_the_command_that_judges_a_table_has_what_the_table_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = "".join(
        f"#  Rank {rank} Group 0 Pid 9 on gpu-001 device {rank} [0x1{rank}] NVIDIA H100 80GB HBM3\n"
        for rank in range(8)
    )
    _, out, _ = why(capsys, write(tmp_path, "good.txt", f"# Using devices\n{devices}{GOOD}"))
    command = (
        "  next        busbw expect --gpu H100 --gpus-per-node 8 --collective all_reduce --nodes 1"
        " --size 1073741824 --measured 458.31"
    )
    assert out.splitlines()[2] == command
    assert main(command.split()[2:]) == 0


def test_the_one_rank_without_a_time_out_is_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(8):
        lines = f"n:{rank}:9 [0] NCCL INFO comm 0x7f rank {rank} nranks 8 cudaDev 0 busId 1000 commId 0xab - Init COMPLETE\n"
        if rank != 5:
            lines += (
                f"[rank{rank}]:[E1124 02:13:12.1 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog"
                " caught collective operation timeout: WorkNCCL(SeqNum=84, OpType=ALLREDUCE,"
                " NumelIn=33, NumelOut=33, Timeout(ms)=600000) ran for 600000 milliseconds before"
                " timing out.\n"
            )
        write(tmp_path, f"rank{rank}.log", lines)
    status, out, _ = why(capsys, str(tmp_path))
    assert status == 1
    assert out.splitlines()[0].endswith("A rank did not enter the collective   [rank-not-entering]")
    assert "  where     n, rank 5" in out.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "\tstatus = StatusCode.UNAVAILABLE",
    ],
)
def test_a_line_that_only_follows_from_a_failure_is_not_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    (tmp_path / "server.log").write_text(line + "\n")
    status = main(["why", str(tmp_path / "server.log")])
    assert (status, capsys.readouterr().out.split(":")[0]) == (3, "UNKNOWN")
