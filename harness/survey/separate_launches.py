"""Rounds of groups for binaries that cannot time several groups in one launch: one mpirun per group,
all at once from the head node.

They are one job: started, watched and ended together. Every line of their output begins with the
number of its group.
"""

from __future__ import annotations

import dataclasses
import shlex

from busbw.assess import launches
from busbw.model import BenchmarkCase, Sizes
from busbw.parsers.nccl_tests import groups, proof
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import Launch
from busbw.survey.schedule import Round
from busbw.text import decoded

_STEP = 1 << 12
"""Between the sizes of the rows, which every version prints: five rows are nearly the same size,
and five values."""
_ONE = """\
one() { k=$1; shift; { "$@"; echo "exit $?"; } | { r=1; while IFS= read -r l; do
case $l in "exit "*) r=${l#exit } ;; esac; printf '@%s %s\\n' "$k" "$l"; done; exit "$r"; }; }
s=0; pids=
"""
_ALL = 'for p in $pids; do wait "$p" || s=$?; done\nexit $s\n'


def required_because(context: Context, place: Place) -> str:
    """Why groups need separate launches: what the binary printed in the launches before; empty =
    they do not."""
    for launch in launches.load(context.run, place.known):
        path = launch.artefact.stdout
        if launch.artefact.groups or not launch.results or path is None:
            continue
        version = launch.results[-1].tests_version or proof.dialect_of(
            decoded(context.run.kept(path))
        )
        if not groups.too_old(version):
            return ""
        needed = ".".join(map(str, groups.SINCE))
        reported = "prints no version of nccl-tests"
        if version:
            reported = f"is nccl-tests {version}"
        return f"the binary {reported}; one launch times all groups only from {needed} on"
    return ""


def possible(context: Context) -> bool:
    """The launcher starts anywhere by itself, so that several can run at the same time."""
    return context.plan.cluster.launcher in (None, "mpirun")


def case_of(case: BenchmarkCase) -> BenchmarkCase:
    """The same round for every version: no split and no times of iterations, but a few rows."""
    smallest = case.sizes.minimum_bytes
    return dataclasses.replace(
        case,
        sizes=Sizes(smallest, smallest + (groups.ROWS - 1) * _STEP, None, _STEP),
        iterations=max(1, -(-case.iterations // groups.ROWS)),
        blocking=0,
        per_iteration=False,
        json=False,
        split=None,
        by_rail=False,
    )


def launch(
    context: Context, place: Place, case: BenchmarkCase, round_: Round, *, order: int
) -> Launch:
    """All groups of a round, each by its own launcher.

    Raises:
        LaunchError: the head node has no usable mpirun.
        UsageError: the launcher cannot express the case.
    """
    single = [
        make(context.plan, place, case, group, order=order, groups=(group,))
        for group in round_.groups
    ]
    starts = [
        f'one {number} {shlex.join(each.invocation.argv)} & pids="$pids $!"\n'
        for number, each in enumerate(single)
    ]
    first = single[0].invocation
    invocation = dataclasses.replace(
        first,
        argv=("sh", "-c", "".join((_ONE, *starts, _ALL))),
        nodes=round_.order(),
        nranks=sum(each.invocation.nranks for each in single),
    )
    return dataclasses.replace(
        single[0], invocation=invocation, nodes=round_.order(), groups=round_.groups
    )
