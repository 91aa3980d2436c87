"""A call that failed: what it was about and the system's word for why say together more than
either alone.

Every program prints the same words for an error number, and names the file, the device or the call
before them. The table below gives the cause of each pair, whoever wrote the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View, places
from busbw.parsers.findings.rules import Fires, Rule, Watch

_ERRORS: Mapping[str, str] = {
    "access": r"Permission denied|Operation not permitted",
    "missing": r"No such file or directory|No such device or address|command not found",
    "memory": r"Cannot allocate memory|Out of memory",
    "again": r"Resource temporarily unavailable",
    "busy": r"Device or resource busy",
    "full": r"No space left on device",
    "address": r"Bad address",
    "in-use": r"Address already in use",
    "invalid": r"Invalid argument",
    "no-device": r"No such device\b(?! or)",
    "name": r"Name or service not known|No address associated with hostname|nodename nor servname"
    r"|Temporary failure in name resolution|unable to get host address for",
    "read-only": r"Read-only file system|Stale file handle|Input/output error",
}
"""Kind of error → the words of the C library for it."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a call was about."""

    words: str
    causes: Mapping[str, tuple[tuple[str, Weight], ...]]
    """Kind of error → (entry, weight)."""


_STRONG, _WEAK = Weight.STRONG, Weight.WEAK
_SUBJECTS = (
    _Subject(r"\bshmget", {"full": (("sysv-shm-limit", _STRONG),)}),
    _Subject(
        r"/dev/shm|\bshm_open|\bshmat|shared memory|\bshm_?seg\w*|\bshm\w* (?:failed|attach)",
        {
            "full": (("shm-too-small", _STRONG),),
            "memory": (("shm-too-small", _WEAK),),
            "missing": (("shm-removed-by-systemd", _WEAK), ("ipc-namespace-split", _WEAK)),
            "invalid": (("ipc-namespace-split", _WEAK),),
        },
    ),
    _Subject(
        r"/dev/infiniband|\buverbs\d|/dev/hfi\d|\bissm\d|\bumad|/dev/rdma_cm",
        {
            "access": (("container-no-ib-devices", _STRONG),),
            "missing": (("container-no-ib-devices", _STRONG),),
        },
    ),
    _Subject(
        r"/dev/nvidia|/dev/kfd|/dev/dri\b|nvidia-uvm|nvidia-caps",
        {
            "access": (("gpu-driver-not-visible", _STRONG),),
            "missing": (("gpu-driver-not-visible", _WEAK), ("gpu-missing", _WEAK)),
        },
    ),
    _Subject(
        r"\borted|\bprted|\bhydra_\w+|\bpmi_proxy|\borterun",
        {
            "access": (("orted-not-found", _STRONG),),
            "missing": (("orted-not-found", _STRONG),),
        },
    ),
    _Subject(
        r"\bpthread_create|\bfork\b|\bvfork|\bclone\(|\bthread",
        {"again": (("thread-limit", _STRONG),)},
    ),
    _Subject(
        r"\b(?:hfi|PSM)",
        {
            "again": (("memlock-limit", _WEAK),),
            "memory": (("memlock-limit", _WEAK),),
            "busy": (("omni-path-contexts-exhausted", _STRONG),),
            "access": (("container-no-ib-devices", _WEAK),),
        },
    ),
    _Subject(
        r"reg_mr|\bmlock|\bpin(?:ned|ning)?\b|create_(?:qp|cq|srq)|alloc_pd|regist\w+ (?:memory|mr)",
        {
            "memory": (("memlock-limit", _WEAK),),
            "again": (("memlock-limit", _WEAK),),
            "address": (("peermem-missing", _WEAK),),
        },
    ),
    _Subject(
        r"create_ah|modify_qp",
        {"no-device": (("rdma-netns-mismatch", _WEAK), ("gid-index-forced", _WEAK))},
    ),
    _Subject(r"^(?!.*UDS).*\b(?:bind|listen)\b", {"in-use": (("rendezvous-port-in-use", _WEAK),)}),
    _Subject(r"^(?!.*IPv6 network addresses)", {"name": (("name-resolution-failed", _WEAK),)}),
)
"""In order: the first subject that has a cause for the error counts."""

_FAILED = Watch("failed", "|".join(_ERRORS.values()))
_OTHER = Watch(
    "other",
    r"\bibv_\w+\b.*failed.*(?:No such device|Invalid argument|No route to host|timed out"
    r"|not supported|Protocol not|Bad address)",
)
_KINDS = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _ERRORS.items())


def _judge(view: View) -> Iterator[Clue]:
    lacks_memory = False
    for line in view.sightings(_FAILED.name):
        if " INFO " in line.text:
            continue
        for entry, weight in _causes(line.text):
            lacks_memory = lacks_memory or entry == "memlock-limit"
            yield line.clue(entry, weight, "nccl-log", places(line.text))
    if not lacks_memory:
        for line in view.sightings(_OTHER.name)[:1]:
            yield line.clue("memlock-limit", Weight.EXCLUDES, "nccl-log")


def _causes(line: str) -> tuple[tuple[str, Weight], ...]:
    """Entries that the line points at, with their weights."""
    for kind, words in _KINDS:
        error = words.search(line)
        if error is None:
            continue
        for subject in _SUBJECTS:
            if kind in subject.causes and re.search(subject.words, line, re.IGNORECASE):
                return subject.causes[kind]
    return ()


RULE = Rule(
    name="failed-calls",
    conclusion=(
        "The file, device or call that a line names, and the error of the system behind it, give "
        "the cause together."
    ),
    watches=(_FAILED, _OTHER),
    judge=_judge,
    fires=(
        Fires(
            "hfi_userinit: mmap of rcvhdrq at dabbad0004 failed: Resource temporarily unavailable\n",
            (("memlock-limit", "weak"),),
        ),
        Fires(
            "slurmstepd: error: execve(): prted: No such file or directory\n",
            (("orted-not-found", "strong"),),
        ),
        Fires(
            "TL_SHM ERROR Child failed to attach to shmseg, errno: Invalid argument\n",
            (("ipc-namespace-split", "weak"),),
        ),
        Fires(
            "E9 a.cc:7] no address of head-0 (gai error: -2 - Name or service not known)\n",
            (("name-resolution-failed", "weak"),),
        ),
        Fires(
            "open /dev/infiniband/uverbs0: Permission denied\n",
            (("container-no-ib-devices", "strong"),),
        ),
        Fires(
            "a:1:2 [0] ibvwrap.cc:205 NCCL WARN Call to ibv_create_ah failed with error No such "
            "device\n",
            (("rdma-netns-mismatch", "weak"), ("memlock-limit", "excludes")),
        ),
    ),
    silent=(
        "a:1:2 [0] NCCL INFO /dev/infiniband/uverbs0: Permission denied\n",
        "cat: notes.txt: Permission denied\n",
    ),
)
