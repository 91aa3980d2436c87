"""What part a line plays in the story of a failure, by its words: a reason, a failure, a consequence
or a notice.

A text holds many lines that look bad, and one that matters. A reason says why, in words (`because`,
`requires`, an error of the system behind a call). A failure says that something went wrong. A
consequence says that somebody noticed: a peer, a launcher, a caller that passes it on. A notice is
about something that the program goes on without.

>>> role_of("could not start: the driver requires a newer kernel").name
'REASON'
>>> role_of("worker 3: start failed").name
'FAILURE'
>>> role_of("mpirun noticed that process rank 3 exited on signal 6").name
'CONSEQUENCE'
>>> role_of("no plugin found, using the internal one").name
'NOTICE'
"""

from __future__ import annotations

import functools
import re
from enum import IntEnum

from busbw.parsers.logs.scan import Pattern, scanner_of


class LineRole(IntEnum):
    """The part of a line, the most telling first."""

    REASON = 0
    FAILURE = 1
    CONSEQUENCE = 2
    NOTICE = 3


_NOTICE = Pattern(
    "notice",
    r"deprecat|\bFutureWarning|\bUserWarning|\(ignored\)|\bignor(?:e|ed|ing)\b"
    r"|\bfall(?:ing)?[ -]?back\b|\busing (?:the )?(?:latest )?(?:default|internal|built-?in|loopback|cached)|\boptional\b"
    r"|\bwill (?:proceed|continue) with"
    r"|unused (?:environment )?variable|(?-i:\bWarning: )|Permanently added|\bwill (?:retry\b|fail if\b)"
    r"|\btrying (?:again|next|the next|another|a different|port)\b"
    r"|couldn't open config directory|no plugin found|Plugin: (?:Could not|Failed to) find"
    r"|can leak resources|might be asynchronously reported|stack ?trace (?:below|above)"
    r"|\bis disabled because\b|\bTo silence\b|\bif this is not expected\b"
    r"|ofi_reg_dl_prov\(\)|For debugging consider|Compile with `|\bdebug\d?: |\[debug\]|:\d+<(?:debug|info|trace)>|(?-i:\b(?:DEBUG|TRACE)\b)",
)
_CONSEQUENCE = Pattern(
    "consequence",
    r"ChildFailedError|exited with (?:non-zero |exit )?(?:status|code) (?!127)|return code ="
    r"|exit(?:ed|ing)? on signal|BAD TERMINATION|MPI_ABORT was|non-zero status(?!: \d)|exitcode"
    r"|\b(?:was|been|communicator) aborted\b|Fatal Python error|\bcancel+ed\b(?!.*DUE TO (?!SIGNAL|TASK FAILURE))"
    r"|\bterminat(?:ing|e called)\b|lost communication|Broken pipe|recvValue failed|sendBytes failed"
    r"|failed to recv|heartbeat timeout|SIGTERM|\bSee (?:stack trace|root cause)|root cause above"
    r"|for the root cause|died unexpectedly\b(?!.* 127)|crashed unexpectedly|\bshutting down\b"
    r"|Killing subprocess|Received signal|Process received signal|\] Signal: |-> \d+\s*$"
    r"|unhandled (?:system|cuda) error|remote process exited|Job step aborted|poll for event"
    r"|check exit codes|Fatal error in (?:internal_|P?MPI)|MPI_ERRORS_ARE_FATAL|_step_signal"
    r"|error stack:|^\s*(?:frame #|at \S+\(|#\d+ )|Traceback \(most recent(?!.*\\n)|^\s+File \"",
)
_REASON = Pattern(
    "reason",
    r"\bbecause\b|\bdue to\b|\brequir(?:es?|ed|ement)\b|(?:is|are|was) not supported|not supported by"
    r"|\bdoes(?: not|n't) (?:support|match|exist|have|allow)|\b(?:has|have) not been (?:built|set|loaded"
    r"|started|enabled|compiled|installed)|limit (?:has been|was|is) (?:reached|exceeded)"
    r"|\bexceed(?:s|ed)\b|\bnot enough\b|\binsufficient\b|\btoo (?:many|old|new|small|large|long|short)"
    r"|\bmismatch\b|\bincompatible\b|\bout of memory\b|No space left|No such (?:file|device)"
    r"|Permission denied|Operation not permitted|Cannot allocate memory|already in use|Address in use"
    r"|\bnot (?:found|installed|loaded|running|available|allowed|permitted|compiled|built)\b"
    r"|\bis not a valid\b|\binvalid (?:\w+ )?(?:argument|communicator|rank|tag|count|handle|buffer|value|option|device|\w+ specification)"
    r"|\bmust be\b|caused by|\breason[:=]|\bno longer\b|\bundefined symbol\b|\bmissing\b|\bunsatisfied\b"
    r"|Name or service not known|Temporary failure in name|could not resolve|\bcannot open shared"
    r"|\bno \w+(?: \w+)? (?:is|are|was|were) (?:present|available|active|found|up)\b|\bunauthori[sz]ed"
    r"|\bforbidden\b|\bdenied\b|Device or resource busy|Too many open files|\bunreachable\b"
    r"|Connection refused|No route to host|\buncorrectable\b|ModuleNotFoundError|ImportError: ",
)
_HEDGED = Pattern(
    "hedged",
    r"\b(?:usually|possibly|may(?! not)|might|could(?! not)|probably|often|either|typically|sometimes|common)\b"
    r"|\bcan be\b|e\.g\.",
)
"""A reason among several that its writer thinks of is none."""
_WORDS = (_NOTICE, _CONSEQUENCE, _REASON, _HEDGED)


_INFORMS = re.compile(
    r"(?:\([^)]{1,60}\) ?|\[[^\]|]{1,60}\]:? ?|[\d:T,.+Z/ \t-]{1,40}+){0,4}\[?(?:INFO\b|I\d{4} \d\d:)"
    r"|\[\d{4}-\d\d-\d\d [\d:,.]+ (?:\| )?I(?:NFO)?\b"
)
"""The level of a line that its writer calls information: of Python's loggers, glog and Ray. NCCL's own
has its level behind host, process and GPU, and states causes at it."""
_WARNS = re.compile(r"""\btype[=:] ?['"]?Warning\b""")
"""An event of Kubernetes that a controller passes on: the event's own level counts."""
_STRANGERS = re.compile(
    r"^\S.{10,60} (?:snapd|fwupd|fwupdmgr|packagekitd|unattended-upgrades?|apt\S*|dnf\S*|whoopsie|motd-news|esm-cache|ubuntu-advantage"
    r"|ModemManager|cupsd?|cups-browsed|avahi-daemon|bluetoothd|colord|gdm\S*|gnome-\S+|anacron|postfix/\w+|sendmail|landscape-\S+)\[\d+\]: "
)
"""Services of an operating system, in syslog, that no job and no node's fabric depends on."""
_GOES_WELL = re.compile(
    r"^(?:SUCCESS|PASS(?:ED)?): |\bnhc: Running check: |^(?:slurm\w+: |(?:\[[^\]]{1,40}\] ?){1,2})debug\d?: "
    r"|\b(?:is|are) (?:innocuous|harmless)\b|\b(?:can|may) (?:be )?safely (?:be )?ignored?\b|\bsafe to ignore\b"
    r"|\b(?:once|twice|\d times)[,;] (?:re-?connected|recovered)\b"
)
"""A check that passed or begins, of Node Health Check; steps of Slurm's daemons, at their level for them;
what its writer calls harmless, or over."""
OFFERED = re.compile(
    r"\b(?:this|it) (?:can|may|might|could) (?:also )?(?:happen|be caused|be due|occur)\b"
    r"|\b(?:possible|potential|common)(?: root)? (?:reasons|causes)\b|\(1\)(?=.*\(2\))"
    r"|\bthis (?:most likely )?indicates that\b(?=.*\bor\b)|\beither the\b(?=.{5,200}\bor\b.*\b(?:issues?|problems?)\b)",
    re.IGNORECASE,
)
"""Where a writer begins to list what it thinks of."""
OFFER_WORDS = (
    "either",
    "indicates",
    "happen",
    "caused",
    "due",
    "occur",
    "reasons",
    "causes",
    "(1)",
)
"""Every match of `OFFERED` has one: few lines do, and to look for them takes a thirtieth of the time."""


@functools.lru_cache(maxsize=4096)
def is_of_stranger(line: str) -> bool:
    """A service wrote it whose troubles are none of a job's.

    >>> is_of_stranger("Mar 11 02:18:11 n7 snapd[1302]: lookup api: Temporary failure in name resolution")
    True
    """
    return _STRANGERS.match(line) is not None


@functools.lru_cache(maxsize=4096)
def goes_well(line: str) -> bool:
    """It reports a check that passed or begins, or a step of a daemon: whatever it names did not fail.

    >>> goes_well("SUCCESS:  nhc:  Health check passed:  check_gpu_ecc"), goes_well("ERROR:  nhc:  Health check failed:  check_gpu_ecc")
    (True, False)
    >>> goes_well("[2026-06-21T13:26:03.372] debug:  Waiting for job 81219's prolog to complete")
    True
    """
    return _GOES_WELL.search(line) is not None


def stated(line: str) -> str:
    """The line up to where its writer lists reasons that it only thinks of.

    >>> stated("the worker died. Possible causes: (1) it was killed by the kernel, (2) it crashed")
    'the worker died. '
    """
    low = line.casefold()
    if not any(word in low for word in OFFER_WORDS):
        return line
    offered = OFFERED.search(line)
    return line[: offered.start()] if offered else line


@functools.lru_cache(maxsize=20_000)
def role_of(line: str) -> LineRole:
    """The part that a line plays, by its words alone."""
    words = scanner_of(_WORDS).ids_in(line)
    if _NOTICE.id in words or informs(line):
        return LineRole.NOTICE
    says_why = _REASON.id in words and _HEDGED.id not in words
    if _CONSEQUENCE.id in words:
        return (
            LineRole.REASON
            if says_why and ": " in line and _names_error(line)
            else LineRole.CONSEQUENCE
        )
    return LineRole.REASON if says_why else LineRole.FAILURE


def informs(line: str) -> bool:
    """Its writer calls it information: whatever it quotes, nothing failed for the writer.

    >>> informs("INFO 09-06 00:41:36 logger.py:36] Received request: prompt: 'CUDA error: why?'")
    True
    >>> informs("gpu1:1:2 [0] NCCL INFO Could not find: libnccl-net.so")
    False
    >>> informs('I0311 04:12:09.1 1 event.go:377] "Event occurred" type="Warning" reason="FailedCreate"')
    False
    """
    return _INFORMS.match(line) is not None and _WARNS.search(line) is None


_ERROR_NAME = re.compile(r"\b\w+(?:Error|Exception)\b: \S|: Invalid \w|: [A-Z][\w ]+$")


def _names_error(line: str) -> bool:
    """It passes on an error with the error's own words."""
    return _ERROR_NAME.search(line) is not None
