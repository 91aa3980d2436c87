"""What each stage leaves in `raw/` beside the plain output: small records that say what was done,
where its output is, how it ended.

An artefact that exists means that its step is finished: `--resume` goes on after it. Everything in
a report is derived from these, the plan and the recorded output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from busbw.codec import dump_json, parse_json
from busbw.errors import RunDirError
from busbw.model import BenchmarkCase, Invocation, Node, SetupScript, Unreachable
from busbw.store.run_directory import RunDir

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReachArtefact:
    """`raw/reach.json`: who could be reached."""

    reached: tuple[str, ...]
    unreachable: tuple[Unreachable, ...]
    transport: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreflightEntry:
    """One node's answer to the script."""

    node: str
    stdout: str
    """Path inside the run directory."""
    stderr: str | None
    exit_status: int | None
    problem: str | None
    seconds: float
    answered_s: float | None = None
    """In seconds since 1970 by the clock of busbw's machine; None = not recorded."""


@dataclass(frozen=True, slots=True)
class PreflightArtefact:
    """`raw/preflight.json`: all nodes' answers."""

    boundary: str
    entries: tuple[PreflightEntry, ...]


@dataclass(frozen=True, slots=True)
class Excluded:
    """A node that was reached and takes no part, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Participants:
    """`raw/participants.json`: who takes part in the measurements."""

    nodes: tuple[str, ...]
    head: str
    """The node that starts the launcher: the cluster's head, or the first node left where that one
    cannot take part."""
    excluded: tuple[Excluded, ...]
    unseen: tuple[str, ...] = ()
    """What could not be seen of others' work on the nodes, and why."""


@dataclass(frozen=True, slots=True)
class ExcludedNodes:
    """`raw/excluded-nodes.json`: nodes to which the head cannot log in, which the launcher has to."""

    nodes: tuple[Excluded, ...]


@dataclass(frozen=True, slots=True)
class StageFailure:
    """`raw/failure-STAGE.json`: why a stage ended the run; later stages report on what exists."""

    stage: str
    what: str
    seen: str
    next_step: str
    exit_status: int
    nodes: tuple[str, ...] = ()
    """Nodes it names."""


@dataclass(frozen=True, slots=True)
class SampleFile:
    """Where the two looks at one node are kept."""

    node: str
    path: str
    clock_offset_s: float | None = None
    """The node's clock minus ours; None = not known. It decides only the order of events."""


@dataclass(frozen=True, slots=True)
class CounterFile:
    """Where one node's counters are kept."""

    node: str
    path: str | None
    """Path inside the run directory; None = the node did not answer, see `problem`."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CountersArtefact:
    """`raw/cases/ID/counters-before.json` and `…-after.json`: the counters of the launch's nodes at
    that moment."""

    moment: str
    """`before` or `after`."""
    files: tuple[CounterFile, ...]


@dataclass(frozen=True, slots=True)
class SetupNode:
    """A setup script as one node has it."""

    node: str
    sha256: str | None
    """None = it is not there, or cannot be read; `problem` says where the node did not answer."""
    variables: tuple[tuple[str, str], ...] = ()
    """Of the network libraries: what it sets or changes, sorted by name."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SetupArtefact:
    """`raw/setup.json`: the script that every rank sources."""

    script: SetupScript
    nodes: tuple[SetupNode, ...]


@dataclass(frozen=True, slots=True)
class FabricText:
    """One text about the fabric and where it is kept."""

    kind: str
    """`node`, `host` or `file`."""
    name: str
    """Of the node or host, or the file as given."""
    path: str | None
    """Path inside the run directory; None = there is none, see `problem`."""
    stderr: str | None
    exit_status: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FabricArtefact:
    """`raw/fabric.json`: what was asked about the fabric, or given."""

    nodes: tuple[Node, ...]
    """Of the inventory; () = none was given."""
    boundary: str
    texts: tuple[FabricText, ...]


@dataclass(frozen=True, slots=True)
class ProbeText:
    """One attempt of the path between the nodes and where its output is kept."""

    kind: str
    """`login`, `hello`, `listen`, `connect`, `rails`, `pingpong` or `nccl`."""
    node: str
    path: str | None
    """Path inside the run directory; None = there was no output, see `problem`."""
    exit_status: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ProbeArtefact:
    """`raw/probe.json`: the path between the nodes, as it was tried."""

    nodes: tuple[str, ...]
    head: str
    interface: str | None
    """NCCL_SOCKET_IFNAME as the profile sets it; None = it leaves the choice to NCCL."""
    texts: tuple[ProbeText, ...]
    by_ssh: bool = True
    """False = the launcher needs no ssh between the nodes, so that neither logins nor mpirun were
    tried."""


@dataclass(frozen=True, slots=True)
class GpusText:
    """What one node said of each of its GPUs."""

    node: str
    path: str | None
    """Path inside the run directory; None = it said nothing, see `problem`."""
    stderr: str | None
    exit_status: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GpusArtefact:
    """`raw/gpus.json`: each GPU by itself."""

    boundary: str
    level: int | None
    """Of `dcgmi diag -r`; None = not asked for."""
    texts: tuple[GpusText, ...]


@dataclass(frozen=True, slots=True)
class CpuLoad:
    """How busy the CPUs of a node are at one moment."""

    running: int
    """Tasks that run or wait for a CPU, the one that counts them among them."""
    cpus: int
    load_1m: float
    """Load average of a minute, what this run did in it included."""
    pressure_percent: float | None
    """Share of the last 10 s in which some task waited for a CPU; None = the kernel does not
    count."""

    @property
    def tasks_per_cpu(self) -> float:
        """Tasks of others that run or wait now, for each CPU."""
        return max(0, self.running - 1) / self.cpus

    @property
    def busy(self) -> bool:
        """Others want more CPUs than there are."""
        return self.tasks_per_cpu > 1


@dataclass(frozen=True, slots=True)
class CaseArtefact:
    """`raw/cases/ID/outcome.json`: one launch, from its command line to its end."""

    case: BenchmarkCase
    invocation: Invocation
    nodes: tuple[str, ...]
    """In the order of their ranks."""
    ranks_per_node: int
    state: str
    """`ended`, `stalled`, `timed-out`, `lost`, `not-started` or `unwatched` (the head node stopped
    answering)."""
    exit_status: int | None
    seconds: float
    stdout: str | None
    """Path inside the run directory; None = there was none."""
    stderr: str | None
    json: str | None
    samples: tuple[SampleFile, ...] = ()
    unreachable: tuple[Unreachable, ...] = ()
    """Nodes that did not answer when they were looked at."""
    problem: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    """The groups a survey round measures at once; () = one communicator over all nodes."""
    order: int = 0
    """Place among the launches of the run."""
    concurrent_with: str = ""
    """Launches with one such name ran side by side; empty = no other ran."""
    began: str = ""
    """RFC 3339, UTC, by the clock of the machine that busbw ran on; nothing is decided by it."""
    quiet: tuple[str, str] | None = None
    """When the last output came, or the launch began, and when its nodes were sampled last; None =
    they were not. Written as `began`."""
    bytes_before_end: tuple[int, int] | None = None
    """Bytes of standard output and of standard error when busbw ended it: what comes after them is
    of the ending. None = it ended by itself."""
    load_before: CpuLoad | None = None
    """Of the head node right before the launch began; None = it cannot tell."""
    load_after: CpuLoad | None = None
    """Of the head node after the launch ended by itself; None = as before, or it did not."""

    @property
    def load(self) -> CpuLoad | None:
        """The busier of the two moments; None = neither is known."""
        known = [each for each in (self.load_before, self.load_after) if each is not None]
        return max(known, key=lambda each: each.tasks_per_cpu, default=None)

    @property
    def ranks_of(self) -> dict[str, tuple[int, ...]]:
        """node → the numbers of the ranks that were started there, as the launcher counts."""
        each, count = self.ranks_per_node, len(self.nodes)
        if self.groups and not self.case.per_iteration:
            # Every group is a launch of its own, and counts from 0.
            return {
                node: tuple(range(i * each, (i + 1) * each))
                for group in self.groups
                for i, node in enumerate(group)
            }
        if self.case.by_rail:
            return {node: tuple(range(i, count * each, count)) for i, node in enumerate(self.nodes)}
        return {node: tuple(range(i * each, (i + 1) * each)) for i, node in enumerate(self.nodes)}


def keep(run: RunDir, name: str, record: object) -> None:
    """Write a record as `raw/NAME`."""
    run.write_raw(name, dump_json(record))


def load(run: RunDir, name: str, kind: type[_T]) -> _T | None:
    """The record in `raw/NAME`; None = that step did not finish.

    Raises:
        RunDirError: the file is there and is not such a record.
    """
    content = run.read_raw(name)
    return None if content is None else parse_json(content, kind, f"raw/{name}", error=RunDirError)
