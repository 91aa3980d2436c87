"""Records the lab runs of a readers' trial: `python tests/readers/record.py RUNS [NAME...]`, as root.

Each case is a lab of its own with one fault in it, and one command of busbw. RUNS/NAME is the run's
directory, as `kit.py NAME=RUNS/NAME` takes it; what is there already is not recorded again. The faults
here are none of those that the wording of the first screen was made with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

BUSBW = (sys.executable, "-m", "busbw")
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Case:
    """One lab and what is done with it."""

    lab: str
    """Options of `busbw lab up`."""
    fault: str = ""
    """Words of `busbw lab fault`; empty = nothing is broken."""
    command: str = "run"
    """Words of busbw, without the inventory."""
    in_launch: bool = False
    """The fault hits running ranks: it is tried until there are some."""


CASES = {
    "rail-40": Case("-n 5 --rails 2 --rate 60mbit", "slow node5 40% --rail 0"),
    "loss-2": Case("-n 5 --rate 120mbit", "loss node4 2", "run quick"),
    "cut-rail": Case("-n 4 --rails 2 --rate 80mbit", "link-down node2 --rail 1", "run quick"),
    "killed": Case("-n 4 --rate 150mbit", "kill node1", "run quick", in_launch=True),
    "foreign-key": Case("-n 6", "host-key node6", "run quick"),
    "no-ssh-link": Case("-n 5", "link-down node4 --rail mgmt", "run quick"),
    "dead-nvlink": Case("-n 4 --persona h200", "hw nvlink-down node3 --index 5", "check"),
    "small-mtu": Case("-n 5 --persona h100-roce", "hw mtu-small node2 --index 1", "check"),
    "one-way": Case("-n 4 --rate 120mbit", "slow node4 30% --to node2"),
    "rejected": Case(
        "-n 4 --rails 2 --rate 100mbit",
        "slow node2 30%",
        "run provider-acceptance --contract CONTRACT",
    ),
    "good": Case("-n 3 --rails 2 --rate 80mbit"),
    # Of the third trial.
    "gpu-missing": Case("-n 4 --persona h100", "hw gpu-missing node2 --index 7", "check"),
    "hca-missing": Case("-n 4 --persona h200", "hw hca-missing node4 --index 5", "check"),
    "ecc-errors": Case("-n 4 --persona h100", "hw ecc-errors node1 --index 3", "check"),
    "pcie-narrow": Case("-n 4 --persona a100", "hw pcie-narrow node3 --index 2", "check"),
    "peermem-missing": Case("-n 4 --persona h100", "hw peermem-missing node4", "check"),
    "firmware-odd": Case("-n 5 --persona h200", "hw firmware-odd node3 --index 6", "check"),
    "xid-in-log": Case("-n 4 --persona h100", "hw xid-in-log node2 --index 4", "check"),
    "pfc-off": Case("-n 4 --persona h100-roce", "hw pfc-off node3", "check"),
    "good-check": Case("-n 3 --persona b200", command="check"),
    "cut-node": Case("-n 4 --rate 100mbit", "link-down node3", "run quick"),
    "loss-rail": Case("-n 4 --rails 2 --rate 80mbit", "loss node1 5 --rail 1", "run quick"),
    "cpu-limit": Case("-n 4 --rate 150mbit", "cpu-limit node2 0.05", "run quick"),
    "uplink-30": Case(
        "-n 6 --leaves 3 --rate 60mbit --uplink-rate 240mbit", "uplink leaf2 30mbit", "run quick"
    ),
    "good-quick": Case("-n 4 --rate 100mbit", command="run quick"),
}
CONTRACT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "contract.yaml"


def record(name: str, case: Case, runs: Path) -> int:
    """Bring the lab up, break it, measure, keep the run's directory; the command's exit status."""
    with tempfile.TemporaryDirectory(prefix="busbw-readers-") as folder:
        environment = os.environ | {"BUSBW_LAB_DIR": f"{folder}/labs", "COLUMNS": "120"}

        def busbw(*words: str) -> int:
            return subprocess.run((*BUSBW, *words), env=environment, cwd=folder).returncode

        try:
            assert busbw("lab", "up", "--name", "trial", *case.lab.split()) == 0
            fault = ("lab", "fault", *case.fault.split(), "--name", "trial")
            if case.fault and not case.in_launch:
                assert busbw(*fault) == 0
            command = case.command.replace("CONTRACT", str(CONTRACT)).split()
            run = subprocess.Popen(
                (*BUSBW, *command, "-i", "lab:trial", "--out", "runs"), env=environment, cwd=folder
            )
            deadline = time.monotonic() + LIMIT_S
            while case.in_launch and run.poll() is None and time.monotonic() < deadline:
                if busbw(*fault) == 0:
                    break
                time.sleep(0.2)
            status = run.wait(LIMIT_S)
        finally:
            busbw("lab", "down", "--name", "trial")
        shutil.copytree((Path(folder) / "runs" / "latest").resolve(), runs / name)
    return status


def main(runs: Path, names: list[str]) -> None:
    """Record what is not there yet."""
    runs.mkdir(parents=True, exist_ok=True)
    for name in names or CASES:
        if not (runs / name).exists():
            print(f"== {name}: {CASES[name].fault or 'nothing broken'}", flush=True)
            print(f"== {name}: exit {record(name, CASES[name], runs)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
