"""The messages that a writer's sources can print, and which of them the vocabulary lacks.

    python docs/tools/vocabulary.py WRITER REPOSITORY TAG… [--words FILE] [--missing]

REPOSITORY is a clone that the caller has (a work tree or a bare one); TAG… are its releases, oldest
first. Nothing of it is copied: `--words` writes a hash of each fixed word, which
`tests/unit/test_vocabulary.py` compares with the tables in `parsers/vocabulary`; `--missing` prints
the messages that no table has, by their words, to be classified by hand.

Read are calls of logging functions in C and C++ (`WARN("… %s")`, `LOG(ERROR) << "…"`), what Python
raises and logs, the topics of Open MPI's help files that report a failure, and lists of error texts.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw.parsers.vocabulary import messages
from busbw.parsers.vocabulary.messages import GAP, hashed, words


@dataclass(frozen=True, slots=True)
class Source:
    """Where a writer's messages stand in its sources."""

    calls: str
    """Names of the functions that report a failure, as one expression."""
    paths: str
    """The files that hold them, as an expression."""
    skip: str = r"(?:^|/)(?:tests?|examples?|contrib|unit_tests|gtest|fabtests)/"
    lists: str = r"$^"
    """Those of them in which every text is a message: lists of error codes."""
    least: int = 1
    """How many fixed words in a row a message has: more where the lines carry no prefix."""
    table: str = ""
    """The table that has them; empty = the one of this name."""
    joins: bool = False
    """True = all texts of a call or of a stream make one message; False = the first is a format."""
    only: str = ""
    """What a text must have to be a message, as an expression; "" = nothing."""
    python: str = "raise|warn|warning|error|exception|critical"
    """The statements and functions of Python code whose text is a message; also `assert`."""


_FAILURES = r"raise|assert|(?:error|exception|critical|fatal)(?:_once|_rank_?0)?|abort"
"""Warnings of frameworks are mostly advice on performance and on old options."""
SOURCES = {
    "nccl": Source(r"WARN", r"^src/.*\.(?:cc|h|cu)$"),
    "rccl": Source(r"WARN", r"^src/.*\.(?:cc|h|cu|cpp)$", table="nccl"),
    "aws-ofi-nccl": Source(r"NCCL_OFI_WARN", r"^(?:src|include)/.*\.(?:c|h|cpp)$"),
    "ucx": Source(
        r"ucs_(?:error|warn|fatal|log_fatal_error|warn_once)|uct_ib_log_.*error|UCS_\w*ERROR_LOG",
        r"^src/uc[mpst]/.*\.(?:c|h|cc|cpp|inl|cu)$",
        r"(?:^|/)(?:ugni|gaudi|ze|stats|vfs|exp)/",
    ),
    "libfabric": Source(
        r"FI_WARN(?:_ONCE|_SPARSE)?|EFA_WARN\w*|FI_LOG_WARN|vrb_warn\w*|VRB_WARN\w*",
        r"^(?:src|prov/(?:efa|verbs|tcp|rxm|rxd|util|shm|cxi|sm2|hook))/.*\.(?:c|h)$",
    ),
    "rdma-core": Source(
        r"fprintf|verbs_err(?:_datapath)?|verbs_warn|mlx5_err|mlx5_dbg_err",
        r"^(?:libibverbs|librdmacm|providers/(?:mlx5|efa|bnxt_re|irdma|erdma|mlx4))/.*\.(?:c|h)$",
        r"(?:^|/)(?:examples|tests|man)/|dr_dbg",
    ),
    "infiniband-diags": Source(
        r"IBERROR|IBEXIT|IBPANIC|IBWARN|IBND_ERROR|ERRS|xperror",
        r"^(?:infiniband-diags|libibmad|libibnetdisc|libibumad)/.*\.[ch]$",
        r"(?:^|/)(?:tests?|man|scripts)/",
    ),
    "slurm": Source(
        r"error|fatal|_error|cli_error|sattach_error",
        r"^src/(?:srun|salloc|sbatch|slurmd|slurmctld|slurmdbd|api|plugins/(?:mpi|switch|task|cgroup|proctrack|gres"
        r"|gpu|launch|cred|auth/munge)|interfaces)/.*\.(?:c|h)$|^src/common/(?:net|env"
        r"|slurm_protocol_\w+|slurm_errno|io_hdr|gres|forward|stepd_api|slurm_auth|slurm_cred"
        r"|slurm_resolv\w*|hostlist|eio|conmgr)\.c$",
        r"(?:^|/)(?:tests?|mpi/cray\w*|\w*cray_aries|switch/(?:nrt|hpe_slingshot))/",
        lists=r"/slurm_errno\.c$",
        least=2,
    ),
    "open-mpi": Source(
        r"(?:PML|MCA_COMMON|SPML|OSC)_UCX_(?:ERROR|WARN)|BTL(?:_PEER)?_ERROR",
        r"^(?:ompi|opal|orte)/.*help-[\w.-]*\.txt$|^ompi/errhandler/errcode\.c$"
        r"|^(?:ompi|opal)/mca/.*(?:ucx|btl).*\.[ch]$",
        r"/tools/(?!orterun|mpirun)|pmix3x|/usnic/|ugni/|portals4|snapc|sstore|/crs/|oshmem",
        lists=r"/errcode\.c$",
        least=3,
    ),
    "prrte": Source(
        "", r"^src/.*help-[\w.-]*\.txt$", r"help-(?:pcc|prte-info|pinfo)", "$^", 3, "open-mpi"
    ),
    "pmix": Source("", r"^src/.*help-[\w.-]*\.txt$", r"/tools/|/wrapper/", "$^", 3, "open-mpi"),
    "nvshmem": Source(
        r"NVSHMEMI_(?:NZ|NULL|NE|EQ)?_?(?:ERROR|WARN|EXIT)\w*|NVSHMEMI_\w+_(?:JMP|EXIT|PRINT)|ERROR|INFO_WARN",
        r"^src/(?:modules|host)/.*\.(?:cpp|cu|h|c)$",
        r"(?:^|/)(?:perftest|examples|tests?|stream)/|/coll/",
        least=2,
        joins=True,
    ),
    "perftest": Source(r"fprintf", r"^src/.*\.[ch]$", least=3),
    "mpich": Source(
        r"HYDU_(?:error_printf|dump_noprefix|ERR_\w+|dump)|PMIU_ERR_\w+|MPL_error_printf",
        r"^src/(?:.*errnames\.txt$|pm/hydra/.*\.[ch]$|pmi/.*\.[ch]$)",
        r"(?:^|/)(?:tests?|examples?|hydra2|tools/(?:bootstrap/(?:ll|lsf|sge|pbs)|ckpoint))/",
        lists=r"/errnames\.txt$",
    ),
    "pytorch": Source(
        r"TORCH_CHECK\w*|TORCH_WARN(?:_ONCE)?|C10_THROW_ERROR|C10D_(?:ERROR|WARNING|THROW_ERROR)"
        r"|runtime_error|str|format|recordError|LOG\((?:ERROR|FATAL|WARNING)\)",
        r"^torch/csrc/distributed/c10d/(?:Backend|FileStore|FlightRecorder|Gloo\w+|HashStore"
        r"|NCCLUtils|PrefixStore|ProcessGroup(?:Gloo|NCCL|Wrapper)?|Store|TCPStore\w*|Utils|Work"
        r"|reducer|socket)\.[ch]pp$"
        r"|^torch/distributed/(?:distributed_c10d|rendezvous|run|launch|constants)\.py$"
        r"|^torch/distributed/elastic/.*\.py$",
        least=3,
        joins=True,
    ),
    "vllm": Source(
        "",
        r"^vllm/(?:distributed/(?!ec_|weight_transfer|eplb).*|(?:v1/)?executor/.*|platforms/.*|ray/.*"
        r"|v1/engine/(?:core|core_client|coordinator|utils|async_llm)|device_allocator/.*"
        r"|engine/(?:arg_utils|async_llm_engine|multiprocessing/.*)|(?:v1/)?worker/(?:\w*worker|utils"
        r"|cpu_\w+)|v1/core/kv_cache_utils|config(?:/(?:parallel|device|cache|kv_transfer|vllm))?"
        r"|utils(?:/(?:network|mem|system|torch|nccl|numa|import)\w*|/__init__)?|entrypoints/launcher"
        r"|entrypoints/cli/serve|entrypoints/launchers/.*|envs?_?\w*)\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "ray": Source(
        "",
        r"^ray/(?:_private/(?!test)\w+|_private/accelerators/\w+|scripts/scripts|exceptions"
        r"|_common/\w+|experimental/(?:channel|rdt|gpu_object_manager)/\w+|dag/\w+"
        r"|util/(?:collective/.*|placement_group|scheduling_strategies|client/\w+)|worker"
        r"|_private/runtime_env/(?:agent/\w+|packaging|uv|pip|conda|image_uri|nsight)"
        r"|train/(?:_internal|torch|v2/(?:_internal|torch|api|jax))/.*|autoscaler/_private/\w+"
        r"|llm/_internal/serve/.*(?:vllm|placement|deployment).*)\.py$",
        r"(?:^|/)(?:tests?|examples?|test_utils|aws|gcp|azure|_azure|spark|local|vsphere|aliyun)/|/test_",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "sglang": Source(
        "",
        r"^sglang/(?:srt/(?:distributed/.*|disaggregation/.*|managers/(?:scheduler\w*|tp_worker\w*"
        r"|data_parallel_controller|tokenizer_manager|detokenizer_manager|cache_controller)"
        r"|entrypoints/engine|server_args|utils(?:/\w+)?|platforms/.*|mem_cache/(?:memory_pool_host"
        r"|hicache_storage)|eplb/\w+|elastic_ep/\w+|model_executor/(?:model_runner\w*"
        r"|pool_configurator)|layers/dp_attention)|launch_server|utils)\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "deepspeed": Source(
        "",
        r"^deepspeed/(?:comm/.*|launcher/.*|elasticity/.*|utils/(?:groups|torch|numa|zero_to\w*)|__init__"
        r"|runtime/(?:config|utils|comm/.*|pipe/(?:topology|p2p)|zero/(?:config|utils)|swap_tensor/.*)"
        r"|inference/engine)\.py$|^(?:accelerator|op_builder)/\w+\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "accelerate": Source(
        "",
        r"^accelerate/(?:state|accelerator|launchers|parallelism_config|commands/(?:launch|config/.*"
        r"|utils)|utils/(?:launch|operations|environment|imports|other))\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "megatron-core": Source(
        "",
        r"^megatron/core/(?:parallel_state|model_parallel_config|pipeline_parallel/\w+|nccl_allocator"
        r"|process_groups_config|hyper_comm_grid|num_microbatches_calculator|rerun_state_machine"
        r"|transformer/moe/(?:token_dispatcher|fused_a2a)|tensor_parallel/(?:mappings|utils|random))\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "lightning": Source(
        "",
        r"^lightning/(?:fabric|pytorch)/(?:plugins/environments/.*|accelerators/.*|connector|fabric"
        r"|strategies/(?:launchers/.*|d\w+|parallel|strategy|single_device)|utilities/(?:device\w*|port"
        r"|distributed)|trainer/connectors/accelerator_connector)\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "torch": Source(
        "",
        r"^torch/distributed/(?:device_mesh|_symmetric_memory/\w+|_functional_collectives\w*|_dist2|run"
        r"|launcher/\w+|distributed_c10d|rendezvous|elastic/.*|rpc/(?:api|backend_registry)"
        r"|flight_recorder/.*)\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "jax": Source(
        "",
        r"^jax/(?:_src/(?:distributed|xla_bridge|mesh_utils|multihost\w*|cloud_tpu\w*|clusters/.*"
        r"|hardware_utils)"
        r"|experimental/(?:multihost_utils|transfer|mesh_utils|multiprocess\w*)|distributed)\.py$",
        least=3,
        table="frameworks",
        python=_FAILURES,
    ),
    "opensm": Source(
        r"OSM_LOG|OSM_LOG_V2|osm_log|osm_log_v2",
        r"^(?:opensm/.*|libvendor/osm_vendor_ibumad\w*)\.c$",
        least=2,
        only="ERR [0-9A-Fa-f]{4}",
    ),
    "pyxis": Source(r"slurm_(?:error|spank_log|fatal)", r"^\w+\.c$", least=2, table="containers"),
    "enroot": Source(r"err|warn", r"^(?:src|conf)/.*\.sh(?:\.in)?$", least=2, table="containers"),
    "nvidia-container-toolkit": Source(
        r"Errorf|Fatalf?|Error|New",
        r"^(?:cmd|internal|pkg|tools/container)/.*\.go$",
        r"_test\.go$|(?:^|/)(?:third_party|vendor|testdata|tests?)/|_mock\.go$",
        least=3,
        table="containers",
    ),
    "k8s-device-plugin": Source(
        r"Errorf|Fatalf?|Error|New|Warningf",
        r"^(?:cmd|internal|api)/.*\.go$",
        r"_test\.go$|(?:^|/)(?:vendor|testdata|tests?)/|_mock\.go$",
        least=3,
        table="containers",
    ),
    "gpu-operator": Source(
        r"Errorf|Fatalf?|Error|New",
        r"^(?:cmd|validator|controllers|internal)/.*\.go$",
        r"_test\.go$|(?:^|/)(?:vendor|testdata|tests?)/|_mock\.go$",
        least=3,
        table="containers",
    ),
    "dcgm": Source(r"DCGM_FR_\w+_MSG", r"^dcgmlib/dcgm_errors\.h$", least=3),
    "nvidia-persistenced": Source(
        r"syslog|syslog_device|SYSLOG_VERBOSE",
        r"^nvidia-persistenced\.c$",
        least=3,
        table="nvidia-services",
    ),
    "nvidia-driver": Source(
        r"NV_PRINTF\(LEVEL_ERROR\)|nv_printf\(NV_DBG_ERRORS\)|nv_printf\(NV_DBG_WARNINGS\)"
        r"|NV_DEV_PRINTF\(NV_DBG_ERRORS\)|nvErrorLog2?_va|NV_ERROR_LOG|NV_INIT_ERROR|peer_err"
        r"|UVM_ERR_PRINT_ALWAYS",
        r"^kernel-open/(?:nvidia/(?:nv|os)-?\w*\.c|nvidia/linux_nvswitch\.c|nvidia-peermem/.*\.c)$"
        r"|^src/nvidia/(?:arch/nvalloc/unix/src|src/kernel/gpu_mgr|src/kernel/platform"
        r"|src/kernel/gpu/(?:arch|bif|bus|ccu|falcon|fifo|fsp|gsp|intr|mem_sys|mmu|nvlink|rc))/.*\.c$"
        r"|^src/nvidia/src/kernel/(?:gpu/gpu\w*|mem_mgr/(?:mem_(?:fabric|multicast)\w*|fabric_\w+))\.c$",
        r"(?:^|/)(?:sli|nbsi|chipset|vgpu|virtualization)/|gpu_acpi|osapi_\w*hda",
        least=3,
    ),
    "linux": Source(
        r"mlx5_core_(?:err|warn|err_rl|warn_once)|mlx5_ib_(?:err|warn)|netdev_(?:err|warn)"
        r"|(?:ib)?dev_(?:err|warn|crit|err_ratelimited)|pci_(?:err|warn)|pr_(?:err|warn|crit)",
        r"^drivers/(?:net/ethernet/mellanox/mlx5/core/(?:main|health|cmd|eq|events|fw|fw_reset"
        r"|pagealloc|port|pci_irq|lag/lag|dev|hwmon|en/health|en/reporter_\w+)"
        r"|infiniband/hw/(?:mlx5/(?:main|mr|odp|cq|qp|gsi)|efa/\w+|bnxt_re/(?:main|qplib_rcfw)"
        r"|irdma/(?:hw|main|i40iw_if))|pci/pcie/(?:aer|dpc)|edac/(?:edac_mc|amd64_edac))\.c$",
        least=3,
    ),
}
_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|[(),;]|\S",
    re.DOTALL,
)
_SPECIFIER = re.compile(r"%[-+ #0']*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|j|z|t|L|q)?[a-zA-Z]")
_ENTRY = re.compile(r"^\*\*\w[^:\n]*:(.*)$", re.MULTILINE)
"""A line of MPICH's lists of error texts."""
_REPORTS = re.compile(
    r"\b(?:abort|bad|can ?not|conflict|could not|detected|died|error|exceeded|exited|fail|"
    r"fatal|illegal|insufficient|invalid|invoked|lack|lost|malformed|mismatch|missing|"
    r"no (?:components|hosts|longer|network)|none of|not (?:able|found|enough|included|recognized|"
    r"supported)|refused|too (?:many|small)|unable|unexpected|unknown|unreachable|unrecognized|"
    r"unsupported|warning|wrong|was requested|were (?:not|specified)|would cause|you have)"
)
_TOPIC_LINES = 6
"""What tells a topic from the others; the rest is advice."""
_OPENING = 160
"""So many characters of a help topic say whether it reports something or only explains options."""
_FIELD = re.compile(r"\{[\w.!]*(?::[^{}]*)?\}")
"""An argument in a text for Python's or C++'s `format`."""
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]+|[0-7]{1,3}|.)")


@dataclass(slots=True)
class Message:
    """One message, over all releases that have it."""

    words: str
    file: str
    """Where it stands in the newest of them."""
    releases: list[str] = field(default_factory=list)


def formats(text: str, calls: re.Pattern[str], *, joins: bool = False) -> Iterator[str]:
    """The first text of each call of those functions, an argument within it as a gap.

    >>> next(formats('WARN("Bad %d " "of %s", a, b); // WARN("x")', re.compile("WARN")))
    'Bad … of …'
    >>> next(formats('LOG(ERROR) << "Bad " << a << " of {}";', re.compile("LOG"), joins=True))
    'Bad … of …'
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        if not match[0].startswith(("/*", "//", "\\")):
            tokens.append(match[0])
    for at in range(len(tokens) - 3):
        if tokens[at + 1].startswith('"') and calls.fullmatch(tokens[at]):
            yield _first_text(tokens, at + 1) or ""  # a macro that stands for the text
        name = tokens[at]
        if tokens[at + 3] in ("),"):
            name += f"({tokens[at + 2]})"
        if tokens[at + 1] == "(" and (calls.fullmatch(tokens[at]) or calls.fullmatch(name)):
            literal = _all_texts(tokens, at + 2) if joins else _first_text(tokens, at + 2)
            if literal is not None:
                yield literal


def _all_texts(tokens: Sequence[str], at: int) -> str | None:
    """All literals of the call whose arguments begin here, or of the stream that it begins."""
    depth, parts = 1, []
    is_stream = False
    while at < len(tokens) and tokens[at] != ";" and (depth > 0 or is_stream):
        token = tokens[at]
        parts.append(_plain(token[1:-1]) if token.startswith('"') else GAP)
        depth += (token == "(") - (token == ")")
        at += 1
        is_stream = is_stream or (depth == 0 and tokens[at] == "<")
    text = re.sub(rf"{GAP}(?:\s*{GAP})+", GAP, "".join(parts)).strip(GAP)
    return text or None


def _first_text(tokens: Sequence[str], at: int) -> str | None:
    """The adjacent literals that come first in the call whose arguments begin here."""
    depth, parts = 1, []
    while at < len(tokens) and depth:
        token = tokens[at]
        at += 1
        if token.startswith('"'):
            parts.append(_plain(token[1:-1]))
        elif parts and token[0].isalpha():
            parts.append(GAP)  # a macro between two literals: PRIu64, a name
        elif parts:
            break
        depth += (token == "(") - (token == ")")
    return "".join(parts) if parts else None


def _plain(literal: str) -> str:
    text = literal.replace("%%", "percent")
    return _SPECIFIER.sub(GAP, _FIELD.sub(GAP, _ESCAPE.sub(_unescaped, text)))


def _unescaped(match: re.Match[str]) -> str:
    return {"\\n": f" {GAP} ", "\\t": " ", "\\r": " "}.get(match[0], match[0][-1])


def raised(text: str, kinds: re.Pattern[str]) -> Iterator[str]:
    """What Python code raises, asserts or logs by these statements and functions.

    >>> next(raised('raise ValueError(f"Bad {a} of " + "lane")', re.compile("raise")))
    'Bad … of lane'
    >>> next(raised('assert a, "lanes differ"', re.compile("assert")))
    'lanes differ'
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Assert(msg=ast.expr() as message) if kinds.fullmatch("assert"):
                yield _message(message)
            case ast.Raise(exc=ast.Call(args=[message, *_])) if kinds.fullmatch("raise"):
                yield _message(message)
            case ast.Call(func=function, args=[message, *_]):
                if kinds.fullmatch(ast.unparse(function).rpartition(".")[2]):
                    yield _message(message)


def _message(node: ast.expr) -> str:
    return _plain(_python_text(node)).strip(GAP)


def _python_text(node: ast.expr) -> str:
    """Its literals, with a gap for each other part."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_python_text, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _python_text(left) + _python_text(right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return _python_text(left)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _python_text(text)
    return GAP


def topics(text: str) -> Iterator[str]:
    """The topics of one help file: each its lines, with a gap where one ends."""
    for topic in re.split(r"^\[[^\]\n]+\][^\n]*$", _without_comments(text), flags=re.MULTILINE)[1:]:
        lines = [_plain(line) for line in topic.splitlines() if line.strip()]
        if _REPORTS.search(" ".join(lines)[:_OPENING].lower()):
            yield f" {GAP} ".join(lines[:_TOPIC_LINES])


def entries(text: str) -> Iterator[str]:
    """All texts of a list of error texts, in C or in MPICH's own form."""
    found = [match[1] for match in _ENTRY.finditer(text)]
    if not found:
        tokens = (match[0] for match in _TOKEN.finditer(text))
        found = [token[1:-1] for token in tokens if re.match(r'"(?![\w/]+\.h")', token)]
    yield from map(_plain, found)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def extracted(writer: str, repository: Path, tags: Sequence[str]) -> list[Message]:
    """All messages of these releases, by file and words."""
    source = SOURCES[writer]
    paths, skip, calls = (re.compile(each) for each in (source.paths, source.skip, source.calls))
    extract: dict[str, Message] = {}
    known: dict[str, tuple[str, ...]] = {}
    for tag in tags:
        blobs = []
        for blob, path in _files(repository, tag):
            if paths.search(path) and not skip.search(path):
                blobs.append((blob, path))
        lists = {blob for blob, path in blobs if re.search(source.lists, path)}
        new = [each for each in blobs if each[0] not in known]
        for (blob, path), text in _contents(repository, new):
            if path.endswith(".py"):
                texts = raised(text, re.compile(source.python))
            elif blob in lists:
                texts = entries(text)
            else:
                texts = _texts(text, calls, source.joins)
            own = (each for each in texts if re.search(source.only, each))
            telling = (each for each in map(words, own) if _is_telling(each, source.least))
            known[blob] = tuple(dict.fromkeys(telling))
        for blob, path in blobs:
            for each in known[blob]:
                message = extract.setdefault(each, Message(each, path))
                message.file = path
                if tag not in message.releases:
                    message.releases.append(tag)
    return sorted(extract.values(), key=lambda message: (message.file, message.words))


def _is_telling(text: str, least: int) -> bool:
    """It has so many fixed words in a row: what only passes on a text cannot be known by its own."""
    runs = [len(run.split()) for run in text.split(GAP)]
    return sum(runs) > 1 and max(runs) >= least


def _texts(text: str, calls: re.Pattern[str], joins: bool) -> Iterator[str]:
    is_help = re.search(r"^\[[\w:. -]+\]\s*$", text, re.MULTILINE) and "#include" not in text
    return topics(text) if is_help else formats(text, calls, joins=joins)


def _files(repository: Path, tag: str) -> Iterator[tuple[str, str]]:
    """(blob, path) of each file of a release."""
    for line in _git(repository, "ls-tree", "-r", tag).decode().splitlines():
        mode, path = line.split("\t", 1)
        _, kind, blob = mode.split()
        if kind == "blob":
            yield blob, path


def _contents(
    repository: Path, blobs: Sequence[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], str]]:
    names = "".join(f"{blob}\n" for blob, _ in blobs)
    output = _git(repository, "cat-file", "--batch", stdin=names.encode())
    at = 0
    for each in blobs:
        end = output.index(b"\n", at)
        size = int(output[at:end].split()[-1])
        yield each, output[end + 1 : end + 1 + size].decode("utf-8", "replace")
        at = end + 2 + size


def _git(repository: Path, *args: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ("git", "-C", str(repository), *args), input=stdin, capture_output=True, check=True
    ).stdout


def unmapped(writer: str, extract: Sequence[Message]) -> list[Message]:
    """Those that the table of the writer has not."""
    lookup = messages.lookup(SOURCES[writer].table or writer)
    return [message for message in extract if lookup.find(message.words) is None]


def fixed_words(extract: Iterable[Message]) -> str:
    """What tests keep of the messages: first and last release, and the hashes of the words."""
    lines = []
    for message in extract:
        lines.append(f"{message.releases[0]} {message.releases[-1]} {hashed(message.words)}\n")
    return "".join(sorted(lines))


def coverage(extract: Sequence[Message], missing: Sequence[Message], tags: Iterable[str]) -> str:
    """How many messages of each release the table has."""
    lines = []
    for tag in tags:
        total = sum(tag in message.releases for message in extract)
        lost = sum(tag in message.releases for message in missing)
        if total:
            lines.append(f"{tag}: {total - lost} of {total} = {(total - lost) / total:.0%}\n")
    return "".join(lines)


def main() -> None:
    """Print the coverage of each release, or what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("writer", choices=sorted(SOURCES))
    parser.add_argument("repository", type=Path)
    parser.add_argument("tags", nargs="+", metavar="TAG")
    parser.add_argument("--words", type=Path, metavar="FILE", help="write the hashes for the test")
    parser.add_argument("--missing", action="store_true", help="print what no table has")
    options = parser.parse_args()
    extract = extracted(options.writer, options.repository, options.tags)
    if options.words:
        options.words.write_text(fixed_words(extract))
    table = SOURCES[options.writer].table or options.writer
    has_table = any(each.writer == table for each in messages.writers())
    missing = unmapped(options.writer, extract) if has_table else extract
    if options.missing:
        for message in missing:
            sys.stdout.write(f"{message.releases[0]} {message.file}  {message.words}\n")
    else:
        sys.stdout.write(coverage(extract, missing, options.tags))


if __name__ == "__main__":
    main()
