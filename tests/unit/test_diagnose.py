"""From texts and facts to an order of causes."""

import dataclasses
from pathlib import Path

import pytest

from busbw.fabrics.profiles import family
from busbw.model import (
    BenchmarkResult,
    BenchmarkRow,
    CheckResult,
    Comparison,
    Confidence,
    Evidence,
    Measurement,
    Reference,
    Status,
)
from busbw.parsers.findings import catalogue, diagnose
from busbw.parsers.findings.catalogue import Role, Weight
from busbw.parsers.findings.evidence import Context, Diagnosis, EvidenceSet, Fact, Text
from busbw.parsers.findings.facts import from_checks, from_comparisons, from_records
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner

DUPLICATE = (
    "node1:8700:8700 [0] init.cc:720 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on"
    " CUDA device 40\n"
)
FLUSH = (
    "a:1:2 [5] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<50854> with status=5"
    " opcode=31245 len=0 vendor err 249 (Recv) hca mlx5_9\n"
)
RETRY = (
    "b:3:4 [6] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<39226> with status=12"
    " opcode=32224 len=0 vendor err 129 (Recv) hca mlx5_1\n"
)
CLOSED = (
    "c:5:6 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer"
    " gpu3<45074>\n"
)
XID = (
    "[Fri Jul 10 09:00:00 2026] NVRM: Xid (PCI:0000:4f:00): 79, pid=4711, name=python, GPU has"
    " fallen off the bus.\n"
)
RECORDED = Path(__file__).parents[1] / "fixtures" / "open_mpi"
GOOD = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 458.25\n"


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(search_patterns())


def ask(
    scanner: Scanner, *texts: str, facts: tuple[Fact, ...] = (), fabric: str | None = None
) -> Diagnosis:
    searched = tuple(
        Text(f"{number}.log", scanner.scan([text.encode()]).hits)
        for number, text in enumerate(texts)
    )
    return diagnose.diagnose(
        EvidenceSet(searched, facts), Context(family(fabric) if fabric else None)
    )


def told(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(finding.id, finding.confidence.value) for finding in diagnosis.findings]


def test_one_line_that_can_mean_nothing_else_is_certain_and_shown_as_evidence(
    scanner: Scanner,
) -> None:
    found = ask(scanner, "NCCL INFO noise\n" + DUPLICATE).findings[0]
    assert (found.id, found.confidence, found.status) == (
        "duplicate-gpu",
        Confidence.CERTAIN,
        Status.FAIL,
    )
    assert found.evidence == (Evidence("0.log", 2, DUPLICATE.strip()),)
    assert found.where == ("node1",)
    assert found.fixes
    assert found.would_settle == ()


def test_the_flush_error_before_it_is_a_consequence_of_the_retry_error(scanner: Scanner) -> None:
    diagnosis = ask(scanner, FLUSH + RETRY)
    assert told(diagnosis)[0] == ("retry-exceeded-at-start", "possible")
    flush = next(finding for finding in diagnosis.findings if finding.id == "flush-error-secondary")
    assert flush.confidence is Confidence.POSSIBLE
    assert "flush-error-secondary" in diagnosis.findings[0].explains


def test_flush_errors_alone_are_never_more_than_possible(scanner: Scanner) -> None:
    assert told(ask(scanner, FLUSH))[0] == ("flush-error-secondary", "possible")


def test_the_kernel_log_outranks_what_nccl_reports_of_it(scanner: Scanner) -> None:
    diagnosis = ask(scanner, CLOSED, XID)
    assert told(diagnosis)[0] == ("gpu-fell-off-bus", "certain")
    assert dict(told(diagnosis))["dead-process"] == "possible"


def test_a_process_killed_for_memory_is_no_consequence_of_the_network_error_it_leads_to(
    scanner: Scanner,
) -> None:
    diagnosis = ask(
        scanner,
        RETRY,
        "[Fri Jul 10 09:00:00 2026] Out of memory: Killed process 3487984 (python3) total-vm:1kB\n",
    )
    assert told(diagnosis)[0] == ("host-memory-exhausted", "likely")


def test_a_closed_connection_alone_names_no_cause(scanner: Scanner) -> None:
    diagnosis = ask(scanner, CLOSED)
    assert told(diagnosis) == [("dead-process", "possible")]
    assert [line.line_no for line in diagnosis.unexplained] == [1]


IOMMU = (
    'a:402:402 [0] init.cc:179 NCCL WARN Missing "iommu=pt" from kernel command line which can lead'
    " to system instablity or hang!\n"
)
TIMED_OUT = (
    "[rank0]:[E1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for"
    " 600001 milliseconds before timing out.\n"
)


def test_a_condition_is_a_guess_where_the_failure_is_not_explained_and_is_dropped_where_it_is(
    scanner: Scanner,
) -> None:
    unexplained = ask(scanner, IOMMU, TIMED_OUT)
    assert ("iommu-translating", "possible") in told(unexplained)
    assert unexplained.unexplained
    assert "iommu-translating" not in dict(told(ask(scanner, IOMMU, TIMED_OUT, XID)))


def test_a_setting_is_accused_only_where_a_number_says_that_something_is_wrong(
    scanner: Scanner,
) -> None:
    setting = "a:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 65536.\n"
    ratio = Fact(
        "result", (("busbw_ratio", 0.5),), Evidence("all-reduce", None, "half of expected")
    )
    assert dict(told(ask(scanner, setting)))["buffsize-chunk-tuned"] == "possible"
    assert dict(told(ask(scanner, setting, facts=(ratio,))))["buffsize-chunk-tuned"] == "likely"


def test_a_log_of_work_that_completed_is_healthy_and_gives_no_finding(scanner: Scanner) -> None:
    diagnosis = ask(scanner, GOOD)
    assert (diagnosis.findings, diagnosis.healthy, diagnosis.unexplained) == ((), True, ())


def test_a_failure_the_table_does_not_know_is_told_as_not_explained(scanner: Scanner) -> None:
    diagnosis = ask(
        scanner,
        "node: Test NCCL failure common.cu:958 'internal error - please report this issue to the"
        " NCCL developers / '\n",
    )
    assert told(diagnosis) == [("library-internal-error", "possible")], "which says it again"
    assert [(line.artefact, line.line_no) for line in diagnosis.unexplained] == [("0.log", 1)]
    assert not diagnosis.healthy
    assert diagnosis.notes[0] == (
        "the first line that reports a failure is 0.log:1; nothing in the evidence says for"
        " certain why"
    )


def test_two_strong_signs_of_independent_sources_are_certain(scanner: Scanner) -> None:
    flap = "NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)\n"
    counter = Fact(
        "counter:link_downed", (("delta", 2.0),), Evidence("counters", None, "mlx5_3"), ("node1",)
    )
    assert dict(told(ask(scanner, flap)))["link-flaps"] == "likely"
    certain = next(
        finding
        for finding in ask(scanner, flap, facts=(counter,)).findings
        if finding.id == "link-flaps"
    )
    assert certain.confidence is Confidence.CERTAIN
    assert Evidence("counters", None, "mlx5_3: delta = 2") in certain.evidence


def test_an_entry_whose_condition_is_not_known_stays_possible_and_falls_where_it_does_not_hold(
    scanner: Scanner,
) -> None:
    spread = Fact("result", (("rank_cv", 0.2),), Evidence("survey", None, ""))

    def layer(name: str) -> Fact:
        return Fact(
            "preflight:rdma.port_state", (("link_layer", name),), Evidence("preflight", None, "")
        )

    assert dict(told(ask(scanner, facts=(spread,))))["variance-rule-ethernet"] == "possible"
    ethernet = dict(told(ask(scanner, facts=(spread, layer("Ethernet")))))
    assert ethernet["variance-rule-ethernet"] == "likely"
    assert "variance-rule-infiniband" not in ethernet


def test_what_was_not_measured_gives_no_finding(scanner: Scanner) -> None:
    assert (
        ask(
            scanner,
            facts=(Fact("preflight:gpu.count", (("count", 7.0),), Evidence("x", None, "")),),
        ).findings
        == ()
    )


def test_a_check_that_failed_raises_the_entries_it_feeds(scanner: Scanner) -> None:
    check = CheckResult(
        "rdma.port_state",
        "node1",
        Status.FAIL,
        "mlx5_3 DOWN",
        "ACTIVE",
        "cat …",
        evidence=Evidence("raw/node1", 7, "DOWN"),
    )
    passed = CheckResult("rdma.rate", "node1", Status.PASS, "400", "400", "cat …")
    diagnosis = ask(scanner, facts=from_checks((check, passed)))
    down = next(finding for finding in diagnosis.findings if finding.id == "ib-port-down")
    assert (down.confidence, down.where) == (Confidence.POSSIBLE, ("node1",))
    assert "ib-rate-degraded" not in dict(told(diagnosis))


def test_sockets_are_a_fallback_only_on_a_fabric_with_rdma(scanner: Scanner) -> None:
    log = (
        "a:1:2 [0] NCCL INFO Using network Socket\na:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0]"
        " [send] via NET/Socket/0\n"
    )
    assert dict(told(ask(scanner, log, fabric="ib")))["silent-tcp-fallback"] == "likely"
    assert "silent-tcp-fallback" not in dict(told(ask(scanner, log, fabric="tcp")))


def test_wrong_data_is_certain_whether_it_comes_from_the_table_or_the_footer(
    scanner: Scanner,
) -> None:
    wrong = Measurement(1234.5, 54.4, 102.0, 12)
    row = BenchmarkRow(67108864, 16777216, "float", "sum", None, wrong, None)
    result = BenchmarkResult("all_reduce", 16, 2, (row,), (), None, None, None, None, True, ())
    facts = from_records("a.txt", (result,))
    assert dict(facts[0].values) == {
        "wrong_count": 12.0,
        "max_bytes": 67108864.0,
        "busbw": 102.0,
        "nranks": 16.0,
        "nodes": 2.0,
        "collective": "all_reduce",
    }
    assert told(ask(scanner, facts=facts))[0] == ("data-corruption", "certain")
    assert told(ask(scanner, "# Out of bounds values : 3 FAILED\n"))[0] == (
        "data-corruption",
        "certain",
    )


def test_a_count_is_told_whole_however_large_it_is(scanner: Scanner) -> None:
    row = BenchmarkRow(
        67108864,
        16777216,
        "float",
        "sum",
        None,
        Measurement(1234.5, 54.4, 102.0, 1_234_567_890),
        None,
    )
    facts = from_records(
        "a.txt",
        (BenchmarkResult("all_reduce", 16, 2, (row,), (), None, None, None, None, True, ()),),
    )
    (finding,) = (
        each for each in ask(scanner, facts=facts).findings if each.id == "data-corruption"
    )
    assert [item.text.rpartition(": ")[2] for item in finding.evidence] == [
        "wrong_count = 1234567890"
    ]


def test_a_ratio_that_is_not_known_is_no_fact() -> None:
    reference = Reference("peers", 372.0, "median of 4 like groups in this run")
    known = Comparison(
        "all-reduce", 1 << 30, 186.0, reference, 0.5, Status.FAIL, "half", nodes=("n1",)
    )
    unknown = Comparison(
        "alltoall",
        1 << 30,
        186.0,
        Reference("none", None, ""),
        None,
        Status.UNKNOWN,
        "no reference",
    )
    assert [fact.values for fact in from_comparisons((known, unknown))] == [(("busbw_ratio", 0.5),)]


STRONG = [
    pytest.param(symptom.id, line, id=f"{symptom.id}-{number}")
    for symptom in catalogue.load().entries
    for number, signal in enumerate(symptom.signals)
    if signal.regex is not None
    and signal.weight in (Weight.CERTAIN, Weight.STRONG)
    and symptom.role is not Role.SETTING
    for line in signal.matches
]


@pytest.mark.parametrize(("symptom_id", "line"), STRONG)
def test_a_line_that_makes_an_entry_likely_leads_to_it_or_to_what_explains_it(
    symptom_id: str, line: str, scanner: Scanner
) -> None:
    first, *rest = ask(scanner, line + "\n").findings
    known = catalogue.load()
    second = rest[0].id if rest else None
    assert (
        symptom_id in (first.id, second)
        or symptom_id in known.general
        or symptom_id in known.get(first.id).explains
    ), told(ask(scanner, line + "\n"))


def test_the_same_evidence_gives_the_same_answer(scanner: Scanner) -> None:
    assert ask(scanner, FLUSH + RETRY + CLOSED, XID) == ask(scanner, FLUSH + RETRY + CLOSED, XID)


def test_what_could_end_a_job_is_no_answer_for_a_job_that_ended_well(scanner: Scanner) -> None:
    weak = (
        "#  Rank  0 Group  0 Pid   4766 on   GENOA-06 device  0 [0000:01:00] NVIDIA GeForce RTX"
        " 5090\n"
    )
    assert ("nccl-too-old-for-gpu", "possible") in told(ask(scanner, weak))
    assert (ask(scanner, weak + GOOD).healthy, told(ask(scanner, weak + GOOD))) == (True, [])


def test_a_condition_that_holds_anywhere_is_met_however_many_places_it_does_not_hold_in() -> None:
    def fact(link_layer: str, node: str) -> Fact:
        return Fact(
            "preflight:rdma.port_state",
            (("link_layer", link_layer),),
            Evidence("x", None, node),
            (node,),
        )

    spread = Fact("result", (("rank_cv", 0.2),), Evidence("x", None, "spread"))
    mixed = diagnose.diagnose(
        EvidenceSet((), (fact("InfiniBand", "n1"), fact("Ethernet", "n1"), spread))
    )
    assert {"variance-rule-ethernet", "variance-rule-infiniband"} <= set(dict(told(mixed)))
    only = diagnose.diagnose(EvidenceSet((), (fact("InfiniBand", "n1"), spread)))
    assert "variance-rule-ethernet" not in dict(told(only))


def test_the_values_of_a_check_are_read_by_the_table() -> None:
    degraded = (("rate_gbps", 200.0), ("expected_gbps", 400.0))
    check = CheckResult(
        "rdma.rate", "n1", Status.FAIL, "200 Gb/s", "400 Gb/s", "ibstat", values=degraded
    )
    assert ("ib-rate-degraded", "likely") in told(
        diagnose.diagnose(EvidenceSet((), from_checks([check])))
    )
    assert ("ib-rate-degraded", "possible") in told(
        diagnose.diagnose(EvidenceSet((), from_checks([dataclasses.replace(check, values=())])))
    )


def test_a_line_that_only_rules_an_entry_out_is_not_explained_by_it(scanner: Scanner) -> None:
    line = "a:1:2 [0] x.cc:1 NCCL WARN NET/OFI something that nobody knows"
    assert [item.text for item in ask(scanner, line + "\n").unexplained] == [line]


def test_a_killed_rank_is_the_cause_of_the_connections_to_it_that_fail(scanner: Scanner) -> None:
    text = (RECORDED / "killed-while-connecting.txt").read_text()
    diagnosis = ask(scanner, text)
    assert told(diagnosis)[0] == ("dead-process", "certain")
    assert dict(told(diagnosis))["mpi-wrong-interface"] == "possible"
    assert diagnosis.findings[0].explains == ("mpi-wrong-interface",)
    assert any(
        "rank 20" in evidence.text and "node5" in evidence.text
        for evidence in diagnosis.findings[0].evidence
    )
    # A dead process refuses connections; it does not take the way to its host away.
    unreachable = (
        "[n1][[1,1],0][btl_tcp_endpoint.c:625] connect() to 172.17.0.1 failed: No route to host"
        " (113)\n"
    )
    assert told(ask(scanner, unreachable + text))[0] == ("mpi-wrong-interface", "certain")


def test_ranks_that_exchanged_data_until_a_peer_closed_had_found_each_others_interfaces(
    scanner: Scanner,
) -> None:
    """The same warning of Open MPI, and nothing of the kill in its output."""
    first, *_ = ask(scanner, (RECORDED / "killed-unnoticed.txt").read_text()).findings
    # The host that the next help block names only noticed.
    assert (first.id, first.where) == ("dead-process", ())
    # Without the peers' lines the warning is all there is.
    warning = (RECORDED / "killed-unnoticed.txt").read_text().partition("WARNING")[2]
    assert told(ask(scanner, f"WARNING{warning}"))[0] == ("mpi-wrong-interface", "likely")


def test_a_setting_that_a_log_echoes_is_no_symptom(scanner: Scanner) -> None:
    assert told(ask(scanner, "slurm: step 7 ended: OUT_OF_MEMORY\n"))
    assert told(ask(scanner, "+ export RETRY_AFTER=OUT_OF_MEMORY\n")) == []
    setting = "a:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.\n"
    joined = "a:1:2 [0] NCCL INFO NCCL_NET set by environment to IB. " + RETRY
    assert told(ask(scanner, joined))[0][0] == "retry-exceeded-at-start"
    assert ("gid-index-forced", "possible") in told(ask(scanner, setting))


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "a:1:2 [0] misc/nvmlwrap.cc:183 NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: Not"
            " Found",
            "scheduler-cgroup-limits",
        ),
        (
            "a:1:2 [0] misc/socket.cc:9 NCCL WARN socketStartConnect: Connect to 127.0.1.1<38411>"
            " failed : Connection refused",
            "hostname-resolves-loopback",
        ),
        (
            "a:1:2 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment x (size"
            " 9)\na:1:2 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied",
            "shm-permission-denied",
        ),
        ("srun: error: execve(): prted: No such file or directory", "orted-not-found"),
        (
            "a:1:2 [0] transport/nvls.cc: NCCL WARN Cuda failure 801 'operation not supported'",
            "nvls-bind-failure",
        ),
        (
            "ibvwrap.cc:205 NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory",
            "memlock-limit",
        ),
    ],
)
def test_what_failed_and_why_together_decide_between_neighbouring_causes(
    scanner: Scanner, line: str, cause: str
) -> None:
    assert ask(scanner, f"{line}\n").findings[0].id == cause


def test_an_error_of_ibverbs_that_is_not_about_memory_is_no_memory_limit(scanner: Scanner) -> None:
    line = "a:1:2 [0] ibvwrap.cc:205 NCCL WARN Call to ibv_create_ah failed with error No such device\n"
    assert "memlock-limit" not in [each.id for each in ask(scanner, line).findings]


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-container-cli: initialization error: WSL environment detected but no adapters",
        "slurmctld: error: Prolog launch failure, JobId=4711",
        "  2 node(s) had untolerated taint(s), 3 Insufficient nvidia.com/gpu",
        "mlx5_core 0000:00:02.0: wait_func_handle_exec_timeout:1113: cmd[0]: CREATE_CQ(0x400)",
        "MPIDI_OFI_mpi_init_hook(986): OFI addrinfo() failed (ofi_init.c:986: No data available)",
    ],
)
def test_a_failure_of_a_neighbour_of_nccl_is_not_passed_over(scanner: Scanner, line: str) -> None:
    assert ask(scanner, f"{line}\n").findings


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (
            (
                "mlx5_core 0000:1a:00.0: Port module event[error]: module 1, Cable error, High Temperature",
                "mlx5_core 0000:1a:00.0 ens4f0np0: Link down",
            ),
            "transceiver-hot",
        ),
        (
            (
                "[gpu7][Mar 02 10:15:31 126872][RDMA_SR][47][error] - Error event: RDMA_CM_EVENT_UNREACHABLE, error: 1",
                "[gpu7:0:47 unique id 7] ERROR No Aggregation Manager (sharp_am) detected in sharp_create_job.",
            ),
            "sharp-init-failure",
        ),
        (
            (
                "/home/kim/.bashrc: line 3: mpiexec: command not found",
                "declare -x HOME=\"/home/kim\"",
            ),
            "shell-startup-noise",
        ),
        (("/usr/bin/ld: cannot find -lpmi", "collect2: error: ld returned 1 exit status"), "build-mpi-missing"),
        (
            (
                "E0304 11:20:00.074718   91 client.cpp:444] Transfer failed for task3",
                "E0304 11:20:00.085733   91 store_py.cpp:367] Get operation failed with error: TRANSFER_FAIL",
            ),
            "kv-transfer-failed",
        ),
        (("MIOpen Error: sqlite_db.cpp:80: error of the SQLite database: locking protocol",), "io-straggler"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_a_line_states_stands_before_what_follows_from_it(
    scanner: Scanner, lines: tuple[str, ...], first: str
) -> None:
    assert ask(scanner, "\n".join(lines)).findings[0].id == first
