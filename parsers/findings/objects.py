"""What a line says could not be had, and how: the object and the kind of failure.

Every writer has words of its own for itself, but a host name, a port, a shared library or a queue
pair is called by the same few words everywhere, and so is the way in which it could not be had. The
pair says more than the writer does. Of several objects in a line the one nearest to the words of
the failure counts. What a line only passes on (frames, «aborting») names no object.

>>> read("snowd: cannot find an address for host n7: unknown host")
Reading(entries=('name-resolution-failed',), is_likely=True, is_general=False)
>>> read("optional plugin libx.so not found, skipping") is None
True
"""

from __future__ import annotations

import errno
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from busbw.parsers.findings import catalogue
from busbw.parsers.logs.scan_sieve import branches_of
from busbw.table_cache import cached

_ERRORS: Mapping[str, str] = {
    "full": "ENOSPC EDQUOT",
    "memory": "ENOMEM",
    "denied": "EACCES EPERM EROFS",
    "busy": "EBUSY EADDRINUSE ETXTBSY",
    "address": "EADDRNOTAVAIL",
    "refused": "ECONNREFUSED",
    "route": "EHOSTUNREACH ENETUNREACH EHOSTDOWN ENETDOWN",
    "silent": "ETIMEDOUT",
    "gone": "ECONNRESET EPIPE ESHUTDOWN ECONNABORTED ENOTCONN",
    "limit": "EAGAIN EMFILE ENFILE",
    "broken": "EIO ESTALE EREMOTEIO",
    "missing": "ENOENT ENXIO ENODEV ENODATA",
    "invalid": "EINVAL EOPNOTSUPP ENOSYS EPROTONOSUPPORT ENOEXEC ENOTSUP",
    "memory-address": "EFAULT",
}
"""Kind of failure → the names of the system's error numbers: lines have the name, or the number
beside a word for it. The C library's texts are among the words."""

_WORDS: Mapping[str, str] = {
    "full": r"no space left|(?<!no )quota exceeded|disk (?:is )?full|StorageFull|0 free inodes",
    "memory": r"out of memory|can ?not allocate|not enough memory|insufficient memory|bad_alloc"
    r"|RESOURCE_EXHAUSTED|OutOfMemory|memory allocation|OUT_OF_MEMORY|allocation of .{1,30} failed"
    r"|OOM ?Kill\w*|oom_kill event",
    "version": r"version mismatch|incompatible|(?:is )?(?:newer|older) than|too old"
    r"|disagrees? about"
    r"|unsupported \w* ?\w* version|does ?n[o']t match|differ\b|version .{0,60}not found"
    r"|should be '|does not support the .{0,20}ABI|undefined symbol|do(?:es)? not fit|API mismatch",
    "denied": r"permission denied|not permitted|access (?:is )?denied|unauthori[sz]ed|forbidden"
    r"|\b40[13]\b|rejected|PermissionDenied|bad permissions|not accepted|blocked by|refusing"
    r"|read-only file system",
    "busy": r"\bin use\b|\bbusy\b|already (?:allocated|bound|running|taken|registered)|AddrInUse"
    r"|held by|\bbound to\b|currently in use",
    "address": r"can ?not assign requested address|AddrNotAvailable",
    "refused": r"refused|UNAVAILABLE|can ?not connect|unable to contact|failed to connect"
    r"|unable to connect|is down\b",
    "route": r"no route to host|unreachable|(?:network|host) is down",
    "silent": r"time[ds]? ?-?out|deadline|no response|not respond\w*|did not answer|giv(?:es"
    r"|en) up",
    "gone": r"reset by peer|broken pipe|closed by|connection (?:was )?(?:lost|closed|reset)"
    r"|not connected|\bdied\b|\bcrashed\b|0 bytes",
    "limit": r"too many|temporarily unavailable|limit (?:was |is )?(?:exceeded|reached)|exceed\w*"
    r"|exhausted|all \w+ are in use|WouldBlock|\bno (?:\w+ ){0,3}left\b",
    "broken": r"input/output error|i/o error|stale (?:nfs )?file handle|transport endpoint",
    "missing": r"no such|not found|not exist|missing|no data available|EAI_[A-Z]+"
    r"|gaierror|can(?:not|'t| not) (?:find|open|locate|load|read"
    r"|access|stat|be (?:found|opened|loaded|looked up))|(?:unable|failed|could ?n[o']t|could not)"
    r" (?:to )?(?:find|open|load|locate|look up|detect|be (?:found|opened|loaded))|no (?:\w+ ){0,3}"
    r"(?:was |were )?(?:found|available|detected|visible)|not (?:available|installed|present|loaded"
    r"|defined|set)\b|returned 0\b|no module named|\bis lost\b|but only \d+|was not found"
    r"|nothing to",
    "memory-address": r"bad address",
    "invalid": r"invalid|unknown|unrecogni[sz]ed|not (?:supported|valid|implemented|part of)"
    r"|unsupported|malformed|unexpected|mismatch|exec format error|wrong|parse error",
    "failed": r"fail\w*|error|fatal|abort\w*|unable|could ?n[o']t|could not|can ?not|can't|expired"
    r"|\brejected\b|stopped|suspended|violat\w+|unsatisf\w+|not (?:ready|reachable|running)|\brc ?="
    r"|\bblocked\b|insufficient|lost\b|\bgone\b|is DOWN|\bERR\b|unschedulable|panick?\w*"
    r"|is not in the|didn't match|denies",
}
"""Kind of failure → words, the most telling kind first."""

_NUMBER_BEFORE = r"(?:errno|error(?: code)?|(?<!seq_)(?<!timeout_)(?<!retry_)err|rc|ret|status|(?<!ret)code|os error)\W{0,3}"
"""Names of counters (`packet_seq_err 12`) are none, nor is NCCL's own result (`retcode 2`)."""


@functools.cache
def kinds() -> Mapping[str, re.Pattern[str]]:
    """The expression of each kind, the most telling kind first. Compiled when first needed."""
    found = {}
    for kind, words in _WORDS.items():
        options = [words]
        names = [name for name in _ERRORS.get(kind, "").split() if hasattr(errno, name)]
        if names:
            numbers = "|".join(str(getattr(errno, name)) for name in names)
            options.append(rf"\b(?:{'|'.join(names)})\b")
            options.append(
                rf"{_NUMBER_BEFORE}-?(?:{numbers})\b|[(\[]Errno -?(?:{numbers})[)\]]"
                rf"|[(\[]-?(?:{numbers})[)\]](?=\W*$|[:;,])"
            )
        found[kind] = re.compile("|".join(options), re.IGNORECASE)
    return found


@dataclass(frozen=True, slots=True)
class Object:
    """Something that a line says could not be had."""

    words: str
    """Python `re`, case ignored; compiled for the first line that has one of its literals."""
    causes: Mapping[str, tuple[tuple[str, ...], bool]]
    """Kind of failure → entries, the likeliest first, and whether object and kind leave one cause;
    `any` stands for each kind not named, `said` for words that are object and failure in one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line amounts to."""

    entries: tuple[str, ...]
    is_likely: bool
    """Object and kind leave one usual cause."""
    is_general: bool = False
    """Programs of every field speak of such an object."""


def _object(words: str, causes: str) -> Object:
    """From words, and `kind,kind=entry,entry` for each cause; `!` behind it = likely."""
    table: dict[str, tuple[tuple[str, ...], bool]] = {}
    for item in causes.split():
        kinds, _, entries = item.partition("=")
        for kind in kinds.split(","):
            table[kind] = (tuple(entries.rstrip("!").split(",")), entries.endswith("!"))
    return Object(words, table)


_NIC = (
    r"(?:mlx[45]\w*|bnxt_\w+|ice|irdma|qed\w*|qede|cxgb\d|iw_cxgb\d|hns3?\w*|hinic\d?|i40e|iavf"
    r"|ixgbe"
    r"|idpf|hfi1|erdma|efa|ena|gve|be2net|enic|sfc|ionic|mana|nfp|tg3|igb|igc|bnx2x?|r8169)"
)
_NIC_PARTS = (
    r"firmware|\bfw\b|\bprobe\b|\bBARs?\b|MSI-?X|\binit\w*|\bpci\b|DDP|request|become ready"
    r"|load\w*|reset|health|command interface"
)

OBJECTS = (
    # Host names.
    _object(
        r"(?:HTTPS?Connection|https?://|\bpip\b|\bcurl\b|\bwget\b|\bgit clone|pypi|github).*"
        r"(?:resolv\w+|name resolution|name or service not known|getaddrinfo)",
        "any=build-no-network!",
    ),
    _object(
        r"(?<!rdma_)getaddrinfo|gaierror|EAI_[A-Z]+|gethostby\w+|nodename nor servname|C-ares"
        r"|name or service not known|name resolution|no such host|could not resolve(?! (?:the )?(?:linux )?kernel)"
        r"|\blook\w* ?up (?:address|host|server|peer)|host ?name lookup|\bunknown host\b|\bDNS\b"
        r"|(?:resolve|look up|translate|find an?|find|get) (?:\w+ ){0,3}(?:host|address|peer)\b"
        r"|address of (?:node|host|rank).{0,40}look|resolve (?:host|upstream|peer|hostname)"
        r"|into an address",
        "any=name-resolution-failed!",
    ),
    # Credentials, certificates, licences, time.
    _object(
        r"munged?\b|auth/munge|auth_munge|pbs_iff|slurm\w* .{0,20}credential|cred\w* .{0,20}slurm",
        "any=scheduler-auth-failed!",
    ),
    _object(
        r"publickey|keyboard-interactive|gssapi-\w+|private key|id_(?:rsa|ed25519|ecdsa)\b"
        r"|authentication methods",
        "any=ssh-auth-failed! said=ssh-auth-failed!",
    ),
    _object(r"\bhost key\b", "any=ssh-hostkey!"),
    _object(
        r"clock ?skew|rewound credential|seconds? (?:ahead|behind)|\d s (?:ahead|behind)"
        r"|selectable sources|time (?:is )?out of sync|clock .{0,20}(?:ahead|behind|differs?)",
        "any=clock-skew! said=clock-skew!",
    ),
    _object(
        r"x509|certificate|\bTLS\b|\bSSL\b|\btokens?\b|\bAPI key|licen[cs](?:e|ing)|credentials?\b"
        r"|authenticat\w+|unauthori[sz]ed|username/password|invalid_grant|ExpiredToken",
        "denied,failed,invalid,missing,refused,silent=certificate-rejected!",
    ),
    # Files that are loaded or run.
    _object(
        r"select/\w+|plugin for \w+/\w+|slurm/\w+\.so|gres\.conf|slurm\.conf|\bNodeName\b"
        r"|cgroup\.conf",
        "any=scheduler-node-configuration!",
    ),
    _object(
        r"libcuda\.so[\w.]*|libnvidia-ml\S*|libcuda\b",
        "missing=gpu-driver-not-visible! version=driver-library-mismatch",
    ),
    _object(r"libibverbs\.so[\w.]*", "missing=libibverbs-missing!"),
    _object(
        r"libnccl-net\S*|libnccl-tuner\S*|libnccl\S*plugin\S*|net plugin|collnet plugin"
        r"|NET/Plugin|libnccl-rdma-sharp\S*",
        "any=plugin-load-failure!",
    ),
    _object(
        r"bootstrap plugin|\blib[\w+.-]+\.so\b[\w.]*|\b[\w-]+\.so[.\d]*(?=:)|shared (?:object"
        r"|library)"
        r"|GLIBC(?:XX)?_[\d.]+|CXXABI_[\d.]+|undefined symbol|symbol lookup|\w+\.so\b",
        "missing,version=runtime-lib-missing! invalid,denied=runtime-lib-missing",
    ),
    _object(
        r"\b(?:orted|prted|orte|orterun|hydra_\w+|pmi_proxy)\b|execvp? error on file \S*/hydra_\w+",
        "missing,denied=orted-not-found!",
    ),
    _object(r"\bnvcc\b", "missing=build-nvcc-missing!"),
    _object(
        r"execv\w*|executable(?: file)?|\$PATH|\bcommand(?= not found)|step EXEC"
        r"|failed to (?:execute|spawn)"
        r"|unable to exec\w*|: stat /\S+\.sh|\benv: |/bin/(?!\S*\bld(?:\.\w+)?: )\S+|\./[\w./-]+|\bexec\b",
        "missing=executable-missing! denied,invalid=executable-missing",
    ),
    _object(
        r"no module named|cannot import name|ModuleNotFoundError|\bImportError\b"
        r"|module '[\w.]+' has no attribute|DistributionNotFound|PackageNotFound\w*",
        "any=python-package-missing! said=python-package-missing!",
    ),
    _object(
        r"topo\w*(?: file)?\b.{0,20}\.xml|topology file|TOPO_FILE|\btopo\w* .{0,30}xml",
        "any=topo-file-missing-or-bad!",
    ),
    _object(r"host ?file|machine ?file|rank ?file", "missing,denied=executable-missing"),
    _object(r"session director\w+|session dir\b", "any=mpi-session-directory!"),
    # Device files.
    _object(r"/dev/nvidia-caps-imex\S*|imex.channel\S*", "missing,denied=imex-mnnvl-failure!"),
    _object(
        r"/dev/nvidia\S*|/dev/kfd|/dev/dri\S*|nvidia-uvm|nvidiactl|ROCk module",
        "missing,denied=gpu-driver-not-visible! busy=gpu-busy",
    ),
    _object(
        r"/dev/infiniband\S*|uverbs\d+|/dev/rdma_cm|\bissm\d|\bumad\d|/dev/hfi\d\S*",
        "missing,denied=container-no-ib-devices!",
    ),
    _object(r"/dev/gdrdrv|\bgdrdrv\b", "missing,denied=gdrcopy-unavailable!"),
    _object(r"/dev/fuse", "missing,denied=container-start-failed!"),
    _object(r"\bshmget|\bsemget|kernel\.(?:shm|sem)\w*|semaphore sets?", "full=sysv-shm-limit!"),
    _object(
        r"/dev/shm\S*|shm_open|\bshmat\b|(?<!the )shared memory|\bshm\b|shm_?seg\w*",
        "full=shm-too-small! denied=shm-permission-denied! memory=shm-too-small"
        " missing=shm-removed-by-systemd,ipc-namespace-split invalid=ipc-namespace-split"
        " failed=shm-too-small",
    ),
    # Kernel modules, firmware and drivers.
    _object(
        r"nvidia[_-]peermem|nv_peer_mem|ib_peer_mem",
        "any=peermem-missing!",
    ),
    _object(
        r"modprobe|insmod|\bDKMS\b|vermagic|version magic|required key not available|module build"
        r"|key was rejected|unsigned module|could not insert (?:module )?'?\w+|symbol (?:version"
        r"|ib_\w+)"
        r"|about version of symbol|unknown symbol|kernel modules?\b|/lib/modules/\S+",
        "missing,denied,version,invalid,failed=kernel-module-not-loaded!"
        " said=kernel-module-not-loaded!",
    ),
    _object(
        rf"\b{_NIC}\b.{{0,60}}(?:TX timeout|transmit queue)|NETDEV WATCHDOG",
        "said=nic-stuck! any=nic-stuck!",
    ),
    _object(
        rf"\b{_NIC}\b.{{0,80}}\b(?:Link is Down|link down|lost carrier)|NIC Link is Down"
        r"|link status definitely down",
        "said=ethernet-link-down",
    ),
    _object(
        r"\b(?:vfio(?:-pci)?|nouveau)\b",
        "busy,version,failed=gpu-claimed-by-other-driver!",
    ),
    _object(
        r"\bamdgpu\b.{0,60}(?:firmware|GPU init|probe)|\b(?:NVRM|nvidia)\b.{0,40}(?:probe|BAR\d?\b"
        r"|RmInitAdapter)",
        "any=gpu-missing",
    ),
    _object(
        rf"\b{_NIC}\b(?=.{{0,120}}(?:{_NIC_PARTS}))|lib/firmware/\S+"
        r"|firmware (?:file|image|load)\w*(?! for (?:amdgpu|nvidia|i915|radeon))"
        r"|Safe Mode|fw file",
        "missing,failed,silent,invalid,memory,busy=nic-driver-start-failed!",
    ),
    # GPUs.
    _object(r"device ordinal", "any=invalid-device-ordinal!"),
    _object(
        r"(?:requires?|needs?) (?:a )?reset|reset is required",
        "said=gpu-xid-reset-required!",
    ),
    _object(
        r"no (?:CUDA|HIP|NVIDIA|ROCm)\S* (?:GPUs?|devices?)|\bdevices? (?:are|is) visible"
        r"|GPU with UUID|MIG device|\bGPU-[0-9a-f]{4,}|MIG-[0-9a-f]+|device handle for GPU",
        "missing,failed,invalid=gpu-missing",
    ),
    _object(r"\bTPU\b|CUDA-capable device|\bGPUs?\b|cudaErrorDevicesUnavailable", "busy=gpu-busy!"),
    _object(
        r"cu(?:da)?Ipc\w+|hipIpc\w+|IpcMem\w*|peer (?:access|mapping)|\bp2p\b",
        "any=p2p-mapping-failed!",
    ),
    _object(r"multicast(?! join)|\bNVLS\b|cuMulticast\w+", "any=nvls-bind-failure!"),
    # Memory.
    _object(
        r"\bpinned\b|cuda(?:Malloc)?Host\w*|cuMemHostAlloc|hipHostMalloc|hostRegister",
        "memory=host-memory-exhausted",
    ),
    _object(
        r"huge ?pages?|MAP_HUGETLB",
        "memory,missing,failed=host-memory-exhausted,memlock-limit",
    ),
    _object(
        r"reg_mr\w*|regist\w+ (?:\w+ )?memory|memory regist\w+|ucp_mem_map|create_(?:cq|qp|srq)\w*"
        r"|mlock\b|memlock|locked[_ ]?(?:memory|vm)|pin (?:\w+ )?(?:pages|memory)|pages of the MR"
        r"|alloc_pd|\bUAR\b|doorbell|max locked",
        "memory=memlock-limit! limit=memlock-limit memory-address=peermem-missing"
        " invalid=peermem-missing",
    ),
    _object(
        r"std::bad_alloc|runtime: out of memory|\bcgroup\b.{0,20}memory|memory cgroup|OOM ?Kill\w*"
        r"|oom_kill|memory allocation of|\b(?:m|c|re)alloc\b(?!,)|MemoryError|host memory"
        r"|host pool",
        "memory,failed=host-memory-exhausted! said=host-memory-exhausted!",
    ),
    _object(
        r"\bCUDA\w*|\bGPUs?\b|\bHIP\b|\bXLA\w*|Xla\w+|cu(?:Mem|da|Ctx)\w+|hip[A-Z]\w+|device memory"
        r"|symmetric heap",
        "memory=cuda-oom!",
    ),
    _object(
        r"\bHBM\d?\w?\b|\bVRAM\b|\b(?:model|weights?) load\w*|\bload\w* (?:of )?(?:the )?(?:model|weights)",
        "memory=cuda-oom",
    ),
    # Limits of the system.
    _object(
        r"inodes?|\bdisk\b|storage|/tmp\b|\bwrite\b|writing|\bfile ?system\b|space left",
        "full=disk-full!",
    ),
    _object(
        r"too many open files|EMFILE|ENFILE|descriptors? are open|(?<!bad )file descriptors?",
        "any=nofile-limit! said=nofile-limit!",
    ),
    _object(
        r"pthread_create|\bfork\b|\bvfork|\bclone\b|(?:OS|new) thread|spawn thread|RLIMIT_NPROC"
        r"|max user processes|pids limit|create process",
        "limit,memory=thread-limit!",
    ),
    _object(
        r"sched_setaffinity|cpu[-_ ]bind\w*|bind (?:task|rank|process)\w*|\bcpuset\b|affinity"
        r"|bind to CPUs?|\bCPUs? \d+ is not",
        "missing,invalid,failed,limit=mpi-bind-overload,scheduler-cgroup-limits",
    ),
    _object(r"set_mempolicy|\bmbind\b|move_pages", "denied=cumem-host-numa"),
    _object(
        r"\bcgroups?\b|/sys/fs/cgroup\S*",
        "missing,denied,failed=scheduler-node-configuration,scheduler-cgroup-limits",
    ),
    # RDMA.
    _object(r"\bP_?Keys?\b|partition key", "any=ib-pkey-mismatch! said=ib-pkey-mismatch"),
    _object(
        r"subnet manager|\bsminfo\b|\bno SM\b|\bLID of .{1,30} is 0\b|\bSM not found",
        "any=ib-port-initializing! said=ib-port-initializing!",
    ),
    _object(r"\bpath records?\b|\bSA (?:path|query)|\bsaquery\b", "any=ib-peer-no-answer"),
    _object(r"RETRY_EXC_ERR|transport retry counter", "said=retry-exceeded-at-start"),
    _object(r"RNR[_ ]RETRY\w*|RNR retry", "said=rnr-retry-exceeded!"),
    _object(r"LOC_PROT_ERR|local protection error", "said=local-protection-error!"),
    _object(
        r"REM_(?:ACCESS|INV_REQ|OP)_ERR|remote access error|remote invalid request",
        "said=remote-access-error!",
    ),
    _object(
        r"uverbs ABI|kernel ABI|user provider|libmlx5.{0,30}(?:kernel|ABI)|rdma-core",
        "version,invalid=rdma-userspace-kernel-mismatch!",
    ),
    _object(
        r"\bhfi_\w+|\bPSM\b",
        "limit,memory=memlock-limit busy=omni-path-contexts-exhausted!"
        " denied=container-no-ib-devices",
    ),
    _object(
        r"create_ah\b",
        "missing=rdma-netns-mismatch,gid-index-forced",
    ),
    _object(
        r"modify[_ ]?qp\w*|\bto (?:RTR|RTS|INIT)\b",
        "route=qp-network-unreachable! silent=cross-rail-unreachable"
        " missing=gid-index-forced memory=memlock-limit",
    ),
    _object(
        r"\bs?gid\b(?!_index=| add\b).{0,20}ind\w+|query_gid|\bGID (?:index|table)",
        "any=gid-index-forced!",
    ),
    _object(
        r"\bGIDs?\b.{0,60}no (?:associated )?net(?:work )?_?(?:dev|interface)",
        "any=rdma-netns-mismatch! said=rdma-netns-mismatch!",
    ),
    _object(
        r"\bno (?:\w+ ){0,2}GIDs?\b|(?:suitable|valid|usable|RoCE ?v2|IPv4) GIDs?\b",
        "any=gid-rocev1-or-no-ipv4 said=gid-rocev1-or-no-ipv4",
    ),
    _object(r"\bno active ports?\b", "any=ib-port-down said=ib-port-down"),
    _object(
        r"port state|\bport \d+ (?:is|state)|active port",
        "failed,missing,invalid=ib-port-down",
    ),
    _object(
        r"ibv_get_device_list|IB devices?|RDMA devices?\b|\bHCAs?\b|Infiniband/RoCE"
        r"|IB devices list",
        "missing,invalid,failed=ib-not-detected!",
    ),
    # Interfaces, as ip, ethtool and ifconfig speak of them.
    _object(
        r"cannot find device \"|^device \"\S+\" does not exist|netlink error"
        r"|cannot get (?:device|\w+) ?\w* settings",
        "missing=socket-ifname-mismatch,nic-driver-start-failed",
    ),
    # libfabric, UCX, SHARP, HCOLL and the settings of libraries.
    _object(r"\bRxDM\b|/run/tcpx\S*", "any=gcp-rxdm-unreachable!"),
    _object(r"provider efa|efa provider", "missing,failed=efa-provider-missing!"),
    _object(
        r"fi_getinfo|OFI get ?info|libfabric provider|no provider",
        "missing,failed=ofi-no-provider!",
    ),
    _object(r"\bSRD\b|efa: peer", "route,silent=efa-security-group"),
    _object(
        r"assign_ctxt|hfi1?\w*.{0,20}contexts?|contexts are in use",
        "busy,limit=omni-path-contexts-exhausted!",
    ),
    _object(r"fi_(?!getinfo)\w+|\bcxi\d?\b|\bpsm[23]\b", "any=ofi-device-error"),
    _object(r"network device '[\w:.-]+'", "missing=ucx-device-error!"),
    _object(
        r"\b(?:UCX|I_MPI|OMPI|MV2|MVP|FI|PSM[23]|HCOLL|SHARP|MPIR_CVAR|GLOO|UCC|NVSHMEM|NCCL)"
        r"_[A-Z_]{3,}\b",
        "invalid=mpi-setting-rejected!",
    ),
    _object(r"tree resources|sharp.{0,30}(?:quota|trees)", "limit,full,failed=sharp-resources!"),
    _object(r"SHARP AM\b|sharp_\w+|sharp daemon", "any=sharp-init-failure!"),
    _object(r"hcoll", "any=hcoll-failed!"),
    _object(
        r"component \w+ of framework|requested component|\bMCA component",
        "missing=mpi-component-missing!",
    ),
    # Interfaces, ports and connections.
    _object(
        r"\binterfaces?\b|IFNAME|\bifname\b|\bifa\b|network device \S+",
        "missing=socket-ifname-mismatch! route=mpi-wrong-interface failed=socket-ifname-mismatch",
    ),
    _object(
        r"port \d+ in TIME_WAIT|TIME_WAIT|ephemeral ports?|local ports?", "any=ports-exhausted!"
    ),
    _object(
        r"\bbind\w*|\blisten\w*|server socket|\bport:? ?\d+|\bport \d+|EADDRINUSE|AddrInUse",
        "busy=rendezvous-port-in-use! address=socket-ifname-mismatch",
    ),
    _object(
        r"address already in use|EADDRINUSE|AddrInUse",
        "said=rendezvous-port-in-use!",
    ),
    _object(
        r"slurm controller|slurmctld|\bqstat\b|pbs_connect|\bpbs\w* server|\bLIM\b|\bLSF\b|mbatchd"
        r"|broker socket|flux_open|scheduler daemon|\bsge_qmaster\b",
        "refused,missing,silent,failed=scheduler-unreachable!",
    ),
    _object(r"ssh: connect to host", "silent,route,refused=node-unreachable!"),
    _object(r"kex_exchange\w*|ssh_exchange\w*", "gone=ssh-connection-limit!"),
    # Ranks, members and stores.
    _object(r"\brank \d+ (?:is )?(?:already|twice)|duplicate rank", "any=duplicate-rank!"),
    _object(
        r"\brendezvous\b|clients? joined|waiting for clients|\bbarrier\b|store key|\bkeys?\(s\)"
        r"|wait timeout on",
        "silent,failed,gone,refused=rendezvous-failed",
    ),
    _object(r"\b(?:TCP)?Store\b|recvValue|recv, got", "gone,failed=store-peer-gone"),
    _object(
        r"environment variable (?:RANK|WORLD_SIZE|MASTER_\w+|LOCAL_RANK)",
        "missing=env-not-forwarded!",
    ),
    _object(r"world[ _]size", "invalid,failed=framework-api-misuse"),
    # Schedulers.
    _object(r"\bpro?log\b|\bepilog\b", "failed,silent=slurm-prolog-failed!"),
    _object(
        r"walltime|(?<!Requested )time ?limit|run time limit|TERM_RUNLIMIT"
        r"|resource allocation expired",
        "limit,failed,silent=job-ended-by-scheduler! said=job-ended-by-scheduler",
    ),
    _object(r"MPI type|pmix_v\d|\bPMI2? support", "invalid,missing,failed=slurm-pmix-mismatch!"),
    _object(
        r"account/partition|(?:unknown|invalid|no such) (?:account|qos|partition|queue|reservation)"
        r"|\bqos (?:spec|limit)\w*|partition specified|queue(?:'s| and/or)|generic resource|\(gres\)"
        r"|resource limits|per-user limit|job (?:submit|submission|allocation)|batch job"
        r"|no launchable resource|requested time limit|unsatisfiable request",
        "invalid,limit,denied,failed,missing=scheduler-request-refused!",
    ),
    _object(
        r"host \S+ (?:was given|is not)|part of the allocation|not in the allocation",
        "invalid,failed,missing=mpi-host-not-allocated",
    ),
    # Kubernetes and containers.
    _object(
        r"ephemeral-storage|DiskPressure",
        "any=disk-full! said=disk-full",
    ),
    _object(
        r"nodes are available|PersistentVolumeClaims?|untolerated taint|node affinity|pod group"
        r"|exceeded quota|number of devices|requests\.nvidia\.com|unschedulable|FailedScheduling",
        "any=pod-not-scheduled! said=pod-not-scheduled!",
    ),
    _object(r"stopped posting node status|NodeStatusUnknown|NotReady", "said=node-unreachable"),
    _object(
        r"pull(?:ing)? image|ErrImage\w*|ImagePull\w*|\bimages?\b|squashfs|sandbox image|\.sqsh"
        r"|\.sif\b",
        "any=container-start-failed! said=container-start-failed!",
    ),
    _object(
        r"user namespaces?|namespace|seccomp|apparmor|SELinux|capabilities|container process"
        r"|device driver \"|OCI runtime|container runtime|pod sandbox|shim task|rootfs"
        r"|/proc/sys/\S+",
        "denied,missing,failed,invalid,broken=container-start-failed!",
    ),
    # Storage.
    _object(
        r"mount\.\w+|\bmount(?:point)?\b|MountVolume|\bost_\w+|-OST\w+|\bnfs\w*|storage target"
        r"|LustreError|\bs3fs\b|gcsfuse|ceph|beegfs\S*|gpfs|mmfs|weka\w*",
        "any=io-straggler",
    ),
    _object(r"open\('?/\S+|os\.read|os\.write|\bread\b|\bwrite\b|\bfile\b", "broken=io-straggler"),
    # Versions.
    _object(
        r"\bdriver on your system|PTX|unsupported toolchain|cuda ?[<>]="
        r"|update your (?:\w+ )?driver",
        "any=cuda-driver-too-old! said=cuda-driver-too-old!",
    ),
    _object(r"fabric ?manager\b.{0,40}version", "version,invalid=fabricmanager-version-mismatch!"),
    _object(
        r"driver/library version|API mismatch|kernel module has the version",
        "said=driver-library-mismatch!",
    ),
    _object(
        r"\bPMIx\b.{0,60}(?:version|client)|version of the peer", "version=mpi-version-differs"
    ),
)
"""The more telling first: of two equally near to the failure the first counts."""

GENERAL = (
    _object(
        r"connect\w*|dial tcp|\bRPC\b|remote host|main process|\bpeer\b|coordinator",
        "refused=rendezvous-failed route=firewall-blocks-ports silent=rendezvous-failed"
        ",firewall-blocks-ports gone=dead-process address=ports-exhausted",
    ),
    _object(r".+", "full=disk-full! memory=host-memory-exhausted"),
)
"""What every program speaks of: after the others."""

_ALL = (*OBJECTS, *GENERAL)
_STEP = 16
"""Characters: objects whose distances differ by less are equally near."""
_FARTHEST = 160
_NEAR = 2 * _STEP
"""Characters from which on an object is too far from the words of the failure to be sure of."""
_SAYS_LITTLE = ("failed", "invalid", "version", "silent")
"""Kinds that say that it failed and not why. Asked of the catalogue's examples, from which the table
was not made, pairs of these kinds or of far objects name the entry in 17 of 48, the other likely
ones in 127 of 155."""
_WEAKEST = "failed"
_HARMLESS = re.compile(
    r"\b(?:trying (?:the )?next|try(?:ing)? again|retrying|fall(?:ing)?[ -]?back|ignor(?:ed|ing)"
    r"|skip(?:ped|ping)?|optional|not needed|not requested|is used instead|is disabled"
    r"|using default"
    r"|defaults?\b.{0,10}$|instead|slower path|not in use|blacklisted|continuing|attempt \d+ of)"
    r"|\b(?:0|no|none|nothing|without) (?:\w+ ){0,3}(?:failed|errors?|failures?|is missing"
    r"|exceeded)\b"
    r"|[^\w]DEBUG\b|\bdebug:|\bINFO\b|^info\b|<(?:info|debug)>|\[(?:info|debug|trace|notice)\]"
    r"|NCCL (?:INFO|TRACE)|^\s*[+$#>] |: (?:ok|yes|active|none|passed|0)\b|\bWARNING: .*not needed"
    r"|strace|no version information|System call \(socket|\bsucceeded\b"
    r"|Unable to initialize backend|environment variable is not supported|requested in hierarchy",
    re.IGNORECASE,
)
"""Words of a line that tells of a try, a choice or a success."""
_PASSED_ON = re.compile(
    r"^\s*(?:Traceback \(|File \"|at \S+\(|raise \w|\^+$)|\.py\", line \d+", re.IGNORECASE
)
"""Frames: what they name is where, not what."""
_LONGEST = 2000
"""Characters of a line that are read: each object is held against each word of failure."""
_NO_FAILURE = re.compile(
    r"\((?:e\.g\.|such as|for example|i\.e\.)[^()]*\)|\[\s*(?:ERROR|FATAL|CRITICAL)\s*\]"
    r"|\b\w*(?:err|errors?|timeouts?|retry|retries|drops?|discards?|failed|failures?)\w*[ :=]+0\b",
    re.IGNORECASE,
)
"""What could have failed, in a message that does not know what did («System call (e.g. socket,
malloc) or external library call failed»), the level of a line, and counters at 0."""
_TELLS = re.compile(
    r"required key|key was rejected|unsigned|could not insert|unknown symbol|about version of symbol"
    r"|skew|rewound|no module named|cannot import|\w+Error\b|NotFound|has no attribute|TX timeout"
    r"|transmit queue|WATCHDOG|down\b|lost carrier|needs?|requires?|reset is required|bad_alloc"
    r"|out of memory|OOM|too many|[EM]N?FILE\b|no SM\b|SM not found|is 0\b|_ERR\b|retry|error"
    r"|invalid request|in use|InUse|TERM_|expired|Pressure|untolerated|exceeded|unschedulable"
    r"|FailedScheduling|stopped posting|Unknown|NotReady|ErrImage|ImagePull|unsupported|update your"
    r"|mismatch|driver on your|kernel module has the version|oom_kill",
    re.IGNORECASE,
)
"""Words that name an object and its failure in one."""


@functools.lru_cache(maxsize=4096)
def read(line: str) -> Reading | None:
    """What could not be had, and why; None = the line names no object that it could not have."""
    if _HARMLESS.search(line) or _PASSED_ON.search(line):
        return None
    line = _NO_FAILURE.sub(" ", line[:_LONGEST])
    spans = {kind: [m.span() for m in words.finditer(line)] for kind, words in kinds().items()}
    present = [kind for kind, found in spans.items() if found]
    every = [span for found in spans.values() for span in found]
    best: tuple[int, int] | None = None
    chosen: tuple[tuple[str, ...], bool] | None = None
    is_sure = False
    for number in _near(line):
        thing = _ALL[number]
        kind = _kind(thing, present)
        cause = None if kind is None else thing.causes[kind]
        for match in catalogue.compiled(thing.words).finditer(line):
            is_said = "said" in thing.causes
            if cause is None and not is_said:
                break
            gap = min((_gap(match.span(), span) for span in every), default=_FARTHEST + 1)
            if cause is None or gap > _FARTHEST:
                if not is_said or _TELLS.search(match[0]) is None:
                    continue
                gap = 0
            key = (gap // _STEP, number)
            if best is None or key < best:
                best, chosen = key, cause or thing.causes["said"]
                is_sure = kind not in _SAYS_LITTLE and gap < _NEAR
    if best is None or chosen is None:
        return None
    entries, is_usual = chosen
    return Reading(entries, is_usual and is_sure, is_general=best[1] >= len(OBJECTS))


def _near(line: str) -> list[int]:
    """The numbers of the objects of which a line has a literal, in order."""
    low = line.lower()
    return sorted({number for literal, number in _literals() if literal in low})


@functools.cache
def _literals() -> tuple[tuple[str, int], ...]:
    """(Text that a line with an object must have, in small letters; number of the object); ""
    = none is known."""
    return cached("objects", _packaged_literals)


def _packaged_literals() -> tuple[tuple[str, int], ...]:
    literals: set[tuple[str, int]] = set()
    for branch in branches_of(thing.words for thing in _ALL):
        literals.update((literal.decode(), branch.index) for literal in branch.literals or (b"",))
    return tuple(sorted(literals))


def _kind(thing: Object, kinds: list[str]) -> str | None:
    """The most telling kind of the line that the object has a cause for; None = it has none."""
    for kind in kinds:
        if kind in thing.causes:
            return kind
    return "any" if kinds and "any" in thing.causes else None


def _gap(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Characters between two places of a line; 0 = they touch or overlap."""
    return max(0, one[0] - other[1], other[0] - one[1])


def entries() -> Iterator[str]:
    """Every entry that the table names."""
    for thing in _ALL:
        for names, _ in thing.causes.values():
            yield from names
