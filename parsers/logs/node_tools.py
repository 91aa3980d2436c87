"""Outputs of a node's own tools in a text: nvidia-smi, ibstat, ibv_devinfo, rdma link, ethtool,
lspci, dmesg, fi_info, perftest and their like.

Which tools, and how each is read, is known to `parsers.tools`; here they become a document that
says what they are. A tool prints less than `MOST_BYTES`: of a longer text only so much of its
beginning is looked at.

>>> document = read([b"CA 'mlx5_0'\\n\\tCA type: MT4129\\n\\tPort 1:\\n\\t\\tState: Active\\n\\t\\tPhysical state: LinkUp\\n\\t\\tRate: 400\\n"])
>>> document.kind, document.summary
('node-tools', (('ibstat', 'mlx5_0 MT4129: port 1 Active, LinkUp, 400 Gb/s'),))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from busbw.errors import UnknownLayout
from busbw.parsers.logs import Document, Format
from busbw.parsers.tools import recognise
from busbw.parsers.tools.dcgm import DiagTest
from busbw.parsers.tools.ethtool import Fec
from busbw.parsers.tools.fi_info import FabricProvider
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsDevices, VerbsInfo
from busbw.parsers.tools.iperf3 import Iperf3
from busbw.parsers.tools.kernel_log import KernelEvent
from busbw.parsers.tools.mlnx_qos import Qos
from busbw.parsers.tools.nvbandwidth import CopyRun
from busbw.parsers.tools.nvidia_smi import ListedGpu, NvlinkGpu, QueryRow, SmiTable, Topology
from busbw.parsers.tools.ofed import OfedRelease
from busbw.parsers.tools.os_facts import RdmaNodes
from busbw.parsers.tools.pci import AcsBridge, LinkAttributes
from busbw.parsers.tools.perftest import Perftest
from busbw.parsers.tools.rdma_link import RdmaLink
from busbw.parsers.tools.rdma_sysfs import PartitionKey
from busbw.text import decoded

# What the records of `parsers.tools` say, in a line each, under the name of the tool that printed
# it; what is wrong in them, what is missing.

Line = tuple[str, str]
"""(tool, what it says)."""


def lines_of(record: object) -> Iterator[Line]:
    """What a record says; nothing for a record of another kind."""
    yield from _of_rdma(record)
    yield from _of_gpus(record)
    match record:
        case Qos():
            priorities = "".join(map(str, record.pfc_priorities or ())) or "none"
            yield "mlnx_qos", f"trust {record.trust or 'not told'}, PFC on priorities: {priorities}"
        case Fec():
            yield (
                "ethtool --show-fec",
                (
                    f"{record.interface}: configured {record.configured or 'not told'}, active"
                    f" {record.active or 'not told'}"
                ),
            )
        case LinkAttributes():
            yield (
                "PCI link",
                f"{record.address or 'device'}: {record.speed_gt_s:g} GT/s x{record.width}",
            )
        case AcsBridge():
            yield (
                "lspci -vvv",
                (
                    f"{record.address}: ACS"
                    f" {record.control or ('not readable' if record.denied else 'none')}"
                ),
            )
        case KernelEvent():
            yield "kernel log", record.text
        case Perftest():
            best = (
                "no bandwidth"
                if record.best_gbit_s is None
                else f"best {record.best_gbit_s:g} Gb/s"
            )
            yield (
                "perftest",
                (
                    f"{record.operation or 'test'} on {record.device or 'device not told'}: {best},"
                    f" {len(record.latency)} latencies"
                ),
            )
        case Iperf3():
            rates = ", ".join(
                f"{name} {rate:g} Gb/s"
                for name, rate in (
                    ("sent", record.sent_gbit_s),
                    ("received", record.received_gbit_s),
                )
                if rate
            )
            yield "iperf3", rates or "no rates"
        case _:
            return


def _of_rdma(record: object) -> Iterator[Line]:
    match record:
        case Ibstat():
            for device in record.devices:
                for port in device.ports:
                    rate = None if port.rate_gbit_s is None else f"{port.rate_gbit_s:g} Gb/s"
                    said = ", ".join(
                        each
                        for each in (port.state, port.physical_state, rate, port.link_layer)
                        if each
                    )
                    yield (
                        "ibstat",
                        f"{device.name} {device.ca_type or ''}: port {port.number} {said}",
                    )
        case VerbsDevices():
            yield (
                "ibv_devices",
                ", ".join(device.name for device in record.devices) or record.empty_text or "none",
            )
        case VerbsInfo():
            for verbs in record.ports or (None,):
                port_text = (
                    "no port"
                    if verbs is None
                    else f"port {verbs.number} {verbs.state or 'state not told'}"
                )
                more = (
                    ""
                    if verbs is None
                    else (
                        f", MTU {verbs.active_mtu or '?'},"
                        f" {verbs.link_layer or 'link layer not told'}"
                    )
                )
                yield (
                    "ibv_devinfo",
                    f"{record.name} firmware {record.firmware or '?'}: {port_text}{more}",
                )
        case RdmaLink():
            netdev = f", {record.netdev}" if record.netdev else ""
            yield (
                "rdma link",
                (
                    f"{record.device}/{record.port} {record.state or '?'}"
                    f" {record.physical_state or '?'}{netdev}"
                ),
            )
        case Gid():
            yield (
                "show_gids",
                (
                    f"{record.device} port {record.port} index {record.index}: {record.gid}"
                    f" {record.version}"
                ),
            )
        case PartitionKey():
            yield "P_Key table", f"index {record.index}: {record.key:#06x}"
        case FabricProvider():
            yield (
                "fi_info",
                f"{record.provider} {record.domain or ''} {record.endpoint or ''}".rstrip(),
            )
        case OfedRelease():
            yield "ofed_info -s", record.name
        case RdmaNodes():
            yield "/dev/infiniband", ", ".join(record.names)
        case _:
            return


def _of_gpus(record: object) -> Iterator[Line]:
    match record:
        case SmiTable():
            models = ", ".join(dict.fromkeys(gpu.model for gpu in record.gpus))
            yield (
                "nvidia-smi",
                (
                    f"driver {record.driver}, CUDA {record.cuda}, {len(record.gpus)} GPUs:"
                    f" {models or 'none'}"
                ),
            )
        case ListedGpu():
            yield "nvidia-smi -L", f"GPU {record.index}: {record.model}"
        case QueryRow():
            yield (
                "nvidia-smi --query",
                ", ".join(f"{name} {value}" for name, value in record.values),
            )
        case Topology():
            yield "nvidia-smi topo -m", f"{len(record.gpus)} GPUs, {len(record.nics)} NICs"
        case NvlinkGpu():
            up = sum(rate is not None for _, rate in record.rates_gb_s)
            said = [f"{up} of {len(record.rates_gb_s)} links up"] if record.rates_gb_s else []
            said += [
                f"link {e.link} replay {e.replay} recovery {e.recovery} CRC {e.crc}"
                for e in record.errors
            ]
            yield "nvidia-smi nvlink", f"GPU {record.index} {record.model}: {'; '.join(said)}"
        case CopyRun():
            yield "nvbandwidth", f"{record.version or ''} {len(record.tests)} tests".strip()
        case DiagTest():
            yield (
                "dcgmi diag",
                f"{record.name}: {record.result}"
                + (f" ({record.warning})" if record.warning else ""),
            )
        case _:
            return


def faults_of(record: object) -> Iterator[str]:
    """Errors that the tool itself reports."""
    match record:
        case KernelEvent() if (
            "corrected error" not in record.text.lower() or "uncorrected" in record.text.lower()
        ):
            yield f"line {record.line_no}: {record.text}"
        case Ibstat() if record.panic:
            yield f"ibstat: {record.panic}"
        case VerbsDevices() if not record.devices:
            yield f"ibv_devices: {record.empty_text or 'no device'}"
        case DiagTest() if record.result.lower().startswith("fail"):
            yield f"dcgmi diag: {record.name}: {record.result}"
        case QueryRow() if record.broken:
            yield "nvidia-smi --query: " + ", ".join(
                f"{name} {value}" for name, value in record.values
            )
        case Perftest() | CopyRun() | Iperf3() if record.problem:
            yield record.problem
        case _:
            return


def gaps_of(record: object) -> Iterator[str]:
    """What of the output is missing."""
    if isinstance(record, Topology):
        yield from (
            f"nvidia-smi topo -m: the row of {row.name} is torn" for row in record.rows if row.torn
        )


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
            next_step=(
                "known are nvidia-smi, ibstat, ibv_devinfo, rdma link, ethtool, lspci, dmesg and"
                " their like: docs/read.md lists them"
            ),
        )
    faults = tuple(dict.fromkeys(fault for record in records for fault in faults_of(record)))
    gaps = tuple(dict.fromkeys(gap for record in records for gap in gaps_of(record)))
    gaps += (
        (f"outputs of tools were looked for in the first {MOST_BYTES} bytes only",) if cut else ()
    )
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
