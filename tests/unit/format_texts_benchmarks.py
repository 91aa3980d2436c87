"""Outputs of burn-in tests and benchmarks of a node, composed after what their programs print: gpu-burn
(gpu_burn-drv.cpp), HPL 2.3 and NVIDIA's 23.5, HPCG 3.1, mlperf_logging 5.1, fi_pingpong and fabtests of
libfabric 2.x, ucx_perftest of UCX 1.18, ibdiagnet 2.13, numactl 2.0.18, CUDA samples 12."""

from __future__ import annotations

import json

from format_texts import INCOMPLETE, NOT_GOOD, OK, Case, Output, cases

_BURN = (
    "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\nUsing compare file: compare.ptx\nBurning for 60 seconds.\n"
    "50.0%  proc'd: 12228 (51100 Gflop/s) - 12224 (51090 Gflop/s)   errors: 0 - 0   temps: 60 C - 61 C \r"
    "100.0%  proc'd: 24456 (51210 Gflop/s) - 24448 (51100 Gflop/s)   errors: 0 - 0   temps: 61 C - 62 C \n"
    "Killing processes with SIGTERM (soft kill)\ndone\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
)
BURN = Output(
    "gpu-burn",
    _BURN,
    ("51100 to 51210 Gflop/s on 2 GPUs", "2 of 2 GPUs OK"),
    cuts=("temps: 61 C - 62 C", "\tGPU 0: OK"),
    failed=(
        ("a faulty GPU", _BURN.replace("GPU 1: OK", "GPU 1: FAULTY"), "GPU 1: FAULTY"),
        (
            "no GPU lives",
            _BURN[: _BURN.index("Killing")].replace("24448 (51100 Gflop/s)", "-1 (0 Gflop/s)") + "\n\nNo clients are alive!  Aborting\n",
            "No clients are alive!",
        ),
        (
            "no start",
            "Burning for 60 seconds.\nCouldn't init a GPU test: Error (gpu_burn-drv.cpp:113): unspecified launch failure\n",
            "unspecified launch failure",
        ),
    ),
)  # fmt: skip

_HPL = (
    "================================================================================\n"
    "HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n"
    "================================================================================\n"
    "T/V                N    NB     P     Q               Time                 Gflops\n"
    "--------------------------------------------------------------------------------\n"
    "WR11C2R4      264192  1024     4     2              24.92             4.9331e+05\n"
    "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.54826700e-03 ...... PASSED\n"
    "================================================================================\n\n"
    "Finished      1 tests with the following results:\n"
    "              1 tests completed and passed residual checks,\n"
    "              0 tests completed and failed residual checks,\n"
    "              0 tests skipped because of illegal input values.\n\nEnd of Tests.\n"
)
_HPL_WRONG = _HPL.replace("3.54826700e-03 ...... PASSED", "           nan ...... FAILED").replace(
    "              1 tests completed and passed residual checks,\n              0 tests completed and failed",
    "              0 tests completed and passed residual checks,\n              1 tests completed and failed",
)
HPL = Output(
    "HPL",
    _HPL,
    ("N 264192, NB 1024, 4 x 2 processes: 493310 Gflop/s in 24.92 s",),
    cuts=("4.9331e+05\n", "P     Q "),
    failed=(
        ("a wrong result", _HPL_WRONG, "residual nan FAILED"),
        (
            "too few processes",
            _HPL[: _HPL.index("T/V")]
            + "HPL ERROR from process # 0, on line 419 of function HPL_pdinfo:\n>>> Need at least 8 processes for these tests <<<\n",
            "Need at least 8 processes",
        ),
        ("a test that it skipped", _HPL.replace("0 tests skipped", "1 tests skipped"), "1 tests skipped"),
    ),
    others=(
        (
            "of NVIDIA",
            _HPL.replace("HPLinpack 2.3", "HPL-NVIDIA 23.5.0").replace("WR11C2R4 ", "WC0      ").replace("4.9331e+05", "4.933e+05 ( 6.166e+04)"),
            (OK,),
            ("493300 Gflop/s",),
        ),
        ("without a check", _HPL.replace("||Ax-b||_oo/", "#"), (INCOMPLETE,), ("no result was checked",)),
    ),
)  # fmt: skip

HPCG = Output(
    "HPCG",
    "Final Summary=\nFinal Summary::HPCG result is VALID with a GFLOP/s rating of=63.6515\n",
    ("63.6515 Gflop/s, VALID",),
    cuts=("Final Summary::HPCG result",),
    failed=(("an invalid result", "Final Summary::HPCG result is INVALID.\n", "INVALID"),),
)


def _mllog(key: str, time_ms: int, value: object = None, **more: object) -> str:
    entry = {
        "namespace": "",
        "time_ms": time_ms,
        "event_type": "INTERVAL_END",
        "key": key,
        "value": value,
    }
    return (
        f":::MLLOG {json.dumps(entry | {'metadata': {'file': 'train.py', 'lineno': 442} | more})}\n"
    )


_ML_BEGIN = _mllog("submission_benchmark", 1, "llama2_70b_lora") + _mllog("run_start", 60000)
_ML = (
    _ML_BEGIN
    + _mllog("eval_accuracy", 500000, 0.925)
    + _mllog("run_stop", 660000, status="success")
)
MLPERF = Output(
    "MLPerf log",
    _ML,
    ("llama2_70b_lora: success in 10 minutes, accuracy 0.925",),
    cuts=('"run_start"', '"eval_accuracy"'),
    failed=(("aborted", _ML.replace("success", "aborted"), "run_stop with status aborted"),),
    others=(
        ("two runs, the second without its end", _ML + _ML_BEGIN, (INCOMPLETE,), ("no run_stop",)),
    ),
)

_PINGPONG = (
    "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
    "64      10      =10      1.2k        0.00s      0.33     192.60       0.01\n"
    "1m      10      =10      20m         0.00s   9321.30     112.49       0.01\n"
)
_FABTESTS = (
    "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n"
    "1       10k     9.7k        0.05s      0.20       4.94       0.20\n"
    "1m      1k      1000m       0.04s  23402.10      44.81       0.02\n"
)
FABRIC_TESTS = Output(
    "fi_pingpong",
    _PINGPONG,
    ("2 sizes, 1m bytes: 9321.3 MB/s; smallest 192.6 µs",),
    cuts=("9321.30", "usec/xfer"),
    failed=(
        ("no provider", "fi_getinfo(): util/pingpong.c:1531, ret=-61 (No data available)\n", "No data available"),
        ("the other side is gone", _PINGPONG + "[error] util/pingpong.c:549 : ctrl/read: no data\n", "ctrl/read"),
        ("data that differ", _PINGPONG + "Error at iteration=3 size=64 byte=7\n", "Error at iteration=3"),
        ("answers that are missing", _PINGPONG.replace("20m ", "10m ").replace("=10      10m", "+2       10m"), "1m bytes without"),
        ("of fabtests", _FABTESTS + "[error] 1720163290:fabtests:common/shared.c:2513: cq_readerr 5 (Input/output error)\n", "cq_readerr 5"),
    ),
    others=(
        ("fabtests", _FABTESTS, (OK,), ("2 sizes, 1m bytes: 23402.1 MB/s; smallest 4.94 µs",)),
        ("nan", _PINGPONG.replace("9321.30", "    nan"), NOT_GOOD, ()),
    ),
)  # fmt: skip

_UCX_HEAD = (
    "+--------------+--------------+------------------------------+---------------------+-----------------------+\n"
    "|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |\n"
    "+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+\n"
    "|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |\n"
    "+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+\n"
)
_UCX = _UCX_HEAD + (
    "[thread 0]            202322      2.457     2.471     2.471        3.09       3.09      404639      404639\n"
    "Final:               1000000      2.457     2.460     2.463        3.10       3.10      406432      406036\n"
)
UCX = Output(
    "ucx_perftest",
    _UCX,
    ("test: latency 2.463 µs, 3.1 MB/s, 406036 messages/s",),
    cuts=("404639\n", "2.463        3.10"),
    failed=(
        (
            "the other side is gone",
            _UCX + "[1702988061.912566] [node-a:406578:0]        perftest.c:131  UCX  ERROR recv() remote closed connection\n",
            "recv() remote closed connection",
        ),
    ),
    others=(
        (
            "a server",
            "Waiting for connection...\n" + _UCX_HEAD + "| Test:         tag match latency                       |\n"
            "| Message size: 8                                       |\n",
            (OK, INCOMPLETE),
            (),
        ),
    ),
)  # fmt: skip

_IBDIAG = (
    "Running version:   IBDIAGNET 2.13.0\nDiscovery\n-I- Discovered 12 nodes (2 Switches & 10 CA-s).\n\nSummary\n"
    "-I- Stage                     Warnings   Errors     Comment   \n"
    "-I- Discovery                 0          0         \n-I- Links Check               3          0         \n"
    "-I- SHARP                     NA         NA         skipped\n\n"
    "-I- You can find detailed errors/warnings in: /var/tmp/ibdiagnet2/ibdiagnet2.log\n"
)
IBDIAG = Output(
    "ibdiagnet",
    _IBDIAG,
    ("Links Check: 0 errors, 3 warnings", "SHARP: not run (skipped)"),
    cuts=("-I- Stage ", "Warnings   Errors"),
    failed=(
        ("a stage with errors", _IBDIAG.replace("3          0 ", "3          2 "), "Links Check: 2 errors"),
        ("no summary", "ibdiagnet\n-I- Discovered 12 nodes.\n-E- Discovery finished with errors\n", "Discovery finished with errors"),
    ),
)  # fmt: skip

_NUMA = (
    "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 515656 MB\nnode 0 free: 491000 MB\n"
    "node 1 cpus: 4 5 6 7\nnode 1 size: 516084 MB\nnode 1 free: 490000 MB\nnode distances:\nnode   0   1 \n  0:  10  21 \n  1:  21  10 \n"
)
NUMA = Output(
    "numactl -H",
    _NUMA,
    ("node 1: 4 CPUs, 516084 MB, 490000 MB free",),
    cuts=("node 1 size: ", "node 0 free"),
)

_P2P_TEST = (
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     0 1581.48 274.55\n     1 274.70 1581.48\n"
    "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 1590.07 531.10\n     1 530.22 1588.45\n"
    "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1\n     0   2.10   2.11\n     1   2.12   2.09\n"
)
CUDA_SAMPLES = Output(
    "CUDA samples",
    _P2P_TEST,
    ("Unidirectional P2P=Enabled Bandwidth (P2P Writes): 2 device to device, 274.55 to 274.7 GB/s, least 0 to 1",),
    cuts=("0 1590.07", "     1 274.70"),
    failed=(("deviceQuery without a GPU", "cudaGetDeviceCount returned 802\n-> system not yet initialized\nResult = FAIL\n", "Result = FAIL"),),
    others=(("deviceQuery", "deviceQuery, CUDA Driver = CUDART, NumDevs = 8\nResult = PASS\n", (OK,), ("Result = PASS",)),),
)  # fmt: skip

_TOPOLOGY = (
    "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity\nGPU0     X      NV18    PIX     0-55    0\n"
    "GPU1    NV18     X      SYS     0-55    0\nNIC0    PIX     SYS      X\n"
)
TOPOLOGY = Output(
    "nvidia-smi topo -m, pasted",
    _TOPOLOGY,
    ("2 GPUs, 1 NICs",),
    cuts=("GPU1    NV18     X ",),
    others=(
        (
            "topo -p2p",
            "        GPU0    GPU1\n GPU0   X       CNS\n GPU1   CNS     X\n\nLegend:\n\n  CNS  = Chipset not supported\n",
            (OK,),
            ("GPU0: X CNS",),
        ),
    ),
)  # fmt: skip

_LSTOPO = (
    "Machine (1008GB total)\n  Package L#0\n    NUMANode L#0 (P#0 504GB)\n    L3 L#0 (105MB)\n"
    "      L2 L#0 (2048KB) + L1d L#0 (48KB) + L1i L#0 (32KB) + Core L#0 + PU L#0 (P#0)\n    HostBridge\n      PCIBridge\n"
    '        PCI 18:00.0 (InfiniBand)\n          Net "ibp24s0"\n          OpenFabrics "mlx5_0"\n'
)
LSTOPO = Output(
    "lstopo",
    _LSTOPO,
    ("1 packages, 1 cores, 1 NUMA nodes", "OpenFabrics: mlx5_0"),
    cuts=("Package L#0\n    NUMA", "(1008GB total)\n  "),
)

_STREAM = (
    "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time     Min time     Max time\n"
    "Copy:          141867.4     0.169484     0.169172     0.169902\nScale:         142325.9     0.168982     0.168627     0.169334\n"
    "Add:           143459.4     0.251262     0.250942     0.251731\nTriad:         143444.0     0.251348     0.250969     0.251694\n"
    "Solution Validates: avg error less than 1.000000e-13 on all three arrays\n"
)
STREAM = Output(
    "STREAM",
    _STREAM,
    ("Copy 141867, Scale 142326, Add 143459, Triad 143444 MB/s",),
    cuts=("0.251694\n", "Add:           143459"),
    failed=(
        (
            "wrong data",
            _STREAM[: _STREAM.index("Solution")] + "Failed Validation on array a[], AvgRelAbsErr > epsilon (1.000000e-13)\n",
            "Failed Validation on array a[]",
        ),
    ),
)  # fmt: skip

_SINFO = (
    "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nbatch*       up   infinite      1  drain gpu01\n"
    "batch*       up   infinite      6   idle gpu[03-08]\n"
)
SINFO = Output(
    "sinfo",
    _SINFO,
    ("batch*: 6 idle gpu[03-08]",),
    cuts=("infinite      6", "up   infinite      1  drain"),
    failed=(
        ("nodes that do not respond", _SINFO.replace("idle gpu", "idle* gpu"), "6 idle* gpu[03-08]"),
        ("nodes that fail", _SINFO.replace("idle", "fail"), "6 fail"),
    ),
)  # fmt: skip

BENCHMARKS = (
    BURN, HPL, HPCG, MLPERF, FABRIC_TESTS, UCX, IBDIAG, NUMA, CUDA_SAMPLES, TOPOLOGY, LSTOPO, STREAM, SINFO,
)  # fmt: skip
BENCHMARK_CASES: tuple[tuple[str, Case], ...] = tuple(
    (output.name, case) for output in BENCHMARKS for case in cases(output)
)
