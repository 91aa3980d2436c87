"""`busbw run`: check the nodes, build, measure, judge, report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from busbw.cli import console, on_fail, options, outputs, write_message
from busbw.errors import Interrupted, LaunchError, RunDirError, UsageError
from busbw.launch.choose import choose, launchers

# `busbw run --launcher mpijob`: workers of an MPIJob for the time of the run, reached through
# kubectl.

if TYPE_CHECKING:
    from busbw.run.kubernetes import Workers
    from busbw.run.planning import Prepared, RunOptions
    from busbw.store.run_directory import RunDir


def register_kubernetes(parser: argparse.ArgumentParser) -> None:
    """Options of the MPIJob."""
    group = parser.add_argument_group(
        "Kubernetes",
        "with --launcher mpijob and --node-count: workers of the MPI operator"
        " (kubeflow.org/v2beta1)",
    )
    group.add_argument(
        "--image",
        metavar="IMAGE",
        help="with Open MPI, an sshd, and nccl-tests (--nccl-tests /FOLDER in it)",
    )
    group.add_argument("--namespace", metavar="NAME", help="default: the context's own")
    group.add_argument(
        "--context", metavar="NAME", help="of kubectl's configuration; default: the current one"
    )
    group.add_argument(
        "--pod-gpus",
        type=int,
        default=8,
        metavar="N",
        help="nvidia.com/gpu of each worker (default 8)",
    )
    group.add_argument(
        "--rdma",
        action="append",
        default=[],
        metavar="RESOURCE=N",
        help="such as rdma/ib=8; may be repeated",
    )
    group.add_argument(
        "--networks",
        metavar="TEXT",
        help="secondary interfaces: the annotation k8s.v1.cni.cncf.io/networks",
    )
    group.add_argument(
        "--hugepages", metavar="SIZE", help="of 2 MiB, such as 4Gi; needs --pod-memory"
    )
    group.add_argument("--pod-memory", metavar="SIZE", help="of each worker")
    group.add_argument(
        "--pod-spec",
        type=Path,
        metavar="FILE",
        help=(
            "YAML with more of each worker's pod: nodeSelector, tolerations, serviceAccountName,"
            " imagePullSecrets, resourceClaims and the like"
        ),
    )
    group.add_argument(
        "--shm", default="64Gi", metavar="SIZE", help="of /dev/shm in each worker (default 64Gi)"
    )


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
        if args.dry_run:
            sys.stdout.write(f"kubectl apply -f - <<'EOF'\n{text}EOF\n\n")
            yield pods
            return
        signal.signal(signal.SIGTERM, _as_interrupt)
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


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")


# `busbw run` and Slurm: the launcher that is used, and an allocation of its own where none is
# there.

PMLS = ("ob1", "ucx")


def register_slurm(parser: argparse.ArgumentParser) -> None:
    """Options of the launcher."""
    group = parser.add_argument_group("launcher")
    group.add_argument(
        "--launcher",
        metavar="NAME",
        help="; ".join(f"{each.name}: {each.title}" for each in launchers().values())
        + " (default: the inventory's, else mpirun)",
    )
    group.add_argument(
        "--pml",
        choices=PMLS,
        help="what carries MPI's own few words: ob1 over TCP, or UCX (default: the profile's)",
    )
    group.add_argument(
        "--mpi",
        metavar="PLUGIN",
        help="for srun --mpi (default: pmix or pmi2, as srun --mpi=list names them)",
    )
    group.add_argument(
        "--partition",
        metavar="NAME",
        help="ask Slurm for an allocation there, run in it, give it back",
    )
    group.add_argument(
        "--time",
        metavar="TIME",
        help="limit of that allocation as salloc takes it: 30 (minutes), 2:00:00",
    )
    group.add_argument(
        "--node-count",
        type=int,
        metavar="N",
        help="any N nodes of it, where neither -w nor -i names them",
    )
    group.add_argument(
        "--salloc",
        action="append",
        default=[],
        metavar="OPTION",
        help="any other option of salloc, such as --salloc=--account=x",
    )


def become_allocated(args: argparse.Namespace) -> None:
    """Where an allocation is requested and none is there: start this command over inside `salloc`.
    Does not return then.

    Raises:
        UsageError: the options do not say which nodes.
        LaunchError: there is no salloc on this machine.
    """
    from busbw import inventory
    from busbw.assess import load_plan
    from busbw.launch import srun
    from busbw.run import planning
    from busbw.store.run_directory import open_existing

    if "SLURM_JOB_ID" in os.environ or args.dry_run or args.replay:
        return
    if choose(args.launcher).creates_nodes:
        return
    options = planning.salloc_options(options_of(args))
    nodes: tuple[str, ...] = ()
    if args.resume:
        plan = load_plan(open_existing(args.resume))
        planning.enter_lab(plan)
        options, nodes = options or plan.salloc, tuple(node.name for node in plan.cluster.nodes)
    if not options and args.node_count is None:
        return
    if not args.resume and (args.nodes or args.inventory):
        nodes = tuple(
            node.name
            for node in inventory.resolve(
                args.inventory, args.nodes, args.exclude, os.environ
            ).nodes
        )
    elif not args.resume and args.exclude:
        raise UsageError(
            "-x without -w or -i",
            seen=f"-x {args.exclude}",
            next_step=f"--salloc=--exclude={args.exclude}",
        )
    argv = srun.salloc(
        options, nodes, args.node_count, (sys.executable, "-m", "busbw", *sys.argv[1:])
    )
    _require_slurm()
    sys.stdout.flush()
    # salloc ends with 1 where it gets no allocation, which would read as "measured and failed".
    failed = str(LaunchError.exit_status)
    environ = {**os.environ, "SLURM_EXIT_ERROR": failed, "SLURM_EXIT_IMMEDIATE": failed}
    try:
        os.execvpe(argv[0], argv, environ)
    except OSError as error:
        raise _no_slurm(f"salloc: {error}") from error


_SLURM_ANSWERS_S = 30.0


def _require_slurm() -> None:
    """A controller of Slurm answers here.

    Raises:
        LaunchError: none does.
    """
    asking = ("sinfo", "--noheader", "--format=%P")
    try:
        asked = subprocess.run(
            asking, capture_output=True, text=True, timeout=_SLURM_ANSWERS_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_slurm(f"sinfo: {error}") from error
    if asked.returncode != 0:
        lines = asked.stderr.strip().splitlines()
        raise _no_slurm(lines[-1] if lines else f"sinfo: exit status {asked.returncode}")


def _no_slurm(seen: str) -> LaunchError:
    return LaunchError(
        "this machine cannot request an allocation",
        seen=seen,
        next_step="run busbw on a login node of the Slurm cluster",
    )


DEFAULT_PLAYBOOK = "day-one"
PLAYBOOKS = ("quick", "day-one", "firmware-ci", "provider-acceptance", "soak")
"""From the shortest to the longest; written out, since `--help` reads no file."""
_INSISTS = 3
"""Signals after which a run stops without cleaning up."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw run`."""
    parser.add_argument(
        "playbook",
        nargs="?",
        default=DEFAULT_PLAYBOOK,
        metavar="PLAYBOOK",
        help=f"{', '.join(PLAYBOOKS)}, or a file (default {DEFAULT_PLAYBOOK})",
    )
    nodes = parser.add_argument_group("nodes")
    options.add_nodes(nodes)
    options.add_reach(nodes)
    options.add_host_keys(nodes)
    nodes.add_argument(
        "--temporary-keys",
        action="store_true",
        help="where nodes cannot log in to each other: a key for this run, removed at its end",
    )
    nodes.add_argument(
        "--force",
        action="store_true",
        help="measure also on nodes where somebody else works; without it they are refused",
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "-p",
        "--profile",
        metavar="NAME",
        help=(
            "fabric profile, such as infiniband or rocev2, or a file that extends one, such as"
            " ./mine.yaml (default: the inventory's, else detected)"
        ),
    )
    what.add_argument(
        "--ranks-per-node",
        type=int,
        metavar="N",
        help="ranks per node (default: the inventory's, else the node's GPUs)",
    )
    what.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable over the profile's; may be repeated",
    )
    what.add_argument(
        "--unset",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable that no rank may have, whoever sets it; may be repeated",
    )
    what.add_argument(
        "--contract",
        type=Path,
        metavar="FILE",
        help="numbers that a provider promised; busbw expect --contract-template",
    )
    what.add_argument(
        "--nccl-tests",
        metavar="PATH",
        help=(
            "nccl-tests: a folder or archive of sources here, its address"
            " (https://…/x.tar.gz#sha256=…, git+https://…#v2.19.6), or an absolute folder of"
            " binaries there"
        ),
    )
    what.add_argument(
        "--survey",
        action="store_true",
        help="measure groups of nodes against each other whether or not something falls short",
    )
    what.add_argument(
        "--budget",
        metavar="TIME",
        help="time for the survey, such as 90s or 20m (default: the playbook's); implies --survey",
    )
    what.add_argument(
        "--with",
        dest="with_",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help=(
            "earlier runs whose surveys of these nodes count as well: fewer launches until somebody"
            " is named (default: those of the last four hours, alike, that left open who is slow)"
        ),
    )
    what.add_argument(
        "--fresh",
        action="store_true",
        help="no earlier survey counts, such as after a fix",
    )
    what.add_argument(
        "--fabric-file",
        nargs="+",
        metavar="PATH",
        help=(
            "the fabric's own view, as for busbw check: links are judged, and findings name the"
            " switch port at the far end"
        ),
    )
    register_slurm(parser)
    register_kubernetes(parser)
    what.add_argument(
        "--sweep",
        dest="sweep",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help=(
            "parameter sweep: measure these values interleaved with the variable unset, in place of"
            " the playbook's cases; an option of the benchmark by its field (registration=0,2), the"
            " collectives by collective=all_reduce,alltoall; repeated: all combinations"
        ),
    )
    what.add_argument(
        "--treatment",
        metavar="NODES",
        help="these nodes have a change: measure them interleaved with as many control nodes",
    )
    what.add_argument(
        "--duration",
        metavar="TIME",
        help="repeat the bandwidth cases for so long, such as 8h: a soak",
    )
    result = parser.add_argument_group("result")
    result.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where run directories go (default runs)",
    )
    result.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with a run that was cut off; finished steps are not repeated",
    )
    options.add_trust(result)
    result.add_argument(
        "--replay", type=Path, metavar="RUN", help="run again from a recording, without any node"
    )
    result.add_argument(
        "--dry-run",
        action="store_true",
        help="print every command line with the reason of each variable; contact no node; with -v the"
        " probes' scripts too",
    )
    result.add_argument("--json", action="store_true", help="print run.json instead of the verdict")
    console.register(result)
    outputs.register(parser)
    on_fail.register(parser)


def options_of(args: argparse.Namespace) -> RunOptions:
    """What was given on the command line, as the record that planning takes."""
    from busbw.run.planning import RunOptions

    given = {
        field.name: getattr(args, field.name)
        for field in dataclasses.fields(RunOptions)
        if hasattr(args, field.name)
    }
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return RunOptions(**{**given, **lists, "connect_timeout_s": args.connect_timeout})


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status is the verdict's."""
    from busbw.lab.enter import become_inside

    if args.resume and args.replay:
        raise UsageError(
            "--resume and --replay exclude each other",
            seen="both were given",
            next_step="give one of them",
        )
    outputs.check(args)
    on_fail.check(args)
    if args.act and args.replay:
        raise UsageError(
            "a replay acts on no node",
            seen="--act with --replay",
            next_step="leave --act out: what would be done is printed",
        )
    if args.fabric_file:
        # A name that is no file is refused before a node is asked, and in a dry run too.
        from busbw import intake

        intake.expand(args.fabric_file)
    if not (args.dry_run or args.resume or args.replay):
        # Before anything heavy is imported: the command starts over inside the lab.
        become_inside(args.inventory)
    if args.resume:
        from busbw.store import own_plans, run_directory

        own_plans.require_plan(run_directory.open_existing(args.resume).path, trust=args.trust)
    become_allocated(args)
    from busbw.run import planning

    with workers(args) as pods, ExitStack() as stack:
        if args.dry_run:
            from busbw.run.dry_run import dry_run

            options = options_of(args)
            plan = planning.new_plan(options)
            benchmark = planning.benchmark(options, plan, fetch=False)
            sys.stdout.write(dry_run(plan, benchmark, verbose=args.verbose > 0))
            return 0
        return _execute(args, pods, stack)


def _take_open_ones(prepared: Prepared, screen: console.Console) -> None:
    """The surveys beside it that left open who is slow count as well, and a line says so."""
    from busbw.survey import earlier

    if prepared.plan.playbook.survey.when == "never":
        return
    others = earlier.left_open(prepared.run, prepared.plan)
    if not others:
        return
    earlier.take(prepared.run, prepared.plan, [other.path for other in others], unasked=True)
    names = ", ".join(other.run_id for other in others)
    screen.progress(
        "note",
        f"surveys that left open who is slow count too, unless this run finds the part good: {names}"
        " (--fresh: they do not)",
    )


def _execute(args: argparse.Namespace, pods: Pods, stack: ExitStack) -> int:
    from busbw.cli.console import Console, steady
    from busbw.reports import terminal
    from busbw.reports.sections import interleaved
    from busbw.run import fabric_side, pipeline, planning
    from busbw.survey import earlier

    screen, now = Console(quiet=args.quiet, verbose=args.verbose), steady()
    prepared = planning.prepare(options_of(args), now(), stack)
    pods.serve(prepared.run)
    if args.fabric_file:
        fabric_side.take_files(prepared.run, prepared.plan.cluster.nodes, args.fabric_file)
    if args.replay is not None:
        earlier.carry(args.replay, prepared.run)
    elif args.with_:
        earlier.take(prepared.run, prepared.plan, args.with_)
    elif not (args.resume or args.fresh):
        _take_open_ones(prepared, screen)
    for note in prepared.notes:
        screen.progress("note", note)
    shown = os.path.relpath(prepared.run.path)
    stopping = _Stopping()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stopping)
    try:
        with screen:
            result = pipeline.execute(
                prepared.run,
                prepared.plan,
                prepared.transport,
                prepared.benchmark,
                progress=screen.progress,
                now=now,
            )
    except KeyboardInterrupt as stop:
        steps = (
            f"busbw run --resume {shown}"
            if stopping.signals < _INSISTS
            else f"busbw cleanup {shown}, for the nodes were not cleaned up"
        )
        raise Interrupted(
            "interrupted; what was measured is kept", seen=f"{shown}/report.html", next_step=steps
        ) from stop
    except RunDirError as error:
        if isinstance(error.__cause__, OSError):
            error.next_step = (
                f"make room, then busbw run --resume {shown}: finished steps are not repeated"
            )
        raise
    lines = terminal.verdict_lines(result, shown)
    if args.on_fail is not None:
        from busbw.act import suspects

        on_fail.act(args, prepared.run, prepared.plan, suspects.of_run(result))
    if args.json:
        sys.stdout.write(prepared.run.read_derived("run.json").decode())
    else:
        if not args.quiet:
            compared = tuple(terminal.Line(text) for text in interleaved.lines(result))
            sys.stdout.write(console.shown(compared))
        sys.stdout.write(console.shown(lines[-1:] if args.quiet else lines))
    return outputs.deliver(args, prepared.run.path, result, lines[-1].text)


class _Stopping:
    """Ctrl-C, SIGTERM and a lost terminal end a run alike: cleaned up, reported, resumable. Who
    asks twice is told to wait for that."""

    def __init__(self) -> None:
        self.signals = 0

    def __call__(self, number: int, frame: object) -> None:
        self.signals += 1
        if 1 < self.signals < _INSISTS:
            # Not through the console: a signal may come while it writes.
            os.write(
                2,
                b"\nbusbw: the nodes are being cleaned up; a third signal leaves them as they"
                b" are\n",
            )
            return
        raise KeyboardInterrupt(f"signal {number}")
