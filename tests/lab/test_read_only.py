"""`busbw check` and `busbw why --live` only read: every call that writes, signals or connects is
traced, on the nodes and here, for a whole run.

strace follows each node's sshd with all that it starts, and the command itself with all that it
starts. One node is clean; on the other a tool that the scripts ask writes a file, sends a signal
and opens a connection, which has to be seen: the proof can fail.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import files, persona, processes
from busbw.lab.state import LabNode, LabState, Mode
from busbw.store.own_plans import plans

sys.path.insert(0, str(Path(__file__).with_name("live")))
import jobs  # beside the programs it starts, none of which is a test

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace is not installed: apt-get install strace"
    ),
]

CHANGING = (
    "unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,truncate,ftruncate,chmod,fchmod,fchmodat,"
    "chown,fchownat,mount,umount2,reboot,mknod,mknodat,setxattr,utimensat,init_module,finit_module,delete_module,sethostname,swapoff,"
    "ptrace,process_vm_writev,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal"
)
CALLS = f"{CHANGING},kill,tkill,tgkill,open,openat,creat,execve,connect,sendto,sendmsg,sendmmsg"
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
SINKS = re.compile(
    r'"(?:/dev/(?:null|tty|kmsg|ptmx|pts/\d+|tcp/\S*)|/proc/self/(?:oom_score_adj|loginuid))"'
)
"""What may be opened for writing anywhere: it keeps nothing. The two of /proc are sshd's own, for
its session."""
ADDRESS = re.compile(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"')
CHANGERS = re.compile(
    r'"(?:systemctl",'
    r' "(?:re)?(?:start|stop|load)|scontrol|scancel|modprobe|rmmod|reboot|pkill|killall|sysctl",'
    r' "-w|ip", "link", "set'
    r"|nvidia-smi\", \"(?:-r|-pm|-pl|-c|-mig|--gpu-reset))"
)
"""Programs that change something without a call of their own that shows it."""
PLANTED = """\
#!/bin/bash
if [ ! -e /run/node/home/planted ]; then
  echo x >/run/node/home/planted; kill -CONT 1; exec 9<>/dev/tcp/{0}/22; exec 9<&-
fi
PATH=/run/node/answering:$PATH exec nvidia-smi "$@"
"""


@dataclass(frozen=True)
class Trace:
    """What one strace saw."""

    lines: tuple[str, ...]
    there: int | None = None
    """The process that was followed, where it ran already."""

    def found(
        self, kept: Path | None, peers: tuple[str, ...], port: int | None = None
    ) -> list[str]:
        """Every call that does more than read: but for files in `kept` and connections to `peers`
        (at `port`; None = at any)."""
        # All that the session started; the process that was there before (sshd) is not to be
        # signalled either.
        own = {line.split()[0] for line in self.lines} - {str(self.there)}
        return [line for line in self.lines if self._more(line, own, kept, peers, port)]

    def _more(
        self, line: str, own: set[str], kept: Path | None, peers: tuple[str, ...], port: int | None
    ) -> bool:
        call = re.match(r"\d+ +(\w+)\((.*)", line)
        if call is None or re.search(r"\) += -1 E(?!INPROGRESS)", line):
            return False
        name, rest = call[1], call[2]
        inside = kept is not None and (f'"{kept}/' in rest or f"<{kept}" in rest)
        if name == "execve":
            return CHANGERS.search(rest) is not None
        if name in ("open", "openat", "creat"):
            return WRITES.search(rest) is not None and not SINKS.search(rest) and not inside
        if name in ("kill", "tkill", "tgkill"):
            # `timeout` may end what it started, and then its own process group, 0; signal 0 sends
            # nothing.
            target = re.search(r"(\d+) in strace's PID NS", rest)
            harmless = rest.startswith("0, ") or re.search(r", 0\)", rest)
            return not (harmless or (target is not None and target[1] in own))
        if name in ("connect", "sendto", "sendmsg", "sendmmsg"):
            address = ADDRESS.search(rest)
            at = re.search(r"port=htons\((\d+)\)", rest)
            return address is not None and not (
                (address[1] or address[2]) in peers
                and (port is None or (at is not None and int(at[1]) == port))
            )
        return not inside


@contextmanager
def followed(node: LabNode, file: Path) -> Iterator[None]:
    """strace on a node's sshd and all that it starts from now on."""
    assert node.init is not None
    pid = node.init.pid
    argv = (
        "strace",
        "-f",
        "-qq",
        "-s",
        "300",
        "--decode-pids=pidns",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(file),
        "-p",
        str(pid),
    )
    tracer = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        processes.wait_until(
            lambda: f"TracerPid:\t{tracer.pid}\n" in Path(f"/proc/{pid}/status").read_text(),
            20,
            "strace to attach",
        )
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)


def traced(lab: LabState, folder: Path, *words: str) -> dict[str, Trace]:
    """`busbw WORDS…` on the lab: what was seen of it on each node, and here under the name `own`.
    It keeps its run in `folder`/runs."""
    folder.mkdir()
    own = (
        "strace",
        "-f",
        "-y",
        "-qq",
        "-s",
        "300",
        "--seccomp-bpf",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(folder / "own"),
    )
    argv = (
        *own,
        sys.executable,
        "-m",
        "busbw",
        *words,
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(folder / "runs"),
    )
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    first, second = lab.nodes
    with followed(first, folder / first.name), followed(second, folder / second.name):
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    assert done.returncode in (0, 1, 3), done
    assert [*(folder / "runs").glob("2*/raw")], done
    there = {
        "own": None,
        **{node.name: node.init.pid for node in lab.nodes if node.init is not None},
    }
    return {
        name: Trace(tuple((folder / name).read_text(errors="replace").splitlines()), pid)
        for name, pid in there.items()
    }


@pytest.fixture(scope="module")
def lab(
    needs_lab: None, make_labs: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:
    """Two nodes that show GPUs and adapters; nvidia-smi of node2 does more than answer, once."""
    with make_labs(tmp_path_factory.mktemp("read-only") / "labs") as up:
        state: LabState = up(nodes=2, persona=persona.load("h100"))
        if state.mode is not Mode.ROOT:
            pytest.skip("strace follows the nodes' sshd as root only")
        directory = files.node_directory(state, state.node("node2"))
        (directory / "answering").mkdir()
        (directory / "answering/nvidia-smi").symlink_to("../hardware/tool.sh")
        program = directory / "bin/nvidia-smi"
        program.unlink()
        program.write_text(PLANTED.format(state.node("node1").address))
        program.chmod(0o755)
        yield state


def verify(lab: LabState, seen: dict[str, Trace], runs: Path) -> None:
    """The clean node was only read, the planted one was caught, and here nothing was written but
    the run, nobody reached but the nodes' sshd."""
    first, second = lab.nodes
    for node in lab.nodes:
        assert sum(" execve(" in line for line in seen[node.name].lines) > 30, (
            "strace saw the script at work"
        )
    itself = ("127.0.0.1", "::1", "0.0.0.0", "::")
    assert seen["node1"].found(None, (*itself, first.address)) == []
    told = "\n".join(seen["node2"].found(None, (*itself, second.address)))
    assert 'openat(AT_FDCWD, "/run/node/home/planted", O_WRONLY' in told, told
    assert "kill(1 /* " in told, told
    assert f'inet_addr("{first.address}")' in told, told
    assert len(told.splitlines()) == 3, told
    # Making its own name space, and the lab's names in it, is how busbw enters a lab; on a real
    # cluster there is nothing of it.
    entering = [
        line
        for line in seen["own"].lines
        if re.search(r'mount\("none", "/"|mount\("[^"]*/hosts", "/etc/hosts"', line)
    ]
    assert len(entering) == 2
    # That this account made the plan is remembered, so that no stranger's plan reaches a node; and
    # packaged tables are stored for the next start.
    own = seen["own"].found(runs, (first.address, second.address), 22)
    allowed = (f'"{runs}"', f'"{plans()}', f'"{runs.parent / "cache"}')
    assert [
        line for line in own if line not in entering and not any(part in line for part in allowed)
    ] == []


def test_a_whole_check_only_reads(lab: LabState, tmp_path: Path) -> None:
    seen = traced(lab, tmp_path / "check", "check", "-p", "infiniband")
    verify(lab, seen, tmp_path / "check/runs")


def test_a_whole_look_at_a_live_job_only_reads(lab: LabState, tmp_path: Path) -> None:
    (files.node_directory(lab, lab.node("node2")) / "home/planted").unlink(missing_ok=True)
    with jobs.job(lab, tmp_path / "job", per_node=1, RING_RAS="off") as job:
        job.await_log("step 5")
        before = [job.process(rank) for rank in range(2)]
        job.signal(1, signal.SIGSTOP)
        seen = traced(lab, tmp_path / "why", "why", "--live", "--interval", "1")
        assert [job.process(rank) for rank in range(2)] == before
        assert processes.stopped(before[1])
    verify(lab, seen, tmp_path / "why/runs")
