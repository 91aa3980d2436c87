"""What part a line plays: a reason, a failure, a consequence or a notice; and what follows from it."""

import time

import pytest

from busbw.model import Confidence
from busbw.parsers.findings import catalogue, line_roles, named_places
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import Basis, Diagnosis, EvidenceSet, Text
from busbw.parsers.findings.line_roles import LineRole, informs, role_of
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("the launcher cannot go on because the key is missing", LineRole.REASON),
        ("OSError: [Errno 28] No space left on device", LineRole.REASON),
        ("This may be due to a network error or a dead peer", LineRole.FAILURE),
        ("worker 7: collective failed", LineRole.FAILURE),
        ("srun: error: n1: task 3: Exited with exit code 1", LineRole.CONSEQUENCE),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", LineRole.CONSEQUENCE),
        ("a.cc:33 -> 2", LineRole.CONSEQUENCE),
        ("FutureWarning: this launcher is deprecated because torchrun exists", LineRole.NOTICE),
        ("NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.", LineRole.NOTICE),
    ],
)  # fmt: skip
def test_the_part_of_a_line(line: str, role: LineRole) -> None:
    assert role_of(line) is role


OFFERS = (
    "it may also HAPPEN that", "this can be caused by", "It could be due to", "this might occur when", "possible reasons are",
    "common root causes: ", "either (1) the kernel or (2) a crash", "potential causes", "Possible Causes",
    "This indicates that the remote task has failed, got preempted, or crashed",
)  # fmt: skip
NAMES = (
    "gpu7:4711:4720 [3] NCCL WARN x", "[rank3]: x", "[Rank 3] x", "[default3]: x", "[PG 0 Rank 3] x", "that process rank 3 ended",
    "ended on node node3", "srun: error: node3: task 3: x", "  Peer host:  node3", "HCA mlx5_3", "Dev mlx5_3", "device roce0",
    "NET/IB : mlx5_3", "x (PCI:0000:18:00.0)", "x (0000:18:00)", "Connect to 10.0.0.3<47001> failed", "PEER 10.0.0.3<47001>",
    "Mar 11 02:20:10.01 leaf07 NOTICE swss#orchagent: :- x: Port Ethernet144 x", "[cn105:14791:0:14791] x", "/replica:0/task:5 x",
    "pod/a-1 x", "GPU-1c2d3e4f-0a1b-2c3d-4e5f-60718293a4b5 x", "NodeName=n1 x", "x SXid (PCI:0000:0a:00.0): x", "x-OST001a-osc x",
)  # fmt: skip


def test_a_line_passed_over_for_want_of_a_word_has_no_match() -> None:
    own = [
        line for each in catalogue.load().entries for sign in each.signals for line in sign.matches
    ]
    searches = [(line_roles.OFFERED, line_roles.OFFER_WORDS)]
    searches += [(expression, words) for expression, _, words in named_places.NAMED]
    for expression, words in searches:
        matching = [line for line in (*OFFERS, *NAMES, *own) if expression.search(line)]
        assert matching, expression.pattern
        for line in matching:
            assert any(word in line.casefold() for word in words), line
    assert all(line_roles.stated(line) != line for line in OFFERS)
    assert all(map(named_places.places, NAMES))


def answer(text: str) -> Diagnosis:
    hits = Scanner(search_patterns()).scan([text.encode()]).hits
    return diagnose(EvidenceSet((Text("x.log", hits),)))


def test_the_guess_is_taken_from_the_line_that_says_why() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3\n'
        "[rank0] ERROR: worker 0 failed\n"
        "[rank0] ERROR: raylet is gone because the disk for spilled objects has no space left\n"
        "[rank0] ERROR: worker 1 failed\n"
    )
    first = answer(text).findings[0]
    assert (first.id, first.evidence[0].line_no) == ("disk-full", 4)


def test_a_diagnosis_says_what_each_finding_rests_on() -> None:
    got = answer("orted: command not found\nnewd: libnew.so.3 could not be loaded\n")
    by_id = {f.id: b for f, b in zip(got.findings, got.bases, strict=True)}
    assert by_id["orted-not-found"].origin == "sign"
    assert by_id["runtime-lib-missing"] == Basis("named-objects", "guess", 1, "failure")


@pytest.mark.parametrize("reason", ["", ": No such file or directory"])
def test_a_thing_and_what_is_wrong_with_it_are_a_guess(reason: str) -> None:
    first = answer(f"newd: libnew.so.3 could not be loaded{reason}\n").findings[0]
    assert (first.id, first.confidence) == ("runtime-lib-missing", Confidence.POSSIBLE)


def test_a_known_message_comes_before_a_guess_by_a_thing() -> None:
    got = answer(
        "newd: libnew.so.3 could not be loaded: No such file or directory\n"
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    )
    assert [each.id for each in got.findings] == ["job-ended-by-scheduler", "runtime-lib-missing"]


def test_what_somebody_else_noticed_is_no_likely_cause() -> None:
    text = "UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. The remote task has crashed unexpectedly.\n"
    assert all(each.confidence is Confidence.POSSIBLE for each in answer(text).findings)


@pytest.mark.parametrize("end", ["trying port 5571", "trying the next one", "trying again"])
def test_what_a_program_gets_around_is_a_notice(end: str) -> None:
    assert role_of(f"port 5570 is already in use, {end}") is LineRole.NOTICE
    assert role_of("port 5570 is already in use") is LineRole.REASON


def test_a_long_line_of_spaces_or_dashes_is_passed_over_at_once() -> None:
    start = time.process_time()
    for sign in " -0":
        assert not informs(sign * 5_000 + "x failed")
    assert time.process_time() - start < 1
