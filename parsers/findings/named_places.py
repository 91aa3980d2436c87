"""What a line names that can be at fault: hosts, ranks, GPUs, network devices, pods, file servers."""

from __future__ import annotations

import functools
import re

from busbw.parsers.findings.evidence import MOST_LINES_KNOWN

_HOST = re.compile(r"(?:^|[\s>\])])(?P<host>\w[\w.-]*):\d+:\d+ \[-?\d+\]")
_SENDER = re.compile(
    r"^\[(?!rank|default|error|warn)(?P<host>[A-Za-z](?=[\w-]*\d)[\w.-]*):(?:\d+(?::\d+){0,2}|mpi\w+_\d+)\]"
)
"""The host that UCX, Open MPI and MVAPICH write before a line."""
_RANK = re.compile(
    r"\[(?:rank|Rank |default)(\d+)\]|\bPG [^\]]*Rank (\d+)\]|\bprocess rank (\d+)\b|\bsrun: error: [\w.-]+: task (\d+):"
)
_BLAMED = re.compile(r"\bRanks? (\d+)[\d, ]* failed to pass")
"""A rank that the line is about, whoever wrote it."""
_WAITING = "Watchdog caught collective operation timeout"
"""The rank that prints it waits for another one."""
_TASK = re.compile(r"/replica:\d+/task:(?P<task>\d+)\b")
"""A process of JAX or TensorFlow."""
_DEVICE = re.compile(
    r"\b(?:hca |dev(?:ice)? |NET/IB ?:"
    r" )(?P<dev>(?:mlx|roce|ibp?|rdma|erdma|bnxt|irdma|hns|rocep)\w*)|\bon (?P<ucx>mlx\d_\w+):\d+/",
    re.IGNORECASE,
)
_RDMA_DEVICE = re.compile(
    r"(?<![\w@/.-])((?:mlx[45](?:_bond)?|ionic|efa|hns|erdma|mana)_\d+|(?:bnxt_re|irdma|rdma|qedr|cxi)\d+"
    r"|(?:rdma|roce|ib)p\d+s\d+\w*)(?![\w.-])"
)
_OF_GPU = re.compile(r"\bGPU[ #]?(\d{1,2})\b(?![\d.,]*\d|-\w| (?:nodes?|GPUs?|[KMGT]i?B)\b)")
_GPU_ID = re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ONE_OF_LINE = (_RDMA_DEVICE, _OF_GPU, _GPU_ID)
"""What counts where the line names one of them only: of a list each could be meant."""
_DISK = re.compile(
    r"\bnvme (?P<controller>nvme\d+): |\bdev (?P<disk>nvme\d+|sd[a-z]+)(?:n?\d|\b)|\(device (?P<fs>nvme\d+|sd[a-z]+)"
)
_PEER = re.compile(
    r"(?:peer|connect to|Connect to) (?P<peer>[0-9a-f.:]+|[\w.-]+)<\d+>", re.IGNORECASE
)
_SWITCH_CHIP = re.compile(r"\bSXid \(PCI:(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)\)")
_GPU = re.compile(
    r"(?<!SXid )\((?:PCI:)?(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)\)"
    r"|\b(?:amdgpu|nvidia|GPU) ?(?P<driver>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\b",
    re.IGNORECASE,
)
_NIC = re.compile(
    r"\b(?:mlx[45]_core|bnxt_en|ice|irdma|ionic|ena|efa|hns3|mana) (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\b"
)
"""The adapter of which its driver speaks."""
_PCI = re.compile(r"\b(?:pcieport|pci|nvme) (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\b")
_ROW = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+\S.*\|\s+[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d "
    r"|^\|\s+\| GPU ?(?P<failed>\d+): Fail\b|^\| (?:Warning|Error): GPU ?(?P<warned>\d+) "
)
"""A row of nvidia-smi's table, or of dcgmi diag's."""
_FILE_SERVER = re.compile(
    r"\bnfs: server (?P<server>\S+) (?:not responding|OK)|\b(?P<lustre>\w+-(?:OST|MDT)[0-9a-f]{4})\b"
)
_NODE = re.compile(
    r"\bon node \(?(?P<node>[\w.-]+)|\berror: (?P<srun>[\w.\[\],-]+): tasks? "
    r"|^ *Peer host: +(?P<peer_host>[\w.-]+)$"
    r"|\bssh: connect to host (?P<ssh>[\w.-]+) port|[Cc]ould not resolve host(?:name)?:? (?P<unresolved>[\w.-]+)"
    r"|\b(?:get host address for|Unable to resolve) \"?(?P<address>[\w.-]+)|\[\[(?P<peer>[\w.-]+)\]:\d+\] failed"
    r"|^(?P<shell>(?=[\w.-]*\d)[\w.-]+): (?:ba|da|z|k)?sh: |\bunable to run \w+ on (?P<proxy>[\w.-]+)"
    r"|\bhost[= ](?P<asked>(?=[\w.-]*\d)[\w.-]+) (?:was|is) (?:not|un)"
    r"|\(?(?:ID: \w+, )?IP: (?P<ray>\d+(?:\.\d+){3})|\bnode name: (?P<dead>[\w.-]+) has been marked dead"
    r"|\bport \d+ \((?P<opensm>[A-Za-z][\w.-]*)(?: [\w-]+)?\)"
)
"""The node that a line blames: of Open MPI, Slurm, ssh, MPICH's Hydra, DeepSpeed, Ray, OpenSM, and of a shell whose launcher writes its host."""
_OF_SLURM = re.compile(
    r"(?-i:\b(?:NodeName|node)=|\bNodes |\b(?:of|failed) node |: node |\bNode )"
    r"(?P<node>(?=[\w-]*[A-Za-z])(?=[\w.,\[\]-]*\d)[\w.-]+(?:\[[\d,-]+\])?)"
    r"|/(?P<scope>[\w.-]+)_slurmd\.scope"
)
"""The nodes of which a daemon or a command of Slurm speaks."""
_POD = re.compile(
    r"\bpod/(?P<object>[a-z0-9][\w.-]*)|\bin pod (?P<kubelet>[a-z0-9][a-z0-9.-]*)[_\s]|\"pod\": ?\"(?P<json>[\w.-]+)\""
)
_SWITCH = re.compile(
    r"^[A-Z][a-z]{2} [ \d]\d [\d:.]+ (?P<switch>[\w.-]+) (?:EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO) \w+#"
)
"""The switch, as SONiC's daemons log."""
_PORT = re.compile(r"(?:\b[Pp]ort |\binterface |#\w+: )(?P<port>Ethernet\d+)\b")
_NOTICED = re.compile(r"\bexited on signal 13\b")
"""SIGPIPE: it wrote to a process that had ended. The one that failed first is another."""
_INFORMATION = " NCCL INFO "
"""A line of it names what there is."""
NAMED = (
    (_HOST, "{}", (" [",)),
    (_SENDER, "{}", ("[",)),
    (_RANK, "rank {}", ("rank", "[default", "task ")),
    (_TASK, "task {}", ("/task:",)),
    (
        _NODE,
        "{}",
        (
            "on node ",
            "error: ",
            "peer host: ",
            "connect to host ",
            "resolve ",
            "address for ",
            "] failed",
            "sh: ",
            "unable to run ",
            "host",
            "ip: ",
            "node name: ",
            " port ",
        ),
    ),
    (_OF_SLURM, "{}", ("node ", "nodes ", "node=", "nodename=", "slurmd.scope")),
    (_POD, "pod {}", ("pod",)),
    (_SWITCH, "{}", ("#",)),
    (_PORT, "port {}", ("ethernet",)),
    (_DEVICE, "{}", ("hca ", "dev", "net/ib", " on mlx")),
    (
        _RDMA_DEVICE,
        "{}",
        ("mlx", "ionic_", "efa_", "hns_", "mana_", "rdma", "bnxt_re", "cxi", "qedr", "roce", "ibp"),
    ),
    (
        _NIC,
        "NIC {}",
        ("_core ", "bnxt_en ", "ice ", "irdma ", "ionic ", "ena ", "efa ", "hns3 ", "mana "),
    ),
    (_SWITCH_CHIP, "NVSwitch {}", ("sxid ",)),
    (_GPU, "GPU {}", ("(", "amdgpu ", "nvidia ", "gpu ", "gpu0")),
    (_GPU_ID, "{}", ("gpu-",)),
    (_OF_GPU, "GPU {}", ("gpu",)),
    (_PCI, "PCI {}", ("pcieport ", "pci ", "nvme ")),
    (_DISK, "disk {}", ("nvme ", "dev ", "device ")),
    (_ROW, "GPU {}", ("| ",)),
    (_FILE_SERVER, "file server {}", ("nfs: server ", "-ost", "-mdt")),
    (_PEER, "peer {}", ("peer ", "connect to ")),
)
"""What a line names, in which form it is shown, and words (lower case) of which every match has one: few
lines have any, and the search takes ten times as long as to look for them."""
DEVICE = re.compile(r"(?:GPU|NIC|PCI|disk) |GPU-[0-9a-f]{8}-")
"""A place that is a device, and the only one of its node by that name."""
NO_HOST = re.compile(
    r"(?:rank|task|pod|port|GPU|NIC|PCI|disk|NVSwitch|peer|file server|log stream) |GPU-[0-9a-f]{8}-"
    r"|(?:mlx|roce|ibp?|rdma|erdma|bnxt|irdma|hns|ionic|efa|mana|qedr|cxi)\w*\d"
    r"|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d"
)
"""A place that is no node."""


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def places(text: str) -> tuple[str, ...]:
    """Hosts, ranks, devices and peers that a line names.

    >>> places("gpu7:4711:4720 [3] NCCL WARN NET/IB: Got completion from peer 10.0.0.8<47001> with status=12 hca mlx5_3")
    ('gpu7', 'mlx5_3', 'peer 10.0.0.8')

    >>> places("ssh: connect to host gpu-8 port 22: Connection refused"), places("node7: bash: line 1: orted: command not found")
    (('gpu-8',), ('node7',))

    >>> places("mlx5_core 0000:48:00.0 ibs3: Link down"), places("nfs: server fs01 not responding, still trying")
    (('NIC 0000:48:00.0',), ('file server fs01',))

    Who only noticed that another had ended, or waits for it, is no place to look at.

    >>> places("mpirun noticed that process rank 2 with PID 0 on node node3 exited on signal 13 (Broken pipe).")
    ()
    """
    if "signal 13" in text and _NOTICED.search(text):
        return ()
    low = text.casefold()
    found = []
    for pattern, form, words in NAMED:
        for word in words:  # not any(): for each line, and a generator costs thrice as much
            if word in low:
                break
        else:
            continue
        if pattern is _RANK:
            if _WAITING in text:
                continue
            if "failed to pass" in text:
                pattern = _BLAMED
        if pattern in _ONE_OF_LINE:
            if _INFORMATION in text or len(named := set(pattern.findall(text))) != 1:
                continue
            found.append(form.format(named.pop()))
            continue
        match = pattern.search(text)
        if match:
            found.append(form.format(next(group for group in match.groups() if group)))
    return tuple(dict.fromkeys(found))
