"""Judging and folding what a thousand nodes answered: seconds and memory from the recorded files to
the printed lines.

`python tests/bench/judge.py [N…]` (64, 1000, 4096). The answers are composed in the documented
formats of the tools: H100 nodes whose serial numbers, temperatures and addresses all differ, one in
a hundred with a fault. Each number is of a process of its own, three times; printed are the median
and the highest memory. Nothing is judged.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES = (64, 1000, 4096)
ROUNDS = 3
GPUS = 8
BOUNDARY = "20261121-1200-check"
LOG_HEAD = (
    "Driver Version                            : 550.54.14\nCUDA Version                           "
    "   : 12.4\n\n"
)
FIELDS = 230
"""Lines that `nvidia-smi -q` prints per GPU beside those that are read."""


def main(counts: tuple[int, ...]) -> None:
    print(
        f"{'nodes':>6} {'raw MB':>7} {'judge s':>8} {'fold s':>7} {'both, CPU s':>12}"
        f" {'whole process s':>16} {'peak MB':>8} {'lines':>6}"
    )
    with tempfile.TemporaryDirectory(prefix="busbw-judge-") as scratch:
        for count in counts:
            run = Path(scratch) / f"{count}"
            size = compose(run, count)
            rounds = [turn(run) for _ in range(ROUNDS)]
            judge, fold, cpu, wall = (statistics.median(r[i] for r in rounds) for i in range(4))
            peak, lines = max(r[4] for r in rounds), rounds[0][5]
            print(
                f"{count:>6} {size / 1e6:>7.0f} {judge:>8.2f} {fold:>7.2f} {cpu:>12.2f}"
                f" {wall:>16.2f} {peak:>8.0f} {lines:>6.0f}"
            )
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")


def turn(run: Path) -> tuple[float, ...]:
    """(judging s, folding s, CPU s of both, whole process s, peak MB, lines) of one process."""
    started = time.perf_counter()
    done = subprocess.run(
        (sys.executable, __file__, "--one", str(run)),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    wall_s = time.perf_counter() - started
    judged, folded, cpu, peak, lines = json.loads(done.stdout)
    return judged, folded, cpu, wall_s, peak, lines


def one(path: Path) -> None:
    """Judge one run directory and say what it took."""
    from busbw.cli.check_text import check_lines
    from busbw.run import checking
    from busbw.store import run_directory

    run = run_directory.open_existing(path)
    started, before = time.perf_counter(), time.process_time()
    report = checking.conclude(run)
    judged = time.perf_counter()
    lines = check_lines(report, str(path))
    ended, cpu = time.perf_counter(), time.process_time() - before
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([judged - started, ended - judged, cpu, peak_mb, len(lines)]))


def compose(path: Path, count: int) -> int:
    """A run directory with so many nodes' answers; their size in bytes."""
    from busbw import playbook
    from busbw.checks.frame import families
    from busbw.fabrics import profiles
    from busbw.model import Cluster, Node
    from busbw.store import artefacts, run_directory
    from busbw.store.artefacts import PreflightArtefact, PreflightEntry, ReachArtefact
    from busbw.store.plan import SCHEMA, RunPlan

    path.mkdir()
    run = run_directory.create(path, "2026-11-21T12:00:00Z", "check")
    names = tuple(f"gpu-{i:04}" for i in range(1, count + 1))
    cluster = Cluster(
        tuple(Node(name, gpus=GPUS) for name in names), names[0], "composed", fabric="infiniband"
    )
    day_one = playbook.load("day-one", emulated=False)
    plan = RunPlan(
        schema=SCHEMA,
        tool_version="bench",
        run_id=BOUNDARY,
        started="2026-11-21T12:00:00Z",
        cluster=cluster,
        playbook=day_one,
        profile=profiles.load("infiniband"),
        transport="ssh",
        overrides=(),
        stray=(),
        ranks_per_node=None,
        forks=64,
        connect_timeout_s=10.0,
        temporary_keys=False,
    )
    artefacts.keep(run, "plan.json", plan)
    artefacts.keep(run, "reach.json", ReachArtefact(names, (), "ssh"))
    asked = [section.name for family in families() for section in family.sections]
    size, entries = 0, []
    for number, name in enumerate(names):
        text, err = answer(number, name, asked)
        size += len(text) + len(err)
        run.write_raw(f"preflight/{name}.txt", text)
        run.write_raw(f"preflight/{name}.txt.err", err)
        entries.append(
            PreflightEntry(
                name, f"raw/preflight/{name}.txt", f"raw/preflight/{name}.txt.err", 0, None, 1.0
            )
        )
    artefacts.keep(run, "preflight.json", PreflightArtefact(BOUNDARY, tuple(entries)))
    for entry in run.path.iterdir():
        entry.rename(path / entry.name)
    run.path.rmdir()
    return size


def answer(number: int, name: str, asked: list[str]) -> tuple[str, str]:
    """What a node prints, on both streams."""
    sections = node(number, name)
    out = err = ""
    for section in asked:
        text, status = sections.get(section, ("", 127))
        said = f"sh: {section}: not found\n" if status == 127 else ""
        out += f"\n@@{BOUNDARY} begin {section}\n{text}\n@@{BOUNDARY} end {section} {status}\n"
        err += f"\n@@{BOUNDARY} begin {section}\n{said}\n@@{BOUNDARY} end {section} {status}\n"
    return f"{out}\n@@{BOUNDARY} done\n", f"{err}\n@@{BOUNDARY} done\n"


def node(number: int, name: str) -> dict[str, tuple[str, int]]:
    """Sections of one node: (standard output, exit status)."""
    rng = random.Random(number)
    sick = number % 100 == 7
    uuids = [f"GPU-{rng.getrandbits(128):032x}" for _ in range(GPUS)]
    address = f"10.{number >> 8 & 255}.{number & 255}"
    return {
        "identity": (
            (
                f"host={name}\nhome=/home/bench\nuid=1000\nssh=10.0.0.9 5000 {address}.1"
                " 22\nmpirun=/usr/bin/mpirun\n"
            ),
            0,
        ),
        "addresses": (
            (
                f"1: lo    inet 127.0.0.1/8 scope host lo\n2: bond0    inet {address}.1/24 scope"
                " global bond0\n"
            ),
            0,
        ),
        "interfaces": (
            (
                "net lo operstate unknown carrier 1 rx - tx -\nnet bond0 operstate up carrier 1 rx"
                " - tx -\n"
            ),
            0,
        ),
        "mpirun_version": (
            "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
            0,
        ),
        "mpi_home": ("/usr/lib/x86_64-linux-gnu/openmpi\n", 0),
        "memlock": ("unlimited\n", 0),
        "limits": ("nofile=1048576\nstack=8192\n", 0),
        "nccl_conf": ("", 0),
        "environment": ("", 0),
        "kernel_log": (
            "[Mon Nov 16 03:02:01 2026] ACPI Warning: something that says nothing\n" * 20,
            0,
        ),
        "system": (
            (
                f"kernel=5.15.0-105-generic\nnuma_balancing=0\nloadavg=0.{rng.randrange(10, 99)}"
                f" 0.40 0.30 2/2000 {rng.randrange(9999)}\npsi_cpu=some avg10=0.00"
                f" avg60=0.{rng.randrange(99):02} avg300=0.00"
                f" total={rng.randrange(1 << 30)}\npsi_memory=\npsi_io=\ncpus=0-191\nallowed=0-191\ngovernor=performance\niommu=identity\nnuma=0-95"
                " 96-191\nflags=1\nbios=3.1\ncstates=POLL:0:0 C1:1:0 C6:170:1\ncpu_model=Intel(R)"
                " Xeon(R) Platinum 8480C\n"
            ),
            0,
        ),
        "disks": (
            (
                "Filesystem     1024-blocks      Used Available Capacity Mounted"
                f" on\n/dev/nvme0n1p2  900000000 {rng.randrange(10**8)} 700000000      12% /\ntmpfs"
                " 1056000000 0 1056000000 0% /dev/shm\n"
            ),
            0,
        ),
        "own_name": (f"{address}.1  STREAM {name}\n", 0),
        "services": ("active\ninactive\ninactive\ninactive\n", 3),
        "processes": ("S       1     0 root   ep_poll      slurmd\n", 0),
        "cuda": ("Cuda compilation tools, release 12.2, V12.2.140\n", 0),
        "nccl_library": ("nccl /usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5\n", 0),
        "nccl_tests": ("", 0),
        "nvidia_driver": ("loaded\n", 0),
        "time": (
            (
                "NTPSynchronized=yes\nReference ID    : 0A000001 (10.0.0.1)\nSystem time     :"
                f" 0.00000{rng.randrange(9)} seconds fast of NTP time\n"
            ),
            0,
        ),
        **gpus(rng, uuids, sick=sick),
        **adapters(rng, sick=sick),
    }


def gpus(rng: random.Random, uuids: list[str], *, sick: bool) -> dict[str, tuple[str, int]]:
    """What `nvidia-smi` says in its several views."""
    listed = "".join(
        f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n"
        for i, uuid in enumerate(uuids[: 7 if sick else 8])
    )
    query = (
        "index, uuid, name, driver_version, persistence_mode, mig.mode.current, power.limit [W],"
        " power.default_limit [W], pcie.link.width.current, pcie.link.width.max, memory.used [MiB],"
        " vbios_version, ecc.errors.uncorrected.volatile.total, clocks.current.sm [MHz],"
        " clocks.max.sm [MHz], utilization.gpu [%], clocks_event_reasons.active\n"
    )
    query += "".join(
        f"{i}, {uuid}, NVIDIA H100 80GB HBM3, 550.54.14, Enabled, Disabled, 700.00, 700.00, 16, 16,"
        " 4, 96.00.61.00.01, 0, 345, 1980, 0, 0x1\n"
        for i, uuid in enumerate(uuids)
    )
    remap = (
        "gpu_uuid, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending,"
        " remapped_rows.failure\n"
    )
    matrix = (
        "\t"
        + "\t".join(
            [f"GPU{i}" for i in range(8)]
            + [f"NIC{i}" for i in range(8)]
            + ["CPU Affinity", "NUMA Affinity"]
        )
        + "\n"
    )
    for i in range(8):
        row = [" X " if i == j else "NV18" for j in range(8)] + [
            "PIX" if i == j else "NODE" if i // 4 == j // 4 else "SYS" for j in range(8)
        ]
        matrix += "\t".join([f"GPU{i}", *row, "0-47" if i < 4 else "48-95", str(i // 4)]) + "\n"
    return {
        "nvidia_smi_list": (listed, 0),
        "gpu_query": (query, 0),
        "gpu_remap": (remap + "".join(f"{uuid}, 0, 0, 0, 0\n" for uuid in uuids), 0),
        "gpu_apps": ("gpu_uuid, pid, used_gpu_memory [MiB]\n", 0),
        "gpu_details": (
            f"\n==============NVSMI LOG==============\n\n{LOG_HEAD}"
            + "".join(details(rng, i, u) for i, u in enumerate(uuids)),
            0,
        ),
        "gpu_nvlink": (
            "".join(
                f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: {u})\n"
                + "".join(f"\t Link {k}: 26.562 GB/s\n" for k in range(18))
                for i, u in enumerate(uuids)
            ),
            0,
        ),
        "gpu_topology": (matrix, 0),
        "gpu_modules": (
            (
                "nvidia=NVRM version: NVIDIA UNIX x86_64 Kernel Module"
                " 550.54.14\nkernel=5.15.0-105-generic\npeermem=nvidia_peermem\n"
            ),
            0,
        ),
    }


def details(rng: random.Random, index: int, uuid: str) -> str:
    """One GPU of `nvidia-smi -q`, as long as the real one."""
    filler = "".join(
        f"        Value number {i:<30}: {rng.randrange(1 << 20)} MHz\n" for i in range(FIELDS)
    )
    groups = (
        ("Fabric", (("State", "Completed"), ("Status", "Success"))),
        (
            "Temperature",
            (
                ("GPU Current Temp", f"{rng.randrange(28, 45)} C"),
                ("GPU T.Limit Temp", f"{rng.randrange(40, 58)} C"),
            ),
        ),
    )
    told = "".join(
        f"    {title}\n" + "".join(f"        {name:<38}: {value}\n" for name, value in pairs)
        for title, pairs in groups
    )
    return (
        f"GPU 00000000:{index + 16:02X}:00.0\n    Product Name                          : NVIDIA"
        f" H100 80GB HBM3\n    GPU UUID                              : {uuid}\n   "
        f" Clocks\n{filler}{told}    Processes                             : None\n\n"
    )


def adapters(rng: random.Random, *, sick: bool) -> dict[str, tuple[str, int]]:
    """RDMA as sysfs and the verbs tools tell it, and PCI."""
    devices = [(f"mlx5_{i}", f"{rng.getrandbits(64):016x}") for i in range(8)]
    sysfs = ""
    for i, (device, _) in enumerate(devices):
        state, rate = (
            ("1: DOWN", "10 Gb/sec (4X SDR)")
            if sick and i == 3
            else ("4: ACTIVE", "400 Gb/sec (4X NDR)")
        )
        sysfs += (
            f"rdma {device} present 1\nrdma {device} fw_ver 28.39.1002\nrdma {device} board_id"
            f" MT_0000000838\nrdma {device} hca_type MT4129\n"
        )
        sysfs += f"rdma {device} numa_node {i // 4}\n"
        sysfs += "".join(
            f"port {device} 1 {key} {value}\n"
            for key, value in (
                ("state", state),
                ("phys_state", "5: LinkUp"),
                ("rate", rate),
                ("link_layer", "InfiniBand"),
                ("sm_lid", "0x1"),
            )
        )
        sysfs += f"pkey {device} 1 pkeys/0 0xffff\n"
    devinfo = "".join(
        f"hca_id:\t{device}\n\ttransport:\t\t\tInfiniBand"
        f" (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\tnode_guid:\t\t\t{guid}\n\tvendor_id:\t\t\t0x02c9\n"
        "\tboard_id:\t\t\tMT_0000000838\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE"
        " (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        "\t\t\tactive_mtu:\t\t4096"
        f" (5)\n\t\t\tsm_lid:\t\t\t1\n\t\t\tport_lid:\t\t{rng.randrange(2, 9999)}\n\t\t\tlink_layer:\t\tInfiniBand\n\n"
        for device, guid in devices
    )
    verbs = "    device          \t   node GUID\n    ------          \t----------------\n"
    return {
        "ibv_devices": (
            verbs + "".join(f"    {device:<16}\t{guid}\n" for device, guid in devices),
            0,
        ),
        "ofed_info": ("MLNX_OFED_LINUX-23.10-1.1.9.0:\n", 0),
        "rdma_sysfs": (sysfs, 0),
        "ibv_devinfo": (devinfo, 0),
        "ldconfig": (
            "1500 libs found in cache `/etc/ld.so.cache'\n"
            + "\tlibibverbs.so.1 (libc6,x86-64) => /lib/libibverbs.so.1\n" * 9,
            0,
        ),
        "rdma_nodes": ("\n".join(["rdma_cm", *(f"uverbs{i}" for i in range(8))]) + "\n", 0),
        "pci": (
            "".join(
                f"pci 0000:{16 + i:02x}:00.0 0x15b3 0x020700 width 16 16 speed 32.0 32.0 numa"
                f" {i // 4}\n"
                for i in range(8)
            ),
            0,
        ),
        "lspci": (
            "40:01.1 PCI bridge: Some\n\t\tACSCtl:\tSrcValid- TransBlk-\n" * 8
            + "".join(
                f"{16 + i:02x}:00.0 Infiniband controller:"
                " Mellanox\n\t\t\tRlxdOrd+\n\t\t\tMaxReadReq 4096 bytes\n"
                for i in range(8)
            ),
            0,
        ),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(Path(sys.argv[2]))
    else:
        main(tuple(int(word) for word in sys.argv[1:]) or NODES)
