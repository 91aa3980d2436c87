"""`busbw doctor`: in which ways this machine can measure a cluster, what is missing for the others,
and the command that adds it. Read-only: no node is contacted.

Exit status: 0 = it can work in at least one way, 3 = in none.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from busbw.cli import version
from busbw.text import whole_number

SCHEMA = "busbw.doctor/1"
_LEAST_FREE_BYTES = 1 << 30
"""Of a run directory's disk: one stream of a node may keep 64 MiB, and a survey keeps many."""
_NODES = 1000
"""Nodes whose connections a usual limit of open files must carry; as in docs/scale.md."""
_FORKS = 64
"""The default of `--forks`."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that was looked at."""

    name: str
    good: bool
    seen: str
    next_step: str
    """The command that adds what is missing; empty where it is good."""
    measures: str | None = None
    """What to start with in this way; None = no way to measure, a property of the machine."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What `busbw doctor --json` prints."""

    schema: str
    ready: bool
    """At least one way to measure works."""
    points: tuple[Point, ...]


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw doctor`."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Look, and print it. 0 = it can work in at least one way, 3 = in none."""
    from busbw.codec import dump_json

    result = examine()
    sys.stdout.write(dump_json(result) if args.json else as_text(result))
    return 0 if result.ready else 3


def examine() -> Examination:
    """This machine, now."""
    points = tuple(look() for look in LOOKS)
    return Examination(SCHEMA, any(each.good and each.measures for each in points), points)


def as_text(result: Examination) -> str:
    """A table, the commands that add what is missing, and what to start with."""
    ways = [each for each in result.points if each.measures is not None]
    machine = [each for each in result.points if each.measures is None]
    lines = ["ways to measure", *map(_row, ways), "this machine", *map(_row, machine)]
    missing = [each for each in result.points if not each.good]
    if missing:
        lines += ["what is missing", *(f"  {each.name:10} {each.next_step}" for each in missing)]
    good = [each for each in ways if each.good]
    names = ", ".join(each.name for each in good)
    lines.append(
        f"busbw: READY {names}; next: {good[0].measures}"
        if good
        else "busbw: NOT READY no way to measure from this machine; logs can be read: busbw why FILE"
    )
    return "".join(f"{line}\n" for line in lines)


def _row(point: Point) -> str:
    return f"{'✓' if point.good else '✗'} {point.name:10} {point.seen}"


def _ssh() -> Point:
    start = "busbw check -w 'gpu-[001-016]'"
    program = version.program_version("ssh")
    if program is None:
        return Point("ssh", False, "no program ssh", _apt("openssh-client"), start)
    keys = _agent_keys()
    files = sorted(path.name for path in Path.home().glob(".ssh/id_*") if path.suffix != ".pub")
    client = program.partition(",")[0]
    if keys:
        return Point("ssh", True, f"{client}; the agent has {_counted(keys, 'key')}", "", start)
    if files:
        return Point("ssh", True, f"{client}; no agent; keys: {', '.join(files)}", "", start)
    agent = "no agent" if keys is None else "the agent has no key"
    step = "ssh-keygen -t ed25519 && ssh-copy-id USER@NODE"
    return Point("ssh", False, f"{client}; {agent}, no key in ~/.ssh", step, start)


def _agent_keys() -> int | None:
    """Keys that the agent holds; None = there is no agent."""
    from busbw.lab.requirements import find

    program = find("ssh-add")
    if program is None or not os.environ.get("SSH_AUTH_SOCK"):
        return None
    exit_status, text = version.printed(program, "-l")
    if exit_status not in (0, 1):  # 1 = it has no key, 2 = it cannot be reached
        return None
    return sum(bool(line.strip()) for line in text.splitlines()) if exit_status == 0 else 0


def _kubectl() -> Point:
    start = "busbw run --launcher mpijob --image IMAGE --node-count 4 --dry-run"
    program = version.program_version("kubectl")
    if program is None:
        return Point("kubectl", False, "no program kubectl", _KUBECTL, start)
    exit_status, text = version.printed("kubectl", "config", "current-context")
    if exit_status != 0:
        return Point("kubectl", False, f"{program}; {_first(text)}", _CONTEXT, start)
    context = _first(text)
    exit_status, text = version.printed("kubectl", "get", "--raw", "/readyz", _KUBECTL_LIMIT)
    if exit_status != 0:
        step = f"kubectl --context {context} cluster-info"
        return Point("kubectl", False, f"context {context}: {_first(text)}", step, start)
    return Point("kubectl", True, f"{program}; context {context} is ready", "", start)


_KUBECTL = "put kubectl on the PATH: https://kubernetes.io/docs/tasks/tools/"
_CONTEXT = "kubectl config use-context NAME; names: kubectl config get-contexts"
_KUBECTL_LIMIT = "--request-timeout=5s"


def _slurm() -> Point:
    from busbw.lab.requirements import find

    start = "salloc -N 4 --exclusive busbw run --launcher srun"
    missing = [name for name in ("sinfo", "salloc", "srun") if find(name) is None]
    if missing:
        seen = f"no program {', '.join(missing)}"
        return Point("slurm", False, seen, "run busbw on a login node of the cluster", start)
    exit_status, text = version.printed("sinfo", "--noheader", "--format=%D")
    nodes = sum(whole_number(word) or 0 for word in text.split())
    if exit_status != 0 or not nodes:
        seen = f"no controller answers: {_first(text)}"
        return Point("slurm", False, seen, "scontrol ping", start)
    return Point("slurm", True, f"the controller answers for {_counted(nodes, 'node')}", "", start)


def _gpus() -> Point:
    from busbw.lab.requirements import find

    start = "busbw check --local"
    if find("nvidia-smi") is None:
        step = "none needed where this machine has no GPU; else install NVIDIA's driver"
        return Point("gpus", False, "no program nvidia-smi", step, start)
    exit_status, text = version.printed("nvidia-smi", "-L")
    gpus = sum(line.startswith("GPU ") for line in text.splitlines())
    if exit_status != 0 or not gpus:
        return Point("gpus", False, _first(text), "nvidia-smi", start)
    return Point("gpus", True, f"{_counted(gpus, 'GPU')} in this machine", "", start)


def _lab() -> Point:
    from busbw.errors import LabError
    from busbw.lab import bringup, requirements

    start = "busbw lab up -n 4"
    lacking = requirements.missing()
    if lacking:
        seen = f"missing packages: {', '.join(lacking)}"
        return Point("lab", False, seen, requirements.apt_command(lacking), start)
    try:
        mode, _ = bringup.choose_mode(None)
    except LabError as error:
        return Point("lab", False, error.what, error.next_step, start)
    return Point("lab", True, f"emulated nodes, {mode.value} mode", "", start)


def _python() -> Point:
    required, _ = version.libraries()
    lacking = [each.name for each in required if each.version is None]
    seen = f"{platform.python_version()} with {len(required) - len(lacking)} of {len(required)} libraries"
    if lacking:
        words = " ".join(lacking)
        seen = f"{seen}; missing: {', '.join(lacking)}"
        return Point("python", False, seen, f"{sys.executable} -m pip install {words}")
    return Point("python", True, seen, "")


def _hyperscan() -> Point:
    if importlib.util.find_spec("hyperscan") is None:
        step = f"{sys.executable} -m pip install hyperscan"
        return Point("hyperscan", False, "not installed: logs are read slower", step)
    return Point("hyperscan", True, "logs are searched with it", "")


def _pyarrow() -> Point:
    if importlib.util.find_spec("pyarrow") is None:
        step = f"{sys.executable} -m pip install pyarrow"
        return Point("pyarrow", False, "not installed: no Parquet, CSV only", step)
    return Point("pyarrow", True, "tables can be written as Parquet", "")


def _mpirun() -> Point:
    found = version.program_version("mpirun")
    if found is None:
        step = f"none needed unless this machine is itself a node: {_apt('openmpi-bin')}"
        return Point("mpirun", False, "no program mpirun", step)
    return Point("mpirun", True, found, "")


def _disk() -> Point:
    folder = Path("runs") if Path("runs").is_dir() else Path()
    free = shutil.disk_usage(folder).free
    seen = f"{free / 1e9:.1f} GB free for runs in {folder.absolute()}"
    if free < _LEAST_FREE_BYTES:
        return Point("disk", False, f"{seen}; a run may need 1 GB", "busbw run --out DIR")
    if not os.access(folder, os.W_OK):
        return Point("disk", False, f"{folder.absolute()} is not writable", "busbw run --out DIR")
    return Point("disk", True, seen, "")


def _files() -> Point:
    from busbw.transport.fanout import files_needed

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = files_needed(_NODES, _FORKS)
    if most == resource.RLIM_INFINITY or most >= needed:
        limit = "no limit" if most == resource.RLIM_INFINITY else f"{most:,} allowed"
        return Point("files", True, f"{limit}; {_NODES:,} nodes need {needed:,}", "")
    seen = f"{most:,} open files allowed; {_NODES:,} nodes need {needed:,}"
    return Point(
        "files", False, seen, f"ulimit -Hn {needed}, as root; or fewer at once: busbw run -f 16"
    )


LOOKS: tuple[Callable[[], Point], ...] = (
    *(_ssh, _kubectl, _slurm, _gpus, _lab),
    *(_python, _hyperscan, _pyarrow, _mpirun, _disk, _files),
)
"""In the order in which they are printed: the ways to measure, then the machine."""


def _apt(package: str) -> str:
    from busbw.lab.requirements import apt_command

    return apt_command((package,))


def _first(text: str) -> str:
    """The first line that a program printed."""
    from busbw.reports.phrases import cut
    from busbw.reports.safe import one_line

    return cut(
        one_line(next((line for line in text.splitlines() if line.strip()), "no answer")), 120
    )


def _counted(number: int, what: str) -> str:
    from busbw.units import counted

    return counted(number, what)
