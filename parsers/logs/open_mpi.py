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

from dataclasses import replace

from busbw.model import LauncherFailure, WarningRole
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.launcher_rules import Rule, document, failures, patterns
from busbw.parsers.logs.scan import LineFormat, Scan, scanner_of

_SECONDARY, _NOTE = WarningRole.SECONDARY, WarningRole.NOTE
_NODE = r"Node: (?P<node>[\w.-]+)"

RULES: tuple[Rule, ...] = (
    Rule(
        "not-enough-slots",
        r"There are not enough slots available in the system"
        r"|All nodes which are allocated for this job are already filled",
        "more ranks were asked for than the hostfile or allocation has slots",
        (r"to satisfy the (?P<code>\d+) slots",),
        help=True,
    ),
    Rule(
        "host-not-allocated",
        r"Some of the requested hosts are not included in the",
        "a host on the command line is not part of the scheduler's allocation",
        help=True,
    ),
    Rule(
        "daemon-start-failed",
        r"(?:ORTE|PRTE)\S* was unable to reliably start one or more",
        "a launch daemon did not start on a node: ssh, PATH or libraries there",
        help=True,
    ),
    Rule(
        "daemon-no-callback",
        r"An? (?:ORTE|PRTE) daemon has unexpectedly failed after launch",
        "the launch daemon started but could not call back: firewall, or an interface"
        " that does not reach",
        help=True,
    ),
    Rule(
        "daemon-lost",
        r"(?:ORTE|PRTE) has lost communication with a remote daemon",
        "the node crashed, rebooted or lost its network during the job",
        (
            r"Remote daemon ?: \S+ on node \(?(?P<node>[\w.-]+)",
            r"daemon located on node (?P<node>[\w.-]+)",
        ),
        help=True,
    ),
    Rule(
        "daemon-died",
        r"A daemon \(pid \d+\) died unexpectedly with status (?P<code>\d+)",
        "the launch daemon ended at once: status 255 is ssh's, 127 a missing orted",
        help=True,
    ),
    Rule(
        "no-route-to-daemon",
        r"(?:ORTE|PRTE) does not know how to route a message to the specified",
        "follows from a daemon that did not start",
        (r"target node: (?P<node>[\w.-]+)",),
        role=_SECONDARY,
        help=True,
    ),
    Rule(
        "executable-missing",
        r"was unable to find the specified executable"
        r"|was unable to launch the specified application as it could not access",
        "the program is not there, or not executable, on that node",
        (
            r"^.*Executable: (?P<detail>\S+)",
            _NODE,
        ),
        help=True,
    ),
    Rule(
        "executable-permission",
        r"as it lacked permissions to execute an executable"
        r"|Open MPI tried to fork a new process via the",
        "the program cannot be executed on that node: its mode, a noexec mount, or"
        " another machine's format",
        (
            r"(?:Application name|Executable): (?P<detail>\S+)",
            r"(?:Local host|Node): (?P<node>[\w.-]+)",
        ),
        help=True,
    ),
    Rule(
        "directory-missing",
        r"change to the specified working directory",
        "the working directory does not exist on that node",
        (
            r"^.*Working directory: (?P<detail>\S+)",
            _NODE,
        ),
        help=True,
    ),
    Rule(
        "application-not-started",
        r"was unable to start the specified application as it encountered an",
        "follows from the failure reported before it",
        (_NODE,),
        role=_SECONDARY,
        help=True,
    ),
    Rule(
        "broken-pipe",
        r"noticed that process rank \d+ with PID \d+ on node \S+ exited on signal 13\b",
        "a rank wrote to a process that had ended: that one failed first",
        role=_SECONDARY,
        help=True,
    ),
    Rule(
        "signal",
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+)"
        r" exited on(?! signal 13\b)",
        "a rank was ended by a signal: 9 the OOM killer or a clean-up, 11 and 7 a crash,"
        " 6 an abort, 15 somebody",
        (
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on signal"
            r" (?P<code>\d+) \((?P<detail>[^)]*)\)",
        ),
        help=True,
    ),
    Rule(
        "exit-code",
        r"detected that one or more processes exited with non-zero status",
        "a rank ended with an error of its own; its lines above say which",
        (r"Process name: \[\[[^\]]*\],(?P<rank>\d+)\] Exit code: (?P<code>-?\d+)",),
        help=True,
    ),
    Rule(
        "primary-aborted",
        r"Primary job  ?terminated normally, but",
        "follows from the failing rank",
        role=_SECONDARY,
        help=True,
    ),
    Rule(
        "improper-exit",
        r"has exited due to process rank \d+ with PID",
        "a rank left without MPI_Finalize, or called abort",
        (
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+)"
            r" (?P<detail>exiting improperly|calling \"abort\")",
        ),
        help=True,
    ),
    Rule(
        "mpi-abort",
        r"MPI_ABORT was invoked on rank (?P<rank>\d+)",
        "the program gave up by itself; its lines above say why",
        (r"on rank (?P<rank>\d+) in communicator .*? with errorcode (?P<code>-?\d+)",),
        help=True,
    ),
    Rule(
        "time-limit",
        r"The user-provided time limit for job execution has been reached",
        "the job took longer than --timeout allows: a stall, or too short a limit",
        (r"Timeout: (?P<code>\d+) seconds",),
        help=True,
    ),
    Rule(
        "binding-overload",
        r"A request was made to bind (?:to that )?.*would result in binding more",
        "more ranks than cores for the binding asked for",
        (r"Bind to: (?P<detail>\S+) Node: (?P<node>[\w.-]+)",),
        help=True,
    ),
    Rule(
        "run-as-root",
        r"(?:mpirun|prterun|orterun|mpiexec) has detected an attempt to run as root",
        "root needs --allow-run-as-root",
    ),
    Rule(
        "parameter-twice",
        r"The following MCA parameter has been listed multiple times",
        "the same --mca parameter is on the command line twice",
        (r"MCA param: (?P<detail>\S+)",),
        help=True,
    ),
    Rule(
        "mpi-tcp-failed",
        r"Open MPI failed to TCP connect to a peer MPI process",
        "MPI chose an interface that does not reach its peer",
        (
            r"Local host: (?P<node>[\w.-]+)",
            r"connect\(\) to (?P<detail>\S+) failed",
        ),
        help=True,
    ),
    Rule(
        "mpi-tcp-endpoint",
        r"\[(?P<node>[\w.-]+)\]\[\[.*?btl_tcp_endpoint\S*\]? .*?(?:connect\(\) to"
        r" (?P<detail>\S+) failed|received unexpected process identifier)",
        "MPI chose an interface that does not reach its peer",
    ),
    Rule(
        "mpi-tcp-stranger",
        r"Open MPI (?:detected an inbound MPI TCP connection request|accepted a TCP"
        r" connection) from",
        "two nodes use the same private address on an interface that MPI chose",
        help=True,
    ),
    Rule(
        "peer-disconnected",
        r"An MPI communication peer process has unexpectedly disconnected",
        "the peer failed first",
        (r"Peer host: (?P<node>[\w.-]+)",),
        role=_SECONDARY,
        help=True,
    ),
    Rule(
        "interface-unknown",
        r"An invalid value was given for (?:btl|oob|pmix|prte)\S*_if_(?:in|ex)clude",
        "an interface name that this node does not have; it was ignored",
        (r"Local host: (?P<node>[\w.-]+) Value: (?P<detail>\S+)",),
        help=True,
    ),
    Rule(
        "peers-unreachable",
        r"At least one pair of MPI processes are unable to reach each other",
        "no MPI transport connects two of the ranks",
        (
            r"is on host: (?P<node>[\w.-]+)",
            r"BTLs attempted: (?P<detail>[\w ]+?) Your",
        ),
        help=True,
    ),
    Rule(
        "mpi-init-failed",
        r"It looks like MPI_INIT failed for some reason"
        r"|MPI_INIT has failed because at least one"
        r"|PML add procs failed",
        "MPI could not start; the message before it says why",
        (r"(?P<detail>\w+\(?\)? failed) --> Returned",),
        role=_SECONDARY,
        help=True,
    ),
    Rule(
        "openib-warning",
        r"No OpenFabrics connection schemes reported"
        r"|There was an error initializing an OpenFabrics device",
        "the old openib transport does not know the adapter; harmless with UCX or TCP",
        role=_NOTE,
        help=True,
    ),
    Rule(
        "pmix-noise",
        r"PMIX ERROR: (?:ERROR in file gds_ds12|NO-PERMISSIONS)",
        "known noise, the run goes on",
        role=_NOTE,
    ),
    Rule(
        "ucx-device",
        r"UCX\s+WARN\s+network device '(?P<detail>[^']+)' is not available",
        "UCX_NET_DEVICES names a device that this node does not have",
    ),
    Rule(
        "ucx-transport",
        r"UCX\s+ERROR\s+no active messages transport",
        "UCX_TLS or UCX_NET_DEVICES leave no transport to a peer",
    ),
    Rule(
        "ucx-error", r"UCX\s+ERROR\s+(?!\s|no active)(?P<detail>.{1,120})", "UCX reports an error"
    ),
    Rule(
        "crash",
        r"\[(?P<node>[\w.-]+):\d+\] Signal: (?P<detail>[^(]*?) \((?P<code>\d+)\)",
        "a rank crashed; its back-trace follows",
    ),
    Rule(
        "session-directory",
        r"A call to mkdir was unable to create the desired directory",
        "the temporary directory is full or not writable",
        help=True,
    ),
    Rule(
        "orted-not-found",
        r"(?P<detail>\borted|\bprted): (?:command )?not found",
        "Open MPI is not in the PATH that a non-interactive ssh session has on the node",
    ),
    Rule(
        "library-missing",
        r"error while loading shared libraries: (?P<detail>[^\s:]+)",
        "a library is not found on the node: LD_LIBRARY_PATH is not passed on, or it is"
        " not installed",
    ),
    Rule(
        "variable-missing",
        r"could not find environment variable \"?(?P<detail>\w+)",
        "-x names a variable that is not set here",
        role=_NOTE,
    ),
    Rule(
        "no-pmi",
        r"The application appears to have been direct launched using",
        "Open MPI was built without the PMI that srun offers: every task is a world of its own",
        help=True,
    ),
    Rule(
        "ssh-host-key-changed",
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the node has another key than known_hosts says: reinstalled, or another machine",
    ),
    Rule("ssh-host-key", r"Host key verification failed", "the node's key is not in known_hosts"),
    Rule(
        "ssh-permission",
        r"^(?:.*?@?(?P<node>[\w.-]+): )?Permission denied \((?P<detail>[a-z,-]+)\)",
        "the node accepts none of the keys offered",
    ),
    Rule(
        "ssh-name",
        r"ssh: Could not resolve hostname (?P<node>[\w.-]+)",
        "the name is not known here",
    ),
    Rule(
        "ssh-connect",
        r"ssh: connect to host (?P<node>[\w.:-]+) port \d+: (?P<detail>.+?)\s*$",
        "nothing answers ssh there: down, firewall, or another port",
    ),
    Rule(
        "ssh-closed",
        r"kex_exchange_identification:"
        r"|ssh_exchange_identification:"
        r"|Connection closed by (?P<node>[\w.:]+) port",
        "sshd closed the connection: too many at once (MaxStartups), or denied",
    ),
)
PATTERNS = patterns("open-mpi", RULES)
"""For the scanner; ids begin with `open-mpi.`."""


_NEEDS_A_SHELL = ("orted-not-found", "library-missing")
_DAEMON_FAILED = ("daemon-start-failed", "daemon-died")


def failures_of(scan: Scan) -> tuple[LauncherFailure, ...]:
    """The failures in a scan for `PATTERNS` (hits of other patterns are left alone)."""
    launcher_failures = failures("open-mpi", RULES, scan)
    follows: set[str] = set()
    for failure in launcher_failures:
        if failure.kind.startswith("ssh-") or failure.kind in _NEEDS_A_SHELL:
            follows.update(_DAEMON_FAILED)
        elif failure.kind in ("signal", "crash"):
            # Who connects to a process that has died is refused.
            follows.add("mpi-tcp-failed")
    return tuple(
        replace(failure, role=_SECONDARY) if failure.kind in follows else failure
        for failure in launcher_failures
    )


def document_of(scan: Scan) -> Document:
    """What mpirun printed.

    Raises:
        UnknownLayout: none of its messages is in the text.
    """
    return document("open-mpi", failures_of(scan), scan, "Open MPI", "mpirun")


LINES = LineFormat("open-mpi", PATTERNS, document_of)
read = LINES.read


def _looks_like(head: bytes) -> float:
    return 0.7 if failures_of(scanner_of(PATTERNS).scan([head])) else 0.0


FORMAT = Format("open-mpi", "Open MPI launcher output", _looks_like, read, embedded=True)
