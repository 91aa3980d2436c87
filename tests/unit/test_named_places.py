"""Which node, rank, device or pod a line names. All lines are composed in the wordings of their writers."""

import pytest

from busbw.parsers.findings.named_places import places

LINES = (
    ("[2026-03-11T03:13:31.233] error: Nodes gpu-031 not responding, setting DOWN", ("gpu-031",)),
    ("[2026-03-11T03:13:31.240] Requeuing JobId=80511 due to failure of node gpu-031", ("gpu-031",)),
    ("   NodeName=gpu-044 Arch=x86_64 CoresPerSocket=48", ("gpu-044",)),
    ("error: _slurm_rpc_node_registration node=gpu-044: Prolog failed", ("gpu-044",)),
    ("[2026-03-11T04:31:00] drain_nodes: node gpu-044 state set to DRAIN", ("gpu-044",)),
    ("srun: error: gpu-07: task 25: Out Of Memory", ("rank 25", "gpu-07")),
    ("12m Warning FailedScheduling pod/llama-worker-5 0/12 nodes are available", ("pod llama-worker-5",)),
    ("Warning BackOff 4s kubelet Back-off restarting failed container pytorch in pod trainer-2_ml(0b1d)", ("pod trainer-2",)),
    ('{"level": "error", "pod": "infer-7f9", "msg": "worker crashed"}', ("pod infer-7f9",)),
    ("[cn105:14791:0:14791] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_2:1/IB (synd 0x15)", ("cn105", "mlx5_2")),
    ("[gpu-n17:02211] *** Process received signal ***", ("gpu-n17",)),
    ("[13850.9] amdgpu 0000:42:00.0: amdgpu: GPU reset begin!", ("GPU 0000:42:00.0",)),
    ("nvidia-nvswitch3: SXid (PCI:0000:0a:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", ("NVSwitch 0000:0a:00.0",)),
    ("/job:jax_worker/replica:0/task:5 has been set to ERROR in coordination service: UNAVAILABLE", ("task 5",)),
    ("LustreError: 167-0: scratch-OST001a-osc-ffff8820: This client was evicted by scratch-OST001a;", ("file server scratch-OST001a",)),
    ("Mar 11 02:20:10.01 leaf07 NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet144 oper state set", ("leaf07", "port Ethernet144")),
)  # fmt: skip


@pytest.mark.parametrize(("line", "named"), LINES)
def test_a_line_names_its_places(line: str, named: tuple[str, ...]) -> None:
    assert set(places(line)) == set(named)


@pytest.mark.parametrize(
    "line",
    [
        "[12:33:01:22] step 3",
        "[rank0:4]: step 3",
        "numa node 1 has no memory; node0 neither",
        "Memory access fault by GPU node-5 (Agent handle: 0x56)",
        "0/12 nodes are available: 4 Insufficient nvidia.com/gpu",
        "srun: error: tasks 0-7: Killed",
        "[error:12:34] nothing",
    ],
)
def test_what_is_no_place_is_none(line: str) -> None:
    assert places(line) == ()


def test_a_rank_whose_watchdog_ran_out_waits_and_is_no_place() -> None:
    line = (
        "[rank3]:[E311 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=91234, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600029"
    )
    assert places(line) == ()
