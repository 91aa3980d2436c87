"""One CPU control group per node, so that one node's load takes nothing from another's share;
version 2 and version 1 (cpu controller).

The groups stand beside everything else on the machine and weigh the same. They do not lie in a
group of the lab's own: inside nested groups ranks that wait with sched_yield kept everything else
on the machine, the kernel's own threads too, from running for up to 33 s (Linux 6.18).
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
    """Where the groups are to be: (what their directories begin with, whether the cpu controller
    must be switched on first, why there are none).

    Only looks; makes nothing.
    """
    if (root / "cgroup.controllers").exists():
        if "cpu" not in (root / "cgroup.controllers").read_text().split():
            return None, False, f"{root} offers no cpu controller"
        base = root
        enable = "cpu" not in (root / "cgroup.subtree_control").read_text().split()
        # The kernel refuses a controller for the children of a group that has processes of its own,
        # save for the real root.
        if enable and (root / "cgroup.type").exists():
            return (
                None,
                False,
                f"the cpu controller is not switched on in {root}/cgroup.subtree_control",
            )
    else:
        mounted = [root / entry for entry in ("cpu", "cpu,cpuacct")]
        base = next((path for path in mounted if (path / "cpu.shares").exists()), root)
        enable = False
        if base == root:
            return None, False, f"no cpu control group is mounted below {root}"
    if not os.access(base / "cgroup.procs", os.W_OK):
        return None, False, f"{base} is not writable"
    return base / f"busbw-{name}-{marker}", enable, ""


def of(state: LabState, node: str) -> Path:
    """The directory of the node's group; the lab has groups."""
    return Path(f"{state.cgroup}-{node}")


def make(state: LabState) -> None:
    """Make one group per node.

    Raises:
        LabError: the kernel refused.
    """
    if state.cgroup is None:
        return
    try:
        if state.cgroup_parent_enabled:
            (Path(state.cgroup).parent / "cgroup.subtree_control").write_text("+cpu")
        for node in state.nodes:
            group = of(state, node.name)
            group.mkdir()
            if state.cpus_per_node is not None:
                limit(group, state.cpus_per_node)
    except OSError as error:
        raise LabError(
            "the lab's control groups could not be made",
            seen=str(error),
            next_step="busbw lab up --no-cgroups",
        ) from error


def remove(state: LabState) -> None:
    """Remove the nodes' groups, once their processes have ended.

    Raises:
        LabError: a process stayed.
    """
    if state.cgroup is None:
        return
    for node in state.nodes:
        group = of(state, node.name)
        processes.wait_until(partial(_removed, group), 10.0, f"the end of the processes in {group}")
    if state.cgroup_parent_enabled:
        # Refused while another lab uses it; that lab's record does not say so, and the controller
        # stays on.
        with contextlib.suppress(OSError):
            (Path(state.cgroup).parent / "cgroup.subtree_control").write_text("-cpu")


def limit(group: Path, cpus: float | None) -> None:
    """Give a node's group so much CPU time and no more, in slices of a tenth of a second as
    containers get it; None = no limit.

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
