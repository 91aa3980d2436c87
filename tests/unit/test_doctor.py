"""`busbw doctor` and `busbw version`: each thing that is missing is named with what adds it, and
the exit status says whether any way is left. The programs are scripts in a PATH of the test's own."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from busbw.cli import doctor, main, version
from busbw.lab import requirements

ANSWERS = {
    "ssh": "echo 'OpenSSH_9.2p1 Debian, OpenSSL 3.0.19' >&2",
    "kubectl": 'case "$*" in current-context|*current-context) echo prod;; *readyz*) echo ok;;'
    " *) echo 'Client Version: v1.32.4';; esac",
    "sinfo": "echo 12; echo 4",
    "salloc": "exit 1",
    "srun": "echo slurm 23.11.4",
    "nvidia-smi": "printf 'GPU 0: NVIDIA H100 (UUID: x)\\nGPU 1: NVIDIA H100 (UUID: y)\\n'",
    "mpirun": "echo 'mpirun (Open MPI) 4.1.4'",
}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs, keys or agent; the folder of its programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(requirements, "_PATH", str(programs))
    monkeypatch.chdir(tmp_path)
    return programs


def install(programs: Path, name: str, text: str = "") -> None:
    path = programs / name
    path.write_text(f"#!/bin/sh\n{text or ANSWERS[name]}\n")
    path.chmod(0o755)


def point(name: str) -> doctor.Point:
    return next(each for each in doctor.examine().points if each.name == name)


def test_a_machine_with_nothing_is_not_ready_and_each_way_has_its_next_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor"]) == 3
    lines = capsys.readouterr().out.splitlines()
    for name in ("ssh", "kubectl", "slurm", "gpus", "lab", "mpirun"):
        assert [line for line in lines if line.startswith(f"✗ {name} ")], name
        assert [line for line in lines if line.startswith(f"  {name} ") and line.split()[1:]], name
    assert lines[-1].startswith("busbw: NOT READY")
    assert "openssh-client" in point("ssh").next_step


def test_every_way_that_works_is_ready_with_its_first_command(
    bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ANSWERS:
        install(bare, name)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").touch()
    (tmp_path / ".ssh" / "id_ed25519.pub").touch()
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "✓ ssh        OpenSSH_9.2p1 Debian; no agent; keys: id_ed25519\n" in out
    assert "✓ kubectl    Client Version: v1.32.4; context prod is ready\n" in out
    assert "✓ slurm      the controller answers for 16 nodes\n" in out
    assert "✓ gpus       2 GPUs in this machine\n" in out
    last = "busbw: READY ssh, kubectl, slurm, gpus; next: busbw check -w 'gpu-[001-016]'\n"
    assert out.endswith(last)


@pytest.mark.parametrize(
    ("name", "program", "text", "seen"),
    [
        ("kubectl", "kubectl", "echo 'error: current-context is not set' >&2; exit 1", "not set"),
        (
            "slurm",
            "sinfo",
            "echo 'slurm_load_partitions: Unable to contact' >&2; exit 1",
            "contact",
        ),
        ("gpus", "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9", "has failed"),
    ],
)
def test_a_program_that_fails_is_no_way_and_its_own_words_are_shown(
    bare: Path, name: str, program: str, text: str, seen: str
) -> None:
    for each in ANSWERS:
        install(bare, each)
    install(bare, program, text)
    found = point(name)
    assert (found.good, seen in found.seen, bool(found.next_step)) == (False, True, True)


def test_a_cluster_that_does_not_answer_is_no_way(bare: Path) -> None:
    refused = 'case "$*" in *readyz*) echo "connection refused" >&2; exit 1;; *) echo prod 1;; esac'
    install(bare, "kubectl", refused)
    found = point("kubectl")
    assert (found.good, "connection refused" in found.seen) == (False, True)


def test_the_keys_of_a_real_agent_are_counted(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join((str(bare), os.defpath, "/usr/bin")))
    if not all(map(shutil.which, ("ssh", "ssh-agent", "ssh-add", "ssh-keygen"))):
        pytest.skip("no OpenSSH client here")
    install(bare, "ssh")
    socket = tmp_path / "agent"
    command = ["ssh-agent", "-D", "-a", str(socket)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()  # it prints its socket once that is there
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        assert point("ssh").seen.endswith("the agent has no key, no key in ~/.ssh")
        key = str(tmp_path / "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        subprocess.run(["ssh-add", "-q", key], check=True)
        assert point("ssh").seen.endswith("; the agent has 1 key")
        assert point("ssh").good
        agent.send_signal(signal.SIGTERM)


def test_few_open_files_and_a_full_disk_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    assert point("files").next_step == "ulimit -Hn 1768, as root; or fewer at once: busbw run -f 16"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    assert (point("disk").good, point("disk").next_step) == (False, "busbw run --out DIR")


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = (version.Version("pandas", None), version.Version("rich", "15"))
    monkeypatch.setattr(version, "libraries", lambda: (found, ()))
    assert point("python").seen.endswith("with 1 of 2 libraries; missing: pandas")
    assert point("python").next_step.endswith("-m pip install pandas")


def test_json_is_the_same_examination(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(bare, "nvidia-smi")
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["ready"]) == ("busbw.doctor/1", True)
    names = [each["name"] for each in document["points"] if each["good"] and each["measures"]]
    assert names == ["gpus"]


def test_versions_name_libraries_and_programs_and_what_is_not_here(
    bare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(bare, "ssh")
    install(bare, "srun", "echo 'srun: fatal: no configuration' >&2; exit 1")
    assert main(["version", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    libraries = {each["name"]: each["version"] for each in document["libraries"]}
    assert libraries["pandas"]
    assert {each["name"] for each in document["optional_libraries"]} == {"pyarrow", "zstandard"}
    programs = {each["name"]: each["version"] for each in document["programs"]}
    assert programs["ssh"] == "OpenSSH_9.2p1 Debian, OpenSSL 3.0.19"
    assert programs["srun"] == "does not start: srun: fatal: no configuration"
    assert (programs["kubectl"], programs["mpirun"]) == (None, None)
    assert main(["version"]) == 0
    assert "not here: " in capsys.readouterr().out
