"""Open MPI's failures. Those of 4.1.4 are recorded (tests/fixtures/open_mpi/README.md says how);
those of 5.x are composed in its wording."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.errors import UnknownLayout
from busbw.model import LauncherFailure, LauncherLog
from busbw.parsers.logs.open_mpi import FORMAT, PATTERNS, RULES, read
from busbw.parsers.logs.scan import Scanner

FIXTURES = Path(__file__).parents[1] / "fixtures" / "open_mpi"
RECORDINGS = """
as-root
    run-as-root, cause, line 2
bind-overload
    binding-overload, cause, line 2, node vm, detail CORE
exit-code
    primary-aborted, secondary, line 2
    exit-code, cause, line 6, rank 2, code 3
killed-rank
    primary-aborted, secondary, line 2
    signal, cause, line 6, rank 1, node vm, code 9, detail Killed
killed-while-connecting
    primary-aborted, secondary, line 2
    mpi-tcp-failed, secondary, line 6, node node1, detail 10.77.0.5:1034
    peer-disconnected, secondary, line 17, node node1
    signal, cause, line 33, rank 20, node node5, code 9, detail Killed
killed-unnoticed
    primary-aborted, secondary, line 12
    mpi-tcp-failed, cause, line 16, node node1, detail 10.77.0.1:1027
    exit-code, cause, line 27, rank 5, code 3
segfault-rank
    primary-aborted, secondary, line 2
    signal, cause, line 6, rank 1, node vm, code 11, detail Segmentation fault
lost-daemon
    daemon-lost, cause, line 2, node node3
missing-binary
    executable-missing, cause, line 2, node vm, detail /opt/nccl-tests/build/all_reduce_perf
no-directory
    directory-missing, cause, line 3, node vm, detail /nowhere/at/all
no-finalize
    improper-exit, cause, line 2, rank 1, node vm, detail exiting improperly
no-permission
    executable-permission, cause, line 2, node vm, detail /etc/hostname
    application-not-started, secondary, line 15, node vm
not-enough-slots
    not-enough-slots, cause, line 2, code 9
orted-not-found
    orted-not-found, cause, line 1, detail orted
    daemon-start-failed, secondary, line 3
    no-route-to-daemon, secondary, line 26, node node2
same-mca-twice
    parameter-twice, cause, line 2, detail btl
signal-trace
    crash, cause, line 2, node vm, code 11, detail Segmentation fault
    primary-aborted, secondary, line 12
    signal, cause, line 16, rank 1, node vm, code 11, detail Segmentation fault
ssh-host-key
    ssh-host-key, cause, line 2
    daemon-start-failed, secondary, line 4
ssh-permission
    ssh-permission, cause, line 2, node 127.0.0.1, detail publickey,password,keyboard-interactive
    daemon-start-failed, secondary, line 4
ssh-refused
    ssh-connect, cause, line 1, node 127.0.0.1, detail Connection refused
    daemon-start-failed, secondary, line 3
timeout
    time-limit, cause, line 2, code 2
unknown-host
    ssh-name, cause, line 1, node node8
    ssh-name, cause, line 2, node node9
    daemon-start-failed, secondary, line 4
    no-route-to-daemon, secondary, line 27, node node8
wrong-interface
    interface-unknown, cause, line 2, node vm, detail ib0
    peers-unreachable, cause, line 10, node vm, detail self
    mpi-init-failed, secondary, line 24
"""
"""A recording, and below it its failures in their order."""
RECORDED = re.findall(r"^(\S+)\n((?:    .*\n)+)", RECORDINGS, re.M)


def words_of(failure: LauncherFailure) -> str:
    words = [failure.kind, failure.role.name.lower(), f"line {failure.line_no}"]
    known = {
        "rank": failure.rank,
        "node": failure.node,
        "code": failure.code,
        "detail": failure.detail,
    }
    words += [f"{name} {value}" for name, value in known.items() if value is not None]
    return ", ".join(words)


def failures_in(text: bytes) -> str:
    """All that is known of each failure, in the form of the table above."""
    (log,) = read([text]).records
    assert isinstance(log, LauncherLog)
    return "".join(f"    {words_of(each)}\n" for each in log.failures)


@pytest.mark.parametrize(("name", "expected"), RECORDED)
def test_a_recorded_failure_is_read_with_rank_node_and_what_it_names(
    name: str, expected: str
) -> None:
    text = (FIXTURES / f"{name}.txt").read_bytes()
    assert failures_in(text) == expected
    tagged = b"".join(b"[1,0]<stderr>:" + line for line in text.splitlines(keepends=True))
    assert failures_in(tagged) == expected, "behind a launcher's tags"


def test_every_recording_has_its_case_here() -> None:
    assert {path.stem for path in FIXTURES.glob("*.txt")} == {name for name, _ in RECORDED}


DASHES = "-" * 74


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{DASHES}\nPRTE has lost communication with a remote daemon.\n\n  HNP daemon   :"
            " [prterun-node-a-4711@0,0] on node node-a\n  Remote daemon:"
            f" [prterun-node-a-4711@0,1] on node node-b\n\nThis is usually due to\n{DASHES}\n",
            "daemon-lost, cause, line 2, node node-b",
        ),
        (
            f"{DASHES}\nPRTE/prterun was unable to reliably start one or more daemons.\nThis"
            f" usually is caused by:\n{DASHES}\n",
            "daemon-start-failed, cause, line 2",
        ),
        (
            f"{DASHES}\nAn PRTE daemon has unexpectedly failed after launch and"
            " before\ncommunicating back to prterun. This could be caused by\n",
            "daemon-no-callback, cause, line 2",
        ),
        (
            "A daemon (pid 4711) died unexpectedly with status 255 while attempting\nto launch"
            " so we are aborting.\n",
            "daemon-died, cause, line 1, code 255",
        ),
        (
            "mpirun was unable to find the specified executable file, and therefore\ndid not"
            " launch the job.\n\nNode:       node-b\nExecutable: /opt/all_reduce_perf\n",
            "executable-missing, cause, line 1, node node-b, detail /opt/all_reduce_perf",
        ),
        (
            f"{DASHES}\nprterun noticed that process rank 1 with PID 820212 on node neutron"
            f" exited on\nsignal 6 (Aborted).\n{DASHES}\n",
            "signal, cause, line 2, rank 1, node neutron, code 6, detail Aborted",
        ),
        (
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
            "mpi-abort, cause, line 1, rank 3, code 1",
        ),
        (
            "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not"
            " happen.\n\n  Local host: node-a\n  PID:        41\n  Message:    connect() to"
            " 172.17.0.1:1024 failed\n  Error:      No route to host (113)\n",
            "mpi-tcp-failed, cause, line 1, node node-a, detail 172.17.0.1:1024",
        ),
        (
            "[node-a][[12345,1],0][btl_tcp_endpoint.c:625] connect() to 172.17.0.1 failed: No"
            " route to host (113)\n",
            "mpi-tcp-endpoint, cause, line 1, node node-a, detail 172.17.0.1",
        ),
        (
            "[1783674000.1] [node-a:4711 :0]  ucp_context.c:1079 UCX  WARN  network device"
            " 'mlx5_9:1' is not available, please use one or more of:\n",
            "ucx-device, cause, line 1, detail mlx5_9:1",
        ),
        (
            "[1783674000.123456] [node-a:4711 :0]  select.c:630 UCX  ERROR   no active messages"
            " transport to <no debug data>: self/memory\n",
            "ucx-transport, cause, line 1",
        ),
        (
            "orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared"
            " object file\n",
            "library-missing, cause, line 1, detail libopen-rte.so.40",
        ),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n",
            "ssh-host-key-changed, cause, line 1",
        ),
        (
            "kex_exchange_identification: Connection closed by remote host\n",
            "ssh-closed, cause, line 1",
        ),
        (
            "PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169\n",
            "pmix-noise, note, line 1",
        ),
    ],
)
def test_a_failure_composed_in_the_wording_of_other_versions_is_read(
    text: str, expected: str
) -> None:
    assert failures_in(text.encode()) == f"    {expected}\n"


def test_the_same_failure_of_many_ranks_is_reported_once_per_rank_with_its_count() -> None:
    line = "ssh: connect to host node7 port 22: Connection timed out\n"
    (log,) = read([(line * 40).encode()]).records
    assert isinstance(log, LauncherLog)
    (failure,) = log.failures
    assert (failure.line_no, failure.count, failure.node) == (1, 40, "node7")


def test_noise_is_no_fault_and_a_failure_is() -> None:
    noise = read([b"PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169\n"])
    assert (noise.complete, noise.problems, noise.faults) == (True, (), ())
    assert read([(FIXTURES / "missing-binary.txt").read_bytes()]).faults == (
        (
            "line 2: mpirun was unable to launch the specified application as it could not access"
            " or execute an executable: Executable: /opt/nccl-tests/build/all_reduce_perf Node: vm"
            " while attempting to start process rank 0. [node vm]"
        ),
    )


def test_a_text_without_any_of_it_is_refused_and_a_recording_is_recognised() -> None:
    with pytest.raises(UnknownLayout) as refused:
        read([b"\nhello\n"])
    assert refused.value.seen == "hello"
    assert FORMAT.looks_like(b"hello") == 0.0
    assert FORMAT.looks_like((FIXTURES / "unknown-host.txt").read_bytes()) == 0.7


def test_no_rule_is_slow_and_every_rule_is_found_by_its_own_id() -> None:
    assert Scanner(PATTERNS).slow == ()
    assert len({rule.kind for rule in RULES}) == len(RULES)
