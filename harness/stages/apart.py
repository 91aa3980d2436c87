"""Rounds of groups for binaries that cannot measure several groups in one launch: one launcher for each group, all at once from the head node.

They are one job: started, watched, looked at and ended together. Every line that they print says which group it belongs to.
"""

from __future__ import annotations

import dataclasses
import shlex

from busbw.derive import launches
from busbw.outside import decoded
from busbw.parsers.formats import payload
from busbw.parsers.judge import groups_apart
from busbw.records import BenchmarkCase, Invocation, Sizes
from busbw.stages.context import Context
from busbw.stages.launching import Place, make
from busbw.stages.measure import Launch
from busbw.survey.schedule import Round

_STEP = 1 << 12
"""Between the sizes of the rows, which every version prints: five rows are nearly the same size, and five values."""
_ONE = """\
one() { k=$1; shift; { "$@"; echo "exit $?"; } | { r=1; while IFS= read -r l; do
case $l in "exit "*) r=${l#exit } ;; esac; printf '@%s %s\\n' "$k" "$l"; done; exit "$r"; }; }
s=0; pids=
"""
_ALL = 'for p in $pids; do wait "$p" || s=$?; done\nexit $s\n'


def why(context: Context, place: Place) -> str:
    """Why groups must be launched one by one: what the binary says of itself in the launches before; empty = they need not be."""
    for launch in launches.load(context.run, place.known):
        path = launch.artefact.stdout
        if launch.artefact.groups or not launch.results or path is None:
            continue
        version = launch.results[-1].tests_version or payload.speaks(decoded(context.run.read_raw(path.removeprefix("raw/"))))
        if groups_apart.too_old(version):
            needed = ".".join(map(str, groups_apart.SINCE))
            told = f"is nccl-tests {version}" if version else "prints no version of nccl-tests"
            return f"the binary {told}, and only from {needed} on does one launch time all its groups"
        return ""
    return ""


def case_of(case: BenchmarkCase) -> BenchmarkCase:
    """The same round with what every version has: no split, no times of iterations, a few rows in their place."""
    least = case.sizes.minimum_bytes
    return dataclasses.replace(
        case,
        sizes=Sizes(least, least + (groups_apart.ROWS - 1) * _STEP, None, _STEP),
        iterations=max(1, -(-case.iterations // groups_apart.ROWS)),
        blocking=0,
        per_iteration=False,
        json=False,
        split=None,
        by_rail=False,
    )


def launch(context: Context, place: Place, case: BenchmarkCase, number: Round, *, order: int) -> Launch:
    """All groups of a round, each by a launcher of its own.

    Raises:
        LaunchError: the head node has no usable mpirun.
        UsageError: the launcher cannot express the case.
    """
    single = [make(context.plan, place, case, group, order=order, groups=(group,)) for group in number.groups]
    starts = [f'one {k} {shlex.join(each.invocation.argv)} & pids="$pids $!"\n' for k, each in enumerate(single)]
    first = single[0]
    invocation = Invocation(
        case_id=case.id,
        argv=("sh", "-c", "".join((_ONE, *starts, _ALL))),
        env=first.invocation.env,
        nodes=number.order(),
        timeout_s=first.invocation.timeout_s,
        nranks=sum(each.invocation.nranks for each in single),
    )
    return dataclasses.replace(first, invocation=invocation, nodes=number.order(), groups=number.groups)


def possible(context: Context) -> bool:
    """The launcher starts by itself wherever it is told to, so that several run side by side."""
    return context.plan.cluster.launcher in (None, "mpirun")
