"""What is wrong with which thing: a sentence, a state in a tool's output, a guess."""

import pytest

from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Role
from busbw.parsers.findings.things import sentences, states, table, wrongs


def test_every_cause_is_an_entry_that_can_be_a_cause() -> None:
    known = catalogue.load().by_id
    for entry in table.entries():
        assert known[entry].role is not Role.NOTE, entry


def test_every_wrong_of_a_thing_has_words() -> None:
    for thing in table.table().things:
        assert set(thing.causes) <= {*wrongs.WRONGS, "any", "state", "said"}, thing.name


def test_things_have_words_of_their_own() -> None:
    words = [thing.words for thing in table.table().things]
    assert len(set(words)) == len(words)


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
        ("newd: the certificate of node 7 has expired", "certificate-rejected"),
    ],
)
def test_object_and_kind_give_the_cause_whoever_writes(line: str, first: str) -> None:
    reading = sentences.read(line)
    assert reading is not None
    assert reading.entries[0] == first


def test_a_number_in_brackets_is_an_error_number_at_the_end_of_a_clause_only() -> None:
    assert sentences.read("newd: write to /tmp/x: error (28)") is not None
    assert sentences.read("number of heads (28) must be divisible by 8") is None


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("newd: cudaError 2 at step 3", "cuda-oom"),
        ("newd: poll: completion status 12 of rank 3", "retry-exceeded-at-start"),
        ("newd: wc error 9", "remote-access-error"),
        ("newd: bind to port 7000: rc=-98", "rendezvous-port-in-use"),
    ],
)
def test_a_number_counts_in_its_own_system(line: str, first: str) -> None:
    reading = sentences.read(line)
    assert reading is not None
    assert reading.entries[0] == first


@pytest.mark.parametrize(
    "line",
    [
        "the worker of the disk ended with exit code 28",
        "PSM3 cannot use /dev/newd: unit -1 (err=23)",
        "hfi: registered memory, carrier 12, interrupt 12, terr 12",
        "mlx5_0 reg_mr retcode 12, seq_err 12",
    ],
)
def test_numbers_of_other_systems_and_ends_of_words_are_no_error_numbers(line: str) -> None:
    assert "E" not in wrongs.with_names(line).replace(line, "")


def test_the_object_nearest_to_the_failure_counts() -> None:
    reading = sentences.read("the job with image x and port 80 on GPU 3: libz.so.1 not found")
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
    assert sentences.read(line) is None


def test_every_thing_of_a_line_is_found_by_its_literals() -> None:
    lines = [m for e in catalogue.load().entries for s in e.signals for m in s.matches]
    for line in lines:
        near = table.numbers(line)
        for number, thing in enumerate(table.table().things):
            assert number in near or not catalogue.compiled(thing.words).search(line), line


@pytest.mark.parametrize(
    ("line", "heading", "first"),
    [
        ("        State: Down", "CA 'mlx5_2'", "ib-port-down"),
        ("mlx5_2 port 1 ==> ens3f0np0 (Down)", "", "ib-port-down"),
        ("     Active: failed (Result: exit-code)", "● nvidia-fabricmanager.service", "fabricmanager-not-running"),
        ('{"unit": "munge.service", "active": "inactive"}', "", "scheduler-auth-failed"),
        ("gpu-a100-02     NotReady   <none>  61d", "NAME STATUS ROLES", "node-unreachable"),
        ("         Link 2: <inactive>", "GPU 0: NVIDIA H100", "nvlink-link-inactive"),
        ("MII Status: down", "Slave Interface: ens5f1np1", "ethernet-link-down"),
        ("host-1,gpu3,unhealthy", "", "dcgm-health-failure"),
        ("  MemoryPressure   True   KubeletHasInsufficientMemory", "", "host-memory-exhausted"),
        ("  Ready   False   KubeletNotReady", "", "node-unreachable"),
        ("  RdmaPorts  True  RdmaPortsHasIssues  Check:: a port", "", "ib-port-down"),
        ("  NvLinks  True   Mon, 02 Mar 2026 10:00:00   NvlinkHasProblems  Check", "", "nvlink-link-inactive"),
        ("   Reason=munge: authentication failed [slurm@2026-02-11]", "", "scheduler-auth-failed"),
        ("1   3   0x74a1   N/A   N/A   N/A   N/A   N/A", "ROCm System Management Interface", "gpu-missing"),
    ],
)  # fmt: skip
def test_a_bad_state_points_at_its_part(line: str, heading: str, first: str) -> None:
    reading = states.read(line, heading)
    assert reading is not None
    assert reading.entries[0] == first


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("        State: Active", "CA 'mlx5_2'"),
        ("     Active: active (running)", "● nvidia-fabricmanager.service"),
        ("  DiskPressure   False   KubeletHasNoDiskPressure", ""),
        ("  Ready   True   KubeletReady", ""),
        ("  RdmaPorts   False   RdmaPortsHasNoIssues   all ports are up", ""),
        ("  RdmaPorts   Unknown   RdmaPortsHasNoIssues   the check ran too long", ""),
        ("  RdmaPorts   True   RdmaPortsAreUp   all ports", ""),
        ("3: docker0: <NO-CARRIER,UP> mtu 1500 state DOWN mode DEFAULT", ""),
        ("hw-tc-offload: off [fixed]", "Features for ens1np0:"),
        ("   Reason=Resources", ""),
        ("[0] NCCL INFO Check P2P Type isAllDirectP2p 0 directMode 0", ""),
        ("errors: 0, failed: 0", ""),
        ("Retry on failure: enabled", ""),
        ("TPU available: False, using: 0 TPU cores", ""),
    ],
)
def test_good_states_and_features_say_nothing(line: str, heading: str) -> None:
    assert states.read(line, heading) is None


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("raylet lost its heartbeat to the head", "dead-process"),
        ("munge: that token has the wrong size", "scheduler-auth-failed"),
        ("xfs (dm-3): log mount failed", "io-straggler"),
        ("mlx5_3: object allocation ended with ENOMEM", "memlock-limit"),
        ("this libtpu needs a chip that another program has in use", "gpu-busy"),
        ("cannot write the index: no space left", "disk-full"),
    ],
)
def test_thing_and_wrong_give_a_guess_where_nothing_else_is_known(line: str, first: str) -> None:
    reading = sentences.guess(line)
    assert reading is not None
    assert reading.entries[0] == first


@pytest.mark.parametrize("line", ["", "all 16 nodes are ready", "gpu 3 is idle"])
def test_a_line_without_a_failure_gives_no_guess(line: str) -> None:
    assert sentences.guess(line) is None
