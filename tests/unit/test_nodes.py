"""Readers of a node's tools: the samples in their docstrings, real texts of a machine without
adapters, and texts that are cut or torn."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from busbw.parsers import tools
from busbw.parsers.tools import (
    fi_info,
    ibstat,
    ibverbs,
    kernel_log,
    nvidia_smi_details,
    nvidia_smi_nvlink,
    nvidia_smi_query,
    nvidia_smi_topology,
    proc_host,
)
from busbw.parsers.tools.ibverbs import VerbsDevices
from busbw.parsers.tools.proc_host import FileSystem

FIXTURES = Path(__file__).parents[1] / "fixtures" / "nodes"
NAMES = sorted(info.name for info in pkgutil.iter_modules(tools.__path__))


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_has_a_sample_in_a_docstring(name: str) -> None:
    module = importlib.import_module(f"busbw.parsers.tools.{name}")
    assert any(each.examples for each in doctest.DocTestFinder().find(module))


def test_a_machine_without_adapters_is_read_as_none_and_never_as_unreadable() -> None:
    said = "Failed to get IB devices list: Function not implemented"
    assert ibverbs.parse_devices("", (FIXTURES / "ibv_devices.err").read_text()) == VerbsDevices(
        (), said
    )
    assert ibverbs.parse_devices("", (FIXTURES / "ibv_devinfo.err").read_text()) == VerbsDevices(
        (), said
    )
    assert ibverbs.parse_devinfo((FIXTURES / "ibv_devinfo.err").read_text()) == ()
    assert fi_info.parse((FIXTURES / "fi_info.err").read_text()) == ()
    assert ibstat.parse((FIXTURES / "ibstatus.out").read_text()) is None


@pytest.mark.parametrize(
    "text",
    ["", "\n", "bash: nvidia-smi: command not found\n", "\x00\x01\x02", "GPU 0\n", "port: 1\n"],
)
def test_nothing_is_read_from_a_foreign_text(text: str) -> None:
    assert tools.read(text) == ()


def test_a_panic_without_any_device_names_the_device_that_is_missing() -> None:
    said = "ibpanic: [77] main: stat of IB device 'mlx5_3' failed: No such file or directory"
    assert ibstat.parse(said + "\n") == ibstat.Ibstat((), said, "mlx5_3")


def test_a_cell_that_lost_its_tab_is_read_as_two_and_the_row_is_reported_as_torn() -> None:
    matrix = nvidia_smi_topology.parse("\tGPU0\tNIC0\tNIC1\tNUMA Affinity\nGPU0\t X \tPIXNODE\t0\n")
    assert matrix is not None
    (row,) = matrix.rows
    assert (row.paths, row.torn, row.numa) == (
        (("GPU0", "X"), ("NIC0", "PIX"), ("NIC1", "NODE")),
        True,
        None,
    )


def test_a_lost_gpu_is_a_value_of_the_query_and_no_number() -> None:
    rows = nvidia_smi_query.parse(
        "index, name, memory.used [MiB]\n0, NVIDIA H200, 4\n1, [Unknown Error], [GPU is lost]\n"
    )
    assert rows is not None
    assert [(row.broken, row.number("memory.used")) for row in rows] == [(False, 4.0), (True, None)]


def test_a_query_without_a_process_is_empty_and_not_unreadable() -> None:
    assert nvidia_smi_query.parse("gpu_uuid, pid, used_gpu_memory [MiB]\n") == ()
    assert nvidia_smi_query.parse("Unable to determine the device handle for GPU0\n") is None


def test_nvlinks_of_several_gpus_keep_apart() -> None:
    gpus = nvidia_smi_nvlink.parse(
        "GPU 0: H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\nGPU 1: H100 (UUID: GPU-2)\n\t Link 0:"
        " <inactive>\n"
    )
    assert [(gpu.index, gpu.rates_gb_s, gpu.inactive) for gpu in gpus] == [
        (0, ((0, 26.562),), ()),
        (1, ((0, None),), (0,)),
    ]


def test_the_kernel_log_gives_the_telling_lines_with_their_numbers() -> None:
    text = (
        "[1.0] usb 1-1: new device\n[2.0] NVRM: Xid (PCI:0000:9b:00): 31, pid=77, name=python, MMU"
        " Fault\n[3.0] nvidia-nvswitch3: SXid (PCI:0000:c6:00.0): 20034, Non-fatal, Link 30 LTSSM"
        " Fault Up\n[4.0] mlx5_core 0000:1a:00.0 ens1: Link down\n[5.0] Out of memory: Killed"
        " process 4711 (python) total-vm:1kB\n"
    )
    assert [(e.kind, e.number, e.device, e.line_no) for e in kernel_log.parse(text)] == [
        ("xid", 31, "0000:9b:00", 2),
        ("sxid", 20034, "0000:c6:00.0", 3),
        ("link-down", None, "ens1", 4),
        ("oom", None, "4711", 5),
    ]


def test_a_fabric_that_is_not_there_is_not_a_state() -> None:
    (gpu,) = nvidia_smi_details.parse(
        "GPU 00000000:01:00.0\n    Fabric\n        State                 : N/A\n        Status     "
        "           : N/A\n"
    )
    assert (gpu.fabric_state, gpu.fabric_status) == (None, None)


def test_a_path_is_on_the_deepest_file_system_above_it_and_on_no_namesake() -> None:
    root, data, deep = (
        FileSystem(source, mount, 1, 1)
        for source, mount in (("sda", "/"), ("nfs1", "/data"), ("nfs2", "/data/run"))
    )
    systems = (root, data, deep)
    paths = ("/data", "/data/run/a", "/data2/a", "/tmp")
    assert [proc_host.mount_of(path, systems) for path in paths] == [data, deep, root, root]
    assert proc_host.mount_of("/data2/a", (data,)) is None


@pytest.mark.parametrize(
    ("listed", "domains"),
    [
        ((("efa", "rdmap0s6-rdm"), ("efa", "rdmap0s7-rdm"), ("tcp", "eth0")), [2.0]),
        ((("tcp", "eth0"),), []),
    ],
)
def test_providers_other_than_efa_say_nothing_of_efa(
    listed: tuple[tuple[str, str], ...], domains: list[float]
) -> None:
    text = "".join(f"provider: {name}\n    domain: {domain}\n" for name, domain in listed)
    (reading,) = tools.read(text)
    assert [dict(fact.values)["domains"] for fact in reading.facts] == domains
