"""One CPU control group per node, so that one node's load takes nothing from another's share; version 2 and version 1 (cpu controller).

The lab's own group stands beside everything else on the machine and weighs as many tasks as it has nodes; inside it, all weigh the same.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

from busbw.errors import LabError
from busbw.lab import processes
from busbw.lab.state import LabState

ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


def choose(marker: str, name: str, root: Path = ROOT) -> tuple[Path | None, bool, str]:
    """Where the lab's group is to be: (directory, whether the cpu controller must be switched on first, why there can be none).

    Only looks; makes nothing.
    """
    if (root / "cgroup.controllers").exists():
        if "cpu" not in (root / "cgroup.controllers").read_text().split():
            return None, False, f"{root} offers no cpu controller"
        base = root
        enable = "cpu" not in (root / "cgroup.subtree_control").read_text().split()
        # The kernel refuses a controller for the children of a group that has processes of its own, save for the real root.
        if enable and (root / "cgroup.type").exists():
            return None, False, f"the cpu controller is not switched on in {root}/cgroup.subtree_control"
    else:
        base = next((root / entry for entry in ("cpu", "cpu,cpuacct") if (root / entry / "cpu.shares").exists()), root)
        enable = False
        if base == root:
            return None, False, f"no cpu control group is mounted below {root}"
    if not os.access(base / "cgroup.procs", os.W_OK):
        return None, False, f"{base} is not writable"
    return base / f"busbw-{name}-{marker}", enable, ""


def make(state: LabState) -> None:
    """Make the lab's group and one per node.

    Raises:
        LabError: the kernel refused.
    """
    if state.cgroup is None:
        return
    lab = Path(state.cgroup)
    try:
        if state.cgroup_parent_enabled:
            (lab.parent / "cgroup.subtree_control").write_text("+cpu")
        lab.mkdir()
        version2 = (lab / "cgroup.subtree_control").exists()
        if version2:
            (lab / "cgroup.subtree_control").write_text("+cpu")
            (lab / "cpu.weight").write_text(str(min(10_000, 100 * len(state.nodes))))
        else:
            (lab / "cpu.shares").write_text(str(1024 * len(state.nodes)))
        for node in state.nodes:
            (lab / node.name).mkdir()
            if state.cpus_per_node is not None:
                limit(lab / node.name, state.cpus_per_node)
    except OSError as error:
        raise LabError("the lab's control groups could not be made", seen=str(error), next_step="busbw lab up --no-cgroups") from error


def remove(state: LabState) -> None:
    """Remove the lab's groups, once their processes have ended.

    Raises:
        LabError: a process stayed.
    """
    if state.cgroup is None:
        return
    lab = Path(state.cgroup)
    for directory in (*(lab / node.name for node in state.nodes), lab):
        processes.wait_until(partial(_removed, directory), 10.0, f"the end of the processes in {directory}")
    if state.cgroup_parent_enabled:
        # Refused while another lab uses it; that lab's record does not say so, and the controller stays on.
        with contextlib.suppress(OSError):
            (lab.parent / "cgroup.subtree_control").write_text("-cpu")


def limit(group: Path, cpus: float | None) -> None:
    """Give a node's group so much CPU time and no more, in slices of a tenth of a second as containers get it; None = no limit.

    Raises:
        OSError: the kernel refused.
    """
    quota = None if cpus is None else round(cpus * _PERIOD_US)
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{'max' if quota is None else quota} {_PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
