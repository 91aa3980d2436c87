"""Kinds of nodes: who can run whose build, who can be launched together, and the program that
chooses between builds."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from busbw.building import node_types
from busbw.building.node_types import Group, NodeType
from busbw.checks import toolchain
from busbw.checks.software import NodeFacts
from busbw.parsers.tools.open_mpi import MpiVersion

H100 = NodeType(
    machine="x86_64",
    libc="glibc 2.35",
    mpi="4.1.7",
    mpi_home="/opt/hpcx/ompi",
    cuda="12.8",
    cuda_home="/usr/local/cuda",
    nccl="2.27.5",
    nccl_home="/usr",
    nccl_library="/usr/lib/x86_64-linux-gnu/libnccl.so.2",
    capabilities=("9.0",),
)


def test_equal_nodes_are_one_kind_and_the_head_builds_for_it() -> None:
    assert node_types.group({"a": H100, "b": H100, "c": H100}, "b") == (
        Group(H100, "b", ("a", "b", "c")),
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("machine", "aarch64", "machine aarch64 (there x86_64)"),
        ("libc", "glibc 2.31", "libc glibc 2.31 (there glibc 2.35)"),
        ("mpi", "4.1.4", "mpi 4.1.4 (there 4.1.7)"),
        ("mpi_home", "/usr/mpi", "mpi home /usr/mpi (there /opt/hpcx/ompi)"),
        ("cuda", "13.0", "cuda 13.0 (there 12.8)"),
        ("cuda_home", None, "cuda home none (there /usr/local/cuda)"),
        ("nccl", "2.28.3", "nccl 2.28.3 (there 2.27.5)"),
        ("nccl_home", "/opt/nccl", "nccl home /opt/nccl (there /usr)"),
        (
            "nccl_library",
            "/opt/libnccl.so.2",
            "nccl library /opt/libnccl.so.2 (there /usr/lib/x86_64-linux-gnu/libnccl.so.2)",
        ),
        ("capabilities", ("8.0", "9.0"), "capabilities 8.0 9.0 (there 9.0)"),
    ],
)
def test_whatever_a_build_depends_on_makes_another_kind(
    field: str, value: object, words: str
) -> None:
    other = dataclasses.replace(H100, **{field: value})  # type: ignore[arg-type]  # one field of any kind
    groups = node_types.group({"c": other, "a": H100, "b": other, "d": H100}, "a")
    assert groups == (Group(H100, "a", ("a", "d")), Group(other, "c", ("c", "b")))
    assert node_types.summary(groups) == f"2 node types: a,d; b,c: {words}"


def test_a_build_without_cuda_asks_for_none_of_it() -> None:
    text = "machine=x86_64\nlibc=glibc 2.36\ncuda_home=/usr/local/cuda\ncuda=13.0\ncapability=9.0\n"
    known = NodeFacts(
        "n1",
        "n1",
        "/root",
        0,
        "/usr/bin/mpirun",
        MpiVersion("Open MPI", "4.1.4", 4),
        "/usr",
        (),
        8,
        None,
    )
    chain = toolchain.parse("n1", text)
    assert node_types.type_of(chain, known, cuda=False) == NodeType(
        "x86_64", "glibc 2.36", "4.1.4", "/usr"
    )
    assert node_types.type_of(chain, known, cuda=True) == NodeType(
        "x86_64", "glibc 2.36", "4.1.4", "/usr", "13.0", "/usr/local/cuda", capabilities=("9.0",)
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"machine": "aarch64"},
            "aarch64, where the head is x86_64: Open MPI starts ranks of one kind of processor",
        ),
        (
            {"nccl": "2.28.3"},
            "NCCL 2.28.3, where the head has 2.27.5: NCCL refuses ranks of different versions",
        ),
        (
            {"nccl": None},
            "NCCL none, where the head has 2.27.5: NCCL refuses ranks of different versions",
        ),
        (
            {
                "cuda": "13.0",
                "libc": "glibc 2.31",
                "capabilities": ("8.0",),
                "mpi_home": "/opt/mpi",
            },
            "",
        ),
    ],
)
def test_kinds_that_cannot_be_launched_together_say_why(
    changes: dict[str, object], reason: str
) -> None:
    assert node_types.incompatible(dataclasses.replace(H100, **changes), H100) == reason  # type: ignore[arg-type]  # fields of any kind


def test_every_host_runs_the_build_of_its_own_kind_with_its_arguments_and_another_host_none(
    tmp_path: Path,
) -> None:
    for name in ("old", "new build"):
        (tmp_path / name / "build").mkdir(parents=True)
        program = tmp_path / name / "build/all_reduce_perf"
        program.write_text(f'#!/bin/sh\necho "{name}: $*"\n')
        program.chmod(0o755)
    here = Path("/proc/sys/kernel/hostname").read_text().strip()
    answers = []
    for host in (here, f"not-{here}"):
        stamp, files = node_types.dispatcher(
            {f"{tmp_path}/old": ("o1", "o2"), f"{tmp_path}/new build": (host,)},
            ("all_reduce_perf",),
        )
        assert sorted(files) == ["build/all_reduce_perf"]
        program = tmp_path / stamp / "all_reduce_perf"
        program.parent.mkdir()
        program.write_bytes(files["build/all_reduce_perf"])
        program.chmod(0o755)
        done = subprocess.run(
            (program, "-b", "8 M"), capture_output=True, text=True, timeout=60, check=False
        )
        answers.append((done.returncode, done.stdout, done.stderr))
    assert answers == [
        (0, "new build: -b 8 M\n", ""),
        (127, "", f"busbw: nothing was built for {here}\n"),
    ]
