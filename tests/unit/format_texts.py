"""Outputs of the newest releases of the tools that `busbw read` knows, each with what must be shown
of it, and the ways in which such texts arrive damaged.

Those of iperf3 3.12 and 3.21 and of PyTorch 2.13 are recorded (tests/fixtures/iperf3, tests/fixtures/flight_recorder);
all others are composed after the sources that `FORMATS` names.
"""

from __future__ import annotations

import codecs
import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"
OK, BAD, INCOMPLETE = 0, 1, 3
NOT_GOOD = (BAD, INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Case:
    """One text, and what `busbw read` must say of it."""

    name: str
    data: bytes
    statuses: tuple[int, ...]
    """The exit statuses that are right."""
    shows: tuple[str, ...] = ()
    """What stands in the output, where the status is the first of them."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool prints."""

    name: str
    good: str
    """A whole output that reports no failure."""
    shows: tuple[str, ...]
    """What must be shown of it."""
    status: int = OK
    """Of the good text: 3 where its form has no end mark."""
    failed: tuple[tuple[str, str, str], ...] = ()
    """Texts in which the tool reports a failure: (name, text, what must be shown)."""
    others: tuple[tuple[str, str, tuple[int, ...], tuple[str, ...]], ...] = ()
    """Further texts: (name, text, right statuses, what must be shown)."""
    cuts: tuple[str, ...] = ()
    """The text is cut behind the last of each; () = at a half and at nine tenths."""
    stands_alone: bool = False
    """Log lines around it may be refused."""
    with_a_prefix: bool = True
    """It is read under the prefixes of launchers too."""


def compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


def pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=4)


LOG = "2026-11-20T10:00:00Z node-a: job 4711 started\n"
LOG_END = "2026-11-20T10:09:00Z node-a: job 4711 has ended\n"


def cases(output: Output) -> Iterator[Case]:
    """The text, and every way in which it arrives."""
    good, shows, status = output.good, output.shows, (output.status,)
    text = good.encode()
    yield Case("plain", text, status, shows)
    yield Case("CRLF", good.replace("\n", "\r\n").encode(), status, shows)
    yield Case("UTF-8 with a mark", codecs.BOM_UTF8 + text, status, shows)
    yield Case(
        "UTF-16 LE with a mark", codecs.BOM_UTF16_LE + good.encode("utf-16-le"), status, shows
    )
    yield Case(
        "UTF-16 BE with a mark", codecs.BOM_UTF16_BE + good.encode("utf-16-be"), status, shows
    )
    refused = (INCOMPLETE,) if output.stands_alone else ()
    around = f"{LOG}{good}\n{LOG_END}".encode()
    yield Case("log lines around it", around, (*status, *refused), shows)
    if output.with_a_prefix:
        lines = "".join(f"[1,0]<stdout>:{line}\n" for line in good.splitlines())
        yield Case("tags of mpirun", lines.encode(), (*status, *refused), shows)
    yield Case("twice", f"{good}\n{good}".encode(), (*status, *refused))
    yield from _cut(output)
    for name, bad, says in output.failed:
        yield Case(f"failed: {name}", bad.encode(), (BAD,), (says,))
        yield Case(f"good, then {name}", f"{good}\n{bad}".encode(), (BAD,), (says,))
        yield Case(f"{name}, then good", f"{bad}\n{good}".encode(), (BAD,), (says,))
        yield Case(f"{name}, CRLF", bad.replace("\n", "\r\n").encode(), (BAD,), (says,))
        yield Case(
            f"{name}, UTF-16", codecs.BOM_UTF16_LE + bad.encode("utf-16-le"), (BAD,), (says,)
        )
    for name, other, statuses, seen in output.others:
        yield Case(name, other.encode(), statuses, seen)


def _cut(output: Output) -> Iterator[Case]:
    good = output.good
    ends = [good.rindex(mark) + len(mark) for mark in output.cuts]
    for at in ends or [len(good) // 2, len(good) * 9 // 10]:
        name = f"cut at {100 * at // len(good)} %"
        yield Case(name, good[:at].encode(), NOT_GOOD)
        yield Case(f"good, then {name}", f"{good}\n{good[:at]}".encode(), NOT_GOOD)


def _json(value: object) -> str:
    return json.dumps(value, indent=1)


# mscclpp-test -o FILE, one object a line (microsoft/mscclpp 0.10.0, test/mscclpp-test/common.cc)


def _mscclpp(name: str, ranks: int, sizes: tuple[int, ...], factor: float) -> str:
    lines = []
    for size in sizes:
        time_us = 5.0 + size / 200e3
        algbw = size / time_us / 1e3
        lines.append(
            json.dumps(
                {
                    "algBw": algbw, "busBw": algbw * factor, "kernel": 6, "name": name,
                    "ranks": ranks, "ranksPerNode": 8, "size": size, "time": time_us,
                },
                separators=(",", ":"),
            )
        )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


_MSCCLPP = _mscclpp("allreduce", 8, (24576, 49152, 73728), 2 * 7 / 8)
MSCCLPP = Output(
    "mscclpp-test -o",
    _MSCCLPP,
    ("all_reduce", "8 ranks", "24576"),
    status=INCOMPLETE,
    with_a_prefix=False,
    stands_alone=True,
    others=(
        (
            "two collectives",
            _MSCCLPP + _mscclpp("allgather", 16, (1 << 20, 1 << 24), 15 / 16),
            (INCOMPLETE,),
            ("all_reduce", "all_gather", "16 ranks"),
        ),
        ("bandwidths null", re.sub(r'"algBw":[\d.]+', '"algBw":null', _MSCCLPP), NOT_GOOD, ()),
        (
            "a bandwidth that contradicts its time",
            _MSCCLPP.replace('"size":49152', '"size":99152'),
            (BAD,),
            ("99152",),
        ),
        ("one line of it", _MSCCLPP.splitlines()[0], (INCOMPLETE,), ("24576",)),
    ),
)


# nvbandwidth -j (NVIDIA/nvbandwidth 0.8 of April 2025 and the main branch behind it)


def _nvbandwidth(*cases: dict[str, object], **more: object) -> str:
    about = {
        "CUDA Runtime Version": 12080,
        "Driver Version": "570.86.15",
        "GPU Device list": ["0: NVIDIA H200 (00000000:18:00): (node-a)"],
        "git_version": "v0.8-1-g66746a3",
        "testcases": list(cases),
        "version": "v0.8",
    }
    return _json({"nvbandwidth": about | more, "testcases": None})


_COPY: dict[str, object] = {
    "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s) ",
    "bandwidth_matrix": [["55.4", "55.38", "21.02", "55.41"]],
    "name": "host_to_device_memcpy_ce",
    "status": "Passed",
    "sum": 187.21,
}
_WAIVED: dict[str, object] = {"name": "device_to_device_memcpy_read_ce", "status": "Waived"}
_NVBANDWIDTH = _nvbandwidth(_COPY, _WAIVED)
NVBANDWIDTH = Output(
    "nvbandwidth -j",
    _NVBANDWIDTH,
    ("nvbandwidth", "2 tests"),
    with_a_prefix=False,
    failed=(
        (
            "a test's error, which is written for the run",
            _nvbandwidth(_COPY, error="CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
            "out of memory",
        ),
        (
            "a test that ended with Error",
            _nvbandwidth(
                _COPY,
                {"name": "device_to_device_memcpy_read_ce", "status": "Running"},
                {"name": "device_to_device_memcpy_read_ce", "status": "Error"},
            ),
            "device_to_device_memcpy_read_ce",
        ),
        ("a test that is not there", _nvbandwidth({"name": "x_ce", "status": "ERROR"}), "x_ce"),
        (
            "an error inside a test",
            _nvbandwidth(_COPY | {"error": "Invalid value when checking the pattern"}),
            "checking the pattern",
        ),
    ),
    others=(
        (
            "a test that was still running",
            _nvbandwidth(_COPY, {"name": "all_to_host_memcpy_ce", "status": "Running"}),
            NOT_GOOD,
            ("all_to_host_memcpy_ce",),
        ),
        ("nan in the matrix", _NVBANDWIDTH.replace('"21.02"', '"-nan"'), NOT_GOOD, ()),
        ("null in the matrix", _NVBANDWIDTH.replace('"21.02"', "null"), NOT_GOOD, ()),
        ("decimal commas", _NVBANDWIDTH.replace('"21.02"', '"21,02"'), NOT_GOOD, ()),
        ("compact", compact(_NVBANDWIDTH), (OK,), ("2 tests",)),
        ("in a list", f"[{_NVBANDWIDTH},{_NVBANDWIDTH}]", (OK,), ("2 tests",)),
        ("matrix of nothing", _nvbandwidth(_COPY | {"bandwidth_matrix": None}), NOT_GOOD, ()),
    ),
)  # fmt: skip
_NVBANDWIDTH_TEXT = (FIXTURES / "bandwidth" / "nvbandwidth.txt").read_text()
_VERBOSE = (
    "Running host_to_device_memcpy_ce.\n"
    "\tHost device 0 writing\n\tSample 0: HtoD: Host -> Device 0: 55.40 GB/s\n"
)
_PERF = re.sub(r"^SUM (\w+) ([\d.]+)$", r"&&&& PERF \1 \2 GB/s", _NVBANDWIDTH_TEXT, flags=re.M)
NVBANDWIDTH_TEXT = Output(
    "nvbandwidth",
    _NVBANDWIDTH_TEXT,
    ("nvbandwidth", "3 tests"),
    cuts=("memcpy CE GPU(row) -> GPU(column)", " 1    396.10       N/A    39"),
    failed=(
        (
            "a CUDA error",
            _NVBANDWIDTH_TEXT[: _NVBANDWIDTH_TEXT.index("Running device_to_host")]
            + "Running device_to_host_memcpy_ce.\n[CUDA_ERROR_ECC_UNCORRECTABLE] uncorrectable ECC"
            " error encountered in expression cuMemcpyAsync(dst, src, n, s) in foo() : memcpy.cpp:12\n",
            "CUDA_ERROR_ECC_UNCORRECTABLE",
        ),
        (
            "an assertion",
            "nvbandwidth Version: v0.8\nRunning device_to_host_memcpy_ce.\nASSERT in expression"
            " bytes > 0 in void f()() : memcpy.cpp:77\n",
            "ASSERT",
        ),
        (
            "a test that ended with Error",
            _NVBANDWIDTH_TEXT + "Running all_to_host_memcpy_ce.\nError: not enough memory\n",
            "all_to_host_memcpy_ce",
        ),
        (
            "a test that is not there",
            "nvbandwidth Version: v0.8\nERROR: Testcase x_ce not found!\n",
            "x_ce",
        ),
    ),
    others=(
        ("decimal commas", re.sub(r"(\d\d)\.(\d\d)\b", r"\1,\2", _NVBANDWIDTH_TEXT), NOT_GOOD, ()),
        ("nan", _NVBANDWIDTH_TEXT.replace("    21.02", "      nan"), NOT_GOOD, ()),
        ("perf formatter", _PERF, (OK,), ("3 tests",)),
        (
            "verbose",
            _NVBANDWIDTH_TEXT.replace("Running host_to_device_memcpy_ce.\n", _VERBOSE),
            (OK,),
            ("3 tests",),
        ),
        (
            "waived",
            _NVBANDWIDTH_TEXT + "Waived: \n",
            (OK,),
            ("3 tests",),
        ),
    ),
)


# iperf3 3.21, recorded over loopback


def _iperf3(name: str) -> str:
    return (FIXTURES / "iperf3" / f"3.21-{name}.json").read_text()


_SERVER_GONE = "the server has terminated"
IPERF3 = Output(
    "iperf3 --json",
    _iperf3("tcp"),
    ("sent 6.03301 Gb/s, received 6.03034 Gb/s",),
    with_a_prefix=False,
    failed=(
        ("interrupted", _iperf3("interrupted"), "interrupt - the client has terminated"),
        ("server ended", _iperf3("server-ended"), _SERVER_GONE),
        (
            "an error of the server's side",
            _json(json.loads(_iperf3("tcp")) | {"server_output_json": {"error": "no data arrived"}}),
            "no data arrived",
        ),
    ),
    others=(
        ("two streams", _iperf3("two-streams"), (OK,), ("sent 44.34 Gb/s, received 44.3142 Gb/s",)),
        (
            "both directions",
            _iperf3("bidirectional"),
            (OK,),
            ("21.8828 Gb/s", "24.08 Gb/s"),
        ),
        ("UDP", _iperf3("udp"), (OK,), ("0.0200181 Gb/s",)),
        ("with the server's output", _iperf3("with-server"), (OK,), ("13.6234 Gb/s",)),
        ("compact", compact(_iperf3("tcp")), (OK,), ("6.03301 Gb/s",)),
        (
            "rates nan",
            re.sub(r'"bits_per_second":\s*[\d.]+', '"bits_per_second": nan', _iperf3("tcp")),
            NOT_GOOD,
            (),
        ),
        (
            "rates null",
            re.sub(r'"bits_per_second":\s*[\d.]+', '"bits_per_second": null', _iperf3("tcp")),
            NOT_GOOD,
            (),
        ),
        (
            "decimal commas",
            re.sub(r"(\d)\.(\d)", r"\1,\2", _iperf3("tcp")),
            NOT_GOOD,
            (),
        ),
        (
            "nothing arrived",
            re.sub(r'("sum_received":\s*\{[^}]*?"bits_per_second":\s*)[\d.]+', r"\g<1>0", _iperf3("tcp")),
            NOT_GOOD,
            (),
        ),
        ("half of the UDP packets lost", _iperf3("udp").replace('"lost_percent":\t0,', '"lost_percent":\t50,'), (OK,), ("50 %",)),
    ),
)  # fmt: skip
IPERF3_STREAM = Output(
    "iperf3 --json-stream",
    _iperf3("stream"),
    ("sent 3.37337 Gb/s, received 3.37129 Gb/s",),
    failed=(
        ("interrupted", _iperf3("interrupted-stream"), "interrupt - the client has terminated"),
        ("refused", _iperf3("refused-stream"), "Connection refused"),
    ),
    others=(
        ("killed", _iperf3("killed-stream"), (INCOMPLETE,), ("iperf3",)),
        ("with the whole document", _iperf3("stream-full"), (OK,), ("sent 8.94662 Gb/s",)),
    ),
    cuts=('"event":"end"',),
)


def _iperf3_text(name: str) -> str:
    return (FIXTURES / "iperf3" / f"3.12-{name}.txt").read_text()


IPERF3_TEXT = Output(
    "iperf3",
    _iperf3_text("two-streams"),
    ("sent 0.401 Gb/s, received 0.399 Gb/s", "1 segments sent again"),
    failed=(
        ("the server is busy", _iperf3_text("busy"), "the server is busy running a test"),
        ("the server ended", _iperf3_text("server-ended"), "control socket has closed unexpectedly"),
        ("the client ended", _iperf3_text("client-ended"), "the client has terminated"),
        ("interrupted", _iperf3_text("interrupted"), "interrupt - the client has terminated"),
        ("refused", "iperf3: error - unable to connect to server: Connection refused\n", "Connection refused"),
        (
            "refused, of 3.21",
            "iperf3: error - unable to connect to server - server may have stopped running or use a different port, firewall"
            " issue, etc.: Connection timed out\n",
            "Connection timed out",
        ),
        (
            "nothing arrived",
            re.sub(r"47.8 MBytes   200 Mbits/sec (?= +receiver)", "0.00 Bytes  0.00 bits/sec ", _iperf3_text("tcp")),
            "nothing arrived at the receiver",
        ),
        ("a wrong option", "iperf3: parameter error - test duration valid values are 0 to 86400 seconds\n", "test duration"),
    ),
    others=(
        ("one stream", _iperf3_text("tcp"), (OK,), ("sent 0.2 Gb/s, received 0.2 Gb/s",)),
        ("both directions", _iperf3_text("bidirectional"), (OK,), ("received 0.2 Gb/s, back sent 0.2 Gb/s, back received 0.2",)),
        ("UDP", _iperf3_text("udp"), (OK,), ("received 0.39 Gb/s", "2.4574 % of the packets lost")),
        ("with the server's output", _iperf3_text("with-server"), (OK,), ("received 0.2 Gb/s",)),
        ("of a server", _iperf3_text("server"), (OK,), ("received 0.399 Gb/s",)),
        (
            "with times",
            "".join(f"Thu Nov 26 11:23:40 2026 {line}\n" for line in _iperf3_text("tcp").splitlines()),
            (OK,),
            ("received 0.2 Gb/s",),
        ),
        ("in bytes", _iperf3_text("tcp").replace("200 Mbits/sec", "2.50 GBytes/sec"), (OK,), ("received 21.4748 Gb/s",)),
        ("an interval without traffic", _iperf3_text("tcp").replace("200 Mbits/sec    0 ", "0.00 bits/sec    0 ", 1), (OK,), ("nothing in 1 of 2",)),
        ("rates nan", _iperf3_text("tcp").replace("200 Mbits/sec", "-nan bits/sec"), NOT_GOOD, ()),
        ("decimal commas", re.sub(r"(\d)\.(\d)", r"\1,\2", _iperf3_text("tcp")), NOT_GOOD, ()),
        ("without the receiver's end", _iperf3_text("tcp").split("[  5]   0.00-2.00   sec  47.8 MBytes   200 Mbits/sec     ")[0], NOT_GOOD, ()),
        ("without the sum", "".join(line for line in _iperf3_text("two-streams").splitlines(True) if "[SUM]" not in line), NOT_GOOD, ()),
    ),
    cuts=("sender\n", "[SUM]   0.00-2.01   sec  95.5 MBytes   399 Mbits/sec"),
)  # fmt: skip


# iperf 2.0.13 and 2.2, composed after include/Locale.c


_IPERF2_HEAD = (
    "------------------------------------------------------------\n"
    "Client connecting to node-b, TCP port 5001\n"
    "TCP window size:  325 KByte (default)\n"
    "------------------------------------------------------------\n"
)
_IPERF2 = _IPERF2_HEAD + (
    "[  3] local 192.0.2.1 port 41214 connected with 192.0.2.2 port 5001\n"
    "[  4] local 192.0.2.1 port 41216 connected with 192.0.2.2 port 5001\n"
    "[ ID] Interval       Transfer     Bandwidth\n"
    "[  3]  0.0-10.0 sec  13.6 GBytes  11.7 Gbits/sec\n"
    "[  4]  0.0-10.0 sec  13.8 GBytes  11.9 Gbits/sec\n"
    "[SUM]  0.0-10.0 sec  27.4 GBytes  23.5 Gbits/sec\n"
)
_IPERF2_SECONDS = _IPERF2_HEAD.replace("TCP", "UDP") + (
    "[  1] local 192.0.2.1 port 41214 connected with 192.0.2.2 port 5001\n"
    "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total  Latency\n"
    "[  1] 0.0000-1.0000 sec  1.16 GBytes  9.96 Gbits/sec   0.003 ms    0/847458 (0%)\n"
    "[  1] 1.0000-2.0000 sec  1.16 GBytes  9.96 Gbits/sec   0.003 ms 8474/847458 (1%)\n"
    "[  1] 0.0000-2.0001 sec  2.32 GBytes  9.96 Gbits/sec   0.003 ms 8474/1694916 (0.5%)\n"
)
IPERF2 = Output(
    "iperf",
    _IPERF2,
    ("sent 23.5 Gb/s, received 23.5 Gb/s",),
    failed=(
        ("refused", "connect failed: Connection refused\n" + _IPERF2_HEAD, "connect failed: Connection refused"),
        ("refused, of 2.1", "tcp connect failed: Connection refused\n" + _IPERF2_HEAD, "tcp connect failed: Connection refused"),
        (
            "no answer to the last datagram",
            _IPERF2_SECONDS + "[  1] WARNING: did not receive ack of last datagram after 10 tries.\n",
            "did not receive ack of last datagram",
        ),
        ("reset", _IPERF2 + "read failed: Connection reset by peer\n", "read failed: Connection reset"),
    ),
    others=(
        ("seconds of UDP", _IPERF2_SECONDS, (OK,), ("received 9.96 Gb/s", "0.499966 % of the packets lost")),
        ("without its end", _IPERF2_SECONDS[: _IPERF2_SECONDS.index("[  1] 0.0000-2")], NOT_GOOD, ()),
        ("one second of it", _IPERF2_SECONDS[: _IPERF2_SECONDS.index("[  1] 1.0000-2")], NOT_GOOD, ()),
    ),
    cuts=("11.9 Gbits/sec\n", "connected with 192.0.2.2"),
)  # fmt: skip


# perftest --out_json (linux-rdma/perftest 26.04.17 and the main branch of July 2026)


def _perftest(test: str, results: str) -> str:
    return (
        '{\n"test_info": {\n"test": "' + test + '",\n"Dual_port": "OFF",\n"Device": "mlx5_0",\n'
        '"Number_of_qps": 1,\n"Transport_type": "IB",\n"Connection_type": "RC",\n"Using_SRQ": "OFF",\n'
        '"PCIe_relax_order": "ON",\n"ibv_wr_API": "ON",\n"TX_depth": 128,\n"CQ_Moderation": 1,\n'
        '"Mtu": 4096,\n"Link_type": "IB",\n"Max_inline_data": 0,\n"rdma_cm_QPs": "OFF",\n'
        '"Use_ROCm_memory": "OFF",\n"Use_MUSA_memory": "OFF",\n"Data_ex_method": "Ethernet"\n},\n'
        '"results": {\n' + results + "\n}\n}\n"
    )


_BW = '"MsgSize": 65536,\n"n_iterations": 5000,\n"BW_peak": 394.39,\n"BW_average": 393.21,\n"MsgRate": 0.749988'
_LAT = (
    '"MsgSize": 2,\n"n_iterations": 1000,\n"t_min": 1.71,\n"t_max": 6.20,\n"t_typical": 1.75,\n"t_avg": 1.77,\n'
    '"t_stdev": 0.09,\n"percentile_99": 2.01,\n"percentile_99.9": 3.15'
)
_PERFTEST = _perftest("RDMA_Write_BW_Test", _BW)
PERFTEST = Output(
    "perftest --out_json",
    _PERFTEST,
    ("write on mlx5_0", "393.21 Gb/s"),
    with_a_prefix=False,
    failed=(),
    others=(
        (
            "latency",
            _perftest("RDMA_Write_Latency_Test", _LAT),
            (OK,),
            ("write on mlx5_0", "1 latencies"),
        ),
        (
            "latency of a test that runs for a time",
            _perftest(
                "Send_Latency_Test",
                '"MsgSize": 2,\n"n_iterations": 900000,\n"t_avg": 1.77,\n"tps_average": 282485.88',
            ),
            (OK,),
            ("send on mlx5_0", "1 latencies"),
        ),
        (
            "with a service level, which is no JSON",
            _perftest("RDMA_Write_BW_Test", _BW.replace('"n_it', 'sl: 3,\n"n_it')),
            (OK,),
            ("393.21 Gb/s",),
        ),
        ("with the CPU's use", _perftest("Send_Bidirectional_BW_Test", _BW + ',\n"CPU_util": 3.12'), (OK,), ("send on",)),
        ("only the average", _perftest("RDMA_Read_BW_Test", '"bw_avg": 393.210000,\n'), (INCOMPLETE,), ("perftest",)),
        ("average nan", _PERFTEST.replace("393.21", "-nan"), NOT_GOOD, ("mlx5_0",)),
        ("average inf", _PERFTEST.replace("393.21", "inf"), NOT_GOOD, ("mlx5_0",)),
        ("average null", _PERFTEST.replace("393.21", "null"), NOT_GOOD, ("mlx5_0",)),
        ("average 0", _PERFTEST.replace("393.21", "0.00"), NOT_GOOD, ("mlx5_0",)),
        ("decimal commas", _PERFTEST.replace("393.21", "393,21"), NOT_GOOD, ()),
        ("MiB/s", _PERFTEST.replace("393.21", "46873.81"), (OK,), ("393.206 Gb/s",)),
        ("compact", compact(_PERFTEST), (OK,), ("393.21 Gb/s",)),
    ),
)  # fmt: skip
_PERFTEST_TEXT = (FIXTURES / "healthy" / "perftest.txt").read_text()
_ROWS_OF_PERFTEST = """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             394.39             393.21		   0.749988
"""
PERFTEST_TEXT = Output(
    "perftest",
    """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 Number of qps   : 1		Transport type : IB
 Connection type : RC		Using SRQ      : OFF
 Mtu             : 4096[B]
 Link type       : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      5000             47015.00            46873.81		     0.749981
---------------------------------------------------------------------------------------
""",
    ("write on mlx5_0", "393.206 Gb/s"),
    cuts=("BW peak[MiB/sec]", "65536      5000"),
    failed=(
        (
            "below a limit",
            """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             194.39             193.21		   0.749988
Error: BW result is below bw limit
""",
            "below bw limit",
        ),
        (
            "a poll that failed, behind rows",
            _ROWS_OF_PERFTEST + "poll CQ failed -2\n",
            "poll CQ failed",
        ),
        (
            "data that differ (--data_validation)",
            _ROWS_OF_PERFTEST + "VALIDATION: FAILED - 12 error(s), 4096 bytes validated\n",
            "12 error(s)",
        ),
        (
            "a bad completion",
            _ROWS_OF_PERFTEST + "Bad wc status 12\nError occurred while running! aborting ...\n",
            "Bad wc status 12",
        ),
        ("no such device", "IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n", "mlx5_9"),
        (
            "a completion with an error",
            """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 Completion with error at client
 Failed status 12: wr_id 0 syndrom 0x81
""",
            "Completion with error",
        ),
    ),
    others=(
        (
            "no data validated",
            _ROWS_OF_PERFTEST + "VALIDATION: WARNING - no data validated\n",
            (INCOMPLETE,),
            ("no data validated",),
        ),
        (
            "with service levels",
            """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536    3           5000           394.39             393.21                   0.749988
""",
            (OK,),
            ("393.21 Gb/s",),
        ),
        (
            "two ports",
            """                    RDMA_Write BW Test
 Dual-port       : ON		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   BW Port1[Gb/sec]   MsgRate Port1[Mpps]
 65536      5000             394.39             393.21		   0.749988        196.60             0.374994
""",
            (OK,),
            ("393.21 Gb/s",),
        ),
        (
            "nan",
            """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             0.00               -nan		   -nan
""",
            NOT_GOOD,
            (),
        ),
        (
            "decimal commas",
            """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             394,39             393,21		   0,749988
""",
            NOT_GOOD,
            (),
        ),
    ),
)  # fmt: skip


# OSU micro-benchmarks 7.4 and 7.5 (c/util/osu_util_mpi.c)


_OSU = """# OSU MPI-CUDA Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)        Validation
4                      25.37              Pass
1048576              310.25              Pass
8388608              8630.58              Pass
"""
OSU = Output(
    "OSU",
    _OSU,
    ("MPI-CUDA Allreduce Latency 7.5", "3 sizes", "8630.58"),
    cuts=("8388608", "# Size"),
    failed=(
        ("wrong data", _OSU.replace("310.25              Pass", "310.25              Fail"), "1048576"),
        (
            "wrong data, in its own words",
            _OSU.replace("8388608              8630.58              Pass\n", "")
            + "DATA VALIDATION ERROR: osu_allreduce exited with status 1 on message size 8388608.\n",
            "DATA VALIDATION ERROR",
        ),
    ),
    others=(
        (
            "full, with tails behind the validation",
            """# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size        Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations        Validation  P50 Tail Lat(us)  P90 Tail Lat(us)  P99 Tail Lat(us)
4                       1.52              1.40              1.66        1000              Pass              1.50              1.60              2.10
8                       1.55              1.41              1.70        1000              Fail              1.51              1.61              2.12
""",
            (BAD,),
            ("first at 8 bytes",),
        ),
        (
            "barrier, which has no size",
            "# OSU MPI Barrier Latency Test v7.5\n# Avg Latency(us)\n             2.05\n",
            (OK,),
            ("Barrier Latency", "2.05"),
        ),
        (
            "barrier of which the row is missing",
            "# OSU MPI Barrier Latency Test v7.5\n# Avg Latency(us)\n",
            (INCOMPLETE,),
            (),
        ),
        (
            "start-up",
            "# OSU MPI Init Test v7.5\nnprocs: 4, min: 120 ms, max: 133 ms, avg: 126 ms\n",
            (OK,),
            ("Init",),
        ),
        (
            "hello",
            "# OSU MPI Hello World Test v7.5\nThis is a test with 4 processes\n",
            (OK,),
            ("Hello World",),
        ),
        (
            "rates of several pairs",
            "# OSU MPI Multiple Bandwidth / Message Rate Test v7.5\n# [ pairs: 2 ] [ window size: 64 ]\n"
            "# Size                  MB/s        Messages/s\n1                       8.10        8100412.77\n",
            (OK,),
            ("8.10041e+06",),
        ),
        (
            "percentiles of a bandwidth, behind one blank",
            "# OSU MPI Bandwidth Test v7.4\n# Datatype: MPI_CHAR.\n"
            "# Size      Bandwidth (MB/s) P50 Tail BW(MB/s) P90 Tail BW(MB/s)\n"
            "1                       7.21              6.68              7.67\n",
            (OK,),
            ("Bandwidth (MB/s) 7.21, P50 Tail BW(MB/s) 6.68",),
        ),
        (
            "one-sided",
            "# OSU MPI_Put-CUDA latency Test v7.5\n# Window creation: MPI_Win_allocate\n"
            "# Synchronization: MPI_Win_flush\n# Size        Avg Latency(us)\n1                       2.15\n",
            (OK,),
            ("2.15",),
        ),
        (
            "NCCL",
            "# OSU NCCL-CUDA Allreduce Latency Test v7.5\n# Size       Avg Latency(us)\n4                      25.37\n",
            (OK,),
            ("NCCL-CUDA Allreduce Latency",),
        ),
        (
            "overlap of a non-blocking collective",
            "# OSU MPI Non-blocking Allreduce Latency Test v7.5\n# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n"
            "# Size           Overall(us)       Compute(us)    Coll. Init(us)      MPI_Test(us)      MPI_Wait(us)    Pure Comm.(us)   Overlap(%)\n"
            "4                       4.52              1.80              0.60              0.00              2.10              1.90         0.00\n",
            (OK,),
            ("Overall(us) 4.52",),
        ),
        ("nan", _OSU.replace("310.25", "   nan"), NOT_GOOD, ()),
        ("decimal commas", re.sub(r"(\d)\.(\d\d )", r"\1,\2", _OSU), NOT_GOOD, ()),
    ),
)  # fmt: skip


# oneCCL's benchmark and IMB 2021


_IMB = """# Benchmarking Allreduce
# #processes = 4
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]      defects
            4         1000         1.85         2.20         2.01         0.00
         1024         1000         3.11         3.52         3.30         0.00


# All processes entering MPI_Finalize

"""
IMB = Output(
    "IMB",
    _IMB,
    ("Allreduce", "2 sizes"),
    cuts=("t_avg[usec]", "        1024"),
    failed=(
        ("defects", _IMB.replace("3.30         0.00", "3.30         1.00"), "1024"),
    ),
    others=(
        ("decimal commas", re.sub(r"(\d)\.(\d\d)", r"\1,\2", _IMB), NOT_GOOD, ()),
        ("nan", _IMB.replace("3.30", " nan"), NOT_GOOD, ()),
        (
            "point to point",
            "# Benchmarking PingPong\n# #processes = 2\n       #bytes #repetitions      t[usec]   Mbytes/sec\n"
            "            0         1000         1.10         0.00\n         1024         1000         1.95       525.13\n",
            (OK,),
            ("PingPong", "2 sizes"),
        ),
        (
            "barrier",
            "# Benchmarking Barrier\n# #processes = 4\n #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
            "         1000         2.85         2.91         2.88\n",
            (OK,),
            ("Barrier", "2.88"),
        ),
        (
            "a rate alone",
            "# Benchmarking Uniband\n# #processes = 2\n       #bytes #repetitions   Mbytes/sec      Msg/sec\n"
            "            0           20         0.00      2710762\n          256           20       512.40      2001565\n",
            (OK,),
            ("Uniband: 2 sizes; 256 bytes: 512.4 MB/s",),
        ),
        (
            "overlapping",
            "# Benchmarking Iallreduce\n# #processes = 2\n       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]\n"
            "            8            5         4.52         1.90         2.10         0.00\n",
            (OK,),
            ("Iallreduce: 1 sizes; 8 bytes: 4.52",),
        ),
        (
            "oneCCL",
            "#------------------------------------------------------------\n# Benchmarking: allreduce \n# #processes: 4\n"
            "#------------------------------------------------------------\n\n"
            "        #bytes  #elem_count  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n"
            "          1024          256            16         12.31         14.02         13.10       4.11\n\n# All done\n",
            (OK,),
            ("allreduce", "1 sizes"),
        ),
    ),
)  # fmt: skip


# TransferBench 1.60 to 1.66 (ROCm/TransferBench, src/client of 2025 and 2026)


_TRANSFERS = """TransferBench v1.66.00
===============================================================
[Common]                              (Suppress by setting HIDE_ENV=1)
ALWAYS_VALIDATE      =            0 : Validating after all iterations
Test 1:
─────────────────────┬──────────────┬─────────────┬────────────────────┬─────────────────────
 Executor: GPU 00    │  56.299 GB/s │    4.768 ms │    268435456 bytes │  56.309 GB/s (sum)
─────────────────────┼──────────────┼─────────────┼────────────────────┼─────────────────────
 Transfer 0          │  56.309 GB/s │    4.767 ms │    268435456 bytes │ G0 -> G0:4 -> G1
─────────────────────┼──────────────┼─────────────┼────────────────────┼─────────────────────
 Aggregate (CPU)     │  55.015 GB/s │    4.879 ms │    268435456 bytes │ Overhead 0.111 ms
─────────────────────┴──────────────┴─────────────┴────────────────────┴─────────────────────
"""
_RANKS = (
    _TRANSFERS.replace("Executor: GPU 00    ", "Executor: Rank 0 GPU 00 ")
    .replace("G0 -> G0:4 -> G1", "R0G0 -> R0G0:4 -> R1G1")
    .replace("GB/s (sum)", "GB/s (sum) [node-a]")
)
TRANSFERBENCH = Output(
    "TransferBench",
    _TRANSFERS,
    ("test 1: 1 copies", "together 55.015 GB/s"),
    cuts=(" Executor: GPU 00    │  56.299 GB/s", "Transfer 0          │  56.309 GB/s │ "),
    failed=(
        (
            "data that differ",
            _TRANSFERS + "[ERROR] Transfer 0: Unexpected mismatch at index 42 of destination 0\n",
            "mismatch",
        ),
        (
            "an error before the first test",
            "TransferBench v1.66.00\n[ERROR] Unable to parse the source memory type\n",
            "Unable to parse",
        ),
        (
            "health check",
            "TransferBench v1.66.00\nTesting unidirectional host to device copy ........FAIL (1 test(s))\n"
            " GPU 03: Measured:  21.02 GB/s      Criteria:  48.50 GB/s\n"
            "Testing all-to-all XGMI copies             ........PASS\n",
            "FAIL",
        ),
        (
            "smoke test",
            "TransferBench v1.66.00\n| Name                      | Test | DMA | Test |  GFX |\n"
            "| Copy (H2D)                |  01  | **F |  08  | ***  |\n\n[WARN] 1 Tests FAILED\n",
            "1 Tests FAILED",
        ),
    ),
    others=(
        ("several ranks", _RANKS, (OK,), ("test 1: 1 copies", "56.309")),
        (
            "several ranks, cut",
            _RANKS[: _RANKS.index(" Aggregate")],
            (INCOMPLETE,),
            (),
        ),
        (
            "without borders",
            re.sub(r"^─.*\n", "", _TRANSFERS, flags=re.M).replace("│", " "),
            (OK,),
            ("together 55.015 GB/s",),
        ),
        (
            "as CSV",
            "EnvVar,Value,Description,(TransferBench v1.66.00)\n"
            " Executor: GPU 00 ,  56.299 GB/s ,   4.768 ms ,   268435456 bytes ,  56.309 GB/s (sum),\n"
            "Transfer 0    ,  56.309 GB/s ,   4.767 ms ,   268435456 bytes , G0 -> G0:4 -> G1,\n"
            "Aggregate (CPU) ,  55.015 GB/s ,   4.879 ms ,   268435456 bytes , Overhead 0.111 ms,\n",
            (OK,),
            ("55.015 GB/s",),
        ),
        (
            "health check, passed",
            "TransferBench v1.66.00\nTesting unidirectional host to device copy ........PASS\n",
            (OK,),
            ("PASS",),
        ),
        ("nan", _TRANSFERS.replace("  55.015 GB/s", "     nan GB/s"), NOT_GOOD, ()),
        ("decimal commas", re.sub(r"(\d)\.(\d{3})", r"\1,\2", _TRANSFERS), NOT_GOOD, ()),
    ),
)  # fmt: skip


_P2P_HEAD = "TransferBench v1.62.00\n[P2P Related]\nP2P_MODE             =            0 : Running Uni + Bi transfers\n\n"


def _p2p(
    way: str, arrows: tuple[str, ...], names: tuple[str, ...] = ("CPU 00", "GPU 00", "GPU 01")
) -> str:
    title = f"{way} copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)\n"
    rows = " SRC+EXE\\DST" + "".join(f"{name:>10}" for name in names) + "\n"
    for number, name in enumerate(names):
        for arrow in arrows:
            cells = "".join(
                f"{'N/A' if number == at and 'Bi' in way else f'{41 + number + at / 10:.2f}':>10}"
                for at in range(len(names))
            )
            rows += f"{name:>8} {arrow:>3}{cells}\n"
        rows += "\n"
    averages = (
        " CPU->CPU  CPU->GPU  GPU->CPU  GPU->GPU\n"
        f"Averages (During {way[:5]}):       N/A     41.15     42.50     42.60\n\n"
    )
    return title + rows + averages


_P2P = (
    _P2P_HEAD
    + "Bytes Per Direction 268435456\n"
    + _p2p("Unidirectional", ("->",))
    + _p2p("Bidirectional", ("->", "<-", "<->"))
)
_A2A_BODY = (
    "TransferBench v1.62.00\nGPU-GFX All-To-All benchmark:\n==========================\n"
    "- Copying 268435456 bytes between directly connected pairs of GPUs using 8 CUs (2 Transfers)\n"
)
_A2A_SUMS = (
    "Average   bandwidth (GPU Timed):   49.500 GB/s\nAggregate bandwidth (GPU Timed):   99.000 GB/s\n"
    "Aggregate bandwidth (CPU Timed):   91.250 GB/s\n"
)
_A2A = (
    _A2A_BODY
    + "\nSummary: [268435456 bytes per Transfer]\n==========================================================\n"
    "SRC\\DST  GPU 00     GPU 01        STotal      Actual\n"
    "GPU 00      N/A     50.000         50.000      50.000\n"
    "GPU 01   49.000        N/A         49.000      49.000\n\n"
    "RTotal   49.000     50.000         99.000      49.000      50.000\n\n" + _A2A_SUMS
)
_A2A_BORDERS = (
    _A2A_BODY + "┌---------┬----------------┬---------┬---------┐\n"
    "│ SRC\\DST │ GPU 00  GPU 01 │  STotal │  Actual │\n├---------┼----------------┼---------┼---------┤\n"
    "│ GPU 00  │  N/A    50.00  │  50.00  │  50.00  │\n│ GPU 01  │ 49.00    N/A   │  49.00  │  49.00  │\n"
    "├---------┼----------------┼---------┼---------┤\n│ RTotal  │ 49.00   50.00  │  99.00  │  99.00  │\n"
    "└---------┴----------------┼---------┼---------┤\n                           │CPU Timed│  91.25  │\n"
    + _A2A_SUMS
)
_P2P_NICS = (
    "TransferBench v1.66.00\nUnidirectional copy peak bandwidth GB/s (NIC RDMA Using Nearest Device)\n"
    "│SRC+EXE\\DST │                         │  Rank 00              │  Rank 01              │\n"
    "│            │ NIC Device              │ mlx5_0     mlx5_1     │ mlx5_0     mlx5_1     │\n"
    "│            │              Mem Device │   GPU 00     GPU 01   │   GPU 00     GPU 01   │\n"
    "│    Rank 00 │     mlx5_0       GPU 00 │    47.36      47.31   │    47.31      47.31   │\n"
    "│            │     mlx5_1       GPU 01 │    47.31      47.35   │    21.02      47.31   │\n"
    "│    Rank 01 │     mlx5_0       GPU 00 │    47.31      47.31   │    47.36      47.31   │\n"
    "│            │     mlx5_1       GPU 01 │    47.31      47.31   │    47.31      47.35   │\n"
    "Summary of top 10 fastest/slowest connection\n"
)
_A2A_NICS = (
    "TransferBench v1.66.00\nNIC All-To-All benchmark\n========================\n\n--- NIC AllToAll Plane 00 Group 00 (2 NICs) ---\n"
    "┌---------------------┬---------------┬-----------------┬---------┬---------┐\n"
    "│ Mem Device          │               │ Rank 00         │         │         │\n"
    "│                     │               │ GPU 00   GPU 01 │         │         │\n"
    "├---------------------┼---------------┼-----------------┼---------┼---------┤\n"
    "│                     │  SRC+EXE\\DST  │ mlx5_0   mlx5_1 │  STotal │  Actual │\n"
    "│ Rank 00     GPU 00  │        mlx5_0 │  N/A      47.31 │   47.31 │   47.31 │\n"
    "│             GPU 01  │        mlx5_1 │ 46.02      N/A  │   46.02 │   46.02 │\n"
    "│                     │        RTotal │ 46.02     47.31 │   93.33 │   93.33 │\n"
    "└---------------------┴---------------┴-----------------┴---------┴---------┘\n\nAggregate bandwidth (CPU Timed):   90.100 GB/s\n"
)
_SCALING = (
    "TransferBench v1.62.00\nGPU-GFX Scaling benchmark:\n==========================\n"
    "- Copying 268435456 bytes from GPU 0 to other devices\n- All numbers reported as GB/sec\n\n"
    "NumCUs   CPU00       GPU00       GPU01     \n   1     12.10        30.20       20.11     \n"
    "   2     24.10        60.20       40.11     \n Best    24.10(  2)   60.20(  2)   40.11(  2)\n"
)
_MISMATCH = "Transfer 3: Unexpected mismatch at index 0 of destination 0: Expected   31.00000 Actual:    0.00000\n"
_SMOKE = (
    "TransferBench v1.66.00\n| Name                      | Test | DMA | Test | 001 | 304 |\n"
    "| Copy (H2D)                |  01  | *** |  08  | **. | *** |\n"
)
_VERBOSE = (
    "TransferBench v1.66.00\nTesting unidirectional host to device copy\n"
    "   GPU 00: Measured  55.02 Limit  48.50\n   GPU 01: Measured  21.02 Limit  48.50\n"
)
TRANSFERBENCH_PRESETS = Output(
    "TransferBench p2p",
    _P2P,
    ("2 GPU to GPU, 42.2 to 43.1 GB/s, least GPU 00 to GPU 01", "Bidirectional"),
    cuts=("GPU 00  ->", "GPU 00 <->"),
    failed=(
        ("a2a, data that differ", _A2A_BODY + _MISMATCH, "Unexpected mismatch"),
        ("p2p, data that differ", _P2P_HEAD + _p2p("Unidirectional", ("->",)) + _MISMATCH, "Unexpected mismatch"),
        ("health check with measurements", _VERBOSE + "FAIL (1 test(s))\n", "FAIL (1 test(s))"),
        (
            "a2a on ranks that differ",
            "TransferBench v1.66.00\n[ERROR] NIC all-to-all preset can only be run across ranks that are homogenous\n",
            "homogenous",
        ),
        ("scaling of no GPU", "TransferBench v1.62.00\n[ERROR] Cannot execute scaling test with local GPU device 9\n", "GPU device 9"),
    ),
    others=(
        ("a2a", _A2A, (OK,), ("2 GPU to GPU, 49 to 50 GB/s, least GPU 01 to GPU 00", "together 91.25 GB/s (CPU timed)")),
        ("a2a with borders", _A2A_BORDERS, (OK,), ("2 GPU to GPU, 49 to 50 GB/s",)),
        (
            "a2a as CSV",
            _A2A_BODY + "SRC\\DST ,GPU 00    ,GPU 01       ,STotal     ,Actual\nGPU 00,     N/A  ,  50.000     ,  50.000   ,  50.000\n"
            "GPU 01,  49.000  ,     N/A     ,  49.000   ,  49.000\n\n" + _A2A_SUMS,
            (OK,),
            ("49 to 50 GB/s",),
        ),
        ("a2a, cut in its table", _A2A[: _A2A.index("GPU 01   49")], (INCOMPLETE,), ()),
        ("a2a, cut behind its table", _A2A[: _A2A.index("Average")], (INCOMPLETE,), ()),
        ("a2a, a value nan", _A2A.replace("49.000        N/A", "  -nan        N/A"), NOT_GOOD, ()),
        ("p2p_rdma", _P2P_NICS, (OK,), ("12 NIC to NIC, 21.02 to 47.31 GB/s, least Rank 00 mlx5_1 to mlx5_0",)),
        ("nica2a", _A2A_NICS, (OK,), ("2 NIC to NIC, 46.02 to 47.31 GB/s, least Rank 00 mlx5_1 to mlx5_0",)),
        ("nica2a, cut", _A2A_NICS[: _A2A_NICS.index("│             GPU 01  │  ")], (INCOMPLETE,), ()),
        ("p2p_rdma, cut", _P2P_NICS[: _P2P_NICS.index("│    Rank 01 │     mlx5_0")], (INCOMPLETE,), ()),
        ("scaling", _SCALING, (OK,), ("Best 24.10( 2) 60.20( 2) 40.11( 2)",)),
        ("scaling, cut", _SCALING[: _SCALING.index(" Best")], (INCOMPLETE,), ()),
        ("smoke test, passed", _SMOKE + "\nAll tests passed\n", (OK,), ("All tests passed",)),
        ("smoke test, cut", _SMOKE, (INCOMPLETE,), ("smoke test is cut off",)),
        ("health check with measurements, passed", _VERBOSE.replace("21.02", "55.02") + "PASS\n", (OK,), ("PASS",)),
        (
            "health check on other GPUs",
            "TransferBench v1.66.00\n[WARN] healthcheck preset is currently not supported on this hardware\n",
            (INCOMPLETE,),
            ("not supported on this hardware",),
        ),
        ("sweep", _TRANSFERS.replace("Test 1:", "[Sweep Related]\nTest 1:") + "Sweep complete\n", (OK,), ("test 1: 1 copies",)),
        ("sweep, cut", _TRANSFERS.replace("Test 1:", "[Sweep Related]\nTest 1:"), (INCOMPLETE,), ("the sweep is cut off",)),
        (
            "schmoo, whose table has no end mark",
            "TransferBench v1.62.00\nBytes to transfer: 268435456 Local GPU: 0 Remote GPU: 1\n"
            "|------|-------------|\n     1        12.100        12.200        12.300        12.400        12.500        12.600  \n",
            (INCOMPLETE,),
            ("not read",),
        ),
    ),
)  # fmt: skip
_ROCM_BANDWIDTH = (
    "          RocmBandwidthTest Version: 2.6.0\n\n          Device: 0,  AMD EPYC 9654\n          Device: 1,  AMD Instinct MI300X\n\n"
    "          Device Access\n\n          D/D       0         1\n\n          0         1         1\n\n          1         1         1\n\n"
    "          Unidirectional copy peak bandwidth GB/s\n\n          D/D       0           1\n\n          0         N/A         54.9\n\n"
    "          1         55.1        2410.5\n\n"
    "          Bidirectional copy peak bandwidth GB/s\n\n          D/D       0           1\n\n          0         N/A         98.2\n\n"
    "          1         98.3        N/A\n"
)
ROCM_BANDWIDTH = Output(
    "rocm-bandwidth-test",
    _ROCM_BANDWIDTH,
    ("Unidirectional: 2 device to device, 54.9 to 55.1 GB/s, least 0 to 1",),
    cuts=("98.2\n", "0         N/A         5"),
    failed=(
        (
            "data that did not arrive",
            "          RocmBandwidthTest Version: 2.6.0\n          Data Path Validation\n          D/D       0         1\n"
            "          0         N/A       PASS\n          1         FAIL      N/A\n",
            "device 1: FAIL",
        ),
    ),
)


# amd-smi and rocm-smi (ROCm/rocm-systems, projects/amdsmi of 2026 and projects/rocm-smi-lib of August 2025)


def _gpus(**more: object) -> str:
    return json.dumps(
        [{"gpu": n, "bdf": f"0000:{0xC + n:02x}:00.0"} | more for n in (0, 1)], indent=4
    )


_STATIC = json.dumps(
    {
        "gpu_data": [
            {
                "gpu": 0,
                "asic": {"market_name": "AMD Instinct MI355X", "target_graphics_version": "gfx950"},
                "bus": {"bdf": "0000:0c:00.0", "max_pcie_width": 16},
                "ifwi": {"version": "022.040.003.042"},
                "driver": {"name": "amdgpu", "version": "6.14.14"},
                "limit": {"ppt0": {"max_power_limit": {"value": 1400, "unit": "W"}}},
            }
        ]
    },
    indent=4,
)
AMD_SMI = Output(
    "amd-smi static",
    _STATIC,
    ("AMD Instinct MI355X", "gfx950"),
    with_a_prefix=False,
    failed=(
        (
            "an error of the library",
            '{"error": "Device Not found", "code": 31, "error_type": "AMDSMI_STATUS_NOT_FOUND"}',
            "Device Not found",
        ),
        (
            "an error without a device",
            '{"error": "Can not find a device: GPU \'static\'", "code": 196, "error_type": "DEVICE_NOT_FOUND"}',
            "Can not find a device",
        ),
        (
            "bad pages pending, one of them an object",
            _gpus(
                retired="No bad pages found.",
                pending={"page_address": 12345, "page_size": 4096, "status": "PENDING"},
                un_res="No bad pages found.",
            ),
            "1 pending",
        ),
        (
            "pages that cannot be reserved",
            _gpus(un_res=[{"page_address": 1, "page_size": 4096, "status": "UNRESERVABLE"}] * 2),
            "2 not reservable",
        ),
    ),
    others=(
        (
            "no bad pages",
            _gpus(retired="No bad pages found.", pending="No bad pages found.", un_res="N/A"),
            (OK,),
            ("bad-pages", "no bad pages"),
        ),
        (
            "metrics",
            _gpus(ecc={"total_correctable_count": 0, "total_uncorrectable_count": 3, "total_deferred_count": 0}),
            (OK, BAD),
            ("3 uncorrectable errors",),
        ),
        (
            "metrics N/A",
            _gpus(temperature={"hotspot": "N/A"}, ecc={"total_uncorrectable_count": "N/A"}),
            (OK,),
            ("GPU 0",),
        ),
        (
            "metrics null",
            _gpus(ecc={"total_uncorrectable_count": None}),
            (OK, INCOMPLETE),
            (),
        ),
        ("compact", compact(_STATIC), (OK,), ("MI355X",)),
    ),
)  # fmt: skip


def _xgmi(status: str) -> str:
    links = [{"gpu": 0, "bdf": "0000:0c:00.0", "read": "N/A", "write": "N/A"}]
    metrics = {"bit_rate": {"value": 32, "unit": "Gb/s"}, "link_type": "XGMI", "links": links}
    return json.dumps(
        {
            "xgmi_metric": [[{"gpu": n, "bdf": f"0000:{12 + n:02x}:00.0", "link_metrics": metrics} for n in (0, 1)]],
            "link_port_status": [
                {"gpu": n, "bdf": f"0000:{12 + n:02x}:00.0", "link_status": ["U", "D" if n and "D" in status else "U"]}
                for n in (0, 1)
            ],
            "link_status": [
                {"gpu": 0, "bdf": "0000:0c:00.0", "link_status": ["SELF", "U/U"]},
                {"gpu": 1, "bdf": "0000:0d:00.0", "link_status": [status, "SELF"]},
            ],
        },
        indent=4,
    )  # fmt: skip


AMD_XGMI = Output(
    "amd-smi xgmi",
    _xgmi("U/U"),
    ("GPU 0 0000:0c:00.0", "GPU 1 0000:0d:00.0", "2 XGMI links up"),
    with_a_prefix=False,
    failed=(("one of two links of a pair down", _xgmi("U/D"), "GPU 1 0000:0d:00.0: 1 XGMI links up, down"),),
    others=(
        (
            "metrics alone, a list in a list",
            json.dumps({"xgmi_metric": json.loads(_xgmi("U/U"))["xgmi_metric"]}),
            (OK,),
            ("linked by XGMI, 32 Gb/s a lane",),
        ),
        (
            "link status not available",
            json.dumps({"link_status": [{"gpu": 0, "bdf": "0000:0c:00.0", "link_status": ["SELF", "N/A"]}]}),
            (OK, INCOMPLETE),
            (),
        ),
        (
            "a port down, in the table of ports alone",
            json.dumps({"link_port_status": [{"gpu": 0, "bdf": "0000:0c:00.0", "link_status": ["U", "D", "X"]}]}),
            (BAD,),
            ("down",),
        ),
    ),
)  # fmt: skip
_ROCM = """
============================ ROCm System Management Interface ============================
====================================== Product Info ======================================
GPU[0]		: Card Series: 		AMD Instinct MI300X
GPU[0]		: GFX Version: 		gfx942
GPU[1]		: Card Series: 		AMD Instinct MI300X
GPU[1]		: GFX Version: 		gfx942
==========================================================================================
================================== End of ROCm SMI Log ===================================
"""
_CONCISE = """
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

======================================= ROCm System Management Interface =======================================
================================================= Concise Info =================================================
Device  Node  IDs              Temp    Power  Partitions          SCLK   MCLK   Fan  Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Edge)  (Avg)  (Mem, Compute, ID)
================================================================================================================
0       1     0x74a1,   12345  41.0\u00b0C  141.0W  NPS1, SPX, 0     132Mhz  900Mhz  0%  auto  750.0W  3%     0%
1       2     0x74a1,   54321  43.0\u00b0C  139.0W  NPS1, SPX, 0     131Mhz  900Mhz  0%  auto  750.0W  0%     0%
================================================================================================================
============================================= End of ROCm SMI Log ==============================================
"""
ROCM_SMI = Output(
    "rocm-smi",
    _ROCM,
    ("GPU 0: AMD Instinct MI300X", "GPU 1"),
    cuts=("GPU[1]\t\t: Card", "GPU[1]\t\t: GFX Version: \t\tgfx942\n"),
    failed=(
        (
            "xGMI errors",
            _ROCM.replace("GPU[1]\t\t: GFX Version: \t\tgfx942", "GPU[1]\t\t: XGMI Error count: \t\t2 (Multiple errors detected since last read)"),
            "XGMI",
        ),
        (
            "no driver",
            "ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
            "Driver not initialized",
        ),
        (
            "an error of a GPU",
            _ROCM.replace("GPU[1]\t\t: GFX Version: \t\tgfx942", "ERROR: GPU[1]\t: Unable to read /sys/class/kfd"),
            "Unable to read",
        ),
    ),
    others=(
        ("JSON, cut", '{"card0": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gf', (INCOMPLETE,), ("MI300X",)),
        ("JSON with XGMI errors", _json({"card1": {"XGMI Error count": "2"}}), (BAD,), ("GPU 1", "XGMI errors")),
        ("the concise table", _CONCISE, (OK,), ("GPU 0: 1 0x74a1", "GPU 1: 2 0x74a1")),
        ("no GPU", _ROCM[: _ROCM.index("GPU[0]")] + _ROCM[_ROCM.index("====", 400) :], (INCOMPLETE,), ("rocm-smi",)),
        (
            "JSON",
            _json({"card0": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"}, "system": {"Driver version": "6.10.5"}}),
            (OK,),
            ("AMD Instinct MI300X", "gfx942"),
        ),
    ),
)  # fmt: skip


# PyTorch's flight recorder, dump 2.10 of PyTorch 2.13; NCCL's forms are composed after
# torch/csrc/distributed/c10d/FlightRecorder.hpp of the same release


def _entry(number: int, state: str, **more: object) -> dict[str, object]:
    return {
        "record_id": number, "pg_id": 1, "process_group": ["1", "dp"], "collective_seq_id": number,
        "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1783674000000000000 + number, "input_sizes": [[1024]], "input_dtypes": ["Float"],
        "output_sizes": [[1024]], "output_dtypes": ["Float"], "state": state,
        "time_discovered_started_ns": 1783674000000000100, "time_discovered_completed_ns": 1783674000000000200 if state == "completed" else None,
        "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False, "thread_id": "139", "thread_name": "pt_main_thread",
    } | more  # fmt: skip


def _dump(*entries: dict[str, object], completed: int = 2) -> dict[str, object]:
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "nccl_comm_state": {"0x1": {}},
        "pg_config": {"1": {"name": "1", "desc": "dp", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {
            "1": {
                "last_enqueued_collective": len(entries),
                "last_started_collective": len(entries),
                "last_completed_collective": completed,
            }
        },
        "entries": list(entries),
    }


HEALTHY_DUMP = _dump(_entry(1, "completed"), _entry(2, "completed"))
STALLED_DUMP = _dump(_entry(1, "completed"), _entry(2, "completed"), _entry(3, "started"))
OVERDUE_DUMP = _dump(
    _entry(1, "completed"),
    _entry(2, "completed"),
    _entry(3, "started"),
    _entry(4, "scheduled", pg_id=2, process_group=["2", "tp"], time_created_ns=1783674000000000000 + 601 * 10**9),
)  # fmt: skip
COALESCED_DUMP = _dump(
    _entry(1, "completed"),
    _entry(2, "scheduled"),
    _entry(2, "completed", profiling_name="nccl:coalesced", input_sizes=[], output_sizes=[], input_dtypes=[], output_dtypes=[]),
)  # fmt: skip


def _of_release(version: str, *entries: dict[str, object]) -> dict[str, object]:
    """A dump in the layout of an older release: without the fields that came later."""
    minor = int(version.split(".")[1])
    later = () if minor >= 10 else ("thread_id", "thread_name")
    older = [{key: value for key, value in entry.items() if key not in later} for entry in entries]
    dump = _dump(*older) | {"version": version}
    library = dump.pop("comm_lib_version")
    if minor >= 7:
        dump["nccl_version" if minor < 10 else "comm_lib_version"] = library
    return dump


DUMP_VERSIONS = ("2.3", "2.4", "2.7", "2.10")
"""Layouts of PyTorch 2.4 to 2.13: `version_val` in NCCLUtils.hpp, later in FlightRecorder.hpp."""
_UNTIMED = {"time_discovered_started_ns": None, "time_discovered_completed_ns": None}
"""Without TORCH_NCCL_ENABLE_TIMING no start is recorded: what runs stays `scheduled`."""


def _releases() -> Iterator[tuple[str, str, tuple[int, ...], tuple[str, ...]]]:
    done, hung = _entry(1, "completed"), _entry(2, "scheduled", **_UNTIMED)
    lost = _entry(2, "started", retired=True)
    late = _entry(3, "completed", time_created_ns=1783674000000000000 + 601 * 10**9)
    for version in DUMP_VERSIONS:
        shown = f"version {version}, "
        for name, entries, statuses, says in (
            ("good", (done, done), (OK,), "2 entries"),
            ("the only operation hangs", (hung,), (INCOMPLETE,), "nccl:all_reduce seq 2 of group dp was scheduled"),
            ("active ones only", (hung, hung | {"record_id": 3, "collective_seq_id": 3}), (INCOMPLETE,), "seq 2 of group dp"),
            ("given up", (done, lost), (BAD,), "nccl:all_reduce seq 2 of group dp was started and was given up"),
            ("given up before it started", (done, hung | {"retired": True}, late), (BAD,), "seq 2 of group dp was scheduled and was given up"),
        ):  # fmt: skip
            yield (
                f"{version}: {name}",
                json.dumps(_of_release(version, *entries)),
                statuses,
                (shown, says),
            )
    hook = [
        _entry(n, "scheduled", **_UNTIMED, retired=True, profiling_name="xccl:all_reduce")
        for n in (1, 2)
    ]
    yield "a backend that reports no end", json.dumps(_dump(*hook)), (OK,), ("2 entries",)
    gloo = _entry(1, "scheduled", **_UNTIMED, retired=False, profiling_name="gloo:all_reduce")
    yield (
        "gloo, an operation that goes on",
        json.dumps(_dump(gloo)),
        (INCOMPLETE,),
        ("gloo:all_reduce seq 1",),
    )
    ascend = _of_release("2.4", done, done)
    ascend["hccl_comm_state"] = ascend.pop("nccl_comm_state")
    yield "of torch_npu", json.dumps(ascend), (OK,), ("version 2.4, 2 entries",)


FLIGHT_RECORDER = Output(
    "flight recorder, JSON",
    json.dumps(HEALTHY_DUMP),
    ("version 2.10, 2 entries", "4 ranks"),
    stands_alone=True,
    failed=(
        ("a collective over its timeout", json.dumps(OVERDUE_DUMP), "nccl:all_reduce seq 3 of group dp was started and had not completed, longer"),
    ),
    others=(
        ("a collective that had not ended", json.dumps(STALLED_DUMP), (INCOMPLETE,), ("nccl:all_reduce seq 3 of group dp",)),
        ("good, then another document", json.dumps(HEALTHY_DUMP) + '\n{"step": 7}\n', (INCOMPLETE,), ("2 entries",)),
        ("coalesced", json.dumps(COALESCED_DUMP), (OK,), ("nccl:coalesced",)),
        ("recorded by gloo", (FIXTURES / "flight_recorder" / "straggler-rank2.json").read_text(), (OK,), ("2.10",)),
        ("sizes null", json.dumps(_dump(_entry(1, "completed", input_sizes=None), completed=1)), (OK,), ("1 entries",)),
        ("durations NaN", json.dumps(_dump(_entry(1, "completed", duration_ms=float("nan")), completed=1)), (OK,), ("1 entries",)),
        ("no entries", json.dumps(_dump(completed=-1)), (OK, INCOMPLETE), ("0 entries",)),
        ("an entry of another type", json.dumps(_dump() | {"entries": "gone"}), NOT_GOOD, ()),
        *_releases(),
    ),
    with_a_prefix=False,
)  # fmt: skip


# NCCL's Inspector (plugins/profiler/inspector of NCCL 2.28.3 to 2.30.7)


def _inspector(rank: int, sequence: int, **more: object) -> str:
    header = {"id": "0x5c9a", "comm_name": "dp", "rank": rank, "n_ranks": 2, "nnodes": 1}
    metadata = {
        "inspector_output_format_version": "v4.0", "git_rev": "1a2b3c4", "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": 1783674000123456, "hostname": "node-a", "pid": 52017,
    }  # fmt: skip
    perf = {
        "coll": "AllReduce", "coll_sn": sequence, "coll_msg_size_bytes": 1048576, "coll_exec_time_us": 100,
        "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 10.48576, "coll_busbw_gbs": 10.48576,
    }  # fmt: skip
    return json.dumps({"header": header, "metadata": metadata, "coll_perf": perf | more}) + "\n"


_INSPECTOR = "".join(_inspector(rank, number) for number in (1, 2, 3) for rank in (0, 1))
_PROMETHEUS = (
    'nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="7",node="node-a",gpu="GPU0",comm_name="dp",n_nodes="1",'
    'nranks="8",collective="AllReduce",message_size="1-2MB",algo_proto="RING_LL"} 215.070000\n'
    'nccl_collective_exec_time_microseconds{version="v5.1",node="node-a",gpu="GPU0",comm_name="dp",'
    'collective="AllReduce",message_size="1-2MB"} 5012.000000\n'
)
INSPECTOR = Output(
    "NCCL Inspector",
    _INSPECTOR,
    ("6 of 2 ranks on 1 communicators", "AllReduce 1048576 B rank 0: 3 times"),
    with_a_prefix=False,
    stands_alone=True,
    cuts=('"coll_sn": 2', '"coll_sn": 3'),
    others=(
        ("Prometheus", _PROMETHEUS, (OK,), ("nccl_bus_bandwidth_gbs 215.07",)),
        ("Prometheus, cut", _PROMETHEUS[: _PROMETHEUS.rindex("} 50")], NOT_GOOD, ()),
        ("Prometheus, CRLF", _PROMETHEUS.replace("\n", "\r\n"), (OK,), ("215.07",)),
        (
            "bandwidths nan, as NCCL writes it",
            _INSPECTOR.replace('"coll_busbw_gbs": 10.48576', '"coll_busbw_gbs": "nan"'),
            (OK, INCOMPLETE),
            ("3 times",),
        ),
        (
            "bandwidths inf, as NCCL writes it",
            _INSPECTOR.replace('"coll_busbw_gbs": 10.48576', '"coll_busbw_gbs": inf'),
            (OK, INCOMPLETE),
            ("3 times",),
        ),
        (
            "a time of 0",
            _inspector(0, 1, coll_exec_time_us=0, coll_busbw_gbs=0.0),
            (OK, INCOMPLETE),
            ("1 times",),
        ),
        ("as one list", f"[{','.join(_INSPECTOR.splitlines())}]", (OK, INCOMPLETE), ("AllReduce",)),
        (
            "verbose",
            _inspector(0, 1, event_trace_sn={"coll_start_sn": 1, "kernel_events": []}),
            (OK,),
            ("AllReduce",),
        ),
        (
            "a sequence number that is missing",
            _inspector(0, 1) + _inspector(0, 2) + _inspector(0, 9),
            (OK, INCOMPLETE),
            ("3 times",),
        ),
    ),
)  # fmt: skip


# rccl-tests -Z json and csv (ROCm/rccl-tests, src/common.cu of 2025: an object a line; later releases: a list)


def _rccl(in_place: int, size: int, wrong: str = "0") -> str:
    return (
        f'{{"name":"AllReduce", "nodes":1, "ranks":2, "ranksPerNode":2, "gpusPerRank":1, "size":{size}, '
        f'"type":"float", "redop":"sum", "inPlace":{in_place}, "time":{size / 17133.595:.6f}, "algBw":17.133595, '
        f'"busBw":17.133595, "wrong":"{wrong}"}}'
    )


_RCCL_LINES = "".join(
    f"{_rccl(in_place, size)}\n" for size in (1048576, 2097152) for in_place in (0, 1)
)
_RCCL_CSV = (
    "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, algbw, busbw, #wrong\n"
    '"AllReduce", 1, 2, 2, 1, 1048576, "float", "sum", 0, 61.200000, 17.133595, 17.133595, "0"\n'
)
RCCL = Output(
    "rccl-tests -Z json",
    "[" + ",\n".join(_RCCL_LINES.splitlines()) + "]\n",
    ("all_reduce", "2 ranks", "1048576"),
    with_a_prefix=False,
    stands_alone=True,
    failed=(
        (
            "wrong data",
            f"[{_rccl(0, 1048576)},{_rccl(1, 1048576, '3')}]",
            "3 elements",
        ),
    ),
    others=(
        ("an object a line", _RCCL_LINES, (OK, INCOMPLETE), ("all_reduce", "2097152")),
        ("an object a line, wrong data", _RCCL_LINES + _rccl(0, 4194304, "5"), (BAD,), ("5 elements",)),
        ("an object a line, cut", _RCCL_LINES[:-40], NOT_GOOD, ("all_reduce",)),
        ("CSV of 2025", _RCCL_CSV, (INCOMPLETE,), ("all_reduce",)),
        ("CSV of 2025, wrong data", _RCCL_CSV.replace('"0"\n', '"7"\n'), (BAD,), ("7 elements",)),
        ("not checked", f"[{_rccl(0, 1048576, 'N/A')}]", (OK,), ("not checked",)),
        ("bandwidths nan", "[" + _rccl(0, 1048576).replace("17.133595", "nan") + "]", NOT_GOOD, ()),
        ("bandwidths null", "[" + _rccl(0, 1048576).replace("17.133595", "null") + "]", NOT_GOOD, ()),
    ),
)  # fmt: skip


# nccl-tests -J (NVIDIA/nccl-tests 2.19.6, src/util.cu)


_NCCL = (FIXTURES / "nccl_tests" / "printer-2.19.6-fast.json").read_text()


def _nccl(**changed: object) -> str:
    return json.dumps(json.loads(_NCCL) | changed)


def _without_results() -> str:
    document = json.loads(_NCCL)
    for key in ("results", "out_of_bounds", "average_bus_bandwidth"):
        document.pop(key, None)
    return json.dumps(document)


NCCL_TESTS = Output(
    "nccl-tests -J",
    _NCCL,
    ("complete", "ranks"),
    with_a_prefix=False,
    failed=(
        (
            "wrong data",
            '"nwrong":7.000000'.join(_NCCL.rsplit('"nwrong":0.000000', 1)),
            "7 elements",
        ),
        (
            "out of bounds",
            _nccl(out_of_bounds={"count": 4, "okay": "false"}),
            "Out of bounds",
        ),
        (
            "below the bandwidth asked for",
            _nccl(average_bus_bandwidth={"bandwidth": json.loads(_NCCL)["average_bus_bandwidth"]["bandwidth"], "okay": "false"}),
            "FAILED",
        ),
    ),
    others=(
        ("ended before its first row", _without_results(), NOT_GOOD, ()),
        (
            "an error that NCCL left",
            _nccl(errors=["unhandled system error (run with NCCL_DEBUG=INFO for details)"]),
            (OK, BAD, INCOMPLETE),
            ("unhandled system error",),
        ),
        ("bandwidths nan, as nccl-tests writes it", re.sub(r'"bus_bw":[\d.]+', '"bus_bw":"nan"', _NCCL), NOT_GOOD, ()),
        ("bandwidths null", re.sub(r'"bus_bw":[\d.]+', '"bus_bw":null', _NCCL), NOT_GOOD, ()),
        ("bandwidths inf", re.sub(r'"bus_bw":[\d.]+', '"bus_bw":inf', _NCCL), NOT_GOOD, ()),
        ("decimal commas", re.sub(r"(\d)\.(\d)", r"\1,\2", _NCCL), NOT_GOOD, ()),
        ("pretty", pretty(_NCCL), (OK,), ("complete",)),
    ),
)  # fmt: skip

NODE_TOOLS = (
    NVBANDWIDTH, NVBANDWIDTH_TEXT, IPERF3, IPERF3_STREAM, IPERF3_TEXT, IPERF2, PERFTEST, PERFTEST_TEXT, OSU, IMB,
    TRANSFERBENCH, TRANSFERBENCH_PRESETS, ROCM_BANDWIDTH,
    AMD_SMI, AMD_XGMI, ROCM_SMI,
)  # fmt: skip
OUTPUTS = (
    MSCCLPP, *NODE_TOOLS, FLIGHT_RECORDER, INSPECTOR, RCCL, NCCL_TESTS,
)  # fmt: skip


def _pickles() -> Iterator[Case]:
    whole = pickle.dumps(HEALTHY_DUMP, 2)
    yield Case("plain", whole, (OK,), ("version 2.10, 2 entries", "4 ranks"))
    yield Case("cut at half", whole[: len(whole) // 2], (INCOMPLETE,), ())
    yield Case(
        "not ended", pickle.dumps(STALLED_DUMP, 2), (INCOMPLETE,), ("nccl:all_reduce seq 3 of",)
    )
    yield Case(
        "over its timeout", pickle.dumps(OVERDUE_DUMP, 2), (BAD,), ("nccl:all_reduce seq 3 of",)
    )
    yield Case("two", whole + pickle.dumps(OVERDUE_DUMP, 2), (BAD,), ("nccl:all_reduce seq 3 of",))
    yield Case("two, the second cut", whole + whole[:-9], (INCOMPLETE,), ("2 entries",))
    yield Case("coalesced", pickle.dumps(COALESCED_DUMP, 2), (OK,), ("nccl:coalesced",))
    yield Case("protocol 4", pickle.dumps(HEALTHY_DUMP, 4), (OK,), ("2 entries",))
    yield Case("line ends converted", whole.replace(b"\n", b"\r\n"), (OK, INCOMPLETE), ())
    for name, text, statuses, shows in _releases():
        yield Case(name, pickle.dumps(json.loads(text), 2), statuses, shows)
    folder = FIXTURES / "flight_recorder"
    for path in sorted(folder.glob("*.pickle")):
        yield Case(path.name, path.read_bytes(), (OK,), ("version 2.10",))


ALL: tuple[tuple[str, Case], ...] = tuple(
    [(output.name, case) for output in OUTPUTS for case in cases(output)]
    + [("flight recorder, pickle", case) for case in _pickles()]
)
