"""What Open MPI 4 (ORTE) and 5 (PRRTE) say when a job cannot start or ends badly, with ssh's and
UCX's words among theirs.

Wordings: help files of Open MPI 4.1.4 and 5.0, PRRTE 3.0, OpenSSH 9.2; recorded ones are in
tests/fixtures/open_mpi.

>>> text = b"mpirun noticed that process rank 3 with PID 52017 on node node-b exited on signal 9 (Killed).\\n"
>>> (log,) = read([text]).records
>>> (killed,) = log.failures
>>> killed.kind, killed.rank, killed.node, killed.code, killed.detail
('signal', 3, 'node-b', 9, 'Killed')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from busbw.errors import UnknownLayout
from busbw.model import LauncherFailure, LauncherLog, WarningRole
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.launcher_rules import Rule, failures, patterns
from busbw.parsers.logs.scan import Scan, Scanner

_CAUSE, _SECONDARY, _NOTE = WarningRole.CAUSE, WarningRole.SECONDARY, WarningRole.NOTE
_NODE = r"Node: (?P<node>[\w.-]+)"

RULES: tuple[Rule, ...] = (
    Rule(
        "not-enough-slots",
        _CAUSE,
        r"There are not enough slots available in the system|All nodes which are allocated for this job are already filled",
        "more ranks were asked for than the hostfile or allocation has slots",
        (r"to satisfy the (?P<code>\d+) slots",),
        help=True,
    ),
    Rule(
        "host-not-allocated",
        _CAUSE,
        r"Some of the requested hosts are not included in the",
        "a host on the command line is not part of the scheduler's allocation",
        help=True,
    ),
    Rule(
        "daemon-start-failed",
        _CAUSE,
        r"(?:ORTE|PRTE)\S* was unable to reliably start one or more",
        "a launch daemon did not start on a node: ssh, PATH or libraries there",
        help=True,
    ),
    Rule(
        "daemon-no-callback",
        _CAUSE,
        r"An? (?:ORTE|PRTE) daemon has unexpectedly failed after launch",
        "the launch daemon started but could not call back: firewall, or an interface that does not reach",
        help=True,
    ),
    Rule(
        "daemon-lost",
        _CAUSE,
        r"(?:ORTE|PRTE) has lost communication with a remote daemon",
        "the node crashed, rebooted or lost its network during the job",
        (r"Remote daemon ?: \S+ on node \(?(?P<node>[\w.-]+)", r"daemon located on node (?P<node>[\w.-]+)"),
        help=True,
    ),
    Rule(
        "daemon-died",
        _CAUSE,
        r"A daemon \(pid \d+\) died unexpectedly with status (?P<code>\d+)",
        "the launch daemon ended at once: status 255 is ssh's, 127 a missing orted",
        help=True,
    ),
    Rule(
        "no-route-to-daemon",
        _SECONDARY,
        r"(?:ORTE|PRTE) does not know how to route a message to the specified",
        "follows from a daemon that did not start",
        (r"target node: (?P<node>[\w.-]+)",),
        help=True,
    ),
    Rule(
        "executable-missing",
        _CAUSE,
        r"was unable to find the specified executable|was unable to launch the specified application as it could not access",
        "the program is not there, or not executable, on that node",
        (r"^.*Executable: (?P<detail>\S+)", _NODE),
        help=True,
    ),
    Rule(
        "executable-permission",
        _CAUSE,
        r"as it lacked permissions to execute an executable|Open MPI tried to fork a new process via the",
        "the program cannot be executed on that node: its mode, a noexec mount, or another machine's format",
        (r"(?:Application name|Executable): (?P<detail>\S+)", r"(?:Local host|Node): (?P<node>[\w.-]+)"),
        help=True,
    ),
    Rule(
        "directory-missing",
        _CAUSE,
        r"change to the specified working directory",
        "the working directory does not exist on that node",
        (r"^.*Working directory: (?P<detail>\S+)", _NODE),
        help=True,
    ),
    Rule(
        "application-not-started",
        _SECONDARY,
        r"was unable to start the specified application as it encountered an",
        "follows from the failure told before it",
        (_NODE,),
        help=True,
    ),
    Rule(
        "signal",
        _CAUSE,
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on",
        "a rank was ended by a signal: 9 the OOM killer or a clean-up, 11 and 7 a crash, 6 an abort, 15 somebody",
        (r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on signal (?P<code>\d+) \((?P<detail>[^)]*)\)",),
        help=True,
    ),
    Rule(
        "exit-code",
        _CAUSE,
        r"detected that one or more processes exited with non-zero status",
        "a rank ended with an error of its own; its lines above say which",
        (r"Process name: \[\[[^\]]*\],(?P<rank>\d+)\] Exit code: (?P<code>-?\d+)",),
        help=True,
    ),
    Rule("primary-aborted", _SECONDARY, r"Primary job  ?terminated normally, but", "follows from the failing rank", help=True),
    Rule(
        "improper-exit",
        _CAUSE,
        r"has exited due to process rank \d+ with PID",
        "a rank left without MPI_Finalize, or called abort",
        (r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) (?P<detail>exiting improperly|calling \"abort\")",),
        help=True,
    ),
    Rule(
        "mpi-abort",
        _CAUSE,
        r"MPI_ABORT was invoked on rank (?P<rank>\d+)",
        "the program gave up by itself; its lines above say why",
        (r"on rank (?P<rank>\d+) in communicator .*? with errorcode (?P<code>-?\d+)",),
        help=True,
    ),
    Rule(
        "time-limit",
        _CAUSE,
        r"The user-provided time limit for job execution has been reached",
        "the job took longer than --timeout allows: a stall, or too short a limit",
        (r"Timeout: (?P<code>\d+) seconds",),
        help=True,
    ),
    Rule(
        "binding-overload",
        _CAUSE,
        r"A request was made to bind (?:to that )?.*would result in binding more",
        "more ranks than cores for the binding asked for",
        (r"Bind to: (?P<detail>\S+) Node: (?P<node>[\w.-]+)",),
        help=True,
    ),
    Rule("run-as-root", _CAUSE, r"(?:mpirun|prterun|orterun|mpiexec) has detected an attempt to run as root", "root needs --allow-run-as-root"),
    Rule(
        "parameter-twice",
        _CAUSE,
        r"The following MCA parameter has been listed multiple times",
        "the same --mca parameter is on the command line twice",
        (r"MCA param: (?P<detail>\S+)",),
        help=True,
    ),
    Rule(
        "mpi-tcp-failed",
        _CAUSE,
        r"Open MPI failed to TCP connect to a peer MPI process",
        "MPI chose an interface that does not reach its peer",
        (r"Local host: (?P<node>[\w.-]+)", r"connect\(\) to (?P<detail>\S+) failed"),
        help=True,
    ),
    Rule(
        "mpi-tcp-endpoint",
        _CAUSE,
        r"\[(?P<node>[\w.-]+)\]\[\[.*?btl_tcp_endpoint\S*\]? .*?(?:connect\(\) to (?P<detail>\S+) failed|received unexpected process identifier)",
        "MPI chose an interface that does not reach its peer",
    ),
    Rule(
        "mpi-tcp-stranger",
        _CAUSE,
        r"Open MPI (?:detected an inbound MPI TCP connection request|accepted a TCP connection) from",
        "two nodes use the same private address on an interface that MPI chose",
        help=True,
    ),
    Rule("peer-disconnected", _SECONDARY, r"An MPI communication peer process has unexpectedly disconnected", "the peer failed first", help=True),
    Rule(
        "interface-unknown",
        _CAUSE,
        r"An invalid value was given for (?:btl|oob|pmix|prte)\S*_if_(?:in|ex)clude",
        "an interface name that this node does not have; it was ignored",
        (r"Local host: (?P<node>[\w.-]+) Value: (?P<detail>\S+)",),
        help=True,
    ),
    Rule(
        "peers-unreachable",
        _CAUSE,
        r"At least one pair of MPI processes are unable to reach each other",
        "no MPI transport connects two of the ranks",
        (r"is on host: (?P<node>[\w.-]+)", r"BTLs attempted: (?P<detail>[\w ]+?) Your"),
        help=True,
    ),
    Rule(
        "mpi-init-failed",
        _SECONDARY,
        r"It looks like MPI_INIT failed for some reason|MPI_INIT has failed because at least one|PML add procs failed",
        "MPI could not start; the message before it says why",
        (r"(?P<detail>\w+\(?\)? failed) --> Returned",),
        help=True,
    ),
    Rule(
        "openib-warning",
        _NOTE,
        r"No OpenFabrics connection schemes reported|There was an error initializing an OpenFabrics device",
        "the old openib transport does not know the adapter; harmless with UCX or TCP",
        help=True,
    ),
    Rule("pmix-noise", _NOTE, r"PMIX ERROR: (?:ERROR in file gds_ds12|NO-PERMISSIONS)", "known noise, the run goes on"),
    Rule(
        "ucx-device",
        _CAUSE,
        r"UCX\s+WARN\s+network device '(?P<detail>[^']+)' is not available",
        "UCX_NET_DEVICES names a device that this node does not have",
    ),
    Rule("ucx-transport", _CAUSE, r"UCX\s+ERROR\s+no active messages transport", "UCX_TLS or UCX_NET_DEVICES leave no transport to a peer"),
    Rule("ucx-error", _CAUSE, r"UCX\s+ERROR\s+(?!\s|no active)(?P<detail>.{1,120})", "UCX reports an error"),
    Rule(
        "crash",
        _CAUSE,
        r"\[(?P<node>[\w.-]+):\d+\] Signal: (?P<detail>[^(]*?) \((?P<code>\d+)\)",
        "a rank crashed; its back-trace follows",
    ),
    Rule(
        "session-directory",
        _CAUSE,
        r"A call to mkdir was unable to create the desired directory",
        "the temporary directory is full or not writable",
        help=True,
    ),
    Rule(
        "orted-not-found",
        _CAUSE,
        r"(?P<detail>\borted|\bprted): (?:command )?not found",
        "Open MPI is not in the PATH that a non-interactive ssh session has on the node",
    ),
    Rule(
        "library-missing",
        _CAUSE,
        r"error while loading shared libraries: (?P<detail>[^\s:]+)",
        "a library is not found on the node: LD_LIBRARY_PATH is not passed on, or it is not installed",
    ),
    Rule("variable-missing", _NOTE, r"could not find environment variable \"?(?P<detail>\w+)", "-x names a variable that is not set here"),
    Rule(
        "no-pmi",
        _CAUSE,
        r"The application appears to have been direct launched using",
        "Open MPI was built without the PMI that srun offers: every task is a world of its own",
        help=True,
    ),
    Rule(
        "ssh-host-key-changed",
        _CAUSE,
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the node has another key than known_hosts says: reinstalled, or another machine",
    ),
    Rule("ssh-host-key", _CAUSE, r"Host key verification failed", "the node's key is not in known_hosts"),
    Rule(
        "ssh-permission",
        _CAUSE,
        r"^(?:.*?@?(?P<node>[\w.-]+): )?Permission denied \((?P<detail>[a-z,-]+)\)",
        "the node accepts none of the keys offered",
    ),
    Rule("ssh-name", _CAUSE, r"ssh: Could not resolve hostname (?P<node>[\w.-]+)", "the name is not known here"),
    Rule(
        "ssh-connect",
        _CAUSE,
        r"ssh: connect to host (?P<node>[\w.:-]+) port \d+: (?P<detail>.+?)\s*$",
        "nothing answers ssh there: down, firewall, or another port",
    ),
    Rule(
        "ssh-closed",
        _CAUSE,
        r"kex_exchange_identification:|ssh_exchange_identification:|Connection closed by (?P<node>[\w.:]+) port",
        "sshd closed the connection: too many at once (MaxStartups), or denied",
    ),
)  # fmt: skip
PATTERNS = patterns("open-mpi", RULES)
"""For the scanner; ids begin with `open-mpi.`."""


def failures_of(scan: Scan) -> tuple[LauncherFailure, ...]:
    """The failures in a scan for `PATTERNS` (hits of other patterns are left alone)."""
    launcher_failures = failures("open-mpi", RULES, scan)
    kinds = {each.kind for each in launcher_failures}
    follows: set[str] = set()
    if any(kind.startswith("ssh-") for kind in kinds) or kinds & {
        "orted-not-found",
        "library-missing",
    }:
        follows |= {"daemon-start-failed", "daemon-died"}
    # Who connects to a process that has died is refused.
    if kinds & {"signal", "crash"}:
        follows |= {"mpi-tcp-failed"}
    return tuple(
        replace(each, role=_SECONDARY) if each.kind in follows else each
        for each in launcher_failures
    )


def read(chunks: Iterable[bytes]) -> Document:
    """Read what mpirun printed.

    Raises:
        UnknownLayout: none of its messages is in the text.
    """
    scan = Scanner(PATTERNS).scan(chunks)
    launcher_failures = failures_of(scan)
    if not launcher_failures:
        raise UnknownLayout(
            "no message of Open MPI in it",
            seen=scan.first_line,
            next_step="give the standard error of mpirun too",
        )
    return document("open-mpi", launcher_failures, scan)


def document(kind: str, launcher_failures: tuple[LauncherFailure, ...], scan: Scan) -> Document:
    """The document of a launcher's output."""
    texts = tuple(_line_of(each) for each in launcher_failures)
    faults = tuple(
        text for each, text in zip(launcher_failures, texts, strict=True) if each.role is not _NOTE
    )
    summary = tuple(
        (each.kind, f"{text} ({each.cause})")
        for each, text in zip(launcher_failures, texts, strict=True)
    )
    return Document(
        kind,
        (LauncherLog(kind, launcher_failures),),
        summary,
        not scan.problems,
        (*faults, *scan.problems),
        faults,
    )


def _line_of(each: LauncherFailure) -> str:
    where = [
        f"rank {each.rank}" if each.rank is not None else "",
        f"node {each.node}" if each.node else "",
    ]
    named = ", ".join(text for text in where if text)
    times = f" ({each.count} times)" if each.count > 1 else ""
    return f"line {each.line_no}: {each.text[:240]}{times}" + (f" [{named}]" if named else "")


def _looks_like(head: bytes) -> float:
    return 0.7 if failures_of(Scanner(PATTERNS).scan([head])) else 0.0


FORMAT = Format("open-mpi", "Open MPI launcher output", _looks_like, read, embedded=True)
