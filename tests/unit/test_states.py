"""Bad states in the outputs of tools: the part and the word, in any form; good states say nothing."""

import pytest

from busbw.parsers.findings import catalogue, states


@pytest.mark.parametrize(
    ("line", "heading", "first"),
    [
        ("        State: Down", "CA 'mlx5_2'", "ib-port-down"),
        ("mlx5_2 port 1 ==> ens3f0np0 (Down)", "", "ib-port-down"),
        ("     Active: failed (Result: exit-code)", "● nvidia-fabricmanager.service", "fabricmanager-not-running"),
        ('{"unit": "munge.service", "active": "inactive"}', "", "scheduler-auth-failed"),
        ("gpu-a100-02     NotReady   <none>  61d", "NAME STATUS ROLES", "node-unreachable"),
        ("         Link 2: <inactive>", "GPU 0: NVIDIA H100", "nvlink-link-inactive"),
        ("MII Status: down", "Slave Interface: ens5f1np1", "ethernet-link-down"),
        ("host-1,gpu3,unhealthy", "", "dcgm-health-failure"),
        ("  MemoryPressure   True   KubeletHasInsufficientMemory", "", "host-memory-exhausted"),
        ("  Ready   False   KubeletNotReady", "", "node-unreachable"),
        ("  RdmaPorts  True  RdmaPortsHasIssues  Check:: a port", "", "ib-port-down"),
        ("  NvLinks  True   Mon, 02 Mar 2026 10:00:00   NvlinkHasProblems  Check", "", "nvlink-link-inactive"),
        ("   Reason=munge: authentication failed [slurm@2026-02-11]", "", "scheduler-auth-failed"),
        ("1   3   0x74a1   N/A   N/A   N/A   N/A   N/A", "ROCm System Management Interface", "gpu-missing"),
    ],
)  # fmt: skip
def test_a_bad_state_points_at_its_part(line: str, heading: str, first: str) -> None:
    assert states.guesses(line, heading)[:1] == (first,)


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("        State: Active", "CA 'mlx5_2'"),
        ("     Active: active (running)", "● nvidia-fabricmanager.service"),
        ("  DiskPressure   False   KubeletHasNoDiskPressure", ""),
        ("  Ready   True   KubeletReady", ""),
        ("  RdmaPorts   False   RdmaPortsHasNoIssues   all ports are up", ""),
        ("  RdmaPorts   Unknown   RdmaPortsHasNoIssues   the check ran too long", ""),
        ("  RdmaPorts   True   RdmaPortsAreUp   all ports", ""),
        ("3: docker0: <NO-CARRIER,UP> mtu 1500 state DOWN mode DEFAULT", ""),
        ("hw-tc-offload: off [fixed]", "Features for ens1np0:"),
        ("   Reason=Resources", ""),
        ("[0] NCCL INFO Check P2P Type isAllDirectP2p 0 directMode 0", ""),
        ("errors: 0, failed: 0", ""),
        ("Retry on failure: enabled", ""),
        ("TPU available: False, using: 0 TPU cores", ""),
    ],
)
def test_good_states_and_features_say_nothing(line: str, heading: str) -> None:
    assert states.guesses(line, heading) == ()


def test_every_guess_is_an_entry() -> None:
    known = catalogue.load().by_id
    assert set(states.entries()) <= set(known)
