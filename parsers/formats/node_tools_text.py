"""What the records of `parsers.nodes` say, in a line each, under the name of the tool that printed it; what is wrong in them, what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.nodes.container_dev import RdmaNodes
from busbw.parsers.nodes.dcgm import DiagTest
from busbw.parsers.nodes.ethtool import Fec
from busbw.parsers.nodes.fi_info import FabricProvider
from busbw.parsers.nodes.gids import Gid
from busbw.parsers.nodes.ibstat import Ibstat
from busbw.parsers.nodes.ibverbs import VerbsDevices, VerbsInfo
from busbw.parsers.nodes.iperf3 import Iperf3
from busbw.parsers.nodes.kernel_log import KernelEvent
from busbw.parsers.nodes.mlnx_qos import Qos
from busbw.parsers.nodes.nvbandwidth import CopyRun
from busbw.parsers.nodes.nvidia_query import QueryRow
from busbw.parsers.nodes.nvidia_smi import ListedGpu, SmiTable
from busbw.parsers.nodes.nvlink import NvlinkGpu
from busbw.parsers.nodes.ofed import OfedRelease
from busbw.parsers.nodes.pci import AcsBridge, LinkAttributes
from busbw.parsers.nodes.perftest import Perftest
from busbw.parsers.nodes.pkeys import PartitionKey
from busbw.parsers.nodes.rdma_link import RdmaLink
from busbw.parsers.nodes.topology import Topology

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
                f"{record.interface}: configured {record.configured or 'not told'}, active {record.active or 'not told'}",
            )
        case LinkAttributes():
            yield "PCI link", f"{record.address or 'device'}: {record.speed_gt_s:g} GT/s x{record.width}"
        case AcsBridge():
            yield "lspci -vvv", f"{record.address}: ACS {record.control or ('not readable' if record.denied else 'none')}"
        case KernelEvent():
            yield "kernel log", record.text
        case Perftest():
            best = "no bandwidth" if record.best_gbit_s is None else f"best {record.best_gbit_s:g} Gb/s"
            yield (
                "perftest",
                f"{record.operation or 'test'} on {record.device or 'device not told'}: {best}, {len(record.latency)} latencies",
            )
        case Iperf3():
            rates = ", ".join(
                f"{name} {rate:g} Gb/s" for name, rate in (("sent", record.sent_gbit_s), ("received", record.received_gbit_s)) if rate
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
                    said = ", ".join(each for each in (port.state, port.physical_state, rate, port.link_layer) if each)
                    yield "ibstat", f"{device.name} {device.ca_type or ''}: port {port.number} {said}"
        case VerbsDevices():
            yield "ibv_devices", ", ".join(device.name for device in record.devices) or record.empty_text or "none"
        case VerbsInfo():
            for verbs in record.ports or (None,):
                port_text = "no port" if verbs is None else f"port {verbs.number} {verbs.state or 'state not told'}"
                more = "" if verbs is None else f", MTU {verbs.active_mtu or '?'}, {verbs.link_layer or 'link layer not told'}"
                yield "ibv_devinfo", f"{record.name} firmware {record.firmware or '?'}: {port_text}{more}"
        case RdmaLink():
            netdev = f", {record.netdev}" if record.netdev else ""
            yield "rdma link", f"{record.device}/{record.port} {record.state or '?'} {record.physical_state or '?'}{netdev}"
        case Gid():
            yield "show_gids", f"{record.device} port {record.port} index {record.index}: {record.gid} {record.version}"
        case PartitionKey():
            yield "P_Key table", f"index {record.index}: {record.key:#06x}"
        case FabricProvider():
            yield "fi_info", f"{record.provider} {record.domain or ''} {record.endpoint or ''}".rstrip()
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
            yield "nvidia-smi", f"driver {record.driver}, CUDA {record.cuda}, {len(record.gpus)} GPUs: {models or 'none'}"
        case ListedGpu():
            yield "nvidia-smi -L", f"GPU {record.index}: {record.model}"
        case QueryRow():
            yield "nvidia-smi --query", ", ".join(f"{name} {value}" for name, value in record.values)
        case Topology():
            yield "nvidia-smi topo -m", f"{len(record.gpus)} GPUs, {len(record.nics)} NICs"
        case NvlinkGpu():
            up = sum(rate is not None for _, rate in record.rates_gb_s)
            said = [f"{up} of {len(record.rates_gb_s)} links up"] if record.rates_gb_s else []
            said += [f"link {e.link} replay {e.replay} recovery {e.recovery} CRC {e.crc}" for e in record.errors]
            yield "nvidia-smi nvlink", f"GPU {record.index} {record.model}: {'; '.join(said)}"
        case CopyRun():
            yield "nvbandwidth", f"{record.version or ''} {len(record.tests)} tests".strip()
        case DiagTest():
            yield "dcgmi diag", f"{record.name}: {record.result}" + (f" ({record.warning})" if record.warning else "")
        case _:
            return


def faults_of(record: object) -> Iterator[str]:
    """Errors that the tool itself reports."""
    match record:
        case KernelEvent() if "corrected error" not in record.text.lower() or "uncorrected" in record.text.lower():
            yield f"line {record.line_no}: {record.text}"
        case Ibstat() if record.panic:
            yield f"ibstat: {record.panic}"
        case VerbsDevices() if not record.devices:
            yield f"ibv_devices: {record.empty_text or 'no device'}"
        case DiagTest() if record.result.lower().startswith("fail"):
            yield f"dcgmi diag: {record.name}: {record.result}"
        case QueryRow() if record.broken:
            yield "nvidia-smi --query: " + ", ".join(f"{name} {value}" for name, value in record.values)
        case Perftest() | CopyRun() | Iperf3() if record.problem:
            yield record.problem
        case _:
            return


def gaps_of(record: object) -> Iterator[str]:
    """What of the output is missing."""
    if isinstance(record, Topology):
        yield from (f"nvidia-smi topo -m: the row of {row.name} is torn" for row in record.rows if row.torn)
