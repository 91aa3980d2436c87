"""Entries whose own words are like those of a failure that no entry knows: a text search (BM25) over
the catalogue. What it gives shares words with the line and nothing else, so it is possible only.
Searched for its own examples, each left out of its entry, it has the right entry among the first
three in 63 of 100 (tests/unit/test_similar.py).

>>> [name for name, _ in search("NVSwitch: link 12 of the switch reports an SXid")][:1]
['nvswitch-sxid']
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.fabrics.profiles import families
from busbw.parsers.findings.catalogue import Entry, Role, load

_SATURATION, _LENGTH = 1.2, 0.75
"""BM25's k1 and b, in the ranges that Robertson and Zaragoza (2009) give: how soon a repeated
word adds nothing, and how much a long entry is held against it."""
_LEAST_WORDS = 2
"""Words that an entry and a line must share: one is chance."""
_LEAST_SCORE = 7
"""A word that one entry alone has weighs 5: less than one and a half of them is chance."""
STRANGER_SCORE = 15
"""Where no line near the failure has a word of this field, as in the errors of applications: three
words that one entry alone has."""
_NEAR = 0.5
"""Weight of a word that only lines near the failure have."""
_TITLE_WEIGHT = 3
_MOST = 3
_ROLES = (Role.CAUSE, Role.STATE)
"""A consequence is no guess at what a line that nobody knows says."""
_PATH = re.compile(r"(?:/[\w.@+-]+){2,}/?|\w+\.(?:cc|cpp|cu|cuh|c|h|py):\d+")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")
_FIELD = re.compile(
    r"NCCL|RCCL|CUDA|\bGPU|NVLink|NVSwitch|Infini[Bb]and|\bibv_|\bmlx\d|\bUCX|\bMPI|mpirun|libfabric"
    r"|\bPSM\d?\b|PSM2|\bhfi_|\bhfi1_|\bucs_|\bucp_|\buct_|\bfi_[a-z]|\bcu[A-Z]\w{4}|nvcc|\.cuh?\b"
    r"|[Tt]orch|[Bb]roadcast|all_?(?:reduce|gather)|\b[Rr]ank\b|srun|[Ss]lurm|NIC\b|RDMA|RoCE"
    r"|[Nn][Vv][Ii][Dd][Ii][Aa]|ROCm|\bHIP\b|amdgpu|\bPML\b|\borted\b|\bprted\b|c10d|[Gg]loo\b"
    r"|IMEX|munge|[Pp]rolog|JobI[Dd]|\bPod\b|\bpods?/|nodes are available|OFI\b|MCA\b"
    r"|\b(?:ray|raylet|jax|jaxlib|vllm|sglang|deepspeed|megatron|lightning|accelerate|horovod)\b"
    r"|XLA|xla_|\bTPU|\bRay\b|DeepSpeed|PjRt|EngineCore|enroot|pyxis|slurmd?\b|sbatch|salloc"
    r"|OpenSM|opensm|\bib(?:stat|v|ping|diag|panic|warn|error|netdiscover|linkinfo)|ibdev"
    r"|\bHCA\b|\bbnxt_|irdma|\befa\b|\bgve\b|\bena \d|\bEDAC\b|nvme\w* nvme\d|nvme\dn\d"
    r"|^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:\[[\w.]+\] )?(?:error|fatal): |libmpi\.so|/mpid/"
    r"|[Vv]llm|[Ee]ngine core|\bDDP\b|loss scale|\bib_(?:write|read|send)_|perfquery|amdgpu|sriov"
    r"|\bTP\d|[Mm]ultiproc|mpiexec|ibwarn|iberror|Watchdog"
    r"|\b\w+ [\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d: |[Rr]dma[A-Z_]|RNIC|[Tt]ensor[Ff]low|bnx2x|\bqede?_?"
    r"|Lustre|pciehp|\bAER\b|[Rr]endezvous|libfabric|nccl|rccl|\bHYD[TU]_|\bMPI[DR]|PMIX?\b|OPAL"
)
"""Words of this field."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


@dataclass(frozen=True, slots=True)
class Index:
    """The words of all entries."""

    counts: tuple[tuple[str, Counter[str]], ...]
    """(id, word → how often)."""
    weights: dict[str, float]
    """Word → how much it says: the rarer, the more."""
    mean_words: float


def words(text: str) -> list[str]:
    """The words of a text in small letters, without paths and numbers; a name made of parts gives
    its parts too, and is the same whether humps or underscores join them.

    >>> words("/opt/x/y.cc:12 ibv_reg_mr failed: socketPollConnect 12")
    ['ibvregmr', 'ibv', 'reg', 'failed', 'socketpollconnect', 'socket', 'poll', 'connect']
    """
    kept = []
    for match in _WORD.finditer(_PATH.sub(" ", text)):
        parts = _HUMP.split(match[0])
        kept += [match[0].replace("_", ""), *(parts if len(parts) > 1 else ())]
    return [_stem(word.lower()) for word in kept if len(word) > 2]


def is_of_field(line: str) -> bool:
    """It has a word of this field; a text without any such line tells of somebody else's failure."""
    return _FIELD.search(line) is not None


def _stem(word: str) -> str:
    """One form for one and many."""
    if len(word) > 4 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _text(symptom: Entry) -> str:
    """What an entry says of itself; its examples are its words too."""
    parts = [symptom.title] * _TITLE_WEIGHT
    parts += [symptom.id.replace("-", " "), symptom.cause, symptom.explanation, symptom.trust]
    for step in symptom.fix:
        parts += (step.do, *step.run)
    for signal in symptom.signals:
        parts += signal.matches
    return " ".join(parts)


@functools.cache
def index() -> Index:
    """The index of the packaged catalogue. Built when a line is first looked up."""
    counts = []
    for symptom in load().entries:
        if symptom.role in _ROLES:
            counts.append((symptom.id, Counter(words(_text(symptom)))))
    users: Counter[str] = Counter()
    for _, each in counts:
        users.update(each.keys())
    weights = {}
    for word, many in users.items():
        weights[word] = math.log(1 + (len(counts) - many + 0.5) / (many + 0.5))
    mean = sum(each.total() for _, each in counts) / len(counts)
    return Index(tuple(counts), weights, mean)


def search(
    line: str, fabrics: Iterable[str] = (), *, near: Iterable[str] = (), most: int = _MOST
) -> tuple[tuple[str, float], ...]:
    """The entries most like the line, best first, with their scores. Entries of a provider only
    where it is one of `fabrics`.

    Args:
        near: lines that belong to it: words that only they have count less.
    """
    known = index()
    shares = dict.fromkeys(words(" ".join(near)), _NEAR)
    shares.update(dict.fromkeys(words(line), 1.0))
    query = sorted(shares.keys() & known.weights.keys())
    scores = []
    for name, counts in known.counts:
        shared = [word for word in query if counts[word]]
        if len(shared) >= _LEAST_WORDS and _is_of(load().by_id[name], fabrics):
            score = math.fsum(shares[word] * _score(word, counts, known) for word in shared)
            if score >= _LEAST_SCORE:
                scores.append((name, score))
    scores.sort(key=lambda pair: (-pair[1], pair[0]))
    return tuple(scores[:most])


def _score(word: str, counts: Counter[str], known: Index) -> float:
    length = 1 - _LENGTH + _LENGTH * counts.total() / known.mean_words
    return (
        known.weights[word]
        * counts[word]
        * (_SATURATION + 1)
        / (counts[word] + _SATURATION * length)
    )


def _is_of(symptom: Entry, fabrics: Iterable[str]) -> bool:
    needy = {name for name, family in families().items() if family.needs_mark}
    return not set(symptom.fabrics) <= needy or bool(set(symptom.fabrics) & set(fabrics))
