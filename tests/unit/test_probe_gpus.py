"""Each GPU by itself and checks inside a container: composed outputs through the real script, a
prefix that stands for a container."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.checks import NodeAnswer, SectionOutput, gpu_bench, matmul
from busbw.cli import main
from busbw.errors import UsageError
from busbw.model import Command, Node, Status
from busbw.transport.inside import inside, prefix_of
from busbw.transport.local import LocalTransport

FIXTURES = Path(__file__).parents[1] / "fixtures" / "bandwidth"


def answer(node: str, *, copies: str = "", diagnosis: str = "", status: int = 0) -> NodeAnswer:
    models = "".join(f"{gpu}, NVIDIA H200\n" for gpu in range(4))
    texts = {"gpu_models": models, "copies": copies, "diagnosis": diagnosis}
    sections = {
        name: SectionOutput(name, text, "" if text else "not found", status if not text else 0, 1)
        for name, text in texts.items()
    }
    return NodeAnswer(Node(node), sections, f"raw/gpus/{node}.txt", None)


COPIES = (FIXTURES / "nvbandwidth.txt").read_text()


def test_a_gpu_whose_copies_are_slower_than_its_like_is_named_with_the_direction() -> None:
    good = answer("gpu-002", copies=COPIES.replace("21.02", "55.39"))
    result = gpu_bench.copied((answer("gpu-001", copies=COPIES), good))
    assert [(check.node, check.status, check.seen) for check in result] == [
        ("gpu-001", Status.FAIL, "GPU 2 host_to_device_memcpy_ce: 21.0 of 55.4 GB/s"),
        ("gpu-002", Status.PASS, "alike"),
    ]


def test_one_gpu_alone_is_not_compared_with_itself() -> None:
    alone = (
        "nvbandwidth Version: v0.8\nRunning host_to_device_memcpy_ce.\nmatrix\n           0\n 0    "
        " 25.17\n"
    )
    (check,) = gpu_bench.copied((answer("gpu-001", copies=alone),))
    assert (check.status, check.required, check.reason) == (
        Status.UNKNOWN,
        False,
        "fewer than 3 GPUs of this model: nothing to compare",
    )


def test_a_node_without_nvbandwidth_is_not_known() -> None:
    (check,) = gpu_bench.copied((answer("gpu-001", status=127),))
    assert (check.status, check.seen) == (Status.UNKNOWN, "tool missing")


def test_what_dcgm_found_is_reported_per_test_and_gpu() -> None:
    (check,) = gpu_bench.diagnosed(
        answer("gpu-001", diagnosis=(FIXTURES / "dcgm4.json").read_text()), 2
    )
    assert (check.status, check.seen) == (
        Status.FAIL,
        "pcie GPU 1: Detected 3 PCIe replays for GPU 1, above the limit.",
    )
    (skipped,) = gpu_bench.diagnosed(answer("gpu-001"), None)
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "not asked for: --dcgm 1, 2 or 3")


def test_a_diagnosis_that_did_not_start_is_not_known_with_its_words() -> None:
    message = "Error: unable to establish a connection to the specified host: localhost\n"
    (check,) = gpu_bench.diagnosed(answer("gpu-001", diagnosis=message), 1)
    assert (check.status, check.seen, check.reason) == (
        Status.UNKNOWN,
        "did not run",
        message.strip(),
    )


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder first on PATH with an nvbandwidth that prints the composed text's test."""
    folder = tmp_path / "tools"
    folder.mkdir()
    one_test = '/^Running/ { on = ($2 == t ".") } /^nvband/ || on'
    (folder / "nvbandwidth").write_text(
        f"#!/bin/sh\nexec awk -v t=\"$2\" '{one_test}' {FIXTURES}/nvbandwidth.txt\n"
    )
    (folder / "nvbandwidth").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return folder


def report(folder: Path, name: str) -> Any:
    return json.loads((folder / "runs/latest" / name).read_text())


def test_the_command_asks_every_node_and_names_the_gpu(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(
        ["check", "--gpus", "-w", "gpu-001", "-p", "tcp", "--transport", "local", "--force"]
    )
    out = capsys.readouterr().out
    assert status == 1, out
    assert "GPU 2 host_to_device_memcpy_ce: 21.0 of 55.4 GB/s" in out
    assert [
        c["status"]
        for c in report(tmp_path, "gpus.json")["checks"]
        if c["check_id"].startswith("gpu.")
    ] == [
        "SKIPPED",
        "FAIL",
        "UNKNOWN",
    ]


TORCH = """\
bfloat16 = None


class Matrix:
    def __matmul__(self, other):
        return self


def randn(*shape, device, dtype):
    assert shape == (8192, 8192) and device == "cuda"
    return Matrix()


class Event:
    def __init__(self, enable_timing):
        self.gpu = cuda.gpu

    def record(self):
        pass

    def elapsed_time(self, end):
        return 128.0 if self.gpu == 2 else 64.0


class cuda:
    gpu = 0
    Event = Event

    @staticmethod
    def device_count():
        return 4

    @staticmethod
    def set_device(gpu):
        cuda.gpu = gpu

    @staticmethod
    def synchronize():
        pass

    @staticmethod
    def get_device_name(gpu):
        return "NVIDIA H200"
"""
"""Stands for PyTorch with four GPUs of which one is half as fast; what runs on it is the program
that nodes are sent."""


def test_a_gpu_whose_matrix_product_is_slower_than_its_like_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    status = main(
        ["check", "--gpus", "-w", "gpu-001", "-p", "tcp", "--transport", "local", "--force"]
    )
    out = capsys.readouterr().out
    (result,) = (
        c for c in report(tmp_path, "gpus.json")["checks"] if c["check_id"] == "gpu.matmul"
    )
    assert (status, result["status"], result["seen"]) == (
        1,
        "FAIL",
        "GPU 2: 343.6 of 687.2 TFLOP/s",
    ), out


@pytest.mark.parametrize(
    ("stdout", "stderr", "status", "result", "reason"),
    [
        (
            "",
            "sh: python3: not found\n",
            127,
            "tool missing",
            "python3 is not installed on the node or not on PATH",
        ),
        (
            "",
            "no torch: No module named 'torch'\n",
            3,
            "not run",
            "Python on the node has no PyTorch: no torch: No module named 'torch'",
        ),
        ("", "", 0, "not run", "PyTorch did not get through, or sees no GPU: exit status 0"),
        (
            "",
            "",
            124,
            "timed out",
            "python3 -c 'import torch; …' did not end within its time limit",
        ),
        (
            "matmul 0 687.3 NVIDIA H200\n",
            "",
            0,
            "GPU 0: 687.3 TFLOP/s",
            "fewer than 3 GPUs of this model: nothing to compare",
        ),
    ],
)
def test_without_a_product_to_compare_the_answer_is_unknown_with_its_reason_and_decides_nothing(
    stdout: str, stderr: str, status: int, result: str, reason: str
) -> None:
    section = SectionOutput("matmul", stdout, stderr, status, 1)
    (check,) = matmul.compared(
        (NodeAnswer(Node("n1"), {"matmul": section}, "raw/gpus/n1.txt", None),)
    )
    assert (check.status, check.seen, check.reason, check.required) == (
        Status.UNKNOWN,
        result,
        reason,
        False,
    )


def test_a_product_is_judged_against_all_gpus_of_its_model_on_all_nodes() -> None:
    def printed(node: str, *rates: float) -> NodeAnswer:
        text = "".join(f"matmul {gpu} {rate} NVIDIA H200\n" for gpu, rate in enumerate(rates))
        return NodeAnswer(
            Node(node),
            {"matmul": SectionOutput("matmul", text, "", 0, 1)},
            f"raw/gpus/{node}.txt",
            None,
        )

    first, second = matmul.compared((printed("n1", 700.0, 690.0), printed("n2", 710.0, 500.0)))
    assert (first.status, first.seen) == (Status.PASS, "alike")
    assert (second.status, second.seen) == (Status.FAIL, "GPU 1: 500 of 695 TFLOP/s")


@pytest.fixture
def container(tmp_path: Path) -> Callable[[str], str]:
    """A prefix that stands for a container: another environment, and a mark of having been
    entered."""
    program = tmp_path / "enter"
    program.write_text(
        f'#!/bin/sh\necho "$1" >> {tmp_path}/entered\nIN_CONTAINER=yes; export IN_CONTAINER\nexec'
        ' "$@"\n'
    )
    program.chmod(0o755)
    return lambda more: f"{program} {more}".strip()


def test_a_prefix_stands_before_every_command_and_passes_standard_input_on(
    container: Callable[[str], str],
) -> None:
    transport = inside(LocalTransport(), prefix_of(container("env")))
    session = transport.connect(Node("n"), 5.0)
    done = session.run(Command(("sh", "-s"), b"echo inside $IN_CONTAINER", timeout_s=10))  # type: ignore[union-attr]  # local never refuses
    assert (done.exit_status, done.out()) == (0, "inside yes\n")


def test_check_runs_inside(
    container: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    main(
        [
            "check",
            "-w",
            "gpu-001",
            "-p",
            "tcp",
            "--transport",
            "local",
            "--inside",
            container("env"),
        ]
    )
    capsys.readouterr()
    assert (tmp_path / "entered").read_text().startswith("env\n")
    assert report(tmp_path, "check.json")["checks"]


_DOCKER = """\
#!/bin/sh
echo "$*" >>{log}
[ "$1 $2 $3" = "exec -i train" ] || {{ echo "docker: no such container" >&2; exit 1; }}
shift 3; ulimit -S -l 64; LD_LIBRARY_PATH=/opt/job/lib NCCL_DEBUG=INFO exec "$@"
"""
_ENROOT = """\
#!/bin/sh
echo "$*" >>{log}
[ "$1 $2" = "exec 4711" ] || {{ echo "[ERROR] No such process" >&2; exit 1; }}
shift 2; ulimit -S -l 64; LD_LIBRARY_PATH=/opt/job/lib NCCL_DEBUG=INFO exec "$@"
"""
"""Stand for docker and enroot, as far as entering a running container goes: other limits, other
environment. No container is made."""


@pytest.mark.parametrize(
    ("name", "program", "prefix"),
    [("docker", _DOCKER, "docker exec -i train"), ("enroot", _ENROOT, "enroot exec 4711")],
)
def test_limits_and_environment_are_those_of_the_container(
    name: str,
    program: str,
    prefix: str,
    tools: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tools / name).write_text(program.format(log=tmp_path / "log"))
    (tools / name).chmod(0o755)

    main(["check", "-w", "gpu-001", "-p", "tcp", "--transport", "local", "--inside", prefix])
    capsys.readouterr()
    by_check = {c["check_id"]: c["seen"] for c in report(tmp_path, "check.json")["checks"]}
    assert (by_check["os.limits.memlock"], by_check["sw.env_leftovers"]) == ("64 KiB", "NCCL_DEBUG")
    assert (tmp_path / "log").read_text().startswith(f"{prefix.partition(' ')[2]} sh")


def test_a_container_that_is_not_there_is_never_a_pass(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tools / "docker").write_text(_DOCKER.format(log=tmp_path / "log"))
    (tools / "docker").chmod(0o755)

    assert main(
        [
            "check",
            "-w",
            "gpu-001",
            "-p",
            "tcp",
            "--transport",
            "local",
            "--inside",
            "docker exec -i other",
        ]
    ) in (1, 3)
    assert "PASS" not in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    "text", ["docker exec train", "podman exec --tty train", "'open", "", "  "]
)
def test_a_prefix_that_cannot_work_is_refused_before_any_node_is_asked(text: str) -> None:
    with pytest.raises(UsageError):
        prefix_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "docker exec -i train",
        "docker exec -it train",
        "docker exec --interactive train",
        "nsenter -t 1 -a",
    ],
)
def test_a_prefix_that_passes_standard_input_on_is_taken(text: str) -> None:
    assert prefix_of(text) == tuple(text.split())


def test_two_checks_at_once_are_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--gpus", "--path", "-w", "a", "--transport", "local"]) == 2
    assert "--fabric, --path, --gpus and --links are four checks" in capsys.readouterr().err
