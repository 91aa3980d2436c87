"""Checks of the machine, its PCI path, Ethernet, clouds and installed software: each well, not
well, and not to be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.checks import NodeAnswer, Policy, SectionOutput, frame, script
from busbw.checks.frame import families
from busbw.model import CheckResult, Node, Status
from busbw.parsers.findings import catalogue

ALL = Policy("test", ("*",), ())
Sections = dict[str, str | tuple[str, str, int]]
ABSENT = ("", "sh: not found\n", 127)
STUCK = "D      77  1000 ana   nfs_wait_on_request   python3\n"
SYSTEM = (
    "kernel=6.8.0\nloadavg=0.10 0.1 0.1 1/9"
    " 9\ncpus=0-95\nallowed=0-95\nflags=1\ngovernor=performance\nnuma=0-47 48-95\nbios=3.1\n"
)
LSPCI = """\
17:01.0 PCI bridge: Intel Corporation Device 352a
\t\tACSCtl:\tSrcValid{acs} TransBlk- ReqRedir-
18:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\t\t\tRlxdOrd{order} ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq {size} bytes
"""
PCI = (
    "pci 0000:18:00.0 0x15b3 0x020700 width 16 16 speed 32.0 32.0 numa 0 under 0000:17:01.0={}/16"
    " 0000:16:00.0=0/16\n"
)
HIDDEN = (
    "18:00.0 Infiniband controller: Mellanox Technologies MT2910\n\tCapabilities: <access denied>\n"
)
NETDEV = "rdmanet {} {} mtu 9000 rp_filter 2 arp_ignore {} arp_announce {} ecn_np {} ecn_rp {}\n"
QUERY = (
    "index, name, clocks.sm [MHz], clocks.max.sm [MHz], utilization.gpu [%]\n0, {}, {}, 1980, {}\n"
)
IMEX = (
    "Nodes:\nNode #0   * 10.0.0.1 *   - READY   - Version: 570.86.15\nNode #1     10.0.0.2     - {}"
    "   - Version: 570.86.15\nDomain State: {}\n"
)
LDCONFIG = (
    "812 libs found in cache `/etc/ld.so.cache'\n\t{} (libc6,x86-64) =>"
    " /usr/lib/x86_64-linux-gnu/{}\n"
)
DETAILS = (
    "Driver Version                            : 535.161.08\nCUDA Version                          "
    "    : 12.2\n"
)


def answer(
    sections: Sections, node: str = "n1", gpus: int | None = None, seconds: float | None = 0.1
) -> NodeAnswer:
    outputs = {}
    for name, value in sections.items():
        out, err, status = (value, "", 0) if isinstance(value, str) else value
        outputs[name] = SectionOutput(name, out, err, status, 1, seconds)
    return NodeAnswer(Node(node, gpus=gpus), outputs, f"raw/preflight/{node}.txt", None)


def results(check_id: str, *answers: NodeAnswer) -> tuple[CheckResult, ...]:
    return tuple(r for r in frame.judge(families(), answers, ALL) if r.check_id == check_id)


def status_and_answer(check_id: str, sections: Sections, **more: object) -> tuple[Status, str]:
    (result,) = results(check_id, answer(sections, **more))  # type: ignore[arg-type]  # passed on as given
    return result.status, result.seen


P, W, F, U, S = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN, Status.SKIPPED
CASES: tuple[tuple[str, Sections, Status, str], ...] = (
    ("os.virt", {"system": SYSTEM + "maker=Supermicro\n"}, P, "bare metal (Supermicro)"),
    ("os.virt", {"system": SYSTEM + "virtual=1\nmaker=QEMU\nproduct=Standard PC\n"}, P, "virtual machine (QEMU Standard PC)"),
    ("os.virt", {"system": "kernel=6.8.0\n"}, U, "not shown"),
    ("os.cstates", {"system": SYSTEM + "cstates=POLL:0:0 C1:1:0 C6:170:0\n"}, P, "on: C6 170 µs"),
    ("os.cstates", {"system": SYSTEM + "cstates=POLL:0:0 C1:1:0 C6:170:1\n"}, P, "none above 10 µs"),
    ("os.cstates", {"system": SYSTEM}, S, "none"),
    ("os.cgroup", {"system": SYSTEM}, P, "96 of 96 CPUs, 0 GPUs"),
    ("os.cgroup", {"system": SYSTEM.replace("allowed=0-95", "allowed=0") + "memory_max=68719476736\n",
                   "nvidia_smi_list": "GPU 0: H (UUID: GPU-1)\nGPU 1: H (UUID: GPU-2)\n"}, W,
     "1 of 96 CPUs, 2 GPUs, memory limited to 64 GiB"),
    ("os.cgroup", {"system": "kernel=6.8.0\n"}, U, "not shown"),
    ("os.dstate", {"processes": ""}, P, "none"),
    ("os.dstate", {"processes": f"{STUCK}again\n{STUCK}"}, W,
     "python3 in nfs_wait_on_request"),
    ("os.dstate", {"processes": f"{STUCK}again\n"}, P, "none"),
    ("os.dstate", {"processes": ABSENT}, U, "tool missing"),
    ("pci.link_nic", {"pci": PCI.format(16)}, P, "1 x x16"),
    ("pci.link_nic", {"pci": PCI.format(8)}, F, "0000:18:00.0 behind 0000:17:01.0 x8"),
    ("pci.acs", {"lspci": LSPCI.format(acs="-", order="+", size=4096)}, P, "off"),
    ("pci.acs", {"lspci": LSPCI.format(acs="+", order="+", size=4096)}, W, "ACS on at 1 bridge, first 17:01.0"),
    ("pci.acs", {"lspci": LSPCI.format(acs="+", order="+", size=4096), "pci": PCI.format(16)}, W, "ACS on at 1 bridge, first 17:01.0"),
    ("pci.acs", {"lspci": LSPCI.format(acs="+", order="+", size=4096), "pci": PCI.format(16).replace("17:01.0", "99:01.0")}, P, "off"),
    ("pci.acs", {"lspci": LSPCI.format(acs="+", order="+", size=4096), "system": "virtual=1\n"}, S, "virtual machine"),
    ("pci.acs", {"lspci": HIDDEN}, U, "access denied"),
    ("pci.maxreadreq", {"lspci": LSPCI.format(acs="-", order="+", size=4096)}, P, "1 adapter"),
    ("pci.maxreadreq", {"lspci": LSPCI.format(acs="-", order="+", size=512)}, W, "18:00.0 512"),
    ("pci.maxreadreq", {"lspci": HIDDEN}, U, "access denied"),
    ("pci.maxreadreq", {"lspci": "00:00.0 Host bridge: Intel\n"}, S, "no adapter"),
    ("pci.maxreadreq", {"lspci": ABSENT}, U, "tool missing"),
    ("pci.relaxed_ordering", {"lspci": LSPCI.format(acs="-", order="+", size=4096)}, P, "on on 1 adapters"),
    ("pci.relaxed_ordering", {"lspci": LSPCI.format(acs="-", order="-", size=4096), "system": "cpu_model=AMD EPYC 9654\n"}, W,
     "off on 18:00.0"),
    ("pci.relaxed_ordering", {"lspci": LSPCI.format(acs="-", order="-", size=4096), "system": SYSTEM}, S, "off on 18:00.0"),
    ("pci.relaxed_ordering", {"lspci": HIDDEN}, U, "access denied"),
    ("pci.ats", {"ats": "Configurations:            Next Boot\n         ATS_ENABLED       True(1)\n", "system": "virtual=1\n"}, P, "on"),
    ("pci.ats", {"ats": "         ATS_ENABLED       False(0)\n", "system": "virtual=1\n"}, W, "off on 1 adapters"),
    ("pci.ats", {"ats": ("", "-E- Failed to open the device\n", 0), "system": "virtual=1\n"}, U, "not readable"),
    ("pci.ats", {"ats": ABSENT, "system": "virtual=1\n"}, U, "tool missing"),
    ("pci.ats", {"ats": ABSENT, "system": SYSTEM}, S, "bare metal"),
    ("eth.ecn", {"netdevs": NETDEV.format("mlx5_0", "ens1", 0, 0, "00010000", "00010000")}, P, "on for priority 3"),
    ("eth.ecn", {"netdevs": NETDEV.format("mlx5_0", "ens1", 0, 0, "00010000", "00000000")}, W, "off on ens1"),
    ("eth.ecn", {"netdevs": NETDEV.format("mlx5_0", "ens1", 0, 0, "-", "-")}, U, "not shown on 1 interfaces"),
    ("eth.ecn", {"netdevs": ""}, S, "no RoCE interface"),
    ("eth.interfaces", {"interfaces": "net eth0 operstate up carrier 1 rx - tx -\ndefault eth0\n"}, P, "not set; default route through eth0"),
    ("eth.interfaces", {"interfaces": "net eth0 operstate up carrier 1 rx - tx -\ndefault eth0\n",
                        "environment": "NCCL_SOCKET_IFNAME=bond0,eth\n"}, F,
     "NCCL_SOCKET_IFNAME=bond0,eth: no bond0 here; default route through eth0"),
    ("eth.interfaces", {"interfaces": "net eth10 operstate up carrier 1 rx - tx -\n", "nccl_conf": "NCCL_SOCKET_IFNAME==eth1\n"}, F,
     "NCCL_SOCKET_IFNAME==eth1: no eth1 here; no default route"),
    ("eth.interfaces", {"interfaces": "net eth10 operstate up carrier 1 rx - tx -\n", "nccl_conf": "NCCL_SOCKET_IFNAME=eth1\n"}, P,
     "NCCL_SOCKET_IFNAME=eth1"),
    ("eth.interfaces", {"interfaces": "net eth0 operstate up carrier 1 rx - tx -\n", "nccl_conf": "NCCL_SOCKET_IFNAME=^docker,lo\n"}, P,
     "^docker,lo"),
    ("eth.interfaces", {"interfaces": ""}, U, "unreadable"),
    ("efa.plugin", {"efa": "plugin /opt/amazon/ofi-nccl/lib/libnccl-net.so\ninstaller version: 1.38.0\n"}, P,
     "/opt/amazon/ofi-nccl/lib/libnccl-net.so; EFA installer version: 1.38.0"),
    ("efa.plugin", {"efa": "", "ldconfig": LDCONFIG.format("libnccl-net.so.0", "libnccl-net.so.0")}, P, "libnccl-net.so.0"),
    ("efa.plugin", {"efa": ""}, F, "not found"),
    ("efa.plugin", {}, U, "no answer"),
    ("efa.devices", {"efa": "device rdmap0s6\ndevice rdmap16s27\n"}, P, "2 devices"),
    ("efa.devices", {"efa": ""}, F, "0 devices"),
    ("efa.provider", {"fi_info": "no EFA device\n"}, F, "not asked: the kernel lists no EFA device"),
    ("efa.provider", {"fi_info": "provider: efa\n    domain: rdmap0s6-rdm\n    type: FI_EP_RDM\n"}, P, "1 domain"),
    ("efa.provider", {"fi_info": ABSENT}, U, "tool missing"),
    ("gcp.plugin", {"gcp": "gcp /usr/local/gib/lib64/libnccl-net.so\n"}, P, "/usr/local/gib/lib64/libnccl-net.so"),
    ("gcp.plugin", {"gcp": ""}, F, "none"),
    ("gcp.plugin", {}, U, "no answer"),
    ("azure.topo", {"azure": "topo /opt/microsoft/ndv5-topo.xml\n"}, P, "/opt/microsoft/ndv5-topo.xml"),
    ("azure.topo", {"azure": "size Standard_ND96isr_H100_v5\n", "system": "virtual=1\n"}, F, "none on Standard_ND96isr_H100_v5"),
    ("azure.topo", {"azure": "size Standard_ND96isr_H200_v5\n", "system": "virtual=1\n"}, F, "none on Standard_ND96isr_H200_v5"),
    ("azure.topo", {"azure": "size Standard_ND96isr_MI300X_v5\n", "system": "virtual=1\n"}, S, "Standard_ND96isr_MI300X_v5"),
    ("azure.topo", {"azure": "size Standard_ND128isr_NDR_GB200_v6\n", "system": "virtual=1\n"}, S, "Standard_ND128isr_NDR_GB200_v6"),
    ("azure.topo", {"azure": "size Standard_HB120rs_v3\n", "system": "virtual=1\n"}, S, "Standard_HB120rs_v3"),
    ("azure.topo", {"azure": "size \n", "system": "virtual=1\n"}, U, "none; size not known"),
    ("gpu.clocks", {"gpu_query": QUERY.format("NVIDIA H100", 1900, 98)}, P, "reached by 1 busy GPU"),
    ("gpu.clocks", {"gpu_query": QUERY.format("NVIDIA H100", 1200, 98)}, W, "GPU 0: 1200 of 1980 MHz"),
    ("gpu.clocks", {"gpu_query": QUERY.format("NVIDIA H100", 345, 0)}, S, "idle"),
    ("gpu.clocks", {"gpu_query": ABSENT}, U, "tool missing"),
    ("gpu.imex", {"gpu_query": QUERY.format("NVIDIA GB200", 345, 0), "imex": IMEX.format("READY", "UP")}, P, "UP"),
    ("gpu.imex", {"gpu_query": QUERY.format("NVIDIA GB200", 345, 0), "imex": IMEX.format("UNAVAILABLE", "DEGRADED")}, F,
     "DEGRADED: node 1 UNAVAILABLE"),
    ("gpu.imex", {"gpu_query": QUERY.format("NVIDIA GB200", 345, 0), "imex": ABSENT}, F, "nvidia-imex-ctl is not installed"),
    ("gpu.imex", {"gpu_query": QUERY.format("NVIDIA GB200", 345, 0), "imex": ("", "", 124)}, U, "timed out"),
    ("gpu.imex", {"gpu_query": QUERY.format("NVIDIA H100", 345, 0), "imex": ABSENT}, S, "no such GPU"),
    ("gpu.imex", {"gpu_query": ABSENT, "imex": ABSENT}, U, "tool missing"),
    ("sw.cuda", {"cuda": "Cuda compilation tools, release 12.2, V12.2.140\n", "gpu_details": DETAILS}, P, "CUDA 12.2, driver supports 12.2"),
    ("sw.cuda", {"cuda": "Cuda compilation tools, release 13.0, V13.0.48\n", "gpu_details": DETAILS}, F, "CUDA 13.0, driver supports 12.2"),
    ("sw.cuda", {"cuda": "compat 1\nCuda compilation tools, release 13.0, V13.0.48\n", "gpu_details": DETAILS}, P,
     "CUDA 13.0, driver supports 12.2, compatibility package installed"),
    ("sw.cuda", {"cuda": "", "gpu_details": DETAILS, "ldconfig": LDCONFIG.format("libcudart.so.13", "libcudart.so.13")}, F,
     "libcudart.so.13, driver supports 12.2"),
    ("sw.cuda", {"cuda": "", "gpu_details": DETAILS}, S, "no runtime installed"),
    ("sw.cuda", {"cuda": "Cuda compilation tools, release 12.2, V12.2.140\n", "gpu_details": ABSENT}, U, "CUDA 12.2"),
    ("rdma.libs", {"ldconfig": LDCONFIG.format("libibverbs.so.1", "libibverbs.so.1")}, P, "found"),
    ("rdma.libs", {"ldconfig": "812 libs found in cache `/etc/ld.so.cache'\n"}, F, "libibverbs.so.1 not found"),
    ("rdma.libs", {"ldconfig": ("", "sh: ldconfig: not found\n", 1)}, U, "unreadable"),
)  # fmt: skip


@pytest.mark.parametrize(("check_id", "sections", "status", "text"), CASES)
def test_each_answer_is_judged_as_it_stands(
    check_id: str, sections: Sections, status: Status, text: str
) -> None:
    assert status_and_answer(check_id, sections) == (status, text)


def test_a_session_that_sees_fewer_gpus_than_the_driver_has_fails() -> None:
    listed, driver = (
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n",
        "loaded\ngpu 0000:1b:00.0\ngpu 0000:43:00.0\n",
    )
    seen = {"system": SYSTEM, "nvidia_smi_list": listed, "nvidia_driver": driver}
    assert status_and_answer("os.cgroup", seen) == (
        F,
        "96 of 96 CPUs, 1 GPU of the 2 that the driver has",
    )
    assert status_and_answer("os.cgroup", {**seen, "nvidia_smi_list": ABSENT}) == (
        P,
        "96 of 96 CPUs, 0 GPUs",
    )


@pytest.mark.parametrize(
    ("sections", "seconds", "expected"),
    [
        ({"nvidia_smi_list": "GPU 0: H (UUID: GPU-1)\n"}, 1.2, (P, "in time")),
        ({"nvidia_smi_list": "GPU 0: H (UUID: GPU-1)\n"}, 24.0, (W, "above 20 s")),
        ({"nvidia_smi_list": ("", "", 124)}, 30.0, (F, "nvidia-smi -L did not end")),
        ({"nvidia_smi_list": ("", "", 124)}, 2.0, (U, "timed out")),
        ({"nvidia_smi_list": "GPU 0: H (UUID: GPU-1)\n"}, None, (U, "not timed")),
        ({"nvidia_smi_list": ABSENT}, 0.0, (U, "tool missing")),
    ],
)
def test_a_driver_that_answers_late_warns_and_one_that_never_answers_fails(
    sections: Sections, seconds: float | None, expected: tuple[Status, str]
) -> None:
    assert status_and_answer("ssh.cmd_time", sections, seconds=seconds) == expected


def test_rails_that_share_a_subnet_need_arp_settings() -> None:
    addresses = (
        "2: ens1    inet 10.0.0.1/16 scope global ens1\n3: ens2    inet 10.{}.0.2/16 scope global"
        " ens2\n"
    )
    two = NETDEV.format("mlx5_0", "ens1", "{0}", "{1}", "-", "-") + NETDEV.format(
        "mlx5_1", "ens2", "{0}", "{1}", "-", "-"
    )
    assert status_and_answer(
        "eth.arp", {"netdevs": two.format(0, 0), "addresses": addresses.format(1)}
    ) == (
        P,
        "a subnet per rail",
    )
    assert status_and_answer(
        "eth.arp", {"netdevs": two.format(0, 0), "addresses": addresses.format(0)}
    ) == (
        F,
        "2 rails share 1 subnet; arp_ignore or arp_announce not set on ens1, ens2",
    )
    assert status_and_answer(
        "eth.arp", {"netdevs": two.format(1, 2), "addresses": addresses.format(0)}
    ) == (
        P,
        "2 rails share 1 subnet, arp_ignore 1 and arp_announce 2",
    )
    assert status_and_answer("eth.arp", {"netdevs": "", "addresses": ""})[0] is S
    assert status_and_answer("eth.arp", {"netdevs": ("", "", 124)})[0] is U


PORT = "rdma mlx5_0 present 1\nport mlx5_0 1 state 4: ACTIVE\nport mlx5_0 1 link_layer {}\n{}"
COMPARED: tuple[tuple[str, str, str, str, Status], ...] = (
    ("cross.pkey", "rdma_sysfs", PORT.format("InfiniBand", "pkey mlx5_0 1 pkeys/0 0xffff\n"),
     PORT.format("InfiniBand", "pkey mlx5_0 1 pkeys/0 0x8001\n"), F),
    ("cross.gid_index", "rdma_sysfs", PORT.format("Ethernet", "gid mlx5_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 RoCE v2\n"),
     PORT.format("Ethernet", "gid mlx5_0 1 5 0000:0000:0000:0000:0000:ffff:0a00:0002 RoCE v2\n"), P),
    ("cross.nccl_version", "nccl_library", "nccl /usr/lib/libnccl.so.2.21.5\n", "nccl /usr/lib/libnccl.so.2.19.3\n", F),
    ("cross.nccl_tests_hash", "nccl_tests", f"{'a' * 64}  /opt/all_reduce_perf\n", f"{'b' * 64}  /opt/all_reduce_perf\n", F),
    ("cross.governor", "system", SYSTEM, SYSTEM.replace("performance", "powersave"), W),
    ("cross.numa_layout", "system", SYSTEM, SYSTEM.replace("0-47 48-95", "0-95"), W),
    ("cross.bios", "system", SYSTEM, SYSTEM.replace("bios=3.1", "bios=3.2"), W),
)  # fmt: skip


@pytest.mark.parametrize(("check_id", "section", "most", "odd", "severity"), COMPARED)
def test_what_differs_from_most_nodes_is_reported_with_its_own_severity(
    check_id: str, section: str, most: str, odd: str, severity: Status
) -> None:
    answers = [
        answer({section: text}, node=f"n{i}") for i, text in enumerate((most, most, most, odd))
    ]
    by_node = {r.node: r for r in results(check_id, *answers)}
    assert [by_node[f"n{i}"].status for i in range(4)] == [P, P, P, severity]
    assert by_node["n3"].expected.endswith("(3 of 4)")
    assert by_node["n3"].seen != by_node["n0"].seen


@pytest.mark.parametrize("check_id", [row[0] for row in COMPARED])
def test_what_no_node_says_is_not_compared(check_id: str) -> None:
    section = {row[0]: row[1] for row in COMPARED}[check_id]
    assert {
        r.status
        for r in results(check_id, *(answer({section: ""}, node=f"n{i}") for i in range(3)))
    } == {S}
    assert {
        r.status
        for r in results(
            check_id, *(answer({section: ("", "", 124)}, node=f"n{i}") for i in range(3))
        )
    } == {U}


def test_nodes_that_are_all_limited_members_of_a_partition_warn_together() -> None:
    text = PORT.format("InfiniBand", "pkey mlx5_0 1 pkeys/0 0x7fff\n")
    checks = results("cross.pkey", *(answer({"rdma_sysfs": text}, node=f"n{i}") for i in range(3)))
    assert {(r.status, r.reason) for r in checks} == {
        (W, "limited members of a partition never reach each other")
    }


def test_only_what_serves_a_check_of_the_profile_is_asked() -> None:
    programs = {
        s.name
        for s in script.sections(
            families(), Policy("lab", ("ssh.connect", "sw.mpirun"), ("sw.env_file",))
        )
    }
    assert {"mpirun_version", "identity", "nvidia_smi_list", "nccl_conf"} <= programs
    assert not {"fi_info", "lspci", "kernel_log", "ibv_devinfo", "disks", "gpu_details"} & programs
    assert {s.name for s in script.sections(families(), ALL)} == {
        s.name for family in families() for s in family.sections
    }


def test_who_has_little_time_asks_first_for_what_decides() -> None:
    policy = Policy("tcp", ("gpu.count", "gpu.driver", "sw.mpirun"), ("os.*", "gpu.*", "rdma.*"))
    text = script.build(families(), "run-1", 4.0, at_most_s=2, policy=policy).stdin.decode()
    order = [line.split()[1] for line in text.splitlines() if line.startswith("ask ")]
    deciding = {"nvidia_smi_list", "gpu_query", "gpu_apps", "mpirun_version", "processes"}
    assert set(order[: len(deciding)]) == deciding
    assert order.index("nvidia_smi_list") < order.index("gpu_query")
    assert "gpu_details" in order[len(deciding) :]


def test_every_check_says_the_same_when_only_its_own_sections_were_asked() -> None:
    everything = {
        s.name: f"{s.name} says something\n" for family in families() for s in family.sections
    } | {
        name: value
        for _, sections, _, _ in CASES
        for name, value in sections.items()
        if isinstance(value, str)
    }
    full = [answer(everything, node=f"n{i}") for i in range(2)]
    for family in families():
        for check_id in family.ids:
            names = {s.name for s in script.sections(families(), Policy("one", (check_id,), ()))}
            part = [
                answer(
                    {name: text for name, text in everything.items() if name in names}, node=f"n{i}"
                )
                for i in range(2)
            ]
            assert results(check_id, *part) == results(check_id, *full), check_id


def test_sudo_stands_before_what_only_root_may_see_and_only_where_it_is_allowed() -> None:
    plain = script.build(families(), "run-1", 60).stdin.decode()
    script_text = script.build(families(), "run-1", 60, sudo=True).stdin.decode()
    assert "sudo" not in plain.replace("--sudo", "")
    assert "S='sudo -n'" in script_text
    assert script_text.count("$S ") == plain.count("$S ") >= 4


VALUES: tuple[tuple[str, Sections, dict[str, float | bool | str]], ...] = (
    ("os.cpu_load", {"system": SYSTEM.replace("loadavg=0.10", "loadavg=96.00")}, {"load_per_core": 1.0}),
    ("os.cpu_governor", {"system": SYSTEM.replace("performance", "powersave")}, {"governor": "powersave"}),
    ("os.virt", {"system": SYSTEM + "virtual=1\n"}, {"type": "vm"}),
    ("os.limits.memlock", {"memlock": "8192\n"}, {"kb": 8192.0}),
    ("os.limits.memlock", {"memlock": "unlimited\n"}, {"kb": "unlimited"}),
    ("os.limits.nofile", {"limits": "nofile=1024\nstack=unlimited\n"}, {"value": 1024.0}),
    ("os.limits.stack", {"limits": "nofile=1024\nstack=unlimited\n"}, {"value": "unlimited"}),
    ("os.time", {"time": "System time     : 0.250000000 seconds slow of NTP time\n"}, {"offset_ms": 250.0}),
    ("pci.acs", {"lspci": LSPCI.format(acs="+", order="+", size=4096)}, {"srcvalid_bridges": 1}),
    ("pci.maxreadreq", {"lspci": LSPCI.format(acs="-", order="+", size=512)}, {"bytes": 512}),
    ("gpu.clocks", {"gpu_query": QUERY.format("NVIDIA H100", 1200, 98)}, {"sm_mhz_under_load": 1200.0, "max_sm_mhz": 1980.0}),
    ("gpu.imex", {"gpu_query": QUERY.format("NVIDIA GB200", 345, 0), "imex": IMEX.format("READY", "UP")}, {"domain_state": "UP"}),
    ("sw.cuda", {"cuda": "release 13.0, V13.0.48\n", "gpu_details": DETAILS}, {"runtime_major": 13, "driver_max_major": 12}),
    ("sw.env_leftovers", {"environment": "RDMAV_FORK_SAFE=1\nUCX_TLS=secret\n"}, {"count": 2, "RDMAV_FORK_SAFE": 1.0}),
    ("efa.plugin", {"efa": ""}, {"found": False}),
    ("eth.ecn", {"netdevs": NETDEV.format("mlx5_0", "ens1", 0, 0, "00010000", "00000000")}, {"enabled": False}),
    ("rdma.libs", {"ldconfig": "812 libs found in cache `/etc/ld.so.cache'\n"}, {"libibverbs": "missing"}),
    ("rdma.port_state", {"rdma_sysfs": PORT.format("InfiniBand", "port mlx5_0 1 state 1: DOWN\n")},
     {"state": "DOWN", "link_layer": "InfiniBand", "active_ports": 0}),
)  # fmt: skip


@pytest.mark.parametrize(("check_id", "sections", "values"), VALUES)
def test_the_diagnosis_is_given_what_was_found_by_the_names_it_reads(
    check_id: str, sections: Sections, values: dict[str, float | bool | str]
) -> None:
    (result,) = results(check_id, answer(sections))
    assert dict(result.values) == values


def test_only_who_differs_is_shown_how_many_answers_there_are() -> None:
    nodes = [
        answer({"system": text}, node=f"n{i}")
        for i, text in enumerate((SYSTEM, SYSTEM, SYSTEM.replace("3.1", "3.2")))
    ]
    assert [dict(r.values) for r in results("cross.bios", *nodes)] == [
        {"distinct": 1.0},
        {"distinct": 1.0},
        {"distinct": 2.0},
    ]


def timed(node: str, now: str, asked: tuple[float, float] | None = (1000.0, 1004.0)) -> NodeAnswer:
    return replace(answer({"clock": now}, node), span_s=asked)


@pytest.mark.parametrize(
    ("now", "asked", "told"),
    [
        ("1002\n", (1000.0, 1004.0), (P, "within 5 s")),
        # Asking took as long as the clocks seem to differ.
        ("1060\n", (1000.0, 1060.0), (P, "within 5 s")),
        ("1009\n", (1000.0, 1004.0), (P, "within 5 s")),
        ("1010\n", (1000.0, 1004.0), (W, "6.0 s ahead of this machine")),
        ("994\n", (1000.0, 1004.0), (P, "within 5 s")),
        ("993\n", (1000.0, 1004.0), (W, "6.0 s behind this machine")),
        ("31537004\n", (1000.0, 1004.0), (W, "365 days ahead of this machine")),
        ("%s\n", (1000.0, 1004.0), (U, "not shown")),
        ("9" * 40 + "\n", (1000.0, 1004.0), (U, "not shown")),
        ("1002\n", None, (U, "not shown")),
        ("1002\n", (float("nan"), 1004.0), (U, "not shown")),
    ],
)
def test_a_clock_counts_as_wrong_only_beyond_the_time_that_asking_took(
    now: str, asked: tuple[float, float] | None, told: tuple[Status, str]
) -> None:
    (result,) = results("cross.clock", timed("n1", now, asked))
    assert (result.status, result.seen) == told


def test_a_wrong_clock_is_compared_with_the_other_nodes_too() -> None:
    one = results("cross.clock", timed("n1", "1001"), timed("n2", "9000"), timed("n3", "1003"))
    assert [(r.status, r.reason) for r in one] == [
        (P, ""),
        (W, "2 of 3 nodes agree with this machine"),
        (P, ""),
    ]
    both = results("cross.clock", timed("n1", "9001"), timed("n2", "9000"))
    why = "all 2 nodes differ: it may be this machine's clock that is wrong"
    assert [(r.status, r.reason) for r in both] == [(W, why)] * 2
    (evidence,) = {r.evidence.text for r in one if r.evidence and r.node == "n2"}
    assert evidence == "9000"


@pytest.mark.parametrize("name", ["nofile", "memlock"])
def test_the_fix_of_a_small_limit_raises_it_and_does_not_only_show_it(name: str) -> None:
    fixes = catalogue.entry(f"os.limits.{name}").fix
    commands = [command for step in fixes for command in step.run]

    assert any(f"> /etc/security/limits.d/99-{name}.conf" in command for command in commands)
    assert any(
        f"> /etc/systemd/system/slurmd.service.d/{name}.conf" in command for command in commands
    )
    assert not any(command.startswith("ulimit") for command in commands)
