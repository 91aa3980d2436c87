"""Benchmarks that people run beside nccl-tests: what each prints is read, and its own errors are
faults."""

from __future__ import annotations

import pytest

from busbw.parsers.logs import node_tools

OSU = """# OSU MPI-CUDA Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)        Validation
4                      25.37              Pass
8388608              8630.58              {}
"""
TRANSFERS = """TransferBench v1.62.00
Test 1:
 Executor: GPU 00 |   56.299 GB/s |    4.768 ms |    268435456 bytes | 56.309  GB/s (sum)
     Transfer 00  |   56.309 GB/s |    4.767 ms |    268435456 bytes | G0 -> G000:004 -> G1
 Aggregate (CPU)  |   55.015 GB/s |    4.879 ms |    268435456 bytes | Overhead: 0.111 ms
Test 2:
 Executor: DMA 00 │   59.334 GB/s │    4.524 ms │    268435456 bytes │ 60.973  GB/s (sum)
"""
ONECCL = """#bytes  elem_count  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]
    1024         256            16         12.31         14.02         13.10       4.11
 2097152      524288             8        310.20        322.90        315.40       1.20

# All done
"""
PERFTEST = (
    '{"test_info": {"test": "Write BW", "Device": "mlx5_0", "Link_type": "Ethernet"}, "results":'
    ' {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 0, "BW_average": 46875.0,'
    ' "MsgRate": 0.75}}'
)
ROCM = """============================ ROCm System Management Interface ============================
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X VF
GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X VF
================================== End of ROCm SMI Log ===================================
"""


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            OSU.format("Pass"),
            (
                (
                    "OSU micro-benchmarks",
                    "MPI-CUDA Allreduce Latency 7.5: 2 sizes; 8388608 bytes: Avg Latency(us)"
                    " 8630.58",
                ),
            ),
        ),
        (
            ONECCL,
            (("oneCCL benchmark, IMB", "collective not named: 2 sizes; 2097152 bytes: 315.4 µs"),),
        ),
        (PERFTEST, (("perftest", "write on mlx5_0: best 393.216 Gb/s, 0 latencies"),)),
        (
            ROCM,
            (
                ("rocm-smi", "GPU 0: AMD Instinct MI300X VF"),
                ("rocm-smi", "GPU 1: AMD Instinct MI300X VF"),
            ),
        ),
    ],
    ids=["OSU", "oneCCL", "perftest's JSON", "rocm-smi"],
)
def test_what_it_measured_is_read(text: str, summary: tuple[tuple[str, str], ...]) -> None:
    document = node_tools.read([text.encode()])
    assert (document.summary, document.complete, document.problems) == (summary, True, ())


def test_wrong_data_of_osu_is_a_fault() -> None:
    document = node_tools.read([OSU.format("Fail").encode()])
    assert document.faults == (
        "OSU Allreduce Latency: wrong data in 1 of 2 sizes, first at 8388608 bytes (validation:"
        " Fail)",
    )


def test_a_test_of_transferbench_without_its_end_is_incomplete() -> None:
    document = node_tools.read([TRANSFERS.encode()])
    assert document.summary == (
        ("TransferBench", "test 1: 1 copies, 56.309 to 56.309 GB/s, together 55.015 GB/s"),
        ("TransferBench", "test 2: 0 copies, 59.334 to 59.334 GB/s"),
    )
    assert document.problems == (
        "TransferBench test 2: the text is truncated before its aggregate",
    )
    assert not document.complete


@pytest.mark.parametrize(
    "text",
    [
        "# OSU MPI Bandwidth Test v7.5\n",
        "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n",
    ],
)
def test_a_head_without_rows_is_incomplete(text: str) -> None:
    assert not node_tools.read([text.encode()]).complete
