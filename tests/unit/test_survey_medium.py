"""What a survey group measures: the network with NVLink between nodes off, or NVLink by itself. A
tray of an NVL72 whose NIC is bad must be found, though NVLink joins it with all its partners.

No NVL72 was at hand: the levels are those of its data sheet (400 Gb/s a GPU, 900 GB/s of NVLink each
way), and a group travels as NCCL chooses by the variables of its launch.
"""

from __future__ import annotations

import dataclasses

from busbw import playbook
from busbw.checks import NodeAnswer, SectionOutput
from busbw.fabrics import profiles
from busbw.model import Cluster, LaunchRole, Medium, Node
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.courses import compare_groups
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store.plan import SCHEMA, RunPlan
from busbw.survey.adapt import choose
from busbw.survey.measure import Shape, medium_of, round_case
from busbw.survey.places import nvlink_domains
from busbw.survey.schedule import Round, alone, nvlink_rounds

TRAYS = tuple(f"tray{n}" for n in range(1, 9))
NIC_GB_S, NVLINK_GB_S = 48.0, 820.0
GPUS = 4
SHAPE = Shape(GPUS, by_rail=True)
FOUR = (("tray1", "tray2"), ("tray3", "tray4"), ("tray1", "tray3"), ("tray2", "tray4"))
PAIRS, NEXT = Round("pairs-1", FOUR[:2]), Round("pairs-2", FOUR[2:])


def plan(profile: str = "infiniband", *, emulated: bool = False) -> RunPlan:
    nodes = tuple(Node(name, gpus=GPUS, labels=(("nvlink_domain", "rack1"),)) for name in TRAYS)
    cluster = Cluster(nodes, TRAYS[0], "rack", emulated=emulated)
    return RunPlan(
        schema=SCHEMA,
        run_id="r",
        tool_version="0",
        started="2026-11-23T00:00:00Z",
        cluster=cluster,
        profile=profiles.load(profile),
        playbook=playbook.load("day-one"),
        transport="ssh",
    )


def measured(
    round_: Round, bad: dict[tuple[str, int], float], *, mnnvl: str | None = None
) -> list[GroupSample]:
    """The groups of one launch, as its variables let them travel. `bad`: (tray, rail) → share of the
    NIC that is left; `mnnvl`: in the place of what the survey sets."""
    case = round_case(plan(), round_, SHAPE)
    variables = dict(case.env)
    nvlink = (mnnvl or variables["NCCL_MNNVL_ENABLE"]) != "0"
    samples = []
    for place, nodes in enumerate(round_.groups):
        for rail in range(GPUS) if case.by_rail else (None,):
            level = NVLINK_GB_S
            if not nvlink:
                level = NIC_GB_S * min(bad.get((node, rail or 0), 1.0) for node in nodes)
            values = tuple(
                level * (1 + 0.004 * ((n + place + (rail or 0)) % 5 - 2)) for n in range(10)
            )
            samples.append(
                GroupSample(
                    nodes, 1 << 30, values, f"raw/cases/{case.id}/result.json",
                    launch=case.id, role=case.role, rail=rail, medium=case.medium or Medium.NETWORK,
                )
            )  # fmt: skip
    return samples


def surveyed(bad: dict[tuple[str, int], float], *, mnnvl: str | None = None) -> BlameOutcome:
    """Rounds of pairs until nothing is open."""
    history: tuple[Round, ...] = ()
    samples: list[GroupSample] = []
    outcome: BlameOutcome | None = None
    while round_ := choose(TRAYS, Fabric(), history, outcome):
        samples += measured(round_, bad, mnnvl=mnnvl)
        history += (round_,)
        outcome = blame.solve(tuple(samples))
    assert outcome is not None
    return outcome


def test_a_bad_nic_of_a_tray_is_found_with_nvlink_off_and_by_no_pair_with_it() -> None:
    bad = {("tray3", 2): 0.5}
    assert [b.component.label for b in surveyed(bad).blames] == ["tray3 rail 2"]
    assert surveyed(bad, mnnvl="2").blames == (), "the trap: over NVLink no NIC carries anything"
    assert surveyed({}).blames == ()


def test_every_round_with_several_nodes_switches_nvlink_between_nodes_off() -> None:
    def env(round_: Round, own: RunPlan) -> str:
        case = round_case(own, round_, SHAPE)
        variables = " ".join(f"{name}={value}" for name, value in case.env)
        return f"{variables} | {case.split} | {case.medium}"

    off = "NCCL_ALGO=Ring NCCL_MNNVL_ENABLE=0"
    assert env(PAIRS, plan()) == f"{off} | DIV 2 | network"
    ring = Round("whole", (TRAYS,), role=LaunchRole.WHOLE)
    assert env(ring, plan()) == f"{off} | None | network"
    network = dataclasses.replace(ring, role=LaunchRole.NETWORK)
    assert env(network, plan()) == (
        "NCCL_ALGO=Ring NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_MNNVL_ENABLE=0 | None | network"
    )
    assert env(alone(TRAYS), plan()) == "NCCL_ALGO=Ring | DIV 4 | intra-node"
    (nvlink, _) = nvlink_rounds((TRAYS[:4],))
    assert env(nvlink, plan()) == (
        "NCCL_ALGO=Ring NCCL_MNNVL_ENABLE=1 | DIV 8 | NVLink between nodes"
    ), "1 makes a silent fall-back to the NICs an error"
    assert env(PAIRS, plan(emulated=True)) == "NCCL_ALGO=Ring | DIV 2 | network"


def test_a_cluster_without_a_network_is_surveyed_over_nvlink() -> None:
    assert medium_of(plan("nvlink-only"), PAIRS) is Medium.NVLINK


def test_nvlink_by_itself_flags_the_inside_of_a_tray_and_clears_no_nic() -> None:
    pairs = [sample for each in (PAIRS, NEXT) for sample in measured(each, {})]
    slow: list[GroupSample] = []
    third = (("tray1", "tray5"), ("tray3", "tray7"), ("tray2", "tray4"))
    again = Round("nvlink-3", third, role=LaunchRole.NVLINK)
    for round_ in (*nvlink_rounds((TRAYS,)), again):
        for sample in measured(round_, {}):
            left = 0.6 if "tray5" in sample.nodes else 1.0
            values = tuple(value * left for value in sample.busbw_gb_s)
            slow.append(dataclasses.replace(sample, busbw_gb_s=values))
    outcome = blame.solve((*pairs, *slow))
    assert [b.component.label for b in outcome.blames] == ["tray5 intra-node"]
    assert set(outcome.cleared) <= {"tray1", "tray2", "tray3", "tray4"}, (
        "trays that only NVLink measured say nothing of their NICs"
    )
    assert outcome.reference_gb_s is not None
    assert outcome.reference_gb_s < GPUS * NIC_GB_S * 1.1, "a good pair is one over the network"


def test_every_group_says_what_it_measured() -> None:
    samples = (*measured(PAIRS, {}), *measured(NEXT, {}), *measured(nvlink_rounds((TRAYS,))[0], {}))
    outcome = blame.solve(samples)
    said = {}
    for sample in samples:
        for each in compare_groups(sample.launch, (sample.nodes,), sample.artefact, outcome):
            said[each.case_id] = (each.medium, each.reference.source.rpartition(" (")[2])
    assert said == {
        "survey-pairs-1": (Medium.NETWORK, "network)"),
        "survey-pairs-2": (Medium.NETWORK, "network)"),
        "survey-nvlink-1": (Medium.NVLINK, "NVLink between nodes)"),
    }


def answered(node: str, section: str, text: str) -> NodeAnswer:
    return NodeAnswer(
        node=Node(node),
        sections={section: SectionOutput(section, text, "", 0, 1)},
        artefact="raw/preflight/x",
        problem=None,
    )


IMEX = """Nodes:
Node #0   * 10.0.0.1 *   - READY        - Version: 570.86.15
Node #1   - 10.0.0.2 -   - READY        - Version: 570.86.15
Domain State: UP
"""
CLIQUE = """
GPU 00000008:01:00.0
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 32766
        ClusterUUID                       : d2a3c6b1-0000-4000-8000-00000000000{rack}
"""


def test_nvlink_domains_come_from_labels_else_from_cliques_else_from_imex() -> None:
    names = ("a", "b", "c")
    unlabelled = Cluster(tuple(Node(name) for name in names), "a", "hosts")
    labelled = Cluster(
        tuple(
            Node(name, labels=(("nvlink_domain", "r1" if name != "a" else "r2"),)) for name in names
        ),
        "a",
        "hosts",
    )
    cliques = tuple(
        answered(name, "gpu_details", CLIQUE.format(rack=1 if name != "c" else 2)) for name in names
    )
    assert nvlink_domains(labelled, names, cliques) == (("b", "c"),)
    assert nvlink_domains(unlabelled, names, cliques) == (("a", "b"),)
    by_imex = tuple(answered(name, "imex", IMEX) for name in ("b", "c"))
    assert nvlink_domains(unlabelled, names, by_imex) == (("b", "c"),)
    assert nvlink_domains(unlabelled, names, ()) == ()
