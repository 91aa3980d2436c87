"""Causes on nodes and in what starts jobs there: GPU drivers, containers, Kubernetes, Slurm, Ray. All
texts are composed; only the fixed words are those that the programs print."""

from __future__ import annotations

import pytest

from busbw.parsers.findings import diagnose
from busbw.parsers.findings.evidence import Context, EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner

CAUSES = {
    "pcie-atomics-missing": (
        "[    9.1] kfd kfd: amdgpu: skipped device 1002:740f, PCI rejects atomics 700<0\n"
        "[    9.2] [drm] Initialized amdgpu 3.57.0 for 0000:c3:00.0 on minor 2\n",
    ),
    "amdgpu-start-failed": (
        "[   11.0] [drm:psp_hw_start [amdgpu]] *ERROR* PSP load sos failed!\n",
        "[   11.4] amdgpu 0000:c3:00.0: amdgpu: PSP SOS FW not available\n",
        "[   12.0] kfd kfd: amdgpu: TONGA VF not supported in kfd\n",
        "[   12.2] amdgpu 0000:c3:00.0: amdgpu: amdgpu_discovery_init failed\n",
    ),
    "gpu-kernel-hung": (
        "[  900.0] amdgpu: MES might be in unrecoverable state, issue a GPU reset\n",
        "[  901.0] [drm:gfx_v9_4_3_ring [amdgpu]] *ERROR* ring comp_1.2.0 test failed (-110)\n",
    ),
    "gpu-xid-reset-required": (
        "Unable to determine the device handle for GPU 0000:4b:00.0: GPU requires reset\n",
        "    GPU Recovery Action                   : Drain and Reset\n",
        "[  950.0] amdgpu 0000:c3:00.0: amdgpu: GPU mode1 reset failed\n",
        "[  951.0] amdgpu 0000:c3:00.0: amdgpu: RAS Intr triggered, device disabled!!\n",
    ),
    "gpu-row-remap-failure": (
        "[   10.0] amdgpu 0000:c3:00.0: amdgpu: RAS records:301 exceed threshold:300, GPU will not"
        " be initialized. Replace this GPU or increase the threshold\n",
    ),
    "gpu-start-slow": (
        "nvidia-container-cli: initialization error: driver rpc error: timed out\n",
        "nvidia-container-cli: detection error: nvcgo rpc error: timed out\n",
    ),
    "gpu-driver-not-visible": (
        "nvidia-container-cli: initialization error: nvml error: driver not loaded\n",
    ),
    "ray-resources-missing": (
        "(autoscaler +9s) Error: No available node types can fulfill resource request {'GPU': 2.0}\n",
        "ValueError: Current node has no GPU available. current_node_resource={'CPU': 8.0}\n",
    ),
    "pod-not-scheduled": (
        "Allocate failed due to previously allocated devices are no longer healthy; cannot allocate"
        " unhealthy devices amd.com/gpu, which is unexpected\n",
    ),
    "scheduler-node-configuration": (
        "gres/gpu count repor slurm     2026-04-14T06:39:53 gpu-[1-4]\n",
        "  99 gpu train bob PD 0:00 4 (launch failed requeued held)\n",
        "slurmstepd: error: spank: required plugin tmpdir.so: task_init() failed with rc=-1\n",
    ),
    "container-start-failed": (
        "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1\n",
    ),
    "kernel-hung-task": ("slurmctld: update_node: node n3 reason set to: Kill task failed\n",),
    "disk-full": (
        "w-3  train  Evicted  gpu-07  Pod The node had condition: [DiskPressure].\n",
        'Evicted: Usage of EmptyDir volume "scratch" exceeds the limit "20Gi".\n',
    ),
    "host-memory-exhausted": (
        "systemd[1]: slurmd.service: Failed with result 'oom-kill'.\n",
        "ptxas: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL)\n",
        "w-3  train  Evicted  The node had condition: [MemoryPressure].\n",
    ),
    "thread-limit": ("Warning  Evicted  The node was low on resource: pids.\n",),
    "gpu-busy": (
        "[rank3]: RuntimeError: cuCtxCreate failed: CUDA_ERROR_DEVICE_UNAVAILABLE\n",
        "RuntimeError: synStatus=20 [Device already acquired] Device acquire failed.\n",
    ),
    "clocksource-slow": ("[ 31.0] clocksource: Switched to clocksource acpi_pm\n",),
    "gpu-device-access": (
        "Failed to initialize NVML: Insufficient Permissions\n",
        "Unable to open /dev/kfd read-write: Permission denied\n",
    ),
    "gpu-power-cable": (
        "Unable to determine the device handle for GPU 0000:4b:00.0: Insufficient External Power\n",
    ),
    "gpu-fell-off-bus": (
        "exporter: GPU 3 had XID error: 79\n",
        "4b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)\n",
    ),
    "nvlink-error-xid": (
        "[rank3]: RuntimeError: cuStreamSynchronize failed: CUDA_ERROR_NVLINK_UNCORRECTABLE\n",
        "exporter: GPU 3 had XID error: 74\n",
    ),
    "dcgm-health-failure": (
        "'nvidia.com/gpu' device marked unhealthy: GPU-7540a9b3\n",
        'level=info msg="gpuid[2] is set to unhealthy for cper"\n',
    ),
    "gpu-missing": (
        "GpuCount  True   GpuMissing   Expected 8 GPUs, found 7\n",
        "HIP Error - probe.cpp:9: 'hipErrorNoDevice'\n",
        "Reason=gres/gpu count changed (8 -> 6) [slurm@2026-05-01T10:00:00]\n",
    ),
    "cumem-unsupported": (
        "n1:9:9 [3] init.cc:431 NCCL WARN Cuda failure 'operation not supported'\n",
    ),
    "cuda-mps-failed": ("CUDA error: MPS server is not ready to accept new MPS client requests\n",),
    "node-rebooted": (
        "Node unexpectedly re slurm     2026-04-14T06:39:53 gpu-1\n",
        "Warning  Rebooted  12s  kubelet  Node gpu-7 has been rebooted, boot id: 5f1c\n",
        "slurmctld: error: Node n12 unexpectedly rebooted boot_time=1717 last response=1718\n",
        "[ 4711.0] Kernel panic - not syncing: hung_task: blocked tasks\n",
    ),
    "scheduler-request-refused": (
        "  99 gpu train bob PD 0:00 4 (AssocGrpGRES)\n",
        "  99 gpu train bob PD 0:00 4 (DependencyNeverSatisfied)\n",
    ),
    "scheduler-auth-failed": (
        "slurmctld: error: Security violation, REQUEST_PING RPC from uid=64030\n",
    ),
    "neighbour-table-full": ("neighbour: arp_cache: neighbor table overflow!\n",),
    "io-straggler": (
        'XFS (nvme3n1): metadata I/O error in "xfs_imap" at daddr 0x8 len 1 error 5\n',
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/x'\n",
    ),
    "rdma-netns-mismatch": ("n_gids_found=0\n", "rdma_bind_addr: No such device\n"),
    "p2p-mapping-failed": (
        "qemu-kvm: 0000:4f:00.0: PCI peer-to-peer transactions on BARs are not supported.\n",
    ),
    "gpu-ecc-uncorrectable": (
        "[rank3]: RuntimeError: cuMemcpyDtoH failed: CUDA_ERROR_ECC_UNCORRECTABLE\n",
    ),
    "build-arch-unsupported": (
        "[rank3]: RuntimeError: cuModuleLoad failed: CUDA_ERROR_NO_BINARY_FOR_GPU\n",
    ),
    "cuda-driver-too-old": (
        "[rank3]: RuntimeError: cuInit failed: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE\n",
    ),
    "certificate-rejected": (
        "error: the server has asked for the client to provide credentials\n",
    ),
    "scheduler-unreachable": (
        "The connection to the server 10.9.8.7:6443 was refused - did you specify the right host or port?\n",
    ),
    "cuda-oom": (
        "[rank3]: RuntimeError: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
        "launcher: out of memory while loading weights\n",
    ),
    "ib-port-down": (
        'infiniband health=Unhealthy reason="not enough LinkUp ports, only 7 LinkUp out of 8"\n',
    ),
    "nccl-segfault": (
        "[ 71.2] traps: python[4711] general protection fault ip:7f sp:7f error:0 in libnccl.so.2\n",
    ),
    "ib-sm-unstable": (
        "systemd[1]: opensmd.service: Failed with result 'exit-code'.\n",
        "ProblemType: Crash\nPackage: opensm 3.3\nSignal: 6\n",
        " #3 0x0000560 in fill_tables (mgr=0x1)\n  at osm_ucast_ftree.c:99\n",
    ),
    "nic-driver-start-failed": (
        "[ 4.1] bnxt_en 0000:41:00.0: QPLIB: cmdq[0x3]=0xb status 0x3\n"
        "[ 4.2] bnxt_en 0000:41:00.0 bnxt_re1: Failed to create HW QP\n",
        "[ 4.3] infiniband irdma0: Couldn't open port 1\n",
        "[ 4.4] mlx5_core 0000:41:00.0: cmd_work_handler:9:(pid 7): failed to allocate command entry\n",
        "[ 4.5] mlx5_2, 1: ipoib_intf_alloc failed -12\n",
        "[ 4.6] infiniband mlx5_3: add_roce_gid GID add failed port=1 index=3\n",
    ),
    "cxi-resources-exhausted": ("start failed on nid001: no free VNIs left in the allocator\n",),
    "mpi-setting-rejected": (
        "MPICH ERROR: Unable to use a NIC_POLICY of 'GPU'.\n"
        "MPIDI_CRAY_ofi_get_nic_index(90)....: OFI invalid value for environment variable\n",
    ),
    "mpi-component-missing": (
        "[n1:9] coll:ibm:bcast: GPU awareness in PAMI requested. It is not safe to defer to another component.\n"
        "[n1:9] *** MPI_ERR_UNSUPPORTED_OPERATION: operation not supported\n",
    ),
    "imex-mnnvl-failure": ("systemd[1]: nvidia-imex.service: Failed with result 'exit-code'.\n",),
    "pcie-aer-errors": ("{1}[Hardware Error]:  Error 0, type: fatal   section_type: PCIe error\n",),
    "host-hardware-error": (
        " 1f | 11/26/2026 | 08:00:00 | Fan FAN_7 | Lower Non-recoverable going low  | Asserted\n",
    ),
    "kernel-module-not-loaded": (
        'modprobe.go:52] "modprobe: ERROR: ctx=0x7f path=/lib/modules/6.1/drm_exec.ko.zst error=No such file or directory"\n',
    ),
}


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(search_patterns())


@pytest.mark.parametrize(
    ("cause", "text"), [(cause, text) for cause, texts in CAUSES.items() for text in texts]
)
def test_a_message_leads_to_its_cause(scanner: Scanner, cause: str, text: str) -> None:
    searched = (Text("node1.log", scanner.scan([text.encode()]).hits),)
    findings = diagnose.diagnose(EvidenceSet(searched, ()), Context()).findings
    assert [finding.id for finding in findings][:1] == [cause]


@pytest.mark.parametrize(
    "text",
    [
        "[    9.2] kfd kfd: amdgpu: added device 1002:74a1\n",
        "[    9.2] [drm] amdgpu kernel modesetting enabled.\n",
        " {'GPU': 1.0} * 8 (PACK): 0 pending placement groups\n",
        "n_gids_found=16\n",
        "[  0.9] clocksource: Switched to clocksource tsc\n",
        "  99 gpu train bob PD 0:00 4 (Priority)\n",
        "    GPU Recovery Action                   : None\n",
        "4b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n",
        "[ 4.6] infiniband mlx5_3: add_roce_gid port=1 index=3\n",
    ],
)
def test_a_good_start_names_no_cause(scanner: Scanner, text: str) -> None:
    searched = (Text("node1.log", scanner.scan([text.encode()]).hits),)
    assert diagnose.diagnose(EvidenceSet(searched, ()), Context()).findings == ()
