"""What a line names that can be at fault: hosts, ranks, GPUs, network devices, pods, file servers."""

from __future__ import annotations

import functools
import re

from busbw.parsers.findings.evidence import MOST_LINES_KNOWN

_HOST = re.compile(r"(?:^|[\s>\])])(?P<host>\w[\w.-]*):\d+:\d+ \[-?\d+\]")
_SENDER = re.compile(
    r"^\[(?!rank|default|error|warn)(?P<host>[A-Za-z](?=[\w-]*\d)[\w.-]*):\d+(?::\d+){0,2}\]"
)
"""The host that UCX and Open MPI write before a line."""
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
_PEER = re.compile(
    r"(?:peer|connect to|Connect to) (?P<peer>[0-9a-f.:]+|[\w.-]+)<\d+>", re.IGNORECASE
)
_SWITCH_CHIP = re.compile(r"\bSXid \(PCI:(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)\)")
_GPU = re.compile(
    r"(?<!SXid )\((?:PCI:)?(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)\)"
    r"|\bamdgpu (?P<amd>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\b",
    re.IGNORECASE,
)
_NIC = re.compile(r"\b(?:mlx[45]_core|bnxt_en) (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\b")
"""The adapter of which its driver speaks."""
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
    r"|^(?P<shell>(?=[\w.-]*\d)[\w.-]+): (?:ba|da|z|k)?sh: "
)
"""The node that a line blames: of Open MPI, Slurm, ssh, MPICH's Hydra, and of a shell whose launcher writes its host."""
_OF_SLURM = re.compile(
    r"(?-i:\b(?:NodeName|node)=|\bNodes |\b(?:of|failed) node |: node |\bNode )"
    r"(?P<node>(?=[\w-]*[A-Za-z])(?=[\w.,\[\]-]*\d)[\w.-]+(?:\[[\d,-]+\])?)"
)
"""The nodes of which a daemon or a command of Slurm speaks."""
_POD = re.compile(
    r"\bpod/(?P<object>[a-z0-9][\w.-]*)|\bin pod (?P<kubelet>[a-z0-9][a-z0-9.-]*)[_\s]|\"pod\": ?\"(?P<json>[\w.-]+)\""
)
_SWITCH = re.compile(
    r"^[A-Z][a-z]{2} [ \d]\d [\d:.]+ (?P<switch>[\w.-]+) (?:EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO) \w+#"
)
"""The switch, as SONiC's daemons log."""
_PORT = re.compile(r"(?-i:\b[Pp]ort |\binterface )(?P<port>Ethernet\d+)\b")
_NOTICED = re.compile(r"\bexited on signal 13\b")
"""SIGPIPE: it wrote to a process that had ended. The one that failed first is another."""
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
        ),
    ),
    (_OF_SLURM, "{}", ("node",)),
    (_POD, "pod {}", ("pod",)),
    (_SWITCH, "{}", ("#",)),
    (_PORT, "port {}", ("ethernet",)),
    (_DEVICE, "{}", ("hca ", "dev", "net/ib", " on mlx")),
    (_NIC, "NIC {}", ("mlx5_core ", "mlx4_core ", "bnxt_en ")),
    (_SWITCH_CHIP, "NVSwitch {}", ("sxid ",)),
    (_GPU, "GPU {}", ("(", "amdgpu ")),
    (_ROW, "GPU {}", ("| ",)),
    (_FILE_SERVER, "file server {}", ("nfs: server ", "-ost", "-mdt")),
    (_PEER, "peer {}", ("<",)),
)
"""What a line names, in which form it is shown, and words (lower case) of which every match has one: few
lines have any, and the search takes ten times as long as to look for them."""
NO_HOST = re.compile(
    r"(?:rank|task|pod|port|GPU|NIC|NVSwitch|peer|file server|log stream) |(?:mlx|roce|ibp?|rdma|erdma|bnxt|irdma|hns)\w*\d"
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
    if _NOTICED.search(text):
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
        match = pattern.search(text)
        if match:
            found.append(form.format(next(group for group in match.groups() if group)))
    return tuple(dict.fromkeys(found))
