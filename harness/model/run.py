"""What a run concludes: checks, comparisons, blame, the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from busbw.model.benchmark import BenchmarkCase, BenchmarkResult, Medium
from busbw.model.command import Unreachable
from busbw.model.evidence import Evidence, Finding, Status
from busbw.model.history import RunDiff, Soak, SweepResult
from busbw.model.links import LinkTable
from busbw.model.stall import StallStory
from busbw.model.topology import Topology

# What a buyer and a provider sign: every number of the contract, measured or not, and what the
# answer rests on.


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """One number of the contract."""

    id: str
    case_id: str
    collective: str
    size_bytes: int
    unit: str
    """`GB/s` of bus bandwidth, at least `limit`; `µs` a call, at most `limit`."""
    limit: float
    measured: float | None
    """The contract's quantile of the launches; None = not measured."""
    half_interval: float | None
    """Half of the 95 % interval of the mean of the launches; None = fewer than two."""
    launches: int
    nodes: int
    """Nodes that it was measured on; 0 = none."""
    status: Status
    """PASS, FAIL, or UNKNOWN = not measured, or too few or too unlike launches to say."""
    reason: str
    physical_limit: float | None = None
    """GB/s; None = not known."""
    artefacts: tuple[str, ...] = ()
    quantile: float = 0.5
    """Of the launches, counted from the worst: 0.5 is the median, 0 the worst launch."""


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """One of the questions a buyer asks a provider."""

    question: str
    answer: str
    measured: bool
    """True = the answer comes from this run; False = it must come from the provider, and `answer`
    says what to ask for."""


@dataclass(frozen=True, slots=True)
class HardwareId:
    """One part that was seen."""

    node: str
    part: str
    """`GPU 0`, `mlx5_0`."""
    serial: str
    """UUID, GUID or serial number, as the part says it."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The whole answer."""

    word: str
    """ACCEPTED, NOT ACCEPTED or INCONCLUSIVE."""
    status: Status
    """PASS, FAIL or UNKNOWN: the verdict of the run."""
    summary: str
    """How many criteria were met, failed and not measured."""
    contract: str
    """Its title; empty = it has none."""
    criteria: tuple[CriterionResult, ...]
    answers: tuple[ProviderAnswer, ...]
    not_measured: tuple[str, ...]
    """Sizes, node counts and the like that the answer does not speak for."""
    hardware: tuple[HardwareId, ...]
    fingerprint: str
    """SHA-256 over `hardware`, hexadecimal; empty = no part reported its identity."""
    suspects: tuple[str, ...] = ()
    """Nodes or paths that the survey flags."""
    without_suspects: str = ""
    """Whether the failed criteria are met without them; empty = not tried."""
    run_problem: str = ""
    """What is wrong with the run beside the contract, where that decided; empty = nothing."""


TIE = ("has_majority", False)
"""Among the values of a comparison of nodes."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One preflight check on one node."""

    check_id: str
    """Dotted, as in the table of checks: `rdma.devices`."""
    node: str
    status: Status
    seen: str
    """What the node said, in a few words that are equal on equal nodes (they are folded)."""
    expected: str
    command: str
    """The command line it came from, as a person would type it."""
    reason: str = ""
    """Why it is UNKNOWN or SKIPPED: the missing tool or right."""
    evidence: Evidence | None = None
    required: bool = True
    values: tuple[tuple[str, float | bool | str], ...] = ()
    """What was found, as the catalogue's expressions read it: `("rate_gbps", 200.0)`; a value
    that is not known is left out."""

    @property
    def is_tie(self) -> bool:
        """The nodes differ and no answer has the majority: nothing says which node is wrong."""
        return TIE in self.values


@dataclass(frozen=True, slots=True)
class Reference:
    """What a measured number is compared with."""

    kind: str
    """`contract`, `accepted-run`, `peers`, `published`, `model`, `physics`, `playbook`, or `none`."""
    busbw_gb_s: float | None
    source: str
    """In words, with counts: `median of 4 like groups in this run`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A physical ceiling: it can fail a measurement, never pass one."""

    value_gb_s: float
    formula: str
    inputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measured number against its reference."""

    case_id: str
    size_bytes: int
    measured_gb_s: float | None
    reference: Reference
    ratio: float | None
    status: Status
    reason: str
    limit: Limit | None = None
    nodes: tuple[str, ...] = ()
    """The group of nodes the number belongs to."""
    launches: int = 1
    """How many launches the number is the median of."""
    half_interval_gb_s: float | None = None
    """Half of the 95 % interval of the mean of those launches; None = fewer than two."""
    launches_below: int = 0
    """Of those launches, how many fell short by themselves."""
    medium: Medium | None = None
    """What a survey group measured; None = a case, for which NCCL chose."""
    threshold_gb_s: float | None = None
    """What the gate demands at this size; None = no gate, or nothing to compare with."""


class ComponentKind(StrEnum):
    """What a component of the cluster is."""

    INTRA_NODE = "intra-node"
    """The GPUs of one node and what joins them."""
    NODE = "node"
    RAIL = "rail"
    """One rail of one node."""
    PAIR = "pair"
    """What two nodes have between them and share with no other measured node."""
    LEAF = "leaf"
    """All groups with a node below that leaf."""
    UPLINK = "uplink"
    """What leaves that leaf."""
    LEAF_PAIR = "leaf-pair"
    """What two leaves have between them. With two leaves in all: their uplinks, which then cannot
    be separated."""
    RAIL_PLANE = "rail-plane"
    """One rail of all nodes."""


_OF_NODES = (
    ComponentKind.INTRA_NODE,
    ComponentKind.NODE,
    ComponentKind.RAIL,
    ComponentKind.PAIR,
)


@dataclass(frozen=True, slots=True)
class Component:
    """One component that can be slow."""

    kind: ComponentKind
    names: tuple[str, ...]
    """Nodes or leaves, sorted; () for a rail plane."""
    rail: int | None = None
    """None = all rails."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it is made of; () for leaves, uplinks and rail planes."""
        return self.names if self.kind in _OF_NODES else ()

    @property
    def leaves(self) -> tuple[str, ...]:
        """The leaves that it is made of; () for nodes, rails and rail planes."""
        return () if self.kind in _OF_NODES else self.names

    @property
    def label(self) -> str:
        """As a report names it.

        >>> Component(ComponentKind.RAIL, ("node3",), 2).label
        'node3 rail 2'
        >>> Component(ComponentKind.PAIR, ("node1", "node4")).label
        'node1 – node4'
        >>> Component(ComponentKind.INTRA_NODE, ("node1",)).label
        'node1 intra-node'
        >>> Component(ComponentKind.UPLINK, ("leaf1",)).label
        'uplinks of leaf1'
        >>> Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2"), 0).label
        'uplinks between leaf1 and leaf2, rail 0'
        >>> Component(ComponentKind.RAIL_PLANE, (), 3).label
        'rail 3 of all nodes'
        """
        rail = "" if self.rail is None else f" rail {self.rail}"
        comma = "," if rail else ""
        match self.kind:
            case ComponentKind.INTRA_NODE:
                return f"{self.names[0]} intra-node"
            case ComponentKind.RAIL_PLANE:
                return f"rail {self.rail} of all nodes"
            case ComponentKind.UPLINK:
                return f"uplinks of {self.names[0]}{comma}{rail}"
            case ComponentKind.LEAF_PAIR:
                return f"uplinks between {' and '.join(self.names)}{comma}{rail}"
            case ComponentKind.LEAF:
                return f"leaf {self.names[0]}{rail}"
            case _:
                return " – ".join(self.names) + rail


class BlameState(StrEnum):
    """How a component is bad."""

    SLOW = "slow"
    INTERMITTENT = "intermittent"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Blame:
    """One component that measurements show to be slow."""

    component: Component
    state: BlameState
    capacity_gb_s: float | None
    """What it was seen to carry; None for a dead one."""
    expected_gb_s: float | None
    seen_in: tuple[Evidence, ...]
    cleared: tuple[str, ...] = ()
    """Nodes that the same measurements rule out."""
    also: tuple[Component, ...] = ()
    """What else would explain the same: these measurements cannot tell it from `component`."""
    slow_launches: int = 0
    """Launches that loaded it and were slow."""
    launches: int = 0
    """Launches that loaded it."""
    busy_launches: int = 0
    """Those of `slow_launches` that ran while others used the CPUs."""

    @property
    def only_when_busy(self) -> bool:
        """Others used the CPUs in each launch in which it was slow: that may be all there is."""
        return 0 < self.slow_launches == self.busy_launches

    @property
    def frequency(self) -> str:
        """How often it was slow; empty = it is not known."""
        if not self.launches:
            return ""
        text = f"slow in {self.slow_launches} of {self.launches} launches"
        return f"{text}, each on busy CPUs" if self.only_when_busy else text


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """One case of the run: what was planned, what happened, what was read."""

    case: BenchmarkCase
    status: Status
    reason: str
    results: tuple[BenchmarkResult, ...]
    exit_status: int | None
    seconds: float | None
    artefacts: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Something that was not checked or not measured, and why; printed in every report."""

    what: str
    why: str
    would_settle: str = ""


@dataclass(frozen=True, slots=True)
class RunResult:
    """run.json: everything concluded from `raw/`, and nothing that is not in it."""

    schema: str
    """`busbw.run/1`."""
    run_id: str
    tool_version: str
    playbook: str
    profile: str
    started: str
    """RFC 3339, UTC, from the plan: never the clock of whoever renders."""
    finished: str | None
    verdict: Status
    headline: str
    """One sentence with the number, its reference and the nodes."""
    exit_status: int
    emulated: str
    """Why no number here says anything about real hardware; empty for a real cluster."""
    nodes: tuple[str, ...]
    unreachable: tuple[Unreachable, ...]
    checks: tuple[CheckResult, ...]
    cases: tuple[CaseOutcome, ...]
    comparisons: tuple[Comparison, ...]
    blame: tuple[Blame, ...]
    findings: tuple[Finding, ...]
    uncovered: tuple[Uncovered, ...]
    sensitivity: tuple[str, ...]
    """Detection limits: what the run detects, and what it does not."""
    versions: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    """The exact command lines, in order."""
    acceptance: Acceptance | None = None
    """None = the run was not about a contract."""
    compared: RunDiff | None = None
    """Against the accepted runs that were on record when it started; None = there were none."""
    sweep: tuple[SweepResult, ...] = ()
    """Combinations of `--sweep`, each compared with none set."""
    soak: Soak | None = None
    """None = the run was no soak."""
    stalls: tuple[StallStory, ...] = ()
    """The course of every launch that stalled."""
    links: LinkTable | None = None
    """The fleet's link test; None = the run made none."""
    topology: Topology | None = None
    """Which rail of which node ends on which leaf, without links and errors, which stay in `raw/`;
    None = not known."""
