"""Sheets for readers who have never seen the code: the first screen of the report and the first lines
of the terminal, for each kind of fault.

    python tests/readers/kit.py SHEETS KEY [FAULT=RUN_DIRECTORY...]

The cases are runs recorded in the lab and runs with a planted fault, or, where any is given, these:
FAULT=RUN_DIRECTORY is a fault of `KEY` below, and the directory of a run made with it
(`tests/readers/record.py`).

SHEETS/sheet-A and SHEETS/sheet-B have a page or a terminal text of each case: what one sheet shows as
a report the other shows as terminal text, so that nobody reads one case twice. KEY/key.md says what was
broken and which answers are right: it is never given to a reader. Needs Chromium.

tests/readers/README.md says how a trial is held and counted.
"""

from __future__ import annotations

import random
import runpy
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "traps"))
sys.path.insert(0, str(HERE.parent / "fuzz"))

import bases  # noqa: E402  # of tests/fuzz
import planted  # noqa: E402  # of tests/traps

from busbw.cli import report  # noqa: E402
from busbw.reports import terminal  # noqa: E402
from busbw.run import publish  # noqa: E402
from busbw.store.run_directory import RunDir  # noqa: E402

DEVTOOLS = SimpleNamespace(**runpy.run_path(str(HERE.parent / "browser" / "devtools.py")))
LINES = 40
COLUMNS = 120
SEED = 24


@dataclass(frozen=True, slots=True)
class Right:
    """What a right answer says."""

    broken: str
    """What was done to the cluster."""
    component: str
    sure: str
    next_step: str


KEY = {
    "slowed": Right(
        "node3's link at a quarter of its rate",
        "node3 (or its link, port, cable)",
        "likely",
        "check node3 or look at its links; or run without it",
    ),
    "stalled": Right(
        "the ranks of node4 were stopped with SIGSTOP",
        "ranks 6 and 7 on node4",
        "certain",
        "find what stopped them, continue them (kill -CONT) or end the job",
    ),
    "unreached": Right(
        "the sshd of node2 accepts and never answers",
        "node2: not reached over SSH",
        "could not measure it: UNKNOWN",
        "look at sshd on node2",
    ),
    "healthy": Right("nothing", "none", "PASS, within the detection limits shown", "nothing"),
    "acceptance": Right(
        "nothing: a rehearsal of an acceptance in the lab",
        "none",
        "inconclusive: emulated hosts accept nothing",
        "measure what is missing, on real hosts",
    ),
    "slow-pairs": Right(
        "the pairs of node3 at half their bandwidth",
        "node3",
        "likely",
        "check node3, its links; or run without it",
    ),
    "half-rate-port": Right(
        "port mlx5_3 of node4 trained at 200 Gb/s",
        "node4 mlx5_3",
        "certain or likely: the port says its rate",
        "look at the cable and the port, retrain or replace",
    ),
    "wrong-data": Right(
        "one row of all_reduce has wrong elements",
        "the data is wrong: no node is named",
        "certain",
        "do not use the cluster; run the memory and NVLink or NIC diagnosis",
    ),
    "sockets": Right(
        "NCCL used TCP sockets in place of InfiniBand",
        "NCCL's transport: TCP in place of InfiniBand, all nodes",
        "certain",
        "repair what keeps NCCL from InfiniBand (plugin, NCCL_IB settings)",
    ),
    # Of record.py: the wording was not made with these.
    "rail-40": Right(
        "node5 eth0 at 40 % of its rate",
        "node5 rail 0 (eth0)",
        "possible: the CPUs were busy in each launch",
        "look at the ports of node5, or measure again on free CPUs (--budget 20m)",
    ),
    "loss-2": Right(
        "node4 loses 2 % of its packets",
        "node4: it loses packets (its cable, port or a queue)",
        "suspected, not proved; that it loses packets: likely",
        "find where packets are dropped on node4",
    ),
    "cut-rail": Right(
        "the link eth1 of node2 is cut",
        "node2 eth1",
        "likely",
        "check the port, the cable and the switch port of node2 eth1; or take node2 out of service",
    ),
    "killed": Right(
        "the ranks of node1 were killed with SIGKILL",
        "a process (rank) on node1",
        "certain that it is node1; nothing was measured",
        "look for the earliest error, and into the kernel log of node1",
    ),
    "foreign-key": Right(
        "node6 shows another host key than known_hosts has",
        "node6: its host key",
        "node6 was not checked: UNKNOWN",
        "ask whether node6 was installed anew and compare the fingerprint; then ssh-keygen -R",
    ),
    "no-ssh-link": Right(
        "the management link of node4 is cut",
        "node4: not reached over SSH",
        "node4 was not checked: UNKNOWN",
        "ping node4, look for a firewall",
    ),
    "dead-nvlink": Right(
        "NVLink 4 of GPU 5 of node3 is inactive",
        "node3, an NVLink of GPU 5",
        "the check failed, for certain; it is advisory, so the verdict stays PASS",
        "look at that NVLink (nvidia-smi nvlink), as the screen says",
    ),
    "small-mtu": Right(
        "mlx5_1 of node2 has MTU 2048",
        "node2, the MTU of mlx5_1",
        "the check failed, for certain; it is advisory, so the verdict stays PASS",
        "set the MTU as on the other nodes, or as the screen says",
    ),
    "one-way": Right(
        "node4 sends slowly to node2",
        "the pair node2 – node4: the path between them",
        "possible: the CPUs were busy in each launch",
        "look at the switch ports on the path, or measure again on free CPUs (--budget 20m)",
    ),
    "rejected": Right(
        "node2's links at 30 % of their rate, and a contract",
        "node2 (its links)",
        "the contract is not met; that it is node2: possible",
        "give the page to the provider, or look at node2",
    ),
    "good": Right("nothing", "none", "PASS, within the detection limits shown", "nothing"),
    # Of the third trial. What a node shows of its hardware is certain, whatever the verdict.
    "gpu-missing": Right(
        "GPU 7 of node2 is not there",
        "node2: a GPU is missing (7 of 8)",
        "certain that it is node2",
        "look for the GPU on node2 (bus, kernel log, Xid), reset or replace; or leave node2 out",
    ),
    "hca-missing": Right(
        "adapter 5 of node4 is not there",
        "node4: an adapter (RDMA device, NIC) is missing",
        "certain that it is node4",
        "look for the adapter on node4 (driver, PCIe, slot); or leave node4 out",
    ),
    "ecc-errors": Right(
        "GPU 3 of node1 has uncorrected ECC errors",
        "node1, GPU 3: its memory",
        "certain that it is node1",
        "reset or replace the GPU, as the screen says; take node1 out of service",
    ),
    "pcie-narrow": Right(
        "GPU 2 of node3 has 8 of 16 PCIe lanes",
        "node3, the PCIe link of GPU 2",
        "certain that it is node3",
        "reseat or look at the slot of that GPU, as the screen says",
    ),
    "peermem-missing": Right(
        "nvidia_peermem is not loaded on node4",
        "node4: the module nvidia_peermem (GPUDirect)",
        "certain that it is node4",
        "modprobe nvidia_peermem on node4",
    ),
    "firmware-odd": Right(
        "adapter 6 of node3 has an older firmware",
        "node3: firmware of an adapter",
        "certain that it is node3 that differs",
        "flash the firmware of the other nodes, as the screen says",
    ),
    "xid-in-log": Right(
        "Xid 74 (NVLink) of GPU 4 in the kernel log of node2",
        "node2: NVLink of a GPU (Xid 74)",
        "certain that the log shows it (certain or likely that it is node2)",
        "read the kernel log, look at the NVLink, as the screen says",
    ),
    "pfc-off": Right(
        "priority flow control is off on node3",
        "node3: flow control (PFC, QoS)",
        "certain that it is node3",
        "set PFC as on the other nodes, as the screen says",
    ),
    "good-check": Right(
        "nothing", "none", "PASS of the checks; nothing was measured", "nothing, or busbw run"
    ),
    "cut-node": Right(
        "the data link of node3 is cut",
        "node3: its link (network)",
        "as the screen says of node3",
        "look at the port, cable and switch port of node3; or leave it out",
    ),
    "loss-rail": Right(
        "node1 loses 5 % of its packets on rail 1",
        "node1 rail 1 (eth1)",
        "as the screen says: likely, or possible where the CPUs were busy",
        "look where packets are dropped on node1 eth1, or what the screen gives to confirm",
    ),
    "cpu-limit": Right(
        "node2 has a twentieth of a CPU",
        "node2 (its inside: CPU)",
        "as the screen says: likely, or possible where the CPUs were busy",
        "look at load and limits of node2, or what the screen gives to confirm",
    ),
    "uplink-30": Right(
        "the uplinks of leaf2 at an eighth of their rate",
        "the uplinks of leaf2",
        "as the screen says: likely, or possible where the CPUs were busy",
        "look at the uplinks of leaf2, or what the screen gives to confirm",
    ),
    "good-quick": Right("nothing", "none", "PASS, within the detection limits shown", "nothing"),
}

QUESTIONS = """# Reader's sheet

You look after a GPU cluster. Each file here is all that you see of one run of `busbw`: the first screen
of its report (`.png`, the same as text in `.txt`) or the first lines in a terminal. Do not look anything
up and do not open the project. For each case write one line for each question:

1. **Which component** is broken, as narrowly as the screen says it? (`none` is an answer.)
2. **How sure** is the tool?
3. **What would you do next?** Give the command if there is one.
4. What did you not understand? (It may stay empty.)

Write into `answers.md`: `## case NN`, then four lines.
"""


def cases(place: Path, given: list[str]) -> list[tuple[str, RunDir]]:
    """Fault and run directory, in an order that tells nothing."""
    own = []
    for word in given:
        name, _, folder = word.partition("=")
        shutil.copytree(Path(folder) / "raw", place / name / "raw")
        own.append((name, RunDir(place / name)))
    if not own:
        own = _kept(place)
    random.Random(SEED).shuffle(own)
    return own


def _kept(place: Path) -> list[tuple[str, RunDir]]:
    """The runs that are kept here: the wording was made with these."""
    own = []
    for base in bases.recorded():
        if base.name in KEY:
            own.append((base.name, base.written(place / base.name)))
    for name, plant in PLANTED.items():
        recording = planted.healthy()
        plant(recording)
        own.append((name, recording.written(place / name)))
    return own


def _half_rate(recording: Any) -> None:
    recording.replace(
        "preflight/node4.txt",
        "port mlx5_3 1 rate 400 Gb/sec (4X NDR)",
        "port mlx5_3 1 rate 200 Gb/sec (2X NDR)",
    )


def _wrong_data(recording: Any) -> None:
    row = r"( +)0( +[0-9.]+ +[0-9.]+ +[0-9.]+ +0)$"
    path = "cases/correctness/stdout.txt"
    recording.edit(path, lambda text: planted.once(text, row, r"\1 7\2"))


PLANTED = {
    "wrong-data": _wrong_data,
    "sockets": lambda recording: recording.edit("cases/proof/stdout.txt", planted.over_sockets),
    "slow-pairs": lambda recording: planted.slow_pairs(recording, 0.5, "node3"),
    "half-rate-port": _half_rate,
}


def write(sheet: Path, number: int, form: str, run: RunDir, browser: Any) -> None:
    """One case as a reader sees it."""
    result = publish.publish(run)
    stem = f"case-{number:02d}"
    if form == "terminal":
        lines = report.lines_of(run, result, f"runs/{stem}")
        text = terminal.printed(lines, COLUMNS).splitlines()[:LINES]
        (sheet / f"{stem}-terminal.txt").write_text("\n".join(text) + "\n")
        return
    page = browser.open((run.path / "report.html").as_uri(), width=1280, height=800)
    (sheet / f"{stem}-report.txt").write_text(page.first_screen() + "\n")
    page.window(sheet / f"{stem}-report.png")


def main(sheets: Path, key: Path, given: list[str]) -> None:
    """Write both sheets and the key."""
    browser = DEVTOOLS.Browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            every = cases(Path(folder), given)
            forms = ("report", "terminal")
            for name, turn in (("sheet-A", 0), ("sheet-B", 1)):
                sheet = sheets / name
                sheet.mkdir(parents=True, exist_ok=True)
                (sheet / "questions.md").write_text(QUESTIONS)
                for number, (_, run) in enumerate(every, 1):
                    write(sheet, number, forms[(number + turn) % 2], run, browser)
    finally:
        browser.close()
    key.mkdir(parents=True, exist_ok=True)
    lines = ["# Key: never shown to a reader", ""]
    for number, (name, _) in enumerate(every, 1):
        right = KEY[name]
        lines += [
            f"## case {number:02d}: {right.broken} ({name})",
            f"1. {right.component}",
            f"2. {right.sure}",
            f"3. {right.next_step}",
            "",
        ]
    (key / "key.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
