"""Writes logs as clusters keep them: many programs in one text, a new form of line every few lines.

    python tests/bench/gen_varied.py FILE [--kind varied|easy|tables|job] [--mb 10] [--seed 1]

- varied: NCCL INFO of several versions, training steps, Python logging, tracebacks, the kernel,
  JSON lines, pods, colours, progress bars, UCX and Gloo, a few failures
- easy: the log of `gen_log.py`, 32 forms of lines
- tables: FILE is a folder of nccl-tests outputs with launcher and NCCL lines (984 per 10 MB)
- job: FILE is a folder with the varied logs of 1,024 ranks of one job, one of which never starts

Composed, seeded, the same every time. Prints size, lines, and *shapes*: distinct lines without
digits and hex letters, per MB.
"""

# ruff: noqa: E501, SIM905  # lines of logs, and words
from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gen_log

FILES_PER_MB = 98.4
JOB_RANKS = 1024
_PIECE_BYTES = 1 << 20
_ERASED = b"0123456789abcdefABCDEF"

_WORDS = (
    "loading loaded saving saved checkpoint shard tensor optimizer scheduler worker batch sampler dataset tokenizer vocabulary"
    " gradient parameter module layer attention embedding projection dropout norm forward backward step epoch warmup decay"
    " resume restart retry request response session client server queue topic partition offset commit snapshot replica leader"
    " follower election heartbeat lease lock mutex thread process memory cache buffer page block sector volume mount device"
    " driver kernel interrupt timer signal socket port address route gateway subnet bridge tunnel packet frame segment window"
    " latency throughput bandwidth utilization temperature power fan clock voltage threshold limit quota budget usage report"
    " metric sample histogram quantile counter gauge span trace context header payload token secret config option flag value"
    " default override profile environment variable path file folder archive index record column row table schema query plan"
    " join merge sort filter group aggregate reduce map shuffle stage task job pipeline operator graph node edge vertex root"
    " branch tag release version build package image container pod namespace service endpoint ingress replica deployment"
    " skipping using found created deleted updated started stopped finished waiting ready pending running completed received"
    " sent opened closed connected registered resolved selected enabled disabled computed collected flushed allocated freed"
    " the for from with into after before while because without between per this that all some next previous first last new"
).split()
_MODULES = (
    "torch.distributed megatron.core.optimizer deepspeed.runtime.engine transformers.trainer datasets.builder ray.serve vllm.worker"
    " webdataset.cache mosaic.composer apex.amp nemo.collections lightning.fabric accelerate.state hydra.core wandb.sdk mlflow.tracking"
).split()
_PODS = "trainer loader gateway etcd coredns calico-node kube-proxy dcgm-exporter fluent-bit operator registry scheduler".split()
_UNITS = "sshd kubelet containerd systemd chronyd dockerd slurmd nvidia-persistenced rasdaemon cron".split()
_SETTINGS = (
    "NCCL_IB_HCA set to mlx5",
    "NCCL_SOCKET_IFNAME set by environment to eth0",
    "NCCL_IB_TIMEOUT set by environment to 22.",
    "NCCL_NET_GDR_LEVEL set by environment to PHB",
    "NCCL_P2P_LEVEL set by environment to NVL",
    "NCCL_TOPO_FILE set by environment to /opt/topo/node.xml",
    "NCCL_MIN_NCHANNELS set by environment to 16.",
)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Writer:
    """Composes lines with one source of chance."""

    def __init__(self, seed: int, rank: int | None = None, ranks: int = 64) -> None:
        self.rng = random.Random(seed)
        self.rank = rank
        """Whose log it is; None = that of 64 ranks, any of which may write a line."""
        self.ranks = ranks
        """Of the job."""
        self.step = 0
        self.second = 0

    def line(self) -> str:
        """The next line, or lines."""
        (kind,) = self.rng.choices(_KINDS, _WEIGHTS)
        return kind(self)

    def any_rank(self) -> int:
        """Of the next line."""
        return self.rng.randrange(64) if self.rank is None else self.rank

    def words(self, least: int, most: int) -> str:
        """Some words of infrastructure."""
        return " ".join(self.rng.choices(_WORDS, k=self.rng.randint(least, most)))

    def name(self, length: int = 5) -> str:
        """What Kubernetes puts behind a pod."""
        return "".join(self.rng.choices(_LETTERS, k=length))

    def hexadecimal(self, digits: int = 12) -> str:
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"

    def clock(self) -> str:
        """A time stamp, later than the one before."""
        self.second += self.rng.randint(0, 2)
        hours, rest = divmod(self.second, 3600)
        return f"2026-03-{1 + hours // 24 % 28:02d} {hours % 24:02d}:{rest // 60:02d}:{rest % 60:02d}.{self.rng.randrange(1000):03d}"

    def prefix(self, level: str = "INFO") -> str:
        """What NCCL writes in front of a line."""
        rank = self.any_rank()
        return f"node{rank // 8:03d}:{41000 + rank}:{42000 + rank} [{rank % 8}] NCCL {level} "


def _nccl(to: Writer) -> str:
    rng = to.rng
    prefix = to.prefix()
    rank, peer, gpu, channel = (
        to.any_rank(),
        rng.randrange(64),
        rng.randrange(8),
        rng.randrange(32),
    )
    comm = f"0x{to.hexadecimal()}"
    texts = (
        f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {peer}[{gpu}] via P2P/CUMEM",
        f"Channel {channel:02d} : {rank}[{gpu}000] -> {peer}[{gpu}000] via P2P/IPC/read",
        f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
        f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {peer}[{gpu}] [receive] via NET/Socket/{gpu}",
        f"AllReduce: opCount {to.hexadecimal(3)} sendbuff {comm} recvbuff {comm} count {rng.randrange(1 << 28)} datatype 7 op 0 root 0 comm {comm} [nranks={to.ranks}] stream {comm}",
        f"ncclCommInitRank comm {comm} rank {rank} nranks {to.ranks} cudaDev {gpu} nvmlDev {gpu} busId {0x18000 + gpu * 0x12000:x} commId 0x{to.hexadecimal(16)} - Init COMPLETE",
        f"comm {comm} rank {rank} nranks {to.ranks} cudaDev {gpu} busId {0x18000 + gpu * 0x12000:x} - Init START",
        "Trees " + " ".join(f"[{n}] {rank + 1}/-1/-1->{rank}->{rank - 1}" for n in range(rng.randint(2, 16))),
        f"Setting affinity for GPU {gpu} to {to.hexadecimal(8)},{to.hexadecimal(8)}",
        f"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.{rank}.{gpu}<0>",
        f"Bootstrap : Using eth0:10.0.{rank}.{gpu}<0>",
        rng.choice(_SETTINGS),
        "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        f"{rng.choice(('16', '24'))} coll channels, {channel} nvls channels, 32 p2p channels, 2 p2p channels per peer",
        "Connected all rings", "Connected all trees", "Using network IB",
        f"cudaDriverVersion 12{rng.randrange(100):03d}",
        f"{to.name(6)}/{to.name()}.cc:{channel} {to.words(3, 9)}",
    )  # fmt: skip
    return prefix + rng.choice(texts)


def _training(to: Writer) -> str:
    rng = to.rng
    to.step += 1
    loss = 2 + rng.random()
    front = f"[{to.clock()}] [rank{to.any_rank()}] "
    texts = (
        f" iteration {to.step:8d}/ 500000 | consumed samples: {to.step * 512} | elapsed time per iteration (ms): {rng.random() * 900:.1f} | learning rate: {rng.random():.6E} | global batch size: 512 | lm loss: {loss:.6E} | grad norm: {rng.random():.3f} | number of skipped iterations: 0 |",
        f"step {to.step} loss {loss:.4f} lr {rng.random():.3e} grad_norm {rng.random():.3f} tokens/s {rng.randrange(90000)} mfu {rng.random():.2%}",
        f"{{'loss': {loss:.4f}, 'grad_norm': {rng.random()}, 'learning_rate': {rng.random():.2e}, 'epoch': {rng.random():.2f}, '{rng.choice(_WORDS)}_{rng.choice(_WORDS)}': {rng.random():.3f}}}",
        f"eval/{rng.choice(_WORDS)}_{rng.choice(_WORDS)}={rng.random():.4f} {rng.choice(_WORDS)}={rng.randrange(1 << 20)}",
    )  # fmt: skip
    return front + rng.choice(texts)


def _python(to: Writer) -> str:
    rng = to.rng
    level = rng.choice(("INFO", "INFO", "INFO", "DEBUG", "WARNING"))
    return f"{to.clock()} {level} {rng.choice(_MODULES)}.{rng.choice(_WORDS)}:{rng.randrange(900)} {to.words(4, 12)} {rng.randrange(1 << 16)}"


def _traceback(to: Writer) -> str:
    rng = to.rng
    lines = ["Traceback (most recent call last):"]
    for _ in range(rng.randint(2, 6)):
        folder = f"/usr/lib/python3/{rng.choice(_MODULES).replace('.', '/')}"
        lines.append(
            f'  File "{folder}/{rng.choice(_WORDS)}.py", line {rng.randrange(999)}, in {rng.choice(_WORDS)}'
        )
        lines.append(f"    {rng.choice(_WORDS)} = self.{rng.choice(_WORDS)}({rng.choice(_WORDS)}, {rng.choice(_WORDS)}={rng.randrange(99)})")  # fmt: skip
    lines.append(f"{rng.choice(('KeyError', 'ValueError', 'TimeoutError'))}: {to.words(2, 6)}")
    return "\n".join(lines)


def _kernel(to: Writer) -> str:
    rng = to.rng
    bus = f"0000:{rng.randrange(256):02x}:00.0"
    texts = (
        f"mlx5_core {bus}: Port module event: module {rng.randrange(8)}, Cable plugged",
        f"nvidia {bus}: {to.words(3, 8)}",
        f"audit: type=1400 audit({rng.randrange(1 << 30)}.123:{rng.randrange(999)}): apparmor=\"ALLOWED\" operation=\"open\" profile=\"{rng.choice(_UNITS)}\" name=\"/proc/{rng.randrange(99999)}/{rng.choice(_WORDS)}\"",
        f"RIP: 0010:{rng.choice(_WORDS)}_{rng.choice(_WORDS)}+0x{to.hexadecimal(2)}/0x{to.hexadecimal(3)}",
        f"ixgbe {bus} eth{rng.randrange(4)}: {to.words(2, 6)}",
        f"EXT4-fs (nvme{rng.randrange(8)}n1p1): {to.words(3, 6)}",
    )  # fmt: skip
    if rng.random() < 0.5:
        return f"[{rng.random() * 1e6:12.6f}] {rng.choice(texts)}"
    unit = rng.choice(_UNITS)
    return f"Mar {rng.randint(1, 28):2d} {rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d} node{rng.randrange(99):03d} {unit}[{rng.randrange(99999)}]: {to.words(3, 10)}"  # fmt: skip


def _addresses(to: Writer) -> str:
    rng = to.rng
    if rng.random() < 0.4:
        return "  ".join(to.hexadecimal(8) for _ in range(8))
    return f" #{rng.randrange(40)} 0x{to.hexadecimal(16)} in {rng.choice(_WORDS)}_{rng.choice(_WORDS)} (/usr/lib/lib{rng.choice(_WORDS)}.so.{rng.randrange(9)}+0x{to.hexadecimal(6)})"  # fmt: skip


def _json(to: Writer) -> str:
    rng = to.rng
    keys = rng.sample(_WORDS, 3)
    return f'{{"ts":"{to.clock()}","level":"info","logger":"{rng.choice(_MODULES)}","msg":"{to.words(3, 8)}","{keys[0]}":{rng.randrange(9999)},"{keys[1]}":"{to.name(8)}","{keys[2]}":{rng.random():.4f}}}'  # fmt: skip


def _pod(to: Writer) -> str:
    rng = to.rng
    pod = f"{rng.choice(_PODS)}-{to.name(9)}-{to.name()}"
    texts = (
        f"[pod/{pod}/main] {to.words(3, 10)}",
        f"I0311 10:{rng.randrange(60):02d}:{rng.randrange(60):02d}.{rng.randrange(1 << 19):06d}   {rng.randrange(99)} {rng.choice(_WORDS)}.go:{rng.randrange(900)}] \"{to.words(2, 5)}\" pod=\"{rng.choice(_WORDS)}/{pod}\"",
        f"{to.clock()} stdout F {pod} GET /api/v1/{rng.choice(_WORDS)}/{to.name()} 200 {rng.random():.3f}ms",
    )  # fmt: skip
    return rng.choice(texts)


def _coloured(to: Writer) -> str:
    colour = to.rng.randint(31, 36)
    return (
        f"\x1b[{colour}m{to.clock()}\x1b[0m \x1b[1m{to.rng.choice(_WORDS)}\x1b[0m {to.words(3, 8)}"
    )


def _progress(to: Writer) -> str:
    rng = to.rng
    done = rng.randrange(100)
    bar = "█" * (done // 5) + " " * (20 - done // 5)
    return f"{rng.choice(_WORDS).title()} {rng.choice(_WORDS)}: {done}%|{bar}| {done * 37}/3700 [00:{rng.randrange(60):02d}<00:{rng.randrange(60):02d}, {rng.random() * 90:.2f}it/s]\r"  # fmt: skip


def _libraries(to: Writer) -> str:
    rng = to.rng
    texts = (
        f"[{rng.randrange(1 << 30)}.{rng.randrange(1 << 19):06d}] [node{rng.randrange(99):03d}:{rng.randrange(99999)}:0] ucp_worker.c:{rng.randrange(2000)} UCX INFO ep_cfg[{rng.randrange(9)}]: tag(rc_mlx5/mlx5_{rng.randrange(8)}:1 {rng.choice(_WORDS)})",
        f"[I] {to.clock()} gloo {rng.choice(_WORDS)}.cc:{rng.randrange(900)}] {to.words(3, 8)}",
        f"libfabric:{rng.randrange(99999)}:{rng.randrange(1 << 30)}::efa:{rng.choice(_WORDS)}:{rng.choice(_WORDS)}_{rng.choice(_WORDS)}():{rng.randrange(900)}<info> {to.words(2, 6)}",
        f"[{rng.randrange(64)}]: {to.words(3, 8)}",
    )  # fmt: skip
    return rng.choice(texts)


def _failure(to: Writer) -> str:
    rng = to.rng
    texts = (
        f"{to.prefix('WARN')}NET/IB: Got completion from peer 10.1.{rng.randrange(99)}.2<{rng.randrange(60000)}> with status=12 opcode=0 len=0 vendor err 129 (Send)",
        f"[rank{to.any_rank()}]:[E311 10:00:{rng.randrange(60):02d}.{rng.randrange(1 << 19)} ProcessGroupNCCL.cpp:616] [Rank {to.any_rank()}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={rng.randrange(999)}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600{rng.randrange(999):03d} milliseconds before timing out.",
        f"{to.clock()} ERROR {rng.choice(_MODULES)}: {to.words(2, 6)} failed: {to.words(1, 4)}",
        f"[{rng.random() * 1e6:12.6f}] NVRM: Xid (PCI:0000:{rng.randrange(256):02x}:00): {rng.choice((31, 63, 79, 94))}, pid={rng.randrange(99999)}, {to.words(1, 4)}",
    )  # fmt: skip
    return rng.choice(texts)


_MIX: tuple[tuple[Callable[[Writer], str], float], ...] = (
    (_nccl, 28), (_training, 18), (_python, 16), (_traceback, 0.3), (_kernel, 8), (_addresses, 4), (_json, 8),
    (_pod, 8), (_coloured, 4), (_progress, 2), (_libraries, 5), (_failure, 0.05),
)  # fmt: skip
_KINDS = tuple(kind for kind, _ in _MIX)
_WEIGHTS = tuple(weight for _, weight in _MIX)


def varied(size_bytes: int, seed: int = 1) -> Iterator[bytes]:
    """Pieces of a varied log, about this long in all."""
    to = Writer(seed)
    written = 0
    while written < size_bytes:
        lines: list[str] = []
        size = 0
        while size < min(_PIECE_BYTES, size_bytes - written):
            lines.append(to.line())
            size += len(lines[-1]) + 1
        piece = ("\n".join(lines) + "\n").encode()
        written += len(piece)
        yield piece


def job(folder: Path, ranks: int, size_bytes: int, seed: int = 1) -> None:
    """A folder with a log of each rank of one job, this long each: the last rank never starts, the
    one before has another NCCL_PROTO, and nobody's communicator is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    comm_id = f"0x{Writer(seed).hexadecimal(16)}"
    for rank in range(ranks):
        to = Writer(seed + rank, rank, ranks)
        lines = [to.prefix() + "NCCL version 2.27.3+cuda12.9"]
        lines.append(
            f"{to.prefix()}NCCL_PROTO set by environment to {'LL' if rank == ranks - 2 else 'Simple'}"
        )
        lines.append(
            f"{to.prefix()}Bootstrap : Using eth0:10.{rank // 8 // 250}.{rank // 8 % 250}.{rank % 8}<0>"
        )
        if rank < ranks - 1:
            lines.append(f"{to.prefix()}ncclCommInitRank comm 0x{to.hexadecimal()} rank {rank} nranks {ranks} cudaDev {rank % 8} busId {0x18000:x} commId {comm_id} - Init START")  # fmt: skip
        size = 0
        while size < size_bytes:
            line = to.line()
            if "- Init " not in line:
                lines.append(line)
                size += len(line) + 1
        (folder / f"rank{rank:05d}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(to: Writer) -> str:
    """One output of nccl-tests under mpirun, with NCCL's log around it."""
    rng = to.rng
    ranks = rng.choice((2, 4, 8, 16))
    lines = [
        f"+ mpirun -np {ranks} -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 128M -f 2 -g 1"
    ]
    lines += ["# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0", "#", "# Using devices"]  # fmt: skip
    for rank in range(ranks):
        lines.append(f"#  Rank {rank:2d} Group  0 Pid {41000 + rank:6d} on node{rank // 8:03d} device {rank % 8:2d} [0000:{24 + rank % 8:02x}:00] NVIDIA H100 80GB HBM3")  # fmt: skip
    lines += [_nccl(to) for _ in range(rng.randrange(80))]
    lines += ["#", "#                                                              out-of-place                       in-place"]  # fmt: skip
    lines += ["#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"]  # fmt: skip
    lines += ["#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"]  # fmt: skip
    factor = 2 * (ranks - 1) / ranks
    rates = []
    for power in range(3, 28):
        size = 1 << power
        cells = []
        for _ in range(2):
            time_us = round(20 + size / 1e5 * (1 + rng.random() / 20), 2)
            algbw = size / time_us / 1e3
            rates.append(algbw * factor)
            cells.append(f"{time_us:8.2f} {algbw:7.2f} {algbw * factor:7.2f} {0:6d}")
        lines.append(
            f"{size:12d} {max(1, size // 4):13d} {'float':>9} {'sum':>7} {-1:7d} " + " ".join(cells)
        )
    lines += [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {sum(rates) / len(rates):.4f} ",
        "#",
        "",
    ]
    return "\n".join(lines)


def tables(folder: Path, size_bytes: int, seed: int = 1) -> None:
    """A folder of such outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    to = Writer(seed)
    for number in range(max(1, round(size_bytes / 1e6 * FILES_PER_MB))):
        (folder / f"run{number:05d}.txt").write_text(table(to), encoding="utf-8")


def write(path: Path, kind: str, size_bytes: int, seed: int = 1) -> None:
    """A text, or a folder of texts, of one kind."""
    if kind == "tables":
        tables(path, size_bytes, seed)
    elif kind == "job":
        job(path, JOB_RANKS, round(size_bytes / JOB_RANKS), seed)
    elif kind == "easy":
        gen_log.write(path, max(1, round(size_bytes / 1e9 * gen_log.COMMUNICATORS)), seed)
    else:
        with path.open("wb") as out:
            out.writelines(varied(size_bytes, seed))


def shapes_of(path: Path) -> str:
    """Size, lines, and how many forms of lines there are."""
    shapes: set[bytes] = set()
    size = lines = 0
    for file in sorted(path.iterdir()) if path.is_dir() else (path,):
        with file.open("rb") as text:
            for line in text:
                size += len(line)
                lines += 1
                shapes.add(line.translate(None, _ERASED))
    return f"{size / 1e6:.1f} MB, {lines} lines, {len(shapes) / size * 1e6:.0f} shapes per MB"


def main() -> None:
    """Write one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--kind", choices=("varied", "easy", "tables", "job"), default="varied")
    parser.add_argument("--mb", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write(arguments.file, arguments.kind, round(arguments.mb * 1e6), arguments.seed)
    print(shapes_of(arguments.file))


if __name__ == "__main__":
    main()
