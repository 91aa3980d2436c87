"""The script that collects the evidence of a stalled job on one node: POSIX sh, read-only, the
most short-lived evidence first.

It takes two samples (processes, sockets, ports, GPUs, NCCL's RAS), and between them reads what keeps
longer: kernel log, memory, dumps, logs, disks. It writes no file, sends no signal and starts
nothing that stays. Only `--stacks` touches a process: the tools that read stacks pause it.

The text is in `sh/`: POSIX sh with grep, awk, ls and what iproute2 and the GPU driver bring. It runs
on every node of a job at once, often on CPUs that the job uses, so it starts few processes: what a
loop of the shell would read file by file, one grep or one awk reads for all ranks. What may hang (a
mount, a driver, the memory of a stopped process) runs in a shell of its own under a limit, with its
output in a pipe that ends with the limit.

Framing is that of the preflight script; the first line names the boundary, so that an answer that a
site collected by its own means can be taken apart as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from busbw import shell
from busbw.model import Command

INTERVAL_S = 5
"""between the two samples: a healthy job's collectives take milliseconds to seconds."""
MAGIC = "busbw-live 1"
"""First words of every answer."""
_RANK_NAMES = "RANK|OMPI_COMM_WORLD_RANK|PMIX_RANK|PMI_RANK|SLURM_PROCID"
_KEPT = (
    "LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_LOCAL_SIZE|OMPI_COMM_WORLD_LOCAL_RANK|PMI_SIZE|SLURM_NTASKS"
    "|SLURM_LOCALID|SLURM_JOB_ID|SLURM_STEP_ID|SLURM_NODEID|SLURM_JOB_NAME|SLURM_JOB_PARTITION|OMPI_MCA_ess_base_jobid|PMIX_NAMESPACE"
    "|TORCHELASTIC_RUN_ID|MASTER_ADDR|MASTER_PORT|BUSBW_JOB|CUDA_VISIBLE_DEVICES|NCCL_RAS_ADDR|NCCL_RAS_ENABLE|NCCL_DEBUG_FILE"
    "|NCCL_SOCKET_IFNAME|NCCL_IB_HCA|NCCL_INSPECTOR_DUMP_DIR|TORCH_FR_DUMP_TEMP_FILE|TORCH_NCCL_DEBUG_INFO_TEMP_FILE|TORCH_FR_BUFFER_SIZE"
    "|TORCH_NCCL_TRACE_BUFFER_SIZE|TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC|KUBERNETES_SERVICE_HOST|HOSTNAME"
)
"""Variables that say which rank of which job a process is and where it writes. Nothing else of an
environment leaves the node."""
_COUNTERS = (
    "state phys_state rate counters/port_xmit_data counters/port_rcv_data counters/link_downed"
    " counters/symbol_error counters/port_rcv_errors counters/port_xmit_discards"
    " counters/port_xmit_wait counters/link_error_recovery hw_counters/local_ack_timeout_err"
    " hw_counters/out_of_sequence hw_counters/packet_seq_err hw_counters/rnr_nak_retry_err"
    " hw_counters/req_cqe_error hw_counters/resp_cqe_error hw_counters/roce_adp_retrans"
    " hw_counters/rp_cnp_handled"
)
_GPU = (
    "nvidia-smi"
    " --query-gpu=index,uuid,pci.bus_id,utilization.gpu,power.draw,power.limit,clocks.sm"
    ",clocks_event_reasons.active,temperature.gpu,ecc.errors.uncorrected.volatile.total"
    " --format=csv,nounits"
)
_GPU_APPS = "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv,nounits"
_QUEUE_PAIRS = "rdma resource show qp"


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """What differs between askings."""

    interval_s: int = INTERVAL_S
    """Between the samples."""
    ras: bool = True
    """Ask NCCL's RAS here: it collects over the whole job, so a few nodes of a job are enough."""
    stacks: bool = False
    """Read stacks, which pauses every rank for a moment: only where the job's owner agrees."""


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the answer."""

    name: str
    shell: str
    limit_s: int = 0
    """0 = it cannot hang, or limits itself, and runs in the script's own shell."""
    words: str = ""
    """Arguments of a part with a limit, as the script's shell writes them."""
    before: str = ""
    """What the script's shell does first, to have those arguments."""
    where: str = ""
    """A condition of the script's shell; where it does not hold, the section is empty with status
    127."""
    given: str = ""
    """What a part with a limit reads on its standard input, as a command of the script's shell."""


def _sh(name: str) -> str:
    return shell.load("busbw.triage", name).strip()


def parts(options: CollectOptions) -> tuple[Part, ...]:
    """What is asked, the most short-lived evidence first."""
    smi = "command -v nvidia-smi >/dev/null"
    # A tool that hung once would hang again and cost its time again.
    answers = smi + ' && [ -z "$HUNG" ]'

    def ras(name: str, before: str = "") -> Part:
        if not options.ras:
            return Part(name, _sh("listens.sh"), before=before)
        patience_s = 4 if name == "ras-1" else 2
        return Part(
            name,
            _sh("ras.sh"),
            14,
            f'"${{address%:*}}" "${{address##*:}}" "$FOREIGN" "${{FIRST:-self}}" {patience_s}',
            before,
        )

    stacks = (Part("stacks", _sh("stacks.sh"), 60, "$PIDS"),) if options.stacks else ()
    return (
        Part("self", _sh("self.sh")),
        Part("ranks", "printf '%s\\n' \"$RANKS\""),
        Part("look-1", _sh("sample.sh")),
        ras("ras-1", _sh("places.sh")),
        Part("gpu-1", _GPU, 8, where=smi),
        Part("gpu-apps", _GPU_APPS, 8, where=answers),
        Part("kernel", _sh("kernel.sh")),
        Part("dumps", _sh("dumps.sh"), 10, '"$@"', _sh("dump_files.sh"), "[ $# -gt 0 ]"),
        Part("logs", _sh("logs.sh"), 8, '"$@"', _sh("log_files.sh"), "[ $# -gt 0 ]"),
        Part("host", _sh("host.sh")),
        Part(
            "disks",
            _sh("disks.sh"),
            4,
            '"$@"',
            _sh("disk_files.sh"),
            given="printf '%s\\n' \"$files\"",
        ),
        Part("qps", _QUEUE_PAIRS, 4, where='[ -n "$HCAS" ] && command -v rdma >/dev/null'),
        *stacks,
        Part("wait", _sh("wait.sh")),
        Part("look-2", _sh("sample.sh")),
        ras("ras-2"),
        Part("gpu-2", _GPU, 8, where=answers),
        Part("self-2", _sh("self_again.sh")),
    )


def spread(names: Sequence[str]) -> tuple[str, ...]:
    """The nodes whose RAS is asked: the first, the last and one in the middle. A job on some of
    these nodes has one of them, mostly."""
    return tuple(names) if len(names) < 4 else (names[0], names[len(names) // 2], names[-1])


def command(options: CollectOptions, boundary: str, *, store: str | None = None) -> Command:
    """The script as one command; standard output is kept as `raw/<store>`."""
    at_most_s = 40.0 + options.interval_s + sum(part.limit_s + 1 for part in parts(options))
    return Command(
        ("sh", "-s"),
        text(options, boundary).encode(),
        timeout_s=at_most_s,
        label="live",
        store=store,
    )


def text(options: CollectOptions, boundary: str) -> str:
    """The script itself: runs as it stands with `sh`, on any node, and prints its answer on
    standard output.

    It is one function, called in the last line: a truncated script does not run at all,
    and nothing that it starts reads its text.
    """
    constants = {
        "B": boundary,
        "INTERVAL": str(options.interval_s),
        "NAMES": _RANK_NAMES,
        "KEPT": _KEPT,
        "COUNTERS": _COUNTERS,
        "READ_RANKS": _sh("read_ranks.sh"),
        "STATES": _sh("states.awk"),
        "HELD": _sh("held.awk"),
    }
    lines = [
        (
            "# Collects the evidence of a stalled job on this node. Reads only. Output: one text;"
            " keep it as NODE.txt, then: busbw why DIRECTORY"
        ),
        "main() {",
        f'echo "{MAGIC} $B"',
        _sh("find.sh"),
        *map(_part, parts(options)),
        "mark done",
        "}",
        *(f"{name}={shlex.quote(value)}" for name, value in constants.items()),
        "export NAMES KEPT",
        _sh("prologue.sh"),
        "main </dev/null",
    ]
    return "\n".join(lines) + "\n"


def _part(part: Part) -> str:
    before = f"{part.before.strip()}\n" if part.before else ""
    if part.limit_s:
        given = f"{part.given} | " if part.given else ""
        does = f"{given}ask {part.name} {part.limit_s} {shlex.quote(part.shell.strip())} {part.words}".rstrip()
        does += " || HUNG=yes" if part.name.startswith("gpu") else ""
    else:
        does = f"mark begin {part.name}\n{part.shell.strip()}\nmark end {part.name} 0"
    if part.where:
        does = (
            f"if {part.where}; then\n{does}\nelse mark begin {part.name}; mark end {part.name}"
            " 127; fi"
        )
    return f"{before}{does}"
