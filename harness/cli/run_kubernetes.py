"""`busbw run --launcher mpijob`: workers of an MPIJob for the time of the run, reached through kubectl."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.rundir import RunDir
    from busbw.stages.kubernetes import Workers

NAME = "mpijob"


def register(parser: argparse.ArgumentParser) -> None:
    """Options of the MPIJob."""
    group = parser.add_argument_group(
        "Kubernetes", "with --launcher mpijob and --node-count: workers of the MPI operator (kubeflow.org/v2beta1)"
    )
    group.add_argument("--image", metavar="IMAGE", help="with Open MPI, an sshd, and nccl-tests (--nccl-tests /FOLDER in it)")
    group.add_argument("--namespace", metavar="NAME", help="default: the context's own")
    group.add_argument("--context", metavar="NAME", help="of kubectl's configuration; default: the current one")
    group.add_argument("--pod-gpus", type=int, default=8, metavar="N", help="nvidia.com/gpu of each worker (default 8)")
    group.add_argument("--rdma", action="append", default=[], metavar="RESOURCE=N", help="such as rdma/ib=8; may be repeated")
    group.add_argument("--networks", metavar="TEXT", help="secondary interfaces: the annotation k8s.v1.cni.cncf.io/networks")
    group.add_argument("--hugepages", metavar="SIZE", help="of 2 MiB, such as 4Gi; needs --pod-memory")
    group.add_argument("--pod-memory", metavar="SIZE", help="of each worker")
    group.add_argument("--shm", default="64Gi", metavar="SIZE", help="of /dev/shm in each worker (default 64Gi)")


class Pods:
    """The workers of a run, or none; and the run they belong to, once there is one."""

    def __init__(self, asked: Workers | None) -> None:
        """`asked` = None: the run has no workers of an MPIJob."""
        self._asked = asked
        self._run: RunDir | None = None

    def serve(self, run: RunDir) -> None:
        """Write down the job in the run directory, before anything is asked of its pods: whoever is killed is resumed among the same."""
        from busbw.stages import kubernetes

        if self._asked is not None:
            self._run = run
            kubernetes.remember(run, self._asked)

    def keep_logs(self) -> None:
        """What the pods printed, in the run directory, where there is one by now."""
        from busbw.stages import kubernetes

        if self._asked is not None and self._run is not None:
            kubernetes.keep_logs(self._asked.job, self._asked.context, self._run)


@contextlib.contextmanager
def workers(args: argparse.Namespace) -> Iterator[Pods]:
    """With --launcher mpijob: the workers are there, and `args` names them; they are deleted at the end. Else nothing.

    Raises:
        UsageError: the options make no job.
        LaunchError: kubectl refused the job, or its workers did not become ready.
    """
    asked = _asked(args)
    pods = Pods(asked)
    if asked is None:
        yield pods
        return
    from busbw.launch import mpijob
    from busbw.stages import kubernetes

    text = mpijob.manifest(asked.job)
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        if not args.resume:
            file = Path(folder) / "workers.yaml"
            file.write_text(kubernetes.inventory(asked.job, asked.context))
            args.inventory, args.transport = str(file), "kubectl"
        if args.dry_run:
            sys.stdout.write(f"kubectl apply -f - <<'EOF'\n{text}EOF\n\n")
            yield pods
            return
        signal.signal(signal.SIGTERM, _as_interrupt)
        with kubernetes.running(asked.job, asked.context, _say):
            try:
                yield pods
            finally:
                pods.keep_logs()


def _asked(args: argparse.Namespace) -> Workers | None:
    from busbw import rundir
    from busbw.launch.mpijob import MpiJob
    from busbw.stages import kubernetes

    if args.resume:
        return kubernetes.remembered(rundir.open_existing(args.resume))
    if args.launcher != NAME or args.replay:
        return None
    if args.inventory or args.nodes:
        raise UsageError("--launcher mpijob brings its own nodes", seen="-i or -w beside it", next_step="--node-count N")
    if not args.image or args.node_count is None:
        raise UsageError(
            "--launcher mpijob needs --image and --node-count", seen="one is missing", next_step="--image IMAGE --node-count 4"
        )
    job = MpiJob(
        name=f"busbw-{secrets.token_hex(3)}",
        image=args.image,
        workers=args.node_count,
        gpus=args.pod_gpus,
        namespace=args.namespace,
        rdma=tuple(_resource(text) for text in args.rdma),
        networks=args.networks,
        hugepages=args.hugepages,
        shm=args.shm,
        memory=args.pod_memory,
    )
    return kubernetes.Workers(job, args.context)


def _resource(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not count.isdigit():
        raise UsageError(f"--rdma {text}: expected RESOURCE=N", next_step="such as --rdma rdma/ib=8")
    return name, int(count)


def _say(step: str, text: str) -> None:
    sys.stderr.write(f"busbw: {step}: {text}\n")


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")
