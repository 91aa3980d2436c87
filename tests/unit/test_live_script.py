"""The collecting script on this machine: what it finds of a process with a rank, and that it reads
only."""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import RequestedJob, StallEvidence
from busbw.parsers.stall.judge import judge
from busbw.triage import offline, script
from busbw.triage.clocks import Offset, between
from busbw.triage.script import CollectOptions

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

ASKING = CollectOptions(interval_s=1)
MARK = "live-script-test"


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says it is rank 3 of 4, with a log and a dump that is none."""
    dump = tmp_path / "dump_3"
    dump.write_bytes(b"no pickle")
    environment = {
        "PATH": "/usr/bin:/bin",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "BUSBW_JOB": MARK,
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_",
    }
    with (tmp_path / "rank3.log").open("wb") as log:
        log.write(b"step 1\n[rank3]:[E] Watchdog caught collective operation timeout\n")
        log.flush()
        process = subprocess.Popen(
            ("sleep", "120"), env=environment, stdout=log, stderr=log, cwd=tmp_path
        )
    yield process
    process.kill()
    process.wait()


def run(argv: tuple[str, ...] = ("sh", "-s")) -> bytes:
    text = script.text(ASKING, "b0undary1").encode()
    # Ranks of emulated nodes on this machine, which say so, are left out.
    environment = {**os.environ, "LAB_NODE": "none"}
    done = subprocess.run(
        argv, input=text, capture_output=True, timeout=200, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def evidence(answer: bytes) -> NodeEvidence:
    return offline.of_text("here", answer, "here.txt", None, None)


def test_the_script_finds_the_rank_its_log_its_dump_and_looks_twice(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found = evidence(run())
    assert found.problem is None
    (process,) = (each for each in found.processes if each.job == f"busbw {MARK}")
    assert (process.rank, process.world, process.pid, process.directory) == (
        3,
        4,
        rank.pid,
        str(tmp_path),
    )
    assert all(
        look is not None and any(state.pid == rank.pid for state in look.states)
        for look in found.samples
    )
    assert any(
        log.path == str(tmp_path / "rank3.log") and "Watchdog caught" in log.lines[0][1]
        for log in found.logs
    )
    dump = next(each for each in found.dumps if each.path == str(tmp_path / "dump_3"))
    assert dump.dump is None
    assert dump.problem.startswith("not readable: ")
    assert found.ras[0] is not None
    assert found.host_state is not None


def test_nothing_but_listed_variables_leaves_the_node(rank: subprocess.Popen[bytes]) -> None:
    secret = subprocess.Popen(
        ("sleep", "60"),
        env={
            "RANK": "0",
            "WORLD_SIZE": "4",
            "BUSBW_JOB": MARK,
            "API_TOKEN": "hunter2",
            "PATH": "/usr/bin:/bin",
        },
    )
    try:
        answer = run()
    finally:
        secret.kill()
        secret.wait()
    assert b"RANK=0" in answer
    assert b"hunter2" not in answer


_CALLS = (
    "kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal,ptrace,process_vm_writev,unlink,unlinkat,rename,renameat,renameat2,"
    "mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchownat,mount,umount2,reboot,"
    "mknod,mknodat,setxattr,open,openat,creat,utimensat,init_module,finit_module,delete_module,swapoff,sethostname,execve"
)
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
_ALLOWED = re.compile(r'"(?:/dev/(?:null|tty|kmsg|tcp/\S*)|/proc/self/\S*)"')
_STARTERS = (
    "systemctl",
    "service",
    "scontrol",
    "scancel",
    "nvidia-smi -r",
    "modprobe",
    "rmmod",
    "reboot",
    "ip link set",
    "pkill",
    "killall",
)
strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: apt-get install strace"
)


def traced(
    argv: tuple[str, ...], text: bytes, trace: Path, where: Path | None = None
) -> tuple[bytes, list[str]]:
    """Standard output, and whatever it did that is more than reading: signals to others, files
    written outside `where`, services restarted."""
    environment = {**os.environ, "LAB_NODE": "none", "PYTHONDONTWRITEBYTECODE": "1"}
    words = (
        "strace",
        "-f",
        "-y",
        "-qq",
        "-s",
        "400",
        "-o",
        str(trace),
        "-e",
        f"trace={_CALLS}",
        *argv,
    )
    done = subprocess.run(
        words, input=text, capture_output=True, timeout=200, check=False, env=environment
    )
    assert done.returncode in (0, 1), done.stderr[-2000:]
    lines = trace.read_text(errors="replace").splitlines()
    assert len(lines) > 100, "strace saw it at work"
    # `timeout` ends a tool that hangs: its own processes are those that strace lists. Signal 0
    # sends nothing.
    own = {line.split()[0] for line in lines}
    found = []
    for line in lines:
        m = re.match(r"\d+ +(\w+)\((.*)", line)
        if m is None or re.search(r"\) += -1 ", line):
            continue
        if m[1] == "execve":
            found += [line] if any(word in m[2].replace('", "', " ") for word in _STARTERS) else []
        elif m[1] in ("open", "openat", "creat"):
            inside = where is not None and (f'"{where}/' in line or f"<{where}" in line)
            found += (
                [line] if _WRITES.search(line) and not _ALLOWED.search(line) and not inside else []
            )
        elif (signal := re.search(r"kill\(-?(\d+), (\w+)\)", line)) is None or not (
            signal[1] in own or signal[2] == "0"
        ):
            inside = where is not None and (f'"{where}' in line or f"<{where}" in line)
            found += [] if inside else [line]
    return done.stdout, found


@strace
def test_the_script_sends_no_signal_writes_no_file_and_restarts_nothing(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    # Under strace on an overloaded machine a section may meet its limit before it comes to our
    # rank: then it has not shown what it does.
    for _ in range(3):
        answer, found = traced(
            ("sh", "-s"), script.text(ASKING, "b0undary1").encode(), tmp_path / "trace"
        )
        if b"RANK=3" in answer:
            break
    assert b"RANK=3" in answer
    assert b"Watchdog caught" in answer
    assert found == []
    assert rank.poll() is None
    assert Path(f"/proc/{rank.pid}/stat").read_text().split()[2] == "S"


@strace
@pytest.mark.parametrize(
    "planted", ["echo x >{0}/planted", "kill -CONT {1}", "systemctl restart x"]
)
def test_what_would_not_only_read_is_seen(
    rank: subprocess.Popen[bytes], tmp_path: Path, planted: str
) -> None:
    (tmp_path / "systemctl").write_text("#!/bin/sh\n")
    (tmp_path / "systemctl").chmod(0o755)
    line = planted.format(tmp_path, rank.pid)
    text = script.text(ASKING, "b0undary1").replace(
        "mark done", f"PATH=$PATH:{tmp_path}; {line}\nmark done"
    )
    _, found = traced(("sh", "-s"), text.encode(), tmp_path / "trace")
    assert len(found) == 1, found


@strace
def test_the_whole_command_writes_into_its_run_directory_alone(
    rank: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No place for the cache of tables, which it writes otherwise (test_table_cache.py).
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    runs = tmp_path / "runs"
    argv = (
        sys.executable,
        "-m",
        "busbw",
        "why",
        "--live",
        "--local",
        "--pid",
        str(rank.pid),
        "--interval",
        "1",
        "--out",
        str(runs),
    )
    answer, found = traced(argv, b"", tmp_path / "trace", runs)
    assert b"busbw: " in answer
    assert found == []
    assert (runs / "latest-live/raw/live.json").is_file()
    assert rank.poll() is None


def test_stacks_are_asked_for_only_when_they_are_wanted() -> None:
    assert "stacks" not in [part.name for part in script.parts(CollectOptions())]
    assert "stacks" in [part.name for part in script.parts(CollectOptions(stacks=True))]
    assert "gdb" not in script.text(CollectOptions(), "b0undary1")


@pytest.mark.skipif(
    not shutil.which("gdb"),
    reason="gdb is not installed, and py-spy reads Python alone: apt-get install gdb",
)
def test_a_stack_reports_the_call_and_leaves_the_process_as_it_was(
    rank: subprocess.Popen[bytes],
) -> None:
    text = script.text(CollectOptions(interval_s=1, stacks=True), "b0undary1").encode()
    done = subprocess.run(
        ("sh", "-s"),
        input=text,
        capture_output=True,
        timeout=200,
        check=False,
        env={**os.environ, "LAB_NODE": "none"},
    )
    (stack,) = (each for each in evidence(done.stdout).stacks if each.pid == rank.pid)
    assert stack.main is not None
    assert any("nanosleep" in frame for frame in stack.main.frames)
    assert Path(f"/proc/{rank.pid}/stat").read_text().split()[2] == "S"


def test_what_dies_first_is_looked_at_first(rank: subprocess.Popen[bytes]) -> None:
    names = re.findall(r"^@@b0undary1 begin (\S+)", run().decode(errors="replace"), re.M)
    order = [
        "self",
        "ranks",
        "look-1",
        "ras-1",
        "gpu-1",
        "gpu-apps",
        "kernel",
        "dumps",
        "logs",
        "host",
        "disks",
        "qps",
        "wait",
    ]
    assert names == [*order, "look-2", "ras-2", "gpu-2", "self-2"]


def test_the_looks_are_as_far_apart_as_was_asked(rank: subprocess.Popen[bytes]) -> None:
    first, second = (
        look.at_s for look in evidence(run()).samples if look is not None and look.at_s is not None
    )
    assert second - first >= 0.99


@pytest.mark.skipif(
    shutil.which("busybox") is None, reason="busybox is not installed: apt-get install busybox"
)
def test_the_tools_of_busybox_give_the_same_evidence(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    busybox = str(shutil.which("busybox"))
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in subprocess.run(
        (busybox, "--list"), capture_output=True, text=True, check=True
    ).stdout.split():
        (tools / name).symlink_to(busybox)
    environment = {"PATH": str(tools), "LAB_NODE": "none"}
    text = script.text(ASKING, "b0undary1").encode()
    answer = subprocess.run(
        (busybox, "sh", "-s"),
        input=text,
        capture_output=True,
        timeout=100,
        check=True,
        env=environment,
    ).stdout
    theirs, ours = (
        next(p for p in found.processes if p.pid == rank.pid)
        for found in (evidence(answer), evidence(run()))
    )
    assert dataclasses.replace(theirs, line_no=0) == dataclasses.replace(ours, line_no=0)
    found = evidence(answer)
    assert (found.problem, found.hung_sections) == (None, ())
    assert all(look is not None and look.at_s for look in found.samples)
    assert any("Watchdog caught" in log.lines[0][1] for log in found.logs if log.lines)


def test_of_a_script_that_came_only_in_part_nothing_runs() -> None:
    whole = script.text(ASKING, "b0undary1").encode()
    done = subprocess.run(
        ("sh", "-s"),
        input=whole[: whole.rindex(b"main")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b""


def test_a_tool_that_hangs_costs_its_limit_and_not_the_rest(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\ntrap '' TERM\nsleep 60\n")
    tool.chmod(0o755)
    text = script.text(ASKING, "b0undary1").replace("ask gpu-1 8", "ask gpu-1 1").encode()
    environment = {**os.environ, "LAB_NODE": "none", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ("sh", "-s"), input=text, capture_output=True, timeout=100, check=False, env=environment
    )
    found = evidence(done.stdout)
    assert (found.problem, found.hung_sections) == (None, ("gpu-1",))
    assert found.samples[1] is not None


def test_a_site_may_collect_by_its_own_means_and_gets_the_same_judgement(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "collected"
    folder.mkdir()
    (folder / "gpu-003.txt").write_bytes(b"Welcome to gpu-003!\n" + run())
    assert offline.is_collection(folder)
    artefact = offline.load(folder)
    assert [file.node for file in artefact.files] == ["gpu-003"]
    (found,) = offline.evidence(folder, artefact).nodes
    assert any(process.job == f"busbw {MARK}" for process in found.processes)
    assert not offline.is_collection(tmp_path)


def test_an_answer_that_was_cut_off_is_reported_as_such_and_flags_nobody(
    rank: subprocess.Popen[bytes],
) -> None:
    whole = run()
    cut = whole[: whole.index(b"begin look-2")]
    found = evidence(cut)
    assert found.problem is not None
    assert found.samples[1] is None

    judged = judge(StallEvidence((found,), requested=RequestedJob(mark=MARK)))
    assert any("here: " in note for note in judged.notes)


def test_the_offset_of_a_clock_lies_between_its_bounds() -> None:
    assert between(100.0, 106.0, 100.2, 105.9) == Offset(0.0, 0.15)
    assert between(100.0, 106.0, 40.5, 45.5) == Offset(-60.0, 0.5)


def test_a_dump_travels_whole() -> None:
    fixture = Path(__file__).parents[1] / "fixtures/flight_recorder/straggler-rank1.pickle"
    data = fixture.read_bytes()
    section = (
        f"file {len(data)} 1795268613 /tmp/nccl_trace_rank_1\n{base64.b64encode(data).decode()}\n"
    )
    answer = (
        f"busbw-live 1 b0undary1\n\n@@b0undary1 begin dumps\n{section}\n@@b0undary1 end dumps"
        " 0\n\n@@b0undary1 done\n".encode()
    )
    (found,) = evidence(answer).dumps
    assert found.dump is not None
    assert (found.dump.rank, found.problem, len(found.dump.entries)) == (1, "", 5)
    assert os.path.basename(found.path) == "nccl_trace_rank_1"
