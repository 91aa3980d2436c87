"""An error of ibverbs that is not about memory: the limit of locked memory is not what failed."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_LACKS = Watch(
    "lacks memory",
    r"(?:reg_mr|\bmlock|\bpin(?:ned|ning)?\b|create_(?:qp|cq|srq)|alloc_pd|regist\w+ (?:memory|mr)"
    r"|\bhfi|\bPSM).*(?:Cannot allocate memory|Out of memory|Resource temporarily unavailable)",
)
_OTHER = Watch(
    "other",
    r"\bibv_\w+\b.*failed.*(?:No such device|Invalid argument|No route to host|timed out"
    r"|not supported|Protocol not|Bad address)",
)


def _judge(view: View) -> Iterator[Clue]:
    if not view.sightings(_LACKS.name):
        for line in view.sightings(_OTHER.name)[:1]:
            yield line.clue("memlock-limit", Weight.EXCLUDES, "nccl-log")


RULE = Rule(
    name="memory-limit",
    conclusion="An error of ibverbs that is not about memory rules out the limit of locked memory.",
    watches=(_LACKS, _OTHER),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] ibvwrap.cc:205 NCCL WARN Call to ibv_create_ah failed with error No such "
            "device\n",
            (("memlock-limit", "excludes"),),
        ),
    ),
    silent=(
        "a:1:2 [0] NCCL WARN Call to ibv_create_ah failed with error No such device\n"
        "a:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n",
        "a:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n",
    ),
)
