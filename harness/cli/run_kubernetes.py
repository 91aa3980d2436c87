"""`busbw run --launcher mpijob`: workers of an MPIJob for the time of the run, reached through kubectl."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import stop_signals, write_message
from busbw.errors import UsageError
from busbw.launch.choose import choose

if TYPE_CHECKING:
    from busbw.run.kubernetes import Workers
    from busbw.store.run_directory import RunDir


class Pods:
    """The workers of a run, or none; and the run they belong to, once there is one."""

    def __init__(self, requested: Workers | None) -> None:
        """`requested` = None: the run has no workers of an MPIJob."""
        self._requested = requested
        self._run: RunDir | None = None

    def serve(self, run: RunDir) -> None:
        """Write down the job in the run directory, before anything reaches its pods: whoever is
        killed is resumed among the same."""
        from busbw.run import kubernetes

        if self._requested is not None:
            self._run = run
            kubernetes.remember(run, self._requested)

    def keep_logs(self) -> None:
        """What the pods printed, in the run directory, where there is one by now."""
        from busbw.run import kubernetes

        if self._requested is not None and self._run is not None:
            kubernetes.keep_logs(self._requested.job, self._requested.context, self._run)


@contextlib.contextmanager
def workers(args: argparse.Namespace) -> Iterator[Pods]:
    """With --launcher mpijob: the workers are there, and `args` names them; they are deleted at the
    end. Else nothing.

    Raises:
        UsageError: the options make no job.
        LaunchError: kubectl refused the job, or its workers did not become ready.
    """
    requested = _requested_workers(args)
    pods = Pods(requested)
    if requested is None:
        yield pods
        return
    from busbw.launch import mpijob
    from busbw.run import kubernetes

    text = mpijob.manifest(requested.job)
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        if not args.resume:
            file = Path(folder) / "workers.yaml"
            file.write_text(kubernetes.inventory(requested.job, requested.context))
            args.inventory, args.transport = str(file), "kubectl"
            args.pods = _again(args)
        if args.dry_run:
            sys.stdout.write(f"kubectl apply -f - <<'EOF'\n{text}EOF\n\n")
            yield pods
            return
        stop_signals.interrupt()
        with kubernetes.running(requested.job, requested.context, _print_progress):
            try:
                yield pods
            finally:
                pods.keep_logs()


def _requested_workers(args: argparse.Namespace) -> Workers | None:
    from busbw.launch.mpijob import MpiJob
    from busbw.run import kubernetes
    from busbw.store import run_directory

    if args.resume:
        return kubernetes.remembered(run_directory.open_existing(args.resume))
    if args.replay or not choose(args.launcher).creates_nodes:
        return None
    if args.inventory or args.nodes:
        raise UsageError(
            f"--launcher {args.launcher} creates its own nodes",
            seen="-i or -w was given too",
            next_step="--node-count N",
        )
    if not args.image or args.node_count is None:
        raise UsageError(
            f"--launcher {args.launcher} needs --image and --node-count",
            seen="one of them was not given",
            next_step="--image IMAGE --node-count 4",
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
        pod=_pod_spec(args.pod_spec),
    )
    return kubernetes.Workers(job, args.context)


def _again(args: argparse.Namespace) -> tuple[str, ...]:
    """The options that make such workers again, each with its value."""
    pairs = [
        ("--image", args.image),
        ("--namespace", args.namespace),
        ("--context", args.context),
        ("--pod-gpus", args.pod_gpus),
        *(("--rdma", each) for each in args.rdma),
        ("--networks", args.networks),
        ("--hugepages", args.hugepages),
        ("--pod-memory", args.pod_memory),
        ("--pod-spec", args.pod_spec),
        ("--shm", args.shm),
    ]
    return tuple(str(word) for name, value in pairs if value is not None for word in (name, value))


def _pod_spec(path: Path | None) -> str:
    """What a file adds to the workers' pods, as JSON."""
    from busbw.codec import read_tree
    from busbw.files import read_given
    from busbw.launch.mpijob import POD_KEYS
    from busbw.text import decoded

    if path is None:
        return ""
    try:
        tree = read_tree(decoded(read_given(path)), str(path)).value
    except OSError as error:
        raise UsageError(
            f"--pod-spec {path}: {error.strerror or error}", next_step="give a YAML file"
        ) from error
    strange = sorted(set(tree) - POD_KEYS) if isinstance(tree, dict) else ["no mapping"]
    if strange:
        raise UsageError(
            f"--pod-spec {path} has what busbw sets itself, or no pod has: {', '.join(strange)}",
            seen=f"known: {', '.join(sorted(POD_KEYS))}",
            next_step="leave it out",
        )
    return json.dumps(tree)


def _resource(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not count.isdigit():
        raise UsageError(
            f"--rdma {text}: expected RESOURCE=N", next_step="such as --rdma rdma/ib=8"
        )
    return name, int(count)


def _print_progress(step: str, text: str) -> None:
    write_message(f"busbw: {step}: {text}\n")
