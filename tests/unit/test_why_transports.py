"""Composed outputs of libraries beside NCCL and of controllers: what fails is never silent, and what
starts, closes or goes on is no cause."""

from pathlib import Path

import pytest

from busbw.cli import main

GLOG = "0311 04:12:39.113390   41020 "
KLOG = "0311 04:12:39.113390       1 "
EVENT = '"Event occurred" object="bench/nccl-9" kind="MPIJob" type="Warning" reason='
FAILURES = {
    "device-plugin": (
        f"E{KLOG}server.go:101] x.com/mlnx_rdma device plugin unable to register with Kubelet : rpc"
        ' error: code = Unavailable desc = "dial unix kubelet.sock: connect: connection refused"'
    ),
    "event": f'I{KLOG}event.go:377] {EVENT}"ValidationError" message="must have Launcher"',
    "ucc-layer": "[17.1] [n1:41:0] cl_hier_coll.c:38 CL_HIER ERROR  coll_type 9 is not supported",
    "deepep": "Warning: DeepEP timeout for combine receive, rank 5, local_expert_idx 3, src_rank 11",
    "mscclpp": "2026-03-11 04:12:39.1 MSCCLPP 41 WARN ALGO a.cu:168 Unsupported operation: op=3",
    "mooncake": f"E{GLOG}transfer_metadata_plugin.cpp:195] RedisStoragePlugin: unable to remove x",
}
HEALTHY = {
    "gdrcopy": "INFO: Using gdrdrv backend\nwrite BW: 11922.8MB/s\nclosing gdrdrv",
    "gdrdrv": "[12.1] gdrdrv:gdrdrv_init:device registered with major number 507\n"
    "[99.1] gdrdrv:gdrdrv_release:closing",
    "event": f'I{KLOG}event.go:377] "Event occurred" type="Normal" reason="MPIJobSucceeded"',
}


def asked(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    path = tmp_path / "job.log"
    path.write_text(f"mpirun -np 16 ./job\n{text}\n")
    status = main(["why", str(path)])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_quoted_and_never_passes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = asked(tmp_path, FAILURES[name], capsys)
    assert status in (1, 3)
    assert "job.log:2" in answer


@pytest.mark.parametrize("name", HEALTHY)
def test_what_starts_and_closes_is_no_cause(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = asked(tmp_path, HEALTHY[name], capsys)
    assert "CAUSE" not in answer
    assert status in (0, 3)
