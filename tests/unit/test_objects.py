"""What a line says could not be had, and how."""

import pytest

from busbw.parsers.findings import catalogue, objects
from busbw.parsers.findings.catalogue import Role


def test_every_cause_is_an_entry_that_can_be_a_cause() -> None:
    known = catalogue.load().by_id
    for entry in objects.entries():
        assert known[entry].role in (Role.CAUSE, Role.STATE, Role.SECONDARY, Role.FINDING), entry


def test_every_kind_of_an_object_has_words() -> None:
    for thing in (*objects.OBJECTS, *objects.GENERAL):
        assert set(thing.causes) <= {*objects.kinds(), "any", "said"}, thing.words


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("newd: no address for host n7: EAI_AGAIN", "name-resolution-failed"),
        ("newd: bind to port 7000: errno 98", "rendezvous-port-in-use"),
        ("newd: libnew.so.3 could not be loaded", "runtime-lib-missing"),
        ("newd: spawning /opt/new/bin/agent: execve: ENOENT", "executable-missing"),
        ("newd: /dev/infiniband/uverbs2 (13)", "container-no-ib-devices"),
        ("newd: register memory of 1 GiB: rc = -12", "memlock-limit"),
        ("newnic 0000:01:00.0: firmware file x.bin: error -2", "nic-driver-start-failed"),
        ("newd: accept: EMFILE", "nofile-limit"),
        ("hfi_userinit: mmap of rcvhdrq failed: Resource temporarily unavailable", "memlock-limit"),
        ("psm: mmap failed: Device or resource busy", "omni-path-contexts-exhausted"),
        ("Child failed to attach to shmseg, errno: Invalid argument", "ipc-namespace-split"),
        ("slurmstepd: error: execve(): prted: No such file or directory", "orted-not-found"),
        ("ibv_create_ah failed with error No such device", "rdma-netns-mismatch"),
        ("newd: the P_Key 0x8001 is invalid", "ib-pkey-mismatch"),
        ("newd: the token of node 7 has expired", "certificate-rejected"),
    ],
)
def test_object_and_kind_give_the_cause_whoever_writes(line: str, first: str) -> None:
    reading = objects.read(line)
    assert reading is not None
    assert reading.entries[0] == first


@pytest.mark.parametrize(
    ("line", "is_likely"),
    [
        ("newd: libnew.so.3 could not be loaded", True),
        ("newd: the token of node 7 is not found", True),
        ("newd: the token of node 7 is invalid", False),
        ("newd: slurmctld failed", False),
        ("newd: no token here, and some of the other things that it needs are missing", False),
    ],
)
def test_a_far_object_and_a_kind_that_says_little_leave_the_cause_open(
    line: str, is_likely: bool
) -> None:
    reading = objects.read(line)
    assert reading is not None
    assert reading.is_likely is is_likely


def test_a_number_in_brackets_is_an_error_number_at_the_end_of_a_clause_only() -> None:
    assert objects.read("newd: write to /tmp/x: error (28)") is not None
    assert objects.read("number of heads (28) must be divisible by 8") is None


def test_the_object_nearest_to_the_failure_counts() -> None:
    reading = objects.read("the job with image x and port 80 on GPU 3: libz.so.1 not found")
    assert reading is not None
    assert reading.entries == ("runtime-lib-missing",)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "libz.so.1 not found, trying next",
        "[info] optional plugin libz.so not found",
        "bind to port 29500: ok",
        "0 errors: port 29500 not in use",
        '  File "libz.so", line 8, in not_found',
        "training stopped at step 10",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module 535.161.08 Release Build",
        "link mlx5_0/1 packet_seq_err 0 local_ack_timeout_err 0 rnr_nak_retry_err 0",
        "link mlx5_0/1 packet_seq_err 12 local_ack_timeout_err 2 rnr_nak_retry_err 13",
        "modprobe nvidia_peermem",
        "System call (e.g. socket, malloc) or external library call failed",
        "newd: failed to execute operation Send of rank 4, retcode 2",
        "/usr/bin/ld: cannot find -lnew",
    ],
)
def test_a_try_a_choice_and_a_success_name_nothing(line: str) -> None:
    assert objects.read(line) is None


def test_every_object_of_a_line_is_found_by_its_literals() -> None:
    lines = [m for e in catalogue.load().entries for s in e.signals for m in s.matches]
    for line in lines:
        near = objects._near(line)
        for number, thing in enumerate((*objects.OBJECTS, *objects.GENERAL)):
            assert number in near or not catalogue.compiled(thing.words).search(line), line
