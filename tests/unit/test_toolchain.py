"""Finding CUDA and NCCL by running the real look here, over trees laid out as packages, tarballs
and wheels lay them out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from busbw.building import recipe
from busbw.checks import toolchain
from busbw.checks.toolchain import Toolchain

HEADER = (
    '#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 5\n#define NCCL_SUFFIX ""\n'
)


def looked(tmp_path: Path, **variables: str) -> Toolchain:
    """What the look finds with these variables, a home of its own, and only this tmp_path's
    programs before the system's."""
    environment = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        **variables,
    }
    done = subprocess.run(
        toolchain.command().argv,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return toolchain.parse("n1", done.stdout)


def nccl(home: Path, *, link: bool) -> Path:
    (home / "include").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "include/nccl.h").write_text(HEADER)
    (home / "lib/libnccl.so.2").touch()
    if link:
        (home / "lib/libnccl.so").symlink_to("libnccl.so.2")
    return home


def cuda(home: Path, version: str = "12.8") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "include").mkdir()
    (home / "include/cuda_runtime.h").touch()
    (home / "bin/nvcc").write_text(
        f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.93'\n"
    )
    (home / "bin/nvcc").chmod(0o755)
    return home


def test_the_homes_that_a_login_names_win(tmp_path: Path) -> None:
    home, toolkit = nccl(tmp_path / "nccl", link=True), cuda(tmp_path / "cuda")
    seen = looked(tmp_path, NCCL_HOME=str(home), CUDA_HOME=str(toolkit))
    assert (seen.cuda_home, seen.cuda) == (str(toolkit), "12.8")
    assert (seen.nccl_home, seen.nccl, seen.nccl_link) == (str(home), "2.27.5", True)
    assert seen.nccl_library == f"{home}/lib/libnccl.so.2"


def test_a_wheel_without_its_link_is_found_and_reported_to_lack_it(tmp_path: Path) -> None:
    home = nccl(tmp_path / "home/.local/lib/python3.11/site-packages/nvidia/nccl", link=False)
    seen = looked(tmp_path, NCCL_HOME=str(tmp_path / "not-there"))
    if seen.nccl_home != str(home):
        pytest.skip(f"this machine has an NCCL of its own at {seen.nccl_home}")
    assert (seen.nccl, seen.nccl_link) == ("2.27.5", False)


def test_a_virtual_environments_wheel_is_found(tmp_path: Path) -> None:
    home = nccl(tmp_path / "venv/lib/python3.12/site-packages/nvidia/nccl", link=False)
    seen = looked(tmp_path, VIRTUAL_ENV=str(tmp_path / "venv"))
    if seen.nccl_home in ("/usr", "/usr/local"):
        pytest.skip("this machine has an NCCL of its own")
    assert seen.nccl_home == str(home)


def test_only_the_gpus_present_are_built_for(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-smi").write_text("#!/bin/sh\nprintf '9.0\\n9.0\\n8.0\\n[N/A]\\n'\n")
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    seen = looked(tmp_path)
    assert seen.capabilities == ("8.0", "9.0")
    assert (
        toolchain.gencode(seen.capabilities)
        == "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"
    )
    assert toolchain.gencode(()) is None


def test_a_build_links_nccl_by_one_layout_whatever_the_nodes_is(tmp_path: Path) -> None:
    home = nccl(tmp_path / "wheel", link=False)
    subprocess.run(
        (
            "cc",
            "-shared",
            "-o",
            str(home / "lib/libnccl.so.2"),
            "-x",
            "c",
            "-Wl,-soname,libnccl.so.2",
            "-",
        ),
        input=b"int f(void){return 0;}",
        check=True,
    )
    makefile = (
        b"build/all_reduce_perf: main.c\n\tmkdir -p build && cc -o $@ main.c -I$(NCCL_HOME)/include"
        b" -L$(NCCL_HOME)/lib -lnccl\n"
    )
    sources = recipe.archive(
        {
            "Makefile": makefile,
            "main.c": b"#include <nccl.h>\nint f(void);\nint main(void) { return f(); }\n",
        }
    )
    plan = recipe.plan(
        sources,
        (),
        "4.1.4",
        str(tmp_path / "root"),
        nccl=(str(home), str(home / "lib/libnccl.so.2"), "2.27.5"),
        run_path=str(home / "lib"),
    )
    command = recipe.build_command(plan)
    build = subprocess.run(
        command.argv, input=command.stdin, capture_output=True, timeout=60, check=False
    )
    assert build.returncode == 0, build.stderr
    assert (
        subprocess.run(
            (f"{plan.directory}/build/all_reduce_perf",), env={}, timeout=60, check=False
        ).returncode
        == 0
    ), "no LD_LIBRARY_PATH"
    program_output = subprocess.run(
        recipe.prove_command(f"{plan.directory}/build").argv,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    proof = recipe.parse_proof("n1", program_output)
    assert (proof.nccl, proof.not_found) == (str(home / "lib/libnccl.so.2"), ())
    assert proof.nccl_hash is not None


def test_sources_that_came_only_in_part_are_not_built(tmp_path: Path) -> None:
    whole = recipe.archive(
        {
            "Makefile": b"build/x_perf:\n\tmkdir -p build && touch $@\n",
            "big": bytes(range(256)) * 400,
        }
    )
    plan = recipe.plan(whole, (), "4.1.4", str(tmp_path / "root"))
    command = recipe.build_command(plan)
    assert command.stdin is not None
    build = subprocess.run(
        command.argv,
        input=command.stdin[: len(whole) // 2],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert build.returncode == 70
    assert list((tmp_path / "root/build").iterdir()) == []
