"""One home for all nodes, as NFS gives it, and two accounts on the same nodes.

NFS itself cannot be mounted everywhere: one folder is bound over every node's home.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from busbw.lab import enter, files, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab
LONG = str(Path(__file__).with_name("pods.yaml"))
"""Long enough for a second run beside it."""
SHORT = """\
description: One launch.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: proof, purpose: proof, collective: all_reduce, sizes: 64K, iterations: 2, warmup: 1, check: 1, timeout: 3m, stall: 90s}
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""
SECOND = 4242
"""Number of the second account."""


def there(lab: LabState, node: str, text: str) -> str:
    """What commands on the node print, with the rights of the lab's maker."""
    argv = enter.node_argv(lab, lab.node(node), ("sh", "-c", text))
    return subprocess.run(argv, check=True, timeout=400, capture_output=True, text=True).stdout


def started(
    lab: LabState, out: Path, book: str, *words: str, state: Path | None = None
) -> subprocess.Popen[str]:
    """`state`: of a machine of its own, which remembers other builds."""
    argv = (sys.executable, "-m", "busbw", "run", book, "-i", f"lab:{lab.name}", "--out", str(out))
    return subprocess.Popen(
        (*argv, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | ({} if state is None else {"XDG_STATE_HOME": str(state)}),
    )


def ended(*jobs: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """(exit status, what was printed) of each."""
    printed = [job.communicate(timeout=500)[0] for job in jobs]
    return [(job.returncode, text) for job, text in zip(jobs, printed, strict=True)]


@pytest.fixture
def one_home() -> Iterator[Path]:
    """A folder that nodes see, too: they have a /tmp of their own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as path:
        yield Path(path)


def measured(out: Path) -> list[str]:
    """What became of each case of the run."""
    result = json.loads(((out / "latest").resolve() / "run.json").read_text())
    return [case["status"] for case in result["cases"]]


@pytest.fixture
def sharing(lab_factory: Callable[..., LabState], one_home: Path) -> tuple[LabState, Path]:
    """Four nodes with one home, and where it is."""
    lab = lab_factory(nodes=4, node_ssh=False)
    home = one_home / "home"
    shutil.copytree(files.node_directory(lab, lab.node("node1")) / "home", home)
    for node in lab.nodes:
        there(lab, node.name, f"mount --bind {home} /run/node/home")
    assert {os.stat(home).st_ino} == {
        int(there(lab, node.name, "stat -c %i /run/node/home")) for node in lab.nodes
    }
    return lab, home


def test_runs_side_by_side_leave_the_keys_of_a_shared_home_as_they_were(
    sharing: tuple[LabState, Path], tmp_path: Path
) -> None:
    """Four nodes install keys in one file, for two runs at once."""
    lab, home = sharing
    keys = home / ".ssh/authorized_keys"
    with keys.open("a") as file:
        file.writelines(f"ssh-ed25519 AAAA{number:064} somebody{number}\n" for number in range(200))
    before = keys.read_bytes()
    book = tmp_path / "short.yaml"
    book.write_text(SHORT)
    jobs = [
        started(lab, tmp_path / nodes, str(book), "-w", nodes, "--temporary-keys")
        for nodes in ("node[1-2]", "node[3-4]")
    ]
    for nodes, (_, printed) in zip(("node[1-2]", "node[3-4]"), ended(*jobs), strict=True):
        assert measured(tmp_path / nodes) == ["PASS"], printed
        assert "temporary key" in printed
    assert keys.read_bytes() == before
    assert sorted(path.name for path in keys.parent.iterdir()) == ["authorized_keys"]


def test_two_machines_build_into_one_home_at_once(
    sharing: tuple[LabState, Path], tmp_path: Path
) -> None:
    """Neither knows what the other built: neither may use it, replace it, or run without its own."""
    lab, home = sharing
    book = tmp_path / "short.yaml"
    book.write_text(SHORT)
    nodes = {"login1": "node[1-2]", "login2": "node[3-4]"}
    jobs = [
        started(
            lab,
            tmp_path / "runs" / machine,
            str(book),
            *("-w", where, "--temporary-keys"),
            state=tmp_path / machine,
        )
        for machine, where in nodes.items()
    ]
    for machine, (_, printed) in zip(nodes, ended(*jobs), strict=True):
        assert measured(tmp_path / "runs" / machine) == ["PASS"], printed
        assert "another build" not in printed
    assert len(list((home / ".cache/busbw/build").iterdir())) == 2


@pytest.fixture
def shared(lab_factory: Callable[..., LabState]) -> LabState:
    """A lab with a second account on every node."""
    lab = lab_factory(built=True, nodes=4)
    passwd = lab.path / "passwd"
    passwd.write_text(
        f"{passwd.read_text()}second:x:{SECOND}:{SECOND}::/run/node/second:/bin/bash\n"
    )
    shadow = lab.path / "shadow"
    shadow.write_text(f"{shadow.read_text()}second:*:20000:0:99999:7:::\n")
    public = Path(f"{files.identity(lab)}.pub").read_text()
    for node in lab.nodes:
        directory = files.node_directory(lab, node)
        (directory / "second/.ssh").mkdir(parents=True, mode=0o700)
        (directory / "second/.ssh/authorized_keys").write_text(public)
        for path in (directory / "second", *(directory / "second").rglob("*")):
            shutil.chown(path, SECOND, SECOND)
        with (directory / "sshd_config").open("a") as file:
            file.write(
                "Match User second\nAuthorizedKeysFile /run/node/second/.ssh/authorized_keys\n"
            )
        assert node.init is not None
        processes.send(node.init, signal.SIGHUP)
    return lab


def as_second(lab: LabState) -> None:
    """From now on nodes are logged in to under the second account."""
    config = files.ssh_config(lab)
    config.write_text(f"User second\n{config.read_text()}")


def test_another_account_is_refused_with_the_holders_name_and_measures_other_nodes(
    shared: LabState, tmp_path: Path
) -> None:
    book = tmp_path / "short.yaml"
    book.write_text(SHORT)
    first = started(shared, tmp_path / "first", LONG, "-w", "node[1-2]")
    processes.wait_until(
        lambda: first.poll() is not None or bool(processes.ranks(shared, shared.nodes)),
        240,
        "the ranks of the first run",
    )
    as_second(shared)
    ((status, printed),) = ended(started(shared, tmp_path / "same", str(book), "-w", "node[1-2]"))
    ((_, text),) = ended(
        started(shared, tmp_path / "other", str(book), "-w", "node[3-4]", "--temporary-keys")
    )
    ((_, own_text),) = ended(first)
    assert (status, measured(tmp_path / "other")) == (2, ["PASS"]), (printed, text)
    assert measured(tmp_path / "first") == ["PASS", "PASS"], own_text
    (run,) = (path.name for path in (tmp_path / "first").iterdir() if not path.is_symlink())
    assert run in printed, printed
    left = there(
        shared, "node3", f"find / -xdev -user {SECOND} -path '*busbw*' -not -path '*/build/*'"
    )
    assert [line for line in left.splitlines() if "jobs" in line or "lease" in line] == []
