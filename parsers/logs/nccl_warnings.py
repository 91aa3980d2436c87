"""NCCL's WARN lines: the wordings by version, what kind of trouble each is, and the figures and names
in them.

Written against NCCL 2.4 to 2.30.7, files `transport/net_ib*`, `misc/socket.cc`, `misc/ibvwrap.cc`,
`bootstrap.cc`, `proxy.cc`, `init.cc`, `transport/nvls.cc`, `misc/shmutils.cc`; the plugin of AWS by
its prefix `NET/OFI`.
"""

from __future__ import annotations

import re

from busbw.model import LogLine, NcclWarning, WarningRole

_CAUSE, _SECONDARY, _NOTE = WarningRole.CAUSE, WarningRole.SECONDARY, WarningRole.NOTE

_KINDS: tuple[tuple[str, WarningRole, re.Pattern[str]], ...] = tuple(
    (kind, role, re.compile(pattern, re.IGNORECASE))
    for kind, role, pattern in (
        (
            "ib-flush",
            _SECONDARY,
            r"Got completion.*(?:status=(?:IBV_WC_WR_FLUSH_ERR\()?5|error 5)\b",
        ),
        ("ib-completion", _CAUSE, r"Got completion|Got CQE with error"),
        ("ib-modify-qp", _CAUSE, r"Call to ibv_modify_qp failed"),
        ("ib-verbs", _CAUSE, r"Call to (?:ibv|mlx5dv)_\w+(?:\(\))? (?:failed|returned)"),
        ("ib-open", _CAUSE, r"NET/IB ?: Unable to (?:open|query)|could not open \w+ \(.*errno"),
        ("ib-async-fatal", _CAUSE, r"async fatal event"),
        ("ib-async-event", _CAUSE, r"Got async event"),
        (
            "ib-port-event",
            _NOTE,
            r"Got non-fatal async event|GID table changed|unknown event type|speed change",
        ),
        ("ib-fatal-detected", _SECONDARY, r"communicator encountered a fatal error"),
        (
            "ib-failover",
            _CAUSE,
            (
                r"NET/IB ?: (?:Device \d+ marked as failed|The error is fatal|Fatal error|Maximum"
                r" number of probing)"
            ),
        ),
        ("link-type-mix", _CAUSE, r"incompatible devices|Remote \w+ device is incompatible"),
        ("ib-receive-mismatch", _CAUSE, r"posted incorrect receive info|collective mismatch error"),
        (
            "no-interface",
            _CAUSE,
            (
                r"no (?:socket )?interface found|No IP interface found|No usable listening"
                r" interface|No interface found in"
            ),
        ),
        (
            "address-family",
            _CAUSE,
            r"is neither AF_INET|unsupported IP family|Address family not supported",
        ),
        (
            "connect-failed",
            _CAUSE,
            (
                r"(?:Connect|connect) to .*(?:failed|returned)|connect returned|exceeded (?:error"
                r" retry|retries|timeouts)"
            ),
        ),
        ("connection-closed", _SECONDARY, r"Connection closed by remote peer"),
        (
            "connection-lost",
            _SECONDARY,
            r"Call to (?:recv|send|recv from|send to)\b.*failed|ncclSocket\w* failed",
        ),
        ("accept-failed", _CAUSE, r"Accept failed|Too many open files"),
        (
            "foreign-connection",
            _CAUSE,
            r"wrong (?:magic|type)|socket magic mismatch|wrong socket type",
        ),
        ("message-mismatch", _CAUSE, r"[Mm]essage truncated"),
        (
            "rank-mismatch",
            _CAUSE,
            r"Bootstrap Root : (?:mismatch|rank \d+ of)|has already checked in",
        ),
        ("version-mismatch", _CAUSE, r"Mismatched NCCL version|NCCL version mismatch"),
        (
            "duplicate-gpu",
            _CAUSE,
            r"Duplicate GPU detected|ranks (?:detected|are) using the same GPU|using the same GPU",
        ),
        ("nvls-bind", _CAUSE, r"NVLink SHARP \(NVLS\)|NVLS"),
        ("cuda-failure", _CAUSE, r"Cuda failure|CUDA error"),
        ("cuda-memory", _CAUSE, r"Failed to CUDA (?:malloc|calloc|host alloc)"),
        (
            "cuda-driver",
            _CAUSE,
            r"CUDA Driver version found|Failed to open libnvidia-ml|nvml\w*\(\) failed",
        ),
        (
            "p2p-disabled",
            _CAUSE,
            r"P2P is disabled between NVLINK|failed to peer with device|cudaIpcGetMemHandle failed",
        ),
        ("no-transport", _CAUSE, r"No transport found for rank"),
        ("topology-file", _CAUSE, r"XML|Attribute \S+ of node|Could not find real path"),
        ("shared-memory", _CAUSE, r"/dev/shm|shared memory|posix_fallocate"),
        (
            "proxy",
            _SECONDARY,
            (
                r"\[(?:Service thread|Proxy (?:Service|Progress)[^\]]*)\]|Socket recv failed while"
                r" polling|ncclProxyCallBlockingUDS|UDS:"
            ),
        ),
        ("mnnvl", _CAUSE, r"MNNVL"),
        ("collnet-off", _NOTE, r"Cannot initialize CollNet|CollNet.*not"),
        ("no-algorithm", _CAUSE, r"no algorithm/protocol available"),
        (
            "net-plugin",
            _CAUSE,
            r"network \S.* not found|Failed to initialize any NET plugin|External network plugin",
        ),
        ("nic-count", _CAUSE, r"Detected mixed local|has \d+ local (?:Net|CollNet) devices"),
        ("ofi-version", _NOTE, r"NET/OFI Could not find ncclGetVersion symbol"),
        ("ofi", _CAUSE, r"NET/OFI"),
        ("no-verbs", _NOTE, r"Failed to open libibverbs|Coun?t? ?not open libibverbs"),
        ("ras-port", _NOTE, r"RAS failed to establish|in spite of a RAS initialization error"),
        (
            "invalid-argument",
            _CAUSE,
            r"is not a valid pointer|mismatchs with NCCL device|Invalid|invalid",
        ),
        ("numa-balancing", _NOTE, r"NUMA auto balancing|iommu=pt"),
        ("hang-hint", _NOTE, r"Your program may be hanging"),
    )
)
_RAS_PORT = re.compile(r"client_support\.cc")
_PEER = re.compile(r"(?:peer|to|from|address)\s+(?P<peer>[\w.:%-]+)<\d+>")
_STATUS = re.compile(r"(?:status=(?:[A-Z0-9_]+\()?|with error )(\d+)")
_OPCODE = re.compile(r"opcode(?:=(?:[A-Z0-9_]+\()?| )(\d+)")
_LENGTH = re.compile(r"\b(?:len|reqSize)[= ](\d+)")
_VENDOR = re.compile(r"vendor[_ ]err[= ](\d+)")
_REQUEST = re.compile(r"\((Send|Recv|Flush)\)|req_type=(Send|Recv|Flush)")
_WARNED_HCA = re.compile(
    r"\bhca (\S+)|\bon dev (\S+?)(?::\d+)?[,\s]|could not open (\w+)|NET/IB ?:"
    r" (?:\[\d+\])?(?:Unable to open device )?(\w+_\d+|\w*mlx5\w*)(?::\d+)?\b"
)
_ERRNO = re.compile(
    r"\berrno (\d+)|failed with (?:error )?(\d+)\b|error: [A-Z][^(]* \((\d+)\)$|(?:Cuda"
    r" failure|CUDA error) (\d+)"
)
_ERROR_TEXT = re.compile(
    r"failed (?:: |with (?:error )?(?:\d+ )?)([A-Z][^,\[(\"]*?)\s*(?:\[|,|\(|\"|errno|$)|returned"
    r" ([A-Z][\w ]+?)(?:,|$)|error: ([A-Z][^(]*?) \(\d+\)"
    r"|(?:Cuda failure|CUDA error)(?: \d+)? '([^']*)'|could not open \w+ \(([^,]*), errno"
)
_LOCAL_GID = re.compile(r"local ?GID:? ([0-9a-f:.]+)|localGid ([0-9a-f:.]+)", re.IGNORECASE)
_REMOTE_GID = re.compile(r"remote ?GIDs? ?([0-9a-f:.]+)", re.IGNORECASE)


def warning(line: LogLine) -> NcclWarning:
    """A WARN line as a record.

    >>> text = "NET/IB : Got completion from peer 10.0.0.2<47001> with error 12, opcode 0, len 0, vendor err 129"
    >>> record = warning(LogLine(1, "WARN", text))
    >>> record.kind, record.role.value, record.status, record.vendor_err, record.peer
    ('ib-completion', 'cause', 12, 129, '10.0.0.2')
    """
    text = line.message
    kind, role = _kind(text)
    if _RAS_PORT.search(line.source or "") and "bind failed" in text:
        kind, role = "ras-port", _NOTE  # two jobs on a node: only the RAS port is taken
    completion = kind in ("ib-completion", "ib-flush")
    return NcclWarning(
        line_no=line.line_no,
        process=line.process,
        device=line.device,
        timestamp=line.timestamp,
        source=line.source,
        function=line.function,
        message=text,
        kind=kind,
        role=role,
        peer=_text(_PEER, text),
        hca=_text(_WARNED_HCA, text),
        status=_number(_STATUS, text) if completion else None,
        opcode=_number(_OPCODE, text) if completion else None,
        length=_number(_LENGTH, text) if completion else None,
        vendor_err=_number(_VENDOR, text),
        request=_text(_REQUEST, text),
        errno=None if completion else _number(_ERRNO, text),
        errno_text=None if completion else _text(_ERROR_TEXT, text),
        local_gid=_text(_LOCAL_GID, text),
        remote_gid=_text(_REMOTE_GID, text),
    )


def _kind(text: str) -> tuple[str, WarningRole]:
    for kind, role, pattern in _KINDS:
        if pattern.search(text):
            return kind, role
    return "other", WarningRole.UNKNOWN


def _text(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    if match is None:
        return None
    return next((group.strip() for group in match.groups() if group), None)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    digits = _text(pattern, text)
    return int(digits) if digits is not None else None
