"""What each check asks and when it is not well, for people: the table of docs/checks.md, made by
`python -m busbw.checks.catalogue`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from busbw.checks import Demand
from busbw.fabrics import fabric


@dataclass(frozen=True, slots=True)
class Entry:
    """One check."""

    check_id: str
    command: str
    """As a person would type it."""
    rule: str
    """When it is FAIL or WARN; what it cannot tell is UNKNOWN with the reason."""


ENTRIES = (
    Entry(
        "azure.topo",
        "ls /opt/microsoft/*topo*.xml",
        "none on ND A100 v4 or ND H100 v5 (VM size from the metadata service): FAIL",
    ),
    Entry(
        "cross.active_ports",
        "cat /sys/class/infiniband/*/ports/*/state",
        "other than most nodes: FAIL",
    ),
    Entry("cross.bios", "cat /sys/class/dmi/id/bios_version", "other than most nodes: WARN"),
    Entry("cross.cpu_model", "cat /proc/cpuinfo", "other than most nodes: WARN"),
    Entry("cross.driver", "nvidia-smi --query-gpu=driver_version", "other than most nodes: FAIL"),
    Entry(
        "cross.gid_index",
        "cat /sys/class/infiniband/*/ports/*/gid_attrs/types/*",
        "shown for information: index of the RoCE v2 IPv4 GID",
    ),
    Entry(
        "cross.governor",
        "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "other than most nodes: WARN",
    ),
    Entry(
        "cross.gpu_model",
        "nvidia-smi --query-gpu=name",
        "other models or another number than most nodes: FAIL",
    ),
    Entry("cross.host_name", "uname -n", "the name of another node: FAIL"),
    Entry("cross.kernel", "uname -r", "other than most nodes: WARN"),
    Entry("cross.limits", "ulimit -l", "other than most nodes: WARN"),
    Entry("cross.mpi", "mpirun --version", "another version or place than most nodes: FAIL"),
    Entry("cross.mtu", "ibv_devinfo", "other than most nodes: FAIL"),
    Entry(
        "cross.nccl_tests_hash",
        "sha256sum all_reduce_perf",
        "where it is on PATH, another file than on most nodes: FAIL",
    ),
    Entry(
        "cross.nccl_version",
        "ls libnccl.so.2.*",
        "other libraries below LD_LIBRARY_PATH and the usual folders than on most nodes: FAIL",
    ),
    Entry(
        "cross.nic_fw",
        "cat /sys/class/infiniband/*/fw_ver",
        "another firmware of the same board than most nodes: WARN",
    ),
    Entry(
        "cross.numa_layout",
        "cat /sys/devices/system/node/node*/cpulist",
        "other than most nodes: WARN",
    ),
    Entry("cross.ofed", "ofed_info -s", "other than most nodes: WARN"),
    Entry(
        "cross.pkey",
        "cat /sys/class/infiniband/*/ports/*/pkeys/*",
        "other tables than on most nodes: FAIL; only limited memberships: WARN",
    ),
    Entry("cross.rail_map", "nvidia-smi topo -m", "another matrix than most nodes: FAIL"),
    Entry(
        "cross.rate",
        "cat /sys/class/infiniband/*/ports/*/rate",
        "other rates of active ports than most nodes: FAIL",
    ),
    Entry("cross.vbios", "nvidia-smi --query-gpu=vbios_version", "other than most nodes: WARN"),
    Entry("efa.devices", "ls /sys/class/infiniband", "no EFA device: FAIL"),
    Entry(
        "efa.plugin",
        "ldconfig -p; ls /opt/amazon/ofi-nccl/lib*",
        "no libnccl-net.so of aws-ofi-nccl: FAIL",
    ),
    Entry("efa.provider", "fi_info -p efa -t FI_EP_RDM", "no domain of provider efa: FAIL"),
    Entry(
        "eth.arp",
        "sysctl net.ipv4.conf.INTERFACE; ip -o addr",
        "rails share a subnet without arp_ignore 1 and arp_announce 2: FAIL",
    ),
    Entry(
        "eth.ecn",
        "cat /sys/class/net/INTERFACE/ecn/roce_{np,rp}/enable/*",
        "no priority with ECN, as receiver or sender: WARN",
    ),
    Entry(
        "eth.interfaces",
        "cat /etc/nccl.conf; env; ls /sys/class/net",
        "NCCL_SOCKET_IFNAME of a file or the session names none that is there: FAIL",
    ),
    Entry(
        "eth.qos",
        "mlnx_qos -i INTERFACE",
        "trust other than dscp: FAIL; no priority with flow control: WARN; needs root",
    ),
    Entry(
        "gcp.plugin", "ls /usr/local/{gib,fastrak,tcpx,nvidia}/lib64", "no libnccl-net*.so: FAIL"
    ),
    Entry(
        "gpu.clocks",
        "nvidia-smi --query-gpu=…",
        "a busy GPU below 0.9 of its maximum clock: WARN; idle ones are not judged",
    ),
    Entry("gpu.count", "nvidia-smi -L", "none, or another number than the inventory says: FAIL"),
    Entry(
        "gpu.driver",
        "nvidia-smi --query-gpu=…",
        "library and module differ, several versions, or a GPU says [Unknown Error]: FAIL",
    ),
    Entry(
        "gpu.ecc",
        "nvidia-smi --query-gpu=…",
        "an uncorrected error since the driver was loaded: FAIL",
    ),
    Entry(
        "gpu.fabric_state", "nvidia-smi -q", "behind an NVSwitch and not Completed / Success: FAIL"
    ),
    Entry(
        "gpu.fabricmanager",
        "systemctl is-active nvidia-fabricmanager",
        "behind an NVSwitch and not active: FAIL",
    ),
    Entry("gpu.imex", "nvidia-imex-ctl -N", "domain not UP on GB200 or GB300: FAIL"),
    Entry("gpu.mig", "nvidia-smi --query-gpu=…", "MIG on: FAIL"),
    Entry(
        "gpu.nvlink_status",
        "nvidia-smi nvlink -s",
        "a link inactive, or fewer than the SXM card has: FAIL",
    ),
    Entry("gpu.pcie_link", "nvidia-smi --query-gpu=…", "fewer PCIe lanes than there are: FAIL"),
    Entry(
        "gpu.peermem",
        "cat /proc/driver/nvidia/version; ls /sys/module",
        "neither nvidia_peermem nor dma-buf: FAIL",
    ),
    Entry("gpu.persistence", "nvidia-smi --query-gpu=…", "off: WARN"),
    Entry("gpu.power", "nvidia-smi --query-gpu=…", "limit below the default: WARN"),
    Entry(
        "gpu.procs",
        "nvidia-smi --query-compute-apps=…",
        "a process on a GPU, or more than 1024 MiB held by none: WARN",
    ),
    Entry(
        "gpu.remap",
        "nvidia-smi --query-remapped-rows=…",
        "failed, pending, or more than 512 uncorrectable rows: FAIL",
    ),
    Entry("gpu.temp", "nvidia-smi -q", "less than 5 °C below the slowdown temperature: WARN"),
    Entry(
        "gpu.throttle",
        "nvidia-smi --query-gpu=…",
        "hardware, thermal or power brake: FAIL; software thermal: WARN",
    ),
    Entry(
        "os.cgroup",
        "cat /proc/self/status /sys/fs/cgroup/…/memory.max; nvidia-smi -L",
        "fewer GPUs listed than the driver has: FAIL; fewer CPUs than GPUs: WARN",
    ),
    Entry(
        "os.cpu_governor",
        "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "not performance: WARN",
    ),
    Entry("os.cpu_load", "cat /proc/loadavg; nproc", "load above 0.5 per CPU: WARN"),
    Entry(
        "os.cstates",
        "cat /sys/devices/system/cpu/cpu0/cpuidle/state*/*",
        "shown for information: idle states above 10 µs",
    ),
    Entry("os.disk", "df -P / /tmp /dev/shm", "does not end: FAIL; more than 95 % full: WARN"),
    Entry(
        "os.dstate",
        "ps -eo state,pid,wchan:32,comm, twice",
        "a process stuck in a driver or file system in both looks: WARN",
    ),
    Entry("os.firewall", "systemctl is-active firewalld ufw nftables", "one is active: WARN"),
    Entry("os.hosts", "getent ahosts $(uname -n)", "resolves to loopback, or not at all: WARN"),
    Entry("os.iommu", "cat /sys/kernel/iommu_groups/*/type", "translated on bare metal: WARN"),
    Entry(
        "os.kernel_log",
        "dmesg -T --level=emerg,alert,crit,err,warn (or journalctl -k -b)",
        "Xid of hardware, SXid, machine check: FAIL; others: WARN",
    ),
    Entry("os.limits.memlock", "ulimit -l", "not unlimited: FAIL"),
    Entry("os.limits.nofile", "ulimit -n", "below 65536: WARN"),
    Entry("os.limits.stack", "ulimit -s", "unlimited: WARN"),
    Entry("os.numa", "nvidia-smi topo -m", "a GPU without a NIC at PIX or PXB: WARN"),
    Entry("os.numa_balancing", "cat /proc/sys/kernel/numa_balancing", "on: WARN"),
    Entry("os.psi", "cat /proc/pressure/*", "CPU above 10, memory or disks above 5 (avg60): WARN"),
    Entry("os.shm", "df -P /dev/shm", "below 1024 MiB: FAIL"),
    Entry(
        "os.time",
        "timedatectl show -p NTPSynchronized; chronyc tracking",
        "not synchronised, or more than 100 ms off: WARN",
    ),
    Entry(
        "os.virt",
        "cat /proc/cpuinfo /sys/class/dmi/id/product_name",
        "shown for information: virtual machine or bare metal",
    ),
    Entry(
        "pci.acs",
        "lspci -vvv",
        "SrcValid+ on a bridge above a GPU or adapter (any bridge, where their places are not"
        " shown), bare metal only: WARN; needs root",
    ),
    Entry(
        "pci.ats",
        "mstconfig -d DEVICE query ATS_ENABLED",
        "off in a virtual machine: WARN; needs root",
    ),
    Entry(
        "pci.link_nic",
        "cat /sys/bus/pci/devices/*/{current,max}_link_{width,speed}",
        "an adapter below its width or speed, or behind a narrower bridge: FAIL",
    ),
    Entry("pci.maxreadreq", "lspci -vvv", "below 4096 on a Mellanox adapter: WARN; needs root"),
    Entry(
        "pci.relaxed_ordering",
        "lspci -vvv",
        "off on a Mellanox adapter of an AMD host or virtual machine: WARN; needs root",
    ),
    Entry(
        "rdma.container_dev",
        "ls /dev/infiniband",
        "no uverbsN, or no rdma_cm (not needed on EFA): FAIL",
    ),
    Entry("rdma.devices", "ibv_devices", "none, or a rail of the inventory is missing: FAIL"),
    Entry(
        "rdma.gid",
        "cat /sys/class/infiniband/*/ports/*/gids/*",
        "a RoCE port without a RoCE v2 IPv4 GID: FAIL",
    ),
    Entry("rdma.libs", "ldconfig -p", "no libibverbs.so.1: FAIL"),
    Entry("rdma.mtu", "ibv_devinfo", "active MTU below 4096: WARN"),
    Entry(
        "rdma.ofed",
        "ofed_info -s",
        "kernel package of another release: WARN; inbox drivers are fine",
    ),
    Entry(
        "rdma.port_state",
        "cat /sys/class/infiniband/*/ports/*/state",
        "a rail of the inventory not ACTIVE, or no port at all: FAIL; another port not ACTIVE,"
        " where no rails are named: WARN",
    ),
    Entry(
        "rdma.rate",
        "cat /sys/class/infiniband/*/ports/*/rate",
        "lanes missing, or slower than the node's other ports: FAIL",
    ),
    Entry(
        "rdma.sm",
        "cat /sys/class/infiniband/*/ports/*/sm_lid",
        "an active InfiniBand port without subnet manager: FAIL",
    ),
    Entry(
        "ssh.cmd_time",
        "nvidia-smi -L",
        "no answer in its limit of 30 s: FAIL; after more than 20 s: WARN",
    ),
    Entry("ssh.connect", "ssh NODE true", "not reached: UNKNOWN, with what was seen"),
    Entry(
        "sw.cuda",
        "nvcc --version; nvidia-smi -q",
        "a CUDA runtime of a newer major version than the driver supports, without the"
        " compatibility package: FAIL",
    ),
    Entry("sw.env_file", "cat /etc/nccl.conf ~/.nccl.conf", "any line: WARN"),
    Entry("sw.env_leftovers", "env", "an NCCL, FI, RDMAV, UCX or OMPI_MCA variable: WARN"),
    Entry("sw.mpirun", "mpirun --version", "missing, or not Open MPI: FAIL"),
    Entry(
        "sw.room",
        'df -Pk "$HOME" "${TMPDIR:-/tmp}"',
        "one cannot be written, or has less than 32 MiB left: FAIL",
    ),
)


def render() -> str:
    """docs/checks.md."""
    profiles = [fabric.load(name) for name in fabric.names()]
    demands = [
        (item.name, Demand(item.name, item.checks.required, item.checks.advisory))
        for item in profiles
    ]
    found = [
        _INTRODUCTION,
        "| check | asked with | not well when | required by | advisory for |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in ENTRIES:
        required = [name for name, demand in demands if demand.standing(entry.check_id) is True]
        advisory = [name for name, demand in demands if demand.standing(entry.check_id) is False]
        command = entry.command.replace("|", "\\|")
        found.append(
            f"| `{entry.check_id}` | `{command}` | {entry.rule} | {', '.join(required) or '–'} |"
            f" {', '.join(advisory) or '–'} |"
        )
    return "\n".join(found) + "\n"


_INTRODUCTION = """\
# Checks

Made by `python -m busbw.checks.catalogue`; a test holds it current.

`busbw check` and the first stage of `busbw run` send one POSIX shell script to each node and ask all of this in one round trip. It only reads:
nothing is installed, changed or reset. Each section has its own time limit; a tool that hangs once is not asked again; of each section's
output 256 KiB are kept. What no check of the profile reads is not asked. Nothing asks for root unless `--sudo` is given: then `sudo -n` goes
before `dmesg`, `lspci`, `mlnx_qos` and `mstconfig`, never with a password.

A check is PASS, WARN, FAIL, UNKNOWN (it could not be made; the reason names the tool or the right that is missing) or SKIPPED (it does
not apply). What the fabric profile and the playbook require decides the verdict: any FAIL gives exit status 1, else any UNKNOWN gives
3, else 0. Advisory checks are shown and never decide.

Expected values come from the inventory (`gpus`, `rails`), else from the majority of the nodes, and the result says which. Without a majority
every node is shown to differ.
"""

if __name__ == "__main__":
    sys.stdout.write(render())
