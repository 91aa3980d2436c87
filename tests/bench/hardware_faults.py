"""Which check finds which fault of invented hardware: each one at a time on node2 of four lab
nodes, and what the checks then say otherwise.

As root: `python tests/bench/hardware_faults.py [KIND…]`. Shown is the difference to the whole lab:
node, check id, status; checks that depend on the load of this machine (`os.cpu_load`, `os.psi` …)
are left out. `counters` stands for a fault that shows in snapshots around a launch alone
(`tests/lab/test_personas.py` holds it). The last line says how many were found by a check on the
right node and nowhere else. Nothing is judged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile

from busbw.lab import bringup, faults, persona, persona_faults
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

NODE = "node2"
MACHINE = ("os.cgroup", "os.cpu_load", "os.dstate", "os.psi", "os.time", "ssh.cmd_time")
ROCE_ONLY = ("gid-missing", "pfc-off", "trust-pcp")
IN_COUNTERS = "errors-grow"
Statuses = dict[tuple[str, str], str]


def statuses(lab: LabState, folder: str) -> Statuses:
    """{(node, check id): status}."""
    argv = (sys.executable, "-m", "busbw", "check", "-i", f"lab:{lab.name}", "--json", "-o", folder)
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    checks = json.loads(done.stdout)["checks"]
    return {
        (check["node"], check["check_id"]): check["status"]
        for check in checks
        if check["check_id"] not in MACHINE
    }


def found(lab: LabState, kind: str, whole: Statuses, folder: str) -> tuple[str, bool]:
    """What the checks say of a fault, and whether it is of the right node alone, and not only that
    something was not asked."""
    faults.hardware(lab, kind, NODE)
    try:
        now = statuses(lab, folder)
    finally:
        faults.clear(lab)
    changed = {key: status for key, status in now.items() if whole.get(key) != status}
    by_status: dict[tuple[str, str], list[str]] = {}
    for (node, check_id), status in sorted(changed.items()):
        by_status.setdefault((node, status), []).append(check_id)
    told = "; ".join(
        f"{node} {status} {', '.join(ids)}" for (node, status), ids in by_status.items()
    )
    return told, bool(changed) and {node for node, _ in changed} == {NODE}


def main(kinds: tuple[str, ...]) -> None:
    right = asked = 0
    with tempfile.TemporaryDirectory(prefix="busbw-faults-") as folder:
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        for shown, own in (("h100", False), ("h100-roce", True)):
            wanted = [
                kind
                for kind, _ in persona_faults.kinds()
                if (kind in ROCE_ONLY) is own and (not kinds or kind in kinds)
            ]
            if not wanted:
                continue
            lab = bringup.up(
                LabOptions(nodes=4, name=shown, persona=persona.load(shown), cgroups=False),
                lambda text: None,
            )
            try:
                whole = statuses(lab, folder)
                print(
                    f"{shown}, whole: {sum(status == 'FAIL' for status in whole.values())} checks"
                    " FAIL",
                    flush=True,
                )
                for kind in wanted:
                    if kind == IN_COUNTERS:
                        print(f"  {kind:20} counters", flush=True)
                        continue
                    told, good = found(lab, kind, whole, folder)
                    right, asked = right + good, asked + 1
                    print(
                        f"  {kind:20} {told or 'NOTHING'}{'' if good else '   <-- NOT FOUND'}",
                        flush=True,
                    )
            finally:
                bringup.down(lab.name)
    print(f"{right} of {asked} found on {NODE} and nowhere else; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    # so that the lab is taken down then, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(tuple(sys.argv[1:]))
