"""Open MPI's failures. Those of 4.1.4 are recorded (tests/fixtures/open_mpi/README.md says how);
those of 5.x are composed in its wording."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UnknownLayout
from busbw.model import LauncherLog, WarningRole
from busbw.parsers.logs.open_mpi import FORMAT, PATTERNS, RULES, read
from busbw.parsers.logs.scan import Scanner

FIXTURES = Path(__file__).parents[1] / "fixtures" / "open_mpi"
CAUSE, ECHO, NOTE = WarningRole.CAUSE, WarningRole.SECONDARY, WarningRole.NOTE

RECORDED: tuple[tuple[str, tuple[tuple[object, ...], ...]], ...] = (
    ("as-root", (("run-as-root", CAUSE, 2, None, None, None, None),)),
    ("bind-overload", (("binding-overload", CAUSE, 2, None, "vm", None, "CORE"),)),
    (
        "exit-code",
        (
            ("primary-aborted", ECHO, 2, None, None, None, None),
            ("exit-code", CAUSE, 6, 2, None, 3, None),
        ),
    ),
    (
        "killed-rank",
        (
            ("primary-aborted", ECHO, 2, None, None, None, None),
            ("signal", CAUSE, 6, 1, "vm", 9, "Killed"),
        ),
    ),
    (
        "killed-while-connecting",
        (
            ("primary-aborted", ECHO, 2, None, None, None, None),
            ("mpi-tcp-failed", ECHO, 6, None, "node1", None, "10.77.0.5:1034"),
            ("peer-disconnected", ECHO, 17, None, None, None, None),
            ("signal", CAUSE, 33, 20, "node5", 9, "Killed"),
        ),
    ),
    (
        "segfault-rank",
        (
            ("primary-aborted", ECHO, 2, None, None, None, None),
            ("signal", CAUSE, 6, 1, "vm", 11, "Segmentation fault"),
        ),
    ),
    ("lost-daemon", (("daemon-lost", CAUSE, 2, None, "node3", None, None),)),
    (
        "missing-binary",
        (
            (
                "executable-missing",
                CAUSE,
                2,
                None,
                "vm",
                None,
                "/opt/nccl-tests/build/all_reduce_perf",
            ),
        ),
    ),
    ("no-directory", (("directory-missing", CAUSE, 3, None, "vm", None, "/nowhere/at/all"),)),
    ("no-finalize", (("improper-exit", CAUSE, 2, 1, "vm", None, "exiting improperly"),)),
    (
        "no-permission",
        (
            ("executable-permission", CAUSE, 2, None, "vm", None, "/etc/hostname"),
            ("application-not-started", ECHO, 15, None, "vm", None, None),
        ),
    ),
    ("not-enough-slots", (("not-enough-slots", CAUSE, 2, None, None, 9, None),)),
    (
        "orted-not-found",
        (
            ("orted-not-found", CAUSE, 1, None, None, None, "orted"),
            ("daemon-start-failed", ECHO, 3, None, None, None, None),
            ("no-route-to-daemon", ECHO, 26, None, "node2", None, None),
        ),
    ),
    ("same-mca-twice", (("parameter-twice", CAUSE, 2, None, None, None, "btl"),)),
    (
        "signal-trace",
        (
            ("crash", CAUSE, 2, None, "vm", 11, "Segmentation fault"),
            ("primary-aborted", ECHO, 12, None, None, None, None),
            ("signal", CAUSE, 16, 1, "vm", 11, "Segmentation fault"),
        ),
    ),
    (
        "ssh-host-key",
        (
            ("ssh-host-key", CAUSE, 2, None, None, None, None),
            ("daemon-start-failed", ECHO, 4, None, None, None, None),
        ),
    ),
    (
        "ssh-permission",
        (
            (
                "ssh-permission",
                CAUSE,
                2,
                None,
                "127.0.0.1",
                None,
                "publickey,password,keyboard-interactive",
            ),
            ("daemon-start-failed", ECHO, 4, None, None, None, None),
        ),
    ),
    (
        "ssh-refused",
        (
            ("ssh-connect", CAUSE, 1, None, "127.0.0.1", None, "Connection refused"),
            ("daemon-start-failed", ECHO, 3, None, None, None, None),
        ),
    ),
    ("timeout", (("time-limit", CAUSE, 2, None, None, 2, None),)),
    (
        "unknown-host",
        (
            ("ssh-name", CAUSE, 1, None, "node8", None, None),
            ("ssh-name", CAUSE, 2, None, "node9", None, None),
            ("daemon-start-failed", ECHO, 4, None, None, None, None),
            ("no-route-to-daemon", ECHO, 27, None, "node8", None, None),
        ),
    ),
    (
        "wrong-interface",
        (
            ("interface-unknown", CAUSE, 2, None, "vm", None, "ib0"),
            ("peers-unreachable", CAUSE, 10, None, "vm", None, "self"),
            ("mpi-init-failed", ECHO, 24, None, None, None, None),
        ),
    ),
)


def told(text: bytes) -> tuple[tuple[object, ...], ...]:
    (log,) = read([text]).records
    assert isinstance(log, LauncherLog)
    return tuple(
        (each.kind, each.role, each.line_no, each.rank, each.node, each.code, each.detail)
        for each in log.failures
    )


@pytest.mark.parametrize(("name", "expected"), RECORDED)
def test_a_recorded_failure_is_told_with_rank_node_and_what_it_names(
    name: str, expected: tuple[tuple[object, ...], ...]
) -> None:
    assert told((FIXTURES / f"{name}.txt").read_bytes()) == expected


def test_every_recording_has_its_case_here() -> None:
    assert {path.stem for path in FIXTURES.glob("*.txt")} == {name for name, _ in RECORDED}


@pytest.mark.parametrize(("name", "expected"), RECORDED)
def test_the_same_failure_is_told_behind_a_launchers_tags(
    name: str, expected: tuple[tuple[object, ...], ...]
) -> None:
    tagged = b"".join(
        b"[1,0]<stderr>:" + line
        for line in (FIXTURES / f"{name}.txt").read_bytes().splitlines(keepends=True)
    )
    assert told(tagged) == expected


DASHES = "-" * 74


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                f"{DASHES}\nPRTE has lost communication with a remote daemon.\n\n  HNP daemon   :"
                " [prterun-node-a-4711@0,0] on node node-a\n  Remote daemon:"
                f" [prterun-node-a-4711@0,1] on node node-b\n\nThis is usually due to\n{DASHES}\n"
            ),
            ("daemon-lost", CAUSE, 2, None, "node-b", None, None),
        ),
        (
            (
                f"{DASHES}\nPRTE/prterun was unable to reliably start one or more daemons.\nThis"
                f" usually is caused by:\n{DASHES}\n"
            ),
            ("daemon-start-failed", CAUSE, 2, None, None, None, None),
        ),
        (
            (
                f"{DASHES}\nAn PRTE daemon has unexpectedly failed after launch and"
                " before\ncommunicating back to prterun. This could be caused by\n"
            ),
            ("daemon-no-callback", CAUSE, 2, None, None, None, None),
        ),
        (
            (
                "A daemon (pid 4711) died unexpectedly with status 255 while attempting\nto launch"
                " so we are aborting.\n"
            ),
            ("daemon-died", CAUSE, 1, None, None, 255, None),
        ),
        (
            (
                "mpirun was unable to find the specified executable file, and therefore\ndid not"
                " launch the job.\n\nNode:       node-b\nExecutable: /opt/all_reduce_perf\n"
            ),
            ("executable-missing", CAUSE, 1, None, "node-b", None, "/opt/all_reduce_perf"),
        ),
        (
            (
                f"{DASHES}\nprterun noticed that process rank 1 with PID 820212 on node neutron"
                f" exited on\nsignal 6 (Aborted).\n{DASHES}\n"
            ),
            ("signal", CAUSE, 2, 1, "neutron", 6, "Aborted"),
        ),
        (
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
            ("mpi-abort", CAUSE, 1, 3, None, 1, None),
        ),
        (
            (
                "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not"
                " happen.\n\n  Local host: node-a\n  PID:        41\n  Message:    connect() to"
                " 172.17.0.1:1024 failed\n  Error:      No route to host (113)\n"
            ),
            ("mpi-tcp-failed", CAUSE, 1, None, "node-a", None, "172.17.0.1:1024"),
        ),
        (
            (
                "[node-a][[12345,1],0][btl_tcp_endpoint.c:625] connect() to 172.17.0.1 failed: No"
                " route to host (113)\n"
            ),
            ("mpi-tcp-endpoint", CAUSE, 1, None, "node-a", None, "172.17.0.1"),
        ),
        (
            (
                "[1783674000.1] [node-a:4711 :0]  ucp_context.c:1079 UCX  WARN  network device"
                " 'mlx5_9:1' is not available, please use one or more of:\n"
            ),
            ("ucx-device", CAUSE, 1, None, None, None, "mlx5_9:1"),
        ),
        (
            (
                "[1783674000.123456] [node-a:4711 :0]  select.c:630 UCX  ERROR   no active messages"
                " transport to <no debug data>: self/memory\n"
            ),
            ("ucx-transport", CAUSE, 1, None, None, None, None),
        ),
        (
            (
                "orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared"
                " object file\n"
            ),
            ("library-missing", CAUSE, 1, None, None, None, "libopen-rte.so.40"),
        ),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n",
            ("ssh-host-key-changed", CAUSE, 1, None, None, None, None),
        ),
        (
            "kex_exchange_identification: Connection closed by remote host\n",
            ("ssh-closed", CAUSE, 1, None, None, None, None),
        ),
        (
            "PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169\n",
            ("pmix-noise", NOTE, 1, None, None, None, None),
        ),
    ],
)
def test_a_failure_composed_in_the_wording_of_other_versions_is_told(
    text: str, expected: tuple[object, ...]
) -> None:
    assert told(text.encode()) == (expected,)


def test_the_same_failure_of_many_ranks_is_told_once_per_rank_with_its_count() -> None:
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
