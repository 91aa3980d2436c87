"""What the outputs of a node's tools lead to. The outputs are composed in the tools' formats."""

from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Fact
from busbw.parsers.findings.facts import from_tools, node_differences
from busbw.parsers.tools import is_marked


def ibstat(*ports: tuple[str, str, str, str]) -> str:
    blocks = [
        f"CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version:"
        f" 28.42.1000\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n\t\tRate:"
        f" 400\n\t\tBase lid: 5\n\t\tSM lid: 1\n\t\tLink layer: {layer}\n"
        for name, state, physical, layer in ports
    ]
    return "".join(blocks)


def up(number: int) -> tuple[str, str, str, str]:
    return (f"mlx5_{number}", "Active", "LinkUp", "InfiniBand")


def smi(driver: str, *, persistence: str = "On ", mig: str = "Disabled", ecc: int = 0) -> str:
    return (
        "+---------------------------------------------------------------------------------------+\n"
        f"| NVIDIA-SMI {driver}             Driver Version: {driver}   CUDA Version: 12.4     |\n"
        "|-----------------------------------------+----------------------+----------------------+\n"
        f"|   0  NVIDIA H100 80GB HBM3          {persistence} | 00000000:18:00.0 Off | {ecc:20} |\n"
        "| N/A   31C    P0              70W / 700W |      0MiB / 81559MiB |      0%     "
        " Default |\n"
        f"|                                         |                      | {mig:>20} |\n"
        "+-----------------------------------------+----------------------+----------------------+\n"
    )


def facts(text: str, artefact: str = "node.txt") -> tuple[Fact, ...]:
    return from_tools(artefact, text)


def told(*texts: str) -> list[tuple[str, str]]:
    every = tuple(
        fact for number, text in enumerate(texts) for fact in facts(text, f"{number}.txt")
    )
    return [
        (each.id, each.confidence.value)
        for each in diagnose(EvidenceSet((), (*every, *node_differences(every)))).findings
    ]


def test_a_port_that_is_down_while_its_like_are_up_is_likely_the_fault_and_named_by_its_line() -> (
    None
):
    text = ibstat(up(0), up(1), ("mlx5_2", "Down", "Polling", "InfiniBand"), up(3))
    finding = diagnose(EvidenceSet((), facts(text))).findings[0]
    assert (finding.id, finding.confidence.value, finding.where) == (
        "ib-port-down",
        "likely",
        ("mlx5_2",),
    )
    assert finding.evidence[0].line_no == text.splitlines().index("CA 'mlx5_2'") + 1


def test_a_second_port_that_is_down_beside_one_that_is_up_may_be_unused() -> None:
    assert told(ibstat(up(0), ("mlx5_1", "Down", "Disabled", "InfiniBand"))) == [
        ("ib-port-down", "possible")
    ]


def test_an_output_without_any_port_that_is_up_is_likely_the_fault() -> None:
    assert told(ibstat(("mlx5_0", "Down", "Disabled", "InfiniBand")))[0] == (
        "ib-port-down",
        "likely",
    )


def test_a_port_that_waits_for_the_subnet_manager_is_told_from_one_that_is_down() -> None:
    assert told(ibstat(up(0), ("mlx5_1", "Initializing", "LinkUp", "InfiniBand")))[0] == (
        "ib-port-initializing",
        "likely",
    )


def test_ports_that_are_all_up_say_nothing() -> None:
    assert told(ibstat(*(up(number) for number in range(8)))) == []


def test_a_mode_that_splits_gpus_and_memory_errors_are_found_in_the_table_of_gpus() -> None:
    assert told(smi("550.54.15", mig="Enabled")) == [("gpu-mig-enabled", "likely")]
    assert told(smi("550.54.15", ecc=2))[0] == ("gpu-ecc-uncorrectable", "likely")


def test_a_setting_is_worth_a_look_and_no_more() -> None:
    assert told(smi("550.54.15", persistence="Off")) == [("gpu-persistence-off", "possible")]


def test_two_nodes_with_different_drivers_differ_and_two_with_the_same_do_not() -> None:
    assert told(smi("550.54.15"), smi("535.183.01"))[0] == ("mixed-gpu-or-driver", "likely")
    assert told(smi("550.54.15"), smi("550.54.15")) == []


def test_a_network_interface_without_flow_control_is_found() -> None:
    text = (
        "DCBX mode: OS controlled\nPriority trust state: pcp\nPFC configuration:\n\tpriority    0  "
        " 1   2   3   4   5   6   7\n\tenabled     0   0   0   0   0   0   0   0   \n"
    )
    assert is_marked(text.encode(), facts=True)
    assert ("low-bw-pfc-missing", "likely") in told(text)


def test_a_log_is_not_taken_for_the_output_of_a_tool() -> None:
    text = b"gpu1:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    assert not is_marked(text, facts=True)
