"""What a line says is wrong with a thing: by words of a sentence, by numbers of the system, or by
the value of a cell.

Every tool and every library says it in a form of its own, but the words are few.

>>> [name for name, words in expressions().items() if words.search(with_names("bind: errno 98"))]
['busy']
>>> state_of("not ready")
'away'
"""

from __future__ import annotations

import errno
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.parsers.findings import catalogue


@dataclass(frozen=True, slots=True)
class Wrong:
    """One way in which a thing can be wrong. All words are Python `re`, case ignored."""

    words: str = ""
    """In a sentence: somebody tried, and it came to this."""
    errors: str = ""
    """The system's names of error numbers: lines have the name, or the number beside a word for it."""
    values: str = ""
    """In a cell, or behind a key: the state that the thing is in."""


WRONGS: Mapping[str, Wrong] = {
    "full": Wrong(
        r"no space left|(?<!no )quota exceeded|disk (?:is )?full|StorageFull|0 free inodes",
        "ENOSPC EDQUOT",
    ),
    "memory": Wrong(
        r"out of memory|can ?not allocate|not enough memory|insufficient memory|bad_alloc|RESOURCE_EXHAUSTED|OutOfMemory|memory allocation|\boom\b"
        r"|(?:could ?n[o']t|failed to|unable to) allocate|OUT_OF_MEMORY|allocation of .{1,30} failed|OOM ?Kill\w*|oom_kill event",
        "ENOMEM cudaErrorMemoryAllocation",
    ),
    "version": Wrong(
        r"version mismatch|incompatible|(?:is )?(?:newer|older) than|too old|disagrees? about|unsupported \w* ?\w* version|does ?n[o']t match"
        r"|differ\b|version .{0,60}not found|should be '|does not support the .{0,20}ABI|undefined symbol|do(?:es)? not fit|API mismatch"
        r"|abi version|unsupported .{0,20}version|version\b.{0,40}required|mismatched? (?:\w+ )?version"
        r"|requires? (?:\w+ )?(?:version|>=|at least)|protocol version",
        "cudaErrorInsufficientDriver cudaErrorSystemDriverMismatch",
    ),
    "denied": Wrong(
        r"permission denied|not permitted|access (?:is )?denied|unauthori[sz]ed|forbidden|\b40[13]\b|rejected|PermissionDenied"
        r"|bad permissions|not accepted|blocked by|refusing|read-only file system|not allowed|security violation",
        "EACCES EPERM EROFS",
    ),
    "busy": Wrong(
        r"\bin use\b|\bbusy\b|already (?:allocated|bound|running|taken|registered|exists)|AddrInUse|held by|\bbound to\b|currently in use",
        "EBUSY EADDRINUSE ETXTBSY cudaErrorDevicesUnavailable",
    ),
    "address": Wrong(r"can ?not assign requested address|AddrNotAvailable", "EADDRNOTAVAIL"),
    "request": Wrong(
        r"(?:can ?not|could not) be (?:satisfied|scheduled|fulfilled|allocated)|invalid \w+(?: \w+)? specification|violates"
        r"|request (?:was )?(?:denied|rejected)|insufficient \w|exceeds? (?:the )?(?:\w+ )?(?:limit|number|available|maximum|quota)",
    ),
    "hardware": Wrong(
        r"uncorrect\w+|\becc\b|parity|hardware error|media error|\bcrc\b|\b(?:link|port)\b.{0,12}\b(?:down|lost|error)|PORT_DOWN"
        r"|overheat|insufficient power|\bfirmware\b.{0,30}(?:error|fail|fatal|hang|halt|crash)|memory (?:read|write|scrubbing) error"
        r"|\bno (?:\w+ ){0,2}(?:ports?|links?) (?:is|are|in state)? ?\W?(?:active|up)\b",
    ),
    "refused": Wrong(
        r"refused|UNAVAILABLE|can ?not connect|unable to contact|failed to connect|unable to connect|is down\b",
        "ECONNREFUSED",
    ),
    "route": Wrong(
        r"no route to host|unreachable|(?:network|host) is down",
        "EHOSTUNREACH ENETUNREACH EHOSTDOWN ENETDOWN",
    ),
    "silent": Wrong(
        r"time[ds]? ?-?out|deadline|no response|not respond\w*|did not answer|giv(?:es|en) up|stuck|\bhung\b"
        r"|(?:can ?not|could ?n[o']t|failed to|unable to) (?:\w+ )?(?:contact|reach|register|join|communicate)|retry (?:count|limit)",
        "ETIMEDOUT",
    ),
    "gone": Wrong(
        r"reset by peer|broken pipe|closed by|connection (?:was )?(?:lost|closed|reset)|not connected|\bdied\b|crash|0 bytes|\bdead\b|\bkilled\b"
        r"|\bterminated\b|\bexited\b|disconnect|heartbeats?\b|SIGKILL|SIGSEGV|unhealthy|preempted",
        "ECONNRESET EPIPE ESHUTDOWN ECONNABORTED ENOTCONN",
    ),
    "limit": Wrong(
        r"too many|temporarily unavailable|limit (?:was |is )?(?:exceeded|reached)|exceed\w*|exhausted|all \w+ are in use|WouldBlock"
        r"|\bno (?:\w+ ){0,3}left\b",
        "EAGAIN EMFILE ENFILE",
    ),
    "broken": Wrong(
        r"input/output error|i/o error|stale (?:nfs )?file handle|transport endpoint",
        "EIO ESTALE EREMOTEIO",
    ),
    "missing": Wrong(
        r"no such|not found|not exist|missing|no data available|EAI_[A-Z]+|gaierror"
        r"|can(?:not|'t| not) (?:find|open|locate|load|read|access|stat|be (?:found|opened|loaded|looked up))"
        r"|(?:unable|failed|could ?n[o']t|could not) (?:to )?(?:find|open|load|locate|look up|detect|be (?:found|opened|loaded))"
        r"|no (?:\w+ ){0,3}(?:was |were )?(?:found|available|detected|visible)|not (?:available|installed|present|loaded|defined|set)\b"
        r"|returned 0\b|no module named|\bis lost\b|but only \d+|was not found|nothing to|is it installed|not initiali[sz]ed",
        "ENOENT ENXIO ENODEV ENODATA cudaErrorNoDevice",
    ),
    "broken-file": Wrong(
        r"(?:is|was|are|be|seems|file) corrupt\w*|truncated|incomplete|wrong byte size|bad magic|cannot be parsed|parsing failed"
    ),
    "memory-address": Wrong(r"bad address", "EFAULT"),
    "invalid": Wrong(
        r"invalid|unknown|unrecogni[sz]ed|not (?:supported|valid|implemented|part of)|unsupported|malformed|unexpected|mismatch"
        r"|exec format error|wrong|parse error|illegal|must be",
        "EINVAL EOPNOTSUPP ENOSYS EPROTONOSUPPORT ENOEXEC ENOTSUP",
    ),
    "failed": Wrong(
        r"fail\w*|error|fatal|abort\w*|unable|could ?n[o']t|could not|can ?not|can't|expired|\brejected\b|stopped|suspended|violat\w+"
        r"|unsatisf\w+|not (?:ready|reachable|running)|\brc ?=|\bblocked\b|insufficient|lost\b|\bgone\b|is DOWN|\bERR\b|unschedulable"
        r"|panick?\w*|is not in the|didn't match|denies",
    ),
    "down": Wrong(
        values=r"down\*?|linkdown|no[ -]carrier|polling|link down|no link|port_?down|unplugged|not connected|disconnected",
    ),
    "unhealthy": Wrong(
        values=r"fail(?:ed|ure|ing|s)?|err!|faulty|faulted|unhealthy|broken|not ok|nok|crashloopbackoff|crashed",
    ),
    "away": Wrong(
        values=r"inactive(?: \(dead\))?|<inactive>|dead|not ?ready|offline|missing|absent|not present|not found|unavailable|unreachable"
        r"|lost|\w+ is lost|not responding|no response|drain(?:ed|ing)?\*?|not running|stopped|not loaded|not installed|not detected"
        r"|never connected",
    ),
    "degraded": Wrong(
        values=r"degraded|impaired|suspect|downgraded|throttled|flapping|unstable",
    ),
    "unsupported": Wrong(values=r"not supported|unsupported|skipping|skipped \(unsupported\)"),
}
"""Name of a wrong → how it is told, the most telling first."""
KINDS_OF: Mapping[str, tuple[str, ...]] = {"refused": ("silent",), "route": ("silent",)}
"""Wrong → what it is a kind of, for things without a cause of its own for it."""

VALUES = "|".join(wrong.values for wrong in WRONGS.values() if wrong.values)
"""Every value of a cell that is a bad state."""


def state_of(value: str) -> str:
    """The wrong that the whole value of a cell is; it must be one of `VALUES`."""
    return next(name for name, wrong in WRONGS.items() if _is(wrong.values, value))


def _is(words: str, value: str) -> bool:
    return bool(words) and catalogue.compiled(rf"(?:{words})\Z").match(value) is not None


@functools.cache
def expressions() -> Mapping[str, re.Pattern[str]]:
    """Wrong → its words in a sentence, the most telling first. Compiled when first needed."""
    found = {}
    for name, wrong in WRONGS.items():
        options = [wrong.words] if wrong.words else []
        if wrong.errors:
            options.append(rf"\b(?:{'|'.join(wrong.errors.split())})\b")
        if options:
            found[name] = re.compile("|".join(options), re.IGNORECASE)
    return found


_NUMBERS: tuple[tuple[str, Mapping[int, str]], ...] = (
    (
        r"(\b(?:cuda|hip)\w*[ _]?(?:error|failure|err|status|result)\W{0,3})(\d+)\b",
        {
            2: "cudaErrorMemoryAllocation",
            35: "cudaErrorInsufficientDriver",
            46: "cudaErrorDevicesUnavailable",
            100: "cudaErrorNoDevice",
            803: "cudaErrorSystemDriverMismatch",
        },
    ),
    (
        r"(\b(?:wc|cqe|completion)\b(?:[ _.]\w+)?[ _.](?:status|error)\W{0,3})(\d+)\b",
        {
            4: "IBV_WC_LOC_PROT_ERR",
            9: "IBV_WC_REM_INV_REQ_ERR",
            10: "IBV_WC_REM_ACCESS_ERR",
            11: "IBV_WC_REM_OP_ERR",
            12: "IBV_WC_RETRY_EXC_ERR",
            13: "IBV_WC_RNR_RETRY_EXC_ERR",
        },
    ),
    (r"(\bPSM\d?\b.{0,80}\berr\W|\bnccl\w*(?: error| result)?\W{1,3})(\d+)\b", {}),
    (
        r"(\b(?:errno|error(?:[ _]code)?|err|rc|ret|(?<!exit )(?:status|code))\W{0,3}-?|[(\[]-?(?=\d+[)\]](?:\W*$|[:;,])))(\d+)\b",
        {
            getattr(errno, name): name
            for wrong in WRONGS.values()
            for name in wrong.errors.split()
            if getattr(errno, name, 1) > 1
        },
    ),
)
"""Where a number of a system stands, and its names: CUDA (driver_types.h of 12.8; HIP has the same), the
statuses of completions (verbs.h of rdma-core 64), those of PSM and NCCL, which other tables know,
and the C library: a number beside a word for it, or in brackets at the end of a clause. Names of counters
(`packet_seq_err 12`), of results (`retcode 2`) and exit codes are none, and 1 says that it failed, no more."""


def with_names(line: str) -> str:
    """The line with the names of its error numbers, each by its own system; the other numbers of
    a system are marked.

    >>> with_names("cudaError 2, wc status 12, errno 12, port 98, cuda error 12")
    'cudaError cudaErrorMemoryAllocation, wc status IBV_WC_RETRY_EXC_ERR, errno ENOMEM, port 98, cuda error _12'
    """
    for place, names in _NUMBERS:
        line = catalogue.compiled(place).sub(functools.partial(_named, names), line)
    return line


def _named(names: Mapping[int, str], match: re.Match[str]) -> str:
    number = match[2]
    return match[1].rstrip("-") + (names.get(int(number[:4])) or f"_{number}")
