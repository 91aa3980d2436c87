"""What a run is going to do, resolved: `raw/plan.json`, written before any node is asked."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.errors import RunDirError
from busbw.fabrics.profile import Profile
from busbw.model import BenchmarkCase, Cluster, Requirement, Settings
from busbw.parsers.logs.json_values import loaded
from busbw.playbook import Playbook, specification
from busbw.store.run_directory import RunDir

SCHEMA = "busbw.store.plan/4"


@dataclass(frozen=True, slots=True)
class Interleaving:
    """Launches that alternate round after round, in place of the playbook's bandwidth cases:
    exactly one of a sweep, treatment nodes and a soak."""

    cases: tuple[BenchmarkCase, ...]
    """What each round launches."""
    settings: tuple[tuple[tuple[str, str], ...], ...] = ()
    """`--sweep`: the variables of each combination; the first has none."""
    treatment: tuple[str, ...] = ()
    """`--treatment`: the nodes that have the change; the others are the control."""
    soak_s: float | None = None
    """Seconds of measuring of a soak."""
    least: int = 5
    """Rounds that are measured in any case."""
    most: int = 15
    """Rounds after which what is still open stays open."""
    budget_s: float = 3600.0
    """Seconds of measuring after which no further round begins; of a soak `soak_s` alone counts."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything that decides what a run does. Rendering and replaying a run read this, never the
    files it came from."""

    schema: str
    tool_version: str
    run_id: str
    started: str
    """RFC 3339, UTC."""
    cluster: Cluster
    playbook: Playbook
    profile: Profile
    transport: str
    overrides: Settings = ()
    """`--env NAME=VALUE` and `--unset NAME`, in the order given."""
    stray: tuple[str, ...] = ()
    """NCCL, UCX and MPI variables found in the caller's shell and ignored."""
    ranks_per_node: int | None = None
    """`--ranks-per-node`; None = the inventory's slots or GPUs, else the GPUs that the nodes
    list."""
    forks: int = 64
    connect_timeout_s: float = 10.0
    temporary_keys: bool = False
    """The user consents to a temporary key between the nodes, removed at the end."""
    controller: str = ""
    """The busbw process that works on the run, as its leases name it (`busbw.run.controller`)."""
    force: bool = False
    """The user wants the nodes also where somebody else works on them."""
    slurm_job: str | None = None
    """The Slurm allocation that busbw was started in; None = none."""
    salloc: tuple[str, ...] = ()
    """Options with which busbw asked for that allocation itself, so that --resume can ask again; ()
    = it was there."""
    mpi_plugin: str | None = None
    """`--mpi` for srun; None = the best that Slurm names."""
    pml: str | None = None
    """`--pml`: what carries MPI's own traffic; None = the profile's choice."""
    interleaving: Interleaving | None = None
    """None = the playbook's cases alone are measured."""
    words: tuple[str, ...] = ()
    """The options of the command line that name nodes, fabric and how they are reached."""
    run_words: tuple[str, ...] = ()
    """The playbook as it was given, then the options that only `busbw run` has."""

    @property
    def head(self) -> str:
        """The node that starts the launcher."""
        return self.cluster.head

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What `specification:` blocks demand of every node: the contract's word decides over the
        playbook's, and that over the inventory's."""
        contract = self.playbook.contract
        return specification.merged(
            self.cluster.requirements,
            self.playbook.requirements,
            ()
            if contract is None
            else specification.requirements(contract.specification, "contract"),
        )

    @property
    def job_directory(self) -> str:
        """Name of this run's folder below the work folder of a node; equal in a replay."""
        return f"jobs/{self.run_id}"


def refuse_other_versions(run: RunDir) -> None:
    """Nothing, where this version reads the run.

    Raises:
        RunDirError: its plan has another schema; the version that made it is named.
    """
    try:
        tree = loaded(run.read_raw("plan.json") or b"null")
    except ValueError:
        return  # who loads the plan says where it breaks off
    if not isinstance(tree, dict) or tree.get("schema") == SCHEMA:
        return
    maker = tree.get("tool_version", "of an unknown version")
    raise RunDirError(
        f"run {run.run_id} was made by another version of busbw",
        seen=f"raw/plan.json: {tree.get('schema')}, by busbw {maker}; this version reads {SCHEMA}",
        next_step=f"open its report.html, or use busbw {maker}",
    )
