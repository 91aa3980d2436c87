"""Outputs of a node's own tools in a text: nvidia-smi, ibstat, ibv_devinfo, rdma link, ethtool, lspci, dmesg, fi_info, perftest and their like.

Which tools, and how each is read, is known to `parsers.nodes`; here they become a document that says what they are. A tool prints less than
`MOST_BYTES`: of a longer text only so much of its beginning is looked at.

>>> document = read([b"CA 'mlx5_0'\\n\\tCA type: MT4129\\n\\tPort 1:\\n\\t\\tState: Active\\n\\t\\tPhysical state: LinkUp\\n\\t\\tRate: 400\\n"])
>>> document.kind, document.summary
('node-tools', (('ibstat', 'mlx5_0 MT4129: port 1 Active, LinkUp, 400 Gb/s'),))
"""

from __future__ import annotations

from collections.abc import Iterable

from busbw.errors import UnknownLayout
from busbw.outside import decoded
from busbw.parsers.formats import Document, Format
from busbw.parsers.formats.node_tools_text import faults_of, gaps_of, lines_of
from busbw.parsers.nodes import recognise

KIND = "node-tools"
MOST_BYTES = 1 << 20
_MARKS = (
    b"CA type:", b"hca_id:", b"node GUID", b"NVIDIA-SMI", b"\tGPU0", b"GPU 0: ", b"Link 0: ", b"ACSC", b"LnkSta:", b"PFC configuration",
    b"Priority trust state", b"provider: ", b"pkeys/", b"PORT\tINDEX", b"FEC parameters", b"OFED", b" physical_state ", b"/dev/infiniband",
    b"NVRM: Xid", b"SXid", b"mlx5_core ", b"AER: ", b"Link is Down", b"blocked for more than", b"Out of memory: Killed", b"mce: ", b"#bytes ",
    b"nvbandwidth", b'"iperf', b"DCGM", b"dcgmi", b"uuid", b"[MiB]", b"current_link",
)  # fmt: skip
"""One of them is in every output that is known here."""


def read(chunks: Iterable[bytes]) -> Document:
    """Read what such tools printed.

    Raises:
        UnknownLayout: nothing of the kind is in the beginning of the text.
    """
    data, cut = _beginning(chunks)
    text = decoded(data).replace("\r\n", "\n")
    records = tuple(_flat(recognise.read(text))) if _marked(data) else ()
    told = tuple(line for record in records for line in lines_of(record))
    if not told:
        raise UnknownLayout(
            "no output of a node's tools in it",
            seen=next((line.strip()[:200] for line in text.splitlines() if line.strip()), ""),
            next_step="known are nvidia-smi, ibstat, ibv_devinfo, rdma link, ethtool, lspci, dmesg and their like: docs/read.md lists them",
        )
    faults = tuple(dict.fromkeys(fault for record in records for fault in faults_of(record)))
    gaps = tuple(dict.fromkeys(gap for record in records for gap in gaps_of(record)))
    gaps += (f"outputs of tools were looked for in the first {MOST_BYTES} bytes only",) if cut else ()
    return Document(KIND, records, told, not gaps, (*faults, *gaps), faults)


def _beginning(chunks: Iterable[bytes]) -> tuple[bytes, bool]:
    data = b""
    for chunk in chunks:
        data += chunk
        if len(data) > MOST_BYTES:
            return data[: data.rfind(b"\n", 0, MOST_BYTES) + 1 or MOST_BYTES], True
    return data, False


def _marked(data: bytes) -> bool:
    return any(mark in data for mark in _MARKS)


def _flat(found: Iterable[object]) -> Iterable[object]:
    for record in found:
        if isinstance(record, tuple):
            yield from record
        else:
            yield record


def _looks_like(head: bytes) -> float:
    return 0.4 if _marked(head) and b"NCCL " not in head else 0.1 if _marked(head) else 0.0


FORMAT = Format(KIND, "output of a node's tools", _looks_like, read, embedded=True)
