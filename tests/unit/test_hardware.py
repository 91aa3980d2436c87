"""The tables of GPUs and NICs, and what is said about hardware that is not in them."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.parsers.expect import hardware
from busbw.parsers.expect.hardware import Nics


@pytest.mark.parametrize(
    ("name", "spec", "nccl"),
    [
        ("V100-SXM2", 150.0, 120.0),
        ("A100", 300.0, 240.0),
        ("A800", 200.0, 160.0),
        ("h100", 450.0, 370.8),
        ("H200-SXM5", 450.0, 370.8),
        ("H800", 200.0, 164.8),
        ("B200", 900.0, 721.8),
        ("GB200-NVL72", 900.0, 721.8),
        ("Rubin", 1800.0, None),
        ("MI300X", 448.0, 336.0),
        ("RTX5090", None, None),
    ],
)
def test_nvlink_is_one_direction_by_specification_and_by_nccl(
    name: str, spec: float | None, nccl: float | None
) -> None:
    gpu = hardware.find_gpu(name)
    assert gpu is not None
    assert (gpu.nvlink_gb_s, gpu.nvlink_nccl_gb_s) == (spec, nccl)


def test_no_name_stands_for_two_gpus() -> None:
    names = [name.casefold() for gpu in hardware.GPUS for name in (gpu.name, *gpu.aliases)]
    assert len(names) == len(set(names))


def test_every_entry_names_its_source() -> None:
    assert [
        entry.name
        for entry in (*hardware.GPUS, *hardware.LINKS, *hardware.ADAPTERS)
        if len(entry.source) < 10
    ] == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("8x400", 400.0),
        ("8x400G", 400.0),
        ("8xNDR", 400.0),
        ("16x200gbe", 400.0),
        ("4xhdr", 100.0),
        ("4xEDR", 50.0),
        ("1xFDR", 6.818),
        ("1xQDR", 4.0),
        ("8xConnectX-7", 400.0),
        ("2 x 25", 6.25),
        ("8xXDR", 800.0),
    ],
)
def test_nics_are_count_times_rate_link_or_adapter(text: str, line: float) -> None:
    assert hardware.parse_nics(text).line_gb_s == pytest.approx(line, abs=1e-3)


def test_an_adapter_brings_its_host_link() -> None:
    assert hardware.parse_nics("8xconnectx-8") == Nics(
        8, "ConnectX-8", 800.0, 6, "NVIDIA ConnectX-8 SuperNIC data sheet"
    )


def test_an_unknown_nic_is_reported_with_what_is_known_and_how_to_go_on() -> None:
    with pytest.raises(UsageError) as caught:
        hardware.parse_nics("8xFluxLink")
    assert caught.value.lines() == (
        (
            "error: unknown NIC 'FluxLink'; known: QDR, FDR, EDR, HDR, NDR, XDR, 10, 25, 40, 50,"
            " 100, 200, 400, 800, ConnectX-6, ConnectX-7, ConnectX-8, BlueField-3"
        ),
        "seen: --nics 8xFluxLink",
        (
            "next: give the rate instead of the name (--nics 8x400), or the node's network rate in"
            " bytes: --network-gb-s 400"
        ),
    )


@pytest.mark.parametrize("text", ["400", "0x400", "x400", "", "-8x400"])
def test_nics_without_a_count_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--nics wants count x rate in Gb/s"):
        hardware.parse_nics(text)


def test_an_unknown_gpu_is_reported_with_what_is_still_known() -> None:
    with pytest.raises(UsageError) as caught:
        hardware.gpu_or_refuse("H101")
    what, seen, following = caught.value.lines()
    assert (
        what
        == "error: unknown GPU 'H101'; known: V100, A100, A800, H100, H200, H200NVL, H20, H800,"
        " B200, GB200, B300, GB300, Rubin, MI300X, MI325X, MI350X, MI355X, L40S, RTXPRO6000,"
        " RTX5090"
    )
    assert (seen, "--nvlink-gb-s 450 --gpus-per-node 8" in following) == ("seen: --gpu H101", True)


def test_a_mixed_cluster_is_refused_with_the_models_it_has() -> None:
    with pytest.raises(UsageError, match=r"no faster than over A100 alone \(300 GB/s of NVLink\)"):
        hardware.gpu_or_refuse("H100,A100")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H200 NVL", "H200NVL"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H20-3e", "H20"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB300", "GB300"),
    ],
)
def test_gpus_of_this_year_are_recognised(product: str, name: str) -> None:
    found = hardware.recognise_gpu(product)
    assert found is not None
    assert found.name == name


def test_a_bridge_joins_four_gpus_and_eight_of_them_meet_over_pcie() -> None:
    nvl = hardware.find_gpu("H200 NVL")
    assert nvl is not None
    assert (nvl.inside_gb_s(2), nvl.inside_gb_s(4), nvl.inside_gb_s(8)) == (
        (pytest.approx(150.0), pytest.approx(123.6)),
        (450.0, 370.8),
        (450.0, None),
    )
    assert (nvl.peers(2), nvl.peers(4), nvl.peers(8)) == (1, 3, 3)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA GB200", "GB200"),
    ],
)
def test_a_gpu_may_be_named_as_its_driver_prints_it(product: str, name: str) -> None:
    assert hardware.gpu_or_refuse(product).name == name
